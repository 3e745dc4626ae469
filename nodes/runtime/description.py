"""A mechanism as the message that tells listeners what the robot is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nodes.wire.messages import ActuatorDescription, BodyDescription, Description, JointDescription, Shape


def describe(mechanism: Any, step_s: float, outputs: Sequence[str], code_hash: str) -> Description:
    """The description of a mechanism, stepped by step_s seconds."""
    return Description(
        robot=mechanism.name,
        joints=[
            JointDescription(name=j.name, kind=j.kind, unit=j.unit, lower=j.lower, upper=j.upper)
            for j in mechanism.moving_joints
        ],
        actuators=[
            ActuatorDescription(
                name=a.name,
                joint=a.joint,
                unit=a.unit,
                effort_limit=a.effort_limit,
                velocity_limit=a.velocity_limit,
                modes=list(a.modes),
            )
            for a in mechanism.actuators
        ],
        bodies=[
            BodyDescription(name=b.name, mass=_number(b.mass), shapes=[_shape(s) for s in b.shapes])
            for b in mechanism.bodies
        ],
        parameters={name: float(value) for name, value in mechanism.parameters.items()},
        outputs=list(outputs),
        step_s=step_s,
        gravity=[float(component) for component in mechanism.gravity],
        code_hash=code_hash,
    )


def _number(value: Any) -> float:
    """A number, or the value of one that can be tuned."""
    return float(getattr(value, "value", value))


def _shape(shape: Any) -> Shape:
    return Shape(
        kind=shape.kind,
        points=[float(x) for x in shape.points],
        size=[float(x) for x in shape.size],
        position=[float(x) for x in shape.position],
        quaternion=[float(x) for x in shape.quaternion],
        color=shape.color,
    )
