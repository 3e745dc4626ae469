"""The viewer's window: header, picture of the bodies, plots, and for a recording a time slider with a play button."""

from __future__ import annotations

import html
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyqtgraph.Qt import QtCore, QtGui, QtWidgets

from nodes.messages import Message, RobotState, Status
from viewer.data.live import LiveFeed
from viewer.data.signals import Signals, diverged_text
from viewer.panels import choose_fields
from viewer.qt import theme
from viewer.qt.picture import BodyPicture
from viewer.qt.plots import PlotGrid
from viewer.scene.scene import BODY

FRAME_MS = 33
LIVE_WINDOW_S = 20.0
LIVE_STRIDE_S = 1.0
LIVE_TRACE_S = 4.0
SURVEY_EVERY = 30  # frames between two surveys of the live motion for the picture's limits
OUTGROWN_EVERY = 5  # frames between two checks that the current pose lies inside the picture
SLIDER_STEPS = 10_000
MOST_NAMED = 12  # most bodies that the legend names; a larger number is only counted
SILENT_S = 3.0  # a launch from which no message came for this long, not even a status, has ended


class Window(QtWidgets.QMainWindow):
    """Window that shows one robot, from a live feed or from a recording (`feed` None)."""

    def __init__(
        self,
        signals: Signals,
        subtitle: str,
        waiting: str,
        feed: LiveFeed | None = None,
        fields: Sequence[str] = (),
        plane: str = "auto",
    ) -> None:
        super().__init__()
        self.signals = signals
        self.feed = feed
        self._frames = 0
        self._still = False
        self._now = signals.time
        self._played_at: float | None = None
        self._where = subtitle
        self._sim = ""  # state that the simulation's status reports
        self._heard_at: float | None = None
        self.grid = PlotGrid(choose_fields(fields), keep_empty=bool(fields))
        self.picture = BodyPicture(plane)
        self._build(subtitle, waiting)
        if feed is None:
            self._survey()
        self.refresh()
        self._timer = QtCore.QTimer(self)
        self._timer.timeout.connect(self._on_frame)
        self._timer.start(FRAME_MS)

    def _build(self, subtitle: str, waiting: str) -> None:
        self.setWindowTitle("armswing")
        self.setStyleSheet(theme.STYLE)
        self.setMinimumSize(1160, 720)
        self.resize(1600, 1000)
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
        if self.feed is None:
            layout.addLayout(self._build_controls())
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
        """Place a wide picture above the plots, any other beside them."""
        directions = QtWidgets.QBoxLayout.Direction
        direction = directions.TopToBottom if self.picture.wide else directions.LeftToRight
        if direction != self._across.direction():
            self._across.setDirection(direction)
        share = self.picture.share
        self._across.setStretch(0, round(100 * share))
        self._across.setStretch(1, round(100 * (1.0 - share)))
        self.grid.wide = self.picture.wide

    def _build_controls(self) -> Any:
        self.play = QtWidgets.QPushButton("Play")
        self.play.setFixedWidth(90)
        self.play.clicked.connect(self._on_play)
        self.slider = QtWidgets.QSlider(QtCore.Qt.Orientation.Horizontal)
        self.slider.setRange(0, SLIDER_STEPS)
        self.slider.setValue(SLIDER_STEPS)
        self.slider.valueChanged.connect(self._on_slide)
        self.controls = QtWidgets.QWidget()
        row = QtWidgets.QHBoxLayout(self.controls)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self.play)
        row.addWidget(self.slider, 1)
        outer = QtWidgets.QHBoxLayout()
        outer.addWidget(self.controls)
        return outer

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
            self.caption.setText("no poses of the bodies here")
            return
        faint = "; faint poses are earlier ones" if self._still else ""
        self.caption.setText(self.picture.caption + faint)

    def refresh(self) -> None:
        """Draw the current state."""
        signals = self.signals
        self.title.setText(signals.robot.replace("_", " ") or "armswing")
        if signals.states == 0:
            self.stack.setCurrentIndex(0)
            self.clock.setText("")
            return
        self.stack.setCurrentIndex(1)
        start, end = self._span()
        if self.feed is not None:
            self._now = end
            # The time axis moves in strides: drawing its numbers in every frame would take longer than the curves.
            end = LIVE_STRIDE_S * max(1.0, math.ceil(end / LIVE_STRIDE_S))
            start = max(start, end - LIVE_WINDOW_S)
        self.clock.setText(f"t = {self._now:.2f} s")
        if self.feed is not None or self._frames == 0:
            self.grid.show(signals, start, end)
            self.left_out.setText(
                " &nbsp;&nbsp;".join(filter(None, [self._changes_key(), html.escape(self.grid.caption)]))
            )
            self._show_key()
        self.grid.mark(None if self.feed is not None or self._still else self._now)
        if signals.poses is not None:
            since = start if self._still else max(start, self._now - LIVE_TRACE_S)
            # for a diverged run, the last pose before the divergence
            self.picture.show(signals, min(self._now, signals.sane_until), since, ghosts=self._still)

    def _changes_key(self) -> str:
        """Legend of the vertical lines in the plots."""
        return " &nbsp;&nbsp;".join(
            _key("┃", name, color) for name, color in theme.change_colors(self.signals.changes).items()
        )

    def _on_frame(self) -> None:
        if self.feed is not None:
            heard = self.feed.take()
            self._take(heard)
            self._show_live()
            if heard and (
                self._frames % SURVEY_EVERY == 0 or (self._frames % OUTGROWN_EVERY == 0 and self.picture.outgrown)
            ):
                self._survey()
            if heard:
                self._frames += 1
                self.refresh()
        elif self._played_at is not None:
            self._advance()

    def _take(self, heard: Sequence[tuple[str, Message]]) -> None:
        instant = time.monotonic()
        ended = self._heard_at is not None and instant - self._heard_at > SILENT_S
        for topic, message in heard:
            self._heard_at = instant
            if isinstance(message, Status) and message.node == "sim":
                self._sim = message.state
            if ended and isinstance(message, RobotState) and topic.rpartition("/")[0] != self.signals.robot:
                self.signals = Signals()  # the next launch has another robot
                ended = False
            self.signals.take(topic, message)

    def _show_live(self) -> None:
        """Update the line about the state of the launch."""
        if self.feed is not None and self.signals.states == 0:
            self.empty.setText(self.feed.waiting)
        if self._heard_at is None:
            return
        silence = time.monotonic() - self._heard_at
        how = f": sim {self._sim}" if self._sim else ""
        if silence > SILENT_S:
            how = f": no message for {silence:.0f} s, the launch has ended"
        how += diverged_text(self.signals)
        self.subtitle.setText(self._where + how)

    def _advance(self) -> None:
        instant = time.monotonic()
        start, end = self._span()
        now = min(end, self._now + instant - (self._played_at or instant))
        self._played_at = instant
        if now >= end:
            self._stop_playing()
        self._now = now
        self.slider.blockSignals(True)
        self.slider.setValue(round(SLIDER_STEPS * (now - start) / (end - start)) if end > start else 0)
        self.slider.blockSignals(False)
        self._frames += 1
        self.refresh()

    def _on_play(self) -> None:
        if self._played_at is not None:
            self._stop_playing()
            return
        start, end = self._span()
        if self._now >= end:
            self._now = start
        self._played_at = time.monotonic()
        self.play.setText("Pause")

    def _stop_playing(self) -> None:
        self._played_at = None
        self.play.setText("Play")

    def _on_slide(self, value: int) -> None:
        start, end = self._span()
        self._now = start + (end - start) * value / SLIDER_STEPS
        self._frames += 1
        self.refresh()

    def save_picture(self, path: str | Path, width: int = 1600, height: int = 1000) -> None:
        """Write the whole window as one still picture: antialiased lines, earlier poses, no controls."""
        self._timer.stop()
        self._still = True
        self._frames = 0
        self._survey()
        self.grid.set_still()
        if self.feed is None:
            self.controls.hide()
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
        if not image.save(str(path), "PNG"):
            raise OSError(f"cannot write the picture {path}; its folder must exist and take files")

    def resizeEvent(self, event: Any) -> None:
        """Qt override: lays out titles and legends for the new width."""
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

    def closeEvent(self, event: Any) -> None:
        """Qt override: stops the timer and the feed."""
        self._timer.stop()
        if self.feed is not None:
            self.feed.close()
        super().closeEvent(event)


def _key(mark: str, name: str, color: str) -> str:
    return f"<span style='color:{color}'>{mark}</span>&nbsp;{html.escape(name).replace(' ', '&nbsp;')}"


def _label(text: str, name: str) -> Any:
    label = QtWidgets.QLabel(text)
    label.setObjectName(name)
    return label
