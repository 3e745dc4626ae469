"""What keeps a machine from being its model: friction, play, encoder steps, a clock of its own. Pure functions.

Arrays (n,) are joints, SI units; h is the step, s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nodes.hil.alignment.streams import Floats

SWEEPS = 1000  # over the joints, in the search for their friction
SETTLED = 1e-12  # share of the largest friction within which a sweep changes nothing


def dry_friction(v: Floats, a: Floats, A: Floats, limit: Floats, h: float) -> Floats:
    """Efforts f (n,) of dry (Coulomb) friction over a step: at most `limit`, and what stops a joint if that is less.

    v    rates of the joints, a their accelerations without friction
    A    (n, n) accelerations per effort, symmetric and positive definite
    With f the rates after the step are v + h (a + A f): either zero, or |f| is at its limit and against the rate. So a
    joint comes to rest within a step and sticks, without a creep and without a threshold.

    Joints are taken to stick until that asks too much of them, and to slide until friction would drive them; where this
    does not settle, by projected Gauss-Seidel.
    """
    b = v / h + a  # rates after the step without friction, per h
    f = np.zeros_like(v)
    rubs = limit > 0.0
    sticks = rubs.copy()
    for _ in range(2 * len(v) + 2):
        if sticks.any():
            others = np.where(sticks, 0.0, f)
            f[sticks] = np.linalg.solve(A[np.ix_(sticks, sticks)], -(b + A @ others)[sticks])
        breaks = sticks & (np.abs(f) > limit)
        f = np.clip(f, -limit, limit)
        driven = rubs & ~sticks & ((b + A @ f) * f > 0.0)
        if not (breaks.any() or driven.any()):
            return f
        sticks = (sticks & ~breaks) | driven
    return _swept(b, A, limit)


def _swept(b: Floats, A: Floats, limit: Floats) -> Floats:
    """The same by projected Gauss-Seidel, which always settles, but slowly."""
    f, after = np.zeros_like(b), b.copy()
    for _ in range(SWEEPS):
        change = 0.0
        for j in np.flatnonzero(limit):
            new = min(max(f[j] - after[j] / A[j, j], -limit[j]), limit[j])
            change = max(change, abs(new - f[j]) / limit[j])
            after += A[:, j] * (new - f[j])
            f[j] = new
        if change <= SETTLED:
            break
    return f


def take_up(place: Floats, effort: Floats, rate: float, play: Floats, h: float) -> tuple[Floats, Floats]:
    """Where gears stand in their play after a step, and the efforts (n,) that reach the joints over it.

    place   of the drive less that of the joint, within +-play / 2
    rate    at which a drive without load crosses the play, against its joint, rad/s or m/s
    An effort is passed on only where the gear touches on the side it pushes to: after a change of sign the joint is
    free for play / rate seconds.
    """
    half = play / 2.0
    place = np.clip(place + np.sign(effort) * rate * h, -half, half)
    touches = np.sign(effort) * place >= half * (1.0 - 1e-12)
    return place, np.where(touches, effort, 0.0)


def drag(shown: Floats, position: Floats, play: Floats) -> Floats:
    """What a dragged encoder shows: it follows the position only where the play (n,) is used up (hysteresis)."""
    return np.clip(shown, position - play / 2.0, position + play / 2.0)


def quantize(values: Floats, step: Floats) -> Floats:
    """Values (n,) in whole steps, the nearest; as they are where the step is 0."""
    return np.where(step > 0.0, step * np.round(values / np.where(step > 0.0, step, 1.0)), values)


@dataclass(frozen=True)
class OwnClock:
    """A clock beside simulation time t, s: it shows t + offset + drift t, and step_s more from t = step_at_s on."""

    offset_s: float = 0.0
    drift: float = 0.0
    step_s: float = 0.0
    step_at_s: float = 0.0

    def at(self, t: float) -> float:
        """What it shows."""
        return t + self.offset_s + self.drift * t + (self.step_s if t >= self.step_at_s else 0.0)

    def elapsed(self, t: float) -> float:
        """How many of its seconds have passed since t = 0: what its timers count."""
        return t + self.drift * t
