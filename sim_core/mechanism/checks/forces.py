"""Checks of custom forces: names that the law reads and returns, and the size of what it returns."""

from __future__ import annotations

from sim_core.errors import InvalidMechanism
from sim_core.mechanism.custom_forces import law_key
from sim_core.mechanism.description import Mechanism


def check_forces(mechanism: Mechanism, owner: str) -> None:
    """Raise InvalidMechanism or UnknownName, in one line, for the first invalid name or size in a custom force."""
    for force in mechanism.forces:
        where = f"{owner}: force {force.name!r}"
        names = [name for name, _ in (*force.parameters, *force.states)] + [point.name for point in force.points]
        if double := [name for name in names if names.count(name) > 1]:
            raise InvalidMechanism(f"{where}: two of its parameters, points and states are named {double[0]!r}")
        joints = {joint.name for joint in mechanism.joints}
        if double := [name for name in names if name in joints]:
            raise InvalidMechanism(f"{where}: {double[0]!r} is a joint's name; rename its parameter, point or state")
        if force.states and "partitioned" in mechanism.formulation:
            raise InvalidMechanism(
                f"{where}: its states need the formulation 'schur' or 'augmented', not {mechanism.formulation!r}"
            )
        law_key(force, mechanism)
