"""Mechanisms with nonholonomic constraints: a rolling disk, Chaplygin's sleigh and a snakeboard; gravity along -z."""

from __future__ import annotations

import math
from typing import Annotated, Any

from robots.parameters import ParameterInfo, require_positive
from sim_core.mechanism import Body, Joint, JointSpring, Mechanism, PointOutput, Rolling, Shape, SlipOutput, Touching, Y
from sim_core.mechanism.beams import ContactForceOutput
from sim_core.spatial import rotation_about

GRAVITY = (0.0, 0.0, -9.81)


def rolling_disk(
    radius: Annotated[float, ParameterInfo("radius of the disk", "m")] = 0.1,
    mass: Annotated[float, ParameterInfo("mass of the thin, uniform disk", "kg")] = 0.5,
    lean_deg: Annotated[float, ParameterInfo("lean at the start, about the direction in which it rolls", "deg")] = 17.0,
    spin: Annotated[float, ParameterInfo("angular velocity about its axle at the start", "rad/s")] = 8.0,
    turn: Annotated[float, ParameterInfo("angular velocity about its upper radius at the start", "rad/s")] = 1.5,
    tilt: Annotated[float, ParameterInfo("rate of the lean at the start", "rad/s")] = 0.2,
) -> Mechanism:
    """A thin disk that rolls on the floor without slip; its axle is y. With the defaults it wobbles."""
    name = "rolling_disk"
    require_positive(name, radius=radius, mass=mass)
    lean = math.radians(lean_deg)
    across, axial = mass * radius**2 / 4, mass * radius**2 / 2
    up = (0.0, -radius * math.sin(lean), radius * math.cos(lean))
    turned = rotation_about((1.0, 0.0, 0.0), lean)
    w = [float(sum(turned[i][k] * (tilt, spin, turn)[k] for k in range(3))) for i in range(3)]
    v = (w[1] * up[2] - w[2] * up[1], w[2] * up[0] - w[0] * up[2], w[0] * up[1] - w[1] * up[0])
    rim: dict[str, Any] = {"body": "disk", "axis": Y, "radius": radius}
    quaternion = (math.cos(lean / 2), math.sin(lean / 2), 0.0, 0.0)
    spoke = Shape(kind="line", points=(0.0, 0.0, -radius, 0.0, 0.0, radius))
    disk = Shape(kind="cylinder", size=(radius, radius / 20), quaternion=(math.sqrt(0.5), math.sqrt(0.5), 0.0, 0.0))
    return Mechanism(
        name=name,
        coordinates="joint",
        bodies=(Body(name="disk", mass=mass, inertia=(across, axial, across, 0.0, 0.0, 0.0), shapes=(disk, spoke)),),
        joints=(Joint(name="base", kind="free", child="disk", quaternion=quaternion),),
        constraints=(Touching(name="floor", **rim), Rolling(name="rim", **rim)),
        outputs=(
            ContactForceOutput(name="load", contact="floor"),
            SlipOutput(name="slip", constraint="rim"),
            PointOutput(name="center", body="disk"),
        ),
        gravity=GRAVITY,
        initial_q=(*up, 0.0, 0.0, 0.0),
        initial_v=(*v, tilt, spin, turn),
        parameters={"radius": radius, "mass": mass, "lean_deg": lean_deg, "spin": spin, "turn": turn, "tilt": tilt},
    )


def chaplygin_sleigh(
    mass: Annotated[float, ParameterInfo("mass", "kg")] = 1.3,
    inertia: Annotated[float, ParameterInfo("moment of inertia about the centre of mass", "kg m2")] = 0.2,
    ahead: Annotated[float, ParameterInfo("distance of the centre of mass ahead of the blade", "m")] = 0.25,
    speed: Annotated[float, ParameterInfo("speed along the blade at the start", "m/s")] = -0.5,
    turn: Annotated[float, ParameterInfo("angular velocity at the start", "rad/s")] = 1.5,
) -> Mechanism:
    """A sleigh on a plane, whose blade at the origin does not slip along y. With the defaults it turns around."""
    name = "chaplygin_sleigh"
    require_positive(name, mass=mass, inertia=inertia, ahead=ahead)
    frame = Shape(kind="line", points=(-0.1, 0.0, 0.0, 2 * ahead, 0.15, 0.0, 2 * ahead, -0.15, 0.0, -0.1, 0.0, 0.0))
    body = Body(
        name="sleigh",
        mass=mass,
        inertia=(inertia / 2, inertia / 2, inertia, 0.0, 0.0, 0.0),
        center_of_mass=(ahead, 0.0, 0.0),
        shapes=(frame,),
    )
    return Mechanism(
        name=name,
        coordinates="joint",
        bodies=(body,),
        joints=(Joint(name="base", kind="planar", child="sleigh"),),
        constraints=(Rolling(name="blade", body="sleigh", axis=Y, rollers=math.pi / 2),),
        outputs=(PointOutput(name="blade", body="sleigh", axes="xy"),),
        gravity=GRAVITY,
        initial_q=(0.0, 0.0, 0.0),
        initial_v=(speed, 0.0, turn),
        parameters={"mass": mass, "inertia": inertia, "ahead": ahead, "speed": speed, "turn": turn},
    )


REST, STIFFNESS = (0.0, 0.5, -0.45), (0.5, 0.08, 0.1)  # rad, N m/rad: of the springs of rotor, front and rear axle
ROTOR, AXLE = (0.3, 0.06), (0.1, 0.004)  # mass, kg, and moment of inertia, kg m2
TURNED, SPUN = (0.8, 0.1, -0.2), (0.0, 0.3, 0.1)  # rad, rad/s: start of rotor, front and rear axle


def snakeboard(
    mass: Annotated[float, ParameterInfo("mass of the board", "kg")] = 2.0,
    inertia: Annotated[float, ParameterInfo("moment of inertia of the board", "kg m2")] = 0.1,
    half: Annotated[float, ParameterInfo("distance of each axle from the middle", "m")] = 0.25,
    push: Annotated[float, ParameterInfo("speed at the start", "1/s")] = 0.4,
) -> Mechanism:
    """A board on two steered axles, which do not slip sideways, with a rotor; springs move rotor and axles.

    push  share of the motion that the axles permit: the cross product of their rows, at the start
    """
    name = "snakeboard"
    require_positive(name, mass=mass, inertia=inertia, half=half)
    line = Shape(kind="line", points=(-half, 0.0, 0.0, half, 0.0, 0.0))
    bodies = [Body(name="board", mass=mass, inertia=(inertia / 2, inertia / 2, inertia, 0.0, 0.0, 0.0), shapes=(line,))]
    joints = [Joint(name="base", kind="planar", child="board")]
    parts = {"rotor": (ROTOR, 0.0), "front": (AXLE, half), "rear": (AXLE, -half)}
    for (part, ((m, I), at)), rest, k in zip(parts.items(), REST, STIFFNESS, strict=True):
        axle = Shape(kind="line", points=(0.0, -0.1, 0.0, 0.0, 0.1, 0.0))
        bodies.append(Body(name=part, mass=m, inertia=(I, I, I, 0.0, 0.0, 0.0), shapes=(axle,)))
        spring = JointSpring(stiffness=k, rest=rest)
        joints.append(Joint(name=part, parent="board", child=part, parent_point=(at, 0.0, 0.0), spring=spring))
    a, b = TURNED[1:]
    twist = (-2.0 * half * math.cos(a) * math.cos(b), -half * math.sin(a + b), math.sin(b - a))
    return Mechanism(
        name=name,
        coordinates="joint",
        bodies=tuple(bodies),
        joints=tuple(joints),
        constraints=tuple(
            Rolling(name=f"{end}_wheels", body=end, axis=Y, rollers=math.pi / 2) for end in ("front", "rear")
        ),
        outputs=(PointOutput(name="middle", body="board", axes="xy"),),
        gravity=GRAVITY,
        initial_q=(0.0, 0.0, 0.0, *TURNED),
        initial_v=(*(push * each for each in twist), *SPUN),
        parameters={"mass": mass, "inertia": inertia, "half": half, "push": push},
    )
