"""Events of the run that is shown: their marks in the plots and on the time slider, and jumps to them."""

from __future__ import annotations

import msgspec

from viewer.data.store import EventMark
from viewer.qt import theme
from viewer.window.plots.area import PlotArea
from viewer.window.timeline.playback import Playback
from viewer.window.timeline.timeline import Timeline


class EventMarks:
    """Marks of the recorded events in one window, and the menu commands that move to the next or previous event."""

    def __init__(self, plots: PlotArea, timeline: Timeline, playback: Playback, is_live: bool) -> None:
        self._plots, self._timeline, self._playback = plots, timeline, playback
        self._is_live = is_live

    def mark_plots(self) -> None:
        events = self._plots.sources[0].events
        colors = theme.change_colors([(mark.time, mark.kind) for mark in events])
        self._plots.marks = [(mark.time, colors[mark.kind]) for mark in events if not mark.before]

    def mark(self) -> None:
        """Mark the events in the plots and on the time slider, and the gaps in the recording on the time slider."""
        self.mark_plots()
        source, playback = self._plots.sources[0], self._playback
        holes = [(a + source.offset, b + source.offset) for a, b in source.signals.holes]
        self._timeline.set_span(*playback.whole_span, self._plots.marks, holes, source.unread)
        self._timeline.set_time(playback.now)

    def jump_to(self, instant: float) -> None:
        """Go to the time `instant`, s.

        The scene of a recording shows this time. If the plots do not show this time, or if the run is live, the time
        axis of the plots is moved so that its middle is at this time.
        """
        history = self._plots.history
        if not self._is_live:
            self._playback.seek(instant)
        start, end = self._plots.time_shown(history.layout)
        if self._is_live or not start <= instant <= end:
            half = 0.5 * (end - start)
            layout = msgspec.structs.replace(history.layout, time=(instant - half, instant + half))
            history.change(layout, "jump to an event")

    def next(self) -> None:
        later = [mark.time for mark in self._events if mark.time > self._present + 1e-9]
        if later:
            self.jump_to(min(later))

    def previous(self) -> None:
        earlier = [mark.time for mark in self._events if mark.time < self._present - 1e-9]
        if earlier:
            self.jump_to(max(earlier))

    @property
    def _events(self) -> list[EventMark]:
        """Events of the run, without those from before a reset."""
        return [mark for mark in self._plots.sources[0].events if not mark.before]

    @property
    def _present(self) -> float:
        """Time (s) from which the next and the previous event are counted.

        For a recording, this is the time that the scene shows. For a live run, it is the latest time or, if the user
        has selected a fixed time range for the plots, the middle of this range.
        """
        time_shown = self._plots.history.layout.time
        return 0.5 * sum(time_shown) if self._is_live and time_shown is not None else self._playback.now
