"""No sequence of commands makes a guarded arm leave its envelope by more than the stated margins.

The arm differs from its model by up to 20 % in every mass and motor gain. Commands reach the guard up to 20 ms late.
Behind the guard, measurements and commands to servos are late by 20 ms together; efforts by 2 ms, as with a guard in
the driver's own process: efforts inside the limits accelerate a joint by up to 2400 rad/s^2, 48 rad/s within 20 ms.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, target
from hypothesis import strategies as st

from nodes.framework.plan.launch_plan import SimPlan
from nodes.guard.command_guard import CommandGuard
from nodes.guard.limits import GuardParams, envelope_of
from nodes.hil.emulation.plant import Plant, PlantPerturbation
from sim_core.state import State

JOINTS = ["joint_1", "joint_2", "joint_3", "joint_4"]
BODIES = 4
SAMPLE = 5  # steps of 1 ms between two measured states
LIMITS: dict[str, dict[str, Any]] = {
    "joint_1": {"lower": -2.0, "upper": 2.0, "effort": 1.0, "velocity_margin": 4.0, "margin": 0.35},  # a soft servo
    "joint_2": {"lower": -1.5, "upper": 1.5, "effort": 20.0, "velocity_margin": 3.0},
    "joint_3": {"lower": -2.0, "upper": 2.0, "effort": 1.0, "velocity_margin": 7.5, "margin": 0.4},  # a light link
    "joint_4": {"lower": -1.5, "upper": 1.5, "effort": 5.0, "velocity_margin": 5.0},
}
SHARED = {"velocity": 1.5, "acceleration": 10.0, "deceleration": 10.0, "margin": 0.25}
# for commands of efforts, rad/s^2: the largest accelerations that efforts inside the limits cause anywhere in the
# envelope, see `largest_accelerations`, and decelerations that the servos give in spite of the other joints
FREE = [1300.0, 480.0, 2400.0, 1250.0]
DECELERATION = [60.0, 30.0, 100.0, 50.0]
KEEP_OUT = [{"name": "table", "joints": {"joint_2": 1.0, "joint_4": 1.0}, "most": 2.0}]


class Command(NamedTuple):
    """A command at a time, s: mode, and values in -1 .. 1 that are scaled to twice the limits; None: not commanded."""

    mode: str
    values: list[float | None]
    lasts: int  # ms until the next one
    repeats: bool  # whether it is sent every 5 ms meanwhile


class Case(NamedTuple):
    """A sequence of commands, and how the arm differs from its model."""

    commands: list[Command]
    mass: list[float]
    gain: list[float]
    late: list[int]  # ms that commands are late before the guard
    measured: int  # ms that measurements are late, of 20 behind the guard


AT_REST, STILL_MS = 0.02, 60  # rad/s; longer than all delays
SCALE = {"position": 4.0, "velocity": 6.0, "effort": 60.0}
LOOP_MS = {"servo": 20, "effort": 2}


def limits_of(kind: str) -> GuardParams:
    joints = {name: SHARED | LIMITS[name] for name in JOINTS}
    if kind == "effort":
        for name, free, deceleration in zip(JOINTS, FREE, DECELERATION, strict=True):
            joints[name] |= {"free_acceleration": free, "deceleration": deceleration}
    delay_ms = LOOP_MS[kind] + (1 if kind == "effort" else SAMPLE)
    return msgspec.convert({"joints": joints, "keep_out": KEEP_OUT, "delay_ms": delay_ms}, GuardParams)


def excess(case: Case, kind: str) -> tuple[np.ndarray, np.ndarray, CommandGuard]:
    """Largest A q - b over the run, (rows,), and largest speed beyond the limit, (n,)."""
    plant = perturbed(case)
    params = limits_of(kind)
    guard, envelope = CommandGuard(params, set(JOINTS)), envelope_of(params)
    sample, loop = (1, LOOP_MS["effort"]) if kind == "effort" else (SAMPLE, LOOP_MS["servo"])
    measured = case.measured % (loop + 1)
    acts = loop - measured
    sent: deque[tuple[int, str, list[str], list[float]]] = deque()
    tick, last = 5, 0
    start = [("position", dict.fromkeys(JOINTS, 0.0))]
    sent += [(0, mode, list(values), list(values.values())) for mode, values in start]
    for number, command in enumerate(case.commands):
        names = [n for n, value in zip(JOINTS, command.values, strict=True) if value is not None]
        values = [SCALE[command.mode] * value for value in command.values if value is not None]
        for at in range(tick, tick + command.lasts, 5) if command.repeats else (tick,):
            last = max(last, at + case.late[(number + at) % len(case.late)])  # in order
            sent.append((last, command.mode, names, values))
        tick += command.lasts
    states: deque[tuple[int, list[float], list[float]]] = deque()
    to_motors: deque[tuple[int, Any]] = deque()
    rows, fast = np.full(len(envelope.b), -np.inf), np.full(len(JOINTS), -np.inf)
    still = 0  # ms at rest after a stop, which is latched: no later command has an effect
    for now in range(tick + 300):
        if now % sample == 0:
            states.append((now + measured, plant.position.tolist(), plant.velocity.tolist()))
        given = []
        while states and states[0][0] <= now:
            _, position, velocity = states.popleft()
            guard.add_state(1e-3 * now, JOINTS, position, velocity)
            given += guard.check(1e-3 * now)
        while sent and sent[0][0] <= now and guard._seen_at is not None:
            _, mode, names, values = sent.popleft()
            if names:
                given += guard.process_command(1e-3 * now, mode, names, values, 0.0)
        to_motors += [(now + acts, command) for command in given]
        while to_motors and to_motors[0][0] <= now:
            plant.command(*to_motors.popleft()[1])
        plant.step()
        rows = np.maximum(rows, envelope.A @ plant.position - envelope.b)
        fast = np.maximum(fast, np.abs(plant.velocity) - envelope.velocity)
        still = still + 1 if guard.stopped and np.abs(plant.velocity).max() < AT_REST else 0
        if still > STILL_MS:
            break
    return rows, fast, guard


@functools.cache
def open_plant() -> tuple[Plant, State]:
    """An arm whose masses and inertias are tunables, so that all cases have one set of kernels, and its start."""
    plant = Plant(SimPlan(robot="arm_4dof"), PlantPerturbation(mass={"*": 1e-12}))
    return plant, plant.simulation.snapshot()


def perturbed(case: Case) -> Plant:
    """The arm at rest at its start, with the masses and motor gains of the case."""
    plant, start = open_plant()
    bodies = [body.name for body in plant.system.mechanism.bodies]
    heavier = dict(zip(bodies, case.mass, strict=True))
    share = [1.0 + heavier[name.partition("/")[0]] for name in plant.system.tunable_names]
    plant.reset()
    plant.simulation.restore(dataclasses.replace(start, p=start.p * np.array(share)))
    plant.gain[:] = 1.0 + np.array(case.gain)
    return plant


VALUE = st.one_of(st.none(), st.sampled_from([-1.0, 0.0, 1.0]), st.floats(-1.0, 1.0))
DEVIATION = st.one_of(st.sampled_from([-0.2, 0.2]), st.floats(-0.2, 0.2))


def cases(kind: str) -> st.SearchStrategy[Case]:
    modes = ("position", "velocity") if kind == "servo" else ("effort", "position", "velocity")
    command = st.builds(
        Command,
        st.sampled_from(modes),
        st.lists(VALUE, min_size=4, max_size=4),
        st.one_of(st.integers(5, 40), st.integers(5, 500)),
        st.booleans(),
    )
    return st.builds(
        Case,
        st.lists(command, min_size=1, max_size=12),
        st.lists(DEVIATION, min_size=BODIES, max_size=BODIES),
        st.lists(DEVIATION, min_size=4, max_size=4),
        st.lists(st.integers(0, 20), min_size=1, max_size=7),
        st.integers(0, 20),
    )


def require_inside(case: Case, kind: str) -> None:
    """Fail the test where a margin is exceeded; otherwise have hypothesis look for cases that use more of it."""
    rows, fast, guard = excess(case, kind)
    slack, margin = guard.envelope.slack, guard.envelope.velocity_margin
    assert np.all(rows <= slack), dict(zip(guard.envelope.names, rows.round(3).tolist(), strict=True))
    assert np.all(fast <= margin), dict(zip(JOINTS, fast.round(3).tolist(), strict=True))
    target(float((rows / slack).max()), label="use of the position margins")
    target(float((fast / margin).max()), label="use of the velocity margins")


def random_terms(count: int, fastest: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Mass matrices M (n, n) and forces f (n,), without efforts, of perturbed arms at random states in the envelope.

    Positions use the margins of the envelope too; joints rest or move at `fastest`, rad/s. The next ones overwrite the
    arrays.
    """
    plant, start = open_plant()
    system, envelope, random = plant.system, envelope_of(limits_of("effort")), np.random.default_rng(1)
    n, rows = system.n_q, system.max_rows
    q, v, p, M, f = np.zeros(n), np.zeros(n), start.p.copy(), np.zeros((n, n), order="F"), np.zeros(n)
    inputs = [np.zeros(1), q, v, np.zeros(system.n_u), p]
    terms = system.bind("terms", inputs, [M, f, np.zeros((rows, n), order="F"), np.zeros(rows)])
    bodies = [name.partition("/")[0] for name in system.tunable_names]
    for _ in range(count):
        q[:] = random.uniform(envelope.lower - envelope.margin, envelope.upper + envelope.margin)
        v[:] = random.choice([-1.0, 0.0, 1.0], n) * fastest
        heavier = dict(zip(dict.fromkeys(bodies), random.choice([-0.2, 0.2], BODIES), strict=True))
        p[:] = start.p * [1.0 + heavier[body] for body in bodies]
        terms()
        yield M, f


def largest_accelerations(count: int) -> np.ndarray:
    """Largest |M^-1 (f + u)|, (n,), rad/s^2, of perturbed arms at random states.

    Accelerations are linear in the efforts u, so that each joint's largest one is at the limits of all efforts.
    """
    envelope, largest = envelope_of(limits_of("effort")), np.zeros(len(JOINTS))
    for M, f in random_terms(count, envelope.velocity + envelope.velocity_margin):
        inverse = np.linalg.inv(M)
        largest = np.maximum(largest, np.abs(inverse @ f) + np.abs(inverse) @ (1.2 * envelope.effort))
    return largest


def test_the_margins_allow_for_the_softness_of_the_servos() -> None:
    """A servo of stiffness k stays behind the decelerations d of all setpoints by |M| d / k, overshoots by as much
    again, and gives way by f / k to gravity and to the speeds of the joints.

    Row i of |M| d has the torque that joint i needs when all joints brake at once, in the worst directions. The motors
    give 20 % less than the model's. Speeds are those within the limits: the setpoints' own.
    """
    plant, _ = open_plant()
    envelope, far = envelope_of(limits_of("servo")), np.zeros(len(JOINTS))
    stiffness = [actuator.servo.stiffness for actuator in plant.system.mechanism.actuators if actuator.servo]
    for M, f in random_terms(3000, envelope.velocity):
        swing = 2.0 * np.abs(M) @ envelope.deceleration + np.abs(f)
        far = np.maximum(far, swing / (0.8 * np.array(stiffness)))
    assert np.all(far <= envelope.margin), far.round(3)


def test_no_permitted_effort_accelerates_a_joint_by_more_than_its_free_acceleration() -> None:
    largest = largest_accelerations(3000)
    assert np.all(largest <= FREE), largest.round(0)
    assert np.all(largest >= 0.6 * np.array(FREE)), largest.round(0)


def test_the_velocity_margins_allow_for_the_delay() -> None:
    params = limits_of("effort")
    assert np.all(envelope_of(params).velocity_margin > np.array(FREE) * 1e-3 * params.delay_ms)


@pytest.mark.parametrize("kind", ["servo", "effort"])
def test_no_sequence_of_commands_leaves_the_envelope_by_more_than_its_margin(kind: str) -> None:
    @settings(max_examples=12, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(cases(kind))
    def stays_inside(case: Case) -> None:
        require_inside(case, kind)

    stays_inside()


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", ["servo", "effort"])
def test_five_thousand_sequences_of_commands_each_do_not_leave_the_envelope(kind: str) -> None:
    @settings(max_examples=5000, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(cases(kind))
    def stays_inside(case: Case) -> None:
        require_inside(case, kind)

    stays_inside()
