"""Linear models x' = A x + B u of systems, also through closed loops, and operating points."""

from __future__ import annotations

import dataclasses
import importlib
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sim_core.analysis.discretization import step_derivatives
from sim_core.analysis.equilibria import equilibrium
from sim_core.derivatives import Derivatives
from sim_core.errors import InvalidRequest, UnknownName
from sim_core.integrators.steppers import Stepper
from sim_core.mechanism.quantities import value_of
from sim_core.simulation import Simulation
from sim_core.stabilization.stabilizers import Stabilizer
from sim_core.state import State
from sim_core.system import System, require_system

Array = np.ndarray
CLOSED = 1e-6  # violation of the constraints, in characteristic lengths or rad, up to which a state is on them
RIGID = 1e-7  # eigenvalue of a rigid-body motion: a double 0 is found up to the root of the rounding error
RANK = 1e-9  # smallest diagonal entry of R, as a share of the largest, of independent constraint rows
NEWTON_STEPS = 50
VELOCITY = ".velocity"


class Pole(NamedTuple):
    """A pole of a linear system.

    value          eigenvalue, 1/s; of a discrete system, that of the continuous system with the same motion. 0 for a
                   rigid-body motion: up to RIGID of the largest eigenvalue or of the root of the norm of A
    frequency      its absolute value, rad/s
    damping        damping ratio, -Re / | |: 1 without oscillation, negative for a growing motion
    participation  {state: share}, largest first: how much each state takes part in the mode; the shares add up to 1
    """

    value: complex
    frequency: float
    damping: float
    participation: dict[str, float]


@dataclass(frozen=True)
class LinearSystem:
    """Deviations x, u, y of a system from the point q, v, u0: x' = A x + B u + offset, y = C x + D u.

    A discrete system has x at the next step in place of x'. The rotation coordinates of spherical and free joints are
    then the rotation vector from the orientation that the joint has without deviations, before and after the step; in
    `offset`, they are the rotation within the step.

    states, inputs, outputs  names: coordinates and COORDINATE.velocity; actuators; joints, JOINT.velocity, outputs
    state_units, input_units, output_units  their units; "" for an output without a declared unit
    offset  (n_x,) x' at the point itself: 0 at an equilibrium
    basis   (2 n_q, n_x): the deviations of q and v are basis @ x; identity columns without constraints
    point   (q, v, u0)
    step_s  step of a discrete system, s; None for a continuous one
    notes   one line for each place where the derivative is that of one side
    """

    A: Array
    B: Array
    C: Array
    D: Array
    offset: Array
    states: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    state_units: tuple[str, ...]
    input_units: tuple[str, ...]
    output_units: tuple[str, ...]
    basis: Array
    point: tuple[Array, Array, Array]
    step_s: float | None = None
    notes: tuple[str, ...] = ()

    def poles(self) -> list[Pole]:
        """The poles, slowest first."""
        if not self.states:
            return []
        values, vectors = np.linalg.eig(self.A)
        left = np.linalg.pinv(vectors)
        rates = values.astype(complex) if self.step_s is None else np.log(values.astype(complex)) / self.step_s
        of_norm = 0.0 if self.step_s is not None else math.sqrt(np.linalg.norm(self.A, 2))
        rigid = RIGID * max(np.abs(rates).max(), of_norm)
        found = []
        for k, value in enumerate(rates):
            s = 0j if abs(value) <= rigid else complex(value)
            size = np.abs(vectors[:, k] * left[k, :])
            shares = sorted(zip(self.states, (size / size.sum()).tolist(), strict=True), key=lambda item: -item[1])
            found.append(Pole(s, abs(s), -s.real / abs(s) if s else 1.0, dict(shares)))
        return sorted(found, key=lambda pole: (pole.frequency, pole.value.real, pole.value.imag))

    def to_control(self) -> Any:
        """The system as `control.StateSpace` of the library python-control, with names, without the offset."""
        try:
            control = importlib.import_module("control")
        except ModuleNotFoundError:
            raise InvalidRequest(
                "to_control needs the library python-control; install it: pip install control"
            ) from None
        step = () if self.step_s is None else (self.step_s,)
        names = {"states": list(self.states), "inputs": list(self.inputs), "outputs": list(self.outputs)}
        return control.ss(self.A, self.B, self.C, self.D, *step, **names)

    def __repr__(self) -> str:
        kind = "continuous" if self.step_s is None else f"discrete, {1e3 * self.step_s:g} ms"
        sizes = f"{len(self.states)} states, {len(self.inputs)} inputs, {len(self.outputs)} outputs"
        return f"<LinearSystem, {kind}: {sizes}>"


class OperatingPoint(NamedTuple):
    """A state at rest with the efforts that hold it.

    q, v        coordinates and velocities (n_q,); the velocities are 0
    u           (n_u,) efforts; of all efforts that hold the state equally well, those of least norm
    residual    (n_q,) generalized forces, N or N m, that remain: 0 at an equilibrium
    null_space  (n_u, n) changes of the efforts that only stress the loops
    """

    q: Array
    v: Array
    u: Array
    residual: Array
    null_space: Array


def operating_point(system: System, near: Any = None, u: Any = None) -> OperatingPoint:
    """The state at rest near the coordinates `near`, with the efforts that hold it.

    near  (n_q,) coordinates, or {coordinate: value}; by default the start. They are moved onto the constraints, where
          named coordinates keep their values
    u     (n_u,) given efforts: then the coordinates are those of an equilibrium under these efforts

    Raises InvalidRequest if the loops cannot be closed, or if there is no equilibrium nearby.
    """
    require_system(system)
    rest = np.zeros(system.n_q)
    q = closed(system, near)
    if u is not None:
        q = equilibrium(system, q, u)
    given = np.zeros(system.n_u) if u is None else np.array(u, dtype=float)
    at = system.derivatives(0.0, q, rest, given)
    f, J = _forces(system, q, given)
    K = np.hstack([at.f_u, -J.T]) if u is None else -J.T
    found = np.linalg.lstsq(K, -f, rcond=None)[0] if K.shape[1] else np.zeros(0)
    if u is not None:
        return OperatingPoint(q, rest, given, f + K @ found, np.zeros((system.n_u, 0)))
    return OperatingPoint(q, rest, found[: system.n_u], f + K @ found, _unseen(K, system.n_u))


def _forces(system: System, q: Array, u: Array) -> tuple[Array, Array]:
    _, f, J, _ = system.terms(0.0, q, np.zeros(system.n_q), u)
    return f, J


def _unseen(K: Array, n_u: int) -> Array:
    """Orthonormal columns (n_u, n): changes of the first n_u unknowns that K x does not show, others adapting."""
    if not K.size:
        return np.eye(n_u)
    _, sizes, rows = np.linalg.svd(K)
    rank = int((sizes > RANK * sizes.max(initial=0.0)).sum())
    efforts = rows[rank:, :n_u].T
    left, sizes, _ = np.linalg.svd(efforts, full_matrices=False)
    return left[:, sizes > RANK]


def closed(system: System, near: Any = None, kept: Collection[str] = ()) -> Array:
    """Coordinates (n_q,) on the holonomic constraints near `near`, which is as for `operating_point`.

    kept  names of further coordinates that keep their values
    """
    names = system.coordinate_names
    q = np.array(system.mechanism.initial_q, dtype=float)
    held = np.array([name in kept for name in names], dtype=bool)
    if isinstance(near, Mapping):
        for name, value in near.items():
            owner = f"robot {system.mechanism.name!r}"
            if name not in names and name in system.joint_names and not system.mechanism.has_joint_coordinates:
                raise InvalidRequest(
                    f"{owner}: {name!r} is a joint, and the coordinates are those of bodies, such as {names[0]!r}; "
                    "build the robot with coordinates='joint' to give positions of joints"
                )
            if name not in names:
                raise UnknownName(owner, "coordinate", name, names)
            k = names.index(name)
            q[k], held[k] = float(value), True
    elif near is not None:
        q = system.with_states("q", np.array(near, dtype=float).reshape(-1)).copy()
    if q.shape != (system.n_q,) or not np.isfinite(q).all():
        raise InvalidRequest(
            f"for {system.mechanism.name!r} give {system.n_q} finite coordinates, in the order {', '.join(names)}"
        )
    rest, free = np.zeros(system.n_q), ~held
    for _ in range(NEWTON_STEPS):
        Phi = system.residual(0.0, q, rest)[0]
        if np.abs(Phi).max(initial=0.0) <= 1e-14 * max(1.0, system.mechanism.characteristic_length):
            break
        J = system.terms(0.0, q, rest)[2][: len(Phi)]
        q[free] -= np.linalg.lstsq(J[:, free], Phi, rcond=1e-10)[0]
    _require_closed(system, q)
    return q


def _require_closed(system: System, q: Array, p: Array | None = None, mode: int | None = None) -> None:
    Phi = np.abs(system.residual(0.0, q, np.zeros(system.n_q), p, mode)[0])
    if not Phi.max(initial=0.0) <= CLOSED * max(1.0, system.mechanism.characteristic_length):
        row = system.constraint_modes[0].row_names[int(np.nan_to_num(Phi, nan=np.inf).argmax())]
        raise InvalidRequest(
            f"the state of {system.mechanism.name!r} is off its constraints, by {Phi.max():.3g} at {row!r}; give a "
            "state of a simulation, or coordinates of operating_point(system, near)"
        )


def linearize(
    system: System,
    at: Any = None,
    u: Any = None,
    outputs: Sequence[str] | None = None,
    step_s: float | None = None,
    coordinates: str = "minimal",
    stepper: str | Stepper = "rk4",
    stabilizer: str | Stabilizer = "sampled_fuzzy",
) -> LinearSystem:
    """The linear model of a system at a state, with exact derivatives.

    at           State, (q, v), coordinates (n_q,) or {coordinate: value} at rest; by default the start at rest
    u            (n_u,) efforts at the point; by default those of the State, otherwise those of the start
    outputs      names of joints, JOINT.velocity and outputs of the mechanism; by default all joints' positions
    step_s       step of a simulation, s: the system is the discrete one of this step with inputs held over it
    coordinates  "minimal": the states are independent coordinates and their velocities, and the loops stay closed;
                 "all": A is (2 n_q, 2 n_q) in the order q, v, without regard to the constraints
    stepper, stabilizer  those of the step: "rk4", "dopri5", "semi_implicit" or "implicit_midpoint"; "none", "baumgarte"
                 or "sampled_fuzzy"

    With constraints, the deviations are dq = N z and dv = N w - P d(J v)/dq N z, where z and w are those of the
    independent coordinates and velocities, and P solves the constraint rows for the others.

    Raises InvalidRequest for a state off the constraints, and for an actuator that commands a velocity.
    """
    require_system(system)
    if coordinates not in ("minimal", "all"):
        raise InvalidRequest(f"coordinates is {coordinates!r}; it must be 'minimal' or 'all'")
    q, v, u0, p, mode = _point(system, at, u)
    _require_closed(system, q, p, mode)
    found = system.derivatives(0.0, q, v, u0, p, None, mode)
    if np.abs(found.rate_u).max(initial=0.0) > 0.0:
        k = int(np.abs(found.rate_u).max(axis=0).argmax())
        name = system.mechanism.actuators[k].name
        raise InvalidRequest(
            f"actuator {name!r} commands a velocity, whose changes are impulses: there is no linear model with it as "
            "an input; command the effort, or linearize the robot without the prescribed motion"
        )
    states, basis, inverse = (_all_states if coordinates == "all" else _minimal)(system, found)
    n = system.n_q
    if step_s is None:
        whole = np.block([[np.zeros((n, n)), np.eye(n)], [found.a_q, found.a_v]])
        by_u, ahead = np.vstack([np.zeros((n, system.n_u)), found.a_u]), np.concatenate([v, found.a])
    else:
        state = _state(system, at, q, v, u0, p, mode)
        step = step_derivatives(system, state, step_s, stepper, stabilizer)
        whole, by_u, ahead = step.by_x, step.by_u, step.x - np.concatenate([q, v])
    A, B = inverse @ whole @ basis, inverse @ by_u
    wanted = list(system.joint_names) if outputs is None else list(outputs)
    C, D = _measured(system, wanted, found)
    inputs = tuple(actuator.name for actuator in system.mechanism.actuators)
    return LinearSystem(
        A, B, C @ basis, D,
        offset=inverse @ ahead,
        states=states,
        inputs=inputs,
        outputs=tuple(wanted),
        state_units=_units(system, states),
        input_units=tuple(actuator.unit for actuator in system.mechanism.actuators),
        output_units=_units(system, wanted),
        basis=basis,
        point=(q, v, u0),
        step_s=step_s,
        notes=tuple(_kinks(system, q, v, p)),
    )  # fmt: skip


def _point(system: System, at: Any, u: Any) -> tuple[Array, Array, Array, Array, int | None]:
    """(q, v, u, p, constraint mode) of the arguments of `linearize`."""
    v, p, mode = np.zeros(system.n_q), system.default_parameters(), None
    for state in system.mechanism.first_order_states:
        v[system.coordinate_names.index(state.name)] = state.start
    given = system.start_inputs
    if isinstance(at, State):
        q, v, given, p = at.q.copy(), at.v.copy(), at.u.copy(), at.p.copy()
        mode = at.constraint_mode if at.constraint_mode >= 0 else None
    elif isinstance(at, tuple) and len(at) == 2:
        q = system.with_states("q", np.array(at[0], dtype=float))
        v = system.with_states("v", np.array(at[1], dtype=float))
    elif at is None or isinstance(at, Mapping):
        q = closed(system, at)
    else:
        q = system.with_states("q", np.array(at, dtype=float))
    u0 = given if u is None else np.array(u, dtype=float)
    for name, array, size in (("q", q, system.n_q), ("v", v, system.n_q), ("u", u0, system.n_u)):
        if array.shape != (size,) or not np.isfinite(array).all():
            raise InvalidRequest(
                f"{name} has shape {array.shape}; for {system.mechanism.name!r} give {size} finite numbers"
            )
    return q, v, u0, p, mode


def _state(system: System, at: Any, q: Array, v: Array, u: Array, p: Array, mode: int | None) -> State:
    """State of a simulation at the point."""
    if isinstance(at, State):
        return dataclasses.replace(at, u=u)
    start = Simulation(system).snapshot()
    return dataclasses.replace(start, q=q, v=v, u=u, p=p)


def _all_states(system: System, found: Derivatives) -> tuple[tuple[str, ...], Array, Array]:
    names = system.coordinate_names
    return (*names, *(name + VELOCITY for name in names)), np.eye(2 * len(names)), np.eye(2 * len(names))


def _minimal(system: System, found: Derivatives) -> tuple[tuple[str, ...], Array, Array]:
    """(names of the states, basis (2 n_q, n_x), inverse (n_x, 2 n_q)) with independent coordinates as states.

    `inverse` selects the states among the coordinates and velocities.
    """
    n, names = system.n_q, system.coordinate_names
    first_order = {state.name for state in system.mechanism.first_order_states}
    places = [k for k in range(n) if names[k] not in first_order]
    free_q, N_q, _ = _independent(found.Phi_q, places, n)
    free_v, N_v, P = _independent(found.rate_v, [*range(n)], n)
    basis = np.zeros((2 * n, len(free_q) + len(free_v)))
    basis[:n, : len(free_q)], basis[n:, len(free_q) :] = N_q, N_v
    basis[n:, : len(free_q)] = -P @ (found.rate_q @ N_q)
    inverse = np.zeros((basis.shape[1], 2 * n))
    inverse[range(len(inverse)), [*free_q, *(n + k for k in free_v)]] = 1.0
    states = [names[k] for k in free_q] + [names[k] + ("" if names[k] in first_order else VELOCITY) for k in free_v]
    return tuple(states), basis, inverse


def _independent(J: Array, places: list[int], n: int) -> tuple[list[int], Array, Array]:
    """(independent columns, N (n, n_free), P (n, n_rows)) of the rows J x = r: x = N z + P r with the free entries z.

    places  columns of J that may be chosen; the others stay 0
    """
    from scipy.linalg import qr

    sizes = np.linalg.norm(J, axis=1)
    rows = np.flatnonzero(sizes > 0.0)
    P = np.zeros((n, len(J)))
    if not len(rows):
        N = np.zeros((n, len(places)))
        N[places, range(len(places))] = 1.0
        return list(places), N, P
    scaled = J[rows][:, places] / sizes[rows, None]
    _, R, order = qr(scaled, mode="economic", pivoting=True)
    diagonal = np.abs(np.diag(R))
    rank = int((diagonal > RANK * diagonal[0]).sum())
    bound = np.sort(np.array(places)[order[:rank]])
    free = [k for k in places if k not in bound]
    solver = np.linalg.pinv(J[rows][:, bound] / sizes[rows, None], rcond=RANK)
    N = np.zeros((n, len(free)))
    N[free, range(len(free))] = 1.0
    N[bound] = -solver @ (J[rows][:, free] / sizes[rows, None])
    P[np.ix_(bound, rows)] = solver / sizes[rows]
    return free, N, P


def _measured(system: System, names: Sequence[str], found: Derivatives) -> tuple[Array, Array]:
    """(C (n_y, 2 n_q), D (n_y, n_u)) of the named outputs, by q and v, and by u."""
    joints, outputs = list(system.joint_names), list(system.output_names)
    C, D = np.zeros((len(names), 2 * system.n_q)), np.zeros((len(names), system.n_u))
    for row, name in enumerate(names):
        if name in outputs:
            kind, k = "output", outputs.index(name)
        elif name.removesuffix(VELOCITY) in joints:
            kind = "velocity" if name.endswith(VELOCITY) else "position"
            k = joints.index(name.removesuffix(VELOCITY))
        else:
            known = [*outputs, *joints, *(joint + VELOCITY for joint in joints)]
            raise UnknownName(f"robot {system.mechanism.name!r}", "output", name, known)
        C[row] = np.concatenate([found.by[kind, "q"][k], found.by[kind, "v"][k]])
        D[row] = found.by[kind, "u"][k]
    return C, D


def _units(system: System, names: Sequence[str]) -> tuple[str, ...]:
    """Units of states or outputs."""
    mechanism = system.mechanism
    lengths = {joint.name for joint in mechanism.moving_joints if joint.is_length}
    declared = {state.name: "" for state in mechanism.first_order_states}
    declared |= {output.name: getattr(output, "unit", "") for output in mechanism.outputs}
    units = []
    for name in names:
        base = name.removesuffix(VELOCITY)
        unit = "m" if base in lengths or base.endswith((".x", ".y", ".z")) else "rad"
        units.append(declared.get(name, unit if base == name else f"{unit}/s"))
    return tuple(units)


def _kinks(system: System, q: Array, v: Array, p: Array) -> Iterator[str]:
    """One line for each joint at a stop or at rest under friction, where the derivative is that of one side."""
    position, velocity = system.joints(0.0, q, v, p)
    for k, joint in enumerate(system.mechanism.moving_joints):
        limits = [None if limit is None else value_of(limit) for limit in (joint.lower, joint.upper)]
        for side, limit in zip(("lower", "upper"), limits, strict=True):
            if joint.stops is not None and limit is not None and abs(position[k] - limit) < 1e-9:
                yield f"joint {joint.name!r} touches its {side} stop: the derivatives are those inside its limits"
        if joint.friction is not None and velocity[k] == 0.0:
            yield f"joint {joint.name!r} is at rest under friction: the derivatives are those of sticking friction"
    for joint in system.mechanism.oriented_joints:
        places = [system.coordinate_names.index(name) for name in joint.coordinates]
        if joint.friction is not None and not v[places].all():
            yield f"joint {joint.name!r} is at rest under friction: the derivatives are those of sticking friction"
