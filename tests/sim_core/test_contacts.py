"""Contacts of spheres: bouncing, rolling, slipping, a collision of two balls, Exudyn, and refusals."""

from __future__ import annotations

import dataclasses
import importlib
import math
from typing import Any

import numpy as np
import pytest

from sim_core.errors import InvalidMechanism, UnknownName
from sim_core.mechanism import (
    Body,
    Joint,
    Mechanism,
    SphereContact,
    SurfaceForceOutput,
    X,
    dissipation_for,
)
from sim_core.simulation import Simulation
from sim_core.system import assemble

MASS, RADIUS, GRAVITY, HEIGHT = 1.0, 0.05, 9.81, 0.5
INERTIA = 0.4 * MASS * RADIUS**2


def ball(contact: dict[str, Any], tilt: float = 0.0, **start: Any) -> Mechanism:
    """A ball in the vertical x, z plane over the ground z = 0, in absolute coordinates: x, z, and its angle."""
    body = Body(
        name="ball",
        mass=MASS,
        inertia=(INERTIA, INERTIA, INERTIA, 0, 0, 0),
        orientation="zxz",
        free=("x", "z", "psi"),
        placement=(0.0, 0.0, 0.0, 0.0, math.pi / 2, 0.0),
    )
    touch = SphereContact(name="floor", body="ball", radius=RADIUS, **contact)
    rest: dict[str, Any] = {"initial_q": (0.0, RADIUS, 0.0), "initial_v": (0.0, 0.0, 0.0)}
    return Mechanism(
        name="ball",
        coordinates="absolute",
        bodies=(body,),
        contacts=(touch,),
        outputs=(SurfaceForceOutput(name="force", contact="floor", axes="xz"),),
        gravity=(GRAVITY * math.sin(tilt), 0.0, -GRAVITY * math.cos(tilt)),
        **(rest | start),
    )


@pytest.mark.parametrize("restitution", [0.3, 0.7, 1.0])
def test_a_ball_leaves_with_its_coefficient_of_restitution(restitution: float) -> None:
    speed = 3.0
    contact = {"stiffness": 1e6, "dissipation": dissipation_for(restitution, speed)}
    mechanism = ball(contact, initial_q=(0.0, RADIUS + 0.05, 0.0), initial_v=(0.0, -speed, 0.0))
    mechanism = dataclasses.replace(mechanism, gravity=(0.0, 0.0, 0.0))
    errors = []
    for step in (1e-3, 5e-4, 1.25e-4):
        sim = Simulation(assemble(mechanism), step_s=step)
        sim.advance(0.1)
        errors.append(abs(sim.state.v[1] / (restitution * speed) - 1.0))
    assert errors[0] < 0.01
    assert errors[-1] < 1e-4
    assert errors[-1] < errors[0]


def test_an_elastic_ball_bounces_back_to_its_height() -> None:
    sim = Simulation(assemble(ball({"stiffness": 1e6}, initial_q=(0.0, RADIUS + HEIGHT, 0.0))), step_s=1e-3)
    sim.advance(0.4)
    highest = []
    for _ in range(3):
        seen = []
        while not seen or sim.state.v[1] > 0.0 or max(seen) < 0.1:
            sim.step()
            seen.append(sim.state.q[1] - RADIUS)
        highest.append(max(seen))
        sim.advance(0.4)
    assert highest == pytest.approx([HEIGHT] * 3, rel=0.01)


def test_a_resting_ball_sinks_until_the_contact_bears_it_and_the_ledger_balances() -> None:
    stiffness = 1e5
    sim = Simulation(assemble(ball({"stiffness": stiffness, "dissipation": 5.0})), step_s=1e-3)
    sim.advance(5.0)
    assert RADIUS - sim.state.q[1] == pytest.approx((MASS * GRAVITY / stiffness) ** (2 / 3), rel=1e-3)
    assert sim.outputs()["force_z"] == pytest.approx(MASS * GRAVITY, rel=1e-3)
    assert sim.energy_ledger.largest < 0.01


@pytest.mark.parametrize(("tilt", "mu"), [(0.3, 0.5), (0.6, 0.1)])
def test_a_ball_on_an_incline_rolls_or_slips_as_coulomb_says(tilt: float, mu: float) -> None:
    """Rolling needs mu of at least 2/7 tan(tilt); its acceleration is then 5/7 g sin(tilt)."""
    sink = (MASS * GRAVITY * math.cos(tilt) / 1e6) ** (2 / 3)
    contact = {"stiffness": 1e6, "dissipation": 1.0, "friction": mu, "slip_velocity": 1e-3}
    sim = Simulation(assemble(ball(contact, tilt, initial_q=(0.0, RADIUS - sink, 0.0))), step_s=2e-4)
    sim.advance(1.0)
    rolls = mu > 2 / 7 * math.tan(tilt)
    push = 2 / 7 * math.sin(tilt) if rolls else mu * math.cos(tilt)
    assert sim.state.v[0] == pytest.approx(GRAVITY * (math.sin(tilt) - push), rel=0.005)
    # about -y of the world, the ball's own z axis at this placement
    assert abs(sim.state.v[2]) == pytest.approx(GRAVITY * push * MASS * RADIUS / INERTIA, rel=0.005)
    assert abs(sim.energy_ledger.departure) < 1e-4


def cradle(restitution: float) -> Mechanism:
    """Three equal balls on a rail; the first hits the resting others, which stand apart."""
    names = ("first", "second", "third")
    bodies = tuple(Body(name=name, mass=MASS, inertia=(INERTIA, INERTIA, INERTIA, 0, 0, 0)) for name in names)
    joints = tuple(Joint(name=name, kind="prismatic", child=name, axis=X) for name in names)
    touching = {"radius": RADIUS, "other_radius": RADIUS, "stiffness": 1e7}
    contacts = tuple(
        SphereContact(name=f"{a}_{b}", body=a, other=b, dissipation=dissipation_for(restitution, 1.0), **touching)
        for a, b in (names[:2], names[1:])
    )
    return Mechanism(
        name="cradle",
        coordinates="joint",
        bodies=bodies,
        joints=joints,
        contacts=contacts,
        gravity=(0.0, 0.0, 0.0),
        initial_q=(0.0, 4 * RADIUS, 8 * RADIUS),
        initial_v=(1.0, 0.0, 0.0),
    )


def test_equal_balls_pass_on_their_velocity_and_a_double_impact_keeps_momentum() -> None:
    sim = Simulation(assemble(cradle(1.0)), step_s=1e-4)
    sim.advance(1.0)
    assert sim.state.v == pytest.approx([0.0, 0.0, 1.0], abs=1e-4)
    e = 0.6
    sim = Simulation(assemble(cradle(e)), step_s=1e-4)
    sim.advance(0.16)  # the first impact is over, the second yet to come
    assert sim.state.v == pytest.approx([(1 - e) / 2, (1 + e) / 2, 0.0], rel=0.01)
    sim.advance(1.0)
    assert sim.state.v.sum() == pytest.approx(1.0, abs=1e-12)


def test_hunt_and_crossley_are_those_of_exudyn() -> None:
    exudyn = pytest.importorskip("exudyn", reason="exudyn is an oracle of the tests")
    items = importlib.import_module("exudyn.itemInterface")
    stiffness, dissipation, start = 2e5, 0.4, 0.1
    mechanism = ball({"stiffness": stiffness, "dissipation": dissipation}, initial_q=(0.0, RADIUS + start, 0.0))
    sim = Simulation(assemble(mechanism), step_s=1e-4)

    def force(mbs: Any, t: float, item: int, u: float, v: float, k: float, d: float, offset: float) -> float:
        """Along z, of a coordinate spring whose user function is the same law."""
        depth = max(-(u + start), 0.0)
        return -k * depth**1.5 * max(0.0, 1.0 - 1.5 * d * v)

    container = exudyn.SystemContainer()
    mbs = container.AddSystem()
    node = mbs.AddNode(items.NodePoint(referenceCoordinates=[0.0, 0.0, start + RADIUS]))
    mbs.AddObject(items.ObjectMassPoint(nodeNumber=node, mass=MASS))
    ground = mbs.AddNode(items.NodePointGround())
    marks = [mbs.AddMarker(items.MarkerNodeCoordinate(nodeNumber=n, coordinate=c)) for n, c in ((ground, 0), (node, 2))]
    law = {"stiffness": stiffness, "damping": dissipation, "springForceUserFunction": force}
    mbs.AddObject(items.ObjectConnectorCoordinateSpringDamper(markerNumbers=marks, **law))
    push = mbs.AddMarker(items.MarkerBodyPosition(bodyNumber=0))
    mbs.AddLoad(items.LoadForceVector(markerNumber=push, loadVector=[0.0, 0.0, -MASS * GRAVITY]))
    mbs.Assemble()
    settings = exudyn.SimulationSettings()
    settings.timeIntegration.numberOfSteps, settings.timeIntegration.endTime = 10_000, 1.0
    settings.timeIntegration.verboseMode = 0
    settings.solution.file.write = False
    mbs.SolveDynamic(settings, solverType=exudyn.DynamicSolverType.RK44)
    theirs = mbs.GetNodeOutput(node, exudyn.OutputVariableType.Position)[2]
    sim.advance(1.0)
    assert sim.state.q[1] == pytest.approx(theirs, abs=1e-6)


def test_both_coordinate_families_give_the_same_contact() -> None:
    contact = {"stiffness": 1e5, "dissipation": 0.5, "friction": 0.3}
    absolute = ball(contact, initial_q=(0.0, 0.2, 0.0), initial_v=(1.0, 0.0, 0.0))
    joint = dataclasses.replace(
        absolute,
        coordinates="joint",
        joints=(Joint(name="plane", kind="planar", child="ball", axis=(0.0, -1.0, 0.0)),),
        bodies=(dataclasses.replace(absolute.bodies[0], orientation="planar", free=None, placement=()),),
    )
    sims = [Simulation(assemble(joint), step_s=2e-4), Simulation(assemble(absolute), step_s=2e-4)]
    # the directions of the planar joint's two slides
    slides = np.array([sims[0].system.poses(0.0, e, np.zeros(3))[0][0] for e in np.eye(3)[:2]])[:, [0, 2]]
    q, v = (np.linalg.solve(slides.T, given) for given in ([0.0, 0.2], [1.0, 0.0]))
    sims[0].reset([*q, 0.0], [*v, 0.0])
    for _ in range(5):
        for sim in sims:
            sim.advance(0.1)
        places = [sim.system.poses(0.0, sim.state.q, sim.state.v)[0][0] for sim in sims]
        np.testing.assert_allclose(places[0], places[1], atol=1e-9)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "itself": ({"other": "ball"}, "body and other are both 'ball'"),
    "radius": ({"radius": -1.0}, "radius is -1; it must not be negative"),
    "stiffness": ({"stiffness": 0.0}, "stiffness is 0; it must be above 0"),
    "exponent": ({"exponent": 1.2}, "exponent is 1.2; it must be 1, 1.5 or 2"),
    "normal": ({"normal": (0.0, 0.0, 2.0)}, "normal is (0.0, 0.0, 2.0); it must have length 1"),
    "body": ({"other": "floor"}, "has no body 'floor'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_impossible_contact_is_refused_in_one_line(case: str) -> None:
    change, said = REFUSED[case]
    mechanism = ball({"stiffness": 1e5})
    contact = dataclasses.replace(mechanism.contacts[0], **change)
    with pytest.raises((InvalidMechanism, UnknownName)) as refused:
        assemble(dataclasses.replace(mechanism, contacts=(contact,)))
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
