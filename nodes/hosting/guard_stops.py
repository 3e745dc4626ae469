"""Record of the controlled stops of a node's guard, from the guard's events."""

from __future__ import annotations

import msgspec

from nodes.messages import Event, GuardStops

CONTROLLED_STOP = ": controlled stop"  # end of the line of a guard's event


class GuardStopLog:
    """Counts and times the controlled stops that a node's events report.

    stops  the stops so far; None before the first
    """

    def __init__(self) -> None:
        self.stops: GuardStops | None = None
        self._since: float | None = None  # beginning of the part of the stop that `stopped_s` does not contain yet

    def add(self, event: Event, now: float, time: float | None) -> None:
        """Process an event that the node publishes.

        now   time of the clock that measures durations (s)
        time  simulation time (s); None if the node does not know it
        """
        stops = self.stops
        if event.kind == "guard_stop":
            reason = event.detail.removesuffix(CONTROLLED_STOP)
            if stops is None:
                stops = self.stops = GuardStops(first_time=time, first_reason=reason)
            stops.count += 1
            stops.reason = reason
            self._since = now
        elif event.kind == "guard_acknowledged" and stops is not None:
            self.measure(now)
            stops.reason, self._since = "", None

    def measure(self, now: float) -> GuardStops | None:
        """The stops until the time `now` (s) of the clock that measures durations; None if there was none."""
        if self.stops is not None and self._since is not None:
            self.stops.stopped_s += max(now - self._since, 0.0)
            self._since = now
        return self.stops

    def reset(self, before: float, now: float) -> None:
        """Continue after the clock that measures durations was set from `before` to `now` (s)."""
        self.measure(before)
        if self._since is not None:
            self._since = now

    def restore(self, stops: GuardStops | None, now: float) -> None:
        """Continue from a result of `measure`, at the time `now` (s)."""
        self.stops = msgspec.structs.replace(stops) if stops is not None else None
        self._since = now if stops is not None and stops.reason else None
