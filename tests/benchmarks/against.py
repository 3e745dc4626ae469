"""Time of a step of the papers' robots beside that of an earlier revision, in interleaved pairs of processes.

    python tests/benchmarks/against.py REVISION [--pairs 6] [--json FILE]

Both are pinned to one core and take RK4 steps of 1 ms with the default stabilizer, and with no joint stops where the
robot has a choice. The earlier revision is taken from git into a temporary folder and runs in this environment. Prints
the least time of a step in us, medians over the pairs, and the median of the pairs' ratios.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ROBOTS = (
    "triple_pendulum",
    "rotary_pendulum",
    "epicyclic_gear_train",
    "four_bar_chain",
    "crank_slider",
    "parallelogram_four_bar",
    "equal_crank_slider",
    "charmie",
    "gibbon",
)
PAIRS, STEPS, REPEATS = 6, 6000, 6
PROGRAM = """
import inspect, json, os, sys, time, warnings
warnings.simplefilter("ignore")
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from armswing import build
from sim_core import Simulation, assemble
robots, steps, repeats = json.loads(sys.argv[1])
least = {}
for robot in robots:
    try:
        mechanism = build(robot, limits="none")
    except Exception:  # an older builder without this parameter, or a robot without stops
        mechanism = build(robot)
    sim = Simulation(assemble(mechanism), step_s=1e-3)
    sim.step(200)
    times = []
    for _ in range(repeats):
        sim.reset()
        began = time.thread_time_ns()
        sim.step(steps)
        times.append(time.thread_time_ns() - began)
    least[robot] = min(times) / steps * 1e-3
print(json.dumps(least))
"""


def steps_of(tree: Path) -> dict[str, float]:
    """{robot: least time of a step, us} with the packages of a source tree."""
    arguments = json.dumps([ROBOTS, STEPS, REPEATS])
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, arguments],
        env={**os.environ, "PYTHONPATH": str(tree)},
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the robots of {tree} do not run:\n{done.stderr}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> int:
    """Measure, print the table, and write JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", help="such as a commit or a tag")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    packed = subprocess.run(["git", "archive", arguments.revision], cwd=ROOT, capture_output=True, check=False)
    if packed.returncode:
        parser.error(packed.stderr.decode().strip())
    with tempfile.TemporaryDirectory() as folder:
        earlier = Path(folder)
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
            archive.extractall(earlier, filter="data")
        pairs = [(steps_of(earlier), steps_of(ROOT)) for _ in range(arguments.pairs)]
    result: dict[str, Any] = {"revision": arguments.revision, "robots": {}}
    print(f"us per step, RK4 at 1 ms: {arguments.revision}, now, and the median of the ratios of {len(pairs)} pairs")
    for robot in ROBOTS:
        before, now = (statistics.median(pair[k][robot] for pair in pairs) for k in (0, 1))
        ratio = statistics.median(b[robot] / a[robot] for a, b in pairs)
        result["robots"][robot] = {"before_us": before, "now_us": now, "ratio": ratio}
        print(f"  {robot:24} {before:8.3f} {now:8.3f} {ratio:8.3f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
