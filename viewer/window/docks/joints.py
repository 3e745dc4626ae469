"""Sliders with which the user commands the joints of the live robot, and a line that says who commands the robot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyqtgraph.Qt import QtCore, QtWidgets

from nodes.framework.messages import Description
from viewer.data.joints import WAITING, JointRange, commanded_by_hand, commander_text, joint_ranges
from viewer.data.signals import Signals
from viewer.qt import theme
from viewer.qt.focus import only_when_clicked
from viewer.window.docks.calls import ServiceCalls

STEPS = 2000  # positions of a slider
NUMBER_WIDTH = 105  # pixels
SEND_MS = 50  # between two commands while a slider moves


class JointRow:
    """Slider and number field of one actuated joint."""

    def __init__(self, commanded: JointRange) -> None:
        self.range = commanded
        self.low, self.high = commanded.low, commanded.high
        self.name = QtWidgets.QLabel(commanded.actuator)
        self.name.setToolTip(f"{commanded.mode} of {commanded.joint}: {commanded.limits}")
        self.slider = QtWidgets.QSlider(QtCore.Qt.Orientation.Horizontal)
        self.slider.setRange(0, STEPS)
        self.slider.setMinimumWidth(60)
        self.slider.setToolTip(commanded.limits)
        self.value = QtWidgets.QDoubleSpinBox()
        self.value.setDecimals(3 if self.high - self.low > 0.1 else 5)
        self.value.setMaximumWidth(NUMBER_WIDTH)
        self.value.setRange(self.low, self.high)
        self.value.setSingleStep((self.high - self.low) / 100.0)
        self.value.setSuffix(f" {commanded.unit}")
        self.value.setKeyboardTracking(False)
        self.value.setToolTip(commanded.limits)
        for widget in (self.slider, self.value):
            only_when_clicked(widget)
        self.show(0.0)

    def show(self, value: float) -> None:
        """Show a value without sending it as a command."""
        for widget in (self.slider, self.value):
            widget.blockSignals(True)
        self.slider.setValue(round(STEPS * (value - self.low) / max(self.high - self.low, 1e-12)))
        self.value.setValue(value)
        for widget in (self.slider, self.value):
            widget.blockSignals(False)

    @property
    def chosen(self) -> float:
        return float(self.low + (self.high - self.low) * self.slider.value() / STEPS)


class JointPanel(QtWidgets.QWidget):
    """Panel with one row for each actuated joint.

    From the user's first motion of a slider on, the slider commands the joint, and commands of nodes to this joint have
    no effect. The button "Give back" ends the user's commands.
    """

    def __init__(self, calls: ServiceCalls) -> None:
        super().__init__()
        self._calls = calls
        self._description: Description | None = None
        self._namespace = ""
        self._pending: dict[str, tuple[str, float]] = {}  # {actuator: (mode, value)} not sent yet
        self.by_hand: set[str] = set()
        self.rows: dict[str, JointRow] = {}
        self.commander = QtWidgets.QLabel(WAITING)
        self.commander.setObjectName("caption")
        self.commander.setWordWrap(True)
        self.back = QtWidgets.QPushButton("Give back")
        self.back.setToolTip("stop commanding joints with the sliders; the nodes command these joints again")
        self.back.setFocusPolicy(QtCore.Qt.FocusPolicy.NoFocus)
        self.back.setEnabled(False)
        self.back.clicked.connect(lambda _: self.give_back())
        head = QtWidgets.QHBoxLayout()
        head.addWidget(self.commander, 1)
        head.addWidget(self.back, 0, QtCore.Qt.AlignmentFlag.AlignTop)
        self._table = QtWidgets.QWidget()
        self._grid = QtWidgets.QGridLayout(self._table)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setColumnStretch(1, 1)
        area = QtWidgets.QScrollArea()
        area.setWidgetResizable(True)
        area.setFrameShape(QtWidgets.QFrame.Shape.NoFrame)
        area.setWidget(self._table)
        column = QtWidgets.QVBoxLayout(self)
        column.setContentsMargins(4, 4, 4, 4)
        column.addLayout(head)
        column.addWidget(area, 1)
        self._timer = QtCore.QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(SEND_MS)
        self._timer.timeout.connect(self._send)

    def show_signals(self, signals: Signals) -> None:
        """Show the joints of the robot. Joints that the user does not command show their present values."""
        if signals.description is not None and signals.description is not self._description:
            self._show_robot(signals.description)
        self._namespace = signals.robot.rpartition("/")[0]
        for name, row in self.rows.items():
            column = signals.column(row.range.mode, row.range.joint)
            if name in self.by_hand or name in self._pending or row.value.hasFocus() or column is None:
                continue
            if len(column[1]):
                row.show(float(column[1][-1]))

    def forget(self) -> None:
        """Remove the user's commands, which were for a launch that has ended, and the line about who commands."""
        self._pending.clear()
        self._show_hand(set())
        self.commander.setText(WAITING)

    def _show_robot(self, description: Description) -> None:
        self._description = description
        while self._grid.count():
            self._grid.takeAt(0).widget().deleteLater()
        self.rows.clear()
        for commanded in joint_ranges(description):
            row = self.rows[commanded.actuator] = JointRow(commanded)
            line = len(self.rows)
            for place, widget in enumerate((row.name, row.slider, row.value)):
                self._grid.addWidget(widget, line, place)
            row.slider.valueChanged.connect(lambda _, row=row: self._command(row, row.chosen))
            row.value.valueChanged.connect(lambda value, row=row: self._command(row, value))
        self._grid.setRowStretch(len(self.rows) + 1, 1)
        if not self.rows:
            self.commander.setText("this robot has no actuated joint")

    def _command(self, row: JointRow, value: float) -> None:
        row.show(value)
        self._pending[row.range.actuator] = row.range.mode, value
        if not self._timer.isActive():
            self._timer.start()

    def _send(self) -> None:
        """Send the values that the user chose since the last call of this method, in one service call per mode."""
        pending, self._pending = self._pending, {}
        for mode in ("position", "effort"):
            chosen = {name: value for name, (each, value) in pending.items() if each == mode}
            if chosen:
                names = [self._full(name) for name in chosen]
                values = list(chosen.values())
                self._calls.call("sim", "hand_command", self._show_taken, mode=mode, name=names, value=values)

    def renew(self) -> None:
        """Renew the user's commands to joints, if there are any. The simulation ends these commands if they are not
        renewed for some seconds.
        """
        if self.by_hand:
            self._calls.call("sim", "hand_command", quiet=True)

    def give_back(self) -> None:
        """End the user's commands to joints, so that the nodes command all joints again."""
        self._pending.clear()
        self._calls.call("sim", "give_back", lambda _: self._show_taken(()))

    def _show_taken(self, names: Sequence[str]) -> None:
        self._show_hand({name.removeprefix(f"{self._namespace}/") for name in names})

    def show_status(self, status: dict[str, Any]) -> None:
        """Show who commands the robot.

        status  status of the simulation
        """
        self._show_hand(commanded_by_hand(status, self._namespace))
        if self.rows:
            self.commander.setText(commander_text(status, self._namespace, self.by_hand))
            self._table.setEnabled(status.get("mode") == "realtime")

    def _show_hand(self, names: set[str]) -> None:
        self.by_hand = names
        self.back.setEnabled(bool(names))
        for name, row in self.rows.items():
            row.name.setStyleSheet(f"color: {theme.ACCENT}; font-weight: bold" if name in names else "")

    def _full(self, name: str) -> str:
        return f"{self._namespace}/{name}" if self._namespace else name
