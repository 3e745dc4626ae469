"""Checks of custom forces: the names of their parameters, points and states, and the results of their laws."""

from __future__ import annotations

from sim_core.errors import InvalidMechanism
from sim_core.mechanism.custom_forces import law_key
from sim_core.mechanism.description import Mechanism


def check_forces(mechanism: Mechanism, owner: str) -> None:
    """Raise InvalidMechanism or UnknownName for the first custom force with an invalid name or result."""
    for force in mechanism.forces:
        where = f"{owner}: force {force.name!r}"
        names = [name for name, _ in (*force.parameters, *force.states)] + [point.name for point in force.points]
        if double := [name for name in names if names.count(name) > 1]:
            raise InvalidMechanism(
                f"{where}: two of the force's parameters, points and states are named {double[0]!r}; rename one"
            )
        joints = {joint.name for joint in mechanism.joints}
        if double := [name for name in names if name in joints]:
            raise InvalidMechanism(
                f"{where}: a parameter, point or state is named {double[0]!r}, like a joint; rename the parameter, "
                "point or state"
            )
        if force.states and "partitioned" in mechanism.formulation:
            raise InvalidMechanism(
                f"{where}: states of a force need the formulation 'schur' or 'augmented', not {mechanism.formulation!r}"
            )
        law_key(force, mechanism)
