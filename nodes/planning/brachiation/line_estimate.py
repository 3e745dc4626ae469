"""Estimates the vibration modes and the tension of the cable from the motion of the hands that grip the cable.

The estimator is a Kalman filter on the vibration modes in the planner's model [Kalman1960]. Inputs are the forces of
the hands, which the planner's model of the robot gives for the measured joints. Measurements are the deflection of the
cable and its rate at each hand. Vibration modes that the model lacks are treated as noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sim_core.flexible.elements import BeamModel, contact_model
from sim_core.mechanism.beams import Beam
from sim_core.mechanism.quantities import value_of

FORCE_NOISE = 20.0  # N, error of the model's hand force over one update
MODAL_NOISE = 0.3  # m kg^0.5 / s^2, unmodeled acceleration of each mode over one update
DEFLECTION_NOISE, RATE_NOISE = 3e-3, 3e-2  # m, m/s: motion of the hand by modes that the model lacks

MODAL_SPREAD = 0.005  # m kg^0.5, initial deviation of the lowest mode; others of equal energy
# as shares of the model's tension: standard deviation at the start, random walk per s^0.5, permitted range
TENSION_SPREAD, TENSION_WALK, TENSION_RANGE = 0.03, 0.01, (0.5, 2.0)


@dataclass(frozen=True)
class HandOnLine:
    """A hand that grips the line (the cable).

    x      position along the line, m
    drop   depth below the straight line, m
    rate   downward velocity, m/s
    force  downward force on the line, N
    """

    x: float
    drop: float
    rate: float
    force: float = 0.0


class LineEstimate:
    """Kalman filter that estimates a cable's modal amplitudes, their rates, and the tension (`tension_scale`).

    At the start, the cable is assumed to be at rest. The first estimate of the tension is the one at which the cable
    sags to the measured depth of the hands, under its own weight and the forces of the hands.

    width  length of cable that a hand grips, m
    """

    def __init__(self, cable: Beam, gravity: float, hands: list[HandOnLine], width: float) -> None:
        self.model: BeamModel = contact_model(cable, width)
        self._weight = cable.mass_per_length * gravity * self.model.uniform
        self._tension_part = value_of(cable.tension) * np.diag(self.model.taut)  # part of the modal stiffness, 1/s^2
        self._damping = np.diag(self.model.C)
        n = self.model.n
        scale = _bisected(lambda scale: self._sag(scale, hands), TENSION_RANGE) if hands else 1.0
        self._x = np.concatenate([self._rest(scale, hands), np.zeros(n), [scale]])
        spread = MODAL_SPREAD * self.model.frequencies[0] * np.concatenate([1.0 / self.model.frequencies, np.ones(n)])
        self._P = np.diag(np.concatenate([spread, [TENSION_SPREAD]]) ** 2)

    @property
    def amplitude(self) -> np.ndarray:
        """Modal amplitudes, (n,), m kg^0.5."""
        return self._x[: self.model.n]

    @property
    def rate(self) -> np.ndarray:
        """Rates of the modal amplitudes, (n,), m kg^0.5 / s."""
        return self._x[self.model.n : -1]

    @property
    def tension_scale(self) -> float:
        """Estimated tension of the cable, divided by the tension in the planner's model."""
        return float(self._x[-1])

    def snapshot(self) -> tuple[np.ndarray, np.ndarray]:
        """(estimate, its covariance), for `restore`."""
        return self._x, self._P

    def restore(self, state: tuple[np.ndarray, np.ndarray]) -> None:
        """Continue from a result of `snapshot`."""
        self._x, self._P = state

    def _rest(self, scale: float, hands: list[HandOnLine]) -> np.ndarray:
        load = self._weight + sum((hand.force * self.model.shape(hand.x) for hand in hands), 0.0 * self._weight)
        return np.asarray(load / self._stiffness(scale))

    def _stiffness(self, scale: float) -> np.ndarray:
        """Modal stiffness (n,), 1/s^2, at a tension of `scale` times the tension in the planner's model."""
        return np.asarray(self.model.frequencies**2 + (scale - 1.0) * self._tension_part)

    def _sag(self, scale: float, hands: list[HandOnLine]) -> float:
        """Depth of the hands calculated for a cable at rest, minus their measured depth; sum over the hands, m.

        scale  tension of the cable divided by the tension in the planner's model
        """
        amplitude = self._rest(scale, hands)
        return float(sum(self.model.shape(hand.x) @ amplitude - hand.drop for hand in hands))

    def predict(self, dt: float, hands: list[HandOnLine]) -> None:
        """Advance the estimate by `dt` s under the weight of the cable and the forces of the hands."""
        n, scale, before = self.model.n, self._x[-1], self._x[:-1]
        A, B = _discretized(self._stiffness(scale), self._damping, dt)
        shapes = [self.model.shape(hand.x) for hand in hands]
        pressed = sum((hand.force * N for hand, N in zip(hands, shapes, strict=True)), np.zeros(n))
        after = A @ before + B @ (self._weight + pressed)
        F = np.eye(2 * n + 1)
        F[:-1, :-1] = A
        F[:-1, -1] = B @ (-self._tension_part * 0.5 * (before[:n] + after[:n]))  # effect of more tension over dt
        self._x[:-1] = after
        Q = B @ (MODAL_NOISE**2 * np.eye(n) + sum((FORCE_NOISE**2 * np.outer(N, N) for N in shapes), np.zeros((n, n))))
        self._P = F @ self._P @ F.T
        self._P[:-1, :-1] += Q @ B.T
        self._P[-1, -1] += TENSION_WALK**2 * dt

    def correct(self, hands: list[HandOnLine]) -> None:
        """Correct the estimate by the measured deflection of the cable and its rate at each hand."""
        if not hands:
            return
        n = self.model.n
        H = np.zeros((2 * len(hands), 2 * n + 1))
        for k, hand in enumerate(hands):
            H[k, :n] = H[len(hands) + k, n:-1] = self.model.shape(hand.x)
        measured = np.array([hand.drop for hand in hands] + [hand.rate for hand in hands])
        R = np.diag([DEFLECTION_NOISE**2] * len(hands) + [RATE_NOISE**2] * len(hands))
        K = np.linalg.solve(H @ self._P @ H.T + R, H @ self._P).T
        self._x = self._x + K @ (measured - H @ self._x)
        self._x[-1] = min(max(self._x[-1], TENSION_RANGE[0]), TENSION_RANGE[1])
        P = self._P - K @ H @ self._P
        self._P = 0.5 * (P + P.T)

    def struck(self, x: float, impulse: float) -> None:
        """Increase the uncertainty of the estimated rates after an impact on the cable at the position x (m).

        impulse  typical impulse of such an impact, N s; the actual impulse is unknown
        """
        n, N = self.model.n, self.model.shape(x)
        self._P[n:-1, n:-1] += impulse**2 * np.outer(N, N)


def _bisected(function: Callable[[float], float], limits: tuple[float, float]) -> float:
    """Zero of a decreasing function within `limits`; if there is no zero, the limit at which the function is closest to
    0.
    """
    low, high = limits
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if function(middle) > 0.0 else (low, middle)
    return 0.5 * (low + high)


def _discretized(stiffness: np.ndarray, damping: np.ndarray, dt: float) -> tuple[np.ndarray, np.ndarray]:
    """(A, B) of the exact discrete-time model x[k + 1] = A x[k] + B load of n oscillators, with a constant load in each
    step.

    Each oscillator is underdamped: q'' + damping q' + stiffness q = load. The state is x = (q, q'). A has the shape
    (2 n, 2 n), B the shape (2 n, n).

    stiffness  (n,), 1/s^2
    damping    (n,), 1/s
    dt         time step, s
    """
    r = 0.5 * damping
    damped = np.sqrt(stiffness - r**2)
    decay, c, s = np.exp(-r * dt), np.cos(damped * dt), np.sin(damped * dt) / damped
    A = np.block(
        [
            [np.diag(decay * (c + r * s)), np.diag(decay * s)],
            [np.diag(-decay * stiffness * s), np.diag(decay * (c - r * s))],
        ]
    )
    B = np.vstack([np.diag((1.0 - decay * (c + r * s)) / stiffness), np.diag(decay * s)])
    return A, B
