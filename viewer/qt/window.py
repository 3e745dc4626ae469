"""Still picture of a run, laid out by Qt and written as PNG: header, bodies with earlier poses, and plots."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyqtgraph.Qt import QtCore, QtGui, QtWidgets

from nodes.recording.new_file import NotWrittenError, new_file
from viewer.data.signals import Signals
from viewer.panels import choose_fields
from viewer.qt import theme
from viewer.qt.picture import BodyPicture
from viewer.qt.plots import PlotGrid
from viewer.scene.scene import BODY

MOST_NAMED = 12  # most bodies that the legend names; a larger number is only counted
WANTED_SIZE = (1600, 1000)


class StillWindow(QtWidgets.QMainWindow):
    """Window that lays out the picture of one robot, and that is never shown on a screen.

    subtitle  line below the title
    waiting   text that is shown instead of the picture if there is no state
    fields    names of the fields to plot; empty for the default fields
    """

    def __init__(
        self, signals: Signals, subtitle: str, waiting: str, fields: Sequence[str] = (), plane: str = "auto"
    ) -> None:
        super().__init__()
        self.signals = signals
        self.grid = PlotGrid(choose_fields(fields), keep_empty=bool(fields))
        self.grid.set_still()
        self.picture = BodyPicture(plane)
        self._build(subtitle, waiting)
        self._survey()
        self.refresh()

    def _build(self, subtitle: str, waiting: str) -> None:
        self.setWindowTitle("armswing")
        self.setStyleSheet(theme.style())
        self.resize(*WANTED_SIZE)
        self.title, self.subtitle = _label("", "title"), _label(subtitle, "subtitle")
        self.clock = _label("", "title")
        header = QtWidgets.QHBoxLayout()
        names = QtWidgets.QVBoxLayout()
        names.setSpacing(0)
        names.addWidget(self.title)
        names.addWidget(self.subtitle)
        header.addLayout(names, 1)
        header.addWidget(self.clock, 0, QtCore.Qt.AlignmentFlag.AlignTop)
        shown = QtWidgets.QWidget()
        self._across = across = QtWidgets.QBoxLayout(QtWidgets.QBoxLayout.Direction.LeftToRight, shown)
        across.setContentsMargins(0, 0, 0, 0)
        across.addLayout(self._build_picture(), 11)
        plots = QtWidgets.QVBoxLayout()
        self.left_out, self.key = _label("", "caption"), _label("", "key")
        plots.addWidget(self.grid.widget, 1)
        plots.addWidget(self.key)
        plots.addWidget(self.left_out, 0, QtCore.Qt.AlignmentFlag.AlignRight)
        across.addLayout(plots, 17)
        self.empty = _label(waiting, "empty")
        self.empty.setAlignment(QtCore.Qt.AlignmentFlag.AlignCenter)
        self.empty.setWordWrap(True)
        self.stack = QtWidgets.QStackedWidget()
        self.stack.addWidget(self.empty)
        self.stack.addWidget(shown)
        page = QtWidgets.QWidget()
        page.setObjectName("page")
        layout = QtWidgets.QVBoxLayout(page)
        layout.setContentsMargins(18, 12, 18, 12)
        layout.addLayout(header)
        layout.addWidget(self.stack, 1)
        self.setCentralWidget(page)

    def _build_picture(self) -> Any:
        column = QtWidgets.QVBoxLayout()
        self.legend, self.caption = _label("", "section"), _label("", "caption")
        self.legend.setWordWrap(True)
        column.addWidget(self.legend)
        column.addWidget(self.picture.widget, 1)
        column.addWidget(self.caption)
        return column

    def _lay_out(self) -> None:
        """Place a wide picture above the plots, and any other picture beside them."""
        directions = QtWidgets.QBoxLayout.Direction
        direction = directions.TopToBottom if self.picture.wide else directions.LeftToRight
        if direction != self._across.direction():
            self._across.setDirection(direction)
        share = self.picture.share
        self._across.setStretch(0, round(100 * share))
        self._across.setStretch(1, round(100 * (1.0 - share)))
        self.grid.wide = self.picture.wide

    def _span(self) -> tuple[float, float]:
        """First and last time of the states, s."""
        series = self.signals.series.get("position") or self.signals.series.get("energy")
        if series is None or len(series.times) == 0:
            return 0.0, 0.0
        return float(series.times[0]), float(series.times[-1])

    def _survey(self) -> None:
        signals = self.signals
        if signals.description is None:
            self.caption.setText("no description of the robot was received: its bodies are not known")
            return
        if signals.poses is not None:
            self.picture.survey(signals)
        self._lay_out()
        keys = self.picture.keys(signals)
        bodies = [key for key in keys if key[0] == BODY]
        entries = [] if len(bodies) <= MOST_NAMED else [f"{len(bodies)} bodies"]
        entries += [_key(*key) for key in keys if not entries or key[0] != BODY]
        self.legend.setText("&nbsp;&nbsp; ".join(entries))  # a line breaks behind the gap
        if signals.poses is None:
            self.caption.setText("no poses of the bodies were received")
            return
        self.caption.setText(f"{self.picture.caption}; faint poses are earlier ones")

    def refresh(self) -> None:
        """Draw the whole run: its curves, its last pose and its earlier poses."""
        signals = self.signals
        self.title.setText(signals.robot.replace("_", " ") or "armswing")
        if signals.states == 0:
            self.stack.setCurrentIndex(0)
            self.clock.setText("")
            return
        self.stack.setCurrentIndex(1)
        start, end = self._span()
        self.clock.setText(f"t = {signals.time:.2f} s")
        self.grid.show(signals, start, end)
        self.left_out.setText(" &nbsp;&nbsp;".join(filter(None, [self._changes_key(), html.escape(self.grid.caption)])))
        self._show_key()
        if signals.poses is not None:
            # for a diverged run, the last pose before the divergence
            self.picture.show(signals, min(signals.time, signals.sane_until), start, ghosts=True)

    def _changes_key(self) -> str:
        """Legend of the vertical lines in the plots."""
        return " &nbsp;&nbsp;".join(
            _key("┃", name, color) for name, color in theme.change_colors(self.signals.changes).items()
        )

    def save_picture(self, path: str | Path, width: int = WANTED_SIZE[0], height: int = WANTED_SIZE[1]) -> None:
        """Write the picture as PNG. Raises OSError if the file cannot be written."""
        self.setFixedSize(width, height)
        self.ensurePolished()
        self.layout().activate()
        self.refresh()
        image = QtGui.QImage(width, height, QtGui.QImage.Format.Format_RGB32)
        for _ in range(3):  # a window that is not on a screen gets its final sizes only while it is drawn
            QtWidgets.QApplication.processEvents()
            self._lay_out_titles()
            image.fill(QtGui.QColor(theme.PAPER))
            self.render(image)
        try:
            with new_file(path) as part:
                if not image.save(str(part), "PNG"):
                    raise OSError("Qt could not write it")
        except NotWrittenError as error:
            raise OSError(f"cannot write the picture {path}: {error.strerror}") from error

    def resizeEvent(self, event: Any) -> None:
        """Qt override: lay out titles and legends for the new width."""
        super().resizeEvent(event)
        if self.signals.states:
            QtCore.QTimer.singleShot(0, self._lay_out_titles)

    def _lay_out_titles(self) -> None:
        self.grid.lay_out_titles(self.signals)
        self.picture.place_labels()
        self._show_key()

    def _show_key(self) -> None:
        text = self.grid.key()
        self.key.setVisible(bool(text))
        if text != self.key.text():
            self.key.setText(text)


def _key(mark: str, name: str, color: str) -> str:
    return f"<span style='color:{color}'>{mark}</span>&nbsp;{html.escape(name).replace(' ', '&nbsp;')}"


def _label(text: str, name: str) -> Any:
    label = QtWidgets.QLabel(text)
    label.setObjectName(name)
    return label
