"""Dynamics and kinematics of a system as functions of arrays: inverse and forward dynamics, mass matrix, poses.

Each call copies its arguments. For loops in Python, the functions `System.bind_*` work on the caller's arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim_core.arguments import as_state
from sim_core.errors import UnknownKey
from sim_core.mechanism.validation import check_tunables
from sim_core.system import System, require_system


def _column(system: System, name: str, value: Any) -> np.ndarray:
    require_system(system)
    array = system.with_states(name, as_state(f"robot {system.mechanism.name!r}", name, value))
    if array.size != system.n_q:
        takes = f"{system.mechanism.name!r} takes {system.n_q}{system.size_hint(array.size)}"
        raise ValueError(f"{name} has {array.size} entries; {takes}")
    return array


def _parameters(system: System, p: Any) -> np.ndarray | None:
    if p is None:
        return None
    array, n = as_state(f"robot {system.mechanism.name!r}", "p", p), len(system.parameter_names)
    if array.size != n:
        raise ValueError(f"p has {array.size} entries; {system.mechanism.name!r} takes {n}")
    check_tunables(system.mechanism, array)
    return array


def inverse_dynamics(system: System, q: Any, v: Any, a: Any, p: Any = None) -> np.ndarray:
    """Generalized forces tau (n_q,) that produce the accelerations a (n_q,) at coordinates q and velocities v.

    p  parameters (n_p,), as in a state: tunables, and the quaternions of spherical and free joints; by default the
       values at the start of a simulation

    The result is tau = M a - f, in N or N m along the coordinates. f contains springs, joint loads and damping, but
    neither actuators nor constraint forces: in a mechanism with loops, actuators and constraints together must exert
    tau. First-order states, such as the bristles of friction, may be left out of the arrays: they are then at their
    start values, and left out of the result. Raises ValueError for an array of a wrong size, InvalidRequest for entries
    that are not finite.
    """
    checked = [_column(system, name, value) for name, value in (("q", q), ("v", v), ("a", a))]
    n, (q, v, a) = np.size(q), checked
    tau = np.zeros(system.n_q)
    system.bind_inverse_dynamics(q, v, a, tau, _parameters(system, p))()
    return tau[:n]


def forward_dynamics(
    system: System, q: Any, v: Any, tau: Any, constraint_mode: int | None = None, p: Any = None
) -> np.ndarray:
    """Accelerations a (n_q,) under generalized forces tau (n_q,) at q, v: the inverse of `inverse_dynamics`.

    constraint_mode  index of the constraint mode, by default that at the start
    p                parameters (n_p,), by default the values at the start of a simulation. If `p` is given, the flags
                     in `p` also determine which constraints hold

    Constraints hold at the acceleration level, J a = gamma, without stabilization. First-order states may be left out,
    as in `inverse_dynamics`.
    """
    checked = [_column(system, name, value) for name, value in (("q", q), ("v", v), ("tau", tau))]
    n, (q, v, tau) = np.size(q), checked
    a = np.zeros(system.n_q)
    system.bind_forward_dynamics(q, v, tau, a, constraint_mode, _parameters(system, p))()
    return a[:n]


def mass_matrix(system: System, q: Any, p: Any = None) -> np.ndarray:
    """Symmetric mass matrix M (n_q, n_q) at q; the kinetic energy is v' M v / 2, J.

    p  parameters (n_p,), by default the values at the start of a simulation

    Entry i, j is the force along coordinate i per acceleration of coordinate j: kg, kg m or kg m2. Constraints do not
    contribute. First-order states may be left out, as in `inverse_dynamics`. Raises ValueError for q of another size,
    InvalidRequest for entries that are not finite.
    [Featherstone2008, ch. 6]
    """
    column, rest = _column(system, "q", q), np.zeros(system.n_q)
    return system.terms(0.0, column, rest, None, _parameters(system, p))[0][: np.size(q), : np.size(q)]


class Poses(dict[str, tuple[np.ndarray, np.ndarray]]):
    """{body: (position p_WB (3,), rotation R_WB (3, 3))}; an unknown body raises UnknownKey, which suggests a name."""

    def __init__(self, robot: str, poses: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
        self._robot = robot
        super().__init__(poses)

    def __missing__(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        raise UnknownKey(f"robot {self._robot!r}", "body", name, self)


def forward_kinematics(system: System, q: Any, p: Any = None) -> Poses:
    """{body: (p_WB (3,), R_WB (3, 3))} at q: origin (m) and axes of every body in the world frame.

    p  parameters (n_p,), by default the values at the start of a simulation

    An unknown body name raises UnknownKey, a KeyError; entries of q that are not finite raise InvalidRequest.
    """
    n = len(system.mechanism.bodies)
    positions, rotations = np.zeros((n, 3)), np.zeros((n, 3, 3))
    system.bind_forward_kinematics(_column(system, "q", q), positions, rotations, _parameters(system, p))()
    names = [body.name for body in system.mechanism.bodies]
    return Poses(system.mechanism.name, dict(zip(names, zip(positions, rotations, strict=True), strict=True)))


class DrivenDynamics:
    """Inverse dynamics of a mechanism with actuated and passive joints, in joint coordinates.

    Write q, v and the accelerations of the actuated joints to the arrays `q`, `v` and `a` (n_q,), then call the object.
    The call writes to `a` the accelerations of the passive joints that keep the loops closed. It writes to `tau` (n_q,)
    the efforts (N or N m) of the actuators at their joints, and 0 at all other joints. In a mechanism without loops,
    the call does not change `a`: the passive joints are assumed to have the accelerations in `a`.

    The indices i and d denote the actuated and the passive joints. The constraint equations J a = gamma and the efforts
    r = M a - f of the tree without constraints give

        J_d a_d = gamma - J_i a_i,   J_d' lam = -r_d,   tau_i = r_i + J_i' lam

    for a_d, the multipliers lam and tau_i. If the number of constraint rows differs from the number of passive joints,
    a_d and lam are the least-squares solutions.
    """

    def __init__(self, system: System, q: np.ndarray | None = None) -> None:
        mechanism = system.mechanism
        if not mechanism.has_joint_coordinates or system.n_q != len(system.joint_names):
            raise ValueError(
                f"{mechanism.name!r} does not have joint coordinates with one coordinate per joint; "
                'build it with coordinates="joint"'
            )
        n, rows = system.n_q, system.constraint_modes[0].n_rows
        self.q = np.zeros(n) if q is None else q
        self.v, self.a, self.tau = np.zeros(n), np.zeros(n), np.zeros(n)
        driven = {system.joint_names.index(actuator.joint) for actuator in mechanism.actuators if actuator.joint}
        self._driven = np.array(sorted(driven), dtype=int)
        self._other = np.array([index for index in range(n) if index not in driven], dtype=int)
        self._closed = rows > 0 and len(self._other) > 0
        self._inverse = system.bind_inverse_dynamics(self.q, self.v, self.a, self.tau)
        self._J, self._gamma = np.zeros((rows, n), order="F"), np.zeros(rows)
        inputs = [np.zeros(1), self.q, self.v, np.zeros(system.n_u), system.default_parameters()]
        self._terms = system.bind("terms", inputs, [np.zeros((n, n), order="F"), np.zeros(n), self._J, self._gamma])

    def __call__(self) -> None:
        if not self._closed:
            self._inverse()
            self.tau[self._other] = 0.0
            return
        self._terms()
        J_i, J_d = self._J[:, self._driven], self._J[:, self._other]
        self.a[self._other] = _solved(J_d, self._gamma - J_i @ self.a[self._driven])
        self._inverse()
        lam = _solved(J_d.T, -self.tau[self._other])
        self.tau[self._driven] += J_i.T @ lam
        self.tau[self._other] = 0.0


def _solved(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Solution x of A x = b; the least-norm least-squares solution if A is not square or is singular."""
    if A.shape[0] == A.shape[1]:
        try:
            return np.asarray(np.linalg.solve(A, b))
        except np.linalg.LinAlgError:
            pass
    return np.asarray(np.linalg.lstsq(A, b, rcond=None)[0])
