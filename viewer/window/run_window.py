"""Window with the scene, the plots and the times of one or more runs, without menus and panels."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any

import msgspec
from pyqtgraph.Qt import QtCore, QtWidgets

from viewer import palette
from viewer.data.live import LiveFeed
from viewer.data.reading import BackgroundReading
from viewer.data.signals import Signals
from viewer.layout import Camera, Layout
from viewer.panels import choose_fields, default_plots
from viewer.qt import theme
from viewer.source import ReadPart, Source, align
from viewer.window.history import ViewHistory
from viewer.window.page import Page, key_html
from viewer.window.plots.area import PlotArea
from viewer.window.scene.view import SceneView
from viewer.window.timeline.event_marks import EventMarks
from viewer.window.timeline.playback import Playback
from viewer.window.timeline.timeline import Timeline

LIVE_WINDOW_S = 20.0
LIVE_STRIDE = 0.05  # the live time axis moves in strides of this fraction of its length
TRACE_S = 4.0


class RunWindow(QtWidgets.QMainWindow):
    """Window that shows a live feed or, if `feed` is None, recordings.

    sources   the runs to show; the scene shows the first of them
    subtitle  line below the title
    waiting   text that is shown while there is no state
    reading   background reading of the first recording, of which the window shows the part that was read so far; None
              if all recordings were read to their ends

    subtitles  parts of the line below the title, one for each run
    """

    def __init__(
        self,
        sources: Sequence[Source],
        subtitle: str,
        waiting: str,
        feed: LiveFeed | None,
        fields: Sequence[str],
        plane: str,
        reading: BackgroundReading[ReadPart] | None,
    ) -> None:
        super().__init__()
        self.sources, self.feed, self.reading = list(sources), feed, reading
        self._fields, self._keep_empty = choose_fields(fields), bool(fields)
        self.subtitles = [subtitle]
        self._is_still = False
        self._opening_theme = palette.theme
        self.history = ViewHistory(self)
        self.align()
        self.history.changed.connect(self._apply)
        self.scene = SceneView(plane, self._on_camera, self.history.seal)
        if feed is not None:
            self.scene.set_live()
        self.plots = PlotArea(self.history, self.time_shown)
        self.plots.sources = self.sources
        self.plots.sought.connect(self._on_plot_click)
        self.timeline = Timeline()
        self.playback = Playback(self.sources, self.timeline, self.refresh)
        self.playback.is_growing = reading is not None
        self.timeline.setVisible(feed is None)
        self.events = EventMarks(self.plots, self.timeline, self.playback, is_live=feed is not None)
        self.setWindowTitle("armswing")
        self.setStyleSheet(theme.style())
        self.page = Page(self.scene.widget, self.plots, self.timeline, subtitle, waiting)
        self.setCentralWidget(self.page)

    @property
    def subtitle(self) -> str:
        """Line below the title, about the runs that are shown."""
        return "; ".join(self.subtitles)

    @property
    def signals(self) -> Signals:
        """Signals of the run that the scene shows."""
        return self.sources[0].signals

    def show_whole_run(self) -> None:
        """Show the whole run as a picture does: the last pose, earlier poses, and a legend of the events."""
        self._is_still = True
        self.playback.now = self.playback.span[1]
        self.choose_plots()
        self.lay_out_scene()

    def time_shown(self, layout: Layout) -> tuple[float, float]:
        """First and last time (s) that the time axis of the plots has with the layout `layout`."""
        if layout.time is not None:
            return layout.time
        start, end = self.playback.whole_span
        if self.feed is not None:
            start, end = self.sources[0].span
            window = layout.window or LIVE_WINDOW_S
            stride = LIVE_STRIDE * window
            end = stride * (math.floor(end / stride) + 1.0)
            return (end - window, end) if end - start > window else (start, start + window)
        margin = 0.01 * (end - start) or 0.5
        return start - margin, end + margin

    def _apply(self, layout: Layout) -> None:
        """Show the window with another layout."""
        self._use_theme(layout.theme or self._opening_theme)
        self.scene.set_camera(layout.camera, self.signals)
        self.scene.show_measured(layout.measured)
        self.page.show_legend(self.scene.keys(self.signals))
        self._caption()
        before = [source.offset for source in self.sources]
        self.align()
        if [source.offset for source in self.sources] != before:
            self.plots.invalidate()
            self.events.mark()
        self.choose_plots()
        self.refresh()

    def choose_plots(self) -> None:
        """Show the plots of the layout or, if it has none, those that suit the robot."""
        specs, left_out = self.history.layout.plots, ""
        if specs is None:
            specs, left_out = default_plots(self._fields, self.signals, self._keep_empty, self.sources[0].live)
        if specs != self.plots.specs:
            self.plots.set_specs(specs)
        caption = "; ".join(filter(None, (self._overlaid(), left_out)))
        if self._is_still:
            caption = " &nbsp;&nbsp;".join(filter(None, [self._events_key(), html.escape(caption)]))
        self.plots.caption.setText(caption)
        self.plots.caption.setVisible(bool(caption))
        self.plots.lay_out_titles()

    def _events_key(self) -> str:
        """Legend of the vertical lines in the plots, as rich text."""
        colors = theme.change_colors([(mark.time, mark.kind) for mark in self.sources[0].events])
        return " &nbsp;&nbsp;".join(key_html("┃", kind, color) for kind, color in colors.items())

    def overlay(self, source: Source, subtitle: str) -> None:
        """Overlay a further recording of the robot in the plots."""
        if any(each.label == source.label for each in self.sources):
            source.label = source.path
        self.sources.append(source)
        self.align()
        self.subtitles.append(subtitle)
        self.page.show_subtitle(self.subtitle)
        self.plots.invalidate()
        self.choose_plots()
        self.events.mark()
        self.refresh()

    def align(self) -> None:
        """Place the times of overlaid recordings as the layout says."""
        self._has_equal_times = align(self.sources, self.history.layout.align)

    def _overlaid(self) -> str:
        """Text about the recordings that are overlaid in the plots; "" for a single recording."""
        if len(self.sources) < 2:
            return ""
        first, *others = (source.label for source in self.sources)
        aligned = "at equal simulation times" if self._has_equal_times else "from the start of each"
        if self.history.layout.difference:
            return f"plotted: {', '.join(others)} minus {first}, {aligned}"
        styles = ["dashed", *["dotted"] * (len(others) - 1)]
        named = ", ".join(f"{label} {style}" for label, style in zip(others, styles, strict=True))
        return f"{first} solid, {named}, {aligned}; the scene shows {first}"

    def survey(self) -> None:
        """Fit the scene, its legend and its caption to the motion of the robot so far."""
        signals = self.signals
        if signals.description is not None and signals.poses is not None:
            self.scene.survey(signals)
            self.page.lay_out(self.scene.wide, self.scene.share)
        self.page.show_legend(self.scene.keys(signals))
        self._caption()

    def give_way(self) -> None:
        """Give most of the room to the plots if there is nothing to draw in the scene."""
        description = self.signals.description
        shapes = description is not None and any(body.shapes for body in description.bodies)
        if self.signals.states and not (shapes and self.signals.poses is not None):
            self.page.favour_plots()

    def _caption(self) -> None:
        signals, camera = self.signals, self.history.layout.camera
        if signals.description is None:
            text = "no description of the robot was received: its bodies are not known"
        elif signals.poses is None:
            text = "no poses of the bodies were received"
        elif not any(body.shapes for body in signals.description.bodies):
            text = f"the description of {signals.robot} has no shapes: there is nothing to draw"
        else:
            text = self.scene.caption
            if self._is_still:
                text += "; faint poses are earlier ones"
            if camera is not None and camera.follow:
                text += f"; the camera follows {camera.follow}"
        self.page.show_caption(text)

    def lay_out_scene(self) -> None:
        """Fit the scene and its labels to the present size of the window."""
        self.survey()
        self.scene.place_labels()
        self.refresh()

    def refresh(self) -> None:
        """Draw the current state."""
        signals = self.signals
        if signals.states == 0:
            self.page.show_run(signals.robot, "")
            return
        start, end = self.sources[0].span
        if self.feed is not None:
            self.playback.now = end
        now = self.playback.now
        self.page.show_run(signals.robot, f"t = {now:.{2 if self.feed else 3}f} s")
        self.plots.show_data(None if self.feed is not None or self._is_still else now)
        if signals.poses is not None:
            # for a diverged run, the last pose before the divergence
            shown = min(now - self.sources[0].offset, signals.sane_until)
            since = start if self._is_still else max(start, shown - TRACE_S)
            self.scene.show(signals, shown, since, ghosts=self._is_still)

    def _on_camera(self, camera: Camera | None, text: str) -> None:
        self.history.change(msgspec.structs.replace(self.history.layout, camera=camera), text)

    def _on_plot_click(self, instant: float) -> None:
        if self.feed is None:
            self.playback.seek(instant)

    def _use_theme(self, name: str) -> None:
        if name == palette.theme:
            return
        theme.use(name)
        self.restyle()

    def restyle(self) -> None:
        """Use the colours of the present theme."""
        self.setStyleSheet(theme.style())
        self.scene.restyle()
        self.plots.restyle()
        self.events.mark()
        self.survey()
        self.refresh()

    def resizeEvent(self, event: Any) -> None:
        """Qt override: place the scene's labels for the new size."""
        super().resizeEvent(event)
        QtCore.QTimer.singleShot(0, self._on_resized)

    def _on_resized(self) -> None:
        self.scene.place_labels()
        self.refresh()
