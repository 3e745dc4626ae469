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
from sim_core.identification.closures import Closures
from sim_core.identification.regressor import Regressor
from sim_core.identification.rigid_tree import rigid_tree
from sim_core.mechanism import Constraint, JointRelation, Mechanism

Array = np.ndarray[Any, np.dtype[np.float64]]
ITERATIONS, CLOSED = 30, 1e-9  # of Newton's method; violation, in units of Phi, that one more step closes to rounding
STEP = 0.1  # rad or m: largest step of an independent joint between two solutions
FARTHEST = 1e4  # rad or m: way of an independent joint between two samples, from which on a motion diverged
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
    closures = Closures(dataclasses.replace(mechanism, constraints=constraints))
    closures()
    driven = {actuator.joint for actuator in mechanism.actuators}
    moved = np.abs(closures.J).max(axis=0) > 0.0
    found = [name for name, each in zip(closures.joints, moved, strict=True) if each and name not in driven]
    return tuple(dict.fromkeys(found))


def rigid_loops(mechanism: Mechanism, joints: Sequence[str], held: Mapping[str, float] | None = None) -> Mechanism:
    """The `rigid_tree` of a mechanism with its springs and the `constraints_among` its joints, at its start.

    joints, held  as for `rigid_tree`
    """
    tree = rigid_tree(mechanism, joints, held)
    start = dict(zip((joint.name for joint in mechanism.moving_joints), mechanism.initial_q, strict=False))
    positions = tuple(start[joint.name] for joint in tree.moving_joints)
    constraints = constraints_among(mechanism, joints)
    return dataclasses.replace(tree, constraints=constraints, springs=mechanism.springs, initial_q=positions)


class LoopRegressor:
    """Regressor of a mechanism with loops in joint coordinates, as a function of the motion of independent joints.

    mechanism    with its constraints; its start closes the loops
    independent  names of the independent joints; the others follow them
    Raises InvalidRequest if the constraints do not determine the motion of the other joints.

    Attributes as those of `Regressor`; `joints` are the independent ones, `loops` the indices of those in loops.
    """

    def __init__(self, mechanism: Mechanism, independent: Sequence[str]) -> None:
        self.tree = Regressor(dataclasses.replace(mechanism, constraints=(), springs=()))
        self.mechanism, self.links = mechanism, self.tree.links
        self.parameters, self.pi = self.tree.parameters, self.tree.pi
        self._i = np.array([k for k, name in enumerate(self.tree.joints) if name in independent], dtype=int)
        self._d = np.setdiff1d(np.arange(len(self.tree.joints)), self._i)
        self.joints = tuple(self.tree.joints[k] for k in self._i)
        self._closures = closures = Closures(mechanism)
        self._q = closures.q
        closures()
        self._in_loops = np.abs(closures.J[:, self._i]).max(axis=0, initial=0.0) > 0.0
        self.loops = np.flatnonzero(self._in_loops)
        self._l = self._i[self._in_loops]
        rows, J_d = len(closures.J), closures.J[:, self._d]
        sizes = np.linalg.svd(J_d, compute_uv=False) if len(self._d) else np.ones(1)
        if len(self._d) > rows or sizes.min() < SINGULAR * sizes.max():
            raise InvalidRequest(
                f"robot {mechanism.name!r}: the constraints do not determine the motion of the joints "
                f"{', '.join(self.tree.joints[k] for k in self._d)} from that of {', '.join(self.joints)}"
            )
        self._before: dict[int, Array] = {}  # {number of samples: their positions with closed loops}
        self._close(self._q[self._i])
        self._start = self._q.copy()
        rest = self._start[None, self._i]
        self._last = (
            [each[:, self._in_loops] for each in (rest, 0.0 * rest, 0.0 * rest)],
            self._dependent(rest, 0.0 * rest, 0.0 * rest),
        )

    def __call__(self, q: Any, v: Any, a: Any, columns: Array | None = None) -> Array:
        """N' Y (n, n_i, n_pi) at n samples of positions, velocities and accelerations (n, n_i) of the joints.

        Successive samples should be close to each other. Raises InvalidRequest for positions that no closed loop has.
        """
        whole, N = self.motion(q, v, a)
        return self.projected(self.tree(*whole, columns), N)

    def efforts(self, q: Any, v: Any, a: Any, columns: Array, values: Array) -> Array:
        """Efforts (n, n_i) at n samples, as those of a `Regressor`."""
        whole, N = self.motion(q, v, a)
        return self.projected(self.tree.efforts(*whole, columns, values), N)

    def projected(self, efforts: Array, N: Array) -> Array:
        """Efforts (n, n_i), or rows (n, n_i, k), of the independent joints from those of all joints."""
        found = efforts[:, self._i]
        flat = efforts[:, self._d].reshape(len(efforts), len(self._d), -1)
        found[:, self.loops] += (N.transpose(0, 2, 1) @ flat).reshape(len(efforts), len(self.loops), *efforts.shape[2:])
        return found

    def directions(self, N: Array) -> Array:
        """Motions (n, n_i, n_q) of all joints with a unit of each independent joint, for N (n, n_d, n_l)."""
        found = np.zeros((len(N), len(self._i), len(self._q)))
        found[:, np.arange(len(self._i)), self._i] = 1.0
        found[:, self.loops[:, None], self._d] = N.transpose(0, 2, 1)
        return found

    def motion(self, q: Any, v: Any, a: Any) -> tuple[tuple[Array, Array, Array], Array]:
        """(positions, velocities and accelerations (n, n_q) of all joints, N (n, n_d, n_l)) with closed loops.

        N are the rows of the dependent joints and the columns of the independent joints in loops; the other columns of
        these rows are 0.
        """
        motion = [np.atleast_2d(np.asarray(each, dtype=float)) for each in (q, v, a)]
        in_loops = [each[:, self._in_loops] for each in motion]
        if not all(map(np.array_equal, in_loops, self._last[0])):  # often, only other joints move differently
            self._last = in_loops, self._dependent(*motion)
        dependent, N = self._last[1]
        whole = [np.empty((len(motion[0]), len(self._q))) for _ in motion]
        for array, independent, following in zip(whole, motion, dependent, strict=True):
            array[:, self._i], array[:, self._d] = independent, following
        return (whole[0], whole[1], whole[2]), N

    def _dependent(self, q: Array, v: Array, a: Array) -> tuple[tuple[Array, Array, Array], Array]:
        """(positions, velocities and accelerations (n, n_d) of the dependent joints, N (n, n_d, n_l))."""
        positions, J, _ = self._closed(q)
        if not len(self._d):
            nothing = np.zeros((len(q), 0))
            return (nothing, nothing, nothing), np.zeros((len(q), 0, len(self._l)))
        inverse: Array = np.asarray(np.linalg.pinv(J[:, :, self._d]), dtype=np.float64)
        N: Array = -inverse @ J[:, :, self._l]
        velocities = np.empty_like(positions)
        velocities[:, self._i], velocities[:, self._d] = v, _product(N, v[:, self._in_loops])
        gamma = self._closures.along(positions, velocities)
        accelerations = _product(N, a[:, self._in_loops]) + _product(inverse, gamma)
        return (positions[:, self._d], velocities[:, self._d], accelerations), N

    def spring_efforts(self, q: Any) -> Array:
        """Efforts (n, n_i) of the independent joints that hold the springs at n positions (n, n_i), N m or N."""
        _, J, springs = self._closed(np.atleast_2d(np.asarray(q, dtype=float)))
        efforts = -springs[:, self._i]
        if len(self._d):
            N = -np.linalg.pinv(J[:, :, self._d]) @ J[:, :, self._l]
            efforts[:, self._in_loops] -= _product(N.transpose(0, 2, 1), springs[:, self._d])
        return efforts

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

    def _closed(self, q: Array) -> tuple[Array, Array, Array]:
        """Positions (n, n_q) with closed loops, and there J (n, n_r, n_q) and the springs' forces (n, n_q).

        Each sample starts from its position in the last call with n samples if all are near those, as in a simulation
        of n robots; otherwise from the sample before.
        """
        closures, n_q = self._closures, len(self._q)
        positions, J, springs = np.empty((len(q), n_q)), np.empty((len(q), *closures.J.shape)), np.empty((len(q), n_q))
        before = self._before.get(len(q))
        is_near = before is not None and np.abs(q[:, self.loops] - before[:, self._l]).max(initial=0.0) < STEP
        self._q[:], closures.v[:] = self._start, 0.0
        closures()
        for k, independent in enumerate(q):
            if before is not None and is_near:
                self._q[:] = before[k]
                closures()
            self._close(independent)
            positions[k], J[k], springs[k] = self._q, closures.J, closures.springs
        self._before[len(q)] = positions
        return positions, J, springs

    def _close(self, q_i: Array) -> None:
        """Move the joints from their last closed position to the one with the independent positions q_i (n_i,)."""
        J, Phi, first = self._closures.J, self._closures.Phi, self._q[self._i].copy()
        change = (q_i - first)[self._in_loops]
        farthest = np.abs(change).max(initial=0.0)
        if not farthest < FARTHEST:  # NaN, too
            raise self._open_at(q_i)
        steps = max(1, int(np.ceil(farthest / STEP)))
        for step in range(1, steps + 1):
            self._q[self._d] -= _solved(J[:, self._d], J[:, self._l] @ change / steps)
            self._q[self._i] = first + step / steps * (q_i - first)
            for _ in range(ITERATIONS):
                self._closures()
                is_closed = np.abs(Phi).max(initial=0.0) < CLOSED
                self._q[self._d] -= _solved(J[:, self._d], Phi)
                if is_closed:  # and to rounding after the last step, for differences of states
                    self._closures()
                    break
            else:
                raise self._open_at(q_i)

    def _open_at(self, q_i: Array) -> InvalidRequest:
        where = ", ".join(f"{name} {value:.4g}" for name, value in zip(self.joints, q_i, strict=True))
        return InvalidRequest(f"robot {self.mechanism.name!r}: the loops do not close at {where}")


def _product(matrices: Array, vectors: Array) -> Array:
    """Products (n, k) of matrices (n, k, m) and vectors (n, m)."""
    return np.asarray((matrices @ vectors[:, :, None])[:, :, 0])


def _solved(J: Array, right: Array) -> Array:
    """The x (n,) of J x = right; of least squares if there are more rows than unknowns, or dependent ones."""
    if J.shape[0] == J.shape[1]:
        try:
            return np.asarray(np.linalg.solve(J, right))
        except np.linalg.LinAlgError:
            pass
    return np.asarray(np.linalg.lstsq(J, right, rcond=None)[0])
