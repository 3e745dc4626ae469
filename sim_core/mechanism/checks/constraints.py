"""Checks of constraints, apart from the types, ranges and directions of their fields; error messages have one line."""

from __future__ import annotations

import math

from sim_core.errors import InvalidMechanism, UnknownName
from sim_core.mechanism.constraints import JointRelation, PrescribedMotion, Rolling, SpinRelation
from sim_core.mechanism.custom_forces import explained, has_nan
from sim_core.mechanism.description import GROUND, Mechanism
from sim_core.mechanism.quantities import value_of
from sim_core.mechanism.rolling import OnPlane, touching_of


def check_constraints(mechanism: Mechanism, owner: str) -> None:
    """Raise InvalidMechanism with a one-line message for the first invalid constraint."""
    for constraint in mechanism.constraints:
        where = f"{owner}: constraint {constraint.name!r}"
        if isinstance(constraint, JointRelation):
            _check_relation(constraint, mechanism, where)
        elif isinstance(constraint, PrescribedMotion):
            _check_motion(constraint, mechanism, where)
        elif isinstance(constraint, SpinRelation) and not constraint.terms:
            raise InvalidMechanism(f"{where} has no terms; give at least one")
        elif isinstance(constraint, OnPlane):
            _check_wheel(constraint, mechanism, where)


def _check_wheel(wheel: OnPlane, mechanism: Mechanism, where: str) -> None:
    if wheel.body in (wheel.other, GROUND):
        raise InvalidMechanism(
            f"{where}: the wheel is on body {wheel.body!r} and the plane on {wheel.other!r}; the wheel needs a body of "
            "its own that can move"
        )
    if isinstance(wheel, Rolling) and wheel.rollers is not None and wheel.axis is None:
        raise InvalidMechanism(
            f"{where}: rollers is {wheel.rollers:g} rad, but the constraint has no axis, as for a sphere; give the "
            "wheel's axis, or rollers=None"
        )
    if isinstance(wheel, Rolling) and abs(wheel.rollers or 0.0) > math.pi:
        raise InvalidMechanism(
            f"{where}: rollers is {wheel.rollers:g} rad; it must be from -pi to pi, such as 0.785 for 45 degrees"
        )
    if not isinstance(wheel, Rolling) or wheel.friction is None:
        return
    if wheel.load is None and touching_of(wheel, mechanism.constraints) is None:
        raise InvalidMechanism(
            f"{where}: friction is {value_of(wheel.friction):g}, but the wheel's load is unknown; add a Touching with "
            "the same body, center, radius, axis, other, other_point and normal, or give `load`"
        )
    if mechanism.beams:
        raise InvalidMechanism(f"{where}: a wheel with friction cannot slip in a mechanism with beams; leave it out")


def _check_relation(relation: JointRelation, mechanism: Mechanism, where: str) -> None:
    moving = mechanism.moving_joint_names
    names = [name for name, _ in relation.terms]
    if not names:
        raise InvalidMechanism(f"{where}: there are no terms; give at least one, such as ('elbow', 1.0)")
    for name, factor in relation.terms:
        if name not in moving:
            raise UnknownName(where, "moving joint", name, moving)
        if names.count(name) > 1:
            raise InvalidMechanism(
                f"{where}: two terms name joint {name!r}; write one term with the sum of the factors"
            )
        if factor == 0.0:
            raise InvalidMechanism(f"{where}: the factor of joint {name!r} is 0; remove this term")


def _check_motion(motion: PrescribedMotion, mechanism: Mechanism, where: str) -> None:
    if bool(motion.joint) == bool(motion.body):
        named = f"joint {motion.joint!r} and body {motion.body!r}" if motion.joint else "neither a joint nor a body"
        raise InvalidMechanism(
            f"{where}: the constraint moves {named}; set exactly one of the fields 'joint' and 'body'"
        )
    if (motion.motion is None) == (not motion.input):
        has = "both a motion and an input" if motion.input else "neither a motion nor an input"
        raise InvalidMechanism(f"{where}: the constraint has {has}; set exactly one of the fields 'motion' and 'input'")
    index = mechanism.actuator_names.get(motion.input)
    if motion.input and (index is None or mechanism.actuators[index].joint):
        inputs = [actuator.name for actuator in mechanism.actuators if not actuator.joint]
        raise UnknownName(where, "actuator without a joint", motion.input, inputs)
    if motion.motion is not None:
        _check_expression(motion, where)


def _check_expression(motion: PrescribedMotion, where: str) -> None:
    import casadi as ca  # only for mechanisms with a prescribed motion

    assert motion.motion is not None
    t = ca.SX.sym("t")
    try:
        found = motion.motion(t)
    except Exception as error:
        raise InvalidMechanism(f"{where}: {explained(error, 'motion')}") from error
    try:
        expression = ca.SX(found)
    except NotImplementedError:  # of CasADi, for a value that is no expression
        raise InvalidMechanism(
            f"{where}: motion returns a {type(found).__name__}; it must return a CasADi expression"
        ) from None
    if expression.numel() != 1:
        raise InvalidMechanism(f"{where}: motion returns {expression.numel()} entries; it must return one position")
    if strange := [symbol.name() for symbol in ca.symvar(expression) if symbol.name() != "t"]:
        raise InvalidMechanism(f"{where}: motion depends on {strange[0]!r}; it may depend on time alone")
    if has_nan(expression):
        raise InvalidMechanism(
            f"{where}: the expression that motion returns contains NaN, as functions of math give for an expression; "
            "use those of CasADi, such as casadi.sin"
        )
