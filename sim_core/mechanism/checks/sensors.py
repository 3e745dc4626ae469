"""Checks of the sensors in a description, and names of the bodies that a joint carries."""

from __future__ import annotations

from sim_core.errors import InvalidMechanism, UnknownName
from sim_core.mechanism.beams import BeamContact
from sim_core.mechanism.description import Joint, Mechanism, SpinRelation
from sim_core.mechanism.sensors import AccelerometerOutput, ForceTorqueOutput, GyroscopeOutput


def check_sensors(mechanism: Mechanism, owner: str) -> None:
    """Raise InvalidMechanism with a one-line message for the first sensor that cannot be computed."""
    for output in mechanism.outputs:
        if not isinstance(output, AccelerometerOutput | GyroscopeOutput | ForceTorqueOutput):
            continue
        where = f"{owner}: output {output.name!r}"
        if not isinstance(output, GyroscopeOutput) and "partitioned" in mechanism.formulation:
            raise InvalidMechanism(
                f"{where} is a sensor of accelerations or forces, which needs the formulation 'schur' or 'augmented', "
                f"not {mechanism.formulation!r}"
            )
        if isinstance(output, ForceTorqueOutput):
            names = [joint.name for joint in mechanism.joints]
            if output.joint not in names:
                raise UnknownName(where, "joint", output.joint, names)
            _check_across(mechanism, output, where)


def carried_by(mechanism: Mechanism, body: str) -> tuple[str, ...]:
    """Names of a body and of all its descendants in the tree of joints."""
    carried = [body]
    for parent in carried:
        carried += [joint.child for joint in mechanism.joints if joint.parent == parent and joint.child not in carried]
    return tuple(carried)


def _check_across(mechanism: Mechanism, output: ForceTorqueOutput, where: str) -> None:
    carried = carried_by(mechanism, mechanism.joint(output.joint).child)
    for joint in mechanism.joints:
        crosses = (joint.parent in carried) != (joint.child in carried)
        if crosses and joint.name != output.joint and _may_transmit_efforts(mechanism, joint):
            raise InvalidMechanism(
                f"{where} measures joint {output.joint!r}, but the load that it carries also passes through joint "
                f"{joint.name!r}, which is not passive (actuator, spring, damping, load, friction, stops, armature or "
                f"custom force); measure another joint, or make joint {joint.name!r} passive"
            )
    for constraint in mechanism.constraints:
        bodies = [term[0] for term in constraint.terms] if isinstance(constraint, SpinRelation) else []
        bodies += [constraint.body] if isinstance(constraint, BeamContact) else []
        if any(body in carried for body in bodies):
            raise InvalidMechanism(
                f"{where}: constraint {constraint.name!r} ({type(constraint).__name__}) acts on a body that joint "
                f"{output.joint!r} carries, and a force-torque output cannot include such forces; measure another joint"
            )


def _may_transmit_efforts(mechanism: Mechanism, joint: Joint) -> bool:
    """Whether a joint may transmit efforts other than constraint forces, such as those of an actuator or spring.

    The result is True for every joint of a mechanism with a custom force, because this force may act on any joint.
    """
    driven = any(actuator.joint == joint.name for actuator in mechanism.actuators) or bool(mechanism.forces)
    parts = any(part is not None for part in (joint.spring, joint.friction, joint.stops))
    return driven or parts or any(number != 0.0 for number in (joint.damping, joint.load, joint.armature))
