"""Main window of the viewer: scene, plots, time slider and menus, for one or more runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from pyqtgraph.Qt import QtCore, QtWidgets

from viewer import palette
from viewer.data.live import LiveFeed
from viewer.data.reading import BackgroundReading
from viewer.data.signals import Signals
from viewer.panels import choose_fields
from viewer.qt import theme
from viewer.window.docks.docks import Docks
from viewer.window.files import FileMenu
from viewer.window.growth import Growth
from viewer.window.history import ViewHistory
from viewer.window.layout import Camera, Layout
from viewer.window.live_run import LiveRun
from viewer.window.menus.menus import Menus
from viewer.window.menus.shortcuts import ShortcutPage
from viewer.window.page import Page
from viewer.window.plots.area import PlotArea
from viewer.window.plots.defaults import default_plots
from viewer.window.pushing import Pushing
from viewer.window.scene.view import SceneView
from viewer.window.settings import remember_theme
from viewer.window.source import ReadPart, Source, align
from viewer.window.timeline.event_marks import EventMarks
from viewer.window.timeline.playback import Playback
from viewer.window.timeline.timeline import Timeline

FRAME_MS = 33
LIVE_WINDOW_S = 20.0
LIVE_STRIDE = 0.05  # the live time axis moves in strides of this fraction of its length
TRACE_S = 4.0
WANTED_SIZE = (1600, 1000)


class MainWindow(QtWidgets.QMainWindow):
    """Window that shows a live feed or, if `feed` is None, recordings.

    sources   the runs to show; the scene shows the first of them
    subtitle  line below the title
    waiting   text that is shown while there is no state
    reading   background reading of the first recording, of which the window shows the part that was read so far; None
              if all recordings were read to their ends

    live       the live run; None for recordings
    subtitles  parts of the line below the title, one for each run
    """

    def __init__(
        self,
        sources: Sequence[Source],
        subtitle: str,
        waiting: str,
        feed: LiveFeed | None = None,
        fields: Sequence[str] = (),
        plane: str = "auto",
        reading: BackgroundReading[ReadPart] | None = None,
    ) -> None:
        super().__init__()
        self.sources, self.feed, self.reading = list(sources), feed, reading
        self._fields, self._keep_empty = choose_fields(fields), bool(fields)
        self.subtitles = [subtitle]
        self.live = None if feed is None else LiveRun(self, feed)
        self.growth = Growth(self)
        self.events = EventMarks(self)
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
        self.setWindowTitle("armswing")
        self.setStyleSheet(theme.style())
        self.page = Page(self.scene.widget, self.plots, self.timeline, subtitle, waiting)
        self.setCentralWidget(self.page)
        self.files = FileMenu(self)
        self.docks = Docks(self, self.plots, None if feed is None else feed.domain)
        self.docks.events.chosen.connect(self.events.jump_to)
        self.pushing = None if self.docks.steering is None else Pushing(self, self.docks.steering)
        self.menus = Menus(self, live=feed is not None)
        self.docks.add_menu(self.menus.insert("Panels", before="Help"))
        self._allow_comparing()
        self._fit_screen()
        self.docks.fit_widths()
        self.timeline.setEnabled(self.signals.states > 0)
        self.survey()
        self.choose_plots()
        self.events.mark()
        self.refresh()
        self.docks.update()
        self.give_way()
        self.growth.show_share()
        self._timer = QtCore.QTimer(self)
        self._timer.setTimerType(QtCore.Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._on_frame)
        self._timer.start(FRAME_MS)

    @property
    def subtitle(self) -> str:
        """Line below the title, about the runs that are shown."""
        return "; ".join(self.subtitles)

    @property
    def signals(self) -> Signals:
        """Signals of the run that the scene shows."""
        return self.sources[0].signals

    def _fit_screen(self) -> None:
        """Open at WANTED_SIZE, or at the size of a smaller screen."""
        room = self.screen().availableGeometry()
        width, height = min(WANTED_SIZE[0], room.width()), min(WANTED_SIZE[1], room.height() - 30)
        self.resize(width, height)
        self.move(room.left() + (room.width() - width) // 2, room.top() + max(0, (room.height() - 30 - height) // 2))

    # -- what is shown

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
            specs, left_out = default_plots(self._fields, self.sources[0], self._keep_empty)
        if specs != self.plots.specs:
            self.plots.set_specs(specs)
        overlaid = self._overlaid()
        caption = "; ".join(filter(None, (overlaid, left_out)))
        self.plots.caption.setText(caption)
        self.plots.caption.setVisible(bool(caption))
        self.plots.lay_out_titles()

    def overlay(self, source: Source, subtitle: str) -> None:
        """Overlay a further recording of the robot in the plots."""
        if any(each.label == source.label for each in self.sources):
            source.label = source.path
        self.sources.append(source)
        self.align()
        self.subtitles.append(subtitle)
        self.page.show_subtitle(self.subtitle)
        self._allow_comparing()
        self.plots.invalidate()
        self.choose_plots()
        self.events.mark()
        self.refresh()

    def align(self) -> None:
        """Place the times of overlaid recordings as the layout says."""
        self._has_equal_times = align(self.sources, self.history.layout.align)

    def _allow_comparing(self) -> None:
        for name in ("toggle_difference", "toggle_alignment"):
            self.menus.actions[name].setEnabled(len(self.sources) > 1)

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
        if self.pushing is not None:
            self.pushing.show_robot()

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
        self.plots.show_data(None if self.feed is not None else now)
        if signals.poses is not None:
            # for a diverged run, the last pose before the divergence
            shown = min(now - self.sources[0].offset, signals.sane_until)
            self.scene.show(signals, shown, max(start, shown - TRACE_S), ghosts=False)

    def _on_camera(self, camera: Camera | None, text: str) -> None:
        self.history.change(msgspec.structs.replace(self.history.layout, camera=camera), text)

    def _on_plot_click(self, instant: float) -> None:
        if self.feed is None:
            self.playback.seek(instant)

    # -- frames

    def _on_frame(self) -> None:
        if self.live is not None:
            self.live.take()
        else:
            self.growth.take()
            self.playback.advance()

    # -- commands

    def fit_all(self) -> None:
        """Fit the scene, the time axis and all value axes."""
        layout = self.history.layout
        plots = layout.plots and tuple(msgspec.structs.replace(spec, span=None) for spec in layout.plots)
        camera = layout.camera and self.scene.fitted(msgspec.structs.replace(layout.camera, follow=""))
        changed = msgspec.structs.replace(layout, plots=plots, camera=camera, time=None, window=None)
        self.history.change(changed, "fit of everything")

    def view_automatic(self) -> None:
        """Use the automatic camera."""
        self._on_camera(None, "automatic camera")

    def toggle_theme(self) -> None:
        """Change between a dark and a light background. Later windows open with the same colours."""
        other: Literal["light", "dark"] = "light" if palette.theme == "dark" else "dark"
        remember_theme(other)
        self.history.change(msgspec.structs.replace(self.history.layout, theme=other), f"{other} colours")

    def _use_theme(self, name: str) -> None:
        if name == palette.theme:
            return
        theme.use(name)
        self.setStyleSheet(theme.style())
        self.scene.restyle()
        self.plots.restyle()
        self.events.mark()
        self.survey()
        self.refresh()
        self.docks.restyle()

    def toggle_measured(self) -> None:
        """Switch between the model alone and the model with the robot in its measured pose drawn over it."""
        layout = self.history.layout
        self.history.change(msgspec.structs.replace(layout, measured=not layout.measured), "measured robot")

    def toggle_difference(self) -> None:
        """Switch the plots between the curves of all recordings and the differences from the first recording."""
        if len(self.sources) > 1:
            layout = self.history.layout
            changed = msgspec.structs.replace(layout, difference=not layout.difference)
            self.history.change(changed, "difference")

    def toggle_alignment(self) -> None:
        """Switch overlaid recordings between equal simulation times and equal starts."""
        if len(self.sources) > 1:
            other = "start" if self._has_equal_times else "time"
            self.history.change(msgspec.structs.replace(self.history.layout, align=other), "times of overlaid runs")

    def default_plots(self) -> None:
        """Return to the default plots of the robot."""
        changed = msgspec.structs.replace(self.history.layout, plots=None, time=None, window=None)
        self.history.change(changed, "default plots")

    def show_message(self, text: str) -> None:
        """Show one line about a command that succeeded: below the title or, for a live run, in the panel Simulation."""
        if self.docks.steering is not None:
            self.docks.steering.show_message(text)
        else:
            self.page.show_subtitle(text)

    def show_shortcuts(self) -> None:
        """Show the help page with the keys and mouse gestures."""
        self.shortcut_page = ShortcutPage(self.feed is not None, self)
        self.shortcut_page.show()

    # -- Qt

    def resizeEvent(self, event: Any) -> None:
        """Qt override: place the scene's labels for the new size."""
        super().resizeEvent(event)
        QtCore.QTimer.singleShot(0, self._on_resized)

    def _on_resized(self) -> None:
        self.scene.place_labels()
        self.refresh()

    def closeEvent(self, event: Any) -> None:
        """Qt override: stop the timer, the panels and the feed."""
        self._timer.stop()
        self.docks.close()
        self.files.close()
        if self.feed is not None:
            self.feed.close()
        if self.reading is not None:
            self.reading.close()
        super().closeEvent(event)
