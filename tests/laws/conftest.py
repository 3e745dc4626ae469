"""Every robot, in every variant worth its own equations, and a mechanism with every kind of joint.

A new robot is tested by being listed in the registry.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from robots.registry import build, names
from sim_core.mechanism import (
    Actuator,
    Body,
    Joint,
    JointOutput,
    Mechanism,
    PointOutput,
    SpinRelation,
    Spring,
    Tunable,
    Y,
    Z,
)
from sim_core.spatial import quaternions_from_rotations, rotation_about
from sim_core.system import System, assemble
from tests.sim_core import reference

VARIANTS: dict[str, list[dict[str, object]]] = {
    "andrews_squeezer": [{"torque": 0.0}],
    # stops take energy; those of `arm_on_elastic_stops` do not
    "arm_2dof": [{"limits": "none"}],
    "arm_4dof": [{"limits": "none"}],
    "arm_6dof": [{"limits": "none"}],
    "charmie": [{"limits": "none"}, {"loops": "closed", "limits": "none"}],
    "crank_slider": [{}, {"start": "printed"}],
    "double_pendulum": [{"length_1": 0.7, "mass_1": 1.3, "gravity": 9.81}, {"coordinates": "joint"}],
    "epicyclic_gear_train": [{}, {"torque": 0.0}],
    "four_bar_chain": [{}, {"loops": 1}],
    "gibbon": [
        {"modes": 4, "damping_ratio": 0.0},
        {"line": "bars", "start": "a"},
        {"line": "bars", "start": "b", "links": 3, "trunk": "actuated", "hook": True},
    ],
    "lipinski_pendulum": [
        {},
        {"formulation": "schur", "elements": 8, "modes": 0, "tension": 500.0},
        {"formulation": "augmented", "supports": "simple", "modes": 6, "damping_ratio": 0.0},
    ],
    "rotary_pendulum": [{}, {"variant": "qnet"}, {"coordinates": "joint"}],
    "triple_pendulum": [{}, {"variant": "man"}, {"coordinates": "joint"}, {"shift": 0.05}],
}

# Steps that are fine on a mechanism's own time scale, where 0.2 ms is not.
FINE_STEPS = {"andrews_squeezer": 1e-5}

OBLIQUE = (2 / 3, 1 / 3, 2 / 3)
TURNED = tuple(tuple(row) for row in rotation_about(OBLIQUE, 0.7).tolist())


def mobile_arm() -> Mechanism:
    """Planar base, lift, oblique shoulder with products of inertia, slanted slide: joint coordinates."""
    bodies = (
        Body(name="base", mass=4.0, inertia=(0.3, 0.4, 0.5, 0.0, 0.0, 0.0)),
        Body(name="lift", mass=2.0, inertia=(0.1, 0.1, 0.05, 0.01, 0.0, 0.02), center_of_mass=(0.05, 0.0, 0.1)),
        Body(name="arm", mass=1.5, inertia=(0.06, 0.05, 0.03, 0.01, -0.005, 0.002), center_of_mass=(0.2, 0.03, 0.01)),
        Body(name="hand", mass=Tunable("hand_mass", 0.5), inertia=(0.01, 0.02, 0.015, 0.0, 0.0, 0.001)),
    )
    joints = (
        Joint(name="drive", kind="planar", child="base", axis=Z, child_point=(0.0, 0.1, 0.0)),
        Joint(name="lift", kind="prismatic", parent="base", child="lift", axis=Z, parent_point=(0.1, 0.0, 0.3)),
        Joint(
            name="shoulder",
            parent="lift",
            child="arm",
            axis=OBLIQUE,
            rotation=TURNED,  # type: ignore[arg-type]
            parent_point=(0.0, 0.1, 0.2),
            child_point=(-0.1, 0.0, 0.05),
            damping=0.0,
        ),
        Joint(
            name="slide",
            kind="prismatic",
            parent="arm",
            child="hand",
            axis=Y,
            rotation=TURNED,  # type: ignore[arg-type]
            parent_point=(0.4, 0.0, 0.0),
            child_point=(0.0, 0.02, 0.0),
        ),
    )
    return Mechanism(
        name="mobile_arm",
        coordinates="joint",
        bodies=bodies,
        joints=joints,
        actuators=(Actuator(name="lift", joint="lift", unit="N"), Actuator(name="shoulder", joint="shoulder")),
        outputs=(PointOutput(name="hand", body="hand", point=(0.0, 0.0, 0.1)),),
        initial_q=(0.1, -0.2, 0.3, 0.05, 0.4, 0.1),
        initial_v=(0.3, 0.1, -0.4, 0.2, 0.5, -0.3),
    )


def mounted_arm() -> Mechanism:
    """The mobile arm with its drive on a turned stand, and its hand on a bracket that an oblique mount holds."""
    plain = mobile_arm()
    stand = Body(name="stand", mass=1.0, inertia=(0.1, 0.1, 0.1, 0.0, 0.0, 0.0))
    bracket = Body(
        name="bracket", mass=0.7, inertia=(0.01, 0.03, 0.02, 0.002, 0.0, -0.001), center_of_mass=(0.0, 0.05, 0.1)
    )
    drive, lift, shoulder, slide = plain.joints
    mounts = (
        Joint(name="stand", kind="fixed", child="stand", parent_point=(0.2, 0.0, 0.1), rotation=TURNED),  # type: ignore[arg-type]
        Joint(
            name="bracket",
            kind="fixed",
            parent="arm",
            child="bracket",
            rotation=TURNED,  # type: ignore[arg-type]
            parent_point=(0.3, 0.1, 0.0),
            child_point=(0.02, 0.0, -0.04),
        ),
    )
    base, lifted, arm, hand = plain.bodies
    return dataclasses.replace(
        plain,
        name="mounted_arm",
        bodies=(stand, base, lifted, arm, bracket, hand),
        joints=(
            mounts[0],
            dataclasses.replace(drive, parent="stand"),
            lift,
            shoulder,
            mounts[1],
            dataclasses.replace(slide, parent="bracket"),
        ),
    )


def sprung_arm() -> Mechanism:
    """The mobile arm with a spring from the ground to its hand and one between two of its bodies."""
    springs = (
        Spring(
            name="to_ground",
            body_a="ground",
            point_a=(0.5, -0.4, 1.0),
            body_b="hand",
            point_b=(0.05, 0.0, 0.1),
            stiffness=Tunable("stiffness", 80.0),
            rest_length=0.4,
        ),
        Spring(
            name="between",
            body_a="base",
            point_a=(0.0, 0.3, 0.2),
            body_b="arm",
            point_b=(0.3, 0.0, -0.05),
            stiffness=50.0,
            damping=Tunable("spring_damping", 0.0),
        ),
    )
    angle = JointOutput(name="shoulder", joint="shoulder")
    plain = mobile_arm()
    return dataclasses.replace(plain, name="sprung_arm", springs=springs, outputs=(*plain.outputs, angle))


def floating_arm() -> Mechanism:
    """The sprung arm on a free joint in place of its planar drive, its shoulder spherical."""
    plain = sprung_arm()
    _, lift, shoulder, slide = plain.joints
    free = Joint(name="drive", kind="free", child="base", child_point=(0.0, 0.1, 0.0), quaternion=(0.6, 0.0, 0.8, 0.0))
    ball = Joint(
        name="shoulder",
        kind="spherical",
        parent="lift",
        child="arm",
        rotation=TURNED,  # type: ignore[arg-type]
        quaternion=(0.8, 0.48, 0.36, 0.0),
        parent_point=shoulder.parent_point,
        child_point=shoulder.child_point,
    )
    return dataclasses.replace(
        plain,
        name="floating_arm",
        joints=(free, lift, ball, slide),
        actuators=plain.actuators[:1],
        outputs=plain.outputs[:1],
        initial_q=(0.1, -0.2, 0.3, 0.0, 0.0, 0.0, 0.05, 0.0, 0.0, 0.0, 0.1),
        initial_v=(0.3, 0.1, -0.4, 0.2, 0.5, -0.3, 0.2, 0.4, -0.1, 0.3, 0.2),
    )


def in_euler_parameters(tree: Mechanism) -> Mechanism:
    """The same in absolute coordinates, started from the same joint positions and velocities."""
    frames = reference.frames_along(tree, np.array(tree.initial_q), np.array(tree.initial_v))
    q: list[float] = []
    v: list[float] = []
    for body in tree.bodies:
        frame = frames[body.name]
        e = quaternions_from_rotations(frame.R.x[None])[0]
        w = frame.angular_velocity()
        rate = 0.5 * np.array([-e[1:] @ w, *(e[0] * w + np.cross(e[1:], w))])
        q += [*frame.p.x, *e]
        v += [*frame.p.d, *rate]
    bodies = tuple(dataclasses.replace(body, orientation="euler_parameters") for body in tree.bodies)
    return dataclasses.replace(
        tree,
        name=f"{tree.name}_absolute",
        coordinates="absolute",
        bodies=bodies,
        initial_q=tuple(float(x) for x in q),
        initial_v=tuple(float(x) for x in v),
    )


def mobile_arm_in_euler_parameters() -> Mechanism:
    return in_euler_parameters(mobile_arm())


def sprung_arm_in_euler_parameters() -> Mechanism:
    return in_euler_parameters(sprung_arm())


def sprung_pendulum() -> Mechanism:
    """A planar bar on a pin, a free bar hung on its end by a spring and on the ground by another."""
    bars = tuple(Body(name=name, mass=0.5, inertia=(0.0, 0.0, 0.01, 0.0, 0.0, 0.0)) for name in ("upper", "lower"))
    return Mechanism(
        name="sprung_pendulum",
        coordinates="absolute",
        bodies=bars,
        joints=(Joint(name="pin", child="upper", child_point=(-0.25, 0.0, 0.0)),),
        springs=(
            Spring(
                name="link",
                body_a="upper",
                point_a=(0.25, 0.0, 0.0),
                body_b="lower",
                point_b=(-0.25, 0.0, 0.0),
                stiffness=120.0,
                rest_length=Tunable("rest_length", 0.1),
            ),
            Spring(
                name="anchor",
                body_a="lower",
                point_a=(0.25, 0.0, 0.0),
                body_b="ground",
                point_b=(1.5, 0.2, 0.0),
                stiffness=40.0,
                rest_length=0.3,
                pretension=Tunable("pretension", 6.0),
            ),
        ),
        outputs=(JointOutput(name="pin", joint="pin"),),
        gravity=(0.0, -9.81, 0.0),
        initial_q=(0.25, 0.0, 0.0, 0.9, -0.1, -0.3),
        initial_v=(0.0,) * 6,
    )


def friction_wheels() -> Mechanism:
    """Two wheels on fixed axles whose rims roll on each other: a nonholonomic row."""
    wheels = tuple(
        Body(name=name, mass=1.0, inertia=(0.1, 0.1, 0.2, 0.0, 0.0, 0.0), free=("theta",)) for name in ("big", "small")
    )
    return Mechanism(
        name="friction_wheels",
        coordinates="absolute",
        bodies=wheels,
        joints=(Joint(name="big", child="big"), Joint(name="small", child="small")),
        constraints=(SpinRelation(name="rim", terms=(("big", Z, 0.3), ("small", Z, 0.1))),),
        actuators=(Actuator(name="big", joint="big"),),
        gravity=(0.0, -9.81, 0.0),
        initial_q=(0.0, 0.0),
        initial_v=(1.0, -3.0),
    )


def arm_on_elastic_stops() -> Mechanism:
    """The arm of two joints, which falls onto its default stops, but without their dissipation."""
    arm = build("arm_2dof")
    joints = [
        dataclasses.replace(joint, stops=dataclasses.replace(joint.stops, dissipation=0.0))
        for joint in arm.joints
        if joint.stops is not None
    ]
    return dataclasses.replace(arm, name="arm_on_elastic_stops", joints=tuple(joints))


OWN = (
    arm_on_elastic_stops,
    mobile_arm,
    mobile_arm_in_euler_parameters,
    mounted_arm,
    sprung_arm,
    sprung_arm_in_euler_parameters,
    sprung_pendulum,
    friction_wheels,
    floating_arm,
)
MAKERS: dict[str, Callable[[], Mechanism]] = {
    "-".join([name, *[f"{key}={value}" for key, value in variant.items()]]): (
        lambda name=name, variant=variant: build(name, **variant)
    )
    for name in names()
    for variant in VARIANTS.get(name, [{}])
} | {made.__name__: made for made in OWN}
CASES = {name: cache(make) for name, make in MAKERS.items()}  # each mechanism is built once for all fixtures


@pytest.fixture(params=list(CASES), scope="session")
def system(request: pytest.FixtureRequest) -> System:
    return assemble(CASES[request.param]())


def has_constraints(mechanism: Mechanism) -> bool:
    norms = any(body.orientation == "euler_parameters" for body in mechanism.bodies)
    absolute = mechanism.coordinates == "absolute"
    loops = bool(mechanism.constraints) and "partitioned" not in mechanism.formulation
    return loops or (absolute and bool(mechanism.joints or norms))


@pytest.fixture(params=[name for name, make in CASES.items() if has_constraints(make())], scope="session")
def constrained_system(request: pytest.FixtureRequest) -> System:
    return assemble(CASES[request.param]())


@pytest.fixture(params=[name for name, make in CASES.items() if make().joints], scope="session")
def jointed_system(request: pytest.FixtureRequest) -> System:
    return assemble(CASES[request.param]())


@pytest.fixture
def fine_step(system: System) -> float:
    return FINE_STEPS.get(system.mechanism.name, 2e-4)


@pytest.fixture(params=[mobile_arm, mounted_arm, sprung_arm], ids=lambda made: made.__name__, scope="session")
def both_families(request: pytest.FixtureRequest) -> tuple[System, System]:
    tree = request.param()
    return assemble(tree), assemble(in_euler_parameters(tree))
