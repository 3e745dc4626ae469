"""Deviations of a machine from its model, as pure functions: friction, backlash, encoder resolution, clock errors.

Arrays (n,) have one entry per joint, in SI units; h is the step size (s).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nodes.hil.alignment.streams import Floats

SWEEPS = 1000  # most Gauss-Seidel sweeps over the joints
SETTLED = 1e-12  # largest change in a sweep, as a fraction of the friction limit, that counts as converged


def dry_friction(v: Floats, a: Floats, A: Floats, limit: Floats, h: float) -> Floats:
    """Efforts f (n,) of dry (Coulomb) friction that act during a time step.

    v      velocities of the joints
    a      accelerations of the joints without friction
    A      (n, n) accelerations per unit effort, symmetric and positive definite
    limit  largest friction of each joint
    With f, the velocities after the time step are v + h (a + A f). For each joint, either this velocity is zero and |f|
    is at most `limit`, or |f| equals `limit` and f opposes the velocity. A joint therefore stops within a time step and
    sticks, without creep and without a threshold velocity.

    The solver first assumes that every joint sticks. It then iterates: a sticking joint slides if it needs more
    friction than `limit`, and a sliding joint sticks if friction would accelerate it. If the iteration does not
    converge, projected Gauss-Seidel is used.
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
    """Efforts (n,) of dry friction during a time step, by projected Gauss-Seidel, which converges slowly but always.

    b      (n,) velocities of the joints after the time step without friction, divided by the step size
    A      (n, n) accelerations per unit effort, symmetric and positive definite
    limit  (n,) largest friction of each joint
    """
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
    """Return (positions of the drives within the backlash, efforts that reach the joints), each (n,).

    The positions are those after a time step of h seconds, and the efforts act during this time step.

    place   position of the drive minus position of the joint, within +-play / 2
    effort  effort of the drive
    rate    velocity of an unloaded drive relative to its joint while it crosses the backlash (rad/s or m/s)
    play    backlash (rad or m)
    A drive transmits its effort only while it is in contact on the side towards which it pushes. After a change of sign
    of the effort, the joint is therefore free for play / rate seconds.
    """
    half = play / 2.0
    place = np.clip(place + np.sign(effort) * rate * h, -half, half)
    touches = np.sign(effort) * place >= half * (1.0 - 1e-12)
    return place, np.where(touches, effort, 0.0)


def drag(shown: Floats, position: Floats, play: Floats) -> Floats:
    """Readings (n,) of encoders with backlash `play`.

    A reading follows the position of its joint only after the backlash is crossed.

    shown  readings of the encoders before this call
    """
    return np.clip(shown, position - play / 2.0, position + play / 2.0)


def quantize(values: Floats, step: Floats) -> Floats:
    """Values (n,) rounded to multiples of `step`; unchanged where the step is 0."""
    return np.where(step > 0.0, step * np.round(values / np.where(step > 0.0, step, 1.0)), values)


@dataclass(frozen=True)
class OwnClock:
    """A clock that reads t + offset_s + drift t at simulation time t (s), plus step_s from t = step_at_s on."""

    offset_s: float = 0.0
    drift: float = 0.0
    step_s: float = 0.0
    step_at_s: float = 0.0

    def at(self, t: float) -> float:
        """Clock reading at simulation time t (s)."""
        return t + self.offset_s + self.drift * t + (self.step_s if t >= self.step_at_s else 0.0)

    def elapsed(self, t: float) -> float:
        """Seconds since t = 0 that the clock's timers count; jumps of the clock do not affect timers."""
        return t + self.drift * t
