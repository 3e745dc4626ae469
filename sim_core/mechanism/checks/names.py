"""Checks that the names in a description are unique and usable; lists the names of its coordinates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from sim_core.errors import InvalidMechanism
from sim_core.mechanism.beams import Beam, BeamContact
from sim_core.mechanism.description import GROUND, Mechanism
from sim_core.mechanism.outputs import names_of

IN_KERNELS = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
NAMED = {
    "bodies": "body",
    "joints": "joint",
    "constraints": "constraint",
    "springs": "spring",
    "beams": "beam",
    "contacts": "contact",
    "forces": "force",
    "actuators": "actuator",
    "constraint_modes": "constraint mode",
    "guards": "guard",
    "arrows": "arrow",
}


def check_unique(mechanism: Mechanism, owner: str) -> None:
    """Raise InvalidMechanism with a one-line message for the first invalid name in a description.

    A name is invalid if it is used twice or is the name of the ground. The names of constraint modes and beam contacts
    become part of the names of compiled kernels, and may therefore contain certain characters only.
    """
    for group, kind in NAMED.items():
        names = [item.name for item in getattr(mechanism, group)]
        if double := _first_double(names):
            raise InvalidMechanism(f"{owner}: two {kind} entries are named {double!r}; names must be unique")
        if GROUND in names:
            raise InvalidMechanism(
                f"{owner}: no {kind} can be named {GROUND!r}, because the ground has this name; choose another name"
            )
    contacts = [f"_{one.name}" for one in mechanism.constraints if isinstance(one, BeamContact)]
    for name in (*[one.name for one in mechanism.constraint_modes], *contacts):
        if not IN_KERNELS.fullmatch(name):
            raise InvalidMechanism(
                f"{owner}: {name.removeprefix('_')!r} is not a valid name of a constraint mode or beam contact; use "
                "ASCII letters, digits, - and _ only, and do not begin with a digit"
            )
    outputs = [name for output in mechanism.outputs for name in names_of(output)]
    _refuse_double(outputs, f"{owner}: two outputs are named", "rename one of their outputs")
    coordinates = coordinate_names(mechanism)
    _refuse_double(coordinates, f"{owner}: two coordinates are named", "rename a joint, body or beam")
    if mechanism.coordinates == "absolute":
        norms = [f"{body.name}.norm" for body in mechanism.bodies if body.orientation == "euler_parameters"]
        rows = [*[joint.name for joint in mechanism.joints], *norms, *[each.name for each in mechanism.constraints]]
        _refuse_double(rows, f"{owner}: two of its joints and constraints are named", "rename one")
    _refuse_double(mechanism.pushable, f"{owner}: two entries of pushable are named", "name each body once")
    _refuse_double(mechanism.parameter_names, f"{owner}: two parameters are named", "rename a tunable or constraint")


def coordinate_names(mechanism: Mechanism) -> list[str]:
    """Names of the coordinates of a mechanism, in order.

    The list also has coordinates that are not free: those of beam nodes that the supports fix, and the coordinate that
    a "partitioned" formulation eliminates.
    """
    if mechanism.coordinates == "absolute":
        names = [f"{body.name}.{each}" for body in mechanism.bodies for each in body.free_coordinates]
    elif mechanism.coordinates == "absolute_angle":
        names = [f"{joint.child}.angle" for joint in mechanism.moving_joints]
    else:
        names = [name for joint in mechanism.joints for name in joint.coordinates]
    names += [state.name for state in mechanism.first_order_states]
    return [*names, *[name for beam in mechanism.beams for name in _of_beam(beam)]]


def _of_beam(beam: Beam) -> list[str]:
    if beam.modes:
        return [f"{beam.name}.mode{k + 1}" for k in range(beam.modes)]
    nodes = range(beam.elements + 1)
    return [f"{beam.name}.{kind}{node}" for node in nodes for kind in ("w", "slope")]


def _first_double(names: Sequence[str]) -> str:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return ""


def _refuse_double(names: Iterable[str], line: str, remedy: str) -> None:
    if double := _first_double([*names]):
        raise InvalidMechanism(f"{line} {double!r}: {remedy}")
