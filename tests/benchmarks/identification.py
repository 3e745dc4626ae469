"""The regressor beside pinocchio's, the time of a fit, and the coverage of its intervals in the emulated arm.

    python tests/benchmarks/identification.py [identification.json]

regressor  a call on arrays of the caller beside `computeJointTorqueRegressor` from Python, in turns, minima; and eight
           states at once, per state
fit        MOTION_S at RATE_HZ of seven joints, processor time of one core
coverage   share of the intervals of 95 % that contain the planted value, over PLANTED_RUNS runs of fit_coverage.py
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from bars import at_least, at_most
from fit_coverage import LEAST_COVERAGE, measured

from robots.export import export
from robots.registry import build
from sim_core.identification.fitting import fit
from sim_core.identification.regressor import LANES, Regressor
from sim_core.identification.rigid_tree import rigid_tree
from sim_core.identification.signals import Recorded
from sim_core.mechanism import Mechanism

REPEATS, CALLS = 15, 2000
MOTION_S, RATE_HZ = 60.0, 1000.0
PLANTED_RUNS = 30
KERNEL_BAR, LANES_BAR, FIT_BAR_S = 10.0, 15.0, 1.5


def fastest(*ways: Callable[[], object]) -> list[float]:
    """Least time of one call of each, us; the ways alternate."""
    taken = [np.inf] * len(ways)
    for _ in range(REPEATS):
        for index, way in enumerate(ways):
            began = time.perf_counter()
            for _ in range(CALLS):
                way()
            taken[index] = min(taken[index], 1e6 * (time.perf_counter() - began) / CALLS)
    return taken


def seven_joints() -> Mechanism:
    """The arm with six joints on a joint more."""
    arm = build("arm_6dof")
    tree = rigid_tree(arm, [joint.name for joint in arm.moving_joints])
    first = tree.joints[0]
    base = dataclasses.replace(tree.body(first.child), name="turntable", shapes=())
    turntable = dataclasses.replace(first, name="turntable_joint", child="turntable", axis=(0.0, 1.0, 0.0))
    carried = dataclasses.replace(first, parent="turntable")
    zeros = (0.0,) * (len(tree.initial_q) + 1)
    return dataclasses.replace(
        tree,
        name="arm_7dof",
        bodies=(base, *tree.bodies),
        joints=(turntable, carried, *tree.joints[1:]),
        initial_q=zeros,
        initial_v=zeros,
    )


def regressors() -> dict[str, Any]:
    """Times of the regressor of the arm with six joints, us."""
    try:
        import pinocchio
    except ImportError:
        return {}
    arm = build("arm_6dof")
    mechanism = rigid_tree(arm, [joint.name for joint in arm.moving_joints])
    model = pinocchio.buildModelFromXML(export(mechanism, "urdf").text)
    data, regressor = model.createData(), Regressor(mechanism)
    n_q, n_pi = len(regressor.joints), len(regressor.parameters)
    states = np.random.default_rng(1).normal(size=(3, LANES, n_q))
    q, v, a = (each[0].copy() for each in states)
    Y = np.zeros((n_q, n_pi), order="F")
    alone = regressor.bind(q, v, a, Y)
    wide = [np.ascontiguousarray(each.T) for each in states]
    lanes = regressor.bind_lanes(wide[0], wide[1], wide[2], np.zeros((n_pi, n_q, LANES)))
    theirs = pinocchio.computeJointTorqueRegressor(model, data, q, v, a)
    alone()
    np.testing.assert_allclose(np.abs(Y).sum(), np.abs(theirs).sum(), rtol=1e-6)
    ours, several, peer = fastest(alone, lanes, lambda: pinocchio.computeJointTorqueRegressor(model, data, q, v, a))
    return {"kernel_us": ours, "lanes_us": several / LANES, "pinocchio_us": peer}


def fit_time() -> float:
    """Processor time of the fit of a recording of seven joints, s."""
    mechanism = seven_joints()
    names = [joint.name for joint in mechanism.moving_joints]
    regressor, random = Regressor(mechanism), np.random.default_rng(0)
    t = np.arange(0.0, MOTION_S, 1.0 / RATE_HZ)
    q, v, a = np.zeros((3, len(t), len(names)))
    for j in range(len(names)):
        for w in random.uniform(0.5, 6.0, 5):
            phase = random.uniform(0.0, 6.0)
            q[:, j] += 0.6 / w * np.sin(w * t + phase)
            v[:, j] += 0.6 * np.cos(w * t + phase)
            a[:, j] -= 0.6 * w * np.sin(w * t + phase)
    tau = regressor(q, v, a) @ (1.2 * regressor.pi) + 2.0 * v + np.tanh(v / 0.03)
    tau += 0.05 * tau.std(axis=0) * random.normal(size=tau.shape)
    recorded = Recorded(t, q + 1e-5 * random.normal(size=q.shape), tau)
    taken = []
    for _ in range(3):  # the first call compiles and loads
        began = time.process_time()
        fit(mechanism, names, [recorded])
        taken.append(time.process_time() - began)
    return min(taken)


def main(json_path: str | None = None) -> dict[str, Any]:
    """Measure, print and write all figures."""
    times, seconds = regressors(), fit_time()
    found = [run.judged for run in measured(PLANTED_RUNS, None)]
    count = sum(each.intervals for each in found)
    share = 1.0 - sum(len(each.missed) for each in found) / count
    bars = [at_most(f"fit of {MOTION_S:g} s at {RATE_HZ:g} Hz, seven joints, s", seconds, FIT_BAR_S)]
    bars.append(at_least(f"coverage of {count} intervals of 95 %", share, LEAST_COVERAGE))
    if times:
        one, several = (times["pinocchio_us"] / times[name] for name in ("kernel_us", "lanes_us"))
        bars.append(at_least("regressor, times faster than pinocchio's from Python", one, KERNEL_BAR))
        bars.append(at_least(f"regressor of {LANES} at once, times faster", several, LANES_BAR))
    for bar in bars:
        print(f"{bar['what']}: {bar['value']:.3g}, bar {bar['bar']:g}")
    result = {"times": times, "fit_s": seconds, "coverage": share, "bars": bars}
    if json_path:
        Path(json_path).write_text(json.dumps(result, indent=1) + "\n")
    return result


if __name__ == "__main__":
    main(*sys.argv[1:2])
