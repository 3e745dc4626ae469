"""Cost of the snapshots in lockstep recordings: share of the file's size, and of the server's time.

    python tests/benchmarks/snapshots.py [--json FILE]

In one process, in time of the processor. The server's time is that of its steps and snapshots, without sockets; the
time in which a node makes its part is that node's. Both bars are 2 %, at the default `snapshot_s`.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
from bars import json_file

from nodes.framework.plan.files.file import load_plan
from nodes.framework.recording.reader import RecordingFile
from nodes.framework.simulation.compose import Composition
from nodes.framework.simulation.server import SimServer

LAUNCH = Path(__file__).parents[2] / "launch"
LAUNCHES = {  # launch file, simulated seconds
    "rotary_pendulum": (LAUNCH / "rotary_pendulum_lockstep.toml", 10.0),
    "hil": (LAUNCH / "hil_robot.toml", 6.0),
    "charmie_squat": (LAUNCH / "charmie_squat.toml", 8.0),
    "gibbon_bars": (LAUNCH / "gibbon_bars.toml", 8.0),
    "gibbon_cable": (LAUNCH / "gibbon_cable.toml", 8.0),
    "lipinski": (LAUNCH / "examples" / "lipinski.toml", 10.0),
}
BAR = 0.02


class Timed:
    """A method of the server whose processor time is added up, s."""

    def __init__(self, server: SimServer, name: str) -> None:
        self.seconds = 0.0
        self._method = getattr(server, name)
        setattr(server, name, self)

    def __call__(self, *given: Any) -> Any:
        began = time.process_time()
        found = self._method(*given)
        self.seconds += time.process_time() - began
        return found


def cost(name: str, folder: Path) -> dict[str, float]:
    """Shares of size and time of one launch at the default interval, and bytes and us per snapshot."""
    launch, seconds = LAUNCHES[name]
    file = folder / f"{name}.mcap"
    plan = load_plan(launch, ["sim.mode=lockstep", f"recorder.file={file}"])
    plan = msgspec.structs.replace(plan, duration_s=None)
    with Composition(plan) as run:
        step, snapshot = Timed(run.server, "step"), Timed(run.server, "publish_snapshot")
        run.run(seconds)
    sizes = [len(recorded.payload) for recorded in RecordingFile(file) if recorded.topic.endswith("/snapshot")]
    return {
        "snapshots": len(sizes),
        "size_share": sum(sizes) / file.stat().st_size,
        "time_share": snapshot.seconds / (step.seconds + snapshot.seconds),
        "snapshot_bytes": sum(sizes) / len(sizes),
        "snapshot_us": 1e6 * snapshot.seconds / len(sizes),
    }


def main(json_path: str | None = None) -> None:
    """Print a row per launch, and write the file where one is given."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in LAUNCHES:
            found[name] = row = cost(name, Path(folder))
            shares = f"size {100 * row['size_share']:5.2f} %, server {100 * row['time_share']:5.2f} %"
            print(f"{name:16} {shares}, {row['snapshot_bytes']:6.0f} B, {row['snapshot_us']:5.0f} us each", flush=True)
    if json_path:
        Path(json_path).write_text(json.dumps({"snapshots": found}, indent=2) + "\n")


if __name__ == "__main__":
    main(json_file(__doc__))
