"""Main window of the viewer: a window on runs with panels, menus, and the frames of live runs and of playback."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from pyqtgraph.Qt import QtCore

from viewer import palette
from viewer.data.live import LiveFeed
from viewer.data.reading import BackgroundReading
from viewer.source import ReadPart, Source
from viewer.window.docks.docks import Docks
from viewer.window.files import FileMenu
from viewer.window.growth import Growth
from viewer.window.live_run import LiveRun
from viewer.window.menus.menus import Menus
from viewer.window.menus.shortcuts import ShortcutPage
from viewer.window.pushing import Pushing
from viewer.window.run_window import RunWindow
from viewer.window.settings import remember_theme

FRAME_MS = 33
WANTED_SIZE = (1600, 1000)


class MainWindow(RunWindow):
    """Window on a live feed or on recordings, with panels and menus.

    live  the live run; None for recordings
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
        super().__init__(sources, subtitle, waiting, feed, fields, plane, reading)
        self.live = None if feed is None else LiveRun(self, feed)
        self.docks = Docks(self, self.plots, self.live, None if feed is None else feed.domain)
        self.docks.events.chosen.connect(self.events.jump_to)
        self.growth = Growth(self, self.docks)
        self.files = FileMenu(self, self.docks)
        self.pushing = None
        if self.docks.steering is not None:
            self.pushing = Pushing(self.scene, self.docks.steering, self.refresh)
        self.menus = Menus(self, live=feed is not None)
        self.docks.add_menus(self.menus)
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

    def _fit_screen(self) -> None:
        """Open at WANTED_SIZE, or at the size of a smaller screen."""
        room = self.screen().availableGeometry()
        width, height = min(WANTED_SIZE[0], room.width()), min(WANTED_SIZE[1], room.height() - 30)
        self.resize(width, height)
        self.move(room.left() + (room.width() - width) // 2, room.top() + max(0, (room.height() - 30 - height) // 2))

    def survey(self) -> None:
        """Fit the scene, its legend and its caption to the motion of the robot so far."""
        super().survey()
        if self.pushing is not None:
            self.pushing.show_robot(self.signals)

    def overlay(self, source: Source, subtitle: str) -> None:
        """Overlay a further recording of the robot in the plots."""
        super().overlay(source, subtitle)
        self._allow_comparing()

    def restyle(self) -> None:
        super().restyle()
        self.docks.restyle()

    def _allow_comparing(self) -> None:
        for name in ("toggle_difference", "toggle_alignment"):
            self.menus.actions[name].setEnabled(len(self.sources) > 1)

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
        self._on_camera(None, "automatic camera")

    def toggle_theme(self) -> None:
        """Change between a dark and a light background. Later windows open with the same colours."""
        other: Literal["light", "dark"] = "light" if palette.theme == "dark" else "dark"
        remember_theme(other)
        self.history.change(msgspec.structs.replace(self.history.layout, theme=other), f"{other} colours")

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
        changed = msgspec.structs.replace(self.history.layout, plots=None, time=None, window=None)
        self.history.change(changed, "default plots")

    def show_shortcuts(self) -> None:
        self.shortcut_page = ShortcutPage(self.feed is not None, self)
        self.shortcut_page.show()

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
