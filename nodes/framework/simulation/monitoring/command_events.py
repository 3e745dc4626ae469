"""Events about nodes that command actuators: refused or limited commands, and nodes that fell silent or left."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from nodes.framework.messages import Event

log = logging.getLogger("armswing.node")

AGAIN_S = 1.0  # simulation time between two "refused" events of one node
QUIET_S = 5.0  # wall time between two equal lines on the terminal


class CommandEvents:
    """Makes events about the nodes that command actuators, and logs these events on the terminal of the server.

    The server publishes the events.

    watchdog_s  the watchdog's limit (s); None for no watchdog
    safe_mode   name of the safe mode, for the messages
    safe_since  simulation time (s) at which actuators last went to their safe mode; None if they never did
    gone        nodes that left since the last call of `departures`; any thread may append a node
    cut         (node, one-line message) of commands limited to a joint's range since the last call of `departures`
    """

    def __init__(self, watchdog_s: float | None, safe_mode: str, cut: deque[tuple[str, str]]) -> None:
        self.safe_since: float | None = None
        self.gone: deque[str] = deque(maxlen=64)
        self.cut = cut
        self._watchdog_s, self._safe_mode = watchdog_s, safe_mode
        self._commanders: set[str] = set()
        self._departed: set[str] = set()
        self._refused_at: dict[str, float] = {}
        self._logged: dict[str, float] = {}

    def accepted(self, source: str) -> None:
        """Record that a command of a node was accepted."""
        self._commanders.add(source)
        self._departed.discard(source)
        self._refused_at.pop(source, None)

    def refused(self, source: str, reason: str, now: float) -> Iterator[Event]:
        """Yield the event of a refused command. At most one such event per node is made within AGAIN_S seconds."""
        refused_at = self._refused_at.get(source)
        if refused_at is None or not 0.0 <= now - refused_at < AGAIN_S:
            self._refused_at[source] = now
            yield Event(kind="refused", node=source, detail=reason)

    def silent(self, source: str, now: float) -> Event:
        """Event "safe": a node sent no command for too long, and its actuators entered their safe mode."""
        self.safe_since = now
        limit_ms = 1e3 * (self._watchdog_s or 0.0)
        what = f"{source!r} is gone" if source in self._departed else f"{source!r} is silent"
        line = f"{what}, no command for {limit_ms:g} ms: {self._safe_mode}"
        self._log(f"{line}, at t = {now:.3f} s", what)
        return Event(kind="safe", node=source, detail=line)

    def departures(self, now: float) -> Iterator[Event]:
        """Yield the events "cut" for commands limited to a joint's range, and the events "held" for nodes that left.

        The event "held" reports that the last command of the node stays in effect, because there is no watchdog. With a
        watchdog, there is no event "held"; the method `silent` makes the event "safe" when the watchdog trips.
        """
        while self.cut:
            source, line = self.cut.popleft()
            self._log(f"{line}, at t = {now:.3f} s", line)
            yield Event(kind="cut", node=source, detail=line)
        while self.gone:
            source = self.gone.popleft()
            self._departed.add(source)
            if source in self._commanders and self._watchdog_s is None:
                line = f"{source!r} is gone and its last command holds: no watchdog"
                self._log(f"{line}, at t = {now:.3f} s", line)
                yield Event(kind="held", node=source, detail=line)

    def to_plain(self) -> dict[str, Any]:
        """The commanding nodes and the times of their latest events as plain data, for a snapshot."""
        return {
            "safe_since": self.safe_since,
            "commanders": sorted(self._commanders),
            "left": sorted(self._departed),
            "refused_at": dict(self._refused_at),
        }

    def from_plain(self, plain: Mapping[str, Any]) -> None:
        """Continue from the result of `to_plain`."""
        self.safe_since = plain["safe_since"]
        self._commanders, self._departed = set(plain["commanders"]), set(plain["left"])
        self._refused_at = dict(plain["refused_at"])

    def clear(self) -> None:
        """Discard what is known of the commanding nodes, after a reset or restore."""
        self.safe_since = None
        self._commanders.clear()
        self._refused_at.clear()

    def _log(self, line: str, what: str) -> None:
        now = time.monotonic()
        if now - self._logged.get(what, -QUIET_S) >= QUIET_S:
            self._logged[what] = now
            log.warning("sim: %s", line)
