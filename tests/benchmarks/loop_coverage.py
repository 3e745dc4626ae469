"""Coverage of the intervals of fits through closed loops, over robots with planted errors.

    python tests/benchmarks/loop_coverage.py [--runs 15] [--first 0] [--json FILE]

Each run emulates CHARMIE with closed loops, with errors planted in it: mass, friction, zero, delay or gain, alone or in
pairs. Run k has the seed k and the cell k mod 15. Counted are the intervals of 95 % that contain the planted value, the
errors of the measurement that are found though none was planted, and the estimates that are exact to 2 %.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import tempfile
import time
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from nodes.framework.plan.files.file import load_plan
from nodes.framework.simulation.compose import compose
from nodes.hil.fitting.reading import read_fit_case
from robots.registry import build
from sim_core.identification.estimates import surely_not_zero
from sim_core.identification.fitting import fit, regressor_of
from sim_core.identification.friction import COLUMNS
from sim_core.mechanism.quantities import value_of

KINDS = ("mass", "friction", "zero", "delay", "gain")
CELLS = (*((kind,) for kind in KINDS), *combinations(KINDS, 2))
SECONDS, EVERY_S = 16.0, 0.6
LEAST, MOST, FALSE_FINDS, NARROW = 0.90, 0.97, 0.10, 0.02
# middle and largest deviation of the motion, rad or m; rods within their stops
RANGES = {
    "base_x": (0.0, 0.15), "base_y": (0.0, 0.15), "base_yaw": (0.0, 0.4), "lift_rod": (0.43, 0.045),
    "tilt_rod": (0.345, 0.045), "neck_pan": (0.0, 0.9), "neck_tilt": (0.0, 0.6), "claw": (-0.35, 0.3),
    "arm_1": (0.0, 1.2), "arm_2": (0.6, 0.9), "arm_3": (0.0, 1.2), "arm_4": (0.8, 0.9), "arm_5": (0.0, 1.2),
    "arm_6": (0.0, 1.0),
}  # fmt: skip
HEAVIER = ("link_8a", "link_9b", "link_11a", "link_8c", "link_4d_cylinder", "link_4sla", "link_5d_rod", "link_3")
SLIDING = ("base_x", "base_y", "lift_rod", "tilt_rod")
PLAN = """
duration_s = {duration}
seed = {seed}

[sim]
robot = "charmie"
parameters = {{ loops = "closed" }}
mode = "lockstep"
step_ms = 1.0
rate_hz = 1000.0
deadline_ms = 60000.0

[[nodes]]
name = "trajectory"
run = "nodes/trajectory.py:Trajectory"
decimation = 5

[nodes.params]
kind = "quintic"
joints = {joints}
units = {units}
waypoints = {waypoints}

[[nodes]]
name = "controller"
run = "nodes/controllers/position.py:JointPosition"
params = {{ joints = {joints} }}

[[nodes]]
name = "hardware"
run = "nodes/hardware.py:Hardware"

[nodes.params]
sample_hz = 200.0
encoder_step = {{ {steps} }}
effort_noise = {{ {noise} }}
{planted}
[[nodes]]
name = "recorder"
run = "nodes/recorder.py:Recorder"
params = {{ file = "{file}" }}
"""
NOISE = {"base_x": 1.0, "base_y": 1.0, "base_yaw": 0.3, "lift_rod": 3.0, "tilt_rod": 5.0, "neck_pan": 0.01,
         "neck_tilt": 0.01, "claw": 0.002}  # fmt: skip
SIZES = {"friction": (0.2, 1.0), "zero": (0.01, 0.04), "gain": (0.05, 0.15)}
LENGTHS = {"friction": 20.0, "zero": 0.1, "gain": 1.0}  # factors of the sizes for sliding joints


def kind_of(joint: str) -> str:
    """Name of the joint without its side."""
    return joint.removeprefix("left_").removeprefix("right_")


def plan(file: Path, joints: list[str], seed: int, planted: str) -> str:
    """Launch file of one run: a random motion of all joints with motors."""
    random = np.random.default_rng(seed)
    times = np.arange(0.5, SECONDS, EVERY_S)
    middle, width = (np.array([RANGES[kind_of(joint)][k] for joint in joints]) for k in (0, 1))
    places = middle + width * random.uniform(-1.0, 1.0, (len(times), len(joints)))
    start = [value_of(q) for q in start_of(joints)]
    rows = [[0.1, *start], *([float(t), *map(float, row)] for t, row in zip(times + 1.0, places, strict=True))]
    return PLAN.format(
        duration=SECONDS + 1.0,
        seed=seed + 1,
        joints=json.dumps(joints),
        units=json.dumps(["m" if joint in SLIDING else "rad" for joint in joints]),
        waypoints=json.dumps(rows),
        steps=", ".join(f"{joint} = {1e-5 if joint in SLIDING else 9.6e-5}" for joint in joints),
        noise=", ".join(f"{joint} = {NOISE.get(kind_of(joint), 0.05)}" for joint in joints),
        planted=planted,
        file=file,
    )


def start_of(joints: list[str]) -> list[float]:
    mechanism = build("charmie", loops="closed")
    positions = dict(zip((each.name for each in mechanism.moving_joints), mechanism.initial_q, strict=True))
    return [positions[joint] for joint in joints]


def planted_in(cell: tuple[str, ...], joints: list[str], random: np.random.Generator) -> tuple[str, dict[str, Any]]:
    """(lines of the emulated robot's parameters, {kind: (where, value)})."""
    lines, truth = list[str](), dict[str, Any]()
    for kind in cell:
        if kind == "delay":
            lines.append(f"delay_ms = {random.uniform(5.0, 15.0)}")
            continue
        where = str(random.choice(HEAVIER if kind == "mass" else [each for each in joints if "claw" not in each]))
        low, high = (0.1, 0.4) if kind == "mass" else SIZES[kind]
        value = random.uniform(low, high) * (LENGTHS[kind] if where in SLIDING else 1.0)
        truth[kind] = where, value
        name = "encoder_zero" if kind == "zero" else kind
        lines.append(f"{name} = {{ {where} = {value} }}")
    return "\n".join(lines) + "\n", truth


def run(number: int) -> dict[str, Any]:
    """Counts of one run."""
    cell, began = CELLS[number % len(CELLS)], time.process_time()
    mechanism = build("charmie", loops="closed")
    joints = [actuator.joint for actuator in mechanism.actuators]
    random = np.random.default_rng(1000 + number)
    lines, truth = planted_in(cell, joints, random)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.mcap"
        launch = Path(folder) / "run.toml"
        launch.write_text(plan(file, joints, number, lines))
        with compose(load_plan(launch, [])) as launched:
            launched.run()
        case = read_fit_case([file])
    simulated = time.process_time()
    errors = [kind for kind in ("zero", "gain", "delay") if kind in cell]
    result = fit(case.mechanism, case.names, case.recordings, errors=errors)
    x = truth_of(case, result, truth)
    model = [each for each in result.estimates if each.kind == "model"]
    inside = [bool(each.low <= each.direction @ x <= each.high) for each in model]
    narrow = [each for each in model if each.high - each.low < 2.0 * NARROW * abs(each.value)]
    searched = [each for each in result.estimates if each.kind != "model"]
    false = [each.name for each in surely_not_zero(searched) if each.direction @ x == 0.0]
    return {
        "run": number,
        "cell": " ".join(cell),
        "inside": sum(inside),
        "of": len(inside),
        "errors_inside": sum(each.low <= each.direction @ x <= each.high for each in searched),
        "errors": len(searched),
        "false_finds": false,
        "narrow": len(narrow),
        "narrow_right": sum(
            abs(each.value - each.direction @ x) <= NARROW * abs(each.direction @ x) for each in narrow
        ),
        "outside": [each.name for each, good in zip(model, inside, strict=True) if not good],
        "outcome": result.outcome,
        "simulated_s": simulated - began,
        "fit_s": time.process_time() - simulated,
    }


def truth_of(case: Any, result: Any, truth: dict[str, Any]) -> np.ndarray:
    """Planted values (n_x,) of the unknowns of a fit."""
    planted = case.mechanism
    if "mass" in truth:
        planted = dataclasses.replace(planted, bodies=tuple(_heavier(body, *truth["mass"]) for body in planted.bodies))
    pi = regressor_of(planted, case.names, {}).pi
    n_b, joints = len(result.base.columns), list(result.joints)
    friction = np.zeros((len(joints), len(COLUMNS)))
    for kind, column in (("friction", "viscous"), ("gain", "gain")):
        if kind in truth:
            where, value = truth[kind]
            friction[joints.index(where), COLUMNS.index(column)] = value
    x = np.concatenate([result.base.B[:, : len(pi)] @ pi, friction.ravel()])
    if "zero" in truth:
        where, value = truth["zero"]
        x[n_b - len(joints) + joints.index(where)] = value
    return x


def _heavier(body: Any, name: str, share: float) -> Any:
    if body.name != name:
        return body
    inertia = tuple((1.0 + share) * value_of(each) for each in body.inertia)
    return dataclasses.replace(body, mass=(1.0 + share) * value_of(body.mass), inertia=inertia)


def main() -> None:
    """Run, print each run and the pooled counts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    runs = []
    for number in range(given.first, given.first + given.runs):
        runs.append(run(number))
        print(json.dumps(runs[-1]), flush=True)
        if given.json:
            given.json.write_text(json.dumps(runs, indent=1) + "\n")
    share = sum(each["inside"] for each in runs) / sum(each["of"] for each in runs)
    false = sum(bool(each["false_finds"]) for each in runs)
    print(f"coverage {share:.3f} of {sum(each['of'] for each in runs)} intervals (bar {LEAST:.2f} to {MOST:.2f})")
    print(f"false finds in {false} of {len(runs)} runs (bar {FALSE_FINDS:.0%})")


if __name__ == "__main__":
    main()
