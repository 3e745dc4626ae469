"""One run that is shown, live or recorded, with its signals for the scene and its fields for the plots."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from viewer.data.series import Floats
from viewer.data.signals import Signals
from viewer.data.topics import EventMark, LiveStore, Store
from viewer.window.layout import Curve


@dataclass
class Source:
    """One run that is shown.

    label       name of the run in legends, such as the name of its file
    path        file of the run; "" for a live run
    run         number of the run in the file, from 1
    plan        name of the recorded launch plan; "" where it is not known
    duration_s  simulation time at which the recorded plan ends; None for a plan without an end
    offset      time that is added to the run's times so that overlaid runs start together, s
    """

    label: str
    signals: Signals
    store: Store
    offset: float = 0.0
    path: str = ""
    run: int = 1
    plan: str = ""
    duration_s: float | None = None

    @property
    def live(self) -> bool:
        """Whether the run is live."""
        return isinstance(self.store, LiveStore)

    @property
    def span(self) -> tuple[float, float]:
        """First and last time of the recorded states, s, on the window's time axis (recording time plus `offset`)."""
        series = self.signals.series.get("position") or self.signals.series.get("energy")
        if series is None or len(series.times) == 0:
            return 0.0, 0.0
        return float(series.times[0]) + self.offset, float(series.times[-1]) + self.offset

    @property
    def events(self) -> list[EventMark]:
        """Events of the run, on the window's time axis."""
        return [EventMark(mark.time + self.offset, mark.kind, mark.detail) for mark in self.store.events]

    def column(self, curve: Curve) -> tuple[Floats, Floats] | None:
        """(times in s on the window's time axis, values) of a curve; None where the run does not have the curve."""
        found = self.store.column(curve.topic, curve.field)
        if found is None or not self.offset:
            return found
        return found[0] + self.offset, found[1]


def align(sources: list[Source]) -> None:
    """Set the offsets of all sources so that they start at the same time as the first one."""
    for source in sources[1:]:
        source.offset = 0.0
        source.offset = sources[0].span[0] - source.span[0]


def difference(first: tuple[Floats, Floats], other: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """(times of the first curve, other curve minus first curve), interpolated; NaN where the other curve has no
    value.
    """
    times, values = first
    finite = np.isfinite(other[1])
    if not finite.any():
        return times, np.full(len(times), np.nan)
    there = np.interp(times, other[0][finite], other[1][finite], left=np.nan, right=np.nan)
    return times, there - values
