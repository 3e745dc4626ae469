"""A recording that is read in the background while the window shows the part that was read so far."""

from __future__ import annotations

import math

from viewer.source import ReadPart, warn_of
from viewer.window.docks.docks import Docks
from viewer.window.run_window import RunWindow


class Growth:
    """Shows the first recording of a window while it is being read. `window.reading` is None when all was read."""

    def __init__(self, window: RunWindow, docks: Docks) -> None:
        self._window, self._docks = window, docks
        self._part: ReadPart | None = None  # the latest part

    def take(self) -> None:
        """Show what was read since the last frame."""
        window, reading = self._window, self._window.reading
        if reading is None:
            return
        finished = reading.finished  # before the last part is taken
        if (part := reading.take()) is not None:
            self._part = part
            self.grow(part)
        if not finished:
            self.show_share()
            return
        window.reading, window.playback.is_growing = None, False
        reading.close()
        window.setWindowTitle("armswing")
        if reading.failure:
            window.subtitles[0] += f"; the rest cannot be read: {reading.failure}"
        if window.signals.states == 0:
            window.page.empty.setText(reading.failure or (self._part.waiting if self._part is not None else ""))
        window.page.show_subtitle(window.subtitle)
        if self._part is not None:
            warn_of(self._part)

    def show_share(self) -> None:
        """Show in the title how much of the recording was read so far."""
        window = self._window
        if window.reading is not None:
            done = f"{math.floor(100.0 * window.reading.share)} %"
            window.setWindowTitle(f"armswing - reading {window.sources[0].label}, {done}")
            window.page.show_subtitle(f"still being read, {done}: {window.subtitle}")

    def grow(self, part: ReadPart) -> None:
        """Show a longer part of the recording.

        If the scene showed the end of the shorter part, it shows the end of the longer part.
        """
        window = self._window
        source, read = window.sources[0], part.source
        before = window.signals.states
        at_end = window.playback.now >= window.playback.span[1] and not window.playback.playing
        source.signals, source.share, source.run = read.signals, read.share, read.run
        source.plan, source.duration_s = read.plan, read.duration_s
        window.subtitles[0] = part.subtitle
        window.align()
        window.timeline.setEnabled(window.signals.states > 0)
        window.plots.invalidate()
        window.survey()
        window.choose_plots()
        window.events.mark()
        window.playback.seek(window.playback.span[1] if at_end else window.playback.now)
        self._docks.update()
        if before == 0:
            window.give_way()
