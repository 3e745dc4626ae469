"""Requests `reload`: the node of an edited file takes over from the running node, or its failure is reported."""

from __future__ import annotations

import logging
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from nodes.framework.hosting.hosted import HostedNode
from nodes.framework.hosting.reloading import Loaded, traceback_of
from nodes.framework.hosting.trial_import import Superseded, importable
from nodes.framework.hosting.wakeup import WakeupPipe
from nodes.framework.messages.protocol import NOT_LOADED
from nodes.framework.transport.service import Request, ServiceServer

log = logging.getLogger("armswing.node")


class EditedFile:
    """The file of a node, which is loaded again on request.

    Call `begin` for each request. When a file is loaded, the pipe `wake` becomes readable: then call `take`.
    """

    def __init__(self, file: Path, hosted: HostedNode, service: ServiceServer, wake: WakeupPipe) -> None:
        self._file, self._hosted, self._service, self._wake = file, hosted, service, wake
        self._begun = 0
        self._done: deque[tuple[Request, Loaded | BaseException]] = deque()
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="reload")
        self._waiting: list[Request] = []  # requests that wait until the previous edit has taken over

    def begin(self, request: Request) -> None:
        """Start to load the file, on another thread."""

        def done(loading: Future[Loaded]) -> None:
            if not loading.cancelled():
                self._done.append((request, loading.exception() or loading.result()))
                self._wake.set()

        self._begun = number = self._begun + 1
        self._pool.submit(self._load, number).add_done_callback(done)

    def take(self) -> None:
        """Reply to the requests whose file was loaded since the previous call."""
        while self._done:
            self._put_in_charge(*self._done.popleft())

    def close(self) -> None:
        """Wait for the load in progress, and cancel all others."""
        self._begun += 1
        self._pool.shutdown(cancel_futures=True)

    def _load(self, number: int) -> Loaded:
        content = importable(self._file, lambda: self._begun > number)  # a later request supersedes this one
        return self._hosted.load_anew(self._file, content)

    def _put_in_charge(self, request: Request, loaded: Loaded | BaseException) -> None:
        """Reply to a reload request: put the loaded node in charge, or log the traceback if loading failed.

        A failure is published as an event `reload`, as a success is. If the node of an earlier edit is not yet in
        charge, the file is loaded again when it is.
        """
        if self._hosted.is_being_replaced and isinstance(loaded, Loaded):
            loaded.discard()
            self._waiting.append(request)
            return
        if isinstance(loaded, Superseded):
            self._service.refuse(request, str(loaded))
        elif isinstance(loaded, BaseException):
            self._refuse(request, loaded)
        else:
            try:
                self._service.reply(request, self._hosted.replace_node(loaded, self._settled))
            except (Exception, SystemExit) as error:
                self._refuse(request, error)

    def _refuse(self, request: Request, error: BaseException) -> None:
        """Log, publish and reply that an edited file is not used, because its code raised an exception."""
        failed, why = f"{self._file.name} {NOT_LOADED}", f"{type(error).__name__}: {error}"[:300]
        log.error("%s: %s\n%s", self._hosted.name, failed, traceback_of(error, self._file))
        self._hosted.publish_event("reload", f"{failed}: {why}")
        self._service.refuse(request, f"{failed}: {why}")

    def _settled(self, failure: BaseException | None) -> None:
        """Log and publish the result of loading an edited file: the new node is in charge, or the old one is again.

        failure  exception that the new node raised, so that the old node is in charge again; None if the new node is in
                 charge
        """
        if failure is not None:
            shown = traceback_of(failure, self._file)
            log.error("%s: the new code failed; the previous code is in charge again\n%s", self._hosted.name, shown)
        ended = "" if failure is None else f" failed: {type(failure).__name__}: {failure}"[:300]
        self._hosted.publish_event("reload", f"{self._file.name}{ended}")
        if self._waiting:
            *earlier, last = self._waiting
            self._waiting = []
            for request in earlier:
                self._service.refuse(request, f"{self._file.name} was saved again; only the last edit is loaded")
            self.begin(last)
