"""Fit of a robot's actuation, zeros, friction and inertias to recorded commands and positions, by output error.

result = fit_output_error(mechanism, names, [Commanded(recorded, drive)], ("zero", "gain", "delay", "backlash"))
result.estimates            # with intervals
result.before, result.after # errors of the positions in the held-out part
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim_core.errors import InvalidRequest
from sim_core.identification.base_parameters import base_parameters
from sim_core.identification.estimates import DEVIATION, LARGEST_SD, LEVEL, Estimate, Refusal
from sim_core.identification.friction import SMOOTHING, speed_scales
from sim_core.identification.inertial_parameters import nearest_consistent
from sim_core.identification.output_error.estimation import (
    Prior,
    Solution,
    solution_at,
    solve,
    starts_of,
    with_backlash,
)
from sim_core.identification.output_error.inertial_efforts import InertialEfforts
from sim_core.identification.output_error.shots import Drive, Shots, shots_of
from sim_core.identification.output_error.simulation import Forward
from sim_core.identification.output_error.unknowns import FRICTION, KINDS, PLAUSIBLE, Mask, Unknowns
from sim_core.identification.regression import Prior as InertialPrior
from sim_core.identification.regressor import Regressor
from sim_core.identification.rigid_tree import rigid_tree
from sim_core.identification.signals import Recorded, motion_of, sampled
from sim_core.mechanism.description import Mechanism
from sim_core.mechanism.quantities import value_of

Array = np.ndarray[Any, np.dtype[np.float64]]
SERVO_S, EFFORT_S = 0.5, 0.4  # length of a segment behind servos, and without: errors of an open loop grow
LEAST_SHOTS = 3
CUTOFF_HZ = 10.0  # of the filter of the starts, which are then fitted
LEAST_RADIUS = 0.01  # m, see `fitting.LEAST_RADIUS`
STIFFEST = 0.5  # largest slope of the smooth friction, as a share of inertia over time step


class NoShotsError(ValueError):
    """Raised if output error has nothing to work on, with a one-line reason."""


@dataclass(frozen=True)
class Commanded:
    """A recording of positions with the commands of its actuators; `drive.signal` has the joints' order."""

    recorded: Recorded
    drive: Drive


@dataclass(frozen=True)
class OutputErrorResult:
    """Result of `fit_output_error`.

    joints     names
    estimates  of the KINDS that were asked for and can be known, with intervals
    friction   estimates of friction, with intervals
    refusals   what cannot be known
    before, after  (n_q,) rms error of the positions in the held-out part, rad or m, predicted from the start of each
               segment: of the model as it was, and of the fitted one
    seconds    length of a segment
    shots      number of fitted segments
    relative_gains  whether gains are relative to their mean, because inertias are fitted, too
    """

    joints: tuple[str, ...]
    estimates: tuple[Estimate, ...]
    friction: tuple[Estimate, ...]
    refusals: tuple[Refusal, ...]
    before: Array
    after: Array
    seconds: float
    shots: int
    relative_gains: bool

    @property
    def is_better(self) -> bool:
        """Whether the fitted model predicts the held-out part better, all joints together."""
        scale = np.maximum(self.before, 1e-12)
        return bool(np.mean((self.after / scale) ** 2) < 1.0)


def fit_output_error(
    mechanism: Mechanism,
    joints: Sequence[str],
    recordings: Sequence[Commanded],
    kinds: Collection[str],
    *,
    inertia: bool = False,
    holdout: float = 0.3,
    held: Mapping[str, float] | None = None,
) -> OutputErrorResult:
    """Fit a mechanism's actuation to recordings with commands.

    kinds    which of `unknowns.KINDS` are fitted; friction always is
    inertia  whether inertias are unknown as well, with the mechanism's as prior
    Raises NoShotsError, with a one-line reason, if there are too few segments.
    """
    for kind in kinds:
        if kind not in KINDS:
            raise InvalidRequest(f"kinds has {kind!r}; it may have {', '.join(KINDS)}")
    if mechanism.constraints:
        raise NoShotsError(f"robot {mechanism.name!r} has constraints; output error needs a tree of joints")
    case = _Case(mechanism, joints, recordings, held or {}, holdout)
    free = case.free(kinds, inertia)
    play = case.unknowns.mask({"backlash": range(len(joints))})
    x = solve(case.forward, case.fitted, case.start, free & ~play, case.prior)
    for _ in range(2 if "backlash" in kinds else 0):
        x = with_backlash(case.forward, case.fitted, x, free & ~play, case.prior, case.driven)
        x = solve(case.forward, case.fitted, x, free, case.prior)
    solution = solution_at(case.forward, case.fitted, x, free, case.prior)
    return case.result(solution, free, kinds, inertia)


class _Case:
    """Forward model, segments and prior of a fit."""

    def __init__(
        self,
        mechanism: Mechanism,
        joints: Sequence[str],
        recordings: Sequence[Commanded],
        held: Mapping[str, float],
        holdout: float,
    ) -> None:
        regressor = Regressor(rigid_tree(mechanism, joints, held))
        if regressor.joints != tuple(joints):
            raise InvalidRequest(f"joints are {', '.join(joints)}; expected the order {', '.join(regressor.joints)}")
        base = base_parameters(regressor)
        self.unknowns = Unknowns(base, regressor.joints)
        self.drives = [each.drive for each in recordings]
        self.driven = [k for k, name in enumerate(joints) if _is_driven(mechanism, name)]

        self.is_servo = np.logical_or.reduce([drive.is_servo for drive in self.drives])
        self.seconds = SERVO_S if self.is_servo.any() else EFFORT_S
        self.fitted, self.held_out = self._shots(recordings, holdout)
        motion = [motion_of(part, CUTOFF_HZ) for each in recordings for part in sampled(each.recorded)]
        q, v, a = (np.concatenate(each) for each in zip(*motion, strict=True))
        self.start = _model(mechanism, self.unknowns, base.B @ regressor.pi)
        efforts = InertialEfforts(regressor, base)
        thin = slice(None, None, max(1, len(q) // 2000))
        beta = self.start[self.unknowns.place("inertia")]
        tau = efforts(beta, q[thin], v[thin], a[thin])
        inertias = efforts.mass_and_bias(beta, q[thin], v[thin])[0]
        least = np.min(1.0 / np.diagonal(np.linalg.inv(inertias), axis1=1, axis2=2), axis=0)
        size = np.sqrt(np.mean(tau**2, axis=0))
        size = np.maximum(size, 0.01 * size.max())
        # dry friction up to the efforts' size, integrated by an explicit rule
        slowest = size * self.drives[0].step_s / (STIFFEST * least)
        scales = np.maximum(SMOOTHING * speed_scales(v), slowest)
        self.forward = Forward(efforts, self.unknowns, scales)
        self.sizes = self._sizes(InertialPrior.of(_consistent(regressor.pi), base), size, v, a)
        self.prior = self._prior(InertialPrior.of(_consistent(regressor.pi), base))

    def free(self, kinds: Collection[str], inertia: bool) -> Mask:
        """Unknowns that are fitted."""
        every = range(len(self.unknowns.joints))
        groups: dict[str, Collection[int]] = {"inertia": ()} if inertia else {}
        groups |= {name: every for name in FRICTION if inertia or name != "armature"}
        servo = [joint for joint in self.driven if self.is_servo[joint]]
        of_kind = {"zero": every, "stiffness": servo}
        groups |= {kind: of_kind.get(kind, self.driven) for kind in kinds}
        return self.unknowns.mask(groups)

    def result(self, solution: Solution, free: Mask, kinds: Collection[str], inertia: bool) -> OutputErrorResult:
        """The result with estimates, refusals and errors of the held-out part."""
        found, refusals = self._estimates(solution, free, inertia and "gain" in kinds)
        before, after = (self._error(x) for x in (self.start, solution.x))
        return OutputErrorResult(
            joints=self.unknowns.joints,
            estimates=tuple(each for each in found if each.kind in KINDS),
            friction=tuple(each for each in found if each.kind in FRICTION),
            refusals=tuple(refusals),
            before=before,
            after=after,
            seconds=self.fitted[0].steps * self.drives[0].step_s,
            shots=sum(len(shots.first) for shots in self.fitted),
            relative_gains=inertia and "gain" in kinds,
        )

    def _shots(self, recordings: Sequence[Commanded], holdout: float) -> tuple[list[Shots], list[Shots]]:
        fitted, held_out = [], []
        for each in recordings:
            shots = shots_of(each.drive, sampled(each.recorded), self.seconds, CUTOFF_HZ)
            if shots is None:
                continue
            last = len(shots.first) - max(1, round(holdout * len(shots.first)))
            if last:
                fitted.append(shots.only(slice(0, last)))
            held_out.append(shots.only(slice(last, None)))
        count = sum(len(shots.first) for shots in fitted)
        if count < LEAST_SHOTS:
            raise NoShotsError(
                f"the recordings have {count} segments of {self.seconds:g} s with commands before the held-out part; "
                f"output error needs at least {LEAST_SHOTS}"
            )
        return fitted, held_out

    def _sizes(self, inertial: InertialPrior, tau: Array, v: Array, a: Array) -> Array:
        """(n_x,) plausible sizes of the unknowns."""
        sizes, place = np.ones(self.unknowns.size), self.unknowns.place
        sizes[place("inertia")] = DEVIATION * np.sqrt(np.diag(inertial.base_covariance))
        speed, acceleration = (np.maximum(np.sqrt(np.mean(each**2, axis=0)), 1e-6) for each in (v, a))
        for name, size in (
            ("viscous", tau / speed),
            ("coulomb", tau),
            ("offset", tau),
            ("armature", tau / acceleration),
        ):
            sizes[place(name)] = size
        for kind, value in PLAUSIBLE.items():
            sizes[place(kind)] = value
        return sizes

    def _prior(self, inertial: InertialPrior) -> Prior:
        precision = np.diag(self.sizes**-2)
        inertia = self.unknowns.place("inertia")
        precision[inertia, inertia] = np.linalg.inv(inertial.base_covariance) / DEVIATION**2
        return Prior(self.start, precision)

    def _error(self, x: Array) -> Array:
        errors = [starts_of(self.forward, shots, x)[1] for shots in self.held_out]
        return np.asarray(np.sqrt(np.mean(np.concatenate(errors) ** 2, axis=(0, 1))))

    def _estimates(self, solution: Solution, free: Mask, relative: bool) -> tuple[list[Estimate], list[Refusal]]:
        from scipy.stats import t as student  # slow to load, seldom needed

        unknowns, places = self.unknowns, np.flatnonzero(free)
        quantile = float(student.ppf(0.5 + LEVEL / 2.0, solution.dof))
        covariance = self._with_resolution(solution, places)
        gains = [k for k, place in enumerate(places) if unknowns.kind(int(place)) == "gain"]
        found, refusals = list[Estimate](), list[Refusal]()
        for k, place in enumerate(places.tolist()):
            kind, name = unknowns.kind(place), unknowns.name(place)
            if kind == "inertia":
                continue
            direction = np.zeros(len(places))
            direction[k] = 1.0
            if relative and kind == "gain" and len(gains) > 1:
                direction[gains] -= 1.0 / len(gains)
                name = f"{name} relative to the mean gain"
            variance = float(direction @ covariance @ direction)
            sd, whole = float(np.sqrt(max(variance, 0.0))), np.zeros(unknowns.size)
            whole[places] = direction
            if sd > LARGEST_SD * self.sizes[place]:
                refusals.append(_refusal(name, kind))
                continue
            value = float(whole @ solution.x)
            p = 2.0 * float(student.sf(abs(value) / sd, solution.dof)) if sd > 0.0 else 1.0
            half, before = quantile * sd, float(whole @ self.start)
            found.append(Estimate(name, whole, value, value - half, value + half, before, value, kind, p))
        if relative:
            refusals.append(
                Refusal(
                    "a common factor of all gains",
                    "heavier links and larger gains give the same motion",
                    "a known load, or inertias that are known (--params without inertia)",
                )
            )
        return found, refusals

    def _with_resolution(self, solution: Solution, places: np.ndarray[Any, np.dtype[np.int64]]) -> Array:
        """Covariance with what time steps round: a delay to the nearest step, a backlash up to the next one.

        The error of a backlash moves the unknowns that are correlated with it; a fit follows a rounded
        delay.
        """
        step, found = self.drives[0].step_s, solution.covariance.copy()
        sizes = {"delay": step / np.sqrt(12.0), "backlash": step * self.drives[0].take_up}
        for k, place in enumerate(places.tolist()):
            size = sizes.get(self.unknowns.kind(place), 0.0)
            if size == 0.0:
                continue
            moved = solution.covariance[:, k] / solution.covariance[k, k]
            if self.unknowns.kind(place) == "delay" or solution.x[place] == 0.0:
                moved = np.where(np.arange(len(places)) == k, 1.0, 0.0)
            found += size**2 * np.outer(moved, moved)
        return found


REMEDIES = {
    "zero": ("a constant load, or the servo's own zero, gives the same motion", "motion about other postures"),
    "gain": ("inertia and friction give the same motion", "a faster motion, or a known load"),
    "delay": ("the commands change too slowly", "a faster motion"),
    "backlash": ("the efforts seldom change their sign", "a motion whose efforts change their sign"),
    "stiffness": ("the gain gives the same motion", "a faster motion"),
}


def _refusal(name: str, kind: str) -> Refusal:
    why, remedy = REMEDIES.get(kind, ("the motion does not tell it from the other parameters", "a faster motion"))
    return Refusal(f"{name} by output error", why, remedy)


def _is_driven(mechanism: Mechanism, joint: str) -> bool:
    return any(actuator.joint == joint for actuator in mechanism.actuators)


def _consistent(pi: Array) -> Array:
    return np.concatenate([nearest_consistent(pi[k : k + 10], LEAST_RADIUS**2) for k in range(0, len(pi), 10)])


def _model(mechanism: Mechanism, unknowns: Unknowns, beta: Array) -> Array:
    """The unknowns (n_x,) of the mechanism as it is."""
    x = np.zeros(unknowns.size)
    x[unknowns.place("inertia")] = beta
    known = {joint.name: joint for joint in mechanism.joints}
    for k, name in enumerate(unknowns.joints):
        joint = known[name]
        coulomb = value_of(joint.friction.coulomb) if joint.friction is not None else 0.0
        values = (value_of(joint.damping), coulomb, -value_of(joint.load), value_of(joint.armature))
        for group, value in zip(FRICTION, values, strict=True):
            x[unknowns.place(group).start + k] = value
    return x
