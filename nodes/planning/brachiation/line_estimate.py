"""What the robot thinks of the cable: its modes, from the motion of the hands that grip it.

A Kalman filter on the planner's own modes. The force of each hand comes from the planner's model of the robot at the
measured joints, deflection and rate under each hand are measured; what the model does not have (other modes, another
tension) is noise to it. [Kalman1960]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sim_core.flexible.elements import BeamModel, contact_model
from sim_core.mechanism.beams import Beam
from sim_core.mechanism.quantities import value_of

FORCE_NOISE = 20.0  # N, how wrong the model's force of a hand is over one update
MODAL_NOISE = 0.3  # m kg^0.5 / s^2, acceleration of each mode that the model does not know, over one update
DEFLECTION_NOISE, RATE_NOISE = 3e-3, 3e-2  # m, m/s: the modes that the model lacks move the hand by this

MODAL_SPREAD = 0.005  # m kg^0.5, of the lowest mode at the start; the others have its energy
TENSION_SPREAD, TENSION_WALK, TENSION_RANGE = 0.03, 0.01, (0.5, 2.0)  # shares of what is believed, its walk per s^0.5


@dataclass(frozen=True)
class HandOnLine:
    """A hand that grips: m along the line, m and m/s down from where the line is straight, N pressed down on it."""

    x: float
    drop: float
    rate: float
    force: float = 0.0


class LineEstimate:
    """Amplitudes and rates of a cable's modes, and its tension as a share of the believed one, `tension_scale`.

    It starts at rest, with the tension at which the line sags to the hands that grip it under its own weight and
    theirs. width is how much of the line a hand takes hold of, m.
    """

    def __init__(self, cable: Beam, gravity: float, hands: list[HandOnLine], width: float) -> None:
        self.model: BeamModel = contact_model(cable, width)
        self._weight = cable.mass_per_length * gravity * self.model.uniform
        self._tension_part = value_of(cable.tension) * np.diag(self.model.taut)  # of the stiffness, 1/s^2
        self._damping = np.diag(self.model.C)
        n = self.model.n
        scale = _bisected(lambda scale: self._sag(scale, hands), TENSION_RANGE) if hands else 1.0
        self._x = np.concatenate([self._rest(scale, hands), np.zeros(n), [scale]])
        spread = MODAL_SPREAD * self.model.frequencies[0] * np.concatenate([1.0 / self.model.frequencies, np.ones(n)])
        self._P = np.diag(np.concatenate([spread, [TENSION_SPREAD]]) ** 2)

    @property
    def amplitude(self) -> np.ndarray:
        """(n,), m kg^0.5."""
        return self._x[: self.model.n]

    @property
    def rate(self) -> np.ndarray:
        """(n,), per s."""
        return self._x[self.model.n : -1]

    @property
    def tension_scale(self) -> float:
        """Tension over the believed one."""
        return float(self._x[-1])

    def _rest(self, scale: float, hands: list[HandOnLine]) -> np.ndarray:
        load = self._weight + sum((hand.force * self.model.shape(hand.x) for hand in hands), 0.0 * self._weight)
        return np.asarray(load / self._stiffness(scale))

    def _stiffness(self, scale: float) -> np.ndarray:
        """(n,) 1/s^2, of the modes under a tension `scale` times the believed one."""
        return np.asarray(self.model.frequencies**2 + (scale - 1.0) * self._tension_part)

    def _sag(self, scale: float, hands: list[HandOnLine]) -> float:
        """How much deeper the hands hang at rest than they are measured, m, summed."""
        amplitude = self._rest(scale, hands)
        return float(sum(self.model.shape(hand.x) @ amplitude - hand.drop for hand in hands))

    def predict(self, dt: float, hands: list[HandOnLine]) -> None:
        """Move on by dt s under the weight and the forces of the hands."""
        n, scale, before = self.model.n, self._x[-1], self._x[:-1]
        A, B = _discretized(self._stiffness(scale), self._damping, dt)
        shapes = [self.model.shape(hand.x) for hand in hands]
        pressed = sum((hand.force * N for hand, N in zip(hands, shapes, strict=True)), np.zeros(n))
        after = A @ before + B @ (self._weight + pressed)
        F = np.eye(2 * n + 1)
        F[:-1, :-1] = A
        F[:-1, -1] = B @ (-self._tension_part * 0.5 * (before[:n] + after[:n]))  # what more tension does over dt
        self._x[:-1] = after
        Q = B @ (MODAL_NOISE**2 * np.eye(n) + sum((FORCE_NOISE**2 * np.outer(N, N) for N in shapes), np.zeros((n, n))))
        self._P = F @ self._P @ F.T
        self._P[:-1, :-1] += Q @ B.T
        self._P[-1, -1] += TENSION_WALK**2 * dt

    def correct(self, hands: list[HandOnLine]) -> None:
        """Take in what the hands measure: deflection and rate of the line where they grip it."""
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
        """A grip at x: the rates jump along its shape by an impulse of about that size, N s, which is not known."""
        n, N = self.model.n, self.model.shape(x)
        self._P[n:-1, n:-1] += impulse**2 * np.outer(N, N)


def _bisected(function: Callable[[float], float], limits: tuple[float, float]) -> float:
    """Where a falling function is zero, or the limit that is nearest to it."""
    low, high = limits
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if function(middle) > 0.0 else (low, middle)
    return 0.5 * (low + high)


def _discretized(stiffness: np.ndarray, damping: np.ndarray, dt: float) -> tuple[np.ndarray, np.ndarray]:
    """x+ = A x + B load over dt, the load held: damped oscillators q'' + 2 r q' + w^2 q = load, each exactly."""
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
