"""Panel that controls the live simulation: pause, resume, step, reset, speed, emergency stop and recording."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from pyqtgraph.Qt import QtCore, QtWidgets

from viewer.qt import theme
from viewer.qt.focus import only_when_clicked
from viewer.window.docks.calls import ServiceCalls
from viewer.window.processes import ArmswingProcess
from viewer.window.suffixes import with_suffix

PUSH_S = 0.1  # s
PUSH_HELP = (
    "drag a body with Ctrl and the left button to push it; "
    "a drag over a quarter of the scene's height applies this force"
)
UNPUSHABLE = (
    'no body can be pushed: the launch file needs [sim] parameters = { pushable = "*" }, or the launch '
    "--set 'sim.parameters.pushable=*'"
)
SPEEDS = ("0.05", "0.1", "0.25", "0.5", "1", "2", "5", "10")


class SteeringPanel(QtWidgets.QWidget):
    """Buttons that control the simulation, and one line with the response to the last call."""

    def __init__(self, calls: ServiceCalls) -> None:
        super().__init__()
        self._calls = calls
        self._state = ""
        self._strength_suggested = self._is_stopped = False
        self.pause = self._button("Pause", self.pause_or_resume)
        self.reset_button = self._button("Reset", self.reset)
        self.step_button = self._button("Step", self.step)
        self.count = QtWidgets.QSpinBox()
        self.count.setRange(1, 1_000_000)
        self.count.setToolTip("number of steps")
        only_when_clicked(self.count)
        self.speed = QtWidgets.QComboBox()
        self.speed.setEditable(True)
        self.speed.addItems(SPEEDS)
        self.speed.setCurrentText("1")
        self.speed.setToolTip("simulated seconds per second")
        only_when_clicked(self.speed)
        self.speed.activated.connect(lambda _: self.set_speed())
        self.message = QtWidgets.QLabel()
        self.message.setObjectName("caption")
        self.message.setWordWrap(True)
        grid = QtWidgets.QGridLayout(self)
        grid.setContentsMargins(4, 4, 4, 4)
        grid.addWidget(self.pause, 0, 0)
        grid.addWidget(self.reset_button, 0, 1)
        grid.addWidget(self.step_button, 1, 0)
        grid.addWidget(self.count, 1, 1)
        grid.addWidget(QtWidgets.QLabel("speed"), 2, 0)
        grid.addWidget(self.speed, 2, 1)
        self.stop = self._button("Stop (F12)", self.emergency_stop)
        self.stop.setObjectName("stop")
        self.stop.setToolTip("emergency stop of all robots of the launch")
        self.release = self._button("Release", self.release_stop)
        self.release.setToolTip("end the emergency stop: commands are accepted again")
        self.record_button = self._button("Record ...", self.record)
        self.recording: ArmswingProcess | None = None
        self._file = ""
        grid.addWidget(self.record_button, 3, 0, 1, 2)
        grid.addWidget(self.stop, 4, 0)
        grid.addWidget(self.release, 4, 1)
        grid.addWidget(self.message, 7, 0, 1, 2)
        self.push_strength = _spin(1.0, 1e-3, 1e6, " N", "force of a drag across a quarter of the scene's height")
        self.push_duration = _spin(PUSH_S, 1e-3, 3600.0, " s", "simulated time for which a push acts")
        self.push_duration.setSingleStep(0.05)
        self.push_label = QtWidgets.QLabel("push")
        self.push_help = QtWidgets.QLabel(PUSH_HELP)
        self.push_help.setObjectName("caption")
        self.push_help.setWordWrap(True)
        row = QtWidgets.QHBoxLayout()
        for widget in (self.push_label, self.push_strength, QtWidgets.QLabel("for"), self.push_duration):
            row.addWidget(widget)
        row.addStretch(1)
        grid.addLayout(row, 5, 0, 1, 2)
        grid.addWidget(self.push_help, 6, 0, 1, 2)
        grid.setRowStretch(8, 1)
        calls.failed.connect(self.show_failure)
        self.show_state("", live=False)

    def show_state(self, state: str, live: bool) -> None:
        """Enable the buttons that the simulation accepts in its present state.

        state  state of the simulation, such as "paused"
        live   whether messages of the launch arrive
        """
        if (state, live) == (self._state, self.pause.isEnabled()):
            return
        if live and not self.pause.isEnabled():  # the launch may have begun with another speed than 1
            self._calls.run(
                lambda client: client.sim_status(), lambda status: self._show_speed(status.get("speed")), quiet=True
            )
        self._state = state
        paused = state in ("paused", "stopped")
        self.pause.setText("Resume" if paused else "Pause")
        for widget in (self.pause, self.reset_button, self.speed, self.stop, self.release):
            widget.setEnabled(live)
        self.record_button.setEnabled(live or self.recording is not None)
        for widget in (self.step_button, self.count):
            widget.setEnabled(live and state == "paused")
        self.step_button.setToolTip("" if state == "paused" else "pause the simulation first")

    def show_emergency(self, is_stopped: bool) -> None:
        """Show whether an emergency stop holds. During an emergency stop, the release button has the alarm colour.

        The stop button never releases a stop, so that a hasty second press of this button cannot start the robots.
        """
        if is_stopped == self._is_stopped:
            return
        self._is_stopped = is_stopped
        self.stop.setText("Stopped (F12)" if is_stopped else "Stop (F12)")
        self.release.setText("Release the stop" if is_stopped else "Release")
        for button, name in ((self.stop, "" if is_stopped else "stop"), (self.release, "released" * is_stopped)):
            button.setObjectName(name)
            button.style().unpolish(button)
            button.style().polish(button)

    def pause_or_resume(self) -> None:
        self._call("resume" if self._state in ("paused", "stopped") else "pause")

    def step(self) -> None:
        """Advance a paused simulation by the chosen number of steps."""
        self._call("step", n=self.count.value())

    def reset(self) -> None:
        """Set the robot back to its start, and the simulation time to zero."""
        self._call("reset")

    def set_speed(self) -> None:
        """Set the simulation speed that the user chose."""
        text = self.speed.currentText().strip()
        try:
            factor = float(text)
        except ValueError:
            self.show_failure(f"speed {text!r} is not a number")
            return
        self._call("speed", x=factor)

    def show_pushable(self, bodies: Sequence[str]) -> None:
        """Show how the user can push the bodies `bodies`; if there are none, show how a launch permits pushes."""
        self.push_help.setText(PUSH_HELP if bodies else UNPUSHABLE)

    def suggest_strength(self, newton: float) -> None:
        """Show a suitable force for pushes of this robot, until the user chooses another force.

        newton  suitable force, N
        """
        if not self._strength_suggested:
            self._strength_suggested = True
            self.push_strength.setValue(newton)

    def show_drag(self, body: str, newton: float) -> None:
        """Show the force (N) of a push while the user still drags the body."""
        self.show_message(f"{body}: {newton:.3g} N, when the button is released")

    def push(self, body: str, force: list[float], point: list[float]) -> None:
        """Push a body for the time that the user chose.

        force  components of the force (3,), N, in world axes
        point  point of application (3,), m, in the body's frame
        """
        duration = self.push_duration.value()
        newton = math.hypot(*force)
        self._calls.call(
            "sim",
            "push",
            lambda _: self.show_message(f"pushed {body} with {newton:.3g} N for {duration:g} s"),
            body=body,
            force=force,
            point=point,
            duration_s=duration,
        )

    def forget(self) -> None:
        """Remove the response to the last call, which was of a launch that has ended."""
        self._strength_suggested = False
        if self.recording is None:
            self.show_message("")

    def show_message(self, text: str) -> None:
        """Show one line of text."""
        self.message.setStyleSheet("")
        self.message.setText(text)

    def emergency_stop(self) -> None:
        """Stop the actuators of all robots of the launch at once, without waiting for earlier calls."""
        self._calls.run(lambda client: client.estop("emergency stop in the viewer"), self._show_stopped, urgent=True)

    def release_stop(self) -> None:
        """End an emergency stop, so that commands are accepted again."""
        self._calls.run(lambda client: client.estop("", True), self._show_released, urgent=True)

    def _show_stopped(self, answers: Any) -> None:
        missing = [each.node for each in answers if each.error]
        if missing or not answers:
            self.show_failure(
                f"{', '.join(missing) or 'no node'} did not stop; press the emergency switch of the robot"
            )
            return
        self.message.setStyleSheet(f"color: {theme.ALARM}; font-weight: bold")
        self.message.setText("stopped: " + ", ".join(f"{each.node} after {each.ms:.0f} ms" for each in answers))

    def _show_released(self, answers: Any) -> None:
        missing = [f"{each.node}: {each.error}" for each in answers if each.error]
        if missing or not answers:
            self.show_failure(f"not released: {', '.join(missing) or 'no node answers'}")
            return
        self.show_message("stop released: " + ", ".join(each.node for each in answers))

    def record(self) -> None:
        """Ask for a file and record all topics to it. If a recording is running, end it instead."""
        if self.recording is not None:
            self.recording.interrupt()
            self.record_button.setEnabled(False)  # until the file is closed
            return
        suggested = time.strftime("recording_%Y%m%d_%H%M%S.mcap")
        path, _ = QtWidgets.QFileDialog.getSaveFileName(self, "Record to", suggested, "Recordings (*.mcap)")
        if path:
            self.record_to(with_suffix(path, ".mcap"))

    def record_to(self, path: str) -> None:
        """Record all topics to the file `path` until `record` is called again. An existing file is replaced."""
        domain = str(self._calls.domain)
        self._file = path
        self.recording = ArmswingProcess(["record", "--output", path, "--force", "--domain", domain], self)
        self.recording.ended.connect(self._on_recorded)
        self.record_button.setText("End the recording")
        self.show_message(f"recording to {path}")

    def _on_recorded(self, code: int, line: str) -> None:
        self.recording = None
        self.record_button.setText("Record ...")
        self.record_button.setEnabled(self.pause.isEnabled())
        if code not in (0, 130):
            self.show_failure(line.removeprefix("armswing: ") or f"the recording ended with exit code {code}")
            return
        self.show_message(f"wrote {self._file}")

    def close_recording(self) -> None:
        """If a recording is running, end it and wait until its file is closed."""
        if self.recording is not None:
            self.recording.close()
            self.recording = None

    def _call(self, service: str, **arguments: Any) -> None:
        def work(client: Any) -> Any:
            client.call("sim", service, **arguments)
            return client.sim_status()

        self._calls.run(work, lambda status: self._show_status(service, status))

    def _show_status(self, service: str, status: dict[str, Any]) -> None:
        self.message.setStyleSheet("")
        pace = f", speed {status['speed']:g}" if status.get("speed") is not None else ""
        self.message.setText(f"{service}: {status['state']} at t = {status['time']:.3f} s, step {status['tick']}{pace}")
        self.show_state(str(status["state"]), live=True)
        self._show_speed(status.get("speed"))

    def _show_speed(self, speed: float | None) -> None:
        """Show the speed of the simulation, unless the user is typing another one."""
        if speed is not None and not self.speed.lineEdit().hasFocus():
            self.speed.setCurrentText(f"{speed:g}")

    def show_failure(self, text: str) -> None:
        """Show one line of text about a call that failed."""
        self.message.setStyleSheet(f"color: {theme.ALARM}")
        self.message.setText(text)

    def _button(self, text: str, pressed: Any) -> Any:
        button = QtWidgets.QPushButton(text)
        button.setFocusPolicy(QtCore.Qt.FocusPolicy.NoFocus)
        button.clicked.connect(lambda _: pressed())
        return button


def _spin(value: float, low: float, high: float, suffix: str, tip: str) -> Any:
    """A field for a number with its unit."""
    found = QtWidgets.QDoubleSpinBox()
    found.setDecimals(3)
    found.setRange(low, high)
    found.setValue(value)
    found.setSuffix(suffix)
    found.setToolTip(tip)
    only_when_clicked(found)
    return found
