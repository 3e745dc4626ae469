"""Recently changed tunables, named in the message when a run diverges."""

from __future__ import annotations

from collections.abc import Mapping

RECENT_S = 2.0  # of simulation time


class ParameterHistory:
    """The last change of each tunable: simulation time, old and new value."""

    def __init__(self) -> None:
        self._set: dict[str, tuple[float, float, float]] = {}

    def record(self, time: float, before: Mapping[str, float], after: Mapping[str, float]) -> None:
        """Record the tunables that differ between `before` and `after`, {name: value}, at simulation time `time`, s."""
        for name, value in after.items():
            if before[name] != value:
                self._set.pop(name, None)
                self._set[name] = time, before[name], value

    def clear(self) -> None:
        """Forget all changes, because simulation time was reset or restored."""
        self._set.clear()

    def recent(self, now: float) -> str:
        """Changes of the last 2 s, latest first: "at t = 1 s, tension was set from ..."; "" if there are none."""
        found = [
            f"at t = {time:.6g} s, {name} was set from {old:g} to {new:g}"
            for name, (time, old, new) in reversed(self._set.items())
            if now - time <= RECENT_S
        ]
        return "; ".join(found)
