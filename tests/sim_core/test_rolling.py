"""Wheels, disks, spheres and skates that roll on a plane, against equations of motion without multipliers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from robots.benchmarks.rolling import (
    AXLE,
    REST,
    ROTOR,
    SPUN,
    STIFFNESS,
    TURNED,
    chaplygin_sleigh,
    rolling_disk,
    snakeboard,
)
from sim_core.assembly import consistent_start
from sim_core.errors import InvalidMechanism, InvalidRequest, UnknownName
from sim_core.mechanism import (
    Body,
    Joint,
    Mechanism,
    PrescribedMotion,
    Rolling,
    SlipOutput,
    Touching,
    Y,
    with_reactions,
)
from sim_core.mechanism.beams import ContactForceOutput
from sim_core.simulation import Simulation
from sim_core.spatial import rotation_about, rotation_from_quaternion
from sim_core.system import assemble

G, UP = 9.81, np.array([0.0, 0.0, 1.0])
STEP, NEAR = 1e-4, 1e-8
Rates = Callable[[float, np.ndarray], np.ndarray]


def solved(rates: Rates, start: list[float] | np.ndarray, end: float) -> np.ndarray:
    """State after `end` seconds by scipy, at a tolerance of 1e-12."""
    found = solve_ivp(rates, (0.0, end), start, method="DOP853", rtol=1e-12, atol=1e-13)
    assert found.success
    return np.asarray(found.y[:, -1])


def advanced(mechanism: Mechanism, end: float, step_s: float = STEP, **methods: str) -> Simulation:
    simulation = Simulation(assemble(mechanism), step_s=step_s, **methods)  # type: ignore[arg-type]
    simulation.advance(end)
    return simulation


# -- disk -------------------------------------------------------------------------------------------------------------

RADIUS, MASS = 0.1, 0.5
ACROSS, AXIAL = MASS * RADIUS**2 / 4, MASS * RADIUS**2 / 2


def disk(lean: float, spin: tuple[float, float, float], height: float = 0.0, **changes: object) -> Mechanism:
    """A thin disk with the axle y, which leans about x and has the angular velocity `spin` in its own axes."""
    made = rolling_disk(RADIUS, MASS, math.degrees(lean), spin[1], spin[2], spin[0])
    x, y, z, *rest = made.initial_q
    return dataclasses.replace(made, **{"initial_q": (x, y, z + height, *rest), **changes})  # type: ignore[arg-type]


def disk_rates(_: float, state: np.ndarray) -> np.ndarray:
    """Euler's equation about the contact point: I dw + w x I w = -r x m (dw x r + w x dr/dt + g)."""
    q, w = state[:4], state[4:7]
    R = rotation_from_quaternion(q / np.linalg.norm(q))
    axle = R[:, 1]
    across = np.cross(axle, UP)
    size = np.linalg.norm(across)
    turning = np.cross(w, axle)
    along, change = across / size, np.cross(turning, UP)
    change = (change - across / size * (across @ change) / size) / size
    r = RADIUS * np.cross(along, axle)
    r_rate = RADIUS * (np.cross(change, axle) + np.cross(along, turning))
    inertia = R @ np.diag([ACROSS, AXIAL, ACROSS]) @ R.T
    skew = np.array([[0.0, -r[2], r[1]], [r[2], 0.0, -r[0]], [-r[1], r[0], 0.0]])
    moment = -np.cross(w, inertia @ w) - MASS * np.cross(r, np.cross(w, r_rate) + G * UP)
    dw = np.linalg.solve(inertia - MASS * skew @ skew, moment)
    dq = 0.5 * np.array([-w @ q[1:], *(q[0] * w + np.cross(w, q[1:]))])
    return np.concatenate([dq, dw, np.cross(w, r)])


def disk_after(lean: float, spin: tuple[float, float, float], end: float) -> tuple[np.ndarray, np.ndarray]:
    """Centre (3,) and orientation (3, 3) of the disk after `end` seconds."""
    q = np.array([math.cos(lean / 2), math.sin(lean / 2), 0.0, 0.0])
    R = rotation_from_quaternion(q)
    found = solved(disk_rates, np.concatenate([q, R @ spin, RADIUS * R[:, 2]]), end)
    return found[7:], rotation_from_quaternion(found[:4])


def error_of_disk(step_s: float, expected: tuple[np.ndarray, np.ndarray], **methods: str) -> float:
    p, quaternion = advanced(disk(*WOBBLING), 1.0, step_s, **methods).poses()
    errors = p[0] - expected[0], rotation_from_quaternion(quaternion[0]) - expected[1]
    return max(float(np.abs(error).max()) for error in errors)


WOBBLING = 0.3, (0.2, 8.0, 1.5)


@pytest.fixture(scope="module")
def wobbled() -> tuple[np.ndarray, np.ndarray]:
    return disk_after(*WOBBLING, 1.0)


def test_a_disk_wobbles_as_eulers_equation_says(wobbled: tuple[np.ndarray, np.ndarray]) -> None:
    assert error_of_disk(STEP, wobbled) < NEAR


@pytest.mark.parametrize(("stepper", "order", "step_s"), [("rk4", 4, 4e-3), ("semi_implicit", 1, 1e-4)])
def test_a_rolling_disk_keeps_the_order_of_the_stepper(
    stepper: str, order: int, step_s: float, wobbled: tuple[np.ndarray, np.ndarray]
) -> None:
    coarse, fine = (error_of_disk(h, wobbled, stepper=stepper) for h in (step_s, step_s / 2))
    assert math.log2(coarse / fine) == pytest.approx(order, abs=0.3)


def steady_spin(lean: float, turn: float) -> float:
    """Angular velocity along its axle of a disk that leans and turns about the vertical at a constant rate.

    The momentum about the contact point turns as fast as the moment of the weight asks.
    """
    c, s = math.cos(lean), math.sin(lean)
    return (ACROSS * turn**2 * s * c - MASS * G * RADIUS * s) / ((AXIAL + MASS * RADIUS**2) * turn * c)


@pytest.mark.parametrize(("lean", "turn"), [(0.1, -1.0), (0.5, -3.0), (-0.4, 2.0)])
def test_a_disk_rolls_on_a_steady_circle(lean: float, turn: float) -> None:
    w = (0.0, steady_spin(lean, turn), turn * math.cos(lean))
    simulation = advanced(disk(lean, w), 5.0, 1e-3)
    p, quaternion = simulation.poses()
    R = rotation_from_quaternion(quaternion[0])
    assert R[2, 1] == pytest.approx(math.sin(lean), abs=1e-9)
    assert p[0, 2] == pytest.approx(RADIUS * math.cos(lean), abs=1e-9)
    assert simulation.outputs()["load"] == pytest.approx(MASS * G, rel=1e-6)


def test_a_disk_keeps_its_energy_and_does_not_slip_for_a_minute() -> None:
    simulation = Simulation(assemble(disk(*WOBBLING)))
    energy = simulation.energy()
    simulation.advance(60.0)
    assert simulation.energy() == pytest.approx(energy, rel=1e-6)
    assert simulation.peak_violation()[1] < 1e-9


# -- sleigh -----------------------------------------------------------------------------------------------------------


def test_chaplygins_sleigh_turns_as_its_two_equations_say() -> None:
    sleigh = chaplygin_sleigh()
    mass, inertia, ahead = (sleigh.parameters[name] for name in ("mass", "inertia", "ahead"))

    def rates(_: float, state: np.ndarray) -> np.ndarray:
        _, _, theta, u, w = state
        turn = -mass * ahead * u * w / (inertia + mass * ahead**2)
        return np.array([u * math.cos(theta), u * math.sin(theta), w, ahead * w**2, turn])

    expected = solved(rates, [0.0, 0.0, 0.0, -0.5, 1.5], 5.0)
    simulation = advanced(sleigh, 5.0)
    np.testing.assert_allclose(simulation.coordinates, expected[:3], atol=NEAR)
    assert simulation.peak_violation()[1] < 1e-9


# -- snakeboard -------------------------------------------------------------------------------------------------------

BOARD = (2.0, 0.1, 0.25)  # mass, inertia and half length of the board


def snakeboard_push(phi: np.ndarray) -> np.ndarray:
    """The board's twist that both axles at the angles phi (2,) permit, in its own axes: x, y, rotation."""
    half = BOARD[2]
    front, rear = ([-math.sin(a), math.cos(a), sign * half * math.cos(a)] for a, sign in zip(phi, (1, -1), strict=True))
    return np.cross(front, rear)


def snakeboard_rates(_: float, state: np.ndarray) -> np.ndarray:
    """Equations projected on the four motions that the blades permit: S' M (S dz + dS/dt z) = S' f."""
    q, z = state[:6], state[6:]
    theta, phi, half = q[2], q[4:], BOARD[2]
    mass = BOARD[0] + ROTOR[0] + 2 * AXLE[0]
    M = np.diag([mass, mass, BOARD[1] + ROTOR[1] + 2 * AXLE[1] + 2 * AXLE[0] * half**2, ROTOR[1], AXLE[1], AXLE[1]])
    M[2, 3:] = M[3:, 2] = np.diag(M)[3:]

    turned = rotation_about((0.0, 0.0, 1.0), theta)
    push, S, change = snakeboard_push(phi), np.zeros((6, 4)), np.zeros((6, 4))
    S[:3, 0], S[3:, 1:] = turned @ push, np.eye(3)
    v = S @ z
    (a, b), (a_rate, b_rate) = phi, v[4:]
    front, rear = ([-math.sin(x), math.cos(x), sign * half * math.cos(x)] for x, sign in ((a, 1), (b, -1)))
    front_rate = a_rate * np.array([-math.cos(a), -math.sin(a), -half * math.sin(a)])
    rear_rate = b_rate * np.array([-math.cos(b), -math.sin(b), half * math.sin(b)])
    push_rate = np.cross(front_rate, rear) + np.cross(front, rear_rate)
    change[:3, 0] = turned @ (push_rate + v[2] * np.cross(UP, push))
    f = np.concatenate([np.zeros(3), -np.array(STIFFNESS) * (q[3:] - REST)])
    return np.concatenate([v, np.linalg.solve(S.T @ M @ S, S.T @ (f - M @ change @ z))])


def test_a_snakeboard_starts_without_slip() -> None:
    np.testing.assert_allclose(snakeboard().initial_v[:3], 0.4 * snakeboard_push(np.array(TURNED[1:])), atol=1e-15)


def test_a_snakeboard_moves_as_the_projected_equations_say() -> None:
    expected = solved(snakeboard_rates, [0.0, 0.0, 0.0, *TURNED, 0.4, *SPUN], 3.0)
    simulation = advanced(snakeboard(), 3.0)
    np.testing.assert_allclose(simulation.coordinates, expected[:6], atol=NEAR)
    assert simulation.peak_violation()[1] < 1e-9


# -- ball on a turntable ----------------------------------------------------------------------------------------------


BALL, TABLE, BEGIN, PUSH = 0.05, 4.0, 0.3, np.array([0.1, 0.35, 0.0])  # radius, rate, distance, velocity


def turntable() -> Mechanism:
    """A turntable that a motor turns, and a ball on it that rolls without slip."""
    radius, mass, rate, start, speed = BALL, 0.2, TABLE, BEGIN, PUSH
    inertia = 0.4 * mass * radius**2
    at = {"body": "ball", "radius": radius, "other": "table"}
    spin = np.cross(UP, speed - rate * np.cross(UP, [start, 0.0, 0.0])) / radius
    return Mechanism(
        name="turntable",
        coordinates="joint",
        bodies=(
            Body(name="table", mass=1.0, inertia=(0.1, 0.1, 0.1, 0, 0, 0)),
            Body(name="ball", mass=mass, inertia=(inertia, inertia, inertia, 0, 0, 0)),
        ),
        joints=(Joint(name="pivot", child="table"), Joint(name="ball", kind="free", child="ball")),
        constraints=(
            PrescribedMotion(name="motor", joint="pivot", motion=lambda t: rate * t),
            Touching(name="surface", **at),
            Rolling(name="grip", **at),
        ),
        initial_q=(0.0, start, 0.0, radius, 0.0, 0.0, 0.0),
        initial_v=(rate, *speed, *spin),
    )


def test_a_ball_on_a_turntable_goes_round_at_two_sevenths_of_its_rate() -> None:
    simulation, speed = advanced(turntable(), 3.0), PUSH
    slow = 2.0 / 7.0 * TABLE
    c, s = math.cos(3.0 * slow), math.sin(3.0 * slow)
    expected = np.array([s * speed[0] - (1 - c) * speed[1], (1 - c) * speed[0] + s * speed[1], 0.0]) / slow
    np.testing.assert_allclose(simulation.poses()[0][1], [expected[0] + BEGIN, expected[1], BALL], atol=NEAR)
    assert simulation.peak_violation()[1] < 1e-9


# -- mecanum ----------------------------------------------------------------------------------------------------------

ROLLERS = {"front_left": -1, "front_right": 1, "rear_left": 1, "rear_right": -1}
PLACES = {"front_left": (1, 1), "front_right": (1, -1), "rear_left": (-1, 1), "rear_right": (-1, -1)}
LOADS, DAMPING = (0.3, 0.1, -0.05, 0.2), 0.02
WHEEL, BASE = (0.4, 0.08, 4e-4, 8e-4), (6.0, 0.3)  # mass, radius, inertia across and along the axle; mass, inertia


def mecanum(wheels: dict[str, int] = ROLLERS, kind: str = "planar", height: float = 0.0) -> Mechanism:
    """A base on four wheels with the axles y, whose rollers' axes make 45 degrees with the wheels."""
    mass, radius, across, along = WHEEL
    bodies = [Body(name="base", mass=BASE[0], inertia=(0.2, 0.2, BASE[1], 0, 0, 0))]
    joints = [Joint(name="base", kind=kind, child="base", parent_point=(0.0, 0.0, height))]  # type: ignore[arg-type]
    rows = []
    for (name, sign), load in zip(wheels.items(), LOADS, strict=True):
        at = (0.2 * PLACES[name][0], 0.15 * PLACES[name][1], radius)
        bodies.append(Body(name=name, mass=mass, inertia=(across, along, across, 0, 0, 0)))
        joint = Joint(name=name, parent="base", child=name, parent_point=at, axis=Y, load=load, damping=DAMPING)
        joints.append(joint)
        rows.append(Rolling(name=f"{name}_rim", body=name, axis=Y, radius=radius, rollers=sign * math.pi / 4))
    n = sum(len(joint.coordinates) for joint in joints)
    return Mechanism(
        name="mecanum",
        coordinates="joint",
        bodies=tuple(bodies),
        joints=tuple(joints),
        constraints=tuple(rows),
        initial_q=(0.0,) * n,
        initial_v=(0.0,) * n,
    )


def test_a_mecanum_base_drives_as_its_three_equations_say() -> None:
    mass, radius, across, along = WHEEL
    W = np.array([[1.0, s, s * PLACES[n][0] * 0.2 - PLACES[n][1] * 0.15] for n, s in ROLLERS.items()]) / radius
    whole = BASE[0] + 4 * mass
    inertia = BASE[1] + 4 * (across + mass * (0.2**2 + 0.15**2))
    M = np.diag([whole, whole, inertia]) + along * W.T @ W

    def rates(_: float, state: np.ndarray) -> np.ndarray:
        theta, twist = state[2], state[3:6]
        turned = whole * twist[2] * np.array([-twist[1], twist[0], 0.0])
        c, s = math.cos(theta), math.sin(theta)
        driving = W.T @ (np.array(LOADS) - DAMPING * W @ twist)
        place = [c * twist[0] - s * twist[1], s * twist[0] + c * twist[1], twist[2]]
        return np.concatenate([place, np.linalg.solve(M, driving - turned), W @ twist])

    expected = solved(rates, np.zeros(10), 4.0)
    simulation = advanced(mecanum(), 4.0)
    np.testing.assert_allclose(simulation.coordinates, [*expected[:3], *expected[6:]], atol=NEAR)
    assert simulation.peak_violation()[1] < 1e-9


# -- tricycle ---------------------------------------------------------------------------------------------------------

LENGTH, HALF, RIM = 0.6, 0.2, 0.1  # distance of the front wheel from the rear axle, half of the track, radius


def tricycle() -> Mechanism:
    """A frame that is free in space on two rear wheels and a front wheel, whose fork and rate motors prescribe."""
    import casadi as ca

    bodies = [
        Body(name="frame", mass=8.0, inertia=(0.2, 0.4, 0.5, 0, 0, 0), center_of_mass=(0.25, 0.0, 0.1)),
        Body(name="fork", mass=0.5, inertia=(0.004, 0.004, 0.002, 0, 0, 0)),
    ]
    joints = [
        Joint(name="base", kind="free", child="frame"),
        Joint(name="steering", parent="frame", child="fork", parent_point=(LENGTH, 0.0, 0.0)),
    ]
    rows: list[Touching | Rolling | PrescribedMotion] = [
        PrescribedMotion(name="turns", joint="steering", motion=lambda t: 0.6 * (1.0 - ca.cos(1.5 * t))),
        PrescribedMotion(name="drives", joint="front", motion=lambda t: 5.0 * (t - ca.sin(t))),
    ]
    outputs: list[ContactForceOutput | SlipOutput] = []
    # the right wheel leaves the side force of the rear axle to the left one
    for name, carrier, y, rollers in (
        ("front", "fork", 0.0, None),
        ("left", "frame", HALF, None),
        ("right", "frame", -HALF, 0.0),
    ):
        bodies.append(Body(name=name, mass=0.4, inertia=(8e-4, 1.5e-3, 8e-4, 0, 0, 0)))
        joints.append(Joint(name=name, parent=carrier, child=name, parent_point=(0.0, y, 0.0), axis=Y))
        at = {"body": name, "axis": Y, "radius": RIM}
        rows += [Touching(name=f"{name}_floor", **at), Rolling(name=f"{name}_rim", rollers=rollers, **at)]
        outputs += [
            ContactForceOutput(name=f"load_{name}", contact=f"{name}_floor"),
            SlipOutput(name=f"slip_{name}", constraint=f"{name}_rim"),
        ]
    return Mechanism(
        name="tricycle",
        coordinates="joint",
        bodies=tuple(bodies),
        joints=tuple(joints),
        constraints=tuple(rows),
        outputs=tuple(outputs),
        initial_q=(0.0, 0.0, RIM, *[0.0] * 7),
        initial_v=(0.0,) * 10,
    )


def tricycle_rates(t: float, pose: np.ndarray) -> np.ndarray:
    """Rates of x, y, yaw of the middle of the rear axle: the front wheel moves along its steered plane."""
    steered, speed = 0.6 * (1.0 - math.cos(1.5 * t)), RIM * 5.0 * (1.0 - math.cos(t))
    forward = speed * math.cos(steered)
    return np.array([forward * math.cos(pose[2]), forward * math.sin(pose[2]), speed * math.sin(steered) / LENGTH])


def test_a_tricycle_goes_where_its_steered_front_wheel_points() -> None:
    expected = solved(tricycle_rates, [0.0] * 3, 3.0)
    simulation = advanced(tricycle(), 3.0, 1e-3)
    np.testing.assert_allclose(simulation.poses()[0][0], [*expected[:2], RIM], atol=NEAR)
    assert simulation.peak_violation()[1] < 1e-9
    values = simulation.outputs()
    weight = G * sum(float(body.mass) for body in simulation.system.mechanism.bodies)  # type: ignore[arg-type]
    loads = [values[f"load_{name}"] for name in ("front", "left", "right")]
    assert sum(loads) == pytest.approx(weight, rel=1e-9)
    assert loads[2] - loads[1] > 1.0  # a turn to the left presses on the right wheel
    assert max(abs(value) for name, value in values.items() if name.startswith("slip")) < 1e-9


# -- forces and bad input ---------------------------------------------------------------------------------------------


def test_the_reaction_of_the_base_is_what_the_rollers_leave_of_its_momentum() -> None:
    """The planar joint exerts no force along the floor, though the rollers accelerate the base: only its weight."""
    simulation = advanced(with_reactions(mecanum(), ["base"]), 0.5)
    values = simulation.outputs()
    speed = math.hypot(*simulation.velocities[:2])
    assert speed > 0.1
    np.testing.assert_allclose([values[f"reaction_base_f{axis}"] for axis in "xy"], 0.0, atol=1e-9)
    assert values["reaction_base_tz"] == pytest.approx(0.0, abs=1e-9)
    assert values["reaction_base_fz"] == pytest.approx((BASE[0] + 4 * WHEEL[0]) * G, abs=1e-9)


@pytest.mark.parametrize(
    ("mechanism", "line"),
    [
        (lambda: disk(*WOBBLING, height=0.05), "wheel 'floor' of 'disk' is 0.05 m above its plane at the start"),
        (lambda: disk(*WOBBLING, height=-0.05), "wheel 'floor' of 'disk' is 0.05 m below its plane at the start"),
        (lambda: disk(math.pi / 2, (0.0, 0.0, 0.0)), "wheel 'floor' of 'disk' lies flat at the start"),
        (lambda: mecanum(height=0.001), "wheel 'front_left_rim' of 'front_left' is 0.001 m above its plane"),
        (lambda: blocked(), "constraint 'front_left_rim' blocks a slip that the joints of 'front_left' block already"),
        (lambda: wrong(body="ground"), "the wheel is on body 'ground' and the plane on 'ground'"),
        (lambda: wrong(axis=None), "rollers is 0 rad, but the constraint has no axis, as for a sphere"),
        (lambda: wrong(rollers=45.0), "rollers is 45 rad; it must be from -pi to pi, such as 0.785 for 45 degrees"),
        (lambda: wrong(axis=(0.0, 2.0, 0.0)), "axis is (0.0, 2.0, 0.0); it must have length 1"),
        (lambda: wrong(radius=-0.1), "radius is -0.1 m; it must not be negative"),
        (lambda: wrong(other="table"), "'table'"),
    ],
)
def test_bad_input_ends_with_one_line(mechanism: Callable[[], Mechanism], line: str) -> None:
    with pytest.raises((InvalidMechanism, UnknownName)) as caught:
        Simulation(assemble(mechanism()))
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_start_is_found_near_a_wheel_that_lies_flat() -> None:
    floor = Touching(name="floor", body="disk", axis=(0.0, 0.0, 1.0), radius=RADIUS)
    flat = disk(0.0, (0.0, 0.0, 0.0), constraints=(floor,), outputs=())
    q, v = np.array(flat.initial_q), np.array(flat.initial_v)
    with pytest.raises(InvalidRequest, match=r"found no initial state of 'rolling_disk'.* they have no finite values"):
        consistent_start(assemble(flat), q, v)


def blocked() -> Mechanism:
    """The mecanum base bolted to the floor, with one wheel that may not slip sideways."""
    made = mecanum()
    bolted = dataclasses.replace(made.joints[0], kind="fixed")
    rim = dataclasses.replace(made.constraints[0], rollers=None)
    start = {"initial_q": (0.0,) * 4, "initial_v": (0.0,) * 4}
    return dataclasses.replace(made, joints=(bolted, *made.joints[1:]), constraints=(rim,), **start)


def wrong(**changes: object) -> Mechanism:
    rim = Rolling(name="rim", **{"body": "disk", "axis": Y, "radius": RADIUS, "rollers": 0.0} | changes)  # type: ignore[arg-type]
    return disk(*WOBBLING, constraints=(rim,))
