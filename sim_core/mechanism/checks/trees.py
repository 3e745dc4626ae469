"""Check that the joints of a mechanism in joint coordinates form a tree, each joint listed after its parent."""

from __future__ import annotations

from sim_core.errors import InvalidMechanism
from sim_core.mechanism.description import GROUND, Mechanism


def check_tree(mechanism: Mechanism, owner: str) -> None:
    """Raise InvalidMechanism, in one line, for a loop, a joint before its parent, or a body without a joint."""
    known = {GROUND}
    for joint in mechanism.joints:
        if joint.child in known:
            raise InvalidMechanism(
                f"{owner}: joint {joint.name!r} closes a loop at {joint.child!r}; a constraint must do that"
            )
        if joint.parent not in known:
            raise InvalidMechanism(f"{owner}: joint {joint.name!r} has the parent {joint.parent!r}, listed after it")
        known.add(joint.child)
    missing = [body.name for body in mechanism.bodies if body.name not in known]
    if missing:
        raise InvalidMechanism(f"{owner}: no joint moves {missing}")
