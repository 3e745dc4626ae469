"""CHARMIE on its omni wheels: loads of the wheels, slip, and the same mass as on the planar base."""

from __future__ import annotations

import numpy as np
import pytest

from robots.charmie import base
from robots.charmie.parameters import read_parameters
from robots.registry import build
from sim_core.errors import InvalidRequest
from sim_core.mechanism import Body, Mechanism, with_reactions
from sim_core.mechanism.quantities import value_of
from sim_core.simulation import Simulation
from sim_core.spatial import rotation_from_quaternion
from sim_core.system import assemble

P = read_parameters()
WHEELS = P.base.wheels
BASE = ("base_x", "base_y", "base_yaw")


def locked(*moving: str) -> str:
    """All joints but those of the base and the joints `moving`, for the parameter `locked`."""
    return ", ".join(j.name for j in build("charmie").moving_joints if j.name not in (*BASE, *moving))


def rigid() -> Mechanism:
    """CHARMIE as one rigid body on wheels."""
    return build("charmie", base="wheels", limits="none", locked=locked())


def total(bodies: tuple[Body, ...]) -> float:
    return sum(value_of(body.mass) for body in bodies)


def loads_of(simulation: Simulation) -> np.ndarray:
    values = simulation.outputs()
    return base.wheel_loads(WHEELS, *(values[f"reaction_base_yaw_{part}"] for part in ("fz", "tx", "ty")))


def upward_force(simulation: Simulation) -> float:
    """Weight plus mass times the upward acceleration of the centre of mass, N, from the places of the bodies alone."""
    system, state = simulation.system, simulation.state
    bodies = system.mechanism.bodies
    masses, centers = (
        np.array([get(b) for b in bodies]) for get in (lambda b: value_of(b.mass), lambda b: b.center_of_mass)
    )

    def moment(q: np.ndarray) -> float:
        positions, rotations = system.poses(simulation.time, q, state.v, state.p)
        return float(masses @ (positions + np.einsum("nij,nj->ni", rotations, centers))[:, 2])

    a, _ = system.acceleration(simulation.time, state.q, state.v, state.u, state.p, state.U)[:2]
    size, rate, e = np.linalg.norm(a) or 1.0, np.linalg.norm(state.v) or 1.0, 2e-3
    change = size * np.dot([1, -8, 8, -1], [moment(state.q + k * e * a / size) for k in (-2, -1, 1, 2)]) / 12 / e
    moments = [moment(state.q + k * e * state.v / rate) for k in (-2, -1, 0, 1, 2)]
    change += rate**2 * np.dot([-1, 16, -30, 16, -1], moments) / 12 / e**2
    return float(P.gravity * masses.sum() + change)


@pytest.fixture(scope="module")
def rolled() -> Simulation:
    """The rigid robot after a second in which its wheels turned with different torques."""
    simulation = Simulation(assemble(with_reactions(rigid(), ["base_yaw"])))
    simulation.set_effort([1.0, -0.4, 0.3, 0.5])
    simulation.advance(1.0)
    return simulation


def test_it_weighs_the_same_on_wheels() -> None:
    for loops in ("open", "closed"):
        planar, rolling = (build("charmie", base=kind, loops=loops).bodies for kind in ("planar", "wheels"))
        assert total(rolling) == pytest.approx(total(planar), rel=1e-14)


def test_the_wheels_turn_as_the_base_moves(rolled: Simulation) -> None:
    velocities = rolled.velocities
    twist = base.to_base(rolled.coordinates[2], velocities[:3])
    assert np.abs(twist).min() > 0.01
    np.testing.assert_allclose(base.wheel_rates(WHEELS, twist), velocities[3:], atol=1e-8)
    assert rolled.peak_violation()[1] < 1e-9


def test_the_loads_of_the_wheels_add_up_to_the_weight(rolled: Simulation) -> None:
    weight = P.gravity * total(rolled.system.mechanism.bodies)
    loads = loads_of(rolled)
    assert loads.sum() == pytest.approx(weight, rel=1e-9)
    assert np.ptp(loads) > 1.0
    assert loads.min() > 0.0


def test_the_loads_add_up_to_weight_and_inertia_while_an_arm_falls_and_the_lift_rises() -> None:
    made = build("charmie", base="wheels", limits="none", locked=locked("lift", "left_arm_2"))
    simulation = Simulation(assemble(with_reactions(made, ["base_yaw"])))
    weight = P.gravity * total(made.bodies)
    simulation.set_effort([1.0, -0.4, 0.3, 0.5, 300.0, 0.0])
    for _ in range(3):
        force = upward_force(simulation)
        assert abs(force - weight) > 10.0
        assert loads_of(simulation).sum() == pytest.approx(force, rel=1e-9)
        simulation.advance(0.1)


def test_the_centre_of_the_loads_is_under_the_centre_of_mass() -> None:
    simulation = Simulation(assemble(with_reactions(rigid(), ["base_yaw"])))
    positions, quaternions = simulation.poses()
    bodies = simulation.system.mechanism.bodies
    masses = np.array([value_of(body.mass) for body in bodies])
    local = [rotation_from_quaternion(q) @ b.center_of_mass for q, b in zip(quaternions, bodies, strict=True)]
    center = masses @ (positions + np.array(local)) / masses.sum()
    loads = loads_of(simulation)
    beta = base.wheel_angles(WHEELS)
    at = WHEELS.distance * np.array([np.cos(beta), np.sin(beta)])
    np.testing.assert_allclose(at @ loads / loads.sum(), center[:2], atol=1e-9)


def test_the_wheels_push_the_base_with_their_torques() -> None:
    """m a along x of the base, with the inertia of the turning wheels: half of the wheels roll along each diagonal."""
    simulation = Simulation(assemble(rigid()))
    torque = 2.0
    directions = base.rolling_matrix(WHEELS)[:, 0] * WHEELS.radius
    simulation.set_effort(torque * np.sign(directions))
    simulation.advance(0.01)
    mass = sum(value_of(body.mass) for body in simulation.system.mechanism.bodies)
    turning = 0.5 * WHEELS.mass * WHEELS.radius**2 * np.sum(directions**2) / WHEELS.radius**2
    force = torque * np.abs(directions).sum() / WHEELS.radius
    assert simulation.velocities[0] == pytest.approx(0.01 * force / (mass + turning), rel=2e-2)


def test_a_base_that_is_none_is_named() -> None:
    with pytest.raises(InvalidRequest, match="base is 'tracks'; "):
        build("charmie", base="tracks")
