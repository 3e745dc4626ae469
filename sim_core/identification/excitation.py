"""Excitation trajectories: motions from rest to rest whose base regressor has a small condition number.

The motion of each joint is a Fourier series with the period T, the duration of the motion. [SweversEtAl1997]

    q(t) = q_start + c_0 + sum over k = 1 .. H of s_k sin(2 pi k t / T) + c_k cos(2 pi k t / T)

At both ends, q = q_start, and velocity and acceleration are 0. The condition number is that of the base regressor of
all samples of the motion. It is the ratio of largest to smallest singular value; the search minimizes a smooth bound
of it, with norms of order 2 POWER in place of the two extreme singular values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np
from scipy.linalg import null_space

from sim_core.derivation.regressor import derive_regressor
from sim_core.errors import InvalidRequest
from sim_core.identification.base_parameters import base_parameters
from sim_core.identification.regressor import Regressor
from sim_core.identification.rigid_tree import rigid_tree
from sim_core.mechanism.description import Mechanism
from sim_core.mechanism.quantities import value_of

Array = np.ndarray[Any, np.dtype[np.float64]]
POWER = 4
SAMPLES, FINE = 10, 50  # samples per period of the highest harmonic, in the search and in the final check
CANDIDATES = 20  # random motions, of which the best one starts the search
INSIDE = 0.98  # share of the limits that the search uses, as extremes lie between its samples


@dataclass(frozen=True)
class MotionLimits:
    """Limits of the joints, arrays (n_q,) in rad or m, s, N m or N; infinite without a limit.

    lower, upper                    range of the positions
    velocity, acceleration, effort  largest absolute values
    """

    lower: Array
    upper: Array
    velocity: Array
    acceleration: Array
    effort: Array


@dataclass(frozen=True)
class FourierMotion:
    """Motion of n_q joints from rest to rest, see this module.

    seconds       duration T
    start         (n_q,) positions at both ends, rad or m
    coefficients  (2 H + 1, n_q): c_0, then s_1 .. s_H, then c_1 .. c_H
    """

    seconds: float
    start: Array
    coefficients: Array

    @property
    def harmonics(self) -> int:
        """Number H of harmonics."""
        return len(self.coefficients) // 2

    def times(self, samples: int) -> Array:
        """Equidistant times, s, from 0 to T, with `samples` per period of the highest harmonic."""
        return np.linspace(0.0, self.seconds, samples * self.harmonics + 1)

    def __call__(self, t: Array) -> tuple[Array, Array, Array]:
        """Positions, velocities and accelerations, (n, n_q) each, at the times t (n,) between 0 and T."""
        P, V, A = _series(self.seconds, self.harmonics, t)
        return self.start + P @ self.coefficients, V @ self.coefficients, A @ self.coefficients

    def scaled(self, factor: float) -> FourierMotion:
        """The motion with all deflections from the start multiplied by a factor."""
        return FourierMotion(self.seconds, self.start, factor * self.coefficients)


def _series(seconds: float, harmonics: int, t: Array) -> tuple[Array, Array, Array]:
    """Functions of the Fourier series, their first and their second derivatives, (n, 2 H + 1) each."""
    w = 2.0 * np.pi / seconds * np.arange(1, harmonics + 1)
    sine, cosine, one = np.sin(np.outer(t, w)), np.cos(np.outer(t, w)), np.ones((len(t), 1))
    return (
        np.hstack([one, sine, cosine]),
        np.hstack([0.0 * one, w * cosine, -w * sine]),
        np.hstack([0.0 * one, -w * w * sine, -w * w * cosine]),
    )


class ExcitedRobot:
    """The joints of a robot that an excitation moves: condition numbers and efforts of motions.

    mechanism  robot in joint coordinates, a tree of joints
    joints     names of the joints that move; all others rest at their start
    given      {joint: position, rad or m} at both ends of the motions, by default the robot's start
    start      (n_q,) positions of the joints that move, at both ends of the motions
    own_start  (n_q,) the robot's start
    """

    def __init__(self, mechanism: Mechanism, joints: Sequence[str], given: Mapping[str, float] | None = None) -> None:
        at, held = 0, dict[str, float]()
        for joint in mechanism.joints:
            if len(joint.coordinates) == 1:
                held[joint.name] = float(mechanism.initial_q[at])
            at += len(joint.coordinates)
        self.regressor = Regressor(rigid_tree(mechanism, joints, held))
        self.joints = self.regressor.joints
        self.own_start = np.array([held[name] for name in self.joints])
        self.start = np.array([{**held, **(given or {})}[name] for name in self.joints])
        self.columns = base_parameters(self.regressor).columns
        moving = [mechanism.joint(name) for name in self.joints]
        self.armature = np.array([value_of(joint.armature) for joint in moving])
        self.damping = np.array([value_of(joint.damping) for joint in moving])
        self.friction = np.array([0.0 if j.friction is None else value_of(j.friction.coulomb) for j in moving])

    def condition(self, q: Array, v: Array, a: Array) -> float:
        """Condition number of the base regressor at n samples of positions, velocities and accelerations (n, n_q)."""
        Y = self.regressor(q, v, a, self.columns).reshape(-1, len(self.columns))
        return float(np.linalg.cond(Y))

    def efforts(self, q: Array, v: Array, a: Array) -> Array:
        """Largest absolute efforts (n, n_q) of the motion: inertia, gravity, damping and Coulomb friction."""
        tau = self.regressor(q, v, a) @ self.regressor.pi + self.armature * a + self.damping * v
        return np.asarray(np.abs(tau) + self.friction)

    def use_of(self, motion: FourierMotion, limits: MotionLimits) -> tuple[float, float]:
        """Largest share of the limits that a motion uses: of those in proportion to its deflections, of the efforts."""
        q, v, a = motion(motion.times(FINE))
        up, down = limits.upper - motion.start, motion.start - limits.lower
        off = q - motion.start
        shares = off / up, -off / down, np.abs(v) / limits.velocity, np.abs(a) / limits.acceleration
        return max(float(each.max()) for each in shares), float((self.efforts(q, v, a) / limits.effort).max())

    def fitted(self, motion: FourierMotion, limits: MotionLimits) -> FourierMotion:
        """The motion, scaled down until it is within the limits."""
        motion = motion.scaled(1.0 / max(self.use_of(motion, limits)[0], 1.0))
        while self.use_of(motion, limits)[1] > 1.0:
            motion = motion.scaled(0.97)
        return motion

    def check_start(self, limits: MotionLimits) -> None:
        """Raise InvalidRequest for a joint that rests at the start outside of its limits."""
        at_rest = np.zeros((1, len(self.joints)))
        efforts = self.efforts(self.start[None, :], at_rest, at_rest)[0]
        for k, name in enumerate(self.joints):
            if not limits.lower[k] < self.start[k] < limits.upper[k]:
                raise InvalidRequest(
                    f"joint {name!r} starts at {self.start[k]:.4g}; the start must be between its limits "
                    f"{limits.lower[k]:.4g} and {limits.upper[k]:.4g}; give another one"
                )
            if efforts[k] >= limits.effort[k]:
                raise InvalidRequest(
                    f"joint {name!r} needs the effort {efforts[k]:.4g} at the start; the limit is "
                    f"{limits.effort[k]:.4g}"
                )


@dataclass(frozen=True)
class Excitation:
    """Result of a search.

    motion   motion with the smallest condition number that was found
    first    motion at which the search started
    """

    motion: FourierMotion
    first: FourierMotion


def excite(
    robot: ExcitedRobot,
    limits: MotionLimits,
    seconds: float,
    harmonics: int,
    seed: int = 0,
    iterations: int = 200,
    progress: Callable[[int, float], None] | None = None,
    first: FourierMotion | None = None,
) -> Excitation:
    """Motion of the robot within limits, with a small condition number of the base regressor.

    seconds     duration of the motion
    harmonics   number of harmonics, at least 2
    seed        seed of the random motions at the start of the search; equal seeds give equal motions
    iterations  most iterations of Ipopt
    progress    function that is called with the number of each iteration and the bound of the condition number
    first       motion at which the search starts, scaled down into the limits; None for the best one of random motions

    Raises InvalidRequest for a robot that cannot rest at its start within the limits.
    """
    robot.check_start(limits)
    search = _Search(robot, limits, seconds, harmonics)
    rng = np.random.default_rng(seed)
    candidates = [search.motion(rng.normal(size=search.shape)) for _ in range(CANDIDATES)] if first is None else [first]
    within = [robot.fitted(each, limits) for each in candidates]
    first = min(within, key=lambda each: robot.condition(*each(each.times(SAMPLES))))
    found = robot.fitted(search.motion(search.run(first, iterations, progress)), limits)
    motion = min(found, first, key=lambda each: robot.condition(*each(each.times(FINE))))
    return Excitation(motion, first)


class _Search:
    """Nonlinear program over the coordinates x (n_x, n_q) of motions from rest to rest, coefficients = basis @ x."""

    def __init__(self, robot: ExcitedRobot, limits: MotionLimits, seconds: float, harmonics: int) -> None:
        self._robot, self._limits, self._seconds, self._harmonics = robot, limits, seconds, harmonics
        at_start = np.vstack(_series(seconds, harmonics, np.zeros(1)))
        free = null_space(at_start / np.linalg.norm(at_start, axis=1, keepdims=True))
        self._t = np.arange(SAMPLES * harmonics) * seconds / (SAMPLES * harmonics)
        speeds = _series(seconds, harmonics, self._t)[1] @ free
        self._basis = free / np.sqrt(np.mean(speeds**2, axis=0))  # each column at the speed 1, root-mean-square
        self.shape = self._basis.shape[1], len(robot.joints)

    def motion(self, x: Array) -> FourierMotion:
        return FourierMotion(self._seconds, self._robot.start, self._basis @ x)

    def run(self, first: FourierMotion, iterations: int, progress: Callable[[int, float], None] | None) -> Array:
        """Coordinates of the last iterate of Ipopt."""
        x = ca.MX.sym("x", *self.shape)
        P, V, A = (each @ self._basis for each in _series(self._seconds, self._harmonics, self._t))
        moved, v, a = (ca.mtimes(ca.DM(each), x) for each in (P, V, A))
        q = moved + ca.DM(np.tile(self._robot.start, (len(self._t), 1)))
        W, tau = self._samples().map(len(self._t))(q.T, v.T, a.T)
        G = ca.mtimes(W, W.T)
        inverse = ca.solve(G, ca.MX.eye(G.shape[0]), "qr")
        bound = 0.5 * (_log_norm(G) + _log_norm(inverse))  # of the logarithm of the condition number
        values, least, most = self._bounds(q, v, a, tau.T)
        watch = _Watch(self.shape[0] * self.shape[1], values.shape[0], progress)
        options: Any = {
            "print_time": False,
            "iteration_callback": watch,
            "ipopt": {
                "sb": "yes",
                "print_level": 0,
                "max_iter": iterations,
                "tol": 1e-4,
                "hessian_approximation": "limited-memory",
                "mu_strategy": "adaptive",
            },
        }
        problem: Any = {"x": ca.vec(x), "f": bound, "g": values}
        solver = ca.nlpsol("excitation", "ipopt", problem, options)
        begin = np.linalg.lstsq(self._basis, first.coefficients, rcond=None)[0]
        found = solver(x0=begin.T.ravel(), lbg=least, ubg=most)["x"]
        if watch.error is not None:
            raise watch.error
        return np.asarray(found.full()).reshape(self.shape[::-1]).T

    def _samples(self) -> ca.Function:
        """Function (q, v, a) of one sample: transposed base regressor (n_b, n_q), and efforts (n_q,)."""
        robot = self._robot
        mechanism = robot.regressor.mechanism
        q, v, a = (ca.SX.sym(name, len(robot.joints)) for name in "qva")
        p = ca.DM(mechanism.parameter_values(mechanism.start_constraint_mode))
        Y = derive_regressor(mechanism)(q, v, a, p)
        tau = ca.mtimes(Y, ca.DM(robot.regressor.pi)) + ca.DM(robot.armature) * a + ca.DM(robot.damping) * v
        base = Y[:, [int(k) for k in robot.columns]]
        return ca.Function("samples", [q, v, a], [base.T, tau], {"cse": True})

    def _bounds(self, q: ca.MX, v: ca.MX, a: ca.MX, tau: ca.MX) -> tuple[ca.MX, Array, Array]:
        """Values with a limit, one column after the other, and their least and largest permitted values."""
        limits, start = self._limits, self._robot.start
        effort = INSIDE * limits.effort - self._robot.friction
        most = [start + INSIDE * (limits.upper - start), INSIDE * limits.velocity, INSIDE * limits.acceleration, effort]
        least = [start + INSIDE * (limits.lower - start), *(-each for each in most[1:])]
        count = len(self._t)
        values = ca.vertcat(*(ca.vec(each) for each in (q, v, a, tau)))
        low, high = (np.repeat(np.concatenate(each), count) for each in (least, most))
        return values, low, high


def _log_norm(G: ca.MX) -> ca.MX:
    """Logarithm of the norm (sum of eigenvalue^POWER)^(1 / POWER) of a symmetric matrix."""
    size = ca.norm_fro(G)
    square = ca.mtimes(G / size, G / size)
    return ca.log(size) + ca.log(ca.sumsqr(square)) / POWER


class _Watch(ca.Callback):
    """Callback of Ipopt that reports each iteration; an error in the report ends the search, and is in `error`."""

    def __init__(self, n_x: int, n_g: int, progress: Callable[[int, float], None] | None) -> None:
        super().__init__()
        self._sizes = {"x": n_x, "f": 1, "g": n_g, "lam_x": n_x, "lam_g": n_g, "lam_p": 0}
        self._progress, self._iteration = progress, 0
        self.error: BaseException | None = None
        self.construct("watch", {})

    def get_n_in(self) -> int:
        return int(ca.nlpsol_n_out())

    def get_n_out(self) -> int:
        return 1

    def get_name_in(self, i: int) -> str:
        return str(ca.nlpsol_out(i))

    def get_sparsity_in(self, i: int) -> ca.Sparsity:
        return ca.Sparsity.dense(self._sizes[ca.nlpsol_out(i)], 1 if ca.nlpsol_out(i) != "lam_p" else 0)

    def eval(self, arguments: Sequence[ca.DM]) -> list[int]:
        try:
            if self._progress is not None:
                self._progress(self._iteration, math.exp(float(arguments[1])))
        except BaseException as error:  # CasADi would only print it
            self.error = error
        self._iteration += 1
        return [int(self.error is not None)]
