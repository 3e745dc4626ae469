"""Checks of constraint modes, guards and the constraints that guards switch; each error is one line."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from sim_core.errors import InvalidMechanism, UnknownName
from sim_core.mechanism.checks.outputs import check_at_points
from sim_core.mechanism.constraints import Constraint, Rolling
from sim_core.mechanism.description import GROUND, Mechanism
from sim_core.mechanism.guards import (
    SWITCHING_FIELDS,
    Beyond,
    Commanded,
    Condition,
    Crossing,
    Guard,
    OfSlip,
    Pushed,
    Sinking,
    Window,
)

ROUNDING = 1e-9


def check_changes(mechanism: Mechanism, owner: str) -> None:
    """Raise InvalidMechanism, or UnknownName for an unknown name, at the first error in a constraint mode or guard."""
    names = dict.fromkeys(constraint_mode.name for constraint_mode in mechanism.constraint_modes)
    switchable = dict.fromkeys(mechanism.switchable)
    constraints = {constraint.name: constraint for constraint in mechanism.constraints}
    if mechanism.start:
        _require(owner, "constraint mode", [mechanism.start], names)
    for constraint_mode in mechanism.constraint_modes:
        where = f"{owner}: constraint mode {constraint_mode.name!r}"
        _require(where, "constraint", constraint_mode.constraints or (), switchable)
    for guard in mechanism.guards:
        where = f"{owner}: guard {guard.name!r}"
        _require(where, "constraint mode", filter(None, (guard.source, guard.target)), names)
        _check_switches(guard, switchable, where)
        _check_captured(mechanism, constraints, guard.captures, where)
        if isinstance(guard, Guard):
            if not guard.conditions:
                raise InvalidMechanism(f"{where} has no conditions; it needs at least one")
            for condition in guard.conditions:
                _check_condition(mechanism, constraints, condition, where)


def check_captured_rows(mechanism: Mechanism, rows: Iterable[tuple[str, float]]) -> None:
    """Raise InvalidMechanism if a constraint with a CapturedParameter cannot hold at the start.

    A constraint cannot hold if no coordinate moves its point, and the CapturedParameter differs from the position of
    the point.

    rows  (name of the constraint, position of its point, m) of each constraint whose point no coordinate moves
    """
    kept = mechanism.constraint_modes[mechanism.start_constraint_mode].constraints
    for name, wanted in rows:
        value = mechanism.captured_by(name).value
        if (kept is None or name in kept) and not abs(value - wanted) <= ROUNDING * max(1.0, abs(wanted)):
            raise InvalidMechanism(
                f"mechanism {mechanism.name!r}: constraint {name!r} cannot hold at the start: its captured position is "
                f"{value:g} m, but its point is at {wanted:g} m and cannot move; set the captured value to {wanted:g}"
            )


def _require(where: str, kind: str, requested: Iterable[str], known: Collection[str]) -> None:
    for name in requested:
        if name not in known:
            raise UnknownName(where, kind, name, known)


def _check_switches(guard: Crossing | Guard, constraints: Collection[str], where: str) -> None:
    """Raise InvalidMechanism if a guard can change nothing, or if it has a target and also switches constraints."""
    if isinstance(guard, Crossing) and guard.direction not in (-1, 0, 1):
        raise InvalidMechanism(
            f"{where}: direction is {guard.direction}; it must be -1 (falling), 0 (both) or 1 (rising)"
        )
    for name in SWITCHING_FIELDS:
        if isinstance(getattr(guard, name), str):
            raise InvalidMechanism(f"{where}: {name} is {getattr(guard, name)!r}; it must be a tuple of names")
        _require(where, "constraint", getattr(guard, name), constraints)
    engages, releases, requires, excludes = (set(getattr(guard, name)) for name in SWITCHING_FIELDS)
    if guard.target and (engages or releases):
        raise InvalidMechanism(
            f"{where} has the target {guard.target!r} and also switches {_listed(engages | releases)}; give either a "
            "source and a target, or names of constraints in the fields 'engages' and 'releases'"
        )
    if guard.target and not guard.source:
        raise InvalidMechanism(
            f"{where} has the target {guard.target!r} but no source; set the field 'source' to the constraint mode in "
            "which the guard is active"
        )
    if not guard.target and not (engages or releases or guard.captures):
        raise InvalidMechanism(
            f"{where} changes nothing; give a source and a target, or names of constraints in the field 'engages', "
            "'releases' or 'captures'"
        )
    for one, other, words in (
        (engages, releases, "engages and releases"),
        (requires, excludes, "requires and excludes"),
    ):
        if one & other:
            raise InvalidMechanism(
                f"{where} {words} constraint {_listed(one & other)}, which is a contradiction; remove this name from "
                "one of the two fields"
            )
    if not guard.target and (engages or releases) and engages <= requires and releases <= excludes:
        raise InvalidMechanism(
            f"{where} can never change anything: its fields 'requires' and 'excludes' demand that "
            f"{_listed(engages | releases)} already be on or off as the guard would switch them; change 'requires' or "
            "'excludes'"
        )


def _listed(names: set[str]) -> str:
    return ", ".join(map(repr, sorted(names)))


def _check_captured(mechanism: Mechanism, known: Mapping[str, Constraint], names: Iterable[str], where: str) -> None:
    _require(where, "constraint", names, known)
    for name in names:
        mechanism.captured_by(name)


def _check_condition(mechanism: Mechanism, known: Mapping[str, Constraint], condition: Condition, where: str) -> None:
    """Raise InvalidMechanism or UnknownName for an invalid condition of a guard.

    known  {name: constraint} of all constraints
    """
    if isinstance(condition, Commanded):
        _require(where, "actuator", [condition.actuator], mechanism.actuator_names)
        if condition.above is None and condition.upto is None:
            raise InvalidMechanism(
                f"{where}: the condition on actuator {condition.actuator!r} has no threshold; give `above` or `upto`"
            )
        if condition.above is not None and condition.upto is not None and condition.above >= condition.upto:
            raise InvalidMechanism(
                f"{where}: the condition on actuator {condition.actuator!r} is above {condition.above:g} and upto "
                f"{condition.upto:g}, which no value satisfies; `above` must be less than `upto`"
            )
    elif isinstance(condition, Window):
        if not condition.aims:
            raise InvalidMechanism(f"{where}: the guard's Window has no aims; give at least one Aim")
        _check_captured(mechanism, known, [aim.constraint for aim in condition.aims], where)
        for aim in condition.aims:
            if aim.spacing < 0.0 or aim.count < 1:
                raise InvalidMechanism(
                    f"{where}: the Aim of constraint {aim.constraint!r} has count {aim.count} and spacing "
                    f"{aim.spacing} m; count must be at least 1, and spacing must not be negative"
                )
    elif isinstance(condition, Sinking):
        _check_captured(mechanism, known, [condition.constraint], where)
    elif isinstance(condition, Pushed):
        if not condition.constraints:
            raise InvalidMechanism(f"{where}: the guard's condition Pushed names no constraint; name at least one")
        check_at_points(known, condition.constraints, where)
    elif isinstance(condition, OfSlip):
        wheels = [each.name for each in known.values() if isinstance(each, Rolling) and each.friction is not None]
        _require(where, "wheel with friction", [condition.constraint], wheels)
    elif isinstance(condition, Beyond):
        _require(where, "body", [condition.body] if condition.body != GROUND else [], mechanism.body_names)
