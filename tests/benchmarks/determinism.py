"""Whether equal lockstep runs give equal bytes: whole launches under CPU load, and the same plan in one process.

    python tests/benchmarks/determinism.py [--runs 20] [--duration 1.0] [--plan controlled|touching]

Each run is `armswing launch` on a lockstep plan, with every core kept busy beside it. The plan "controlled" has server,
trajectory, controller and recorder as processes. In the plan "touching" a robot of an MJCF file falls on the floor and
on its joints' stops, with friction of contacts and bristle friction of joints. Exit code 1 when two recordings of a
plan differ.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from nodes.framework.plan.files.file import load_plan
from nodes.framework.simulation.compose import compose

ROOT = Path(__file__).resolve().parents[2]
CONTROLLED = ROOT / "launch" / "rotary_pendulum_lockstep.toml"
PLANS = ("controlled", "touching")
FALLER = """<mujoco model="faller">
<default><joint axis="0 1 0" damping="0.1" frictionloss="0.2" range="-20 20"/><geom friction="0.6"/></default>
<worldbody><geom name="floor" type="plane" size="5 5 1"/>
<body name="trunk" pos="0 0 0.4" euler="10 20 0"><freejoint/><geom type="box" size="0.15 0.1 0.03"/>
<body name="left" pos="0.1 0.1 0"><joint name="left"/>
<geom type="capsule" fromto="0 0 0 0 0 -0.25" size="0.03"/></body>
<body name="right" pos="0.1 -0.1 0"><joint name="right"/>
<geom type="capsule" fromto="0 0 0 0 0 -0.25" size="0.03"/></body>
</body></worldbody></mujoco>
"""
TOUCHING = """
[sim]
robot = "faller.xml"
parameters = { friction = "bristles", contacts = "ground" }
mode = "lockstep"
step_ms = 0.25

[[nodes]]
name = "recorder"
run = "nodes/recorder.py:Recorder"
params = { file = "faller.mcap" }
"""


def touching(folder: Path) -> Path:
    """The launch file of a robot that falls on the floor, written into a folder."""
    (folder / "faller.xml").write_text(FALLER)
    file = folder / "faller.toml"
    file.write_text(TOUCHING)
    return file


@contextmanager
def busy_cores() -> Iterator[None]:
    """Keep every core busy with processes that end by themselves after ten minutes at the latest."""
    program = "import time; end = time.monotonic() + 600\nwhile time.monotonic() < end: pass"
    load = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in load:
            process.kill()
            process.wait()


def launched(plan: Path, file: Path, duration_s: float, runtime_folder: Path) -> bytes:
    """The recording of one launch of a plan with real processes."""
    command = [sys.executable, "-P", "-m", "nodes.cli", "launch", str(plan), "--duration", str(duration_s)]
    command += ["--set", f"recorder.file={str(file)!r}"]
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(runtime_folder)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, cwd=file.parent)
    # a run this short need not reach its milestone, which exit code 1 says; anything else is a failure
    if done.returncode not in (0, 1) or not file.exists():
        raise RuntimeError(f"launch ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return file.read_bytes()


def composed(plan: Path, file: Path, duration_s: float) -> bytes:
    """The recording of the same plan in this process."""
    loaded = msgspec.structs.replace(load_plan(plan, [f"recorder.file={str(file)!r}"]), duration_s=duration_s)
    with compose(loaded) as composition:
        composition.run()
    return file.read_bytes()


def hashes(plan_name: str, runs: int, duration_s: float) -> dict[str, str]:
    """SHA-256 of each recording of a plan, by run."""
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="as-") as name:
        folder = Path(name)
        plan = CONTROLLED if plan_name == "controlled" else touching(folder)
        with busy_cores():
            for run in range(runs):
                data = launched(plan, folder / f"run_{run}.mcap", duration_s, folder)
                found[f"launch {run + 1}"] = hashlib.sha256(data).hexdigest()
        found["in one process"] = hashlib.sha256(composed(plan, folder / "composed.mcap", duration_s)).hexdigest()
    return found


def main() -> int:
    """Print one line per recording, then the verdict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--duration", type=float, default=1.0, help="simulated seconds")
    parser.add_argument("--plan", choices=PLANS, help="one plan instead of all")
    options = parser.parse_args()
    verdict = 0
    for plan in PLANS if options.plan is None else (options.plan,):
        found = hashes(plan, options.runs, options.duration)
        print(plan)
        for run, digest in found.items():
            print(f"  {run:16} {digest}")
        different = len(set(found.values()))
        print(f"{len(found)} recordings, {different} different")
        verdict |= different != 1
    return int(verdict)


if __name__ == "__main__":
    raise SystemExit(main())
