"""Checks that find constraint rows, joints and guards that no coordinate affects, and coordinates without inertia.

A constraint row whose value does not depend on any coordinate is left out of the equations of motion. The functions
of this module check that the value of such a row is zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np

from sim_core.derivation.constraints import all_constraints
from sim_core.derivation.symbols import Frames, Motion, Symbols
from sim_core.errors import InvalidMechanism, UnknownName
from sim_core.mechanism.checks.inertias import singular_mass
from sim_core.mechanism.constraints import BeamContact, Constraint, Rolling
from sim_core.mechanism.description import Mechanism, PrescribedMotion
from sim_core.mechanism.guards import Crossing, Guard, Pushed
from sim_core.mechanism.outputs import ForceOutput, ReactionOutput
from sim_core.mechanism.quantities import CapturedParameter, Tunable
from sim_core.start import ROUNDING

SAMPLES = 3  # random positions at which a row's derivative is evaluated
STILL = 1e-12  # a row's derivatives below it are rounding


@dataclass(frozen=True)
class ImmovableRows:
    """Constraints with constant rows. A row is constant if its value does not depend on any coordinate.

    idle           names of the constraints whose rows are all constant
    captured_rows  (constraint, value) of each constant row with a CapturedParameter; the row is zero if this parameter
                   has this value
    """

    idle: list[str]
    captured_rows: list[tuple[str, float]]


def check_movable(mechanism: Mechanism, symbols: Symbols, motion: Motion, rates: ca.SX) -> ImmovableRows:
    """Return the constraint rows that are constant: their values do not depend on any coordinate.

    Raises InvalidMechanism for a constant row that is not zero, for a joint that no coordinate moves, for a guard that
    can never fire, and for a singular mass matrix.

    rates  velocities (n_joints,) of the declared joints
    """
    _check_inertia(mechanism, symbols, motion)
    still = _check_rows(mechanism, motion.frames, symbols)
    _check_joints(mechanism, rates, symbols)
    _check_guards(mechanism, motion.frames, symbols)
    return still


def _check_rows(mechanism: Mechanism, frames: Frames, symbols: Symbols) -> ImmovableRows:
    """Return the constraint rows that are constant; raise InvalidMechanism if one of these rows is not zero."""
    constraints = [c for c in all_constraints(mechanism) if not isinstance(c, BeamContact)]
    rows = [(c, row) for c in constraints for row in ca.vertsplit(ca.SX(c.rows(frames, symbols)))]
    still = _still(mechanism, [row for _, row in rows], [c.is_nonholonomic for c, _ in rows], symbols)
    return judged_rows(
        mechanism,
        [
            RestingRow(c, rests, _value(mechanism, row, symbols) if rests else 0.0, c.rows_are_lengths(symbols))
            for (c, row), rests in zip(rows, still, strict=True)
        ],
    )


@dataclass(frozen=True)
class RestingRow:
    """A constraint row, whether no coordinate moves it, and the value that it then has."""

    constraint: Constraint
    rests: bool
    value: float
    is_length: bool


def judged_rows(mechanism: Mechanism, rows: Sequence[RestingRow]) -> ImmovableRows:
    """Return the constraints whose rows are constant; raise InvalidMechanism if such a row is not zero."""
    owner = f"mechanism {mechanism.name!r}"
    captured: list[tuple[str, float]] = []
    moved = {row.constraint.name for row in rows if not row.rests}
    for row in rows:
        constraint = row.constraint
        if row.rests and isinstance(constraint, PrescribedMotion):
            what = (
                f"joint {constraint.joint!r}"
                if constraint.joint
                else f"the point {constraint.point} of body {constraint.body!r} along {constraint.axis}"
            )
            raise InvalidMechanism(
                f"{owner}: constraint {constraint.name!r} prescribes the motion of {what}, which no coordinate moves; "
                "choose another joint, point or axis"
            )
        if row.rests and isinstance(constraint, Rolling):
            raise InvalidMechanism(
                f"{owner}: constraint {constraint.name!r} blocks a slip that the joints of {constraint.body!r} block "
                "already, so that its force is unknown; free the joints, or give `rollers` for a single free row"
            )
        if not row.rests or constraint.is_nonholonomic or not _held(mechanism, constraint.name):
            continue
        number = getattr(constraint, "at", 0.0)
        if isinstance(number, Tunable):
            raise InvalidMechanism(
                f"{owner}: constraint {constraint.name!r} cannot have the Tunable {number.name!r} as its position, "
                "because no coordinate moves the constraint's point along the axis; give a constant position"
            )
        if isinstance(number, CapturedParameter):
            captured.append((constraint.name, row.value + number.value))
        elif not abs(row.value) <= ROUNDING * max(1.0, mechanism.characteristic_length):
            unit = " m" if row.is_length else ""
            joint = any(joint.name == constraint.name for joint in mechanism.joints)
            what = "joint" if joint and mechanism.has_body_coordinates else "constraint"
            raise InvalidMechanism(
                f"{owner}: {what} {constraint.name!r} cannot hold: one of its rows is {row.value:.6g}{unit} wherever "
                "the bodies are, because no coordinate changes the row; change the points or positions such that the "
                "row is 0"
            )
    own = [c.name for c in mechanism.constraints if not isinstance(c, BeamContact)]
    idle = [name for name in own if name not in moved]
    _check_forces(mechanism, idle, owner)
    return ImmovableRows(idle, captured)


def _still(mechanism: Mechanism, rows: list[ca.SX], by_rate: Sequence[bool], symbols: Symbols) -> list[bool]:
    """Whether each row is independent of all coordinates q or, where `by_rate` is true, of all velocities v.

    by_rate  for each row, True to test the velocities, False to test the coordinates
    """
    found = []
    derivatives = [ca.jacobian(row, symbols.v if by else symbols.q) for row, by in zip(rows, by_rate, strict=True)]
    sizes = [_size(derivative) for derivative in derivatives]
    if not rows:
        return []
    sampled = _sampled(mechanism, ca.vertcat(*sizes), symbols)
    least = STILL * max(1.0, mechanism.characteristic_length)
    for derivative, size in zip(derivatives, sampled, strict=True):
        found.append(derivative.nnz() == 0 or bool(size <= least))
    return found


def _size(derivative: ca.SX) -> ca.SX:
    return ca.sqrt(ca.sumsqr(derivative.nz[:])) if derivative.nnz() else ca.SX(0)


def _sampled(mechanism: Mechanism, expression: ca.SX, symbols: Symbols) -> np.ndarray:
    """Largest value (n,) of each entry of an expression in a few random states, which are drawn with a fixed seed."""
    function = ca.Function("sampled", _inputs(symbols), [ca.densify(expression)])
    draw, numbers = np.random.default_rng(1), _parameters(mechanism)
    n = symbols.q.numel()
    places = [(draw.uniform(-1.0, 1.0, n), draw.uniform(-1.0, 1.0, n)) for _ in range(SAMPLES)]
    values = [np.array(function(0.0, q, v, np.zeros(symbols.u.numel()), numbers)).ravel() for q, v in places]
    return np.asarray(np.max(np.nan_to_num(np.array(values), nan=np.inf), axis=0))


def _inputs(symbols: Symbols) -> list[ca.SX]:
    return [symbols.t, symbols.q, symbols.v, symbols.u, symbols.p]


def _parameters(mechanism: Mechanism) -> list[float]:
    return list(mechanism.parameter_values(mechanism.start_constraint_mode))


def _value(mechanism: Mechanism, row: ca.SX, symbols: Symbols) -> float:
    """Value of a constant constraint row."""
    function = ca.Function("value", _inputs(symbols), [row])
    q, v = np.zeros(symbols.q.numel()), np.zeros(symbols.v.numel())
    start = list(mechanism.reference_q or mechanism.initial_q)
    if len(start) == len(q):
        q[:] = start
    return float(function(0.0, q, v, np.zeros(symbols.u.numel()), _parameters(mechanism)))


def _held(mechanism: Mechanism, name: str) -> bool:
    """Whether the constraint with this name is active in at least one constraint mode.

    True for the unit-norm constraints of quaternions, which are active in every mode.
    """
    lists = [constraint_mode.constraints for constraint_mode in mechanism.constraint_modes]
    return name.endswith(".norm") or any(held is None or name in held for held in lists)


def _check_forces(mechanism: Mechanism, idle: Sequence[str], owner: str) -> None:
    """Raise InvalidMechanism for an output or a guard's condition that reads the force of an idle constraint.

    idle  names of the constraints whose rows are all constant
    """
    asked = [(f"output {one.name!r}", one.constraints) for one in mechanism.outputs if isinstance(one, ForceOutput)]
    asked += [(f"output {o.name!r}", (o.constraint,)) for o in mechanism.outputs if isinstance(o, ReactionOutput)]
    for guard in mechanism.guards:
        if isinstance(guard, Guard):
            asked += [(f"guard {guard.name!r}", one.constraints) for one in guard.conditions if isinstance(one, Pushed)]
    for where, names in asked:
        for name in names:
            if name in idle:
                raise InvalidMechanism(
                    f"{owner}: {where}: constraint {name!r} has no force, because no coordinate changes its row; "
                    "remove the constraint from this output or guard"
                )


def _check_joints(mechanism: Mechanism, rates: ca.SX, symbols: Symbols) -> None:
    """Raise InvalidMechanism for a joint that none of the free coordinates moves."""
    if not mechanism.moving_joints or not mechanism.has_body_coordinates:
        return
    sizes = [_size(ca.jacobian(rate, symbols.v)) for rate in ca.vertsplit(rates)]
    for joint, size in zip(mechanism.moving_joints, _sampled(mechanism, ca.vertcat(*sizes), symbols), strict=True):
        if size <= STILL:
            raise InvalidMechanism(
                f"mechanism {mechanism.name!r}: joint {joint.name!r} cannot move: none of the free coordinates of "
                f"{joint.parent!r} and {joint.child!r} moves the joint; free one that does, or remove the joint"
            )


def _check_guards(mechanism: Mechanism, frames: Frames, symbols: Symbols) -> None:
    """Raise InvalidMechanism for a Crossing whose point cannot move along the Crossing's axis."""
    for guard in mechanism.guards:
        if not isinstance(guard, Crossing):
            continue
        if guard.body not in frames:
            raise UnknownName(f"mechanism {mechanism.name!r}: guard {guard.name!r}", "body", guard.body, frames)
        along = ca.dot(ca.DM(guard.axis), frames[guard.body].point(guard.point))
        if _still(mechanism, [along], [False], symbols)[0]:
            raise InvalidMechanism(
                f"mechanism {mechanism.name!r}: guard {guard.name!r} can never fire: no coordinate moves its point on "
                f"{guard.body!r} along {guard.axis}; choose another point or axis, or remove the guard"
            )


def _check_inertia(mechanism: Mechanism, symbols: Symbols, motion: Motion) -> None:
    """Raise InvalidMechanism if the mass matrix is singular at the start, so that a coordinate moves no inertia."""
    start = mechanism.reference_q or mechanism.initial_q
    if len(start) != symbols.q.numel():
        return  # partitioned formulation: initial_q lacks the eliminated coordinate
    inputs = [symbols.q, symbols.p]
    M = ca.Function("M", inputs, [ca.densify(symbols.lifted.written_out(motion.M))])(start, _parameters(mechanism))
    names = motion.coordinate_names
    if line := singular_mass(mechanism, names, np.array(M), start):
        raise InvalidMechanism(line)
