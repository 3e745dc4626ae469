"""Calls of services of a live domain that the browser view makes beside its drawing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from nodes.framework.client import Client, NotLiveError, UnknownNameError
from nodes.framework.transport.registry import RegistryError
from nodes.framework.transport.service import ServiceError

UNREACHABLE = (ServiceError, NotLiveError, UnknownNameError, RegistryError, OSError)
Work = Callable[[Client], None]


class Calls:
    """Calls of services of a domain, one after the other, beside the drawing; `tell` gets each refusal as one line."""

    def __init__(self, domain: int, tell: Callable[[str], None]) -> None:
        self._domain, self._tell = domain, tell
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="web-calls")
        self._waiting: set[str] = set()
        self._guard = threading.Lock()

    def run(self, work: Work, is_quiet: bool = False, unless_waiting: bool = False) -> None:
        """Run `work` with a client.

        is_quiet        whether a refusal is not told
        unless_waiting  do nothing if the function of this name waits already for its turn
        """
        name = work.__qualname__
        with self._guard:
            if unless_waiting and name in self._waiting:
                return
            self._waiting.add(name)

        def attempt() -> None:
            with self._guard:
                self._waiting.discard(name)
            try:
                with Client(self._domain) as client:
                    work(client)
            except UNREACHABLE as error:
                if not is_quiet:
                    self._tell(f"⚠ {error}")

        self._pool.submit(attempt)

    def close(self) -> None:
        """Cancel the calls that have not started."""
        self._pool.shutdown(wait=False, cancel_futures=True)
