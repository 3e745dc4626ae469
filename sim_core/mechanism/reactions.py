"""Reaction forces and torques of joints as outputs of a mechanism."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sim_core.errors import UnknownName
from sim_core.mechanism.checks.outputs import check_outputs
from sim_core.mechanism.description import Mechanism
from sim_core.mechanism.outputs import ForceTorqueOutput


def with_reactions(mechanism: Mechanism, joints: Sequence[str] | None = None) -> Mechanism:
    """The mechanism with the force and torque at joints as further outputs.

    The outputs of a joint J are reaction_J_fx, _fy, _fz (N) and reaction_J_tx, _ty, _tz (N m): the force that the
    parent exerts on the child, and its torque about the joint's point on the child, in the child's axes. The outputs
    include the efforts of the joint's actuator, spring, friction and stop; see `ForceTorqueOutput`.

    joints  names of the joints; all joints of the description if None, fixed joints included

    Raises UnknownName for a joint that the mechanism does not have, and InvalidMechanism for a joint whose reaction
    cannot be computed.
    """
    names = [joint.name for joint in mechanism.joints]
    for name in joints or ():
        if name not in names:
            raise UnknownName(f"reactions of {mechanism.name!r}", "joint", name, names)
    wanted = names if joints is None else list(dict.fromkeys(joints))
    added = tuple(ForceTorqueOutput(name=f"reaction_{name}", joint=name) for name in wanted)
    extended = replace(mechanism, outputs=(*mechanism.outputs, *added))
    check_outputs(extended, f"reactions of {mechanism.name!r}")
    return extended
