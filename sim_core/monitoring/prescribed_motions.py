"""Checks whether the step size resolves the motions that PrescribedMotion constraints give as functions of time."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from sim_core.mechanism.constraints import PrescribedMotion
from sim_core.monitoring.modes import rounded_down
from sim_core.system import System

AHEAD, MOST = 64, 2**20  # least and largest number of ticks that are checked at once, before they are taken
TOO_FAST = 5e-3  # permitted error of a step, as a share of the largest velocity or of the range of the motion
NOTICEABLE = 1e-4  # the same, for the motion that explains an error of the energy
STILL = 1e-9  # m or rad, and per second: smaller errors are rounding
HALVINGS = 12  # of the step in the search for one that resolves the motion


@dataclass(frozen=True)
class Missed:
    """Time step in which the error of a prescribed motion is largest.

    name   name of the PrescribedMotion constraint
    time   start of the time step, s
    share  error as a fraction of the range of the motion or of its largest velocity, see `_Motion.errors`
    what   quantity with this error, "position" or "velocity"
    """

    name: str
    time: float
    share: float
    what: str


class _Motion:
    """Position, velocity and acceleration of one prescribed motion as functions of an array of times."""

    def __init__(self, constraint: PrescribedMotion, wraps: bool) -> None:
        import casadi as ca  # only derivations need it

        assert constraint.motion is not None
        self.name, self._wraps = constraint.name, wraps
        t = ca.SX.sym("t")
        g = ca.densify(ca.SX(constraint.motion(t)))
        v = ca.densify(ca.jacobian(g, t))
        self._read = ca.Function("motion", [t], [g, v, ca.densify(ca.jacobian(v, t))])
        self._begin = float(self._read(0.0)[0])
        self._range = self._speed = 0.0

    def _at(self, times: np.ndarray) -> np.ndarray:
        """Positions, velocities and accelerations (3, n) at the times (n,)."""
        return np.array([np.array(row).ravel() for row in self._read(times.reshape(1, -1))])

    def extend(self, times: np.ndarray) -> None:
        """Update the range and the largest velocity of the motion with those at the times (n,), s.

        The range is the largest distance of the position from that at time 0.
        """
        g, v, _ = self._at(times)
        g, v = g[np.isfinite(g)], v[np.isfinite(v)]
        self._range = max(self._range, float(np.abs(g - self._begin).max(initial=0.0)))
        self._speed = max(self._speed, float(np.abs(v).max(initial=0.0)))

    def errors(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Errors of RK4 in n time steps: (errors (n,) of the position, errors (n,) of the velocity).

        RK4 evaluates the acceleration at both ends and in the middle of a time step. The errors of the position are
        fractions of the motion's range, those of the velocity are fractions of its largest velocity. An error is inf if
        the motion is not finite.

        nodes  (n + 1,) ends of the time steps, s, at equal distances
        """
        h = (nodes[-1] - nodes[0]) / (len(nodes) - 1)
        with np.errstate(all="ignore"):
            g, v, a = self._at(nodes)
            middle = self._at(nodes[:-1] + 0.5 * h)[2]
            gap = np.diff(g) - h * v[:-1] - h * h / 6.0 * (a[:-1] + 2.0 * middle)
            gap = np.arctan2(np.sin(gap), np.cos(gap)) if self._wraps else gap
            jump = np.diff(v) - h / 6.0 * (a[:-1] + 4.0 * middle + a[1:])
            found = []
            for error, scale in ((gap, self._range), (jump, self._speed)):
                size = np.where(np.abs(error) <= STILL, 0.0, np.abs(error))
                found.append(np.where(np.isfinite(error), size / max(scale, STILL), np.inf))
        return found[0], found[1]


class PrescribedMotions:
    """Checks whether the time steps of a simulation resolve its prescribed motions."""

    def __init__(self, system: System, step_s: float, is_adaptive: bool) -> None:
        self._name, self._h, self._is_adaptive = system.mechanism.name, step_s, is_adaptive
        wrapped = [system.joint_names[index] for index in system.wraps]
        self._motions = [
            _Motion(constraint, constraint.joint in wrapped)
            for constraint in system.mechanism.constraints
            if isinstance(constraint, PrescribedMotion) and constraint.motion is not None
        ]
        self.are_there = bool(self._motions)
        self.begin(0)

    def begin(self, tick: int) -> None:
        """Restart the checks at the time step with the number `tick`; earlier results are deleted."""
        self._seen, self._named = tick, set[str]()
        self._worst: Missed | None = None

    def check(self, tick: int, steps: int, idle: Collection[str]) -> Iterator[str]:
        """Yield a one-line warning for each motion that one of the next time steps does not resolve.

        A motion gets at most one warning until `begin`. Time steps that were checked before are left out.

        tick   number of the next time step
        steps  number of time steps that follow
        idle   names of the constraints that do not hold, whose motions are not checked
        """
        begin, end = max(self._seen, tick), min(tick + steps, tick + MOST)
        if end <= begin:
            return
        end = self._seen = max(end, begin + AHEAD)
        for first in range(begin, end, 4096):
            times = self._h * np.arange(first, min(first + 4096, end) + 1)
            for motion in self._motions:
                motion.extend(times)
                if motion.name not in idle and motion.name not in self._named:
                    yield from self._check(motion, times)

    def _check(self, motion: _Motion, times: np.ndarray) -> Iterator[str]:
        kinds = dict(zip(("position", "velocity"), motion.errors(times), strict=True))
        what = max(kinds, key=lambda kind: float(kinds[kind].max()))
        k = int(np.argmax(kinds[what]))
        missed = Missed(motion.name, float(times[k]), float(kinds[what][k]), what)
        if missed.share <= NOTICEABLE:
            return
        most = self._resolving(motion, missed.time)
        if self._is_adaptive and most > 0.0:
            return
        if self._worst is None or missed.share > self._worst.share:
            self._worst = missed
        if missed.share > TOO_FAST:
            self._named.add(motion.name)
            yield self._line(missed, most)

    def _resolving(self, motion: _Motion, time: float) -> float:
        """Largest step size, s, that resolves the motion in the time step from `time`, s; 0 if the motion jumps there.

        The step size is halved until it resolves the motion, at most HALVINGS times.
        """
        h = self._h
        for _ in range(HALVINGS):
            h *= 0.5
            parts = motion.errors(time + h * np.arange(round(1.5 * self._h / h) + 1))  # a jump may be at the tick's end
            if max(float(part.max()) for part in parts) <= TOO_FAST:
                return rounded_down(h)
        return 0.0

    def _line(self, missed: Missed, most: float) -> str:
        name = f"the motion of constraint {missed.name!r} of {self._name!r}"
        if not np.isfinite(missed.share):
            return f"{name} is not finite near t = {missed.time:.6g} s; give a motion that is finite over the whole run"
        if most == 0.0:
            return (
                f"{name} jumps in {missed.what} near t = {missed.time:.6g} s, and no step resolves a jump; give a "
                "motion that is twice differentiable"
            )
        return (
            f"{name} is too fast for the step of {1e3 * self._h:.4g} ms near t = {missed.time:.6g} s; use a step of "
            f"at most {1e3 * most:.2g} ms"
        )

    def explanation(self) -> str:
        """Clause of a message about an energy error: the motion that the time steps so far resolve worst.

        "" if the time steps resolve all motions.
        """
        if self._worst is None:
            return ""
        if not np.isfinite(self._worst.share):
            return self._line(self._worst, 0.0)
        return (
            f"the motion of constraint {self._worst.name!r} changes much within one step, most of all near "
            f"t = {self._worst.time:.6g} s; use a shorter step"
        )
