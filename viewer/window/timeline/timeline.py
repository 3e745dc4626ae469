"""Controls of a recording: a time slider, the time as a number, a button to play or pause, and a choice of speed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyqtgraph.Qt import QtCore, QtGui, QtWidgets

from viewer.qt import theme
from viewer.qt.focus import only_when_clicked

STEPS = 100_000
FACTORS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0)


class TimeSlider(QtWidgets.QSlider):
    """Slider that moves to the clicked time.

    Above its groove, it shows marks of events and bands for missing data; the part that was not read yet is hatched.
    """

    def __init__(self) -> None:
        super().__init__(QtCore.Qt.Orientation.Horizontal)
        self.setRange(0, STEPS)
        self.setFocusPolicy(QtCore.Qt.FocusPolicy.NoFocus)
        self.setMinimumHeight(26)
        self._marks: list[tuple[float, str]] = []
        self._bands: list[tuple[float, float]] = []
        self._unread: tuple[float, float] | None = None

    def set_marks(
        self,
        marks: Sequence[tuple[float, str]],
        bands: Sequence[tuple[float, float]],
        unread: tuple[float, float] | None = None,
    ) -> None:
        """Show marks (position, colour), bands (from, to), and the part (from, to) that was not read yet.

        All positions are fractions of the slider's length, 0 .. 1.
        """
        self._marks, self._bands, self._unread = list(marks), list(bands), unread
        self.update()

    def mousePressEvent(self, event: Any) -> None:
        """Qt override: move the handle under the pointer, so that the user can drag it from there."""
        if event.button() == QtCore.Qt.MouseButton.LeftButton:
            handle = self._handle_width()
            span = max(1, self.width() - handle)
            self.setValue(round(STEPS * min(1.0, max(0.0, (event.pos().x() - 0.5 * handle) / span))))
        super().mousePressEvent(event)

    def x_of(self, place: float) -> int:
        """Pixel of a position on the slider; positions are fractions of its length, 0 .. 1."""
        handle = self._handle_width()
        return round(0.5 * handle + place * (self.width() - handle))

    def paintEvent(self, event: Any) -> None:
        """Qt override: draw bands and marks, and then the slider."""
        painter = QtGui.QPainter(self)
        if self._unread is not None:
            left, right = (self.x_of(place) for place in self._unread)
            painter.fillRect(left, 2, right - left, self.height() - 4, theme.hatched())
        for start, end in self._bands:
            left, right = self.x_of(start), self.x_of(end)
            painter.fillRect(left, 2, max(2, right - left), self.height() - 4, theme.faded(theme.ALARM, 0.25))
        for place, color in self._marks:
            painter.fillRect(self.x_of(place), 1, 2, 6, QtGui.QColor(color))
        painter.end()
        super().paintEvent(event)

    def _handle_width(self) -> int:
        option = QtWidgets.QStyleOptionSlider()
        self.initStyleOption(option)
        style = QtWidgets.QStyle
        return int(
            self.style()
            .subControlRect(style.ComplexControl.CC_Slider, option, style.SubControl.SC_SliderHandle, self)
            .width()
        )


class Timeline(QtWidgets.QWidget):
    """Controls of the playback of a recording.

    sought   Qt signal with a time, s, to go to
    toggled  Qt signal to play or to pause
    """

    sought = QtCore.pyqtSignal(float)
    toggled = QtCore.pyqtSignal()

    def __init__(self) -> None:
        super().__init__()
        self._span = (0.0, 0.0)
        self.play = QtWidgets.QPushButton("Play")
        self.play.setFixedWidth(84)
        self.play.setFocusPolicy(QtCore.Qt.FocusPolicy.NoFocus)
        self.play.clicked.connect(self.toggled)
        self.factor_box = QtWidgets.QComboBox()
        self.factor_box.setFocusPolicy(QtCore.Qt.FocusPolicy.NoFocus)
        self.factor_box.setToolTip("seconds of the recording per second")
        for factor in FACTORS:
            self.factor_box.addItem(f"{factor:g} x", factor)
        self.factor_box.setCurrentIndex(FACTORS.index(1.0))
        self.time_box = QtWidgets.QDoubleSpinBox()
        self.time_box.setDecimals(3)
        self.time_box.setPrefix("t = ")
        self.time_box.setSuffix(" s")
        self.time_box.setKeyboardTracking(False)
        self.time_box.setToolTip("time shown: type another one to go there")
        self.time_box.valueChanged.connect(self.sought)
        only_when_clicked(self.time_box)
        self.slider = TimeSlider()
        self.slider.valueChanged.connect(self._on_slide)
        row = QtWidgets.QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        for widget, stretch in ((self.play, 0), (self.factor_box, 0), (self.slider, 1), (self.time_box, 0)):
            row.addWidget(widget, stretch)

    @property
    def factor(self) -> float:
        """Selected playback speed: seconds of the recording per second."""
        return float(self.factor_box.currentData())

    def change_factor(self, step: int) -> None:
        """Select the next higher (step 1) or lower (step -1) playback speed."""
        place = self.factor_box.currentIndex() + step
        self.factor_box.setCurrentIndex(max(0, min(len(FACTORS) - 1, place)))

    def set_span(
        self,
        start: float,
        end: float,
        events: Sequence[tuple[float, str]],
        holes: Sequence[tuple[float, float]],
        unread: tuple[float, float] | None = None,
    ) -> None:
        """Set the time range of the slider, the events and gaps that it marks, and the part that it hatches.

        start, end  first and last time, s
        events      (time in s, colour) of each event
        holes       (start, end), s, of each gap without data
        unread      (start, end), s, of the part that was not read yet
        """
        self._span = (start, end)
        self.time_box.blockSignals(True)
        self.time_box.setRange(start, end)
        self.time_box.blockSignals(False)
        length = end - start
        if length > 0.0:
            marks = [((time - start) / length, color) for time, color in events if start <= time <= end]
            bands = [((a - start) / length, (b - start) / length) for a, b in holes]
            rest = None if unread is None else ((unread[0] - start) / length, (unread[1] - start) / length)
            self.slider.set_marks(marks, bands, rest)

    def set_time(self, time: float) -> None:
        """Move the handle to a time, s, without emitting a signal."""
        start, end = self._span
        for widget in (self.slider, self.time_box):
            widget.blockSignals(True)
        self.slider.setValue(round(STEPS * (time - start) / (end - start)) if end > start else 0)
        self.time_box.setValue(time)
        for widget in (self.slider, self.time_box):
            widget.blockSignals(False)

    def set_playing(self, playing: bool) -> None:
        """Make the button show the action of the next click: pause while playing, and play otherwise."""
        self.play.setText("Pause" if playing else "Play")

    def _on_slide(self, value: int) -> None:
        start, end = self._span
        self.sought.emit(start + (end - start) * value / STEPS)
