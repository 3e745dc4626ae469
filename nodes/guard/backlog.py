"""Commands that waited while the guard's process did not run, as after SIGSTOP, and are too old when it goes on."""

from __future__ import annotations

import time

from nodes.framework.messages import JointCommand
from nodes.guard.limits import GuardParams

AFTERWARDS_NS = 1_000_000_000  # time in which commands of a backlog arrive


class Backlog:
    """Recognizes stale commands after an interruption that is longer than `max_age_ms` or `heartbeat_ms`.

    The age of a command is the time since it was sent, beyond that of the latest command before the interruption, so
    that the clocks of two computers may differ. Messages of a lockstep run are never stale.

    stale  number of stale commands
    """

    def __init__(self, params: GuardParams) -> None:
        self._limit_ns = 1e6 * min(filter(None, (params.max_age_ms, params.heartbeat_ms)), default=0.0)
        self._ran_ns = time.monotonic_ns()
        self._until_ns = self._delay_ns = 0
        self.stale = 0

    def run(self) -> None:
        """Tell that the process runs. Call this method regularly."""
        now = time.monotonic_ns()
        if now - self._ran_ns > self._limit_ns:
            self._until_ns = now + AFTERWARDS_NS
        self._ran_ns = now

    def stale_s(self, command: JointCommand) -> float:
        """Age of a stale command (s); 0 for a command that is not stale."""
        if not (self._limit_ns and command.sent_ns):
            return 0.0
        delay_ns = time.time_ns() - command.sent_ns
        if self._ran_ns >= self._until_ns:
            self._delay_ns = delay_ns
        elif delay_ns - self._delay_ns > self._limit_ns:
            self.stale += 1
            return 1e-9 * (delay_ns - self._delay_ns)
        return 0.0
