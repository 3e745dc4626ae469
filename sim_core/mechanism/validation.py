"""Validation of a description before its equations of motion are derived; error messages have one line."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sim_core.errors import InvalidMechanism, InvalidRequest, UnknownName
from sim_core.mechanism.checks.angles import check_angles
from sim_core.mechanism.checks.beams import check_beams
from sim_core.mechanism.checks.changes import check_changes
from sim_core.mechanism.checks.constraints import check_constraints
from sim_core.mechanism.checks.directions import check_directions
from sim_core.mechanism.checks.forces import check_forces
from sim_core.mechanism.checks.inertias import check_inert, check_inertias
from sim_core.mechanism.checks.joints import check_joints, check_tree
from sim_core.mechanism.checks.names import check_unique, items_of
from sim_core.mechanism.checks.outputs import check_outputs
from sim_core.mechanism.checks.planes import check_planes
from sim_core.mechanism.checks.types import check_fields, refuse
from sim_core.mechanism.constraints import PrescribedMotion, SpinRelation
from sim_core.mechanism.description import COORDINATES, GROUND, Actuator, Body, Mechanism, Shape
from sim_core.mechanism.quantities import Tunable

BODY_FIELDS = ("body", "body_a", "body_b", "parent", "child", "other")
SHAPE_SIZES = {"line": 0, "mesh": 0, "box": 3, "sphere": 1, "cylinder": 2}  # length of `size` by kind


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


def _check_items(mechanism: Mechanism, owner: str) -> None:
    """Raise InvalidMechanism or UnknownName for a body or joint that does not exist, or an invalid shape."""
    bodies, moving = mechanism.body_names, mechanism.moving_joint_names
    for where, item in items_of(mechanism, owner):
        requested = [getattr(item, name) for name in BODY_FIELDS if hasattr(item, name)]
        if isinstance(item, SpinRelation):
            requested += [term[0] for term in item.terms]
        requested += [point.body for point in getattr(item, "points", ()) if hasattr(point, "body")]
        for name in requested:
            if name not in bodies and name != GROUND and not (name == "" and isinstance(item, PrescribedMotion)):
                raise UnknownName(where, "body", name, bodies)
        if isinstance(item, Actuator | PrescribedMotion) and item.joint and item.joint not in moving:
            raise UnknownName(where, "moving joint", item.joint, moving)
        if isinstance(item, Body) and item.placement and len(item.placement) != len(COORDINATES[item.orientation]):
            known = ", ".join(COORDINATES[item.orientation])
            refuse(where, f"placement has {len(item.placement)} numbers; give {known}")
        for number, shape in enumerate(getattr(item, "shapes", ())):
            _check_shape(shape, f"{where}: shape {number}")
    for number, shape in enumerate(mechanism.ground):
        _check_shape(shape, f"{owner}: ground shape {number}")
    for name in mechanism.pushable:
        mechanism.body(name)


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


def _check_start(mechanism: Mechanism, owner: str) -> None:
    n = mechanism.coordinate_count
    for name in ("initial_q", "initial_v", "reference_q"):
        given = getattr(mechanism, name)
        if len(given) != n and (given or name != "reference_q"):
            raise InvalidMechanism(f"{owner}: {name} has {len(given)} numbers; the mechanism has {n} coordinates")


CHECKS: tuple[Callable[[Mechanism, str], None], ...] = (  # in an order in which each may rely on the earlier ones
    check_fields,
    _check_whole,
    check_unique,
    _check_items,
    check_joints,
    check_constraints,
    check_tree,
    check_directions,
    check_forces,
    check_inertias,
    check_inert,
    check_planes,
    check_changes,
    check_beams,
    check_outputs,
    _check_start,
    check_angles,
)


def validate(mechanism: Mechanism) -> None:
    """Raise InvalidMechanism with a one-line message for the first error in a description.

    A mechanism that has passed is not checked again.
    """
    if not isinstance(mechanism, Mechanism):
        raise InvalidMechanism(f"a Mechanism is needed, but a {type(mechanism).__name__} was given")
    if not mechanism.is_valid:
        for check in CHECKS:
            check(mechanism, f"mechanism {mechanism.name!r}")
        object.__setattr__(mechanism, "is_valid", True)


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


def check_range(mechanism: Mechanism, tunable: Tunable, low: float, high: float) -> None:
    """Raise InvalidRequest unless a tunable may have all values from `low` to `high`.

    The values must be within the tunable's bounds, and the description must be valid with them and with its own values
    of the other tunables. Only values outside the range of those already checked are checked.
    """
    known = mechanism.checked_values.setdefault(tunable.name, [tunable.value, tunable.value])
    for end, value in enumerate((low, high)):
        if not known[0] <= value <= known[1]:
            check_bounds(f"robot {mechanism.name!r}", tunable, value)
            validate(tuned(mechanism, {tunable.name: value}))
            known[end] = value


def check_tunables(mechanism: Mechanism, p: Any) -> None:
    """Raise InvalidRequest if a tunable has an invalid value in the parameters p (n_p,) of a state, or (n, n_p).

    Of many rows, each tunable is checked beside the description's own values of the others; with values that are
    invalid beside those, row by row.
    """
    tunables = mechanism.tunables
    rows = np.atleast_2d(p)[:, : len(tunables)]
    if not rows.size:
        return
    try:
        for tunable, low, high in zip(tunables, rows.min(axis=0).tolist(), rows.max(axis=0).tolist(), strict=True):
            check_range(mechanism, tunable, low, high)
    except InvalidMechanism:
        for row in rows.tolist():
            validate(tuned(mechanism, dict(zip((each.name for each in tunables), row, strict=True))))


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
