"""What every stepper costs on the triple pendulum: compiling its loop, a step, evaluations per step.

    python tests/benchmarks/steppers.py [--json FILE]

Loops are compiled in a process of their own with an empty cache, one after the other: processor time of the first step,
less that of the shared parts, which the first loop of all has paid for. Steps run pinned to one core.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bars import at_most, json_file

from robots.registry import build
from sim_core.integrators.steppers import STEPPERS
from sim_core.simulation import Simulation
from sim_core.system import assemble

REPEATS = 9
STEPS, STEPS_BY_SCIPY = 2000, 100
COMPILE_BAR_S = 2.0


def compile_seconds() -> dict[str, float]:
    """Processor time of each loop's compilation, by stepper; those that share a loop are measured once."""
    here = [sys.executable, "-P", __file__, "--compile"]
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            here, env=os.environ | {"XDG_CACHE_HOME": cache}, capture_output=True, text=True, check=True
        )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def compile_all() -> dict[str, float]:
    """In the process with the empty cache."""
    system = assemble(build("triple_pendulum"))
    Simulation(system, stepper="semi_implicit").step()  # numba itself, the law
    seen, seconds = {STEPPERS["semi_implicit"].loop}, {}
    for name, stepper in STEPPERS.items():
        if stepper.loop in seen:
            continue
        seen.add(stepper.loop)
        start = time.process_time()
        Simulation(system, stepper=name).step()
        seconds[name] = time.process_time() - start
    return seconds


def step_costs() -> dict[str, dict[str, float]]:
    """us and evaluations per tick of 1 ms with sampled fuzzy, in turn, so that the machine's moods meet all of them."""
    system = assemble(build("triple_pendulum"))
    sims = {name: Simulation(system, step_s=1e-3, stepper=name) for name in STEPPERS}
    for sim in sims.values():
        sim.step()
    costs: dict[str, list[float]] = {name: [] for name in sims}
    counts: dict[str, float] = {}
    for _ in range(REPEATS):
        for name, sim in sims.items():
            steps = STEPS_BY_SCIPY if name.endswith("_variable") else STEPS
            sim.reset()
            start = time.perf_counter()
            sim.step(steps)
            costs[name].append((time.perf_counter() - start) / steps * 1e6)
            counts[name] = sim.evaluations / steps
    return {
        name: {"min_us": min(us), "median_us": statistics.median(us), "evaluations": counts[name]}
        for name, us in costs.items()
    }


def main(json_path: str | None = None) -> dict[str, Any]:
    """Measure, print the tables, write JSON where asked, and give the figures."""
    compiling = compile_seconds()
    affinity = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(affinity)})
    try:
        costs = step_costs()
    finally:
        os.sched_setaffinity(0, affinity)
    print("1 ms of the triple pendulum with sampled fuzzy, us: minimum, median; evaluations; its loop compiles in")
    for name, cost in costs.items():
        seconds = f"{compiling[name]:5.2f} s" if name in compiling else "   as above"
        figures = f"{cost['min_us']:8.2f} {cost['median_us']:8.2f} {cost['evaluations']:6.2f}"
        print(f"  {name:16} {figures}  {seconds}")
    print(f"  loops compile in at most {max(compiling.values()):.1f} s of processor time; the bar is {COMPILE_BAR_S} s")
    result = {"steppers": costs, "compile_s": compiling}
    result["bars"] = [at_most(f"loop of {name}, s", seconds, COMPILE_BAR_S) for name, seconds in compiling.items()]
    if json_path:
        Path(json_path).write_text(json.dumps(result, indent=1))
    return result


if __name__ == "__main__":
    if "--compile" in sys.argv:
        print(json.dumps(compile_all()))
    else:
        main(json_file(__doc__))
