"""Regressor of a mechanism with closed loops: the efforts of its independent joints, linear in the inertial parameters.

With the constraint equations J a = gamma, the dependent joints d follow the independent joints i: v = N v_i, with N the
null space of J whose rows of the independent joints are the identity. Constraint forces do no work along N, so that

    tau_i = N' Y pi

for dependent joints without motors. Y is the regressor of the tree without constraints.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from sim_core.errors import InvalidRequest
from sim_core.identification.regressor import Regressor
from sim_core.identification.rigid_tree import rigid_tree
from sim_core.mechanism import Constraint, JointRelation, Mechanism, Spring
from sim_core.system import assemble

Array = np.ndarray[Any, np.dtype[np.float64]]
ITERATIONS, CLOSED = 30, 1e-11  # of Newton's method; largest violation of a closed loop, in units of Phi
STEP = 0.1  # rad or m: largest step of an independent joint between two solutions
SINGULAR = 1e-9  # singular value of J_d over its largest, below which a dependent joint does not follow
SPREAD = 0.15  # of random positions about the start, as a share of the joint's range, or in rad or m


def constraints_among(mechanism: Mechanism, measured: Collection[str]) -> tuple[Constraint, ...]:
    """Constraints of a mechanism, without relations of joints none of which is measured."""
    return tuple(
        each
        for each in mechanism.constraints
        if not isinstance(each, JointRelation) or any(name in measured for name, _ in each.terms)
    )


def dependent_joints(mechanism: Mechanism, measured: Collection[str]) -> tuple[str, ...]:
    """Joints without actuators that the `constraints_among` the measured joints move, at the mechanism's start."""
    constraints = constraints_among(mechanism, measured)
    if not constraints:
        return ()
    system = assemble(dataclasses.replace(mechanism, constraints=constraints))
    q = np.array(mechanism.initial_q[: system.n_q], dtype=float)
    J = system.terms(0.0, q, np.zeros(system.n_q), system.start_inputs)[2]
    driven = {actuator.joint for actuator in mechanism.actuators}
    moved = np.abs(J).max(axis=0) > 0.0
    return tuple(name for name, each in zip(system.joint_names, moved, strict=True) if each and name not in driven)


def rigid_loops(mechanism: Mechanism, joints: Sequence[str], held: Mapping[str, float] | None = None) -> Mechanism:
    """The `rigid_tree` of a mechanism with the `constraints_among` its joints, at the start of the mechanism.

    joints, held  as for `rigid_tree`
    """
    tree = rigid_tree(mechanism, joints, held)
    start = dict(zip((joint.name for joint in mechanism.moving_joints), mechanism.initial_q, strict=False))
    positions = tuple(start[joint.name] for joint in tree.moving_joints)
    return dataclasses.replace(tree, constraints=constraints_among(mechanism, joints), initial_q=positions)


def spring_efforts(regressor: LoopRegressor, springs: tuple[Spring, ...], q: Array) -> Array:
    """Efforts (n, n_i) of the independent joints that hold undamped springs at n positions q (n, n_i), N m or N."""
    tree = regressor.tree
    system = assemble(dataclasses.replace(tree.mechanism, springs=springs))
    rest = np.zeros_like(q)
    whole, N = regressor.motion(q, rest, rest)
    *arrays, tau = np.zeros((4, system.n_q))
    kernel = system.bind_inverse_dynamics(arrays[0], arrays[1], arrays[2], tau)
    inertial = tree(*whole) @ tree.pi
    found = np.empty_like(q)
    for k in range(len(q)):
        for array, motion in zip(arrays, whole, strict=True):
            array[:] = motion[k]
        kernel()
        found[k] = N[k].T @ (tau - inertial[k])
    return found


class LoopRegressor:
    """Regressor of a mechanism with loops in joint coordinates, as a function of the motion of independent joints.

    mechanism    with its constraints; its start closes the loops
    independent  names of the independent joints; the others follow them
    Raises InvalidRequest if the constraints do not determine the motion of the other joints.

    Attributes as those of `Regressor`; `joints` are the independent ones.
    """

    def __init__(self, mechanism: Mechanism, independent: Sequence[str]) -> None:
        self.tree = Regressor(dataclasses.replace(mechanism, constraints=()))
        self.mechanism, self.links = mechanism, self.tree.links
        self.parameters, self.pi = self.tree.parameters, self.tree.pi
        self._i = np.array([k for k, name in enumerate(self.tree.joints) if name in independent], dtype=int)
        self._d = np.setdiff1d(np.arange(len(self.tree.joints)), self._i)
        self.joints = tuple(self.tree.joints[k] for k in self._i)
        system = assemble(mechanism)
        n, rows = system.n_q, system.max_rows
        self._q, self._v, p = np.array(mechanism.initial_q, dtype=float), np.zeros(n), system.default_parameters()
        self._J, self._gamma = np.zeros((rows, n), order="F"), np.zeros(rows)
        self._phi = np.zeros(system.constraint_modes[0].n_holonomic)
        inputs = [np.zeros(1), self._q, self._v, system.start_inputs, p]
        self._terms = system.bind("terms", inputs, [np.zeros((n, n), order="F"), np.zeros(n), self._J, self._gamma])
        self._residual = system.bind("residual", inputs, [self._phi, np.zeros(rows)])
        if len(self._phi) != rows:
            raise InvalidRequest(f"robot {mechanism.name!r} has nonholonomic constraints; a fit needs closed loops")
        self._terms()
        self._in_loops = np.abs(self._J[:, self._i]).max(axis=0, initial=0.0) > 0.0
        sizes = np.linalg.svd(self._J[:, self._d], compute_uv=False) if len(self._d) else np.ones(1)
        if len(self._d) > rows or sizes.min() < SINGULAR * sizes.max():
            raise InvalidRequest(
                f"robot {mechanism.name!r}: the constraints do not determine the motion of the joints "
                f"{', '.join(self.tree.joints[k] for k in self._d)} from that of {', '.join(self.joints)}"
            )
        self._close(self._q[self._i])
        self._start = self._q.copy()

    def __call__(self, q: Any, v: Any, a: Any, columns: Array | None = None) -> Array:
        """N' Y (n, n_i, n_pi) at n samples of positions, velocities and accelerations (n, n_i) of the joints.

        Successive samples should be close to each other. Raises InvalidRequest for positions that no closed loop has.
        """
        whole, N = self.motion(q, v, a)
        Y = self.tree(*whole, columns)
        return np.asarray(np.einsum("nji,njk->nik", N, Y))

    def motion(self, q: Any, v: Any, a: Any) -> tuple[tuple[Array, Array, Array], Array]:
        """(positions, velocities and accelerations (n, n_q) of all joints, N (n, n_q, n_i)) with closed loops."""
        q, v, a = (np.atleast_2d(np.asarray(each, dtype=float)) for each in (q, v, a))
        count, n_q, i, d = len(q), len(self._q), self._i, self._d
        whole, N = [np.zeros((count, n_q)) for _ in range(3)], np.zeros((count, n_q, len(i)))
        self._q[:] = self._start
        for k in range(count):
            self._close(q[k])
            self._v[:] = 0.0
            self._terms()
            inverse = np.linalg.pinv(self._J[:, d])
            N[k, i], N[k, d] = np.eye(len(i)), -inverse @ self._J[:, i]
            self._v[:] = N[k] @ v[k]
            self._terms()
            acceleration = N[k] @ a[k]
            acceleration[d] += inverse @ self._gamma
            for array, row in zip(whole, (self._q, self._v, acceleration), strict=True):
                array[k] = row
        return (whole[0], whole[1], whole[2]), N

    def random_positions(self, rng: np.random.Generator, count: int) -> Array:
        """Random positions (count, n_i): of joints in loops near the start, of others anywhere."""
        joints = [joint for joint in self.mechanism.joints if not joint.is_fixed]
        q = rng.uniform(-np.pi, np.pi, (count, len(self._i)))
        for column, index in enumerate(self._i):
            if self._in_loops[column]:
                lower, upper = joints[index].lower, joints[index].upper
                width = SPREAD if lower is None or upper is None else SPREAD * (upper - lower)
                q[:, column] = self._start[index] + width * q[:, column] / np.pi
        return q

    def _close(self, q_i: Array) -> None:
        """Move the joints from their last closed position to the one with the independent positions q_i (n_i,)."""
        first = self._q[self._i].copy()
        steps = max(1, int(np.ceil(np.abs((q_i - first)[self._in_loops]).max(initial=0.0) / STEP)))
        for step in range(1, steps + 1):
            self._q[self._i] = first + step / steps * (q_i - first)
            for _ in range(ITERATIONS):
                self._residual()
                if np.abs(self._phi).max(initial=0.0) < CLOSED:
                    break
                self._terms()
                self._q[self._d] -= np.linalg.lstsq(self._J[:, self._d], self._phi, rcond=None)[0]
            else:
                where = ", ".join(f"{name} {value:.4g}" for name, value in zip(self.joints, q_i, strict=True))
                raise InvalidRequest(f"robot {self.mechanism.name!r}: the loops do not close at {where}")
