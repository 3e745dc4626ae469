"""Checks parameter changes of a running node by the node's method `check`, which may be slow, on a separate thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from nodes.hosting.wakeup import WakeupPipe
from nodes.transport.service import Request


class ParameterChecks:
    """Checks `set_parameters` requests on a separate thread.

    Call `begin` for each request. When a check has ended, the pipe `wake` becomes readable: then call `take`.

    require  function that raises ValueError for invalid changed parameters; called on the separate thread
    """

    def __init__(self, require: Callable[[dict[str, Any]], None], wake: WakeupPipe) -> None:
        self._require, self._wake = require, wake
        self._checked: deque[tuple[Request, str]] = deque()
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="parameters")  # one worker keeps the order

    def begin(self, request: Request) -> None:
        """Start to check the parameters of a request."""

        def done(check: Future[None]) -> None:
            if check.cancelled():
                return
            error = check.exception()
            refusal = "" if error is None else str(error) if isinstance(error, ValueError) else f"{error!r}"
            self._checked.append((request, refusal))
            self._wake.set()

        self._pool.submit(self._require, request.call.args).add_done_callback(done)

    def take(self) -> Iterator[tuple[Request, str]]:
        """Yield (request, reason for refusing it) for each request checked since the previous call.

        The reason is "" if the request is valid.
        """
        while self._checked:
            yield self._checked.popleft()

    def close(self) -> None:
        """Wait for the check in progress, and cancel all others."""
        self._pool.shutdown(cancel_futures=True)
