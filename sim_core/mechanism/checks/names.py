"""Checks that the names in a description are unique and usable; lists the names of its coordinates."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sim_core.errors import InvalidMechanism
from sim_core.mechanism.constraints import BeamContact
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
    _refuse_double(mechanism.coordinate_names, f"{owner}: two coordinates are named", "rename a joint, body or beam")
    if mechanism.has_body_coordinates:
        norms = [f"{body.name}.norm" for body in mechanism.bodies if body.has_euler_parameters]
        rows = [*[joint.name for joint in mechanism.joints], *norms, *[each.name for each in mechanism.constraints]]
        _refuse_double(rows, f"{owner}: two of its joints and constraints are named", "rename one")
    _refuse_double(mechanism.pushable, f"{owner}: two entries of pushable are named", "name each body once")
    _refuse_double(mechanism.parameter_names, f"{owner}: two parameters are named", "rename a tunable or constraint")


def items_of(mechanism: Mechanism, owner: str) -> Iterator[tuple[str, Any]]:
    """Yield (label, item) for every item of the description: its bodies, joints, constraints and so on."""
    for field in dataclasses.fields(mechanism):
        group = getattr(mechanism, field.name)
        kind = NAMED.get(field.name, field.name.removesuffix("s"))
        for index, item in enumerate(group if isinstance(group, tuple) else ()):
            if dataclasses.is_dataclass(item):
                yield f"{owner}: {kind} {getattr(item, 'name', index)!r}", item


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
