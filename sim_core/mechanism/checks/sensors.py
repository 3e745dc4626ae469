"""Checks of sensors."""

from __future__ import annotations

from sim_core.errors import InvalidMechanism, UnknownName
from sim_core.mechanism.beams import BeamContact
from sim_core.mechanism.description import Mechanism, SpinRelation
from sim_core.mechanism.sensors import AccelerometerOutput, ForceTorqueOutput, GyroscopeOutput


def check_sensors(mechanism: Mechanism, owner: str) -> None:
    """Raise InvalidMechanism, in one line, for the first sensor that cannot be computed."""
    for output in mechanism.outputs:
        if not isinstance(output, AccelerometerOutput | GyroscopeOutput | ForceTorqueOutput):
            continue
        where = f"{owner}: output {output.name!r}"
        if not isinstance(output, GyroscopeOutput) and "partitioned" in mechanism.formulation:
            raise InvalidMechanism(
                f"{where} is a sensor of accelerations or forces; it needs the formulation 'schur' or 'augmented', not "
                f"{mechanism.formulation!r}"
            )
        if isinstance(output, ForceTorqueOutput):
            names = [joint.name for joint in mechanism.joints]
            if output.joint not in names:
                raise UnknownName(where, "joint", output.joint, names)
            _check_across(mechanism, output, where)


def carried_by(mechanism: Mechanism, body: str) -> tuple[str, ...]:
    """Names of a body and of all bodies that the body carries in the tree of joints."""
    carried = [body]
    for parent in carried:
        carried += [joint.child for joint in mechanism.joints if joint.parent == parent and joint.child not in carried]
    return tuple(carried)


def _check_across(mechanism: Mechanism, output: ForceTorqueOutput, where: str) -> None:
    carried = carried_by(mechanism, mechanism.joint(output.joint).child)
    for joint in mechanism.joints:
        if joint.name != output.joint and (joint.parent in carried) != (joint.child in carried):
            raise InvalidMechanism(
                f"{where} measures joint {output.joint!r}, but joint {joint.name!r} connects the same bodies to the "
                "rest too; a force-torque output needs a joint that carries its bodies alone"
            )
    for constraint in mechanism.constraints:
        bodies = [term[0] for term in constraint.terms] if isinstance(constraint, SpinRelation) else []
        bodies += [constraint.body] if isinstance(constraint, BeamContact) else []
        if any(body in carried for body in bodies):
            raise InvalidMechanism(
                f"{where}: constraint {constraint.name!r}, a {type(constraint).__name__}, acts on what joint "
                f"{output.joint!r} carries; force-torque outputs do not know its forces"
            )
