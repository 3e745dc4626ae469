"""Converts a mechanism to the message `Description`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from nodes.framework.messages import (
    ActuatorDescription,
    BodyDescription,
    Description,
    ForceDescription,
    GripperDescription,
    JointDescription,
    Shape,
    SpringDescription,
)
from sim_core.mechanism import GROUND, JointRelation, Touching
from sim_core.mechanism.beams import ContactForceOutput, DeflectionOutput
from sim_core.mechanism.constraints import BeamContact
from sim_core.mechanism.inertias import inertia_box
from sim_core.mechanism.outputs import (
    AccelerometerOutput,
    ForceOutput,
    ForceTorqueOutput,
    GyroscopeOutput,
    HoldingOutput,
    JointOutput,
    PointOutput,
    ReactionOutput,
    SurfaceForceOutput,
    VelocityOutput,
    names_of,
    readings_of,
)
from sim_core.mechanism.rolling import SlipOutput
from sim_core.spatial import quaternions_from_rotations

UNITS: dict[type, str] = {
    PointOutput: "m",
    VelocityOutput: "m/s",
    ForceOutput: "N",
    SurfaceForceOutput: "N",
    HoldingOutput: "1",
    DeflectionOutput: "m",
    ContactForceOutput: "N",
    SlipOutput: "m/s",
}
CLAMP = (0.012, 0.02, 0.04)  # size of the block at a clamped end, as shares of the beam's length
FOOT = 0.025  # size of the triangle under a pinned end, as share of the beam's length


def describe(mechanism: Any, step_s: float, outputs: Sequence[str], code_hash: str, robot: str = "") -> Description:
    """The description of a mechanism that is simulated with time steps of step_s seconds.

    robot  the robot's name in topics; "" for the mechanism's name
    """
    return Description(
        robot=robot or mechanism.name,
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
                stiffness=0.0 if a.servo is None else a.servo.stiffness,
                damping=0.0 if a.servo is None else a.servo.damping,
            )
            for a in mechanism.actuators
        ],
        bodies=[
            BodyDescription(name=b.name, mass=_number(b.mass), shapes=[_shape(s) for s in shapes])
            for b, shapes in zip(mechanism.bodies, _drawn(mechanism), strict=True)
        ],
        parameters={name: float(value) for name, value in mechanism.parameters.items()},
        outputs=list(outputs),
        step_s=step_s,
        gravity=[float(component) for component in mechanism.gravity],
        code_hash=code_hash,
        ground=[_shape(s) for s in mechanism.ground]
        + [_support(b, x, mechanism.gravity) for b in mechanism.beams for x in (0.0, b.length)],
        springs=[
            SpringDescription(
                name=s.name,
                body_a=s.body_a,
                point_a=_numbers(s.point_a),
                body_b=s.body_b,
                point_b=_numbers(s.point_b),
            )
            for s in mechanism.springs
        ],
        forces=[
            ForceDescription(
                name=a.name,
                body=a.body,
                point=_numbers(a.point),
                outputs=list(a.outputs),
                axes=[float(component) for axis in a.axes for component in axis],
            )
            for a in mechanism.arrows
        ]
        + _contact_forces(mechanism),
        output_units=output_units(mechanism, outputs),
        holds=_grippers(mechanism),
        frames=[joint.name for joint in mechanism.posed_joints],
        pushable=list(mechanism.pushable),
    )


def _drawn(mechanism: Any) -> list[tuple[Any, ...]]:
    """Shapes of each body; in a mechanism without any shape, the box with each body's mass and inertia."""
    if any(body.shapes for body in mechanism.bodies):
        return [body.shapes for body in mechanism.bodies]
    numbers = ((_number(b.mass), b.center_of_mass, [_number(each) for each in b.inertia]) for b in mechanism.bodies)
    return [() if box is None else (box,) for box in (inertia_box(*each) for each in numbers)]


def output_names(mechanism: Any) -> list[str]:
    """Names of the mechanism's outputs, in the order of `RobotState.outputs`."""
    return list(_output_units(mechanism))


def output_units(mechanism: Any, outputs: Sequence[str]) -> list[str]:
    """Units of the outputs with these names; "" for a name that is not an output of the mechanism."""
    units = _output_units(mechanism)
    return [units.get(name, "") for name in outputs]


def _output_units(mechanism: Any) -> dict[str, str]:
    """{name of an output: its unit}."""
    units: dict[str, str] = {}
    for output in mechanism.outputs:
        if isinstance(output, ReactionOutput):
            units[output.name] = _unit_of_reaction(mechanism, output.constraint)
            continue
        if isinstance(output, AccelerometerOutput | GyroscopeOutput | ForceTorqueOutput):
            units |= readings_of(output)
            continue
        unit = mechanism.joint(output.joint).unit if isinstance(output, JointOutput) else UNITS[type(output)]
        units |= dict.fromkeys(names_of(output), unit)
    return units


def _unit_of_reaction(mechanism: Any, name: str) -> str:
    """Unit of the reaction of the JointRelation or PrescribedMotion `name`.

    The unit is "N" for a constraint on prismatic joints only and for a PrescribedMotion of a body-fixed point. In all
    other cases it is "N m".
    """
    constraint = next(each for each in mechanism.constraints if each.name == name)
    if isinstance(constraint, JointRelation):
        return "N" if all(mechanism.joint(joint).unit == "m" for joint, _ in constraint.terms) else "N m"
    return "N" if constraint.body or mechanism.joint(constraint.joint).unit == "m" else "N m"


def _grippers(mechanism: Any) -> list[GripperDescription]:
    """The mechanism's grippers. A gripper is a body-fixed point that constraints with a HoldingOutput can hold.

    Each gripper lists the names of its HoldingOutputs. A HoldingOutput is 1 while its constraint holds the point,
    otherwise 0.
    """
    constraints = {constraint.name: constraint for constraint in mechanism.constraints}
    found: dict[tuple[str, tuple[float, ...]], GripperDescription] = {}
    for output in mechanism.outputs:
        if isinstance(output, HoldingOutput):
            held = constraints[output.constraint]
            body, point = getattr(held, "body", ""), tuple(_numbers(getattr(held, "point", ())))
            if body:
                hold = found.setdefault((body, point), GripperDescription(name=body, body=body, point=list(point)))
                hold.outputs.append(output.name)
    return list(found.values())


def _contact_forces(mechanism: Any) -> list[ForceDescription]:
    """Contact forces that are outputs of the mechanism: forces of beams on contact points, and forces on contact
    spheres.
    """
    beams = {beam.name: beam for beam in mechanism.beams}
    contacts = {c.name: c for c in mechanism.constraints if isinstance(c, BeamContact)}
    wheels = {c.name: c for c in mechanism.constraints if isinstance(c, Touching)}
    spheres = {contact.name: contact for contact in mechanism.contacts}
    found = []
    for output in mechanism.outputs:
        if isinstance(output, ContactForceOutput) and output.contact in wheels:
            wheel = wheels[output.contact]
            if wheel.other == GROUND:
                found.append(
                    ForceDescription(
                        name=output.name,
                        body=wheel.body,
                        point=_numbers(wheel.center),
                        outputs=[output.name],
                        axes=_numbers(wheel.normal),
                    )
                )
        elif isinstance(output, ContactForceOutput):
            contact = contacts[output.contact]
            against = [-float(component) for component in beams[contact.beam].direction]
            found.append(
                ForceDescription(
                    name=output.name,
                    body=contact.body,
                    point=_numbers(contact.point),
                    outputs=[output.name],
                    axes=against,
                )
            )
        elif isinstance(output, SurfaceForceOutput):
            touching = spheres[output.contact]
            units = {"x": [1.0, 0.0, 0.0], "y": [0.0, 1.0, 0.0], "z": [0.0, 0.0, 1.0]}
            found.append(
                ForceDescription(
                    name=output.name,
                    body=touching.body,
                    point=_numbers(touching.center),
                    outputs=list(names_of(output)),
                    axes=[component for axis in output.axes for component in units[axis]],
                )
            )
    return found


def _support(beam: Any, x: float, gravity: Any) -> Shape:
    """Shape of the support at the beam's end with coordinate x (m): a block for clamped ends, a triangle for pinned."""
    axis, across = np.array(beam.axis, dtype=float), np.array(beam.direction, dtype=float)
    end = np.array(beam.origin) + x * axis
    if beam.supports == "clamped":
        size = beam.length * np.array(CLAMP)
        middle = end + (size[0] if x > 0 else -size[0]) / 2 * axis
        R = np.stack([axis, np.cross(across, axis), across], axis=1)
        quaternion = quaternions_from_rotations(R[None])[0]
        return Shape(kind="box", size=_numbers(size), position=_numbers(middle), quaternion=_numbers(quaternion))
    foot = FOOT * beam.length
    below = end + foot * across * (-1.0 if float(np.dot(across, gravity)) < 0.0 else 1.0)
    corners = np.stack([end, below - foot / 2 * axis, below + foot / 2 * axis, end])
    return Shape(kind="line", points=_numbers(corners.ravel()))


def _numbers(values: Iterable[Any]) -> list[float]:
    return [float(value) for value in values]


def _number(value: Any) -> float:
    """A number as a float; for a tunable parameter, its value."""
    return float(getattr(value, "value", value))


def _shape(shape: Any) -> Shape:
    return Shape(
        kind=shape.kind,
        points=[float(x) for x in shape.points],
        size=[float(x) for x in shape.size],
        position=[float(x) for x in shape.position],
        quaternion=[float(x) for x in shape.quaternion],
        color=shape.color,
        faces=[int(place) for place in shape.faces],
    )
