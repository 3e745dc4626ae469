"""Checks for constraint rows, joints and guards that no coordinate affects, and for coordinates without inertia.

Rows that no coordinate changes are left out of the equations of motion; their values are checked here instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np

from sim_core.derivation.constraints import all_constraints, is_length, is_nonholonomic, rows_of
from sim_core.derivation.symbols import Frames, Motion, Symbols
from sim_core.errors import InvalidMechanism, UnknownName
from sim_core.mechanism.beams import BeamContact
from sim_core.mechanism.checks.masses import singular_mass
from sim_core.mechanism.description import Mechanism
from sim_core.mechanism.guards import Crossing, Guard, Pushed
from sim_core.mechanism.outputs import ForceOutput
from sim_core.mechanism.quantities import CapturedParameter, Tunable
from sim_core.start import ROUNDING

SAMPLES = 3  # random positions at which a row's derivative is evaluated
STILL = 1e-12  # a row's derivatives below it are rounding


@dataclass(frozen=True)
class ImmovableRows:
    """Constraints with rows that no coordinate changes.

    idle           names of constraints that have no other rows
    captured_rows  (constraint, value): rows that only a CapturedParameter changes, and its value that makes them zero
    """

    idle: list[str]
    captured_rows: list[tuple[str, float]]


def check_movable(mechanism: Mechanism, symbols: Symbols, motion: Motion, rates: ca.SX) -> ImmovableRows:
    """Return the rows that no coordinate changes; raise InvalidMechanism for an error.

    Errors are such a row that is not zero, a joint that no coordinate moves, a guard that never fires, and a singular
    mass matrix.
    rates  velocities (n_joints,) of the declared joints
    """
    _check_inertia(mechanism, symbols, motion)
    still = _check_rows(mechanism, motion.frames, symbols)
    _check_joints(mechanism, rates, symbols)
    _check_guards(mechanism, motion.frames, symbols)
    return still


def _check_rows(mechanism: Mechanism, frames: Frames, symbols: Symbols) -> ImmovableRows:
    """Return the rows that no coordinate changes; raise InvalidMechanism if one of them is not zero."""
    owner = f"mechanism {mechanism.name!r}"
    constraints = [c for c in all_constraints(mechanism) if not isinstance(c, BeamContact)]
    rows = [(c, row) for c in constraints for row in ca.vertsplit(rows_of(c, frames, symbols))]
    still = _still(mechanism, [row for _, row in rows], [is_nonholonomic(c) for c, _ in rows], symbols)
    captured: list[tuple[str, float]] = []
    moved = {c.name for (c, _), rests in zip(rows, still, strict=True) if not rests}
    for (constraint, row), rests in zip(rows, still, strict=True):
        if not rests or is_nonholonomic(constraint) or not _held(mechanism, constraint.name):
            continue
        number = getattr(constraint, "at", 0.0)
        if isinstance(number, Tunable):
            raise InvalidMechanism(
                f"{owner}: constraint {constraint.name!r} cannot be tuned by {number.name!r}: no coordinate moves "
                "its point along its axis; use a constant"
            )
        value = _value(mechanism, row, symbols)
        if isinstance(number, CapturedParameter):
            captured.append((constraint.name, value + number.value))
        elif not abs(value) <= ROUNDING * max(1.0, mechanism.characteristic_length):
            unit = " m" if is_length(constraint, symbols) else ""
            joint = any(joint.name == constraint.name for joint in mechanism.joints)
            what = "joint" if joint and mechanism.coordinates == "absolute" else "constraint"
            raise InvalidMechanism(
                f"{owner}: {what} {constraint.name!r} cannot hold: one of its rows is {value:.6g}{unit} wherever the "
                "bodies are, because no coordinate changes it; it must be 0"
            )
    own = [c.name for c in mechanism.constraints if not isinstance(c, BeamContact)]
    idle = [name for name in own if name not in moved]
    _check_forces(mechanism, idle, owner)
    return ImmovableRows(idle, captured)


def _still(mechanism: Mechanism, rows: list[ca.SX], by_rate: Sequence[bool], symbols: Symbols) -> list[bool]:
    """Whether each row is independent of the coordinates, or of the velocities where `by_rate` is true."""
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
    """Largest value of each entry of an expression over random states with a fixed seed, (n,)."""
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
    """Value of a constraint row that no coordinate changes."""
    function = ca.Function("value", _inputs(symbols), [row])
    q, v = np.zeros(symbols.q.numel()), np.zeros(symbols.v.numel())
    start = list(mechanism.reference_q or mechanism.initial_q)
    if len(start) == len(q):
        q[:] = start
    return float(function(0.0, q, v, np.zeros(symbols.u.numel()), _parameters(mechanism)))


def _held(mechanism: Mechanism, name: str) -> bool:
    """Whether some constraint mode contains the constraint with this name."""
    lists = [constraint_mode.constraints for constraint_mode in mechanism.constraint_modes]
    return name.endswith(".norm") or any(held is None or name in held for held in lists)


def _check_forces(mechanism: Mechanism, idle: Sequence[str], owner: str) -> None:
    """Raise InvalidMechanism for an output or condition on the force of a constraint whose rows no coordinate changes.

    idle  names of these constraints
    """
    asked = [(f"output {one.name!r}", one.constraints) for one in mechanism.outputs if isinstance(one, ForceOutput)]
    for guard in mechanism.guards:
        if isinstance(guard, Guard):
            asked += [(f"guard {guard.name!r}", one.constraints) for one in guard.conditions if isinstance(one, Pushed)]
    for where, names in asked:
        for name in names:
            if name in idle:
                raise InvalidMechanism(
                    f"{owner}: {where}: constraint {name!r} has no force, because no coordinate changes its row; "
                    "remove its name here"
                )


def _check_joints(mechanism: Mechanism, rates: ca.SX, symbols: Symbols) -> None:
    """Raise InvalidMechanism for a joint that none of the free coordinates moves."""
    if not mechanism.moving_joints or mechanism.coordinates != "absolute":
        return
    sizes = [_size(ca.jacobian(rate, symbols.v)) for rate in ca.vertsplit(rates)]
    for joint, size in zip(mechanism.moving_joints, _sampled(mechanism, ca.vertcat(*sizes), symbols), strict=True):
        if size <= STILL:
            raise InvalidMechanism(
                f"mechanism {mechanism.name!r}: joint {joint.name!r} cannot move: none of the free coordinates of "
                f"{joint.parent!r} and {joint.child!r} moves it"
            )


def _check_guards(mechanism: Mechanism, frames: Frames, symbols: Symbols) -> None:
    """Raise InvalidMechanism for a Crossing whose point no coordinate moves along the guard's axis."""
    for guard in mechanism.guards:
        if not isinstance(guard, Crossing):
            continue
        if guard.body not in frames:
            raise UnknownName(f"mechanism {mechanism.name!r}: guard {guard.name!r}", "body", guard.body, frames)
        along = ca.dot(ca.DM(guard.axis), frames[guard.body].point(guard.point))
        if _still(mechanism, [along], [False], symbols)[0]:
            raise InvalidMechanism(
                f"mechanism {mechanism.name!r}: guard {guard.name!r} can never fire: no coordinate moves its point of "
                f"{guard.body!r} along {guard.axis}"
            )


def _check_inertia(mechanism: Mechanism, symbols: Symbols, motion: Motion) -> None:
    """Raise InvalidMechanism if the mass matrix is singular at the start: a coordinate moves no mass and no inertia."""
    start = mechanism.reference_q or mechanism.initial_q
    if len(start) != symbols.q.numel():
        return  # partitioned formulation: initial_q lacks the eliminated coordinate
    inputs = [symbols.q, symbols.p]
    M = ca.Function("M", inputs, [ca.densify(symbols.lifted.written_out(motion.M))])(start, _parameters(mechanism))
    names = motion.coordinate_names
    if line := singular_mass(mechanism, names, np.array(M), start):
        raise InvalidMechanism(line)
