"""Contacts of spheres, capsules and boxes: closed forms, conservation laws, MuJoCo, Exudyn, and refusals."""

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
    box_contacts,
    capsule_contacts,
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
    exudyn = pytest.importorskip("exudyn", exc_type=ImportError)  # its wheel needs the system's libGL.so.1
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


# -- capsules and boxes ------------------------------------------------------------------------------------------------


def touching_bodies(contact: dict[str, Any], count: int = 2, **given: Any) -> Mechanism:
    """A free body `first`, and another free body `other` unless `count` is 1, weightless, with a contact between them.

    Every body has its moments of inertia 0.002, 0.003 and 0.004 kg m2.
    """
    names = ("first", "other")[:count]
    bodies = tuple(Body(name=name, mass=MASS, inertia=(2e-3, 3e-3, 4e-3, 0, 0, 0)) for name in names)
    touch = SphereContact(**({"name": "touch", "body": "first", "stiffness": 1e4, "exponent": 1.0} | contact))
    still = (0.0,) * (6 * count)
    return Mechanism(
        **(
            {
                "name": "touching",
                "coordinates": "joint",
                "bodies": bodies,
                "joints": tuple(Joint(name=name, kind="free", child=name) for name in names),
                "contacts": (touch,),
                "outputs": (SurfaceForceOutput(name="force", contact="touch"),),
                "gravity": (0.0, 0.0, 0.0),
                "initial_q": still,
                "initial_v": still,
            }
            | given
        )
    )


CAPSULE: dict[str, Any] = {"other": "other", "other_radius": 0.1, "other_half_axis": (0.06, 0.0, 0.08)}
BOX: dict[str, Any] = {
    "other": "other",
    "other_half_sizes": (0.2, 0.15, 0.1),
    "other_quaternion": (0.8, 0.0, 0.6, 0.0),
    "other_point": (0.01, 0.02, 0.03),
}
GEOMS = {
    "capsule": '<geom name="other" type="capsule" size="0.1" fromto="-.06 0 -.08 .06 0 .08"/>',
    "box": '<geom name="other" type="box" size="0.2 0.15 0.1" quat="0.8 0 0.6 0" pos="0.01 0.02 0.03"/>',
}


@pytest.mark.parametrize("shape", GEOMS)
def test_depth_and_normal_of_a_sphere_on_a_capsule_or_box_are_those_of_mujoco(shape: str) -> None:
    mujoco = pytest.importorskip("mujoco", reason="mujoco is an oracle of the tests")
    radius, stiffness = 0.12, 1e4
    other = CAPSULE if shape == "capsule" else BOX
    system = assemble(touching_bodies({"radius": radius, "center": (0.0, 0.0, 0.05), "stiffness": stiffness} | other))
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><worldbody><body name="first"><freejoint/><geom name="sphere" size="{radius}" pos="0 0 0.05"/></body>'
        f'<body name="other"><freejoint/>{GEOMS[shape]}</body></worldbody></mujoco>'
    )
    data = mujoco.MjData(model)
    rng, touched = np.random.default_rng(3), 0
    for _ in range(200):
        places = rng.uniform(-0.25, 0.25, (2, 3))
        quaternions = rng.normal(size=(2, 4))
        quaternions /= np.linalg.norm(quaternions, axis=1)[:, None]
        data.qpos[:] = np.concatenate([places[0], quaternions[0], places[1], quaternions[1]])
        mujoco.mj_forward(model, data)
        q = np.concatenate([places[0], np.zeros(3), places[1], np.zeros(3)])
        found = list(system.outputs(0.0, q, np.zeros(12), quaternions.ravel()).values())
        if data.ncon == 0:
            np.testing.assert_array_equal(found, 0.0)
            continue
        touched += 1
        one = data.contact[0]
        sign = 1.0 if one.geom1 == model.geom("other").id else -1.0  # normals lead from the first geom to the second
        np.testing.assert_allclose(found, -stiffness * one.dist * sign * one.frame[:3], atol=1e-9 * stiffness)
    assert touched > 50


@pytest.mark.parametrize("shape", GEOMS)
def test_an_elastic_collision_with_a_capsule_or_box_keeps_energy_and_momentum(shape: str) -> None:
    """A sphere hits an end of the capsule, or an edge of the box, off centre; both bodies turn afterwards."""
    other = CAPSULE if shape == "capsule" else BOX
    start = (0.16, 0.02, 0.5, 0.0, 0.0, 0.0) if shape == "capsule" else (0.17, 0.05, 0.6, 0.0, 0.0, 0.0)
    errors = []
    for step in (1e-3, 5e-4):
        moving = touching_bodies(
            {"radius": 0.1, "exponent": 1.5} | other,
            initial_q=start + (0.0,) * 6,
            initial_v=(0.0, 0.0, -1.0) + (0.0,) * 9,
        )
        sim = Simulation(assemble(moving), step_s=step)
        before = sim.energy()
        sim.advance(1.0)
        linear = sim.state.v[:3] + sim.state.v[6:9]
        assert linear == pytest.approx([0.0, 0.0, -1.0], abs=1e-12)
        assert np.abs(sim.state.v[9:]).max() > 0.1  # it turns
        errors.append(abs(sim.energy() / before - 1.0))
    assert errors[0] < 1e-4
    assert errors[1] < errors[0]


def test_a_point_inside_a_box_is_pushed_through_the_nearest_face() -> None:
    box = {"other": "ground", "other_half_sizes": (0.3, 0.2, 0.1), "other_point": (0.0, 0.0, 1.0)}
    system = assemble(touching_bodies({"stiffness": 10.0} | box, count=1))
    still = np.zeros(6)
    for place, force in (
        ((0.0, 0.05, 1.08), (0.0, 0.0, 0.2)),
        ((0.0, -0.19, 1.05), (0.0, -0.1, 0.0)),
        ((-0.28, 0.0, 1.0), (-0.2, 0.0, 0.0)),
        ((0.31, 0.0, 1.0), (0.0, 0.0, 0.0)),
    ):
        found = system.outputs(0.0, [*place, 0.0, 0.0, 0.0], still)
        assert list(found.values()) == pytest.approx(force, abs=1e-12)


@pytest.mark.parametrize("tilt", [0.2, 0.5])
def test_a_box_on_an_incline_sticks_or_slides_on_its_corners_as_coulomb_says(tilt: float) -> None:
    mu, half = 0.35, (0.15, 0.1, 0.05)
    corners = box_contacts(
        "corner", body="first", half_sizes=half, stiffness=2e5, dissipation=2.0, friction=mu, slip_velocity=1e-3
    )
    mechanism = touching_bodies({}, count=1)
    mechanism = dataclasses.replace(
        mechanism,
        contacts=corners,
        outputs=tuple(SurfaceForceOutput(name=each.name, contact=each.name) for each in corners),
        gravity=(GRAVITY * math.sin(tilt), 0.0, -GRAVITY * math.cos(tilt)),
        initial_q=(0.0, 0.0, half[2], 0.0, 0.0, 0.0),
    )
    sim = Simulation(assemble(mechanism), step_s=2e-4)
    sim.advance(1.0)
    steady = sim.state.v[0]
    sim.advance(0.5)
    forces = np.array(list(sim.outputs().values())).reshape(-1, 3)
    assert forces.sum(axis=0)[2] == pytest.approx(MASS * GRAVITY * math.cos(tilt), rel=1e-3)
    assert [each for each, force in zip(corners, forces, strict=True) if force[2] > 0.1] == [*corners[1::2]]
    if math.tan(tilt) < mu:
        assert abs(sim.state.v[0]) < 1e-3  # it creeps below the slip velocity
    else:
        slides = GRAVITY * (math.sin(tilt) - mu * math.cos(tilt))
        assert (sim.state.v[0] - steady) / 0.5 == pytest.approx(slides, rel=0.01)


def test_a_capsule_rests_on_both_of_its_ends() -> None:
    ends = capsule_contacts(
        "end", body="first", half_axis=(0.2, 0.0, 0.0), center=(0.05, 0.0, 0.0), radius=0.1, stiffness=1e5,
        dissipation=5.0,
    )  # fmt: skip
    mechanism = dataclasses.replace(
        touching_bodies({}, count=1),
        contacts=ends,
        outputs=tuple(SurfaceForceOutput(name=each.name, contact=each.name) for each in ends),
        gravity=(0.0, 0.0, -GRAVITY),
        initial_q=(0.0, 0.0, 0.1, 0.0, 0.0, 0.0),
    )
    sim = Simulation(assemble(mechanism), step_s=1e-3)
    sim.advance(3.0)
    # moments about the centre of mass: the ends are 0.25 m and 0.15 m away from it
    loads = [sim.outputs()[f"{each.name}_z"] / (MASS * GRAVITY) for each in ends]
    assert loads == pytest.approx([0.15 / 0.4, 0.25 / 0.4], rel=0.01)


SHAPES_REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "both": ({"other_half_sizes": (1, 1, 1), "other_radius": 0.1}, "leave out other_radius for a box"),
    "flat": ({"other_half_sizes": (1, 0, 1)}, "each must be above 0"),
    "axis": ({"other_half_axis": (0, 0, 1)}, "give both for a capsule"),
    "turned": ({"other_half_sizes": (1, 1, 1), "other_quaternion": (1, 1, 0, 0)}, "its norm must be 1"),
}


@pytest.mark.parametrize("case", SHAPES_REFUSED)
def test_an_impossible_capsule_or_box_is_refused_in_one_line(case: str) -> None:
    change, said = SHAPES_REFUSED[case]
    with pytest.raises(InvalidMechanism, match=said) as refused:
        assemble(touching_bodies(change, count=1))
    assert "\n" not in str(refused.value)
