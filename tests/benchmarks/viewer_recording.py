"""A recording of ten minutes at 1 kHz in the window: first picture, reaction of the time slider, holes.

    python tests/benchmarks/viewer_recording.py [--minutes 10] [--recording FILE] [--json FILE]

Records the rotary pendulum in lockstep, 0.7 MB per second (which takes longer than all else; --recording keeps the
file, and uses it the next time), destroys some bytes in its middle, and opens it as `armswing view FILE` does.
Times count from the start of the window's process: until a picture with states is drawn, until the window names the
hole, and until the whole file was read. The slider is clicked at SPOTS places, while the file is being
read and afterwards; a click counts until the window is drawn again. Bars: 3 s, 10 s, 100 ms.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bars import at_most
from live_window import END_S, START_S, virtual_screen

PICTURE_BAR_S, HOLE_BAR_S, CLICK_BAR_S = 3.0, 10.0, 0.1
LAUNCH = Path(__file__).parents[2] / "launch" / "rotary_pendulum_lockstep.toml"
MINUTES = 10.0
SPOTS = 20
BETWEEN_S = 0.1  # between two clicks while the file is being read
DESTROYED = 60_000  # bytes


def record(path: Path, seconds: float) -> None:
    """Record the rotary pendulum in lockstep, with a hole in the middle."""
    from nodes.framework.plan.files.file import load_plan
    from nodes.framework.simulation.compose import Composition

    plan = load_plan(LAUNCH, [f"recorder.file={path}"])
    plan.duration_s = None
    with Composition(plan) as run:
        run.run(seconds)
    with path.open("r+b") as file:
        middle = path.stat().st_size // 2
        file.seek(middle)
        bad = bytes(byte ^ 0x55 for byte in file.read(DESTROYED))
        file.seek(middle)
        file.write(bad)


def watch(path: str, began: float) -> dict[str, float]:
    """Open the recording in a window of this process, and click on its slider.

    began  time.time() at the start of this process
    """
    from viewer import app  # first: it limits numpy's threads

    app._limit_threads()
    from pyqtgraph.Qt import QtCore, QtGui, QtWidgets

    from viewer.request import Request
    from viewer.window import session

    application = session.start_qt()
    window = session.main_window(Request(path))
    window.show()

    def drawn(is_done: Any) -> float:
        """Time until a condition holds in a window that is drawn, s since `began`."""
        while not is_done():
            application.processEvents(QtCore.QEventLoop.ProcessEventsFlag.AllEvents, 20)
            if time.time() - began > START_S:
                raise SystemExit(f"the window did not show the recording within {START_S:g} s")
        window.repaint()
        application.processEvents()
        return time.time() - began

    slider = window.timeline.slider
    kinds, buttons = QtCore.QEvent.Type, QtCore.Qt.MouseButton

    def click(number: int) -> float:
        """Duration of a click on the slider, until the window is drawn again, s."""
        share = 0.95 * window.playback.span[1] / window.playback.whole_span[1]  # of the slider, with data
        at = QtCore.QPointF(slider.x_of(share * (number * 7 % SPOTS + 0.5) / SPOTS), 0.5 * slider.height())
        start, before = time.perf_counter(), window.playback.now
        for kind, held in ((kinds.MouseButtonPress, buttons.LeftButton), (kinds.MouseButtonRelease, buttons.NoButton)):
            modifiers = QtCore.Qt.KeyboardModifier.NoModifier
            QtWidgets.QApplication.sendEvent(slider, QtGui.QMouseEvent(kind, at, buttons.LeftButton, held, modifiers))
        window.repaint()
        application.processEvents()
        assert window.playback.now != before, "the click on the slider had no effect"
        return time.perf_counter() - start

    picture_s = drawn(lambda: window.signals.states > 0)
    early: list[float] = []
    hole_s = 0.0
    while window.reading is not None:
        early.append(click(len(early)))
        until = time.time() + BETWEEN_S
        while time.time() < until:
            application.processEvents(QtCore.QEventLoop.ProcessEventsFlag.WaitForMoreEvents)
        hole_s = hole_s or (time.time() - began if "missing" in window.page.subtitle.text() else 0.0)
    whole_s = time.time() - began
    if not window.signals.holes:
        raise SystemExit("the hole was not found")
    clicks = [click(number) for number in range(SPOTS)]
    window.close()
    return {
        "picture_s": picture_s,
        "hole_s": hole_s or whole_s,
        "whole_s": whole_s,
        "early_click_p50_s": statistics.median(early or clicks),
        "early_click_max_s": max(early or clicks),
        "click_p50_s": statistics.median(clicks),
        "click_max_s": max(clicks),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024e-6,
        "states": float(window.signals.states),
    }


def main(json_path: str | None = None, minutes: float | None = None, recording: str | None = None) -> dict[str, Any]:
    """Measure, print the table, and write it as JSON where asked to."""
    seconds = 60.0 * (MINUTES if minutes is None else minutes)
    with tempfile.TemporaryDirectory() as folder:
        path, report = Path(recording or f"{folder}/long.mcap").absolute(), Path(folder) / "figures.json"
        if not path.exists():
            print(f"recording {seconds:g} s at 1 kHz ...", flush=True)
            record(path, seconds)
        command = [*virtual_screen(), sys.executable, __file__, "--watch", str(report), "--recording", str(path)]
        subprocess.run([*command, "--began", f"{time.time()}"], check=True, timeout=START_S + END_S)
        figures: dict[str, Any] = json.loads(report.read_text())
        size_mb = 1e-6 * path.stat().st_size
    figures["size_mb"] = size_mb
    figures["bars"] = [
        at_most("first picture, s", figures["picture_s"], PICTURE_BAR_S),
        at_most("the hole is known, s", figures["hole_s"], HOLE_BAR_S),
        at_most("slider during reading, longest, s", figures["early_click_max_s"], CLICK_BAR_S),
        at_most("reaction of the slider, longest, s", figures["click_max_s"], CLICK_BAR_S),
    ]
    bar_ms = 1e3 * CLICK_BAR_S
    print(f"recording of {figures['states']:.0f} states, {size_mb:.0f} MB      measured        bar")
    print(f"  first picture                         {figures['picture_s']:8.2f} s {PICTURE_BAR_S:8.1f} s")
    print(f"  the hole is known                     {figures['hole_s']:8.2f} s {HOLE_BAR_S:8.1f} s")
    print(f"  the whole recording is read           {figures['whole_s']:8.2f} s")
    print(f"  slider during reading, median         {1e3 * figures['early_click_p50_s']:7.1f} ms")
    print(f"  slider during reading, longest        {1e3 * figures['early_click_max_s']:7.1f} ms {bar_ms:7.0f} ms")
    print(f"  reaction of the slider, median        {1e3 * figures['click_p50_s']:7.1f} ms")
    print(f"  reaction of the slider, longest       {1e3 * figures['click_max_s']:7.1f} ms {bar_ms:7.0f} ms")
    print(f"  peak memory of the window             {figures['peak_memory_mb']:7.0f} MB")
    if json_path is not None:
        Path(json_path).write_text(json.dumps(figures, indent=2) + "\n")
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="length of the recording (10)")
    parser.add_argument("--recording", metavar="FILE", help="the recording, which is made where there is none")
    parser.add_argument("--watch", metavar="FILE", help=argparse.SUPPRESS)  # in the window's own process
    parser.add_argument("--began", type=float, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.watch is not None:
        Path(arguments.watch).write_text(json.dumps(watch(arguments.recording, arguments.began)))
    else:
        main(arguments.json, arguments.minutes, arguments.recording)
