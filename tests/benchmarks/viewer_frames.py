"""Frames per second and processor share of the viewer's window on a live CHARMIE with 40 curves of 5,000 points.

    python tests/benchmarks/viewer_frames.py [--seconds 60] [--json FILE]

Starts a launch in a domain folder of its own, and a window on it: with DISPLAY on that screen, without on a virtual
one (xvfb-run). After the plots have filled (FILL_S), frames that were drawn and the processor time of the viewer's
process, all threads, are counted. The figures mean nothing on a busy computer.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

FRAMES_BAR, SHARE_BAR = 30.0, 0.40
CURVES, PLOTS = 40, 4
RATE_HZ = 250.0  # rate of states: 5,000 in the 20 s that a live plot shows
FILL_S = 21.0
SECONDS = 60.0
START_S = 300.0  # a first start compiles
JOINTS = [f"{side}_arm_{number}" for side in ("left", "right") for number in range(1, 7)]
HELD = ["base_x", "base_y", "base_yaw", "lift", "tilt", "neck_pan", "neck_tilt", "left_claw", "right_claw"]
LAUNCH_FILE = f"""
[sim]
robot = "charmie"
mode = "realtime"
step_ms = 1.0
rate_hz = {RATE_HZ}
safe_mode = "hold"

[[nodes]]
name = "trajectory"
run = "nodes/trajectory.py:Trajectory"
params = {{ kind = "sine", relative = true, beyond_limits = true, period_s = 4.0, joints = {json.dumps(JOINTS)} }}

[[nodes]]
name = "controller"
run = "nodes/controllers/position.py:JointPosition"
params = {{ joints = {json.dumps(JOINTS + HELD)} }}
"""


def points(window: Any, curve: Any) -> int:
    """Number of points of a curve in the time that the plots show."""
    found = window.sources[0].column(curve)
    start, _ = window.time_shown(window.history.layout)
    return 0 if found is None else int((found[0] >= start).sum())


def watch(seconds: float) -> dict[str, float]:
    """Open the window on the live launch, and count its frames and its processor time."""
    from viewer import app  # first: it limits numpy's threads

    app._limit_threads()
    from pyqtgraph.Qt import QtCore

    from viewer.window.layout import Curve, Layout, PlotSpec
    from viewer.window.main import MainWindow

    application = app._application()
    window = app._main_window(None, None, (), "auto", None)
    assert isinstance(window, MainWindow)
    window.show()

    def run(length_s: float) -> None:
        end = time.monotonic() + length_s
        while (left := end - time.monotonic()) > 0.0:
            QtCore.QTimer.singleShot(max(1, round(1000.0 * left)), application.quit)
            application.exec()

    deadline = time.monotonic() + START_S
    while window.signals.states == 0 and time.monotonic() < deadline:
        run(0.2)
    fields = [f"{kind}.{joint}" for kind in ("position", "velocity") for joint in (*JOINTS, *HELD)][:CURVES]
    share = CURVES // PLOTS
    plots = [
        PlotSpec(tuple(Curve("charmie/state", field) for field in fields[place * share : (place + 1) * share]))
        for place in range(PLOTS)
    ]
    window.history.change(Layout(plots=tuple(plots)), "the benchmark's plots")
    run(FILL_S)
    frames, busy, start = window.frames, time.process_time(), time.monotonic()
    run(seconds)
    passed = time.monotonic() - start
    figures = {
        "frames_per_s": (window.frames - frames) / passed,
        "share_of_core": (time.process_time() - busy) / passed,
        "points": float(sum(points(window, curve) for plot in plots for curve in plot.curves)),
    }
    if picture := os.environ.get("VIEWER_PICTURE"):
        window.grab().save(picture)
    window.close()
    return figures


def measure(seconds: float, folder: Path) -> dict[str, Any]:
    """Figures of a window in a process of its own, beside a launch."""
    runtime, report = folder / "run", folder / "figures.json"
    runtime.mkdir(mode=0o700)
    (folder / "bench.toml").write_text(LAUNCH_FILE)
    environment = os.environ | {"XDG_RUNTIME_DIR": str(runtime)}
    python = [sys.executable, "-P"]
    launch = subprocess.Popen(
        [*python, "-m", "nodes.cli", "launch", str(folder / "bench.toml")], env=environment, stdout=subprocess.DEVNULL
    )
    try:
        virtual = [] if "DISPLAY" in os.environ else ["xvfb-run", "-a", "-s", "-screen 0 1920x1080x24"]
        command = [*virtual, *python, __file__, "--watch", str(report), "--seconds", str(seconds)]
        subprocess.run(command, env=environment, check=True, timeout=START_S + FILL_S + seconds + 60.0)
    finally:
        launch.send_signal(signal.SIGINT)
        launch.wait(timeout=30.0)
    figures: dict[str, Any] = json.loads(report.read_text())
    return figures


def main(json_path: str | None = None, seconds: float | None = None) -> dict[str, Any]:
    """Measure, print the table, and write it as JSON where asked to."""
    if "DISPLAY" not in os.environ and shutil.which("xvfb-run") is None:
        raise SystemExit("no DISPLAY and no xvfb-run: apt-get install -y xvfb")
    folder = Path(tempfile.mkdtemp(prefix="as"))  # short: ipc paths have a limit
    try:
        figures = measure(SECONDS if seconds is None else seconds, folder)
    finally:
        shutil.rmtree(folder)
    figures |= {"frames_bar": FRAMES_BAR, "share_bar": SHARE_BAR}
    rate, share = figures["frames_per_s"], 100.0 * figures["share_of_core"]
    print(f"live CHARMIE, {CURVES} curves, {figures['points']:.0f} points   measured        bar")
    print(f"  frames per second                        {rate:8.1f}   {FRAMES_BAR:8.1f}")
    print(f"  share of a core                          {share:7.1f}%   {100.0 * SHARE_BAR:7.1f}%")
    if json_path is not None:
        Path(json_path).write_text(json.dumps(figures, indent=2) + "\n")
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="time that is measured (60)")
    parser.add_argument("--watch", metavar="FILE", help=argparse.SUPPRESS)  # in the window's own process
    arguments = parser.parse_args()
    if arguments.watch is not None:
        Path(arguments.watch).write_text(json.dumps(watch(arguments.seconds)))
    else:
        main(arguments.json, arguments.seconds)
