"""The gibbon on a cable of 30 modes: its kernels cold and warm, 1 ms of it by each stepper, and of the server.

    python tests/benchmarks/gibbon.py [--json FILE]

Pinned to one core, in time of the processor. The robot hangs by hand b and swings, with the other hand free.
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

from nodes.framework.messages import JointCommand
from nodes.framework.plan.launch_plan import Plan, SimPlan
from nodes.framework.simulation.server import SimServer
from robots.registry import build
from sim_core.simulation import Simulation
from sim_core.system import assemble

STEP_S, STEPS, REPEATS = 1e-3, 1000, 9
STEPPERS = ("rk4", "implicit_midpoint", "generalized_alpha")
STEP_BAR_US, COLD_BAR_S, WARM_BAR_S = 100.0, 10.0, 0.1
READY = (
    "import time; from robots.registry import build; from sim_core.system import assemble; m = build('gibbon'); "
    "t = time.process_time(); assemble(m); print(time.process_time() - t)"
)


def kernels_ready_s() -> tuple[float, float]:
    """Processor time of `assemble` for all constraint modes, s: with an empty cache, then the median of warm ones."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"XDG_CACHE_HOME": folder}
        times = [
            float(
                subprocess.run([sys.executable, "-c", READY], env=environment, capture_output=True, check=True).stdout
            )
            for _ in range(4)
        ]
    return times[0], statistics.median(times[1:])


def swinging(stepper: str) -> Simulation:
    """Released by hand a."""
    sim = Simulation(assemble(build("gibbon")), step_s=STEP_S, stepper=stepper)
    sim.set_effort({"grip_a": 0.0})
    sim.step(10)
    return sim


def steps_us() -> dict[str, list[float]]:
    """us per step of each stepper, all repeats."""
    sims = {name: swinging(name) for name in STEPPERS}
    starts = {name: sim.snapshot() for name, sim in sims.items()}
    costs: dict[str, list[float]] = {name: [] for name in sims}
    for _ in range(REPEATS):
        for name, sim in sims.items():
            sim.restore(starts[name])
            begin = time.process_time()
            sim.step(STEPS)
            costs[name].append((time.process_time() - begin) / STEPS * 1e6)
    return costs


def server_us() -> list[float]:
    """us per step of the server without its sockets: a command taken, a step, a state written."""
    server = SimServer(Plan(name="bench", sim=SimPlan(robot="gibbon", mode="fast")))
    server.start()
    server.request("resume", {})
    found = []
    for _ in range(REPEATS):
        begin = time.process_time()
        for answered in range(STEPS):
            command = JointCommand(name=["elbow", "grip_a", "grip_b"], value=[0.0, 1.0, 1.0], state_seq=answered)
            server.robots[0].commands.receive("bench", command)
            server.step()
        found.append((time.process_time() - begin) / STEPS * 1e6)
    return found


def main(json_path: str | None = None) -> dict[str, Any]:
    """Measure, print the table, write JSON where asked, and give the figures."""
    affinity = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(affinity)})
    try:
        cold, warm = kernels_ready_s()
        steps = steps_us()
        costs = {**steps, "server, with a command and a state": server_us()}
    finally:
        os.sched_setaffinity(0, affinity)
    print(
        f"kernels of all constraint modes: cold {cold:.2f} s (bar {COLD_BAR_S:g}), warm {warm * 1e3:.0f} ms (bar 100)"
    )
    print(f"1 ms of the gibbon on a cable of 30 modes, us: minimum, median; the bar of a step is {STEP_BAR_US:g}")
    for name, us in costs.items():
        print(f"  {name:40} {min(us):9.2f} {statistics.median(us):9.2f}")
    result = {
        "cold_s": cold,
        "warm_s": warm,
        "steps": {name: {"min_us": min(us), "median_us": statistics.median(us)} for name, us in costs.items()},
        "bars": [
            at_most("kernels, cold, s", cold, COLD_BAR_S),
            at_most("kernels, warm, s", warm, WARM_BAR_S),
            *(at_most(f"{name}, us", statistics.median(us), STEP_BAR_US) for name, us in steps.items()),
        ],
    }
    if json_path:
        Path(json_path).write_text(json.dumps(result, indent=1))
    return result


if __name__ == "__main__":
    main(json_file(__doc__))
