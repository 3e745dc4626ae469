"""A mobile base on two driven wheels and a caster, a sphere that slides on the floor without friction.

The base is free to move in space: the floor carries it at three points, whose loads are outputs. The axes are x
forward, y to the left, z up; the origin is on the axis of the wheels, midway between them. SOURCES.md lists the sources
of the numbers.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

from robots.charmie.links import box_inertia
from robots.parameters import ParameterInfo, require_positive
from sim_core.mechanism import Actuator, Body, Joint, Mechanism, Rolling, Servo, Shape, SlipOutput, Touching, Y
from sim_core.mechanism.beams import ContactForceOutput

SIDES = {"left": 1.0, "right": -1.0}
BODY = (0.30, 0.22, 0.10)  # m: length, width and height of the box
CLEARANCE = 0.03  # m, of the box above the floor
WIDTH = 0.02  # m, of a wheel
ALONG_Y = (0.7071067811865476, 0.7071067811865476, 0.0, 0.0)  # orientation of a cylinder's axis
STIFFNESS, DAMPING = 2.0, 0.3  # N m/rad, N m s/rad


def differential_drive(
    radius: Annotated[float, ParameterInfo("radius of the wheels", "m")] = 0.08,
    track: Annotated[float, ParameterInfo("distance between the wheels", "m")] = 0.28,
    mass: Annotated[float, ParameterInfo("mass of the body", "kg")] = 6.0,
    wheel_mass: Annotated[float, ParameterInfo("mass of a wheel", "kg")] = 0.4,
    caster: Annotated[float, ParameterInfo("distance of the caster behind the axis of the wheels", "m")] = 0.12,
    torque: Annotated[float, ParameterInfo("largest torque of a wheel", "N m")] = 1.5,
    friction: Annotated[float, ParameterInfo("friction coefficient of the wheels; 0: they never slip")] = 0.0,
    heading_deg: Annotated[float, ParameterInfo("direction of the base at the start, from x towards y", "deg")] = 0.0,
    gravity: Annotated[float, ParameterInfo("gravity", "m/s2")] = 9.81,
) -> Mechanism:
    """A base on two driven wheels, which roll, and a caster; it stands at rest at the origin.

    The outputs are the load of each wheel and of the caster, N, and the slip of each wheel, m/s.
    """
    name = "differential_drive"
    sizes = {"radius": radius, "track": track, "mass": mass, "wheel_mass": wheel_mass, "caster": caster}
    require_positive(name, **sizes, torque=torque, gravity=gravity)
    half = math.radians(heading_deg) / 2.0
    heading = (math.cos(half), 0.0, 0.0, math.sin(half))
    middle = CLEARANCE + BODY[2] / 2 - radius
    ball = (
        radius - CLEARANCE / 2,
        CLEARANCE / 2,
    )  # of the caster: depth of its centre below the origin, and its radius
    base = Body(
        name="base",
        mass=mass,
        inertia=box_inertia(mass, BODY),
        center_of_mass=(-caster / 3, 0.0, middle),
        shapes=(
            Shape(kind="box", size=BODY, position=(-caster / 3, 0.0, middle)),
            Shape(kind="sphere", size=(ball[1],), position=(-caster, 0.0, -ball[0])),
        ),
    )
    on_caster: dict[str, Any] = {"body": "base", "center": (-caster, 0.0, -ball[0]), "radius": ball[1]}
    bodies, joints, actuators = (
        [base],
        [Joint(name="base", kind="free", child="base", quaternion=heading)],
        list[Actuator](),
    )
    rows: list[Touching | Rolling] = [Touching(name="caster", **on_caster)]
    outputs: list[ContactForceOutput | SlipOutput] = [ContactForceOutput(name="load_caster", contact="caster")]
    across, along = wheel_mass * (3 * radius**2 + WIDTH**2) / 12, wheel_mass * radius**2 / 2
    for side, sign in SIDES.items():
        wheel, at = f"{side}_wheel", (0.0, sign * track / 2, 0.0)
        disk = Shape(kind="cylinder", size=(radius, WIDTH), quaternion=ALONG_Y)
        spoke = Shape(kind="line", points=(-radius, sign * WIDTH, 0.0, radius, sign * WIDTH, 0.0))
        bodies.append(
            Body(name=wheel, mass=wheel_mass, inertia=(across, along, across, 0.0, 0.0, 0.0), shapes=(disk, spoke))
        )
        joints.append(Joint(name=wheel, parent="base", child=wheel, parent_point=at, axis=Y))
        rim: dict[str, Any] = {"body": wheel, "axis": Y, "radius": radius}
        rows.append(Touching(name=f"{side}_floor", **rim))
        # without friction, one wheel holds the axle: the shares of two would be undetermined
        free = 0.0 if side == "right" and not friction else None
        rows.append(Rolling(name=f"{side}_rim", friction=friction or None, rollers=free, **rim))
        outputs += [
            ContactForceOutput(name=f"load_{side}", contact=f"{side}_floor"),
            SlipOutput(name=f"slip_{side}", constraint=f"{side}_rim"),
        ]
        servo = Servo(stiffness=STIFFNESS, damping=DAMPING)
        actuators.append(Actuator(name=wheel, joint=wheel, effort_limit=torque, servo=servo))
    return Mechanism(
        name=name,
        coordinates="joint",
        bodies=tuple(bodies),
        joints=tuple(joints),
        constraints=tuple(rows),
        actuators=tuple(actuators),
        outputs=tuple(outputs),
        pushable=("base",),
        gravity=(0.0, 0.0, -gravity),
        initial_q=(0.0, 0.0, radius, *[0.0] * 5),
        initial_v=(0.0,) * 8,
        parameters={**sizes, "torque": torque, "friction": friction, "heading_deg": heading_deg, "gravity": gravity},
    )
