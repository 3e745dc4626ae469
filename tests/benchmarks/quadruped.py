"""A step of A1 standing on its four feet beside `mj_step` with the same contacts, at the same depth.

    python tests/benchmarks/quadruped.py [--json FILE]

Both hold the stance with the same efforts at each step of 1 ms; ours takes RK4, four evaluations, MuJoCo its Euler step
with elliptic cones. Both have all points of contact of the file, of which the four feet touch. The call from Python
counts on both sides. The best median of REPEATS turns of CALLS steps counts.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bars import at_most, json_file

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.robots.importing.test_quadrupeds import STANCES, STEP, Ours, Peer

BAR = 3.0
REPEATS, CALLS = 5, 400
SETTLED_S = 1.5


def step_us(world: Ours | Peer, step: Callable[[], object]) -> float:
    """Median time of a step, us, while the controller holds the stance."""
    taken = []
    for _ in range(CALLS):
        world.control()
        began = time.perf_counter_ns()
        step()
        taken.append(time.perf_counter_ns() - began)
    return statistics.median(taken) * 1e-3


def main(json_path: str | None = None) -> dict[str, Any]:
    """Measure, print, write JSON where asked, and give the figures."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        robot = STANCES["a1"].robot()
        ours, peer = Ours(STANCES["a1"], robot), Peer(STANCES["a1"], robot)
    heights = [each.run(SETTLED_S) for each in (ours, peer)]
    turns = [(step_us(ours, ours.sim.step), step_us(peer, peer.step)) for _ in range(REPEATS)]
    mine, theirs = (min(column) for column in zip(*turns, strict=True))
    report: dict[str, Any] = {
        "contacts": len(robot.contacts),
        "height of the base, ours and MuJoCo's (m)": heights,
        "step (us)": mine,
        "mj_step (us)": theirs,
        "bars": [at_most(f"a step of {STEP * 1e3:g} ms of standing A1 over mj_step", mine / theirs, BAR)],
    }
    for key, value in report.items():
        print(f"{key:<45} {value}")
    if json_path is not None:
        Path(json_path).write_text(json.dumps(report, indent=1))
    return report


if __name__ == "__main__":
    main(json_file(__doc__))
