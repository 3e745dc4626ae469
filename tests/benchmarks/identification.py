"""The regressor beside pinocchio's, the time of a fit, and the coverage of its intervals in the emulated arm.

    python tests/benchmarks/identification.py [PART ...] [--json FILE]

regressor  a call on arrays of the caller beside `computeJointTorqueRegressor` from Python, in turns, minima; and eight
           states at once, per state
fit        MOTION_S at RATE_HZ of seven joints, processor time of one core
output     the same by output error, with zeros, gains, delays, friction and inertias, behind position servos
coverage   share of the intervals of 95 % that contain the planted value, over PLANTED_RUNS runs of fit_coverage.py
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from bars import at_least, at_most, json_file_and_parts, reported
from fit_coverage import LEAST_COVERAGE, measured

from robots.export import export
from robots.registry import build
from sim_core.identification.base_parameters import base_parameters
from sim_core.identification.fitting import fit
from sim_core.identification.output_error.fitting import Commanded, fit_output_error
from sim_core.identification.output_error.inertial_efforts import InertialEfforts
from sim_core.identification.output_error.shots import Drive, Shots
from sim_core.identification.output_error.simulation import Forward
from sim_core.identification.output_error.unknowns import Unknowns
from sim_core.identification.regressor import LANES, Regressor
from sim_core.identification.rigid_tree import rigid_tree
from sim_core.identification.signals import Recorded
from sim_core.mechanism import Actuator, Mechanism

REPEATS, CALLS = 15, 2000
MOTION_S, RATE_HZ = 60.0, 1000.0
PLANTED_RUNS = 30
KERNEL_BAR, LANES_BAR, FIT_BAR_S, OUTPUT_ERROR_BAR_S = 10.0, 15.0, 1.5, 60.0
STIFFNESS, DAMPING, ROTOR = 300.0, 5.0, 0.05  # N m/rad, N m s/rad, kg m2, of the servos


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


def output_error_time() -> float:
    """Processor time of a fit by output error of a recording of seven joints behind servos, s."""
    mechanism = seven_joints()
    names = [joint.name for joint in mechanism.moving_joints]
    mechanism = dataclasses.replace(
        mechanism,
        actuators=tuple(Actuator(name=name, joint=name) for name in names),
        joints=tuple(each if each.is_fixed else dataclasses.replace(each, armature=ROTOR) for each in mechanism.joints),
    )
    regressor, random, n = Regressor(mechanism), np.random.default_rng(0), len(names)
    base = base_parameters(regressor)
    unknowns = Unknowns(base, regressor.joints)
    t = np.arange(0.0, MOTION_S, 1.0 / RATE_HZ)
    target = np.zeros((len(t), n))
    for j in range(n):
        for w in random.uniform(0.5, 6.0, 5):
            phase = random.uniform(0.0, 6.0)
            target[:, j] += 0.6 / w * (np.sin(w * t + phase) - np.sin(phase))
    every = np.ones(n)
    drive = Drive(
        0.0,
        1.0 / RATE_HZ,
        every > 0.0,
        target,
        0.0 * target,
        target,
        STIFFNESS * every,
        DAMPING * every,
        np.inf * every,
    )
    x = np.concatenate([base.B @ regressor.pi, np.zeros(unknowns.size - unknowns.n_b)])
    for group, value in (("viscous", 1.0), ("armature", ROTOR), ("gain", 0.1), ("delay", 0.008), ("zero", 0.01)):
        x[unknowns.place(group)] = value
    forward = Forward(InertialEfforts(regressor, base), unknowns, np.full(n, 0.05))
    start = np.concatenate([target[0], np.zeros(n)])[None]
    whole = Shots(drive, np.zeros(1, dtype=int), len(t) - 1, 1, np.zeros((1, len(t), n)), start, np.zeros(n))
    q = forward.positions(whole, x, start)[0] + 3e-5 * random.normal(size=target.shape)
    recorded = Commanded(Recorded(t, q, 0.0 * q), drive)
    began = time.process_time()
    found = fit_output_error(mechanism, names, [recorded], ("zero", "gain", "delay"), inertia=True)
    seconds = time.process_time() - began
    inside = np.mean([each.low <= each.direction @ x <= each.high for each in (*found.estimates, *found.friction)])
    print(f"output error: {inside:.2f} of the intervals contain the planted value, {found.shots} segments")
    return seconds


PARTS = ("regressor", "fit", "output", "coverage")


def main(json_path: str | None = None, parts: Sequence[str] = PARTS) -> dict[str, Any]:
    """Measure, print and write the figures of some parts."""
    bars, result = list[dict[str, Any]](), dict[str, Any]()
    if "regressor" in parts and (times := regressors()):
        result["times"] = times
        one, several = (times["pinocchio_us"] / times[name] for name in ("kernel_us", "lanes_us"))
        bars.append(at_least("regressor, times faster than pinocchio's from Python", one, KERNEL_BAR))
        bars.append(at_least(f"regressor of {LANES} at once, times faster", several, LANES_BAR))
    if "fit" in parts:
        result["fit_s"] = seconds = fit_time()
        bars.append(at_most(f"fit of {MOTION_S:g} s at {RATE_HZ:g} Hz, seven joints, s", seconds, FIT_BAR_S))
    if "output" in parts:
        result["output_error_s"] = shooting = output_error_time()
        bars.append(at_most("output error of the same, s", shooting, OUTPUT_ERROR_BAR_S))
    if "coverage" in parts:
        found = [run.judged for run in measured(PLANTED_RUNS, None)]
        count = sum(each.intervals for each in found)
        result["coverage"] = share = 1.0 - sum(len(each.missed) for each in found) / count
        bars.append(at_least(f"coverage of {count} intervals of 95 %", share, LEAST_COVERAGE))
    return reported(result, bars, json_path)


if __name__ == "__main__":
    main(*json_file_and_parts(__doc__, PARTS))
