"""Another name for a body whose name the world has in the exported file."""

from __future__ import annotations

import dataclasses
from typing import Any

from sim_core.mechanism import Mechanism

WORLD = "world"  # name that MuJoCo gives to the world; a usual name of a root link in URDF
REFERENCES = ("body", "body_a", "body_b", "other", "parent", "child")  # fields of parts that name a body


def without_world(mechanism: Mechanism) -> tuple[Mechanism, list[str]]:
    """The mechanism with its body `world`, if it has one, under another name; and a note about this."""
    names = [body.name for body in mechanism.bodies]
    if WORLD not in names:
        return mechanism, []
    name = f"{WORLD}_body"
    while name in names:
        name += "_"
    note = f"body {WORLD!r} is named {name!r}, as {WORLD!r} is the name of MuJoCo's world"
    return with_body_renamed(mechanism, WORLD, name), [note]


def with_body_renamed(mechanism: Mechanism, old: str, new: str) -> Mechanism:
    """The mechanism with another name of a body, also in the joints, constraints and contacts that name it.

    Guards keep the old name: no exported file has them.
    """

    def renamed(part: Any) -> Any:
        if not dataclasses.is_dataclass(part) or isinstance(part, type):
            return part
        changes = {field: new for field in REFERENCES if getattr(part, field, None) == old}
        return dataclasses.replace(part, **changes) if changes else part

    parts = {field.name: getattr(mechanism, field.name) for field in dataclasses.fields(mechanism)}
    changed: dict[str, Any] = {
        name: tuple(map(renamed, value)) for name, value in parts.items() if isinstance(value, tuple)
    }
    changed["bodies"] = tuple(
        dataclasses.replace(body, name=new) if body.name == old else body for body in mechanism.bodies
    )
    return dataclasses.replace(mechanism, **changed)
