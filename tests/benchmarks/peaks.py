"""Ranges of many motions: `Batch.peaks` beside rollouts of ours and of MuJoCo, maps, threads.

    python tests/benchmarks/peaks.py [--json FILE]

peaks      processor time per motion and step of the double pendulum and of the 6-DOF arm, with 8, 16 and 32 lanes,
           beside a rollout in 8 lanes that stores every state, from which alone ranges could be read
mujoco     the same double pendulum, RK4 and step in mujoco.rollout on one thread
map        the largest memory of a process that draws a map of 1000 x 1000 starts, and the time that 10^6 motions of
           T = 100 take by the figures above
threads    longest stop of another Python thread during a run, and wall time of two threads over that of one

The best of REPEATS counts, which alternate.
"""

from __future__ import annotations

import dataclasses
import json
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from bars import json_file

from robots.registry import build
from sim_core.batch import Batch
from sim_core.mechanism import Mechanism
from sim_core.system import assemble

REPEATS, ROWS, STEPS = 7, 512, 400
STEP_S = {"double_pendulum": 0.05, "arm_6dof": 1e-3}
THREADED = 4000  # motions of the threads' runs
MAP = """
import numpy as np, resource
from robots.registry import build
from sim_core.analysis.maps import state_map
from sim_core.analysis.stability import StateNorm
from sim_core.system import assemble
norm = StateNorm.of(assemble(build("double_pendulum")), np.zeros(2), None, 1.0, None, 0.05)
axis = np.linspace(-3.14, 3.14, 1000)
found = state_map(norm, {"upper.angle": axis, "lower.angle": axis}, {}, 0.1)
assert found.is1.shape == (1000, 1000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def best(ways: dict[str, Callable[[], object]], clock: Callable[[], float] = time.process_time) -> dict[str, float]:
    """Shortest time of each way, s."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for call in ways.values():
        call()
    for _ in range(int(REPEATS)):
        for name, call in ways.items():
            began = clock()
            call()
            taken[name].append(clock() - began)
    return {name: min(times) for name, times in taken.items()}


def starts(batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    """Starts of int(ROWS) motions: all angles on +-1, at rest."""
    q = np.random.default_rng(0).uniform(-1.0, 1.0, (int(ROWS), batch.system.n_q))
    return q, np.zeros_like(q)


def beside_rollout(name: str) -> dict[str, float]:
    """Processor time per motion and step, ns."""
    system = assemble(build(name))
    batches = {lanes: system.batch(lanes) for lanes in (8, 16, 32)}
    q, v = starts(batches[8])
    run: dict[str, Any] = {"step_s": STEP_S[name], "steps": int(STEPS)}
    ways: dict[str, Callable[[], object]] = {"rollout, 8 lanes": lambda: batches[8].rollout(q, v, **run)}
    for lanes, batch in batches.items():
        ways[f"peaks, {lanes} lanes"] = lambda batch=batch: batch.peaks(q, v, threads=1, **run)  # type: ignore[misc]
    return {way: 1e9 * s / (int(ROWS) * int(STEPS)) for way, s in best(ways).items()}


def heavy(mechanism: Mechanism) -> Mechanism:
    """The mechanism with a little inertia in its point masses, which MuJoCo requires."""
    some = (1e-9, 1e-9, 1e-9, 0.0, 0.0, 0.0)
    return dataclasses.replace(mechanism, bodies=tuple(dataclasses.replace(b, inertia=some) for b in mechanism.bodies))


def of_mujoco() -> dict[str, float]:
    """Processor time of mujoco.rollout per motion and step, ns, and the largest difference of an end; {} without it."""
    try:
        import mujoco
        from mujoco import rollout
    except ImportError:
        return {}
    from robots.export import export

    mechanism = heavy(build("double_pendulum", coordinates="joint"))
    model = mujoco.MjModel.from_xml_string(export(mechanism, "mjcf").text)
    model.opt.integrator, model.opt.timestep = mujoco.mjtIntegrator.mjINT_RK4, STEP_S["double_pendulum"]
    data, batch = mujoco.MjData(model), assemble(mechanism).batch(8)
    q, v = starts(batch)
    state = np.zeros((len(q), mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS)))
    state[:, 1:3] = q

    def run() -> np.ndarray:
        return np.asarray(rollout.rollout(model, data, state, nstep=int(STEPS))[0])

    found = best({"mujoco.rollout": run})
    few = min(20, int(STEPS))
    ours = batch.rollout(q, v, step_s=STEP_S["double_pendulum"], steps=few)
    difference = float(np.abs(run()[:, few - 1, 1:3] - ours.q[:, few]).max())
    each = 1e9 * found["mujoco.rollout"] / (int(ROWS) * int(STEPS))
    return {"mujoco.rollout": each, f"difference after {few} steps (rad)": difference}


def of_threads() -> dict[str, float]:
    """Longest stop of another Python thread, ms, beside one without a run; two threads' wall time over one's."""
    batch = assemble(build("double_pendulum")).batch(8)
    q, v = (np.tile(rows, (max(1, int(THREADED) // int(ROWS)), 1)) for rows in starts(batch))
    run: dict[str, Any] = {"step_s": 0.05, "steps": 10 * int(STEPS)}
    gaps = {}
    for name, work in (
        ("nothing", lambda: time.sleep(0.5)),
        ("peaks", lambda: batch.peaks(q, v, threads=1, **run)),
    ):
        gaps[name] = 1e3 * _longest_stop(work)
    times = best({f"{k}": lambda k=k: batch.peaks(q, v, threads=k, **run) for k in (1, 2)}, time.perf_counter)  # type: ignore[misc]
    return {
        "longest stop of a thread, no run (ms)": gaps["nothing"],
        "longest stop of a thread, peaks (ms)": gaps["peaks"],
        "two threads over one": times["2"] / times["1"],
    }


def _longest_stop(work: Callable[[], object]) -> float:
    stop, longest = threading.Event(), [0.0]

    def count() -> None:
        last = time.perf_counter()
        while not stop.is_set():
            now = time.perf_counter()
            longest[0] = max(longest[0], now - last)
            last = now

    thread = threading.Thread(target=count)
    thread.start()
    work()
    stop.set()
    thread.join()
    return longest[0]


def main(json_path: str | None = None) -> dict[str, Any]:
    """Print the figures and return them."""
    report: dict[str, Any] = {name: beside_rollout(name) for name in STEP_S}
    report["mujoco"] = of_mujoco()
    report["threads"] = of_threads()
    memory = subprocess.run([sys.executable, "-c", MAP], capture_output=True, text=True, check=True)
    each = min(ns for way, ns in report["double_pendulum"].items() if way.startswith("peaks"))
    report["map"] = {
        "largest memory, 1000 x 1000 (MB)": float(memory.stdout),
        "processor time, 1000 x 1000, T = 100 (s)": each * 1e-9 * 1e6 * 2001,
        "over a rollout in 8 lanes": each / report["double_pendulum"]["rollout, 8 lanes"],
    }
    report["own memory (MB)"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    for name, figures in report.items():
        print(name)
        for key, value in figures.items() if isinstance(figures, dict) else [("", figures)]:
            has_unit = not key or "(" in key or "over" in key
            print(f"  {key:<45} {value:10.4g}{'' if has_unit else ' ns per motion and step'}")
    if json_path is not None:
        Path(json_path).write_text(json.dumps(report, indent=1))
    return report


if __name__ == "__main__":
    main(json_file(__doc__))
