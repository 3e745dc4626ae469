"""A live launch of CHARMIE and a window with 40 curves on it, each in a process of its own: for benchmarks.

The launch has a domain folder of its own. The window is on DISPLAY, or without it on a virtual screen (xvfb-run).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CURVES, PLOTS = 40, 4
START_S = 300.0  # longest wait for a launch or a window; a first start compiles
POLL_S = 0.2
END_S = 60.0
PYTHON = [sys.executable, "-P"]
SCREEN = "-screen 0 1920x1080x24"
JOINTS = [f"{side}_arm_{number}" for side in ("left", "right") for number in range(1, 7)]
HELD = ["base_x", "base_y", "base_yaw", "lift", "tilt", "neck_pan", "neck_tilt", "left_claw", "right_claw"]
LAUNCH_FILE = """
[sim]
robot = "charmie"
mode = "realtime"
step_ms = 1.0
rate_hz = {rate_hz}
safe_mode = "hold"

[[nodes]]
name = "trajectory"
run = "nodes/trajectory.py:Trajectory"
params = {{ kind = "sine", relative = true, beyond_limits = true, period_s = 4.0, joints = {joints} }}

[[nodes]]
name = "controller"
run = "nodes/controllers/position.py:JointPosition"
params = {{ joints = {all_joints} }}
"""


def virtual_screen() -> list[str]:
    """Beginning of a command that needs a screen: empty with DISPLAY, else that of xvfb-run.

    SystemExit, one line, where there is neither.
    """
    if "DISPLAY" in os.environ:
        return []
    if shutil.which("xvfb-run") is None:
        from bars import NOT_MEASURED  # this file is also a process of its own, which does not find its neighbours

        print("not measured: no DISPLAY and no xvfb-run: apt-get install -y xvfb", flush=True)
        raise SystemExit(NOT_MEASURED)
    return ["xvfb-run", "-a", "-s", SCREEN]


def launch_file(folder: Path, rate_hz: float) -> Path:
    """Write the launch file of CHARMIE with swinging arms, with states at `rate_hz`; returns its path."""
    path = folder / "bench.toml"
    joints, all_joints = json.dumps(JOINTS), json.dumps(JOINTS + HELD)
    path.write_text(LAUNCH_FILE.format(rate_hz=rate_hz, joints=joints, all_joints=all_joints))
    return path


@contextmanager
def launched(rate_hz: float) -> Iterator[Path]:
    """Context manager of a running launch: yields its folder, and sets XDG_RUNTIME_DIR of this process to it."""
    from nodes.framework.client import Client, NotLiveError, UnknownNameError
    from nodes.framework.transport.registry import RegistryError
    from nodes.framework.transport.service import ServiceError

    folder = Path(tempfile.mkdtemp(prefix="as"))  # short: ipc paths have a limit
    before = os.environ.get("XDG_RUNTIME_DIR")
    os.environ["XDG_RUNTIME_DIR"] = str(folder)
    command = [*PYTHON, "-m", "nodes.cli", "launch", str(launch_file(folder, rate_hz))]
    launch = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=folder)
    try:
        deadline = time.monotonic() + START_S
        while True:
            if launch.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the launch of CHARMIE did not run within {START_S:g} s")
            try:
                with Client() as client:
                    if client.sim_status()["state"] == "running":
                        break
            except (NotLiveError, UnknownNameError, ServiceError, RegistryError, OSError):
                pass
            time.sleep(POLL_S)
        yield folder
    finally:
        launch.send_signal(signal.SIGINT)
        launch.wait(timeout=END_S)
        if before is None:
            del os.environ["XDG_RUNTIME_DIR"]
        else:
            os.environ["XDG_RUNTIME_DIR"] = before
        shutil.rmtree(folder, ignore_errors=True)


class Window:
    """A window with the curves, in a process of its own.

    seconds  time that the window is shown after it is filled
    fill_s   time before that in which the plots fill

    pid  of its process, once it shows states
    """

    def __init__(self, folder: Path, fill_s: float, seconds: float) -> None:
        self._ready, self._report = folder / "ready", folder / "figures.json"
        for path in (self._ready, self._report):
            path.unlink(missing_ok=True)
        times = ["--fill", f"{fill_s}", "--seconds", f"{seconds}"]
        command = [*virtual_screen(), *PYTHON, __file__, str(self._ready), str(self._report), *times]
        self._process = subprocess.Popen(command)
        self._longest_s = START_S + fill_s + seconds + END_S
        deadline = time.monotonic() + START_S
        while not self._ready.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.close()
                raise SystemExit(f"no window showed states within {START_S:g} s")
            time.sleep(POLL_S)
        self.pid = int(self._ready.read_text())

    def figures(self) -> dict[str, float]:
        """Frames per second, share of a core and number of points, at the end of the window's time."""
        if self._process.wait(timeout=self._longest_s):
            raise SystemExit(f"the window ended with exit code {self._process.returncode}")
        found: dict[str, float] = json.loads(self._report.read_text())
        return found

    def close(self) -> None:
        """End the window now."""
        if self._process.poll() is None:
            if self._ready.exists():
                os.kill(int(self._ready.read_text()), signal.SIGINT)
            else:
                self._process.terminate()
            self._process.wait(timeout=END_S)


def points(window: Any, curve: Any) -> int:
    """Number of points of a curve in the time that the plots show."""
    found = window.sources[0].column(curve)
    start, _ = window.time_shown(window.history.layout)
    return 0 if found is None else int((found[0] >= start).sum())


def watch(ready: Path, report: Path, fill_s: float, seconds: float) -> None:
    """Open a window on the live launch, and count its frames and its processor time."""
    from viewer import app  # first: it limits numpy's threads

    app._limit_threads()
    from pyqtgraph.Qt import QtCore

    from viewer.layout import Curve, Layout, PlotSpec
    from viewer.request import Request
    from viewer.window import session

    application = session.start_qt()
    window = session.main_window(Request())
    session.defer_threads()
    window.show()
    with session.interrupts(application) as interrupted:

        def run(length_s: float) -> None:
            end = time.monotonic() + length_s
            while (left := end - time.monotonic()) > 0.0 and not interrupted.is_set():
                QtCore.QTimer.singleShot(max(1, round(1000.0 * left)), application.quit)
                application.exec()

        deadline = time.monotonic() + START_S
        while window.signals.states == 0 and time.monotonic() < deadline:
            run(POLL_S)
        fields = [f"{kind}.{joint}" for kind in ("position", "velocity") for joint in (*JOINTS, *HELD)][:CURVES]
        share = CURVES // PLOTS
        plots = [
            PlotSpec(tuple(Curve("charmie/state", field) for field in fields[place * share : (place + 1) * share]))
            for place in range(PLOTS)
        ]
        window.history.change(Layout(plots=tuple(plots)), "the benchmark's plots")
        ready.with_suffix(".part").write_text(str(os.getpid()))
        ready.with_suffix(".part").replace(ready)
        run(fill_s)
        assert window.live is not None
        frames, busy, start = window.live.frames, time.process_time(), time.monotonic()
        run(seconds)
        passed = time.monotonic() - start
    figures = {
        "frames_per_s": (window.live.frames - frames) / passed,
        "share_of_core": (time.process_time() - busy) / passed,
        "points": float(sum(points(window, curve) for plot in plots for curve in plot.curves)),
    }
    if picture := os.environ.get("VIEWER_PICTURE"):
        window.grab().save(picture)
    window.close()
    report.write_text(json.dumps(figures))


if __name__ == "__main__":
    watch(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[4]), float(sys.argv[6]))
