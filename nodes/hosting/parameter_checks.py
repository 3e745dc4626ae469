"""A node's `check` of parameters that are to change while it runs: on a thread, as it may take a while."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from nodes.hosting.wakeup import WakeupPipe
from nodes.transport.service import Request


class ParameterChecks:
    """Requests `set_parameters` on their way: `begin` one, and `take` those that were checked once `wake` is set.

    require  raises ValueError for parameters that cannot be; called on another thread
    """

    def __init__(self, require: Callable[[dict[str, Any]], None], wake: WakeupPipe) -> None:
        self._require, self._wake = require, wake
        self._checked: deque[tuple[Request, str]] = deque()
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="parameters")  # one: in order

    def begin(self, request: Request) -> None:
        """Check what a request would set."""

        def done(check: Future[None]) -> None:
            if check.cancelled():
                return
            error = check.exception()
            refusal = "" if error is None else str(error) if isinstance(error, ValueError) else f"{error!r}"
            self._checked.append((request, refusal))
            self._wake.set()

        self._pool.submit(self._require, request.call.args).add_done_callback(done)

    def take(self) -> Iterator[tuple[Request, str]]:
        """(request, why it is refused or "") of all that were checked since this was last asked."""
        while self._checked:
            yield self._checked.popleft()

    def close(self) -> None:
        """Wait for the check that is under way, and begin no other."""
        self._pool.shutdown(cancel_futures=True)
