"""Effective masses at contacts, and the stiffness that follows from them: closed forms, RK4 at 1 ms, refusals."""

from __future__ import annotations

import dataclasses
import re
import warnings
from typing import Any

import numpy as np
import pytest

from sim_core.errors import InvalidMechanism, StartWarning, StepTooLargeWarning
from sim_core.inverse import mass_matrix
from sim_core.mechanism import (
    Body,
    Joint,
    JointSpring,
    Mechanism,
    SphereContact,
    X,
    Y,
    box_contacts,
    stiffness_for,
)
from sim_core.mobility import effective_masses, mass_matrix_at, moving_bodies, with_contact_stiffness
from sim_core.monitoring.impacts import impact_rate
from sim_core.simulation import Simulation
from sim_core.system import assemble

MASS, HALF = 2.0, 0.1
CUBE = MASS * (2.0 * HALF) ** 2 / 6.0


def body(name: str, **more: Any) -> Body:
    return Body(name=name, mass=MASS, inertia=(CUBE, CUBE, CUBE, 0, 0, 0), **more)


def made(*contacts: SphereContact, bodies: tuple[Body, ...], joints: tuple[Joint, ...], **more: Any) -> Mechanism:
    n = sum(len(joint.coordinates) for joint in joints)
    given: dict[str, Any] = {"initial_q": (0.0,) * n, "initial_v": (0.0,) * n, "coordinates": "joint"} | more
    return Mechanism(name="made", bodies=bodies, joints=joints, contacts=contacts, **given)


def free(name: str) -> Joint:
    return Joint(name=name, kind="free", child=name)


def test_the_corner_of_a_cube_has_its_effective_mass_in_joint_and_in_absolute_coordinates() -> None:
    corners = box_contacts("corner", body="cube", half_sizes=(HALF,) * 3)
    in_joints = made(*corners, bodies=(body("cube"),), joints=(free("cube"),))
    absolute = Mechanism(
        name="made",
        coordinates="absolute",
        bodies=(body("cube", orientation="euler_parameters"),),
        contacts=corners,
        initial_q=(0, 0, 0, 1, 0, 0, 0),
        initial_v=(0,) * 7,
    )
    # across the diagonal: 1 / m + (sqrt(3) HALF)^2 / I
    expected = 1.0 / (1.0 / MASS + 3.0 * HALF**2 / CUBE)
    for mechanism in (in_joints, absolute):
        masses = effective_masses(mechanism)
        assert len(masses) == 8
        assert [*masses.values()] == pytest.approx([expected] * 8, rel=1e-12)


def test_two_free_balls_have_half_the_mass_of_one_and_a_hinged_rod_that_of_its_inertia() -> None:
    meeting = SphereContact(name="meet", body="a", radius=0.1, other="b", other_radius=0.1)
    balls = made(meeting, bodies=(body("a"), body("b")), joints=(free("a"), free("b")))
    assert effective_masses(balls)["meet"] == pytest.approx(MASS / 2.0, rel=1e-12)
    tip = SphereContact(name="tip", body="rod", center=(0.5, 0, 0))
    hinge = Joint(name="hinge", child="rod", axis=Y, armature=0.3)
    rod = made(tip, bodies=(body("rod", center_of_mass=(0.25, 0, 0)),), joints=(hinge,))
    expected = (CUBE + MASS * 0.25**2 + 0.3) / 0.5**2
    assert effective_masses(rod)["tip"] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("exponent", [1.0, 1.5, 2.0])
def test_the_default_stiffness_swings_at_the_square_root_of_a_fiftieth_of_eight_million(exponent: float) -> None:
    assert impact_rate(stiffness_for(0.7, exponent), exponent, 0.7) == pytest.approx((8e6 / 50.0) ** 0.5, rel=1e-12)
    assert impact_rate(stiffness_for(0.7, exponent, 90.0, 3.0), exponent, 0.7, 3.0) == pytest.approx(90.0, rel=1e-12)


def falling(stiffness: float | None, exponent: float = 1.5) -> Mechanism:
    floor = SphereContact(name="floor", body="ball", radius=0.1, stiffness=stiffness, exponent=exponent)
    start = {"initial_q": (0, 0, 0.11, 0, 0, 0), "initial_v": (0, 0, -1.0, 0, 0, 0), "gravity": (0.0, 0.0, 0.0)}
    return made(floor, bodies=(body("ball"),), joints=(free("ball"),), **start)


@pytest.mark.parametrize("exponent", [1.0, 1.5])
def test_rk4_at_1_ms_returns_the_speed_of_an_elastic_impact_on_the_default_stiffness(exponent: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", StepTooLargeWarning)
        sim = Simulation(assemble(falling(None, exponent)), step_s=1e-3)
    sim.advance(0.05)
    assert sim.state.v[2] == pytest.approx(1.0, rel=2e-3)


def test_rk4_at_1_ms_is_warned_of_a_stiffness_of_eight_million_times_the_effective_mass() -> None:
    with pytest.warns(StepTooLargeWarning, match=r"1 m/s on contact 'floor' .* use a step of at most .* ms"):
        Simulation(assemble(falling(8.1e6 * MASS, 1.0)), step_s=1e-3)
    # the whole cube bears it, its corners do not
    corners = box_contacts("corner", body="cube", half_sizes=(HALF,) * 3, stiffness=2e6 * MASS, exponent=1.0)
    cube = made(*corners, bodies=(body("cube"),), joints=(free("cube"),), initial_q=(0, 0, 1.0, 0, 0, 0))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Simulation(assemble(cube), step_s=1e-3)
    (warning,) = [str(each.message) for each in caught]
    assert re.search(r"on contact 'corner_\d' .*; 7 more contacts are not resolved either$", warning)


def test_a_stiffness_that_is_given_stays_and_one_that_follows_has_three_digits() -> None:
    given = SphereContact(name="given", body="ball", stiffness=123456.0)
    mechanism = falling(None)
    mechanism = dataclasses.replace(mechanism, contacts=(*mechanism.contacts, given))
    floor, kept = with_contact_stiffness(mechanism).contacts
    assert kept == given
    assert floor.stiffness == float(f"{stiffness_for(MASS):.3g}")
    assert assemble(mechanism).mechanism.contacts == (floor, kept)


def test_a_contact_on_the_axis_of_a_hinge_has_the_mass_of_all_bodies_and_one_without_mass_is_refused() -> None:
    on_axis = SphereContact(name="hub", body="wheel", radius=0.1)
    hinge = Joint(name="hinge", child="wheel", armature=0.1)
    wheel = made(on_axis, bodies=(body("wheel"),), joints=(hinge,))
    assert effective_masses(wheel)["hub"] == float("inf")
    assert with_contact_stiffness(wheel).contacts[0].stiffness == float(f"{stiffness_for(MASS):.3g}")
    light = Body(name="wheel", mass=0.0, inertia=(0.0,) * 6)
    with pytest.raises(InvalidMechanism, match=r"contact 'hub': its effective mass is 0, .*; set `stiffness`"):
        assemble(made(on_axis, bodies=(light,), joints=(hinge,)))


def test_the_mass_matrix_of_every_kind_of_joint_is_that_of_the_kernels() -> None:
    kinds = ("free", "revolute", "planar", "prismatic", "spherical", "fixed", "revolute")
    bodies, joints, parent = [], [], "ground"
    for k, kind in enumerate(kinds):
        name = f"b{k}"
        bodies.append(body(name, center_of_mass=(0.1, 0.02 * k, -0.05)))
        more: dict[str, Any] = {"quaternion": (0.6, 0.0, 0.8, 0.0)} if kind in ("free", "spherical") else {}
        more |= {"armature": 0.2} if kind == "revolute" else {}
        points = {"parent_point": (0.1, 0.2, 0.3)} | ({} if kind == "free" else {"child_point": (0.02, 0.0, 0.1)})
        turned = ((0.0, -1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0))
        rotation = {} if kind == "free" else {"rotation": turned}
        joints.append(Joint(name=name, kind=kind, parent=parent, child=name, axis=X, **points, **rotation, **more))  # type: ignore[arg-type]
        parent = name
    mechanism = made(bodies=tuple(bodies), joints=tuple(joints))
    q = np.random.default_rng(3).normal(size=len(mechanism.initial_q))
    names = [name for joint in joints for name in joint.coordinates]
    q[[name.endswith((".rx", ".ry", ".rz")) for name in names]] = 0.0
    M = mass_matrix_at(mechanism, moving_bodies(mechanism, q))
    np.testing.assert_allclose(M, mass_matrix(assemble(mechanism), q), rtol=1e-10, atol=1e-10)


def standing(slip_velocity: float) -> Mechanism:
    """A trunk of 40 kg on a light foot with four contacts, 0.1 mm above the floor."""
    trunk = Body(name="trunk", mass=40.0, inertia=(1.0, 1.0, 0.5, 0, 0, 0), center_of_mass=(0, 0, 0.2))
    foot = Body(name="foot", mass=0.3, inertia=(4e-4, 4e-4, 4e-4, 0, 0, 0))
    joints = (
        free("trunk"),
        Joint(name="ankle", parent="trunk", child="foot", axis=Y, damping=1.0, spring=JointSpring(stiffness=500.0)),
    )
    corners = box_contacts(
        "sole", body="foot", half_sizes=(0.1, 0.05, 0.02), friction=0.8, slip_velocity=slip_velocity, dissipation=0.5
    )[1::2]
    start = (0, 0, 0.0201, *[0.0] * 4)
    return made(*corners, bodies=(trunk, foot), joints=joints, initial_q=start, initial_v=(0.01, *[0.0] * 6))


def test_friction_of_a_light_foot_under_a_heavy_trunk_is_warned_of_with_a_step_and_a_slip_velocity_that_do() -> None:
    said = r"friction of contact 'sole_\d' .* use a step of at most (\S+) ms, or a slip_velocity of at least (\S+) m/s"
    with pytest.warns(StepTooLargeWarning, match=said) as caught:
        Simulation(assemble(standing(2e-3)), step_s=1e-3)
    line = next(text for each in caught if (text := str(each.message)).startswith("the friction of contact"))
    found = re.search(said, line)
    assert found is not None
    step_ms, slip = map(float, found.groups())
    assert step_ms < 1.0
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="the friction of contact")
        Simulation(assemble(standing(2e-3)), step_s=1e-3 * step_ms)
        Simulation(assemble(standing(slip)), step_s=1e-3)


def test_the_energy_balances_at_a_step_that_resolves_the_friction_of_a_light_foot_and_departs_at_a_larger_one() -> None:
    departed = []
    for step in (1e-3, 2e-5):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sim = Simulation(assemble(standing(2e-3)), step_s=step)
        sim.step(round(0.1 / step))
        departed.append(sim.energy_ledger.largest)
    assert departed[0] > 0.01 > departed[1]


def cubes(height: float, **more: Any) -> Mechanism:
    """A cube over the ground, with its corners on the ground, and a ball beside it."""
    corners = box_contacts("corner", body="cube", half_sizes=(HALF,) * 3, friction=0.5)
    ball = SphereContact(name="ball", body="ball", radius=HALF)
    start = (0.0, 0.0, height, 0.0, 0.0, 0.0, 1.0, 0.0, height, 0.0, 0.0, 0.0)
    return made(
        *corners,
        ball,
        bodies=(body("cube"), body("ball")),
        joints=(free("cube"), free("ball")),
        initial_q=start,
        **more,
    )


def test_contacts_that_start_deep_are_named_with_their_bodies_and_depth_and_throw_as_fast_as_is_said() -> None:
    deep = cubes(HALF - 0.03)
    deep = dataclasses.replace(deep, contacts=deep.contacts[-1:])
    with pytest.warns(StartWarning, match=r"contacts penetrate each other at the start: 'ball' of 'ball' with") as said:
        sim = Simulation(assemble(deep), step_s=2e-5)
    (line,) = [str(each.message) for each in said if each.category is StartWarning]
    assert "with 'ground' by 0.03 m, with a force of" in line
    speed = float(re.search(r"apart at ([\d.]+) m/s", line)[1])  # type: ignore[index]
    sim.advance(0.03)
    # the ball is free, so that its smallest effective mass is that along its normal: its mass
    assert max(abs(sim.state.v[8]), 1e-9) == pytest.approx(speed, rel=0.15)


def test_of_two_bodies_with_many_deep_contacts_the_deepest_is_named_once() -> None:
    with pytest.warns(StartWarning, match=r"penetrate each other at the start: ") as said:
        Simulation(assemble(cubes(HALF - 0.03)), step_s=2e-5)
    (line,) = [str(each.message) for each in said if each.category is StartWarning]
    assert line.count("of 'cube' with 'ground' by 0.03 m") == 1
    assert line.count("of 'ball' with 'ground' by 0.03 m") == 1
    assert "more pairs" not in line


@pytest.mark.parametrize("depth", [-0.01, 0.0, 1e-4, 1e-3])
def test_contacts_that_start_apart_or_as_deep_as_a_weight_presses_them_are_not_warned_of(depth: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", StartWarning)
        Simulation(assemble(cubes(HALF - depth)), step_s=2e-5)


def test_a_reset_to_a_deep_start_is_warned_of_as_well() -> None:
    sim = Simulation(assemble(cubes(HALF + 0.1)), step_s=2e-5)
    deep = np.array(sim.state.q)
    deep[2] = 0.0
    with pytest.warns(StartWarning, match=r"of 'cube' with 'ground' by 0\.1 m"):
        sim.reset(deep)
