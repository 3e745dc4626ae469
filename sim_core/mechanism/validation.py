"""Validation of a description before its equations of motion are derived; error messages have one line."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sim_core.errors import InvalidMechanism, InvalidRequest, UnknownName
from sim_core.mechanism.checks.angles import check_angles
from sim_core.mechanism.checks.beams import check_beams
from sim_core.mechanism.checks.changes import check_changes
from sim_core.mechanism.checks.contacts import check_contacts
from sim_core.mechanism.checks.directions import check_directions
from sim_core.mechanism.checks.forces import check_forces
from sim_core.mechanism.checks.inertias import check_inertias
from sim_core.mechanism.checks.joints.constraints import check_joint_constraints
from sim_core.mechanism.checks.joints.orientations import check_orientations
from sim_core.mechanism.checks.joints.parts import check_joint_parts
from sim_core.mechanism.checks.joints.trees import check_one_axis, check_tree
from sim_core.mechanism.checks.names import check_unique
from sim_core.mechanism.checks.planes import check_planes
from sim_core.mechanism.checks.sensors import check_sensors
from sim_core.mechanism.checks.types import check_fields
from sim_core.mechanism.description import (
    COORDINATES,
    GROUND,
    Actuator,
    Body,
    Distance,
    Joint,
    JointOutput,
    JointRelation,
    Mechanism,
    PointOutput,
    PrescribedMotion,
    Shape,
    SpinRelation,
    Spring,
)
from sim_core.mechanism.outputs import ForceOutput, ReactionOutput, SurfaceForceOutput, VelocityOutput, names_of
from sim_core.mechanism.quantities import Tunable, value_of
from sim_core.mechanism.sensors import ForceTorqueOutput

BODY_FIELDS = ("body", "body_a", "body_b", "parent", "child", "other")
SHAPE_SIZES = {"line": 0, "mesh": 0, "box": 3, "sphere": 1, "cylinder": 2}  # length of `size` by kind


def validate(mechanism: Mechanism) -> None:
    """Raise InvalidMechanism with a one-line message for the first error in a description."""
    if not isinstance(mechanism, Mechanism):
        raise InvalidMechanism(f"a Mechanism is needed, but a {type(mechanism).__name__} was given")
    owner = f"mechanism {mechanism.name!r}"
    check_fields(mechanism, owner)
    _check_whole(mechanism, owner)
    check_unique(mechanism, owner)
    for where, item in _parts(mechanism):
        _check_names(item, mechanism, f"{owner}: {where}")
    for body in mechanism.bodies:
        _check_body(body, f"{owner}: body {body.name!r}")
    for joint in mechanism.joints:
        _check_joint(joint, f"{owner}: joint {joint.name!r}")
    check_orientations(mechanism, owner)
    check_joint_parts(mechanism, owner)
    check_joint_constraints(mechanism, owner)
    check_contacts(mechanism, owner)
    check_forces(mechanism, owner)
    check_sensors(mechanism, owner)
    for name in mechanism.pushable:
        mechanism.body(name)
    check_directions(mechanism, owner)
    for spring in mechanism.springs:
        _check_spring(spring, f"{owner}: spring {spring.name!r}")
    for constraint in mechanism.constraints:
        if isinstance(constraint, Distance) and not constraint.length > 0.0:
            raise InvalidMechanism(
                f"{owner}: constraint {constraint.name!r}: length is {constraint.length} m; it must be above 0; "
                "for points that coincide use Coincidence"
            )
        if isinstance(constraint, SpinRelation) and not constraint.terms:
            raise InvalidMechanism(f"{owner}: constraint {constraint.name!r} has no terms; give at least one")
    if mechanism.coordinates != "absolute":
        check_tree(mechanism, owner)
    if mechanism.coordinates == "absolute_angle":
        check_one_axis(mechanism, owner)
    check_inertias(mechanism, owner)
    _check_inert(mechanism, owner)
    check_planes(mechanism, owner)
    for actuator in mechanism.actuators:
        _check_actuator(actuator, f"{owner}: actuator {actuator.name!r}")
    check_changes(mechanism, owner)
    check_beams(mechanism, owner)
    _check_outputs(mechanism, owner)
    _check_arrows(mechanism, owner)
    for number, shape in enumerate(mechanism.ground):
        _check_shape(shape, f"{owner}: ground shape {number}")
    _check_start(mechanism, owner)
    check_angles(mechanism, owner)


def _check_whole(mechanism: Mechanism, owner: str) -> None:
    """Raise InvalidMechanism if there is no constraint mode, a free coordinate is invalid, or nothing can move."""
    if not mechanism.constraint_modes:
        raise InvalidMechanism(
            f"{owner}: field 'constraint_modes' is empty; give at least one, such as ConstraintMode()"
        )
    for body in mechanism.bodies:
        for name in body.free or ():
            if name not in (known := COORDINATES[body.orientation]):
                raise UnknownName(f"{owner}: body {body.name!r}", "coordinate", name, known)
        if body.free is not None and [*body.free] != [c for c in COORDINATES[body.orientation] if c in body.free]:
            raise InvalidMechanism(
                f"{owner}: body {body.name!r}: free is {body.free}; the names must be in the order "
                f"{', '.join(COORDINATES[body.orientation])}"
            )
    if mechanism.coordinate_count < 1:
        raise InvalidMechanism(
            f"{owner}: no part of the mechanism can move; add a body with a free coordinate, or a moving joint"
        )


def _parts(mechanism: Mechanism) -> Iterator[tuple[str, Any]]:
    """Yield (label, item) for every item of the description: its bodies, joints, constraints and so on."""
    for field in dataclasses.fields(mechanism):
        group = getattr(mechanism, field.name)
        if isinstance(group, tuple):
            for item in group:
                if dataclasses.is_dataclass(item):
                    kind = {"bodies": "body"}.get(field.name, field.name.removesuffix("s"))
                    yield f"{kind} {getattr(item, 'name', '')!r}", item


def _check_names(item: Any, mechanism: Mechanism, where: str) -> None:
    """Raise InvalidMechanism or UnknownName unless the bodies and joints that an item names exist."""
    if isinstance(item, Joint) and item.child == GROUND:
        raise InvalidMechanism(f"{where}: child is {GROUND!r}, which cannot move; make it the parent")
    bodies = [body.name for body in mechanism.bodies]
    requested = [getattr(item, name) for name in BODY_FIELDS if hasattr(item, name)]
    if isinstance(item, SpinRelation):
        requested += [term[0] for term in item.terms]
    requested += [point.body for point in getattr(item, "points", ()) if hasattr(point, "body")]
    for name in requested:
        if name == "" and isinstance(item, PrescribedMotion):
            continue
        if name not in (*bodies, GROUND):
            raise UnknownName(where, "body", name, bodies)
    if (getattr(item, "joint", "") or isinstance(item, JointOutput)) and not isinstance(item, ForceTorqueOutput):
        moving = [joint.name for joint in mechanism.moving_joints]
        if item.joint not in moving:
            raise UnknownName(where, "moving joint", item.joint, moving)


def _check_body(body: Body, where: str) -> None:
    if value_of(body.mass) < 0.0:
        raise InvalidMechanism(f"{where}: mass is {value_of(body.mass)} kg; it must not be negative")
    known = COORDINATES[body.orientation]
    for number, shape in enumerate(body.shapes):
        _check_shape(shape, f"{where}: shape {number}")
    if body.placement and len(body.placement) != len(known):
        raise InvalidMechanism(f"{where}: placement has {len(body.placement)} numbers; give {', '.join(known)}")


def _check_joint(joint: Joint, where: str) -> None:
    if joint.child == joint.parent:
        raise InvalidMechanism(f"{where}: parent and child are both {joint.child!r}; they must be two different bodies")
    if joint.lower is not None and joint.upper is not None and joint.lower > joint.upper:
        raise InvalidMechanism(
            f"{where}: lower is {joint.lower} and upper is {joint.upper}; lower must not be above upper"
        )
    check_damping(joint.damping, "N s/m" if joint.kind == "prismatic" else "N m s", where)


def check_damping(damping: Any, unit: str, where: str) -> None:
    """Raise InvalidMechanism if a damping coefficient is negative.

    Negative damping would accelerate the motion without bound.
    """
    if value_of(damping) < 0.0:
        called = f" ({damping.name})" if isinstance(damping, Tunable) else ""
        raise InvalidMechanism(f"{where}: damping{called} is {value_of(damping)} {unit}; it must not be negative")


def _check_actuator(actuator: Actuator, where: str) -> None:
    for name in ("effort_limit", "velocity_limit"):
        limit = getattr(actuator, name)
        if limit is not None and not limit > 0.0:
            raise InvalidMechanism(f"{where}: {name} is {limit}; it must be above 0, or None for no limit")
    if actuator.effort_limit is not None and abs(actuator.start) > actuator.effort_limit:
        raise InvalidMechanism(
            f"{where}: start is {actuator.start}; it must be within the effort_limit, +-{actuator.effort_limit}"
        )
    if actuator.servo is None:
        return
    for name, least in (("stiffness", "above 0"), ("damping", "at least 0")):
        gain = getattr(actuator.servo, name)
        if not (math.isfinite(gain) and (gain > 0.0 or (gain == 0.0 and name == "damping"))):
            raise InvalidMechanism(f"{where}: servo {name} is {gain}; it must be a number {least}")


def _check_spring(spring: Spring, where: str) -> None:
    for name in ("stiffness", "rest_length", "pretension"):
        if value_of(getattr(spring, name)) < 0.0:
            raise InvalidMechanism(f"{where}: {name} is {value_of(getattr(spring, name))}; it must not be negative")
    check_damping(spring.damping, "N s/m", where)
    if spring.body_a == spring.body_b:
        raise InvalidMechanism(f"{where}: both ends are on {spring.body_a!r}; they must be on two different bodies")


def _check_shape(shape: Shape, where: str) -> None:
    if shape.kind not in SHAPE_SIZES:
        raise UnknownName(where, "kind", shape.kind, SHAPE_SIZES)
    if shape.kind == "line":
        if len(shape.points) < 6 or len(shape.points) % 3:
            raise InvalidMechanism(
                f"{where}: points has {len(shape.points)} numbers; a line needs x, y, z of each of two or more points"
            )
    elif shape.kind == "mesh":
        count = len(shape.points) // 3
        if not shape.faces or len(shape.faces) % 3 or len(shape.points) % 3:
            raise InvalidMechanism(
                f"{where}: points and faces have {len(shape.points)} and {len(shape.faces)} numbers; "
                "points must have x, y, z of each point, and faces three indices of points for each triangle"
            )
        if not (min(shape.faces) >= 0 and max(shape.faces) < count):
            raise InvalidMechanism(
                f"{where}: faces has indices of points from {min(shape.faces)} to {max(shape.faces)}; they must lie "
                f"between 0 and {count - 1}"
            )
    elif len(shape.size) != SHAPE_SIZES[shape.kind] or not all(size > 0.0 for size in shape.size):
        raise InvalidMechanism(
            f"{where}: size is {shape.size}; a {shape.kind} needs {SHAPE_SIZES[shape.kind]} numbers above 0"
        )


def _check_inert(mechanism: Mechanism, owner: str) -> None:
    """Raise InvalidMechanism for a coordinate that moves no mass or inertia.

    The acceleration of such a coordinate would be undetermined.
    """
    if mechanism.coordinates == "absolute":
        for body in mechanism.bodies:
            for name in body.free_coordinates:
                _require_inert(name in ("x", "y", "z"), [body], f"{owner}: body {body.name!r}", f"coordinate {name!r}")
        return
    for joint in mechanism.moving_joints:
        if value_of(joint.armature) > 0.0 and joint.kind != "planar":
            continue
        moved = _carried_by(mechanism, joint.child)
        where = f"{owner}: body {joint.child!r}"
        _require_inert(joint.kind == "prismatic", moved, where, f"joint {joint.name!r}, with all that hangs on it,")
    for joint in mechanism.oriented_joints:
        if value_of(joint.armature) > 0.0:
            continue
        moved, where = _carried_by(mechanism, joint.child), f"{owner}: body {joint.child!r}"
        for translates in (True, False) if joint.kind == "free" else (False,):
            _require_inert(translates, moved, where, f"joint {joint.name!r}, with all that hangs on it,")


def _require_inert(translates: bool, bodies: Sequence[Body], where: str, what: str) -> None:
    mass = sum(value_of(body.mass) for body in bodies)
    if translates and mass == 0.0:
        raise InvalidMechanism(f"{where}: mass is 0, and {what} moves no other mass; give the body a mass")
    planar = len(bodies) == 1 and what.startswith("coordinate") and bodies[0].orientation == "planar"
    inertia = sum(value_of(moment) for body in bodies for moment in body.inertia[2 if planar else 0 : 3])
    lever = any(value_of(body.mass) > 0.0 and (len(bodies) > 1 or any(body.center_of_mass)) for body in bodies)
    if not translates and inertia == 0.0 and not lever:
        raise InvalidMechanism(f"{where}: inertia is 0, and {what} turns no other inertia; give the body an inertia")


def _carried_by(mechanism: Mechanism, name: str) -> list[Body]:
    """The body with this name and all its descendants in the tree of joints."""
    carried = [name]
    for parent in carried:
        carried += [joint.child for joint in mechanism.joints if joint.parent == parent and joint.child not in carried]
    return [body for body in mechanism.bodies if body.name in carried]


def _check_outputs(mechanism: Mechanism, owner: str) -> None:
    vectors = PointOutput | VelocityOutput | ForceOutput | SurfaceForceOutput
    for output in mechanism.outputs:
        where = f"{owner}: output {output.name!r}"
        axes = output.axes if isinstance(output, vectors) else "x"
        if not axes or {*axes} - {*"xyz"}:
            raise InvalidMechanism(f"{where}: field 'axes' is {axes!r}; it must consist of the letters x, y and z")
        known: dict[str, list[str]] = {
            "constraint": [c.name for c in mechanism.constraints if isinstance(c, JointRelation | PrescribedMotion)],
            "contact": [contact.name for contact in mechanism.contacts],
        }
        for kind, asks in (("constraint", ReactionOutput), ("contact", SurfaceForceOutput)):
            if isinstance(output, asks) and getattr(output, kind) not in known[kind]:
                raise UnknownName(where, kind, getattr(output, kind), known[kind])
        if isinstance(output, ForceOutput) and not output.constraints:
            raise InvalidMechanism(f"{where}: field 'constraints' is empty; name at least one constraint")


def _check_arrows(mechanism: Mechanism, owner: str) -> None:
    outputs = [name for output in mechanism.outputs for name in names_of(output)]
    for arrow in mechanism.arrows:
        where = f"{owner}: arrow {arrow.name!r}"
        for name in arrow.outputs:
            if name not in outputs:
                raise UnknownName(where, "output", name, outputs)
        if len(arrow.outputs) != len(arrow.axes):
            raise InvalidMechanism(
                f"{where}: the number of axes is {len(arrow.axes)}, and the number of outputs is {len(arrow.outputs)}; "
                "give one axis per output"
            )


def _check_start(mechanism: Mechanism, owner: str) -> None:
    n = mechanism.coordinate_count
    for name in ("initial_q", "initial_v", "reference_q"):
        given = getattr(mechanism, name)
        if len(given) != n and (given or name != "reference_q"):
            raise InvalidMechanism(f"{owner}: {name} has {len(given)} numbers; the mechanism has {n} coordinates")


def check_bounds(owner: str, tunable: Tunable, value: float) -> None:
    """Raise InvalidRequest, naming the permitted range, if a tunable's value is outside its bounds."""
    if tunable.least <= value <= tunable.most:
        return
    unit = f" {tunable.unit}" if tunable.unit not in ("", "1") else ""
    upto = f" to {tunable.most:.6g}{unit}" if math.isfinite(tunable.most) else f"{unit} on"
    raise InvalidRequest(
        f"{owner}: {tunable.name} is {value:g}{unit}; the permitted range is "
        + (f"from {tunable.least:.6g}{upto}" if math.isfinite(tunable.least) else f"up to {tunable.most:.6g}{unit}")
    )


def check_tunables(mechanism: Mechanism, p: Sequence[float]) -> None:
    """Raise InvalidRequest if a tunable in the parameters p (n_p,) of a state is outside its bounds."""
    for tunable, value in zip(mechanism.tunables, p, strict=False):
        check_bounds(f"robot {mechanism.name!r}", tunable, value)


def tuned(mechanism: Mechanism, values: Mapping[str, float]) -> Mechanism:
    """A copy of the mechanism with new values of tunables.

    values  {name of a tunable: value}
    """
    holders = ("bodies", "joints", "springs", "beams", "contacts", "forces", "constraints", "guards")
    groups = {name: _tuned(getattr(mechanism, name), values) for name in holders}
    return dataclasses.replace(mechanism, **groups)


def _tuned(value: Any, values: Mapping[str, float]) -> Any:
    if isinstance(value, Tunable):
        return dataclasses.replace(value, value=values.get(value.name, value.value))
    if isinstance(value, tuple):
        return tuple(_tuned(item, values) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return dataclasses.replace(value, **{name: _tuned(item, values) for name, item in fields.items()})
    return value
