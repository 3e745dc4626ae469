"""Spherical and free joints: orientations as quaternions, against closed forms and other coordinates."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ellipj, ellipk

from sim_core.errors import InvalidMechanism, InvalidRequest
from sim_core.integrators.steppers import STEPPERS
from sim_core.inverse import forward_dynamics, inverse_dynamics
from sim_core.mechanism import Actuator, Body, Coincidence, Joint, Mechanism
from sim_core.simulation import Simulation
from sim_core.spatial import rotation_about, rotation_from_quaternion
from sim_core.system import System, assemble
from tests.sim_core import reference

INERTIA = (0.3, 0.2, 0.1)
TURNED = (np.cos(0.4), 0.0, np.sin(0.4), 0.0)


def floating(**changes: object) -> Mechanism:
    """A free body that carries an arm by a spherical and a revolute joint; no point is where its frame is."""
    bodies = (
        Body(name="base", mass=2.0, inertia=(0.3, 0.2, 0.25, 0.01, 0.02, -0.03), center_of_mass=(0.1, -0.05, 0.2)),
        Body(name="upper", mass=0.7, inertia=(0.02, 0.03, 0.01, 0.0, 0.001, 0.0), center_of_mass=(0.0, 0.1, -0.2)),
        Body(name="lower", mass=0.5, inertia=(0.01, 0.01, 0.002, 0.0, 0.0, 0.0), center_of_mass=(0.0, 0.0, -0.1)),
    )
    joints = (
        Joint(name="root", kind="free", child="base", child_point=(0.1, 0.2, 0.05), quaternion=TURNED),
        Joint(
            name="shoulder",
            kind="spherical",
            parent="base",
            child="upper",
            parent_point=(0.0, 0.3, 0.1),
            child_point=(0.0, 0.05, 0.1),
            rotation=((0.0, -1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)),
            quaternion=(0.5, 0.5, -0.5, 0.5),
        ),
        Joint(name="elbow", parent="upper", child="lower", parent_point=(0.0, 0.0, -0.4), axis=(1.0, 0.0, 0.0)),
    )
    start = {"initial_q": (0.0, 0.0, 1.0, *[0.0] * 6, 0.3), "initial_v": (0.1,) * 10}
    actuators = (Actuator(name="motor", joint="elbow"),)
    return Mechanism(
        name="floating", coordinates="joint", bodies=bodies, joints=joints, actuators=actuators, **start | changes
    )


def top(**changes: object) -> Mechanism:
    """A free body without gravity."""
    body = Body(name="body", mass=2.0, inertia=(*INERTIA, 0.0, 0.0, 0.0))
    joint = Joint(name="base", kind="free", child="body", quaternion=TURNED)
    fields: dict[str, object] = {
        "coordinates": "joint",
        "bodies": (body,),
        "joints": (joint,),
        "gravity": (0.0, 0.0, 0.0),
        "initial_q": (0.0,) * 6,
        "initial_v": (0.1, 0.0, 0.0, 0.0, 2.0, 0.0),
    }
    return Mechanism(name="top", **fields | changes)


@pytest.fixture(scope="module")
def system() -> System:
    return assemble(floating())


def states(system: System, count: int = 5) -> list[tuple[np.ndarray, np.ndarray]]:
    random = np.random.default_rng(4)
    return [(random.normal(size=system.n_q), random.normal(size=system.n_q)) for _ in range(count)]


def test_the_kernels_agree_with_the_slow_reference(system: System) -> None:
    for q, v in states(system):
        M, f, *_ = system.terms(0.0, q, v)
        M_slow, f_slow, *_ = reference.terms(system.mechanism, q, v)
        np.testing.assert_allclose(M, M_slow, atol=1e-12)
        np.testing.assert_allclose(f, f_slow, atol=1e-11)


def test_inverse_and_forward_dynamics_are_inverses(system: System) -> None:
    for q, v in states(system):
        tau = np.arange(10.0)
        np.testing.assert_allclose(inverse_dynamics(system, q, v, forward_dynamics(system, q, v, tau)), tau, atol=1e-9)


def test_two_equal_free_bodies_move_as_one_does() -> None:
    body = Body(name="a", mass=2.0, inertia=(0.3, 0.2, 0.2, 0.01, 0.0, 0.02), center_of_mass=(0.1, 0.0, 0.0))
    first = Joint(name="first", kind="free", child="a")
    start = {"initial_q": (0.0,) * 6, "initial_v": (0.0,) * 6}
    one = assemble(Mechanism(name="one", coordinates="joint", bodies=(body,), joints=(first,), **start))
    both = assemble(
        Mechanism(
            name="both",
            coordinates="joint",
            bodies=(body, dataclasses.replace(body, name="b")),
            joints=(first, Joint(name="second", kind="free", child="b")),
            initial_q=(0.0,) * 12,
            initial_v=(0.0,) * 12,
        )
    )
    (q, v), (r, w) = ((a[:6], b[:6]) for a, b in states(both, 2))
    together = forward_dynamics(both, np.concatenate([q, r]), np.concatenate([v, w]), np.ones(12))
    alone = [forward_dynamics(one, *state, np.ones(6)) for state in ((q, v), (r, w))]
    np.testing.assert_allclose(together, np.concatenate(alone), atol=1e-12)


def euler_top(w1: float, w3: float, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Angular velocity (n, 3) in the body's axes, and orientation (n, 3, 3), of a top that starts with w2 = 0.

    The inertias decrease, and 2 T I2 > L^2 > 2 T I3. The axes of the
    orientation are those in which the angular momentum is along z. Landau and Lifshitz, Mechanics, section 37.
    """
    I1, I2, I3 = INERTIA
    L = np.hypot(I1 * w1, I3 * w3)
    E = I1 * w1**2 + I3 * w3**2  # twice the energy
    rate = np.sqrt((I2 - I3) * (E * I1 - L * L) / (I1 * I2 * I3))
    m = (I1 - I2) * (L * L - E * I3) / ((I2 - I3) * (E * I1 - L * L))
    assert 0.0 < m < 1.0

    def velocity(time: np.ndarray) -> np.ndarray:
        sn, cn, dn, _ = ellipj(rate * time, m)
        a1, a2, a3 = (
            np.sqrt((L * L - E * I3) / (I1 * (I1 - I3))),
            np.sqrt((L * L - E * I3) / (I2 * (I2 - I3))),
            np.sqrt((E * I1 - L * L) / (I3 * (I1 - I3))),
        )
        return np.array([a1 * cn, -a2 * sn, a3 * dn])

    def precession(time: float) -> float:
        w = velocity(np.array(time))
        return float(L * (I1 * w[0] ** 2 + I2 * w[1] ** 2) / ((I1 * w[0]) ** 2 + (I2 * w[1]) ** 2))

    period, whole = 4 * ellipk(m) / rate, 0.0
    whole = quad(precession, 0.0, period, epsabs=1e-13, epsrel=1e-13, limit=400)[0]
    w = velocity(t)
    rotations = []
    for time, (w1_, w2, w3_) in zip(t, w.T, strict=True):
        turns, rest = divmod(time, period)
        phi = turns * whole + quad(precession, 0.0, rest, epsabs=1e-13, epsrel=1e-13, limit=400)[0]
        theta, psi = np.arccos(I3 * w3_ / L), np.arctan2(I1 * w1_, I2 * w2)
        rotations.append(turn_z(phi) @ turn_x(theta) @ turn_z(psi))
    return w.T, np.array(rotations)


def turn_z(angle: float) -> np.ndarray:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def turn_x(angle: float) -> np.ndarray:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])


def angle_of(R: np.ndarray) -> float:
    return float(np.linalg.norm([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]]) / 2)


def test_the_top_without_torque_moves_as_elliptic_functions_say_for_a_minute() -> None:
    w1, w3 = 0.8, np.sqrt(4.0 - 0.64)  # 2 rad/s
    simulation = Simulation(assemble(top(initial_v=(0.0, 0.0, 0.0, w1, 0.0, w3))), step_s=1e-3)
    energy, R_start = simulation.energy(), rotation_from_quaternion(np.array(TURNED))
    times = np.arange(0.0, 61.0, 5.0)
    w, R = euler_top(w1, w3, times)
    worst, slip = 0.0, 0.0
    for index in range(1, len(times)):
        simulation.advance(5.0)
        state = simulation.state
        turned = R_start @ R[0].T @ R[index]
        worst = max(worst, angle_of(turned.T @ rotation_from_quaternion(state.p)))
        slip = max(slip, float(np.abs(state.v[3:] - w[index]).max()))
    assert worst < 1e-8
    assert slip < 1e-8
    assert abs(simulation.energy() / energy - 1.0) < 1e-9
    assert abs(np.linalg.norm(simulation.state.p) - 1.0) < 1e-12
    assert not simulation.state.q[3:].any()


@pytest.mark.soak
def test_the_norm_of_a_quaternion_holds_for_ten_minutes(system: System) -> None:
    simulation = Simulation(system, step_s=1e-3)
    simulation.advance(600.0)
    np.testing.assert_allclose(np.linalg.norm(simulation.state.p.reshape(2, 4), axis=1), 1.0, atol=1e-12, rtol=0.0)


@pytest.mark.parametrize("stepper", ["rk4", "dopri5", "semi_implicit"])
def test_the_error_falls_with_the_order_of_the_stepper(stepper: str) -> None:
    system = assemble(top(initial_v=(0.0, 0.0, 0.0, 0.5, 3.0, 0.2)))
    found = []
    for step_s in (0.02, 0.01):
        simulation = Simulation(system, step_s=step_s, stepper=stepper)
        simulation.advance(2.0)
        found.append(rotation_from_quaternion(simulation.state.p))
    exact = Simulation(system, step_s=1e-3, stepper="dopri5")
    exact.advance(2.0)
    whole, half = (angle_of(R.T @ rotation_from_quaternion(exact.state.p)) for R in found)
    assert np.log2(whole / half) == pytest.approx(STEPPERS[stepper].order, abs=0.25)


def test_a_spherical_joint_moves_as_euler_parameters_do() -> None:
    body = Body(
        name="bob",
        mass=1.5,
        inertia=(0.03, 0.02, 0.04, 0.0, 0.0, 0.0),
        orientation="euler_parameters",
        center_of_mass=(0.02, 0.0, -0.5),
    )
    w = np.array([0.4, 1.0, 5.0])
    joint = Joint(name="ball", kind="spherical", child="bob", child_point=(0.1, 0.0, 0.0), quaternion=TURNED)
    e = np.array(TURNED)
    rate = 0.5 * np.array([-e[1:] @ w, *(e[0] * w + np.cross(e[1:], w))])
    R = rotation_from_quaternion(e)
    place, speed = -R @ [0.1, 0.0, 0.0], R @ np.cross(w, [-0.1, 0.0, 0.0])
    absolute = Mechanism(
        name="ball_absolute",
        coordinates="absolute",
        bodies=(body,),
        constraints=(
            Coincidence(name="ball", body_a="bob", point_a=(0.1, 0.0, 0.0), body_b="ground", point_b=(0.0, 0.0, 0.0)),
        ),
        initial_q=(*place, *e),
        initial_v=(*speed, *rate),
    )
    joint_form = Mechanism(
        name="ball", coordinates="joint", bodies=(body,), joints=(joint,), initial_q=(0.0,) * 3, initial_v=tuple(w)
    )
    runs = [Simulation(assemble(each), step_s=1e-3) for each in (joint_form, absolute)]
    for run in runs:
        run.advance(2.0)
    (p, quaternion), (p_absolute, quaternion_absolute) = (run.poses() for run in runs)
    np.testing.assert_allclose(p, p_absolute, atol=2e-8)
    assert abs(float(np.sum(quaternion * quaternion_absolute))) == pytest.approx(1.0, abs=1e-14)


def test_the_damping_of_a_spherical_joint_takes_the_energy_that_the_ledger_books() -> None:
    body = Body(name="bob", mass=1.0, inertia=(0.02, 0.03, 0.01, 0.0, 0.0, 0.0))
    joint = Joint(name="ball", kind="spherical", child="bob", damping=0.02)
    ball = Mechanism(
        name="damped",
        coordinates="joint",
        bodies=(body,),
        joints=(joint,),
        initial_q=(0.0,) * 3,
        initial_v=(0.0, 0.0, 3.0),
    )
    simulation = Simulation(assemble(ball), step_s=1e-3)
    simulation.advance(1.0)
    assert simulation.state.v[2] == pytest.approx(3.0 * np.exp(-0.02 / 0.01), rel=1e-9)
    assert not simulation.take_notices()
    slow, v = assemble(ball), np.array([0.3, -0.2, 0.5])
    q = np.array([0.7, 0.1, -0.4])
    assert slow.terms(0.0, q, v)[1] @ v - undamped(ball, q, v) == pytest.approx(-0.02 * speed(q, v) ** 2, rel=1e-9)


def undamped(mechanism: Mechanism, q: np.ndarray, v: np.ndarray) -> float:
    """Power of f without damping, W, from the slow reference."""
    return float(reference.terms(mechanism, q, v)[1] @ v)


def speed(q: np.ndarray, v: np.ndarray) -> float:
    """Magnitude of the angular velocity at rotation coordinates q, rad/s."""
    return float(np.linalg.norm(v) / (1.0 + q @ q / 16.0))


def test_a_snapshot_continues_with_the_same_bytes(system: System) -> None:
    runs = [Simulation(system, step_s=1e-3) for _ in range(2)]
    runs[0].advance(0.5)
    kept = runs[0].snapshot()
    runs[0].advance(0.5)
    runs[1].restore(kept)
    runs[1].advance(0.5)
    for name in ("q", "v", "p"):
        assert getattr(runs[0].state, name).tobytes() == getattr(runs[1].state, name).tobytes()


def test_the_frame_of_a_planar_joint_has_its_place_and_angle() -> None:
    axis = (0.0, 0.6, 0.8)
    rotation = tuple(tuple(row) for row in rotation_about((1.0, 0.0, 0.0), 0.4).tolist())
    joint = Joint(
        name="floor", kind="planar", child="cart", axis=axis, rotation=rotation, parent_point=(0.1, 0.2, 0.3),  # type: ignore[arg-type]
        child_point=(0.0, 0.1, 0.0),
    )  # fmt: skip
    body = Body(name="cart", mass=2.0, inertia=(0.1, 0.2, 0.3, 0.0, 0.0, 0.0), center_of_mass=(0.05, 0.0, 0.0))
    start = {"initial_q": (0.5, -0.3, 4.0), "initial_v": (0.2, 0.1, 3.0)}
    mechanism = Mechanism(name="cart", coordinates="joint", bodies=(body,), joints=(joint,), **start)  # type: ignore[arg-type]
    simulation = Simulation(assemble(mechanism), step_s=1e-3)
    simulation.advance(0.5)
    ((name, (pose, twist)),) = simulation.frames().items()
    assert name == "floor"
    p, e = (each[0] for each in simulation.poses())
    R = rotation_from_quaternion(e)
    np.testing.assert_allclose(pose[:3], p + R @ (0.0, 0.1, 0.0) - (0.1, 0.2, 0.3), atol=1e-14)
    assert abs(pose[3:] @ e) == pytest.approx(1.0, abs=1e-14)
    ahead = Simulation(assemble(mechanism), step_s=1e-3)
    ahead.restore(simulation.state)
    ahead.advance(1e-3)
    (later, _), rate = ahead.frames()["floor"], 1e3
    np.testing.assert_allclose((later[:3] - pose[:3]) * rate, twist[:3], atol=0.02)
    turned = rotation_from_quaternion(later[3:])
    turning = (R.T @ turned - turned.T @ R) / 2.0 * rate
    np.testing.assert_allclose((turning[2, 1], turning[0, 2], turning[1, 0]), twist[3:], rtol=1e-3, atol=1e-6)


def test_frames_and_twists_are_those_of_the_bodies(system: System) -> None:
    simulation = Simulation(system, step_s=1e-3)
    simulation.advance(0.3)
    frames, state = simulation.frames(), simulation.state
    assert list(frames) == ["root", "shoulder"]
    places = dict(
        zip([body.name for body in system.mechanism.bodies], zip(*simulation.poses(), strict=True), strict=True)
    )
    (p_base, e_base), (_, e_upper) = places["base"], places["upper"]
    R = rotation_from_quaternion(e_base)
    pose, twist = frames["root"]
    np.testing.assert_allclose(pose[:3], p_base + R @ (0.1, 0.2, 0.05), atol=1e-14)
    assert abs(pose[3:] @ e_base) == pytest.approx(1.0, abs=1e-14)
    np.testing.assert_array_equal(twist, state.v[:6])
    pose, twist = frames["shoulder"]
    turned = R @ rotation_from_quaternion(pose[3:])
    np.testing.assert_allclose(turned, rotation_from_quaternion(e_upper), atol=1e-14)
    np.testing.assert_array_equal(twist, [0.0, 0.0, 0.0, *state.v[6:9]])
    assert not pose[:3].any()


def test_a_start_that_turns_a_joint_by_its_coordinates_is_refused_and_names_the_quaternion() -> None:
    joints, turned = (Joint(name="base", kind="free", child="body"),), (0.0, 0.0, 2.0, 0.0, 0.0, 1.0)
    told = r"joint 'base' is free, and its base.rx, base.ry, base.rz are 0, 0, 1; .* must be 0: .* `quaternion`"
    with pytest.raises(InvalidMechanism, match=f"initial_q: {told}"):
        assemble(top(initial_q=turned, joints=joints))
    simulation = Simulation(assemble(top(joints=joints)))
    before = simulation.state
    with pytest.raises(InvalidRequest, match=f"q: {told}"):
        simulation.reset(turned, (0.0,) * 6)
    np.testing.assert_array_equal(simulation.state.p, before.p)


def test_a_start_at_a_quaternion_begins_with_this_angle_and_with_the_given_angular_velocity() -> None:
    half, w = 0.5, (0.0, 0.0, 1.0)
    joint = Joint(name="base", kind="free", child="body", quaternion=(np.cos(half), 0.0, 0.0, np.sin(half)))
    simulation = Simulation(assemble(top(joints=(joint,))))
    simulation.reset((0.0, 0.0, 2.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, *w))
    pose, twist = simulation.frames()["base"]
    np.testing.assert_allclose(pose, [0.0, 0.0, 2.0, np.cos(half), 0.0, 0.0, np.sin(half)], atol=1e-15)
    np.testing.assert_allclose(twist[3:], w, atol=1e-15)


@pytest.mark.parametrize("stepper", [name for name, each in STEPPERS.items() if each.spans_steps])
def test_a_stepper_that_spans_steps_is_refused_in_one_line(stepper: str) -> None:
    with pytest.raises(
        InvalidRequest, match=f"stepper '{stepper}' uses data of earlier time steps, .* joint 'base' .* use one of rk4"
    ):
        Simulation(assemble(top()), stepper=stepper)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"quaternion": (1.0, 0.1, 0.0, 0.0)}, "joint 'base': quaternion .* of norm 1.00499; its norm must be 1"),
        ({"load": 0.1}, "joint 'base' is free, so that it can have no load"),
        ({"kind": "revolute"}, "joint 'base' is revolute, so that it cannot have a quaternion"),
    ],
)
def test_a_joint_that_cannot_be_meant_is_refused(change: dict[str, object], line: str) -> None:
    joint = dataclasses.replace(top().joints[0], **change)
    with pytest.raises(InvalidMechanism, match=line):
        assemble(top(joints=(joint,)))


def test_absolute_coordinates_refuse_a_free_joint_and_say_what_does_the_same() -> None:
    with pytest.raises(InvalidMechanism, match=r"joint 'base' is free, .* orientation='euler_parameters' and no joint"):
        assemble(top(coordinates="absolute", initial_q=(0.0,) * 3, initial_v=(0.0,) * 3))


def test_a_free_body_without_mass_or_inertia_is_refused() -> None:
    body = Body(name="body", mass=1.0, inertia=(0.0,) * 6)
    with pytest.raises(InvalidMechanism, match="inertia is 0, and joint 'base'"):
        assemble(top(bodies=(body,)))
