"""Checks of a description's outputs and of the arrows that viewers draw for them; each error is one line."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sim_core.errors import InvalidMechanism, UnknownName
from sim_core.mechanism.beams import ContactForceOutput, DeflectionOutput
from sim_core.mechanism.checks.types import refuse
from sim_core.mechanism.constraints import BeamContact, Constraint, JointRelation, PrescribedMotion, Rolling, Touching
from sim_core.mechanism.description import Joint, Mechanism, SpinRelation
from sim_core.mechanism.inertias import carried_by
from sim_core.mechanism.outputs import (
    ForceOutput,
    ForceTorqueOutput,
    HoldingOutput,
    JointOutput,
    ReactionOutput,
    SurfaceForceOutput,
    names_of,
)
from sim_core.mechanism.rolling import SlipOutput


def check_outputs(mechanism: Mechanism, owner: str) -> None:
    """Raise InvalidMechanism, or UnknownName for an unknown name, for the first output that cannot be computed."""
    touching = [c.name for c in mechanism.constraints if isinstance(c, BeamContact | Touching)]
    rolling = [c.name for c in mechanism.constraints if isinstance(c, Rolling)]
    related = [c.name for c in mechanism.constraints if isinstance(c, JointRelation | PrescribedMotion)]
    beams = {beam.name: beam for beam in mechanism.beams}
    acting = [c for c in mechanism.constraints if isinstance(c, SpinRelation | BeamContact)]
    driven = {actuator.joint for actuator in mechanism.actuators}
    constraints = {constraint.name: constraint for constraint in mechanism.constraints}
    known: dict[type, tuple[str, str, Collection[str]]] = {  # {class: (field, noun, names that the field may have)}
        JointOutput: ("joint", "moving joint", mechanism.moving_joint_names),
        ForceTorqueOutput: ("joint", "joint", mechanism.joint_names),
        ReactionOutput: ("constraint", "constraint", dict.fromkeys(related)),
        HoldingOutput: ("constraint", "constraint", dict.fromkeys(mechanism.switchable)),
        SurfaceForceOutput: ("contact", "contact", {contact.name: contact for contact in mechanism.contacts}),
        ContactForceOutput: ("contact", "contact", dict.fromkeys(touching)),
        SlipOutput: ("constraint", "rolling wheel", dict.fromkeys(rolling)),
        DeflectionOutput: ("beam", "beam", beams),
    }
    for output in mechanism.outputs:
        where = f"{owner}: output {output.name!r}"
        field, noun, names = known.get(type(output), ("name", "", [output.name]))
        if (given := getattr(output, field)) not in names:
            raise UnknownName(where, noun, given, names)
        axes = getattr(output, "axes", "x")
        if not axes or {*axes} - {*"xyz"}:
            refuse(where, f"field 'axes' is {axes!r}; it must consist of the letters x, y and z")
        if isinstance(output, ForceOutput):
            if not output.constraints:
                refuse(where, "field 'constraints' is empty; name at least one constraint")
            check_at_points(constraints, output.constraints, where)
        elif isinstance(output, DeflectionOutput) and not 0.0 <= output.x <= (length := beams[output.beam].length):
            refuse(where, f"x is {output.x} m; it must lie on the beam, in 0 .. {length} m")
        elif isinstance(output, ForceTorqueOutput):
            _check_across(mechanism, output, acting, driven, where)
    _check_arrows(mechanism, owner)


def check_at_points(known: Mapping[str, Constraint], names: tuple[str, ...], where: str) -> None:
    """Raise InvalidMechanism or UnknownName unless `names` are constraints that act on one point of a body.

    known  {name: constraint} of all constraints
    """
    for name in names:
        if name not in known:
            raise UnknownName(where, "constraint", name, known)
        if not known[name].acts_on_point:
            raise InvalidMechanism(
                f"{where}: constraint {name!r} is no Anchored, BeamContact or ChainContact, which act on one point of "
                f"a body; name one of {[each for each in known if known[each].acts_on_point]}"
            )


def _check_arrows(mechanism: Mechanism, owner: str) -> None:
    outputs = dict.fromkeys(name for output in mechanism.outputs for name in names_of(output))
    for arrow in mechanism.arrows:
        where = f"{owner}: arrow {arrow.name!r}"
        for name in arrow.outputs:
            if name not in outputs:
                raise UnknownName(where, "output", name, outputs)
        if len(arrow.outputs) != len(arrow.axes):
            raise InvalidMechanism(
                f"{where}: the number of axes is {len(arrow.axes)}, and the number of outputs is {len(arrow.outputs)}; "
                "give one axis per output"
            )


def _check_across(
    mechanism: Mechanism,
    output: ForceTorqueOutput,
    acting: Sequence[SpinRelation | BeamContact],
    driven: Collection[str],
    where: str,
) -> None:
    """Raise InvalidMechanism if efforts act on what a joint carries that a force-torque output cannot include.

    acting  all constraints that act on bodies and not between them
    driven  names of the joints with actuators
    """
    carried = {*carried_by(mechanism, mechanism.joint(output.joint).child)}
    for joint in (joint for body in carried for joint in mechanism.joints_at[body]):
        crosses = not {joint.parent, joint.child} <= carried and joint.name != output.joint
        if crosses and (joint.name in driven or _may_transmit_efforts(mechanism, joint)):
            raise InvalidMechanism(
                f"{where} measures joint {output.joint!r}, but the load that it carries also passes through joint "
                f"{joint.name!r}, which is not passive (actuator, spring, damping, load, friction, stops, armature or "
                f"custom force); measure another joint, or make joint {joint.name!r} passive"
            )
    for constraint in acting:
        terms = constraint.terms if isinstance(constraint, SpinRelation) else ((constraint.body,),)
        bodies = [term[0] for term in terms]
        if any(body in carried for body in bodies):
            raise InvalidMechanism(
                f"{where}: constraint {constraint.name!r} ({type(constraint).__name__}) acts on a body that joint "
                f"{output.joint!r} carries, and a force-torque output cannot include such forces; measure another joint"
            )


def _may_transmit_efforts(mechanism: Mechanism, joint: Joint) -> bool:
    """Whether a joint without actuator may transmit efforts other than constraint forces, such as those of a spring.

    The result is True for every joint of a mechanism with a custom force, because this force may act on any joint.
    """
    parts = any(part is not None for part in (joint.spring, joint.friction, joint.stops))
    return (
        bool(mechanism.forces) or parts or any(number != 0.0 for number in (joint.damping, joint.load, joint.armature))
    )
