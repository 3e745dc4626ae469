"""What a description must satisfy before it is derived: each thing that is wrong is named in one line."""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from sim_core.changes import check_changes
from sim_core.errors import InvalidMechanism, InvalidRequest, UnknownName
from sim_core.flexible.validation import check_beams
from sim_core.mechanism import COORDINATES, GROUND, Actuator, Body, Joint, Mechanism, SpinRelation
from sim_core.outputs import names_of
from sim_core.quantities import Captured, Tunable, Vector3, value_of

NAMED = {
    "bodies": "body",
    "joints": "joint",
    "constraints": "constraint",
    "springs": "spring",
    "beams": "beam",
    "actuators": "actuator",
    "guards": "guard",
}
BODY_FIELDS = ("body", "body_a", "body_b", "parent", "child")


def validate(mechanism: Mechanism) -> None:
    """Raise InvalidMechanism, in one line, for what no derivation could make sense of."""
    owner = f"mechanism {mechanism.name!r}"
    _check_choices(mechanism, owner)
    for group, kind in NAMED.items():
        _check_unique([item.name for item in getattr(mechanism, group)], kind, owner)
    for where, item in _parts(mechanism):
        _check_choices(item, f"{owner}: {where}")
        _check_numbers(item, f"{owner}: {where}")
        _check_names(item, mechanism, f"{owner}: {where}")
    for body in mechanism.bodies:
        _check_body(body, f"{owner}: body {body.name!r}")
    for joint in mechanism.joints:
        _check_joint(joint, f"{owner}: joint {joint.name!r}")
    for spring in mechanism.springs:
        _check_not_negative(spring, ("stiffness", "rest_length", "pretension"), f"{owner}: spring {spring.name!r}")
    _check_inert(mechanism, owner)
    for actuator in mechanism.actuators:
        _check_actuator(actuator, f"{owner}: actuator {actuator.name!r}")
    for spring in mechanism.springs:
        _check_damping(spring.damping, "N s/m", f"{owner}: spring {spring.name!r}")
    check_changes(mechanism, owner)
    check_beams(mechanism, owner)
    _check_arrows(mechanism, owner)
    _check_start(mechanism, owner)


def coordinate_count(mechanism: Mechanism) -> int:
    """How many coordinates the derivation will give it."""
    beams = sum(beam.n_coordinates for beam in mechanism.beams) - int("partitioned" in mechanism.formulation)
    if mechanism.coordinates == "absolute":
        return beams + sum(len(body.free_coordinates) for body in mechanism.bodies)
    return beams + sum(3 if joint.kind == "planar" else 1 for joint in mechanism.moving_joints)


def _parts(mechanism: Mechanism) -> Iterator[tuple[str, Any]]:
    """(what to call it, the item) of everything the description lists."""
    for field in dataclasses.fields(mechanism):
        group = getattr(mechanism, field.name)
        if isinstance(group, tuple):
            for item in group:
                if dataclasses.is_dataclass(item):
                    kind = {"bodies": "body"}.get(field.name, field.name.removesuffix("s"))
                    yield f"{kind} {getattr(item, 'name', '')!r}", item


def _check_unique(names: Sequence[str], kind: str, owner: str) -> None:
    doubles = sorted({name for name in names if names.count(name) > 1})
    if doubles:
        raise InvalidMechanism(f"{owner}: two {kind} entries are named {doubles[0]!r}; names must be unique")
    if GROUND in names:
        raise InvalidMechanism(f"{owner}: no {kind} can be named {GROUND!r}")


@cache
def _hints(kind: type) -> dict[str, Any]:
    """What the fields of a kind of item hold; worked out once, as that takes longer than all the checks."""
    return get_type_hints(kind)


def _check_choices(item: Any, where: str) -> None:
    """Fields that take one of a few words."""
    for name, hint in _hints(item.__class__).items():
        words = get_args(hint)
        if words and all(isinstance(word, str) for word in words) and getattr(item, name) not in words:
            raise InvalidMechanism(f"{where}: {name} is {getattr(item, name)!r}; it must be one of {', '.join(words)}")


def _check_numbers(item: Any, where: str) -> None:
    hints = _hints(item.__class__)
    for field in dataclasses.fields(item):
        _check_shape(getattr(item, field.name), hints[field.name], f"{where}: {field.name}")
        for number in _numbers(getattr(item, field.name)):
            if not math.isfinite(number):
                raise InvalidMechanism(f"{where}: {field.name} holds {number}; numbers must be finite")


def _check_shape(value: Any, hint: Any, where: str) -> None:
    """Numbers are numbers, and a vector has three of them."""
    if hint == Vector3:
        if isinstance(value, str) or not hasattr(value, "__len__") or len(value) != 3:
            raise InvalidMechanism(f"{where} is {value!r}; it must be three numbers")
        for entry in value:
            _check_shape(entry, float, where)
    elif get_origin(hint) is tuple and isinstance(value, tuple):
        kinds = get_args(hint)
        repeated = kinds[-1] is Ellipsis
        for index, entry in enumerate(value):
            _check_shape(entry, kinds[0] if repeated else kinds[min(index, len(kinds) - 1)], where)
    elif (hint is float or float in get_args(hint)) and not isinstance(value, Tunable | Captured | numbers.Real | None):
        raise InvalidMechanism(f"{where} is {value!r}; it must be a number")


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, Tunable | Captured):
        yield value.value
    elif isinstance(value, int | float):
        yield value
    elif isinstance(value, tuple):
        for entry in value:
            yield from _numbers(entry)


def _check_names(item: Any, mechanism: Mechanism, where: str) -> None:
    """Bodies and joints that an item speaks of."""
    bodies = [body.name for body in mechanism.bodies]
    spoken = [getattr(item, name) for name in BODY_FIELDS if hasattr(item, name)]
    if isinstance(item, SpinRelation):
        spoken += [term[0] for term in item.terms]
    for name in spoken:
        if name not in (*bodies, GROUND):
            raise UnknownName(where, "body", name, bodies)
    if getattr(item, "joint", ""):
        moving = [joint.name for joint in mechanism.moving_joints]
        if item.joint not in moving:
            raise UnknownName(where, "moving joint", item.joint, moving)


def _check_body(body: Body, where: str) -> None:
    if value_of(body.mass) < 0.0:
        raise InvalidMechanism(f"{where}: mass is {value_of(body.mass)} kg; it must not be negative")
    if len(body.inertia) != 6:
        raise InvalidMechanism(
            f"{where}: inertia has {len(body.inertia)} numbers; it takes Ixx, Iyy, Izz, Ixy, Ixz, Iyz"
        )
    if any(value_of(moment) < 0.0 for moment in body.inertia[:3]):
        raise InvalidMechanism(
            f"{where}: a moment of inertia is negative: {tuple(map(value_of, body.inertia[:3]))} kg m2"
        )
    known = COORDINATES[body.orientation]
    for name in body.free or ():
        if name not in known:
            raise UnknownName(where, "coordinate", name, known)
    if body.placement and len(body.placement) != len(known):
        raise InvalidMechanism(f"{where}: placement has {len(body.placement)} numbers for {', '.join(known)}")


def _check_joint(joint: Joint, where: str) -> None:
    if joint.child == joint.parent:
        raise InvalidMechanism(f"{where}: parent and child are both {joint.child!r}")
    if abs(sum(c * c for c in joint.axis) - 1.0) > 1e-12:
        raise InvalidMechanism(f"{where}: axis is {joint.axis}; it must have length 1")
    if joint.lower is not None and joint.upper is not None and joint.lower > joint.upper:
        raise InvalidMechanism(f"{where}: its lower limit {joint.lower} lies above its upper one {joint.upper}")
    _check_damping(joint.damping, "N s/m" if joint.kind == "prismatic" else "N m s", where)


def _check_damping(damping: Any, unit: str, where: str) -> None:
    """Less than none drives what it should brake, faster and faster, until the run is destroyed."""
    if value_of(damping) < 0.0:
        called = f" ({damping.name})" if isinstance(damping, Tunable) else ""
        raise InvalidMechanism(f"{where}: damping{called} is {value_of(damping)} {unit}; it must not be negative")


def _check_actuator(actuator: Actuator, where: str) -> None:
    for name in ("effort_limit", "velocity_limit"):
        limit = getattr(actuator, name)
        if limit is not None and not limit > 0.0:
            raise InvalidMechanism(f"{where}: {name} is {limit}; it must be above 0, or None for no limit")
    if actuator.servo is None:
        return
    for name, least in (("stiffness", "above 0"), ("damping", "at least 0")):
        gain = getattr(actuator.servo, name)
        if not (math.isfinite(gain) and (gain > 0.0 or (gain == 0.0 and name == "damping"))):
            raise InvalidMechanism(f"{where}: servo {name} is {gain}; it must be a number {least}")


def _check_not_negative(item: Any, names: Sequence[str], where: str) -> None:
    for name in names:
        if value_of(getattr(item, name)) < 0.0:
            raise InvalidMechanism(f"{where}: {name} is {value_of(getattr(item, name))}; it must not be negative")


def _check_inert(mechanism: Mechanism, owner: str) -> None:
    """Every coordinate moves some mass or inertia, or its acceleration would be anything."""
    if mechanism.coordinates == "absolute":
        for body in mechanism.bodies:
            for name in body.free_coordinates:
                _require_inert(name in ("x", "y", "z"), [body], f"{owner}: body {body.name!r}", f"coordinate {name!r}")
        return
    for joint in mechanism.moving_joints:
        moved = _carried_by(mechanism, joint.child)
        where = f"{owner}: body {joint.child!r}"
        _require_inert(joint.kind == "prismatic", moved, where, f"joint {joint.name!r}, with all that hangs on it,")


def _require_inert(translates: bool, bodies: Sequence[Body], where: str, what: str) -> None:
    mass = sum(value_of(body.mass) for body in bodies)
    if translates and mass == 0.0:
        raise InvalidMechanism(f"{where}: mass is 0, and {what} moves nothing else; it needs a mass")
    planar = len(bodies) == 1 and what.startswith("coordinate") and bodies[0].orientation == "planar"
    inertia = sum(value_of(moment) for body in bodies for moment in body.inertia[2 if planar else 0 : 3])
    lever = any(value_of(body.mass) > 0.0 and (len(bodies) > 1 or any(body.center_of_mass)) for body in bodies)
    if not translates and inertia == 0.0 and not lever:
        raise InvalidMechanism(f"{where}: inertia is 0, and {what} turns nothing else; it needs an inertia")


def _carried_by(mechanism: Mechanism, name: str) -> list[Body]:
    """A body and all that hang on it in the tree of joints."""
    carried = [name]
    for parent in carried:
        carried += [joint.child for joint in mechanism.joints if joint.parent == parent and joint.child not in carried]
    return [body for body in mechanism.bodies if body.name in carried]


def _check_arrows(mechanism: Mechanism, owner: str) -> None:
    outputs = [name for output in mechanism.outputs for name in names_of(output)]
    for arrow in mechanism.arrows:
        where = f"{owner}: arrow {arrow.name!r}"
        for name in arrow.outputs:
            if name not in outputs:
                raise UnknownName(where, "output", name, outputs)
        if len(arrow.outputs) != len(arrow.axes):
            raise InvalidMechanism(f"{where}: {len(arrow.axes)} axes for {len(arrow.outputs)} outputs; one each")


def _check_start(mechanism: Mechanism, owner: str) -> None:
    n = coordinate_count(mechanism)
    for name in ("initial_q", "initial_v"):
        given = getattr(mechanism, name)
        if len(given) != n:
            raise InvalidMechanism(f"{owner}: {name} has {len(given)} numbers; its coordinates are {n}")
        for number in given:
            _check_shape(number, float, f"{owner}: {name}")
        if not all(math.isfinite(number) for number in given):
            raise InvalidMechanism(f"{owner}: {name} is {given}; numbers must be finite")


def check_bounds(owner: str, tunable: Tunable, value: float) -> None:
    """Refuse, by an InvalidRequest that names what may be, a tunable's value outside of its bounds."""
    if tunable.least <= value <= tunable.most:
        return
    unit = f" {tunable.unit}" if tunable.unit not in ("", "1") else ""
    upto = f" to {tunable.most:.6g}{unit}" if math.isfinite(tunable.most) else f"{unit} on"
    raise InvalidRequest(
        f"{owner}: {tunable.name} is {value:g}{unit}; while it runs, "
        + (f"from {tunable.least:.6g}{upto}" if math.isfinite(tunable.least) else f"up to {tunable.most:.6g}{unit}")
        + " is feasible"
    )


def tuned(mechanism: Mechanism, values: Mapping[str, float]) -> Mechanism:
    """The mechanism with these values of tunables, by name; the others keep theirs."""
    holders = ("bodies", "joints", "springs", "beams", "constraints", "guards")
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
