"""Springs, stops, damping and armatures of spherical and free joints: closed forms, energy, refusals."""

from __future__ import annotations

import dataclasses
import re
import warnings
from typing import Any

import numpy as np
import pytest

from robots.stops import with_stops
from sim_core.errors import DescriptionWarning, InvalidMechanism, StepTooLargeWarning
from sim_core.inverse import inverse_dynamics, mass_matrix
from sim_core.mechanism import Body, Joint, JointFriction, JointSpring, JointStops, Mechanism, dissipation_for
from sim_core.simulation import Simulation
from sim_core.spatial import axis_and_angle, quaternion_of_step, quaternion_product, rotation_vector
from sim_core.system import assemble

INERTIA, MASS = 0.02, 1.5
AXIS = np.array([0.6, -0.48, 0.64])


def turned(axis: np.ndarray, angle: float) -> tuple[float, float, float, float]:
    """Quaternion of a rotation about a unit axis."""
    w, x, y, z = np.cos(angle / 2), *(np.sin(angle / 2) * axis)
    return float(w), float(x), float(y), float(z)


def body_on(kind: str, joint: dict[str, Any] | None = None, **changes: Any) -> Mechanism:
    """A body with three equal moments of inertia on a joint at its centre of mass, without gravity."""
    n = 6 if kind == "free" else 3
    body = Body(name="bob", mass=MASS, inertia=(INERTIA,) * 3 + (0.0,) * 3)
    fields: dict[str, Any] = {
        "coordinates": "joint",
        "bodies": (body,),
        "joints": (Joint(name="ball", kind=kind, child="bob", **(joint or {})),),  # type: ignore[arg-type]
        "gravity": (0.0, 0.0, 0.0),
        "initial_q": (0.0,) * n,
        "initial_v": (0.0,) * n,
    }
    return Mechanism(name="sprung", **(fields | changes))


def angle_about(simulation: Simulation, axis: np.ndarray, rest: tuple[float, ...] = (1.0, 0.0, 0.0, 0.0)) -> float:
    """Rotation from the quaternion `rest` about an axis, rad; the rotation about other axes must be zero."""
    w, x, y, z = rest
    r = rotation_vector(quaternion_product((w, -x, -y, -z), simulation.state.p[:4]))
    assert np.abs(r - (r @ axis) * axis).max() < 1e-9
    return float(r @ axis)


@pytest.mark.parametrize("angle", [0.5, 2.5])
def test_a_torsional_spring_swings_at_its_frequency_about_any_axis(angle: float) -> None:
    k, rest = 3.0, turned(np.array([0.0, 0.8, 0.6]), 1.1)
    w, x, y, z = (float(part) for part in quaternion_product(rest, turned(AXIS, angle)))
    spring = JointSpring(stiffness=k, rest_quaternion=rest)
    sim = Simulation(assemble(body_on("spherical", {"spring": spring, "quaternion": (w, x, y, z)})), step_s=1e-3)
    energy = sim.energy()
    assert energy == pytest.approx(0.5 * k * angle**2, rel=1e-12)
    for _ in range(4):
        sim.advance(0.3)
        expected = angle * np.cos(np.sqrt(k / INERTIA) * sim.time)
        assert angle_about(sim, AXIS, rest) == pytest.approx(expected, abs=1e-7)
    assert sim.energy() == pytest.approx(energy, rel=1e-8)


def test_the_spring_of_a_free_joint_pulls_to_its_rest_point_and_turns_to_its_rest_orientation() -> None:
    k, point = 40.0, (0.1, -0.2, 0.3)
    spring = JointSpring(stiffness=k, rest_point=point)
    start = {"initial_q": (0.3, -0.2, 0.3, 0.0, 0.0, 0.0)}
    joint = {"spring": spring, "quaternion": turned(AXIS, 0.4)}
    sim = Simulation(assemble(body_on("free", joint, **start)), step_s=1e-3)
    sim.advance(1.0)
    assert angle_about(sim, AXIS) == pytest.approx(0.4 * np.cos(np.sqrt(k / INERTIA)), abs=1e-6)
    np.testing.assert_allclose(sim.state.q[:3] - point, [0.2 * np.cos(np.sqrt(k / MASS)), 0.0, 0.0], atol=1e-9)


def test_a_cubic_spring_exerts_its_law_and_stores_its_energy() -> None:
    k, cubic, angle = 2.0, 5.0, 1.2
    spring = JointSpring(stiffness=k, cubic=cubic)
    system = assemble(body_on("spherical", {"spring": spring, "quaternion": turned(AXIS, angle)}))
    still = np.zeros(3)
    moment = -inverse_dynamics(system, still, still, still)
    np.testing.assert_allclose(moment, -(k * angle + cubic * angle**3) * AXIS, rtol=1e-12)
    assert system.energy(0.0, still, still)[1] == pytest.approx(0.5 * k * angle**2 + 0.25 * cubic * angle**4)


def test_forces_within_a_step_are_minus_the_gradient_of_the_stored_energy() -> None:
    spring = JointSpring(stiffness=2.0, cubic=0.5, rest_quaternion=turned(AXIS, 0.3), rest_point=(0.1, 0.0, 0.0))
    stops = JointStops(stiffness=30.0, exponent=2.0)
    free = body_on("free", {"spring": spring, "quaternion": turned(np.array([1.0, 0.0, 0.0]), 1.0)})
    ball = body_on("spherical", {"stops": stops, "upper": 0.5, "quaternion": turned(AXIS, 0.6)})
    for mechanism in (free, ball):
        system = assemble(mechanism)
        n = system.n_q
        q, rest = np.random.default_rng(2).normal(scale=0.3, size=n), np.zeros(n)
        found = -inverse_dynamics(system, q, rest, rest)
        for k, e in enumerate(np.eye(n) * 1e-6):
            slope = (system.energy(0.0, q + e, rest)[1] - system.energy(0.0, q - e, rest)[1]) / 2e-6
            assert found[k] == pytest.approx(-slope, abs=1e-7)


@pytest.mark.parametrize("restitution", [0.4, 1.0])
def test_a_ball_joint_leaves_its_stop_with_the_coefficient_of_restitution(restitution: float) -> None:
    speed, limit = 2.0, 1.0
    stops = JointStops(stiffness=2e4 * INERTIA, dissipation=dissipation_for(restitution, speed))
    mechanism = body_on("spherical", {"upper": limit, "stops": stops}, initial_v=tuple(speed * AXIS))
    errors = []
    for step in (1e-3, 2.5e-4):
        sim = Simulation(assemble(mechanism), step_s=step)
        sim.advance(0.8)
        errors.append(abs(float(-sim.state.v @ AXIS) / (restitution * speed) - 1.0))
        assert sim.energy_ledger.largest < 0.01
    assert errors[0] < 0.01
    assert errors[1] < 0.1 * max(errors[0], 1e-5)


def test_an_asymmetric_body_keeps_its_energy_between_a_spring_and_a_stop() -> None:
    body = Body(name="bob", mass=MASS, inertia=(0.02, 0.03, 0.015, 0.001, 0.0, 0.002), center_of_mass=(0.05, 0.1, -0.2))
    stops = JointStops(stiffness=50.0)
    joint = {"spring": JointSpring(stiffness=4.0), "stops": stops, "upper": 0.9, "armature": 0.01}
    sim = Simulation(assemble(body_on("spherical", joint, bodies=(body,), initial_v=(6.0, -3.0, 4.0))), step_s=1e-3)
    energy, largest = sim.energy(), 0.0
    for _ in range(200):
        sim.advance(0.02)
        largest = max(largest, float(axis_and_angle(sim.state.p)[1]))
    assert largest > 0.95  # it reaches the stop
    assert sim.energy() == pytest.approx(energy, rel=1e-6)


def test_damping_and_armature_of_a_free_joint_act_on_rotation_and_translation() -> None:
    d, armature = 0.02, 0.5
    mechanism = body_on("free", {"damping": d, "armature": armature}, initial_v=(1.0, 0.0, 2.0, 0.0, 3.0, 0.0))
    system = assemble(mechanism)
    np.testing.assert_allclose(
        np.diag(mass_matrix(system, np.zeros(6))), [MASS + armature] * 3 + [INERTIA + armature] * 3, rtol=1e-14
    )
    sim = Simulation(system, step_s=1e-3)
    sim.advance(1.0)
    slow = np.exp(-d / (MASS + armature))
    np.testing.assert_allclose(
        sim.state.v, [slow, 0.0, 2 * slow, 0.0, 3 * np.exp(-d / (INERTIA + armature)), 0.0], rtol=1e-9
    )
    assert abs(sim.energy_ledger.departure) < 1e-9
    assert not sim.take_notices()


def test_a_stop_from_a_file_suits_a_step_of_1_ms_and_a_stiffer_one_is_warned_of() -> None:
    limited = body_on("spherical", {"upper": 0.5})
    stopped = with_stops(limited)
    assert stopped.joints[0].stops is not None
    with warnings.catch_warnings():
        warnings.simplefilter("error", StepTooLargeWarning)
        Simulation(assemble(stopped), step_s=1e-3)
    stiff = dataclasses.replace(limited.joints[0], stops=JointStops(stiffness=8.1e6 * INERTIA, exponent=1.0))
    with pytest.warns(StepTooLargeWarning, match=r"1 rad/s on the stop of joint 'ball'"):
        Simulation(assemble(body_on("spherical", joints=(stiff,))), step_s=1e-3)


@pytest.mark.parametrize(
    ("joint", "element"),
    [
        ({"spring": JointSpring(stiffness=1e6)}, "the spring of joint 'ball'"),
        ({"damping": 1e3}, "the damping of joint 'ball'"),
        (
            {"stops": JointStops(stiffness=1e6, exponent=1.0), "upper": 0.5, "quaternion": turned(AXIS, 0.6)},
            "the stop of joint 'ball'",
        ),
    ],
)
def test_a_step_too_large_for_a_part_of_an_orientation_is_warned_of_by_name(
    joint: dict[str, Any], element: str
) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Simulation(assemble(body_on("spherical", joint)), step_s=1e-3)
    said = [str(each.message) for each in caught if each.category is StepTooLargeWarning]
    assert any(re.search(f"the fastest mode of 'sprung', .* by {element}", line) for line in said), said


def test_a_start_beyond_the_limit_of_a_ball_joint_is_named() -> None:
    with pytest.warns(DescriptionWarning, match=r"joint 'ball' starts at 0.7 rad, beyond its limit 0.5, and no stop"):
        assemble(body_on("spherical", {"upper": 0.5, "quaternion": turned(AXIS, 0.7)}))


@pytest.mark.parametrize(
    ("kind", "joint", "line"),
    [
        ("spherical", {"lower": -1.0, "upper": 1.0}, "joint 'ball' is spherical, so that it can have no lower"),
        ("spherical", {"upper": 3.2}, "its upper limit is 3.2 rad; .* must lie between 0 and pi"),
        (
            "spherical",
            {"friction": JointFriction(coulomb=1.0, bristle_stiffness=9.0)},
            "joint 'ball' is spherical, so that its friction can have no bristle_stiffness",
        ),
        (
            "spherical",
            {"stops": JointStops(stiffness=1.0)},
            "joint 'ball'.* has stops but neither a lower nor an upper",
        ),
        ("spherical", {"spring": JointSpring(rest=1.0)}, "its spring can have no rest; .* given by rest_quaternion"),
        ("spherical", {"spring": JointSpring(rest_point=(1, 0, 0))}, "its spring can have no rest_point"),
        (
            "spherical",
            {"spring": JointSpring(rest_quaternion=(1, 1, 0, 0))},
            "rest_quaternion .* of norm 1.41421; it",
        ),
        ("free", {"upper": 1.0}, "joint 'ball' is free, so that it can have no upper"),
        ("free", {"stops": JointStops(stiffness=1.0)}, "joint 'ball' is free, so that it can have no stops"),
        ("free", {"spring": JointSpring(preload=1.0)}, "joint 'ball' is free, so that its spring can have no preload"),
    ],
)
def test_a_part_that_an_orientation_cannot_have_is_refused_in_one_line(
    kind: str, joint: dict[str, Any], line: str
) -> None:
    with pytest.raises(InvalidMechanism, match=line) as refused:
        assemble(body_on(kind, joint))
    assert "\n" not in str(refused.value)


def test_a_spring_of_a_hinge_has_no_rest_orientation() -> None:
    hinge = Joint(name="hinge", child="bob", spring=JointSpring(rest_quaternion=(0.0, 1.0, 0.0, 0.0)))
    with pytest.raises(
        InvalidMechanism, match="joint 'hinge' is revolute, so that its spring can have no rest_quaternion"
    ):
        assemble(body_on("spherical", joints=(hinge,), initial_q=(0.0,), initial_v=(0.0,)))


def test_axis_and_angle_are_exact_for_small_rotations() -> None:
    for angle in (0.0, 1e-200, 1e-9, 0.3, 3.0):
        axis, found = axis_and_angle(turned(AXIS, angle))
        assert found == pytest.approx(angle, rel=1e-12, abs=1e-149)
        np.testing.assert_allclose(axis * found, AXIS * angle, rtol=1e-12, atol=1e-149)
    np.testing.assert_allclose(axis_and_angle(quaternion_of_step(0.2 * AXIS))[1], 4 * np.arctan(0.05), rtol=1e-14)
