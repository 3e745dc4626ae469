"""Checks of the armature, spring, dry friction and stops of each joint; error messages have one line."""

from __future__ import annotations

from typing import Any

from sim_core.errors import InvalidMechanism
from sim_core.mechanism.description import Joint, JointFriction, JointStops, Mechanism
from sim_core.mechanism.quantities import Tunable, value_of

EXPONENTS = (1.0, 1.5, 2.0)


def check_joint_parts(mechanism: Mechanism, owner: str) -> None:
    """Raise InvalidMechanism with a one-line message for the first impossible armature, spring, friction or stop."""
    for joint in mechanism.joints:
        where = f"{owner}: joint {joint.name!r}"
        require_least(joint, ("armature",), 0.0, "kg" if joint.kind == "prismatic" else "kg m2", where)
        parts = [name for name in ("spring", "friction", "stops") if getattr(joint, name) is not None]
        parts += ["armature"] if joint.armature != 0.0 else []
        if joint.kind == "fixed" and parts:
            raise InvalidMechanism(
                f"{where} is fixed, so that it can have no {' and no '.join(parts)}; remove these parts"
            )
        if joint.spring is not None:
            require_least(joint.spring, ("stiffness", "cubic"), 0.0, "", f"{where}: spring")
        if joint.friction is not None:
            _check_friction(joint.friction, f"{where}: friction")
            if joint.bristle and "partitioned" in mechanism.formulation:
                raise InvalidMechanism(
                    f"{where}: friction with bristles needs the formulation 'schur' or 'augmented', not "
                    f"{mechanism.formulation!r}"
                )
        if joint.stops is not None:
            _check_stops(joint, joint.stops, where)


def _check_friction(friction: JointFriction, where: str) -> None:
    require_least(friction, ("coulomb", "bristle_damping"), 0.0, "", where)
    speeds = ("stribeck_velocity", "smoothing_velocity", "relaxation_rate")
    require_above(friction, (*speeds, "bristle_stiffness"), where)
    if friction.static is not None and value_of(friction.static) < value_of(friction.coulomb):
        raise InvalidMechanism(
            f"{where}: static is {value_of(friction.static)}; it must be at least {value_of(friction.coulomb)}, the "
            "value of coulomb"
        )
    if friction.bristle_stiffness is not None and value_of(friction.coulomb) == 0.0:
        raise InvalidMechanism(f"{where}: coulomb is 0; friction with bristles needs a value above 0")
    if not 0.0 < friction.elastic_share < 1.0:
        raise InvalidMechanism(f"{where}: elastic_share is {friction.elastic_share}; it must lie between 0 and 1")


def _check_stops(joint: Joint, stops: JointStops, where: str) -> None:
    if joint.lower is None and joint.upper is None:
        raise InvalidMechanism(f"{where}: the joint has stops but neither a lower nor an upper limit; give it a limit")
    require_above(stops, ("stiffness",), f"{where}: stops")
    require_least(stops, ("dissipation",), 0.0, "", f"{where}: stops")
    if stops.exponent not in (*EXPONENTS, 3.0):
        raise InvalidMechanism(f"{where}: stops: exponent is {stops.exponent}; it must be 1, 1.5, 2 or 3")


def require_least(item: Any, names: tuple[str, ...], least: float, unit: str, where: str) -> None:
    """Raise InvalidMechanism for the first of the item's fields `names` whose value is below `least`.

    least  lowest permitted value; the error message is written for 0, "it must not be negative"
    unit   unit of the fields, for the error message; "" if they have different units
    where  label of the mechanism and the item, which begins the error message
    """
    for name in names:
        if (value := value_of(getattr(item, name))) < least:
            called = _called(getattr(item, name))
            raise InvalidMechanism(
                f"{where}: {name}{called} is {value:g}{unit and f' {unit}'}; it must not be negative"
            )


def require_above(item: Any, names: tuple[str, ...], where: str) -> None:
    """Raise InvalidMechanism for the first of the item's fields `names` whose value is 0 or negative.

    A field that is None is not checked.

    where  label of the mechanism and the item, which begins the error message
    """
    for name in names:
        if getattr(item, name) is not None and not value_of(getattr(item, name)) > 0.0:
            called = _called(getattr(item, name))
            raise InvalidMechanism(f"{where}: {name}{called} is {value_of(getattr(item, name)):g}; it must be above 0")


def _called(number: object) -> str:
    return f" ({number.name})" if isinstance(number, Tunable) else ""
