"""Segments of a recording from whose starts the model is simulated again and again: the shots of multiple shooting."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim_core.identification.rounding import step_of
from sim_core.identification.signals import Recorded, motion_of, sampled

Array = np.ndarray[Any, np.dtype[np.float64]]
MOST_RATE_HZ = 200.0  # of the positions that are compared
UNKNOWN_S = 0.1  # after the first command: until a late one arrives, something unknown moves the robot


@dataclass(frozen=True)
class Drive:
    """What the actuators of the n_q joints were commanded, on a grid of equal time steps.

    start_s    time of the first step
    step_s     length of a step
    is_servo   (n_q,) whether the joint's servo follows a target; otherwise the command is the effort
    signal     (n, n_q) targets, rad or m, or efforts, N m or N, during each step; 0 for a joint without motor
    rate       (n, n_q) speed of the target, rad/s or m/s
    effort     (n, n_q) efforts of the servos along the measured motion, whose sign tells the side of a backlash
    stiffness, damping, limit  (n_q,) of the servos
    take_up    rad/s or m/s at which a drive crosses a backlash
    behind     (n, n_q) whether the servo's limits held its target back, so that it depends on the motion before
    """

    start_s: float
    step_s: float
    is_servo: np.ndarray[Any, np.dtype[np.bool_]]
    signal: Array
    rate: Array
    effort: Array
    stiffness: Array
    damping: Array
    limit: Array
    take_up: float = 1.0
    behind: np.ndarray[Any, np.dtype[np.bool_]] | None = None

    def of(self, columns: Sequence[int]) -> Drive:
        """The drive of the joints with these indices, in this order."""
        by_step = {name: getattr(self, name)[:, columns] for name in ("signal", "rate", "effort")}
        by_step["behind"] = None if self.behind is None else self.behind[:, columns]
        by_joint = {name: getattr(self, name)[columns] for name in ("is_servo", "stiffness", "damping", "limit")}
        return dataclasses.replace(self, **by_step, **by_joint)


@dataclass(frozen=True)
class Shots:
    """S segments of the same length with the drives and the measured positions.

    drive     of the recording
    first     (S,) time step of the drive at which each segment begins
    steps     time steps per segment
    every     time steps from one compared position to the next
    measured  (S, m, n_q) positions, the first at the beginning of the segment
    start     (S, 2 n_q) filtered positions and velocities at the beginning
    rounding  (n_q,) steps to which encoders round the positions, rad or m; 0 if they do not
    """

    drive: Drive
    first: np.ndarray[Any, np.dtype[np.int64]]
    steps: int
    every: int
    measured: Array
    start: Array
    rounding: Array

    def only(self, some: slice | np.ndarray[Any, Any]) -> Shots:
        """Some of the segments."""
        return dataclasses.replace(self, first=self.first[some], measured=self.measured[some], start=self.start[some])


def shots_of(drive: Drive, recorded: Recorded, seconds: float, cutoff_hz: float) -> Shots | None:
    """Segments of `seconds` (s) of a recording, one after the other; None if no part of it is long enough.

    Segments in which a servo is `behind` are left out.

    cutoff_hz  of the filter of the positions and velocities at the starts
    """
    first, measured, start = list[int](), list[Array](), list[Array]()
    every = steps = 0
    for part in sampled(recorded):
        stride = max(1, int(part.rate_hz / MOST_RATE_HZ))
        every = every or max(1, round(stride / (part.rate_hz * drive.step_s)))
        samples = steps // every if steps else max(2, int(seconds / (every * drive.step_s)))
        steps = samples * every
        times = part.time[0] + every * drive.step_s * np.arange(
            int((part.time[-1] - part.time[0]) / (every * drive.step_s)) + 1
        )
        q, v, _ = motion_of(part, cutoff_hz)
        raw, smooth, speed = (_at(times, part.time, each) for each in (part.q, q, v))
        period_s = every * drive.step_s
        known = max(0, int(np.ceil((drive.start_s + UNKNOWN_S - times[0]) / period_s)))
        for begin in range(known, len(times) - samples, samples):
            step = round((times[begin] - drive.start_s) / drive.step_s)
            if step + steps > len(drive.signal):
                continue
            if drive.behind is not None and drive.behind[step : step + steps].any():
                continue
            first.append(step)
            measured.append(raw[begin : begin + samples + 1])
            start.append(np.concatenate([smooth[begin], speed[begin]]))
    if not first:
        return None
    rounding = np.array([step_of(column) for column in recorded.q.T])
    return Shots(drive, np.array(first), steps, every, np.stack(measured), np.stack(start), rounding)


def _at(times: Array, known: Array, values: Array) -> Array:
    return np.stack([np.interp(times, known, column) for column in values.T], axis=1)
