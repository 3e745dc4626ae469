"""Efforts that reach the joints from recorded commands: delay, servo, gain and backlash, with their derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim_core.identification.output_error.shots import Shots
from sim_core.identification.output_error.unknowns import ACTUATION, Unknowns

Array = np.ndarray[Any, np.dtype[np.float64]]


class Actuation:
    """The actuators of all segments at once; `efforts` is called once per time step.

    A delay that is no whole number of time steps mixes two successive commands, so that the efforts depend on it
    continuously. In the same way, the effort comes back within the time step in which a backlash is crossed.

    play  (S, n_q) backlashes of each segment in place of those in x
    """

    def __init__(self, shots: Shots, unknowns: Unknowns, x: Array, play: Array | None = None) -> None:
        self._drive = drive = shots.drive
        gain, delay, self._play, stiffness = (x[unknowns.place(kind)] for kind in ACTUATION)
        self._play = self._play if play is None else play
        self._gain, self._d = 1.0 + gain, np.where(drive.is_servo, drive.damping, 0.0)
        self._k = np.where(drive.is_servo, drive.stiffness * (1.0 + stiffness), 0.0)
        self._factor = np.where(drive.is_servo, self._k, 1.0)
        self._reach = drive.take_up * drive.step_s
        self._has_play, self._step = bool(self._play.any()), 0
        self._signal, self._by_delay = self._delayed(shots, delay, drive.signal)
        self._has_rate = bool(drive.rate.any())
        self._rate = self._rate_by_delay = np.zeros_like(self._signal)
        if self._has_rate:
            self._rate, self._rate_by_delay = self._delayed(shots, delay, drive.rate)
        with np.errstate(divide="ignore"):
            self._slack = np.where(drive.is_servo, drive.limit / drive.stiffness, np.inf)
        self._servo = drive.is_servo.astype(float)
        if self._has_play:
            self._side, self._left = self._backlash_at_start(shots, delay)
            self._left_by_play = np.where(self._left > 0.0, 1.0, 0.0)

    def efforts(self, q: Array, v: Array) -> tuple[Array, Array, Array, Array]:
        """(efforts, commanded efforts, shares of the time in contact, derivatives of these by the backlash).

        Each (S, n_q), in the next time step at q, v (S, n_q).
        """
        signal, limit, slack = self._signal[self._step], self._drive.limit, self._slack
        # a servo's target stays within limit / stiffness of the joint, so that it does not wind up
        self._stretch = np.minimum(np.maximum(signal - self._servo * q, -slack), slack)
        wanted = self._factor * self._stretch + self._d * (self._rate[self._step] - v)
        told = np.minimum(np.maximum(wanted, -limit), limit)
        self._step += 1
        if not self._has_play:
            return self._gain * told, told, np.ones_like(told), np.zeros_like(told)
        contact, by_play = self._contact(told)
        return self._gain * contact * told, told, contact, by_play

    def derivatives(self, told: Array, contact: Array, by_play: Array) -> tuple[Array, Array, Array]:
        """Derivatives of the efforts that `efforts` returned.

        By q and by v of the same joint (S, n_q), and by the joint's own ACTUATION (S, n_q, 4).
        """
        drive, step, factor = self._drive, self._step - 1, self._gain * contact
        loop = np.where(np.abs(told) < drive.limit, factor, 0.0)
        follows = loop * (np.abs(self._stretch) < self._slack)
        by_delay = follows * self._factor * self._by_delay[step]
        if self._has_rate:
            by_delay = by_delay + loop * self._d * self._rate_by_delay[step]
        by_stiffness = loop * self._servo * drive.stiffness * self._stretch
        each = [contact * told, by_delay, self._gain * told * by_play, by_stiffness]
        return -follows * self._k, -loop * self._d, np.stack(each, axis=-1)

    @staticmethod
    def _delayed(shots: Shots, delay: Array, values: Array) -> tuple[Array, Array]:
        """(values (steps, S, n_q) after the delay, derivative by the delay)."""
        back = delay / shots.drive.step_s
        whole = np.floor(back).astype(int)
        share, last, joint = back - whole, len(values) - 1, np.arange(len(back))
        at = np.arange(shots.steps)[:, None, None] + shots.first[:, None] - whole
        later, earlier = (values[np.clip(index, 0, last), joint] for index in (at, at - 1))
        return (1.0 - share) * later + share * earlier, (earlier - later) / shots.drive.step_s

    def _contact(self, told: Array) -> tuple[Array, Array]:
        """(share of the step in which the drives transmit, derivative by the backlash), (S, n_q) each."""
        side, reach = np.sign(told), self._reach
        turned = (side != self._side) & (side != 0.0)
        self._left = np.where(turned, self._play - self._left, self._left)
        self._left_by_play = np.where(turned, 1.0 - self._left_by_play, self._left_by_play)
        self._side = np.where(turned, side, self._side)
        # a drive that arrives within a step transmits in it: half a step too early on average
        share = 1.5 - self._left / reach
        contact = np.minimum(np.maximum(share, 0.0), 1.0)
        by_play = np.where((share > 0.0) & (share < 1.0), -self._left_by_play / reach, 0.0)
        self._left_by_play = np.where(self._left > reach, self._left_by_play, 0.0)
        self._left = np.maximum(self._left - reach, 0.0)
        return contact, by_play

    def _backlash_at_start(self, shots: Shots, delay: Array) -> tuple[Array, Array]:
        """(side towards which each drive pushes, distance left to the contact), (S, n_q), at the segments' beginnings.

        The efforts along the measured motion tell when each drive last turned; it touched before.
        """
        side = np.sign(self._drive.effort)
        index = np.arange(len(side))[:, None]
        known = np.maximum.accumulate(np.where(side != 0.0, index, 0), axis=0)
        side = np.take_along_axis(side, known, axis=0)
        turned = np.concatenate([np.zeros((1, side.shape[1]), dtype=bool), side[1:] != side[:-1]])
        since = index - np.maximum.accumulate(np.where(turned, index, -len(side)), axis=0)
        back = np.maximum(np.floor(delay / self._drive.step_s).astype(int), 0)
        before = np.clip(shots.first[:, None] - 1 - back, 0, len(side) - 1)
        joint = np.arange(side.shape[1])
        crossed = self._reach * (since[before, joint] + 1)
        return side[before, joint], np.maximum(self._play - crossed, 0.0)
