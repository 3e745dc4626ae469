"""Events of the run that is shown: their marks in the plots and on the time slider, and jumps to them."""

from __future__ import annotations

from typing import Any

import msgspec

from viewer.data.topics import EventMark
from viewer.qt import theme


class EventMarks:
    """Marks of the recorded events in one window, and the menu commands that move to the next or previous event."""

    def __init__(self, window: Any) -> None:
        self._window = window

    def mark_plots(self) -> None:
        """Mark the events in the plots."""
        events = self._window.sources[0].events
        colors = theme.change_colors([(mark.time, mark.kind) for mark in events])
        self._window.plots.marks = [(mark.time, colors[mark.kind]) for mark in events if not mark.before]

    def mark(self) -> None:
        """Mark the events in the plots and on the time slider, and the gaps in the recording on the time slider."""
        self.mark_plots()
        window = self._window
        source = window.sources[0]
        holes = [(a + source.offset, b + source.offset) for a, b in source.signals.holes]
        window.timeline.set_span(*window.playback.whole_span, window.plots.marks, holes, source.unread)
        window.timeline.set_time(window.playback.now)

    def jump_to(self, instant: float) -> None:
        """Go to the time `instant`, s.

        The scene of a recording shows this time. If the plots do not show this time, or if the run is live, the time
        axis of the plots is moved so that its middle is at this time.
        """
        window = self._window
        if window.feed is None:
            window.playback.seek(instant)
        start, end = window.time_shown(window.history.layout)
        if window.feed is not None or not start <= instant <= end:
            half = 0.5 * (end - start)
            layout = msgspec.structs.replace(window.history.layout, time=(instant - half, instant + half))
            window.history.change(layout, "jump to an event")

    def next(self) -> None:
        """Go to the next event."""
        later = [mark.time for mark in self._events if mark.time > self._present + 1e-9]
        if later:
            self.jump_to(min(later))

    def previous(self) -> None:
        """Go to the previous event."""
        earlier = [mark.time for mark in self._events if mark.time < self._present - 1e-9]
        if earlier:
            self.jump_to(max(earlier))

    @property
    def _events(self) -> list[EventMark]:
        """Events of the run, without those from before a reset."""
        return [mark for mark in self._window.sources[0].events if not mark.before]

    @property
    def _present(self) -> float:
        """Time (s) from which the next and the previous event are counted.

        For a recording, this is the time that the scene shows. For a live run, it is the latest time or, if the user
        has selected a fixed time range for the plots, the middle of this range.
        """
        window = self._window
        time_shown = window.history.layout.time
        is_fixed = window.feed is not None and time_shown is not None
        return 0.5 * sum(time_shown) if is_fixed else float(window.playback.now)
