"""Playback of a recording: seeking, playing and steps by frames."""

from __future__ import annotations

import time
from collections.abc import Callable

from viewer.data.series import row_at
from viewer.source import Source
from viewer.window.timeline.timeline import Timeline


class Playback:
    """Playback of recordings: advances the time `now`, s, that is shown, and follows the controls of the timeline.

    sources   the runs that are shown; frames and events are those of the first run
    timeline  the controls
    refresh   function that is called when `now` has changed

    is_growing  whether the first recording is still being read; playing then waits at the end of the part read so far
    """

    def __init__(self, sources: list[Source], timeline: Timeline, refresh: Callable[[], None]) -> None:
        self.sources, self.timeline, self._refresh = sources, timeline, refresh
        self.now = self.span[1]
        self.is_growing = False
        self._played_at: float | None = None
        timeline.sought.connect(self.seek)
        timeline.toggled.connect(self.play_or_pause)

    @property
    def span(self) -> tuple[float, float]:
        """First and last time of all runs, s."""
        spans = [source.span for source in self.sources if source.signals.states]
        return (min(span[0] for span in spans), max(span[1] for span in spans)) if spans else (0.0, 0.0)

    @property
    def whole_span(self) -> tuple[float, float]:
        """First and last time of all runs, s, with the estimated end of a run that is still being read."""
        start, end = self.span
        return start, max([end, *(source.unread[1] for source in self.sources if source.unread is not None)])

    @property
    def playing(self) -> bool:
        return self._played_at is not None

    def seek(self, instant: float) -> None:
        """Show the time `instant`, s, or the nearest time of the recording."""
        start, end = self.span
        self.now = max(start, min(end, instant))
        if self._played_at is not None:
            self._played_at = time.monotonic()
        self.timeline.set_time(self.now)
        self._refresh()

    def advance(self) -> None:
        """If the recording is playing, advance the shown time by the time that has passed since the last call."""
        if self._played_at is None:
            return
        instant = time.monotonic()
        now = self.now + (instant - self._played_at) * self.timeline.factor
        if now >= self.span[1] and not self.is_growing:
            self.stop()
        self.seek(now)

    def stop(self) -> None:
        self._played_at = None
        self.timeline.set_playing(False)

    def play_or_pause(self) -> None:
        """Pause the recording if it is playing, otherwise play it.

        If the end of the recording is shown, the recording is played from the start.
        """
        if self._played_at is not None:
            self.stop()
            return
        start, end = self.span
        if self.now >= end:
            self.seek(start)
        self._played_at = time.monotonic()
        self.timeline.set_playing(True)

    def step(self, count: int) -> None:
        """Go forward by `count` recorded poses, or back if `count` is negative.

        In a recording without poses, go forward by `count` recorded states.
        """
        self.stop()
        source = self.sources[0]
        poses = source.signals.poses
        times = source.signals.times if poses is None else poses.times
        place = row_at(times, self.now - source.offset + 1e-9)
        if place is not None:
            self.seek(float(times[max(0, min(len(times) - 1, place + count))]) + source.offset)

    def go_to_start(self) -> None:
        self.stop()
        self.seek(self.span[0])

    def go_to_end(self) -> None:
        self.stop()
        self.seek(self.span[1])
