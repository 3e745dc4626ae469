"""Messages that waited while a node's process did not run, as after SIGSTOP, and are too old when it goes on."""

from __future__ import annotations

import time

from nodes.framework.messages import Message

AFTERWARDS_NS = 1_000_000_000  # time in which messages of a backlog arrive


class Backlog:
    """Recognizes stale messages after an interruption that is longer than a limit.

    The age of a message is the time since it was sent, beyond that of the latest message before the interruption, so
    that the clocks of two computers may differ. Messages of a lockstep run are never stale.

    limit_ms  longest interruption, and largest age of a message after a longer one; 0: no message is stale
    stale     number of stale messages
    """

    def __init__(self, limit_ms: float) -> None:
        self._limit_ns = 1e6 * limit_ms
        self._ran_ns = time.monotonic_ns()
        self._until_ns = self._delay_ns = 0
        self.stale = 0

    def run(self) -> None:
        """Tell that the process runs. Call this method regularly."""
        now = time.monotonic_ns()
        if now - self._ran_ns > self._limit_ns:
            self._until_ns = now + AFTERWARDS_NS
        self._ran_ns = now

    def stale_s(self, message: Message) -> float:
        """Age of a stale message (s); 0 for a message that is not stale."""
        if not (self._limit_ns and message.sent_ns):
            return 0.0
        delay_ns = time.time_ns() - message.sent_ns
        if self._ran_ns >= self._until_ns:
            self._delay_ns = delay_ns
        elif delay_ns - self._delay_ns > self._limit_ns:
            self.stale += 1
            return 1e-9 * (delay_ns - self._delay_ns)
        return 0.0
