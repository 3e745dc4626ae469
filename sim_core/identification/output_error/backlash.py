"""Backlashes of an output-error fit: profiles of the error over the backlash of a joint, all else fitted again.

The error has kinks, because the effort comes back in one time step, and several minima, so that no search by slopes
finds a backlash. Joints are added one by one, each time that which reduces the error the most, and left out again if
the others explain the motion as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim_core.identification.output_error.estimation import Found, Prior, solution_at, solve, steps_nearby
from sim_core.identification.output_error.shots import Shots
from sim_core.identification.output_error.simulation import Forward
from sim_core.identification.output_error.unknowns import Mask

Array = np.ndarray[Any, np.dtype[np.float64]]
COARSE = (1.0, 2.0, 4.0, 7.0, 10.0, 14.0, 20.0, 28.0, 40.0, 56.0)  # time steps in which a backlash is crossed
NEARBY = (-8.0, -4.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
MOST_MOVES = 10  # of a backlash towards the least error
INSIDE = 3.84  # quantile .95 of chi-squared with one degree of freedom
SURE = 20.0  # decrease of -2 log likelihood for which a joint has a backlash: beyond chance in COARSE of 10 joints


@dataclass(frozen=True)
class Profile:
    """The backlash of a joint, rad or m, with its interval of 95 %.

    moved     (n_free,) change of the other unknowns per backlash
    is_clear  whether there is one interval only: no other backlash fits as well
    """

    value: float
    low: float
    high: float
    moved: Array
    is_clear: bool


def with_backlashes(
    forward: Forward, recordings: Sequence[Shots], found: Found, free: Mask, prior: Prior, joints: Sequence[int]
) -> tuple[Found, dict[int, Profile]]:
    """(unknowns with the backlashes of least error, {joint: profile}); `free` are the other unknowns."""
    search = _Search(forward, recordings, free, prior)
    active = list[int]()
    while rest := [joint for joint in joints if joint not in active]:
        best = search.added(found, rest)
        if best is None:
            break
        joint, trial = best
        trial = search.refined(trial, joint)
        if search.gain(found, trial) < SURE:
            break
        active.append(joint)
        found = trial
        for other in active[:-1]:
            found = search.refined(found, other)
    for joint in active[:-1]:
        without = search.solved(found, joint, 0.0)
        if search.gain(without, found) < SURE:
            found = without
    return found, {joint: search.profile(found, joint) for joint in joints}


class _Search:
    """Searches with the same segments and free unknowns."""

    def __init__(self, forward: Forward, recordings: Sequence[Shots], free: Mask, prior: Prior) -> None:
        self._case = forward, recordings
        self._free, self._prior = free, prior
        self._begin = forward.unknowns.place("backlash").start
        self._reach = recordings[0].drive.take_up * recordings[0].drive.step_s
        n_q = len(forward.scales)
        self._counts = sum((each.measured.shape[1] - 2) * len(each.first) for each in recordings)
        self._n_q = n_q

    def added(self, found: Found, joints: Sequence[int]) -> tuple[int, Found] | None:
        """The joint whose backlash reduces the error the most, and the fit with it; None if there is none."""
        present = self._play(found)
        plays = [present] + [self._other(found, joint, k * self._reach) for joint in joints for k in COARSE]
        costs, _ = steps_nearby(*self._case, found, self._free, self._prior, np.array(plays))
        best = int(np.argmin(costs))
        if best == 0:
            return None
        joint = joints[(best - 1) // len(COARSE)]
        return joint, self.solved(found, joint, float(plays[best][joint]))

    def refined(self, found: Found, joint: int) -> Found:
        """The fit with the joint's backlash moved to the least error nearby."""
        for _ in range(MOST_MOVES):
            tried, costs, _ = self._nearby(found, joint)
            best = float(tried[int(np.argmin(costs))])
            if best == self._play(found)[joint]:
                break
            trial = self.solved(found, joint, best)
            if self.gain(found, trial) <= 0.0:
                break
            found = trial
        return found

    def solved(self, found: Found, joint: int, play: float) -> Found:
        """The fit with another backlash of a joint."""
        x = found.x.copy()
        x[self._begin + joint] = play
        return solve(*self._case, x, self._free, self._prior, found.starts)

    def gain(self, before: Found, after: Found) -> float:
        """Decrease of -2 log likelihood, as if every sample told something new."""
        return float(self._counts * np.sum(np.log(before.variances / after.variances)))

    def profile(self, found: Found, joint: int) -> Profile:
        """Interval of a joint's backlash from the likelihood of others, for residuals that are correlated."""
        solution = solution_at(*self._case, found, self._free, self._prior)
        informative = (solution.dof + float(np.sum(self._free))) / (self._counts * self._n_q)
        value = float(self._play(found)[joint])
        near, costs, changes = self._nearby(found, joint)
        far = self._reach * np.array(COARSE)
        far_costs, _ = steps_nearby(
            *self._case, found, self._free, self._prior, np.array([self._other(found, joint, play) for play in far])
        )
        here = int(np.flatnonzero(near == value)[0])
        tried = np.concatenate([near, far])
        excess = min(informative, 1.0) * (np.concatenate([costs, far_costs]) - costs[here])
        tried, excess = tried[order := np.argsort(tried)], excess[order]
        inside = tried[excess <= INSIDE]
        outside = tried[excess > INSIDE]
        # up to the next backlash that is outside, because the time steps round
        below, above = outside[outside < inside.min()], outside[outside > inside.max()]
        rounding = 0.5 * self._reach if value else 0.0
        low = max(float(below.max()) - rounding, 0.0) if len(below) else 0.0
        high = float(above.min()) + rounding if len(above) else np.inf
        between = outside[(outside > inside.min()) & (outside < inside.max())]
        first, last = np.flatnonzero(np.abs(near - value) <= 1.01 * self._reach)[[0, -1]]
        moved = (changes[last] - changes[first]) / (near[last] - near[first])
        return Profile(value, low, high, moved, is_clear=not len(between))

    def _nearby(self, found: Found, joint: int) -> tuple[Array, Array, Array]:
        """(backlashes about that of a joint, costs, changes of the free unknowns)."""
        tried = np.unique(np.maximum(self._play(found)[joint] + self._reach * np.array(NEARBY), 0.0))
        plays = np.array([self._other(found, joint, float(play)) for play in tried])
        return tried, *steps_nearby(*self._case, found, self._free, self._prior, plays)

    def _play(self, found: Found) -> Array:
        return found.x[self._begin : self._begin + self._n_q]

    def _other(self, found: Found, joint: int, play: float) -> Array:
        plays = self._play(found).copy()
        plays[joint] = play
        return plays
