"""Plans one swing by shooting: finds the elbow path that brings the free hand to its target on the cable or bars.

The elbow moves from its present angle to the angle at which both hands can grip, as a quintic in time plus two bumps,
s^3 (1-s)^3 and s^3 (1-s)^3 (2s - 1), with s = time / duration. Damped least squares finds the final angle, the duration
and the amplitudes of the two bumps; every residual comes from a simulation (rollout) of the planner's model of the
robot and the cable or bars.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nodes.planning.brachiation.rollout import N_POWERS, Arrival, Roller, over_limit

# error that counts as 1 in the residual
GAP_SCALE = 5e-3  # m
CLOSING_SCALE, DRIFT_SCALE = 0.3, 0.5  # m/s
TORQUE_SHARE, EFFORT_SHARE = 1 / 54, 1.0  # of the torque limit: rms of the part above it; rms of the whole
BUMP_SCALE = 60.0  # rad
STEPS = np.array([1e-5, 1e-5, 1e-4, 1e-4])  # steps of the finite differences: rad, s, rad, rad


@dataclass(frozen=True)
class Task:
    """Goals of a swing along a line, which is a cable or a row of bars.

    target        position along the line at which the free hand shall grip, m
    above         height above the line at which the hand's path shall end, m; the hand grips when it crosses the line
    closing       desired speed toward the line at arrival, m/s
    torque_limit  limit of the elbow's torque, N m
    step          time step of the rollouts, s
    tolerance     position error along the line (m) that adds as much to the cost of a plan as a height error of
                  GAP_SCALE
    """

    target: float
    closing: float = 0.2
    torque_limit: float = 30.0
    step: float = 4e-3
    tolerance: float = 2e-3
    above: float = 0.0


@dataclass(frozen=True)
class Path:
    """Path of the elbow: angle = sum powers[k] s^k rad, with s from 0 to 1 over `duration` seconds."""

    powers: np.ndarray
    duration: float

    def at(self, elapsed: float) -> tuple[float, float, float]:
        """Elbow angle (rad), rate (rad/s) and acceleration (rad/s^2), `elapsed` s after the start of the path.

        Before the start and after the end, the elbow is at rest at the path's first or last angle.
        """
        s = min(max(elapsed / self.duration, 0.0), 1.0)
        position = rate = acceleration = 0.0
        for k in range(len(self.powers) - 1, -1, -1):
            acceleration = acceleration * s + 2.0 * rate
            rate = rate * s + position
            position = position * s + float(self.powers[k])
        if not 0.0 <= elapsed <= self.duration:
            return position, 0.0, 0.0
        return position, rate / self.duration, acceleration / self.duration**2


@dataclass(frozen=True)
class Plan:
    """A planned swing.

    path      path of the elbow
    arrival   state of the free hand at the end of the swing
    torque    (n + 1,) torque of the elbow (N m) at equal time intervals from start to end
    poses     (n + 1, n_q) coordinates of the planner's model at the same times
    unknowns  (4,): final angle, rad; duration, s; amplitudes of the path's two bump functions, rad. The next plan
              uses `unknowns` as its first guess
    cost      sum of the squared residuals
    rollouts  number of rollouts made
    """

    path: Path
    arrival: Arrival
    torque: np.ndarray
    poses: np.ndarray
    unknowns: np.ndarray
    cost: float
    rollouts: int

    @property
    def peak_torque(self) -> float:
        """Largest absolute elbow torque, N m."""
        return float(np.max(np.abs(self.torque)))


def folded_elbow(d: float, lengths: tuple[float, float]) -> float:
    """Elbow angle (rad) at which both hands are on a horizontal line at a distance d (m) from each other.

    For two arms of equal length l the angle is pi - 2 beta, with sin beta = d / (2 l).
    """
    a, b = lengths
    cosine = (a * a + b * b - d * d) / (2.0 * a * b)
    return math.pi - math.acos(min(max(cosine, -1.0), 1.0))


def elbow_path(start: tuple[float, float, float], unknowns: np.ndarray) -> Path:
    """Path of the elbow from `start` (angle, rate, acceleration) to rest.

    unknowns  (4,) final angle, rad; duration, s; amplitudes of the path's two bump functions, rad
    """
    final, duration, even, odd = (float(value) for value in unknowns)
    position, rate, bend = start[0], start[1] * duration, 0.5 * start[2] * duration**2
    gap = final - position - rate - bend
    slope, curve = -(rate + 2.0 * bend), -2.0 * bend
    quintic = 10.0 * gap - 4.0 * slope + 0.5 * curve, -15.0 * gap + 7.0 * slope - curve
    # the bumps are s^3 (1-s)^3 (first + more s)
    first, more = even - odd, 2.0 * odd
    powers = np.array(
        [
            position,
            rate,
            bend,
            quintic[0] + first,
            quintic[1] - 3.0 * first + more,
            6.0 * gap - 3.0 * slope + 0.5 * curve + 3.0 * first - 3.0 * more,
            -first + 3.0 * more,
            -more,
        ]
    )
    return Path(powers, duration)


def remaining(path: Path, elapsed: float) -> tuple[tuple[float, float, float], np.ndarray]:
    """Arguments (start, unknowns) of `elbow_path` for the part of a path after the time `elapsed`.

    elapsed  time since the start of the path, s
    """
    share = min(max(elapsed / path.duration, 0.0), 0.999)
    start, left = path.at(share * path.duration), (1.0 - share) * path.duration
    rest = np.polynomial.Polynomial(path.powers)(np.polynomial.Polynomial([share, 1.0 - share]))
    powers = np.zeros(N_POWERS)
    powers[: len(rest.coef)] = rest.coef
    # the quintic part has no s^6 and s^7, so the bumps follow from these two coefficients
    odd = -0.5 * powers[7]
    even = -(powers[6] - 7.0 * odd)
    return start, np.array([path.at(path.duration)[0], left, even, odd])


def plan_swing(
    roller: Roller,
    q: np.ndarray,
    v: np.ndarray,
    start: tuple[float, float, float],
    guess: np.ndarray,
    task: Task,
    most: int = 20,
    enough: float = 0.0,
) -> Plan:
    """Plan of a swing, by damped Gauss-Newton iterations on rollouts of the planner's model.

    roller  object that simulates the planner's model
    q, v    coordinates and velocities of the planner's model at the start
    start   angle (rad), rate and acceleration of the elbow at the start
    guess   (4,) first guess of the final angle, rad, the duration, s, and the amplitudes of the path's two bump
            functions, rad
    most    largest number of iterations
    enough  cost below which the iteration ends
    """
    unknowns, damping = np.array(guess, dtype=float), 1e-3
    residual, rollouts = _residual(roller, q, v, start, unknowns, task), 1
    cost = float(residual @ residual)
    for _ in range(most):
        if cost < enough:
            break
        J = np.empty((len(residual), 4))
        for k in range(4):
            moved = unknowns.copy()
            moved[k] += STEPS[k]
            J[:, k] = (_residual(roller, q, v, start, moved, task) - residual) / STEPS[k]
        rollouts += 4
        H, g = J.T @ J, J.T @ residual
        gain = 0.0
        for _ in range(6):
            step = np.linalg.solve(H + damping * np.diag(np.diag(H) + 1e-9), -g)
            trial = unknowns + step
            trial[1] = min(max(trial[1], 0.5 * unknowns[1]), 2.0 * unknowns[1])
            found = _residual(roller, q, v, start, trial, task)
            rollouts += 1
            new = float(found @ found)
            if new < cost:
                gain, cost, unknowns, residual = cost - new, new, trial, found
                damping = max(damping * 0.1, 1e-9)
                break
            damping *= 10.0
        if gain < 1e-3 * cost + 1e-6:
            break
    return _plan_of(roller, q, v, start, unknowns, task, cost, rollouts)


def cost_of(
    roller: Roller, q: np.ndarray, v: np.ndarray, start: tuple[float, float, float], unknowns: np.ndarray, task: Task
) -> float:
    """Cost that `plan_swing` minimizes, from one rollout: the sum of the squared residuals.

    roller    object that simulates the planner's model
    q, v      coordinates and velocities of the planner's model at the start
    start     angle (rad), rate and acceleration of the elbow at the start
    unknowns  (4,) final angle, rad; duration, s; amplitudes of the path's two bump functions, rad
    """
    residual = _residual(roller, q, v, start, unknowns, task)
    return float(residual @ residual)


def _shoot(
    roller: Roller, q: np.ndarray, v: np.ndarray, start: tuple[float, float, float], unknowns: np.ndarray, step: float
) -> tuple[Path, Arrival, int]:
    path = elbow_path(start, unknowns)
    roller.q[:], roller.v[:] = q, v
    n = roller.roll(path.powers, path.duration, 1.0, step)
    return path, roller.arrival(), n


def _residual(
    roller: Roller, q: np.ndarray, v: np.ndarray, start: tuple[float, float, float], unknowns: np.ndarray, task: Task
) -> np.ndarray:
    _, arrival, n = _shoot(roller, q, v, start, unknowns, task.step)
    over, effort = over_limit(roller.torque, n + 1, task.torque_limit)
    found: np.ndarray = np.array(
        [
            (arrival.gap - task.above) / GAP_SCALE,
            (arrival.way - task.target) / task.tolerance,
            (arrival.closing - task.closing) / CLOSING_SCALE,
            arrival.drift / DRIFT_SCALE,
            over / (TORQUE_SHARE * task.torque_limit),
            effort / (EFFORT_SHARE * task.torque_limit),
            unknowns[2] / BUMP_SCALE,
            unknowns[3] / BUMP_SCALE,
        ]
    )
    return np.where(np.isfinite(found), found, 1e6)


def _plan_of(
    roller: Roller,
    q: np.ndarray,
    v: np.ndarray,
    start: tuple[float, float, float],
    unknowns: np.ndarray,
    task: Task,
    cost: float,
    rollouts: int,
) -> Plan:
    path, arrival, n = _shoot(roller, q, v, start, unknowns, task.step)
    torque, poses = roller.torque[: n + 1].copy(), roller.path[: n + 1].copy()
    return Plan(path, arrival, torque, poses, unknowns, cost, rollouts)
