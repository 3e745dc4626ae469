"""CHARMIE on its four omni wheels, which roll and drive the base in place of the three fictitious actuators.

Each wheel is a body with a joint and an actuator, `wheel_1` to `wheel_4`, and a Rolling row that blocks its slip along
the direction in which it rolls. The joints base_x, base_y and base_yaw become passive; they keep the base upright.
SOURCES.md lists what of this is assumed.
"""

from __future__ import annotations

import dataclasses
import math

from robots.charmie.base import wheel_angles
from robots.charmie.links import actuator
from robots.charmie.parameters import Parameters, ServoGains
from robots.charmie.shapes import WHEEL_WIDTH
from sim_core.mechanism import ORIGIN, Actuator, Body, Joint, Mechanism, Rolling, Vector3
from sim_core.mechanism.quantities import value_of

BASE_JOINTS = ("base_x", "base_y", "base_yaw")


def wheel_names(p: Parameters) -> tuple[str, ...]:
    """Names of the wheels, of their joints and of their actuators: wheel_1 and so on."""
    return tuple(f"wheel_{k}" for k in range(1, p.base.wheels.count + 1))


def with_wheels(tree: Mechanism, p: Parameters) -> Mechanism:
    """The mechanism on wheels; link 3 loses their mass, so that the robot weighs the same."""
    wheels, names, angles = p.base.wheels, wheel_names(p), [float(angle) for angle in wheel_angles(p.base.wheels)]
    axes: list[Vector3] = [(-math.cos(beta), -math.sin(beta), 0.0) for beta in angles]
    carrier = tree.body("link_3")
    shell, drawn = carrier.shapes[: -wheels.count], carrier.shapes[-wheels.count :]
    share = 1.0 - wheels.count * wheels.mass / value_of(carrier.mass)
    xx, yy, zz, xy, xz, yz = (share * value_of(number) for number in carrier.inertia)
    lighter = dataclasses.replace(
        carrier,
        mass=share * value_of(carrier.mass),
        inertia=(xx, yy, zz, xy, xz, yz),
        shapes=shell,
    )
    bodies, joints, rows = list[Body](), list[Joint](), list[Rolling]()
    for name, axis, shape in zip(names, axes, drawn, strict=True):
        at = (-wheels.distance * axis[0], -wheels.distance * axis[1], wheels.radius)
        own = (dataclasses.replace(shape, position=ORIGIN),)
        bodies.append(Body(name=name, mass=wheels.mass, inertia=_cylinder(p, axis), shapes=own))
        joints.append(Joint(name=name, parent="link_3", child=name, parent_point=at, axis=axis))
        rows.append(Rolling(name=f"{name}_rim", body=name, axis=axis, radius=wheels.radius, rollers=0.0))
    return dataclasses.replace(
        tree,
        bodies=(*(lighter if body.name == "link_3" else body for body in tree.bodies), *bodies),
        joints=(*tree.joints, *joints),
        constraints=(*tree.constraints, *rows),
        actuators=(
            *(_wheel_actuator(p, name) for name in names),
            *(each for each in tree.actuators if each.name not in BASE_JOINTS),
        ),
        initial_q=(*tree.initial_q, *[0.0] * wheels.count),
        initial_v=(*tree.initial_v, *[0.0] * wheels.count),
    )


def _wheel_actuator(p: Parameters, name: str) -> Actuator:
    """The actuator of a wheel: its share of the base's largest force, and gains that hold the base as stiffly.

    The wheels roll along two directions at right angles, half of them along each.
    """
    base, radius = p.base, p.base.wheels.radius
    share = radius**2 / (base.wheels.count / 2)
    gains = ServoGains(stiffness=share * base.slide_servo.stiffness, damping=share * base.slide_servo.damping)
    torque = base.effort_limit / base.wheels.count * radius
    return actuator(name, torque, base.wheels.speed_limit, gains)


def _cylinder(p: Parameters, axis: Vector3) -> tuple[float, float, float, float, float, float]:
    """Inertia of a wheel, a uniform cylinder about `axis`."""
    mass, radius = p.base.wheels.mass, p.base.wheels.radius
    along, across = mass * radius**2 / 2, mass * (3 * radius**2 + WHEEL_WIDTH**2) / 12
    x, y, _ = axis
    more = along - across
    return (across + more * x * x, across + more * y * y, across, more * x * y, 0.0, 0.0)
