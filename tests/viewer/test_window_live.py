"""The window on a real launch: it follows, steers, and shows when the launch ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodes.framework.client import Client, read_recording

pytest.importorskip("pyqtgraph", exc_type=ImportError)
import pyqtgraph as pg
from pyqtgraph.Qt import QtCore, QtWidgets

from tests.viewer.window_driving import KEYS, drag
from viewer.request import Request
from viewer.window import session
from viewer.window.main import MainWindow

ROOT = Path(__file__).parents[2]
PATIENCE_MS = 30_000


def effort(window: MainWindow) -> float:
    """Latest effort of the first joint."""
    column = window.signals.column("effort", window.signals.labels("effort")[0])
    assert column is not None
    return float(column[1][-1])


@pytest.fixture
def launch(tmp_path: Path, monkeypatch: Any) -> Iterator[subprocess.Popen[bytes]]:
    """The rotary pendulum in real time, in a domain of its own."""
    runtime = tempfile.mkdtemp(prefix="as")  # short: ipc paths have a limit
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    command = [sys.executable, "-P", "-m", "nodes.cli", "launch", str(ROOT / "launch/rotary_pendulum.toml")]
    command += [
        "--duration",
        "100",
        "--set",
        "sim.parameters.pushable=pendulum",
        "--set",
        "recorder.file=" + str(tmp_path / "run.mcap"),
    ]
    with (tmp_path / "launch.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT, env=os.environ)
        yield process
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.wait(timeout=20.0)
    shutil.rmtree(runtime)


@pytest.fixture
def window(launch: subprocess.Popen[bytes], qtbot: Any, qapp: Any, tmp_path: Path) -> Iterator[MainWindow]:
    pg.setConfigOptions(mouseRateLimit=0)  # a test moves the mouse faster than a hand
    found: Any = session.main_window(Request())
    qtbot.addWidget(found)
    found.show()
    qtbot.waitUntil(lambda: found.signals.states > 0 or launch.poll() is not None, timeout=100_000)
    assert found.signals.states > 0, (tmp_path / "launch.log").read_text()
    yield found
    found.close()
    pg.setConfigOptions(mouseRateLimit=100)


def _push(window: MainWindow, body: int) -> None:
    """Drag a body with Ctrl and the left button."""
    line = next(outline for outline in window.scene._scene._bodies if outline.body == body)
    view = window.scene.box
    viewport = window.scene.widget.viewport()
    start = window.scene.widget.mapFromScene(view.mapViewToScene(QtCore.QPointF(*line.corners.mean(axis=0))))
    drag(viewport, start, start + QtCore.QPoint(60, 0), modifiers=KEYS.ControlModifier)


def test_a_live_run_is_followed_and_steered_and_its_end_is_shown(
    window: MainWindow, launch: subprocess.Popen[bytes], qtbot: Any, tmp_path: Path
) -> None:
    steering, parameters = window.docks.steering, window.docks.parameters
    assert steering is not None
    assert parameters is not None
    qtbot.waitUntil(lambda: window.live.simulation_state == "running", timeout=PATIENCE_MS)
    qtbot.waitUntil(lambda: steering.pause.isEnabled() and steering.pause.text() == "Pause", timeout=PATIENCE_MS)
    assert window.plots.plots
    # pause, step
    steering.pause.click()
    qtbot.waitUntil(lambda: window.live.simulation_state == "paused", timeout=PATIENCE_MS)
    with Client() as client:
        assert client.sim_status()["state"] == "paused"
        tick = client.sim_status()["tick"]
        qtbot.waitUntil(steering.step_button.isEnabled, timeout=PATIENCE_MS)
        steering.count.setValue(7)
        steering.step_button.click()
        qtbot.waitUntil(lambda: client.sim_status()["tick"] == tick + 7, timeout=PATIENCE_MS)
        # speed: set, and refused in the server's words
        steering.speed.setCurrentText("0.5")
        steering.set_speed()
        qtbot.waitUntil(lambda: client.sim_status()["speed"] == 0.5, timeout=PATIENCE_MS)
        steering.speed.setCurrentText("-1")
        steering.set_speed()
        qtbot.waitUntil(lambda: "the argument 'x' is -1.0; it must be" in steering.message.text(), timeout=PATIENCE_MS)
        # parameters: limits and units from the node, a change, a refusal before it is sent
        qtbot.waitUntil(lambda: parameters.item("swing_up", "torque_limit") is not None, timeout=PATIENCE_MS)
        item = parameters.item("swing_up", "torque_limit")
        assert (item.text(1), item.text(2), item.text(3)) == ("0.05", "N m", "1e-09 .. 1e+06")
        item.setText(1, "0.04")
        wanted = "swing_up.torque_limit = 0.04"
        qtbot.waitUntil(lambda: parameters.message.text() == wanted, timeout=PATIENCE_MS)
        assert client.call("swing_up", "get_parameters")["torque_limit"] == 0.04
        item = parameters.item("swing_up", "torque_limit")
        item.setText(1, "-3")
        assert "torque_limit = -3 is outside 1e-09 .. 1e+06 N m" in parameters.message.text()
        assert item.text(1) == "0.04"
        item.setText(1, "much")
        assert "'much' cannot be read as a value; write a value like 0.04" in parameters.message.text()
        # the emergency stop: by its key, without waiting for other calls, and released by its button
        QtWidgets.QApplication.setActiveWindow(window)  # no window manager does it
        qtbot.keyClick(window, QtCore.Qt.Key.Key_F12)
        qtbot.waitUntil(lambda: steering.message.text().startswith("stopped: sim after"), timeout=PATIENCE_MS)
        qtbot.waitUntil(lambda: any(mark.kind == "estop" for mark in window.sources[0].events), timeout=PATIENCE_MS)
        steering.release.click()
        qtbot.waitUntil(lambda: steering.message.text().startswith("stop released: sim"), timeout=PATIENCE_MS)
        # a push with the mouse, on the body under the pointer, and one on a body that cannot be pushed
        assert window.signals.description is not None
        assert window.signals.description.pushable == ["pendulum"]
        bodies = [body.name for body in window.signals.description.bodies]
        _push(window, bodies.index("pendulum"))
        qtbot.waitUntil(lambda: steering.message.text().startswith("pushed pendulum with"), timeout=PATIENCE_MS)
        qtbot.waitUntil(lambda: len(window.signals.pushes) == 1, timeout=PATIENCE_MS)
        (push,) = window.signals.pushes
        assert (push.body, round(push.end - push.start, 9)) == ("pendulum", 0.1)
        _push(window, bodies.index("arm"))
        assert 'needs [sim] parameters = { pushable = "arm" }' in steering.message.text()
        assert "--set sim.parameters.pushable=arm" in steering.message.text()
        # a joint by hand: its slider takes it from the node, and the button gives it back
        joints = window.docks.joints
        assert joints is not None
        qtbot.waitUntil(lambda: joints.commander.text().startswith("swing_up commands"), timeout=PATIENCE_MS)
        row = joints.rows["arm"]
        assert row.range[2:6] == ("effort", "N m", -0.05, 0.05)
        row.slider.setValue(row.slider.maximum())
        qtbot.waitUntil(lambda: client.sim_status()["by_hand"] == ["arm"], timeout=PATIENCE_MS)
        qtbot.waitUntil(lambda: joints.commander.text() == "you command arm", timeout=PATIENCE_MS)
        tick = client.sim_status()["tick"]
        steering.step_button.click()
        qtbot.waitUntil(lambda: client.sim_status()["tick"] > tick, timeout=PATIENCE_MS)
        qtbot.waitUntil(lambda: effort(window) == 0.05, timeout=PATIENCE_MS)
        joints.back.click()
        qtbot.waitUntil(lambda: client.sim_status()["by_hand"] == [], timeout=PATIENCE_MS)
        qtbot.waitUntil(lambda: not joints.back.isEnabled(), timeout=PATIENCE_MS)
        # resume, reset
        qtbot.waitUntil(lambda: steering.pause.text() == "Resume", timeout=PATIENCE_MS)
        steering.pause.click()
        qtbot.waitUntil(lambda: client.sim_status()["state"] != "paused", timeout=PATIENCE_MS)
        before = client.sim_status()["time"]
        steering.reset_button.click()
        qtbot.waitUntil(lambda: client.sim_status()["time"] < before, timeout=PATIENCE_MS)
    wanted_kinds = {"pause", "speed", "set", "resume", "reset"}
    qtbot.waitUntil(lambda: wanted_kinds <= {mark.kind for mark in window.sources[0].events}, timeout=PATIENCE_MS)
    qtbot.waitUntil(lambda: window.sources[0].span[1] < before, timeout=PATIENCE_MS)  # the plots start anew
    # a recording from here on, ended by the same button
    steering.record_to(str(tmp_path / "part.mcap"))
    with Client() as client:
        qtbot.waitUntil(lambda: any(entry.name == "record" for entry in client.nodes()), timeout=PATIENCE_MS)
        qtbot.waitUntil(lambda: client.call("record", "recording")["kept"], timeout=PATIENCE_MS)
    steering.record()
    qtbot.waitUntil(lambda: steering.message.text() == f"wrote {tmp_path / 'part.mcap'}", timeout=PATIENCE_MS)
    assert "rotary_pendulum/state" in read_recording(tmp_path / "part.mcap").topics
    timing = window.docks.timing
    assert timing is not None
    qtbot.waitUntil(lambda: sum(timing.histogram.counts.values()) > 0, timeout=PATIENCE_MS)
    assert "frames/s" in timing.figures.text()
    launch.send_signal(signal.SIGINT)
    qtbot.waitUntil(lambda: "the launch has ended; waiting for the next" in window.page.subtitle.text(), timeout=60_000)
    qtbot.waitUntil(lambda: not steering.pause.isEnabled(), timeout=PATIENCE_MS)
