"""Coverage of the intervals of fits through closed loops, over robots with planted errors.

    python tests/benchmarks/loop_coverage.py [--runs 15] [--from launch] [--json FILE]

Each run has CHARMIE with closed loops, with errors planted in it: mass, friction, zero, delay or gain, alone or in
pairs. Run k has the seed k and the cell k mod 15. By default, the efforts are those of the planted robot's inverse
dynamics along a random motion, with noise, as encoders and current sensors show them. With --from launch, the robot is
emulated in a launch, with its servos; there, a delay concerns positions and efforts alike, and no effort is late.
With --json, a second call continues after the last run of the file.
Counted are the intervals of 95 % that contain the planted value, the errors of the measurement that are found though
none was planted, and the estimates that are exact to 2 %.

With --four-bar, each run has a four-bar with random masses and a motor at its crank. Counted are the estimates whose
interval is below 2 % and that are exact to 2 %, the other ones inside their intervals, and the runs in which every
mass that the crank's efforts do not determine alone is refused by name.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from nodes.framework.plan.files.file import load_plan
from nodes.framework.simulation.compose import compose
from nodes.hil.fitting.reading import read_fit_case
from robots.registry import build
from sim_core.identification.estimates import surely_changed
from sim_core.identification.fitting import fit, regressor_of
from sim_core.identification.friction import COLUMNS
from sim_core.identification.inertial_parameters import inertial_parameters
from sim_core.identification.loops import LoopRegressor
from sim_core.identification.result import FitResult
from sim_core.identification.signals import Recorded
from sim_core.mechanism import Mechanism
from sim_core.mechanism.quantities import value_of

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.sim_core.crank_rocker import four_bar, rotation

KINDS = ("mass", "friction", "zero", "delay", "gain")
CELLS = (*((kind,) for kind in KINDS), *combinations(KINDS, 2))
SECONDS, EVERY_S, RATE_HZ = 16.0, 0.6, 100.0
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
    # every body and joint is tunable, so that all runs share one compilation
    tables: dict[str, dict[str, float]] = {"mass": {"*": 1e-12}, "friction": {"*": 1e-9}}
    lines, truth = list[str](), dict[str, Any]()
    for kind in cell:
        if kind == "delay":
            lines.append(f"delay_ms = {random.uniform(5.0, 15.0)}")
            continue
        where = str(random.choice(HEAVIER if kind == "mass" else [each for each in joints if "claw" not in each]))
        low, high = (0.1, 0.4) if kind == "mass" else SIZES[kind]
        value = random.uniform(low, high) * (LENGTHS[kind] if where in SLIDING and kind != "mass" else 1.0)
        truth[kind] = where, value
        tables.setdefault("encoder_zero" if kind == "zero" else kind, {})[where] = value
    for name, values in tables.items():
        lines.append(f"{name} = {{ {', '.join(f'{json.dumps(key)} = {value}' for key, value in values.items())} }}")
    return "\n".join(lines) + "\n", truth


def launched(number: int, cell: tuple[str, ...], joints: list[str]) -> tuple[Any, Any, Any]:
    """(mechanism, recordings, truth) of an emulated robot."""
    lines, truth = planted_in(cell, joints, np.random.default_rng(1000 + number))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.mcap"
        launch = Path(folder) / "run.toml"
        launch.write_text(plan(file, joints, number, lines))
        with compose(load_plan(launch, [])) as composed:
            composed.run()
        case = read_fit_case([file])
    return case.mechanism, case.recordings, truth


def moved(number: int, cell: tuple[str, ...], joints: list[str]) -> tuple[Any, Any, Any]:
    """(mechanism, recordings, truth) of a robot that follows a random motion."""
    random = np.random.default_rng(1000 + number)
    _, truth = planted_in(cell, joints, random)
    mechanism = build("charmie", loops="closed")
    regressor = regressor_of(mechanism, joints, {})
    assert isinstance(regressor, LoopRegressor)
    names = list(regressor.joints)
    late = random.uniform(0.005, 0.015) if "delay" in cell else 0.0
    time_s = np.arange(0.0, SECONDS, 1.0 / RATE_HZ)
    middle, width, noise = (
        np.array([row.get(kind_of(each), 0.05) for each in names])
        for row in ({k: r[0] for k, r in RANGES.items()}, {k: r[1] for k, r in RANGES.items()}, NOISE)
    )
    w, phase = random.uniform(0.8, 9.0, (5, len(names))), random.uniform(0.0, 6.0, (5, len(names)))
    share = width / (w * np.sum(1.0 / w, axis=0))

    def motion(t: np.ndarray) -> list[np.ndarray]:
        angle = t[:, None, None] * w + phase
        waves = np.sin(angle), w * np.cos(angle), -(w**2) * np.sin(angle)
        return [np.sum(share * each, axis=1) for each in waves]

    def efforts(t: np.ndarray) -> np.ndarray:
        q, v, a = motion(t)
        loops: np.ndarray = regressor(middle + q, v, a) @ pi_of(mechanism, truth, regressor.links)
        loops += regressor.spring_efforts(middle + q)
        where, value = truth.get("friction", (names[0], 0.0))
        loops[:, names.index(where)] += value * v[:, names.index(where)]
        return loops

    tau = efforts(time_s - late)
    where, share_of = truth.get("gain", (names[0], 0.0))
    tau[:, names.index(where)] /= 1.0 + share_of  # the robot gives more than its sensor shows
    tau += noise * random.normal(size=tau.shape)
    q = middle + motion(time_s)[0]
    where, value = truth.get("zero", (names[0], 0.0))
    q[:, names.index(where)] += value
    steps = np.array([1e-5 if each in SLIDING else 9.6e-5 for each in names])
    if late:
        truth["delay"] = late
    return mechanism, [Recorded(time_s, steps * np.round(q / steps), tau)], truth


def run(number: int, source: str) -> dict[str, Any]:
    """Counts of one run."""
    cell, began = CELLS[number % len(CELLS)], time.process_time()
    joints = [actuator.joint for actuator in build("charmie", loops="closed").actuators]
    names = regressor_of(build("charmie", loops="closed"), joints, {}).joints
    mechanism, recordings, truth = (launched if source == "launch" else moved)(number, cell, joints)
    simulated = time.process_time()
    errors = [kind for kind in ("zero", "gain", "delay") if kind in cell]
    every = [joint.name for joint in mechanism.moving_joints]
    result = fit(mechanism, names if source == "motion" else every, recordings, errors=errors)
    x = truth_of(mechanism, result, truth)
    model = [each for each in result.estimates if each.kind == "model"]
    inside = [bool(each.low <= each.direction @ x <= each.high) for each in model]
    narrow = [each for each in model if each.high - each.low < NARROW * abs(each.value)]
    searched = [each for each in result.estimates if each.kind != "model"]
    false = [each.name for each in surely_changed(searched) if each.direction @ x == 0.0]
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


def pi_of(mechanism: Mechanism, truth: dict[str, Any], links: Sequence[str]) -> np.ndarray:
    """Planted inertial parameters of the links."""
    if "mass" in truth:
        bodies = tuple(_heavier(body, *truth["mass"]) for body in mechanism.bodies)
        mechanism = dataclasses.replace(mechanism, bodies=bodies)
    return np.concatenate([inertial_parameters(mechanism, link) for link in links])


def truth_of(mechanism: Mechanism, result: FitResult, truth: dict[str, Any]) -> np.ndarray:
    """Planted values (n_x,) of the unknowns of a fit."""
    pi = pi_of(mechanism, truth, result.links)
    n_b, joints = len(result.base.columns), list(result.joints)
    friction = np.zeros((len(joints), len(COLUMNS)))
    for kind, column, sign in (("friction", "viscous", 1.0), ("gain", "gain", -1.0)):
        if kind in truth:
            where, value = truth[kind]
            value = value / (1.0 + value) if kind == "gain" else value
            friction[joints.index(where), COLUMNS.index(column)] = sign * value
    friction[:, COLUMNS.index("delay")] = truth.get("delay", 0.0)
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


def four_bar_run(number: int) -> dict[str, Any]:
    """Counts of one run of a four-bar with random masses."""
    random = np.random.default_rng(number)
    crank, coupler, rocker = (1.0, 2.0, 1.5) * random.uniform(0.6, 1.6, 3)
    truth, friction = LoopRegressor(four_bar(crank, coupler, rocker), ["crank"]), random.uniform(0.1, 0.5)
    time_s, q, v, a = rotation()
    tau = truth(q, v, a) @ truth.pi
    effort = tau + friction * v + 0.02 * tau.std() * random.normal(size=tau.shape)
    result = fit(four_bar(), ["crank"], [Recorded(time_s, q, effort)])
    x = np.concatenate([result.base.B @ truth.pi, [friction], np.zeros(result.friction.size - 1)])
    planted = [float(each.direction @ x) for each in result.estimates]
    narrow = [each.high - each.low < NARROW * abs(each.value) for each in result.estimates]
    right = [
        abs(each.value - value) <= NARROW * abs(value) for each, value in zip(result.estimates, planted, strict=True)
    ]
    inside = [each.low <= value <= each.high for each, value in zip(result.estimates, planted, strict=True)]
    refused = [each.what for each in result.refusals if each.what.startswith("m")]
    return {
        "run": number,
        "narrow": sum(narrow),
        "narrow_right": sum(good for good, is_narrow in zip(right, narrow, strict=True) if is_narrow),
        "of": len(narrow) - sum(narrow),
        "inside": sum(good for good, is_narrow in zip(inside, narrow, strict=True) if not is_narrow),
        "refused": all(any(f" of {link}" in what for what in refused) for link in truth.links),
    }


def main() -> None:
    """Run, print each run and the pooled counts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--from", dest="source", choices=("motion", "launch"), default="motion")
    parser.add_argument("--four-bar", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.four_bar and given.source == "launch":
        parser.error("a four-bar has no launch")
    runs = json.loads(given.json.read_text()) if given.json and given.json.exists() else []
    kind = "four-bar" if given.four_bar else given.source
    if other := {each["kind"] for each in runs} - {kind}:
        parser.error(f"{given.json} has runs of another kind: {', '.join(sorted(other))}")
    for number in range(len(runs), given.runs):
        found = four_bar_run(number) if given.four_bar else run(number, given.source)
        runs.append({"kind": kind, **found})
        print(json.dumps(runs[-1], default=int), flush=True)
        if given.json:
            given.json.write_text(json.dumps(runs, indent=1, default=int) + "\n")
    runs = runs[: given.runs]
    total = {key: sum(each[key] for each in runs) for key in ("inside", "of", "narrow", "narrow_right")}
    print(f"coverage {total['inside'] / total['of']:.3f} of {total['of']} intervals (bar {LEAST:.2f} to {MOST:.2f})")
    print(f"exact to 2 %: {total['narrow_right']} of {total['narrow']} combinations whose interval is narrower")
    if given.four_bar:
        print(f"single masses refused in {sum(each['refused'] for each in runs)} of {len(runs)} runs (bar: all)")
        return
    false = sum(bool(each["false_finds"]) for each in runs)
    print(f"false finds in {false} of {len(runs)} runs (bar {FALSE_FINDS:.0%})")


if __name__ == "__main__":
    main()
