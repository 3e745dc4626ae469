"""Calls services for the window on a separate thread, so that a slow node does not stop the drawing."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyqtgraph.Qt import QtCore

from nodes.framework.client import Client, NotLiveError, UnknownNameError
from nodes.framework.transport.registry import RegistryError
from nodes.framework.transport.service import ServiceError

Then = Callable[[Any], None]


class ServiceCalls(QtCore.QObject):
    """Calls services of a domain on a thread of its own, one after the other.

    failed  Qt signal with one line of text, for each call that was refused or not answered
    """

    failed = QtCore.pyqtSignal(str)
    _answered = QtCore.pyqtSignal(object, object, str, bool)

    def __init__(self, domain: int) -> None:
        super().__init__()
        self.domain = domain
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="viewer-calls")
        self._urgent = ThreadPoolExecutor(max_workers=1, thread_name_prefix="viewer-stop")
        self._closed = False
        self._answered.connect(self._deliver)

    def call(self, node: str, service: str, then: Then | None = None, quiet: bool = False, **arguments: Any) -> None:
        """Call a service.

        then   function that is called with the response, on the window's thread
        quiet  whether to suppress the signal `failed`
        """
        self.run(lambda client: client.call(node, service, **arguments), then, quiet)

    def run(
        self, work: Callable[[Client], Any], then: Then | None = None, quiet: bool = False, urgent: bool = False
    ) -> None:
        """Run `work` with a client on the thread for service calls.

        then    function that is called with the result of `work`, on the window's thread
        quiet   whether to suppress the signal `failed`
        urgent  whether to start at once, without waiting for earlier calls
        """
        if not self._closed:
            (self._urgent if urgent else self._pool).submit(self._work, work, then, quiet)

    def close(self) -> None:
        """Cancel the calls that have not started."""
        self._closed = True
        for pool in (self._pool, self._urgent):
            pool.shutdown(wait=False, cancel_futures=True)

    def _work(self, work: Callable[[Client], Any], then: Then | None, quiet: bool) -> None:
        result, error = None, ""
        try:
            with Client(self.domain) as client:
                result = work(client)
        except (ServiceError, NotLiveError, UnknownNameError, RegistryError, OSError) as failure:
            error = str(failure) or type(failure).__name__
        if not self._closed:
            self._answered.emit(then, result, error, quiet)

    def _deliver(self, then: Then | None, result: Any, error: str, quiet: bool) -> None:
        if self._closed:
            return
        if error:
            if not quiet:
                self.failed.emit(error)
        elif then is not None:
            then(result)
