"""Main window of the viewer: scene, plots, time slider and menus, for one or more runs."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from pyqtgraph.Qt import QtCore, QtWidgets

from nodes.messages import Description, Message, RobotState, Status
from viewer import palette
from viewer.data.live import LaunchBegan, LiveFeed
from viewer.data.reading import BackgroundReading
from viewer.data.series import Floats
from viewer.data.signals import Signals, diverged_text
from viewer.data.topics import EventMark, LiveStore
from viewer.panels import choose_fields
from viewer.qt import theme
from viewer.window.docks.docks import Docks
from viewer.window.files import FileMenu
from viewer.window.history import ViewHistory
from viewer.window.layout import Camera, Layout
from viewer.window.menus import Menus
from viewer.window.page import Page
from viewer.window.playback import Playback
from viewer.window.plots.area import PlotArea
from viewer.window.plots.defaults import default_plots
from viewer.window.scene.view import SceneView
from viewer.window.settings import remember_theme
from viewer.window.shortcuts import ShortcutPage
from viewer.window.source import ReadPart, Source, align, warn_of
from viewer.window.timeline import Timeline

FRAME_MS = 33
LIVE_WINDOW_S = 20.0
LIVE_STRIDE = 0.05  # the live time axis moves in strides of this fraction of its length
TRACE_S = 4.0
SURVEY_EVERY = 30  # frames between two surveys of the live motion for the scene's limits
OUTGROWN_EVERY = 5  # frames between two checks that the current pose lies inside the scene
GRAVITY = 9.81  # m/s^2, for the weight that suggests the force of a push
SILENT_S = 3.0  # a launch from which no message came for this long, not even a status, has ended
PAUSED = "the simulation is paused, and has sent no state since this window opened: resume or step it"
STOPS = ("estop", "estop_released")  # kinds of the events that begin and end an emergency stop
RESTING = ("paused", "stopped")  # states in which a simulation does not advance
WANTED_SIZE = (1600, 1000)


class MainWindow(QtWidgets.QMainWindow):
    """Window that shows a live feed or, if `feed` is None, recordings.

    sources   the runs to show; the scene shows the first of them
    subtitle  line below the title
    waiting   text that is shown while there is no state
    reading   background reading of the first recording, of which the window shows the part that was read so far; None
              if all recordings were read to their ends
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
        self._subtitles = [subtitle]
        self._part: ReadPart | None = None  # the latest part of a recording that is read in the background
        self._sim, self._sim_since = "", 0.0
        self._heard_at: float | None = None
        self.frames = 0
        align(self.sources)
        self._opening_theme = palette.theme
        self.history = ViewHistory(self)
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
        self.docks.events.chosen.connect(self.jump_to)
        if self.docks.steering is not None:
            self.scene.pushed, self.scene.redraw, self.scene.missed = self._push, self.refresh, self._on_missed
            self.scene.dragged_push = self.docks.steering.show_drag
            self.docks.steering.push_strength.valueChanged.connect(self._on_strength)
        self.menus = Menus(self, live=feed is not None)
        self.docks.add_menu(self.menus.insert("Panels", before="Help"))
        if feed is None:
            self.menus.actions["toggle_difference"].setEnabled(len(self.sources) > 1)
        self._fit_screen()
        self.docks.fit_widths()
        self.timeline.setEnabled(self.signals.states > 0)
        self._survey()
        self._choose_plots()
        self._mark_timeline()
        self.refresh()
        self.docks.update()
        self._give_way()
        self._show_reading()
        self._timer = QtCore.QTimer(self)
        self._timer.setTimerType(QtCore.Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._on_frame)
        self._timer.start(FRAME_MS)

    @property
    def subtitle(self) -> str:
        """Line below the title, about the runs that are shown."""
        return "; ".join(self._subtitles)

    @property
    def is_heard(self) -> bool:
        """Whether messages of a live run are arriving."""
        return self._heard_at is not None and time.monotonic() - self._heard_at <= SILENT_S

    @property
    def is_stopped(self) -> bool:
        """Whether an emergency stop holds, from the events of the live run."""
        stops = [mark.kind for mark in self.sources[0].store.events if mark.kind in STOPS]
        return bool(stops) and stops[-1] == STOPS[0]

    @property
    def simulation_state(self) -> str:
        """State of the live simulation, such as "paused", from its latest status."""
        return self._sim

    @property
    def resting(self) -> tuple[str, float]:
        """(state of a live simulation that does not advance, such as "paused", time at which it entered this state).

        The time is in s of the monotonic clock. The state is "" if the simulation advances or its launch has ended.
        """
        return (self._sim, self._sim_since) if self._sim in RESTING and self.is_heard else ("", 0.0)

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
        """First and last time (s) on the time axis of the plots, if the window has the layout `layout`."""
        if layout.time is not None:
            return layout.time
        start, end = self.playback.whole_span
        if self.feed is not None:
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
        self._choose_plots()
        self.refresh()

    def _choose_plots(self) -> None:
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
        align(self.sources)
        self._subtitles.append(subtitle)
        self.page.show_subtitle(self.subtitle)
        self.menus.actions["toggle_difference"].setEnabled(True)
        for plot in self.plots.plots:
            plot.invalidate()
        self._choose_plots()
        self._mark_timeline()
        self.refresh()

    def _overlaid(self) -> str:
        """Text about the recordings that are overlaid in the plots; "" for a single recording."""
        if len(self.sources) < 2:
            return ""
        first, *others = (source.label for source in self.sources)
        if self.history.layout.difference:
            return f"plotted: {', '.join(others)} minus {first}, from the start of each"
        styles = ["dashed", *["dotted"] * (len(others) - 1)]
        named = ", ".join(f"{label} {style}" for label, style in zip(others, styles, strict=True))
        return f"{first} solid, {named}, from the start of each; the scene shows {first}"

    def _survey(self) -> None:
        signals = self.signals
        if signals.description is not None and signals.poses is not None:
            self.scene.survey(signals)
            self.page.lay_out(self.scene.wide, self.scene.share)
        self.page.show_legend(self.scene.keys(signals))
        self._caption()
        if self.docks.steering is not None and signals.description is not None:
            weight = GRAVITY * sum(body.mass for body in signals.description.bodies)
            self.docks.steering.suggest_strength(float(f"{0.5 * weight:.1g}") or 1.0)
            self.docks.steering.show_pushable(signals.description.pushable)

    def _give_way(self) -> None:
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
        self._survey()
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

    def _on_strength(self, newton: float) -> None:
        self.scene.strength = newton

    def _on_missed(self) -> None:
        if self.docks.steering is not None:
            self.docks.steering.tell_failure("no push: the drag has to begin on a body; pause a fast one first")

    def _push(self, body: str, newton: Floats, point: Floats) -> None:
        """Push a body of the live robot."""
        description, steering = self.signals.description, self.docks.steering
        if description is None or steering is None:
            return
        if body not in description.pushable:
            steering.tell_failure(
                f'{body} cannot be pushed: its launch file needs [sim] parameters = {{ pushable = "{body}" }}, or the '
                f"launch --set sim.parameters.pushable={body}"
            )
            return
        namespace = self.signals.robot.rpartition("/")[0]
        steering.push(f"{namespace}/{body}" if namespace else body, newton.tolist(), point.tolist())

    # -- frames

    def _on_frame(self) -> None:
        if self.feed is not None:
            self._take(self.feed.take())
        else:
            if self.reading is not None:
                self._take_read(self.reading)
            self.playback.advance()

    # -- a recording that is still being read

    def _take_read(self, reading: BackgroundReading[ReadPart]) -> None:
        """Show what was read since the last frame."""
        finished = reading.finished  # before the last part is taken
        if (part := reading.take()) is not None:
            self._part = part
            self._grow(part)
        if not finished:
            self._show_reading()
            return
        self.reading, self.playback.is_growing = None, False
        reading.close()
        self.setWindowTitle("armswing")
        if reading.failure:
            self._subtitles[0] += f"; the rest cannot be read: {reading.failure}"
        if self.signals.states == 0:
            self.page.empty.setText(reading.failure or (self._part.waiting if self._part is not None else ""))
        self.page.show_subtitle(self.subtitle)
        if self._part is not None:
            warn_of(self._part)

    def _show_reading(self) -> None:
        """Tell in the title how much of the recording was read so far."""
        if self.reading is not None:
            done = f"{math.floor(100.0 * self.reading.share)} %"
            self.setWindowTitle(f"armswing - reading {self.sources[0].label}, {done}")
            self.page.show_subtitle(f"still being read, {done}: {self.subtitle}")

    def _grow(self, part: ReadPart) -> None:
        """Show a longer part of the first recording.

        If the scene showed the end of the shorter part, it shows the end of the longer part.
        """
        source, read = self.sources[0], part.source
        before = self.signals.states
        at_end = self.playback.now >= self.playback.span[1] and not self.playback.playing
        source.signals, source.store, source.share, source.run = read.signals, read.store, read.share, read.run
        source.plan, source.duration_s = read.plan, read.duration_s
        self._subtitles[0] = part.subtitle
        align(self.sources)
        self.timeline.setEnabled(self.signals.states > 0)
        for plot in self.plots.plots:
            plot.invalidate()
        self._survey()
        self._choose_plots()
        self._mark_timeline()
        self.playback.seek(self.playback.span[1] if at_end else self.playback.now)
        self.docks.update()
        if before == 0:
            self._give_way()

    def _take(self, heard: Sequence[tuple[str, Message]]) -> None:
        instant = time.monotonic()
        ended = self._heard_at is not None and instant - self._heard_at > SILENT_S
        known = self.signals.description
        first = 0  # of the messages that are not in the store yet
        for place, (topic, message) in enumerate(heard):
            self._heard_at = instant
            if isinstance(message, LaunchBegan):
                self._begin_run()
                self._sim, first = "", place + 1
                continue
            if isinstance(message, Status):
                self.docks.take_status(message)
                if message.node == "sim" and message.state != self._sim:
                    self._sim, self._sim_since = message.state, instant
            if ended and isinstance(message, RobotState) and topic.rpartition("/")[0] != self.signals.robot:
                self._begin_run()  # the next launch has another robot
                ended = False
            elif self.signals.is_restarted_by(topic, message):
                self._begin_run(self.signals.description)
                first = place
            self.signals.take(topic, message)
        store = self.sources[0].store
        if first < len(heard) and isinstance(store, LiveStore):
            store.take(heard[first:])
        self._show_live()
        if not heard:
            return
        if self.frames % SURVEY_EVERY == 0 or self.signals.description is not known:
            self._survey()
            self._choose_plots()
            self._mark_events()
        elif self.frames % OUTGROWN_EVERY == 0 and self.scene.camera is None and self.scene.outgrown:
            self._survey()
        self.frames += 1
        self.refresh()

    def _begin_run(self, description: Description | None = None) -> None:
        """Forget all data of the launch that was shown, because another launch has begun.

        description  description of the robot if the new launch has sent it already
        """
        store = LiveStore()
        if description is not None:
            store.take([(f"{self.signals.robot}/description", description)])
        signals = Signals()
        signals.description = description
        self.sources[0] = Source("live", signals, store)
        self.plots.set_interval(None)
        self.plots.hover(None, None)
        self.plots.marks = []
        self.docks.forget()
        if self.history.layout.time is not None:  # a part of the old launch
            self.history.change(msgspec.structs.replace(self.history.layout, time=None), "next launch")
        for plot in self.plots.plots:
            plot.invalidate()

    def _show_live(self) -> None:
        """Update the subtitle, which tells the state of the live launch."""
        if self.feed is not None and self.signals.states == 0:
            paused = self._sim == "paused" and self.is_heard
            self.page.empty.setText(PAUSED if paused else self.feed.waiting)
        if self._heard_at is None:
            return
        silence = time.monotonic() - self._heard_at
        how = f": sim {self._sim}" if self._sim else ""
        if self.is_stopped:
            alarm = f"<span style='color:{theme.ALARM};font-weight:bold'>EMERGENCY STOP</span>"
            how = f": {alarm}, until it is released; sim {self._sim}"
        if silence > SILENT_S:
            how = f": no message for {silence:.0f} s, the launch has ended; waiting for the next ..."
        how += diverged_text(self.signals)
        self.page.show_subtitle(self.subtitle + how)

    def _mark_events(self) -> None:
        events = self.sources[0].events
        colors = theme.change_colors([(mark.time, mark.kind) for mark in events])
        self.plots.marks = [(mark.time, colors[mark.kind]) for mark in events if not mark.before]

    def _mark_timeline(self) -> None:
        self._mark_events()
        source = self.sources[0]
        holes = [(a + source.offset, b + source.offset) for a, b in source.signals.holes]
        self.timeline.set_span(*self.playback.whole_span, self.plots.marks, holes, source.unread)
        self.timeline.set_time(self.playback.now)

    def jump_to(self, instant: float) -> None:
        """Go to the time `instant`, s.

        The scene of a recording shows this time. If the plots do not show this time, or if the run is live, the time
        axis of the plots is moved so that its middle is at this time.
        """
        if self.feed is None:
            self.playback.seek(instant)
        start, end = self.time_shown(self.history.layout)
        if self.feed is not None or not start <= instant <= end:
            half = 0.5 * (end - start)
            layout = msgspec.structs.replace(self.history.layout, time=(instant - half, instant + half))
            self.history.change(layout, "jump to an event")

    def _on_plot_click(self, instant: float) -> None:
        if self.feed is None:
            self.playback.seek(instant)

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
        self._mark_timeline()
        self._survey()
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

    def default_plots(self) -> None:
        """Return to the default plots of the robot."""
        changed = msgspec.structs.replace(self.history.layout, plots=None, time=None, window=None)
        self.history.change(changed, "default plots")

    def next_event(self) -> None:
        """Go to the next event."""
        later = [mark.time for mark in self._present_events if mark.time > self._present + 1e-9]
        if later:
            self.jump_to(min(later))

    def previous_event(self) -> None:
        """Go to the previous event."""
        earlier = [mark.time for mark in self._present_events if mark.time < self._present - 1e-9]
        if earlier:
            self.jump_to(max(earlier))

    @property
    def _present_events(self) -> list[EventMark]:
        """Events of the run, without those from before a reset."""
        return [mark for mark in self.sources[0].events if not mark.before]

    @property
    def _present(self) -> float:
        """Time (s) from which the next and the previous event are counted.

        For a recording, this is the time that the scene shows. For a live run, it is the latest time or, if the user
        has selected a fixed time range for the plots, the middle of this range.
        """
        time_shown = self.history.layout.time
        return 0.5 * sum(time_shown) if self.feed is not None and time_shown is not None else self.playback.now

    def tell(self, text: str) -> None:
        """Show one line about a command that succeeded: below the title or, live, in the panel Simulation."""
        if self.docks.steering is not None:
            self.docks.steering.tell(text)
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
