"""Mass of a load on a link, from the efforts along a motion: calibration of the motors, then recursive least squares.

A motor's measured effort is k (tau + Y d) + c + b v + s tanh(v / v0): tau are the efforts of the model without load, Y
the columns of the link in the regressor, and d the inertial parameters of the load. The gain k, the offset c and the
friction b, s of each joint are fitted while there is no load. Then they stay as they are, and their covariance enters
that of the load as the covariance of parameters that are considered but not estimated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nodes.hil.alignment.streams import Floats
from sim_core.identification.inertial_parameters import PARAMETERS, about_origin
from sim_core.identification.regressor import Regressor
from sim_core.mechanism import Mechanism
from sim_core.mechanism.inertias import held_together
from sim_core.system import assemble

SLOW = 0.01  # rad/s or m/s: velocity at which Coulomb friction has most of its size
TERMS = 4  # per joint: gain, offset, viscous friction, Coulomb friction
MOST_CORRELATED = 0.9  # of successive residuals
TWO_SIDED_95 = 1.96  # standard deviations
CHANGE_DEVIATIONS = 4.75  # standard deviations of a normal distribution, probability 1e-6: a load has changed


@dataclass(frozen=True)
class Motion:
    """Averages over a window: positions, velocities, accelerations and efforts of the joints, (n,) each."""

    q: Floats
    v: Floats
    a: Floats
    effort: Floats


def averaged(time: Floats, q: Floats, effort: Floats) -> Motion:
    """Motion in the middle of a window, from samples at times (m,) of positions and efforts, (m, n) each.

    The velocities and accelerations are those of the parabola that fits the positions best. Positions and efforts are
    averaged with the weights (1 - x^2)^2, x from -1 to 1: the acceleration of that parabola is the average of the
    acceleration with these weights. The samples may be uneven.
    """
    half = (time[-1] - time[0]) / 2.0
    x = (time - time[0]) / half - 1.0
    w = (1.0 - x * x) ** 2
    w /= w.sum()
    parabola = np.linalg.lstsq(np.stack([np.ones_like(x), x, x * x], axis=1), q, rcond=None)[0]
    return Motion(w @ q, parabola[1] / half, 2.0 * parabola[2] / half**2, w @ effort)


class LoadedLink:
    """Efforts of a model without load, and the regressor of a load on one of its links.

    joints  names of the joints, in the order of all arrays (n,)
    link    name of the link: the body whose frame is that of the load's parameters
    scale   (10, k): inertial parameters of the load per unknown; with unknowns of size 1 they have the size that is
            plausible before the first measurement
    """

    def __init__(
        self, mechanism: Mechanism, link: str, heaviest: float, reach: float, center: Sequence[float] = ()
    ) -> None:
        """Compile or load the kernels.

        link      name of a body; "" for the last link
        heaviest  standard deviation of the mass before the first measurement, kg
        reach     distance of the load's parts from the link's origin, m
        center    (3,) centre of the load in the link's frame, m, if it is known: the load is then a point
        Raises ValueError with a one-line message for an unknown link.
        """
        regressor = Regressor(mechanism)
        self.joints, self.link = regressor.joints, _link_of(mechanism, regressor.links, link)
        n, first = len(self.joints), len(PARAMETERS) * regressor.links.index(self.link)
        self._q, self._v, self._a, self._tau = (np.zeros(n) for _ in range(4))
        self._Y = np.zeros((n, len(regressor.parameters)), order="F")
        self._columns = slice(first, first + len(PARAMETERS))
        self._regress = regressor.bind(self._q, self._v, self._a, self._Y)
        self._inverse = assemble(mechanism).bind_inverse_dynamics(self._q, self._v, self._a, self._tau)
        plausible = heaviest * np.array([1.0] + 3 * [reach] + 6 * [reach**2])
        point = heaviest * about_origin(1.0, center, np.zeros((3, 3)))[:, None] if center else None
        self.scale: Floats = np.diag(plausible) if point is None else point

    def at(self, motion: Motion) -> tuple[Floats, Floats]:
        """(tau (n,), Y (n, k)): efforts without load, and their change per unknown of the load."""
        self._q[:], self._v[:], self._a[:] = motion.q, motion.v, motion.a
        self._inverse()
        self._regress()
        return self._tau.copy(), self._Y[:, self._columns] @ self.scale


def _link_of(mechanism: Mechanism, links: Sequence[str], name: str) -> str:
    if not name:
        return links[-1]
    for link in links:
        if name in held_together(mechanism, link):
            return link
    raise ValueError(f"robot {mechanism.name!r} has no moving link {name!r}; its links are {', '.join(links)}")


def _terms(tau: Any, v: Any) -> Floats:
    """Columns (..., TERMS) of a joint's effort: gain, offset, viscous and Coulomb friction."""
    return np.stack([tau, np.ones_like(v), v, np.tanh(v / SLOW)], axis=-1)


@dataclass
class Calibration:
    """Gains, offsets and friction of n joints.

    theta       (n, TERMS)
    covariance  (n, TERMS, TERMS)
    variance    (n,) of the averaged efforts, enlarged so that successive ones may be treated as independent
    """

    theta: Floats
    covariance: Floats
    variance: Floats

    def unloaded(self, motion: Motion, tau: Floats) -> tuple[Floats, Floats, Floats]:
        """(y, variance, G): the load's efforts y (n,), their variance (n,), their sensitivity G (n, TERMS) to theta.

        y are the measured efforts, without friction and divided by the gains, less tau (n,)
        """
        X, k = _terms(tau, motion.v), self.theta[:, 0]
        G = -X / k[:, None]
        net = (motion.effort - np.sum(X[:, 1:] * self.theta[:, 1:], axis=1)) / k
        G[:, 0] = -net / k
        return net - tau, self.variance / k**2, G


def calibrated(
    motions: Sequence[Motion], taus: Sequence[Floats], gain_error: float, gain_drift: float, friction: float
) -> Calibration:
    """Calibration from motions without load, and the model's efforts (n,) of each.

    gain_error  standard deviation of the gains about 1 before the calibration
    gain_drift  standard deviation by which the gains vary after it; it is added to their covariance
    friction    standard deviation of offset, friction at 1 rad/s and Coulomb friction before the calibration, as a
                share of the root-mean-square effort of the joint
    """
    efforts = np.array([motion.effort for motion in motions])
    X = _terms(np.array(taus), np.array([motion.v for motion in motions]))
    size = np.maximum(np.sqrt(np.mean(efforts**2, axis=0)), 1e-6)
    found = [_calibrated(X[:, j], efforts[:, j], gain_error, friction * size[j]) for j in range(efforts.shape[1])]
    theta, covariance, variance = (np.array(part) for part in zip(*found, strict=True))
    covariance[:, 0, 0] += gain_drift**2
    return Calibration(theta, covariance, variance)


def _calibrated(X: Floats, y: Floats, gain_error: float, friction: float) -> tuple[Floats, Floats, float]:
    """(theta, covariance, variance) of one joint."""
    before, prior = np.array([1.0, 0.0, 0.0, 0.0]), np.array([gain_error] + 3 * [friction]) ** -2.0
    r = y - X @ np.linalg.lstsq(X, y, rcond=None)[0]
    squares = float(r @ r)
    rho = min(max(float(r[1:] @ r[:-1]) / squares, 0.0), MOST_CORRELATED) if squares > 0.0 else 0.0
    variance = squares / max(len(y) - TERMS, 1) * (1.0 + rho) / (1.0 - rho)
    variance = max(variance, (1e-6 * friction) ** 2)  # of a simulation without noise
    covariance = np.asarray(np.linalg.inv(X.T @ X / variance + np.diag(prior)), dtype=float)
    theta: Floats = covariance @ (X.T @ y / variance + prior * before)
    return theta, covariance, variance


@dataclass
class Load:
    """Least squares of a load's k unknowns with exponential forgetting, for n joints.

    A  (k, k) information; the identity before the first measurement
    b  (k,)
    C  (k, n TERMS) sensitivity of A x to the calibration
    """

    k: int
    A: Floats = field(init=False)
    b: Floats = field(init=False)
    C: Floats | None = None
    changes: int = 0  # of the load

    def __post_init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self.A, self.b, self.C = np.zeros((self.k, self.k)), np.zeros(self.k), None

    def add(self, motion: Motion, tau: Floats, Y: Floats, calibration: Calibration, kept: float) -> None:
        """Add a motion. Earlier motions are kept with the weight `kept`, or forgotten if the load has changed."""
        y, variance, G = calibration.unloaded(motion, tau)
        n = len(y)
        spread = np.zeros((n, n * TERMS))  # G with the columns of all joints
        spread.reshape(n, n, TERMS)[range(n), range(n)] = G
        if self._has_changed(y, Y, variance, spread, calibration):
            self._forget()
            self.changes += 1
        W = 1.0 / (variance + np.einsum("ji,jik,jk->j", G, calibration.covariance, G))
        self.A = kept * self.A + (Y.T * W) @ Y
        self.b = kept * self.b + (Y.T * W) @ y
        self.C = (0.0 if self.C is None else kept * self.C) + (Y.T * W) @ spread

    def solved(self, calibration: Calibration) -> tuple[Floats, Floats]:
        """(x (k,), covariance (k, k)) of the unknowns."""
        inverse = np.linalg.inv(np.eye(self.k) + self.A)
        return inverse @ self.b, inverse + _considered(inverse @ self._sensitivity(calibration), calibration)

    def _sensitivity(self, calibration: Calibration) -> Floats:
        return np.zeros((self.k, calibration.theta.size)) if self.C is None else self.C

    def _has_changed(self, y: Floats, Y: Floats, variance: Floats, G: Floats, calibration: Calibration) -> bool:
        """Whether the efforts y contradict the load so far: chi-squared test of the innovation.

        The quantile is Wilson's and Hilferty's.
        """
        inverse = np.linalg.inv(np.eye(self.k) + self.A)
        innovation = y - Y @ inverse @ self.b
        S = Y @ inverse @ Y.T + np.diag(variance)
        S += _considered(G - Y @ inverse @ self._sensitivity(calibration), calibration)
        n = len(y)
        most = n * (1.0 - 2.0 / (9.0 * n) + CHANGE_DEVIATIONS * math.sqrt(2.0 / (9.0 * n))) ** 3
        return bool(innovation @ np.linalg.solve(S, innovation) > most)


def _considered(G: Floats, calibration: Calibration) -> Floats:
    """Covariance (m, m) of values with the sensitivity G (m, n TERMS) to the calibration."""
    blocks = G.reshape(len(G), -1, TERMS)
    return np.asarray(np.einsum("aji,jik,bjk->ab", blocks, calibration.covariance, blocks))
