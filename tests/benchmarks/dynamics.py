"""Cost of a step beside Exudyn's, and the violations of every stabilizer in one run.

    python tests/benchmarks/dynamics.py [--json FILE]

Everything runs pinned to one core. Microseconds per step: minimum and median of repeated runs inside `advance`.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import time
import warnings
from pathlib import Path
from typing import Any

from bars import at_most, json_file

from robots.registry import build
from sim_core.analysis.balance import energy_balance
from sim_core.simulation import Simulation
from sim_core.stabilization.registry import STABILIZERS, stabilizer_named
from sim_core.system import assemble

STEPS, REPEATS = 5000, 15
TURN_STEPS, TURNS = 500, 150  # ours take turns this short, so that a busy machine meets all of them alike
OVERHEAD_BARS = {"sampled_fuzzy": 1.10, "projection": 1.40}  # median over none
BARS = [
    ("triple_pendulum", 1e-3, 60.0),
    ("rotary_pendulum", 1e-3, 60.0),
    ("rotary_pendulum", 1e-2, 60.0),
    ("four_bar_chain", 1e-3, 10.0),
    ("crank_slider", 1e-3, 20.0),
    ("epicyclic_gear_train", 1e-3, 2.0),
    ("parallelogram_four_bar", 1e-3, 10.0),
    ("equal_crank_slider", 1e-3, 10.0),
]
TIMED = ("triple_pendulum", "rotary_pendulum", "epicyclic_gear_train")


def pin_to_one_core() -> int:
    """Bind this process to the first core it may use."""
    core = min(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core


def step_costs(robot: str, stabilizers: list[str]) -> dict[str, dict[str, float]]:
    """us per RK4 step of 1 ms: stabilizers in turn, so that the machine's moods meet all of them."""
    system = assemble(build(robot))
    sims = {name: Simulation(system, step_s=1e-3, stabilizer=name) for name in stabilizers}
    for sim in sims.values():
        sim.step(10)
    costs: dict[str, list[float]] = {name: [] for name in stabilizers}
    for _ in range(TURNS):
        for name, sim in sims.items():
            sim.reset()
            start = time.perf_counter()
            sim.step(TURN_STEPS)
            costs[name].append((time.perf_counter() - start) / TURN_STEPS * 1e6)
    plain = costs["none"]
    return {
        name: {
            "min_us": min(values),
            "median_us": statistics.median(values),
            "over_none": statistics.median(a / b for a, b in zip(values, plain, strict=True)),
        }
        for name, values in costs.items()
    }


def exudyn_step() -> dict[str, float] | None:
    """us per 1 ms step of the same pendulum in redundant coordinates, generalized-alpha; None without Exudyn."""
    try:
        import exudyn as exu

        items = importlib.import_module("exudyn.itemInterface")
    except ImportError:
        return None
    length, mass, n = 0.3, 0.25, 3
    costs = []
    for _ in range(REPEATS):
        container = exu.SystemContainer()
        mbs = container.AddSystem()
        ground = mbs.AddObject(items.ObjectGround())
        before = mbs.AddMarker(items.MarkerBodyPosition(bodyNumber=ground, localPosition=[0, 0, 0]))
        for k in range(n):
            center = [length / 2 + k * length, 0.0, 0.0]
            node = mbs.AddNode(items.NodeRigidBody2D(referenceCoordinates=center))
            inertia = mass * length**2 / 12
            body = mbs.AddObject(items.ObjectRigidBody2D(mass=mass, inertia=inertia, nodeNumber=node))
            load_at = mbs.AddMarker(items.MarkerBodyMass(bodyNumber=body))
            mbs.AddLoad(items.LoadMassProportional(markerNumber=load_at, loadVector=[0, -9.81, 0]))
            left, right = (
                mbs.AddMarker(items.MarkerBodyRigid(bodyNumber=body, localPosition=[sign * length / 2, 0, 0]))
                for sign in (-1, 1)
            )
            if k == 0:
                before = mbs.AddMarker(items.MarkerBodyRigid(bodyNumber=ground, localPosition=[0, 0, 0]))
            mbs.AddObject(items.ObjectJointRevolute2D(markerNumbers=[before, left]))
            before = right
        mbs.Assemble()
        settings = exu.SimulationSettings()
        settings.timeIntegration.numberOfSteps = STEPS
        settings.timeIntegration.endTime = STEPS * 1e-3
        settings.timeIntegration.verboseMode = 0
        settings.timeIntegration.newton.useModifiedNewton = True
        settings.solution.file.write = False
        settings.show.statistics = False
        start = time.perf_counter()
        mbs.SolveDynamic(settings)
        costs.append((time.perf_counter() - start) / STEPS * 1e6)
    return {"min_us": min(costs), "median_us": statistics.median(costs)}


def violations() -> list[dict[str, Any]]:
    """Peak |Phi|_1, |Phidot|_1 and energy drift of every stabilizer on the bar cases."""
    rows = []
    for robot, step, seconds in BARS:
        system = assemble(build(robot))
        for name in STABILIZERS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                sim = Simulation(system, step_s=step, stabilizer=stabilizer_named(name))
            start, drift = energy_balance(sim), 0.0
            row: dict[str, Any] = {"robot": robot, "step_ms": step * 1e3, "seconds": seconds, "stabilizer": name}
            try:
                for _ in range(round(seconds / 0.1)):
                    sim.advance(0.1)
                    drift = max(drift, abs(energy_balance(sim) - start))
                row |= dict(zip(("phi", "phidot"), sim.peak_violation(), strict=True)) | {"energy_drift_J": drift}
            except RuntimeError:
                row["diverged_at_s"] = sim.time
            rows.append(row)
    return rows


def main(json_path: str | None = None) -> dict[str, Any]:
    """Run everything, print the tables, write JSON where asked, and give the figures."""
    affinity = os.sched_getaffinity(0)
    core = pin_to_one_core()
    try:
        costs = {robot: step_costs(robot, list(STABILIZERS)) for robot in TIMED}
        peer = exudyn_step()
    finally:
        os.sched_setaffinity(0, affinity)
    result: dict[str, Any] = {"core": core, "step_us": costs, "exudyn_step_us": peer, "violations": violations()}
    print(f"one RK4 step of 1 ms inside advance, us (core {core}; minimum / median; ratio to none)")
    for robot, table in costs.items():
        for name, cost in table.items():
            bar = OVERHEAD_BARS.get(name)
            verdict = "" if bar is None else f"   bar {bar:.2f}: {'met' if cost['over_none'] <= bar else 'MISSED'}"
            figures = f"{cost['min_us']:7.2f} {cost['median_us']:7.2f} {cost['over_none']:7.2f}"
            print(f"  {robot:20} {name:17} {figures}{verdict}")
    if peer is None:
        print("  Exudyn               not installed")
    else:
        ours = costs["triple_pendulum"]["sampled_fuzzy"]["median_us"]
        print(f"  triple_pendulum      Exudyn            {peer['min_us']:7.2f} {peer['median_us']:7.2f}")
        print(f"  Exudyn's median over ours with sampled fuzzy: {peer['median_us'] / ours:.1f}")
    result["bars"] = [
        at_most(f"{robot}, {name} over none", table[name]["over_none"], bar)
        for robot, table in costs.items()
        for name, bar in OVERHEAD_BARS.items()
    ]
    print("peak |Phi|_1, |Phidot|_1 and energy drift (J), RK4")
    for row in result["violations"]:
        figures = (
            f"diverged at {row['diverged_at_s']:.3g} s"
            if "diverged_at_s" in row
            else f"{row['phi']:9.2e} {row['phidot']:9.2e} {row['energy_drift_J']:9.2e}"
        )
        print(f"  {row['robot']:22} {row['step_ms']:4.0f} ms {row['seconds']:3.0f} s  {row['stabilizer']:17} {figures}")
    if json_path:
        Path(json_path).write_text(json.dumps(result, indent=1))
    return result


if __name__ == "__main__":
    main(json_file(__doc__))
