"""What a simulation server says once of those who command it: that one is refused, silent or gone."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterator

from nodes.messages import Event

log = logging.getLogger("armswing.node")

AGAIN_S = 1.0  # of simulation time, before a node that is still refused hears so again
QUIET_S = 5.0  # of the clock, before the same is said again on the terminal


class CommandEvents:
    """Events for the stream, and lines for the server's terminal.

    safe_since  simulation time at which actuators were last made safe, seconds
    gone        nodes that went since `departures` was last asked; any thread may append
    cut         (node, line) of commands cut to a joint's limits since then
    """

    def __init__(self, watchdog_s: float | None, safe_mode: str, cut: deque[tuple[str, str]]) -> None:
        self.safe_since: float | None = None
        self.gone: deque[str] = deque(maxlen=64)
        self.cut = cut
        self._watchdog_s, self._safe_mode = watchdog_s, safe_mode
        self._commanders: set[str] = set()
        self._left: set[str] = set()
        self._told: dict[str, float] = {}
        self._said: dict[str, float] = {}

    def taken(self, source: str) -> None:
        """A command of this node is followed."""
        self._commanders.add(source)
        self._left.discard(source)
        self._told.pop(source, None)

    def refused(self, source: str, reason: str, now: float) -> Iterator[Event]:
        """For the node whose command was refused; not for each of a thousand."""
        told = self._told.get(source)
        if told is None or not 0.0 <= now - told < AGAIN_S:
            self._told[source] = now
            yield Event(kind="refused", node=source, detail=reason)

    def silent(self, source: str, now: float) -> Event:
        """A commander kept silent too long, and its actuators were made safe."""
        self.safe_since = now
        limit_ms = 1e3 * (self._watchdog_s or 0.0)
        what = f"{source!r} is gone" if source in self._left else f"{source!r} is silent"
        line = f"{what}, no command for {limit_ms:g} ms: {self._safe_mode}"
        self._say(f"{line}, at t = {now:.3f} s", what)
        return Event(kind="safe", node=source, detail=line)

    def departures(self, now: float) -> Iterator[Event]:
        """Of nodes that went: without a watchdog the last command of the commander holds, and that is said.

        And of commands that are cut to a joint's limits.
        """
        while self.cut:
            source, line = self.cut.popleft()
            self._say(f"{line}, at t = {now:.3f} s", line)
            yield Event(kind="cut", node=source, detail=line)
        while self.gone:
            source = self.gone.popleft()
            self._left.add(source)
            if source in self._commanders and self._watchdog_s is None:
                line = f"{source!r} is gone and its last command holds: no watchdog"
                self._say(f"{line}, at t = {now:.3f} s", line)
                yield Event(kind="held", node=source, detail=line)

    def clear(self) -> None:
        """Time was put elsewhere: nobody has commanded yet."""
        self.safe_since = None
        self._commanders.clear()
        self._told.clear()

    def _say(self, line: str, what: str) -> None:
        now = time.monotonic()
        if now - self._said.get(what, -QUIET_S) >= QUIET_S:
            self._said[what] = now
            log.warning("sim: %s", line)
