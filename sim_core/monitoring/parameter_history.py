"""Record of recently changed tunables, for the message about a diverged run."""

from __future__ import annotations

from collections.abc import Mapping

RECENT_S = 2.0  # of simulation time


class ParameterHistory:
    """Stores the last change of each tunable: simulation time (s), old value and new value."""

    def __init__(self) -> None:
        self._set: dict[str, tuple[float, float, float]] = {}

    def record(self, time: float, before: Mapping[str, float], after: Mapping[str, float]) -> None:
        """Record the tunables that differ between `before` and `after`, {name: value}, at simulation time `time`, s."""
        for name, value in after.items():
            if before[name] != value:
                self._set.pop(name, None)
                self._set[name] = time, before[name], value

    def clear(self) -> None:
        """Delete all changes, because the simulation time was reset or restored."""
        self._set.clear()

    def recent(self, now: float) -> str:
        """Text of the changes in the last 2 s before the time `now`, latest first; "" if there are none.

        Example: "at t = 1 s, tension was set from 2000 to 3000".
        """
        found = [
            f"at t = {time:.6g} s, {name} was set from {old:g} to {new:g}"
            for name, (time, old, new) in reversed(self._set.items())
            if now - time <= RECENT_S
        ]
        return "; ".join(found)
