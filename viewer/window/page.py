"""Central widget of the window: header, scene with its legend, plots, and time slider.

For a run without states, a text takes the place of scene and plots.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from pyqtgraph.Qt import QtCore, QtWidgets

from viewer.scene.scene import Key, shortened
from viewer.window.plots.area import PlotArea
from viewer.window.timeline.timeline import Timeline

SMALLEST_SCENE = (200, 150)  # pixels
CLOCK_MARGIN = 12  # pixels beside the time


class Page(QtWidgets.QWidget):
    """Widgets of one run.

    scene     widget of the 3-D scene
    plots     widget of the plots
    timeline  controls of a recording
    """

    def __init__(
        self, scene: QtWidgets.QWidget, plots: PlotArea, timeline: Timeline, subtitle: str, waiting: str
    ) -> None:
        super().__init__()
        self.setObjectName("page")
        self.title, self.subtitle, self.clock = _label("title"), _label("subtitle"), _label("title")
        self.subtitle.setText(subtitle)
        self.subtitle.setSizePolicy(QtWidgets.QSizePolicy.Policy.Ignored, QtWidgets.QSizePolicy.Policy.Preferred)
        self.clock.setAlignment(QtCore.Qt.AlignmentFlag.AlignRight)
        self.clock.setFixedSize(1, 1)
        self.legend, self.caption, self.empty = _label("section"), _label("caption"), _label("empty")
        for label in (self.legend, self.caption, self.empty):
            label.setWordWrap(True)
        self.empty.setText(waiting)
        self.empty.setAlignment(QtCore.Qt.AlignmentFlag.AlignCenter)
        self.splitter = QtWidgets.QSplitter()
        self.splitter.addWidget(self._scene_column(scene))
        self.splitter.addWidget(plots)
        self.splitter.setChildrenCollapsible(False)
        self.stack = QtWidgets.QStackedWidget()
        self.stack.addWidget(self.empty)
        self.stack.addWidget(self.splitter)
        self._laid_out = False
        layout = QtWidgets.QVBoxLayout(self)
        layout.setContentsMargins(12, 6, 12, 8)
        layout.setSpacing(4)
        layout.addLayout(self._header())
        layout.addWidget(self.stack, 1)
        layout.addWidget(timeline)

    def _header(self) -> Any:
        names = QtWidgets.QVBoxLayout()
        names.setSpacing(0)
        names.addWidget(self.title)
        names.addWidget(self.subtitle)
        header = QtWidgets.QHBoxLayout()
        header.addLayout(names, 1)
        header.addWidget(self.clock, 0, QtCore.Qt.AlignmentFlag.AlignTop)
        return header

    def _scene_column(self, scene: QtWidgets.QWidget) -> Any:
        found = QtWidgets.QWidget()
        column = QtWidgets.QVBoxLayout(found)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.legend)
        column.addWidget(scene, 1)
        column.addWidget(self.caption)
        scene.setMinimumSize(*SMALLEST_SCENE)
        return found

    def show_run(self, robot: str, clock: str) -> None:
        """Show the robot's name as title, and the time of the run.

        clock  time as text; "" for a run without states, for which the waiting text is shown
        """
        _set(self.title, robot.replace("_", " ") or "armswing")
        self._show_clock(clock)
        self.stack.setCurrentIndex(1 if clock else 0)

    def _show_clock(self, text: str) -> None:
        """Show the time.

        The label becomes wider if the text needs more room, but never narrower, because each change of the label's size
        lays out the page again.
        """
        if text == self.clock.text():
            return
        self.clock.setText(text)
        self.clock.ensurePolished()  # the style sheet's font
        width = self.clock.fontMetrics().horizontalAdvance(text) + CLOCK_MARGIN
        if width > self.clock.width():
            self.clock.setFixedSize(width, self.clock.sizeHint().height())

    def show_legend(self, keys: Sequence[Key]) -> None:
        _set(self.legend, "&nbsp;&nbsp; ".join(key_html(*key) for key in shortened(keys)))

    def show_caption(self, text: str) -> None:
        """Show the sentence below the scene."""
        _set(self.caption, text)

    def show_subtitle(self, text: str) -> None:
        """Show the line below the title. A tooltip has the whole line, for a window that is too narrow for the line."""
        _set(self.subtitle, text)
        if text != self.subtitle.toolTip():
            self.subtitle.setToolTip(text)

    def lay_out(self, wide: bool, share: float) -> None:
        """Arrange scene and plots.

        wide   whether the scene is above the plots; otherwise it is beside them
        share  share of the room that the scene gets
        """
        orientation = QtCore.Qt.Orientation.Vertical if wide else QtCore.Qt.Orientation.Horizontal
        if self.splitter.orientation() != orientation or not self._laid_out:
            self._laid_out = True
            self.splitter.setOrientation(orientation)
            self.splitter.setSizes([round(1000 * share), 1000 - round(1000 * share)])

    def favour_plots(self) -> None:
        """Give most of the room to the plots, because there is nothing to draw in the scene."""
        self.splitter.setSizes([200, 800])


def _set(label: Any, text: str) -> None:
    if text != label.text():
        label.setText(text)


def key_html(mark: str, name: str, color: str) -> str:
    return f"<span style='color:{color}'>{mark}</span>&nbsp;{html.escape(name).replace(' ', '&nbsp;')}"


def _label(name: str) -> Any:
    label = QtWidgets.QLabel()
    label.setObjectName(name)
    return label
