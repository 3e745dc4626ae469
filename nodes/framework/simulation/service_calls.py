"""Service calls to the simulation server: received and answered by a thread, executed between time steps."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from nodes.framework.hosting.session import NodeSession, poller_of
from nodes.framework.hosting.stop_calls import StopCalls
from nodes.framework.hosting.turns import LockstepError
from nodes.framework.hosting.wakeup import WakeupPipe
from nodes.framework.simulation.server import SimServer
from nodes.framework.transport.service import Request

MOST_CALLS = 64  # largest number of calls that wait for the stepping thread
STEP_REPLY_S = 1.5  # longest time until the reply to a call of `step`, even if the steps take longer, s


class ServiceCalls:
    """The service calls to a simulation server.

    waiting  calls that wait for `answer`

    wake     pipe that becomes readable when a call arrives
    execute  function of the name and the arguments of a call that returns the response
    """

    def __init__(
        self, server: SimServer, session: NodeSession, wake: WakeupPipe, execute: Callable[[str, dict[str, Any]], Any]
    ) -> None:
        self.waiting: deque[Request] = deque()
        self._server, self._session, self._wake, self._execute = server, session, wake, execute
        self._answers: deque[tuple[Request, Any, str | None]] = deque()
        self._answer_wake = WakeupPipe()
        self._stop_calls = StopCalls()
        self._stepping: Request | None = None  # call of `step` whose steps are being taken
        self._step_until = 0.0
        self._thread = threading.Thread(target=self._serve, name="services", daemon=True)

    def start(self) -> None:
        """Start the thread that receives and answers calls."""
        self._thread.start()

    @property
    def emergency_stops(self) -> int:
        """Number of emergency stops."""
        return self._stop_calls.count

    def answer(self) -> None:
        """Execute the waiting calls. To be called between time steps, by the thread that takes these."""
        while self.waiting:
            self._answer(self.waiting.popleft())

    def answer_steps(self) -> None:
        """Answer a call of `step` whose time steps are taken."""
        server = self._server
        if self._stepping is not None and (not server.steps_left or time.monotonic() > self._step_until):
            self._reply(self._stepping, {"tick": server.tick, "time": server.time}, None)
            self._stepping = None

    def stop(self) -> None:
        """End the thread. The session must have been asked to stop."""
        self._answer_wake.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=2.0)

    def close(self) -> None:
        """Close the pipe, after the session was closed."""
        self._answer_wake.close()

    def _answer(self, request: Request) -> None:
        name = request.call.call
        try:
            self._stop_calls.check(request.call)
            result, line = self._execute(name, request.call.args), None
        except (ValueError, LockstepError) as error:
            result, line = None, str(error)
        if name == "step" and line is None and self._stepping is None:
            self._stepping = request  # replied to when the steps are taken
            self._step_until = time.monotonic() + STEP_REPLY_S
        elif name == "take_over" and line is None:  # replied to when the registry knows the grant
            args = request.call.args
            self._session.grant(args["topic"], args["node"], lambda: self._reply(request, result, None))
        else:
            self._reply(request, result, line)

    def _reply(self, request: Request, result: Any, line: str | None) -> None:
        self._answers.append((request, result, line))
        self._answer_wake.set()

    def _serve(self) -> None:
        service = self._session.service
        poller = poller_of(self._answer_wake, service.socket)
        while not self._session.stop.is_set() or self._answers:
            poller.poll()
            self._answer_wake.clear()
            while self._answers:
                request, result, line = self._answers.popleft()
                if line is None:
                    service.reply(request, result)
                else:
                    service.refuse(request, line)
            while (call := service.receive()) is not None:
                if len(self.waiting) >= MOST_CALLS:
                    service.refuse(call, f"{call.call.call[:80]}: {MOST_CALLS} calls are waiting: try again later")
                    continue
                self.waiting.append(call)
                self._wake.set()
