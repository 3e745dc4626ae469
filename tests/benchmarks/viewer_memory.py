"""Growth of the memory of viewer, Foxglove bridge and server over ten minutes of states at 1 kHz.

    python tests/benchmarks/viewer_memory.py [--minutes 10] [--json FILE]

A launch of CHARMIE, a window with 40 curves, and the bridge with a client that subscribes to the states. The resident
memory of each process is read every 5 s. The growth is counted from 10 s after the start of the window, when its
libraries, fonts and first pictures are loaded; beside it stand the growth from the very first reading, and that after
the first minute, in which buffers fill. Bar: 50 MB each.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bars import at_most
from live_window import END_S, PYTHON, Window, launched

BAR_MB = 50.0
RATE_HZ = 1000.0
MINUTES = 10.0
EVERY_S, OPEN_S, FILLED_S = 5.0, 10.0, 60.0
BRIDGE = Path(__file__).with_name("foxglove_bridge.py")


def resident_mb(pid: int) -> float:
    """Resident memory of a process, MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("VmRSS"))) * 1024e-6


def measure(seconds: float) -> dict[str, list[tuple[float, float]]]:
    """{process: (time s, resident memory MB) of each reading}."""
    from nodes.framework.client import Client

    with launched(RATE_HZ) as folder:
        with Client() as client:
            pids = {"server": next(entry.pid for entry in client.nodes() if entry.name == "sim")}
        window = Window(folder, 0.0, seconds + END_S)
        pids["viewer"] = window.pid
        others: list[subprocess.Popen[Any]] = []
        if importlib.util.find_spec("foxglove") and importlib.util.find_spec("websockets"):
            command = [*PYTHON, "-m", "nodes.cli", "bridge", "foxglove", "--port", "0"]
            bridge = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            assert bridge.stdout is not None
            port = bridge.stdout.readline().rpartition(":")[2].strip()
            receive = [sys.executable, str(BRIDGE), "--seconds", f"{seconds + END_S}", "--receive", port]
            others = [subprocess.Popen(receive, stdout=subprocess.DEVNULL), bridge]
            pids["bridge"] = bridge.pid
        else:
            print("no bridge: pip install foxglove-sdk websockets")
        readings: dict[str, list[tuple[float, float]]] = {name: [] for name in pids}
        start = time.monotonic()
        try:
            while (passed := time.monotonic() - start) <= seconds:
                for name, pid in pids.items():
                    readings[name].append((passed, resident_mb(pid)))
                time.sleep(min(EVERY_S, seconds / 2.0))
        finally:
            window.close()
            for process, number in zip(others, (signal.SIGTERM, signal.SIGINT), strict=False):
                process.send_signal(number)
                process.wait(timeout=END_S)
    return readings


def main(json_path: str | None = None, minutes: float | None = None) -> dict[str, Any]:
    """Measure, print a row per process, and write the readings as JSON where asked to."""
    length_s = 60.0 * (MINUTES if minutes is None else minutes)
    readings = measure(length_s)
    print(
        f"memory over {length_s:g} s at {RATE_HZ:g} Hz      first      last"
        f"   growth after {OPEN_S:g} s   from the start   after the first minute   bar"
    )
    growth = {}
    for name, rows in readings.items():
        (_, first), (_, last) = rows[0], rows[-1]
        opened, filled = (next((value for at, value in rows if at >= begin), last) for begin in (OPEN_S, FILLED_S))
        from_start, after_minute = last - first, last - filled
        growth[name] = {
            "growth_mb": last - opened,
            "from_start_mb": from_start,
            "after_first_minute_mb": after_minute,
        }
        row = f"{first:7.1f} MB {last:7.1f} MB {last - opened:12.1f} MB"
        print(f"  {name:26s} {row} {from_start:13.1f} MB {after_minute:18.1f} MB        {BAR_MB:g} MB")
    bars = [at_most(f"growth of {name}, MB", figures["growth_mb"], BAR_MB) for name, figures in growth.items()]
    found = {"seconds": length_s, **growth, "readings": readings, "bars": bars}
    if json_path is not None:
        Path(json_path).write_text(json.dumps(found, indent=2) + "\n")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="time that is measured (10)")
    arguments = parser.parse_args()
    main(arguments.json, arguments.minutes)
