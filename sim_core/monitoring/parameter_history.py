"""Which tunables were set lately: what a person changed is what to look at first when a run diverges."""

from __future__ import annotations

from collections.abc import Mapping

LATELY_S = 2.0  # of simulation time


class ParameterHistory:
    """The last value that each tunable was set from and to, and when."""

    def __init__(self) -> None:
        self._set: dict[str, tuple[float, float, float]] = {}

    def note(self, time: float, before: Mapping[str, float], after: Mapping[str, float]) -> None:
        """Values by name, before and after; simulation time in s."""
        for name, value in after.items():
            if before[name] != value:
                self._set.pop(name, None)
                self._set[name] = time, before[name], value

    def clear(self) -> None:
        """Time was put elsewhere."""
        self._set.clear()

    def lately(self, now: float) -> str:
        """What was set in the last 2 s, the latest first, as "at t = 1 s, tension was set from ..."; or ""."""
        found = [
            f"at t = {time:.6g} s, {name} was set from {old:g} to {new:g}"
            for name, (time, old, new) in reversed(self._set.items())
            if now - time <= LATELY_S
        ]
        return "; ".join(found)
