"""Fit of a robot's actuation, zeros, friction and inertias to recorded commands and positions, by output error.

result = fit_output_error(mechanism, names, [Commanded(recorded, drive)], ("zero", "gain", "delay", "backlash"))
result.estimates            # with intervals
result.before, result.after # errors of the positions in the held-out part
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim_core.errors import InvalidRequest
from sim_core.identification.base_parameters import base_parameters
from sim_core.identification.estimates import DEVIATION, LARGEST_SD, LEVEL, Estimate, Refusal
from sim_core.identification.fitting import regressor_of
from sim_core.identification.friction import SMOOTHING, speed_scales
from sim_core.identification.inertial_parameters import nearest_consistent
from sim_core.identification.loops import LoopRegressor
from sim_core.identification.output_error.backlash import Profile, with_backlashes
from sim_core.identification.output_error.estimation import (
    LEAST_ERROR,
    Prior,
    Solution,
    solution_at,
    solve,
    starts_of,
)
from sim_core.identification.output_error.inertial_efforts import InertialEfforts
from sim_core.identification.output_error.loop_efforts import LoopEfforts
from sim_core.identification.output_error.shots import Drive, Shots, shots_of
from sim_core.identification.output_error.simulation import Forward
from sim_core.identification.output_error.unknowns import FRICTION, KINDS, PLAUSIBLE, Mask, Unknowns
from sim_core.identification.regression import Prior as InertialPrior
from sim_core.identification.signals import Recorded, motion_of, sampled
from sim_core.mechanism.description import Mechanism
from sim_core.mechanism.quantities import value_of

Array = np.ndarray[Any, np.dtype[np.float64]]
SERVO_S, EFFORT_S = 0.5, 0.1  # length of a segment behind servos, and without: errors of an open loop grow
MOST_PLAUSIBLE = 4.0  # largest estimate of an error of the actuation, as a multiple of its plausible size
QUANTILE = 1.96  # half width of an interval of 95 % over the standard deviation
LEAST_SHOTS = 3
BLOCKS, CHANCE = 8, 0.05  # of the held-out part, and probability of a better prediction by chance
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

    def of(self, columns: Sequence[int]) -> Commanded:
        """The joints with these indices, in this order."""
        return Commanded(self.recorded.of(columns), self.drive.of(columns))


@dataclass(frozen=True)
class OutputErrorResult:
    """Result of `fit_output_error`.

    joints     names
    estimates  of the KINDS that were asked for and can be known, with intervals
    friction   estimates of friction, with intervals
    refusals   what cannot be known
    outcome    "better", "not better" or "not certain": prediction of the held-out part
    before, after  (n_q,) rms error of the positions in the held-out part, rad or m, predicted from the start of each
               segment: of the model as it was, and of the fitted one
    seconds    length of a segment
    shots      number of fitted segments
    scales     (n_q,) speeds of the smooth Coulomb friction, rad/s or m/s
    by_servo   joints whose commands their servos follow
    relative_gains  whether gains are relative to their mean, because inertias are fitted, too
    behind     joints because of which segments are left out: limits held back the targets of their servos
    """

    joints: tuple[str, ...]
    estimates: tuple[Estimate, ...]
    friction: tuple[Estimate, ...]
    refusals: tuple[Refusal, ...]
    outcome: str
    before: Array
    after: Array
    seconds: float
    shots: int
    scales: Array
    by_servo: frozenset[str]
    relative_gains: bool
    behind: tuple[str, ...] = ()

    @property
    def is_better(self) -> bool:
        """Whether the fitted model surely predicts the held-out part better, all joints together."""
        return self.outcome == "better"


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
    Raises NoShotsError, with a one-line reason, if there are too few segments, or if the model cannot be simulated
    along the motion.
    """
    for kind in kinds:
        if kind not in KINDS:
            raise InvalidRequest(f"kinds has {kind!r}; it may have {', '.join(KINDS)}")
    if "backlash" in kinds and (inertia or "stiffness" in kinds):
        raise InvalidRequest("kinds has 'backlash', which cannot be told from inertias and stiffnesses")
    try:
        return _fitted(_Case(mechanism, joints, recordings, held or {}, holdout), kinds, inertia)
    except np.linalg.LinAlgError as error:
        raise NoShotsError(f"the model cannot be simulated along the motion: {error}") from None


def _fitted(case: _Case, kinds: Collection[str], inertia: bool) -> OutputErrorResult:
    free = case.free([kind for kind in kinds if kind != "backlash"], inertia)
    given = case.forward, case.fitted
    found = solve(*given, case.start, free, case.prior)
    profiles: dict[int, Profile] = {}
    if "backlash" in kinds:
        found, profiles = with_backlashes(*given, found, free, case.prior, case.driven)
    solution = solution_at(*given, found, free, case.prior)
    return case.result(solution, free, profiles, inertia and "gain" in kinds)


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
        regressor = regressor_of(mechanism, joints, held)
        order = [list(joints).index(name) for name in regressor.joints]
        joints, recordings = regressor.joints, [each.of(order) for each in recordings]
        base = base_parameters(regressor)
        self.unknowns = Unknowns(base, regressor.joints)
        self.drives = [each.drive for each in recordings]
        self.driven = [k for k, name in enumerate(joints) if _is_driven(mechanism, name)]

        held_back = [drive.behind for drive in self.drives if drive.behind is not None]
        self.behind = tuple(name for k, name in enumerate(joints) if any(each[:, k].any() for each in held_back))
        self.is_servo = np.logical_or.reduce([drive.is_servo for drive in self.drives])
        self.seconds = SERVO_S if self.is_servo.any() else EFFORT_S
        self.fitted, self.held_out = self._shots(recordings, holdout)
        motion = [motion_of(part, CUTOFF_HZ) for each in recordings for part in sampled(each.recorded)]
        q, v, a = (np.concatenate(each) for each in zip(*motion, strict=True))
        self.start = _model(mechanism, self.unknowns, base.B @ regressor.pi)
        efforts = (
            LoopEfforts(regressor, base) if isinstance(regressor, LoopRegressor) else InertialEfforts(regressor, base)
        )
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
        self.doubtful = set[str]()  # refusals because of which nothing is certain

    def free(self, kinds: Collection[str], inertia: bool) -> Mask:
        """Unknowns that are fitted."""
        every = range(len(self.unknowns.joints))
        groups: dict[str, Collection[int]] = {"inertia": ()} if inertia else {}
        groups |= {name: every for name in FRICTION if inertia or name != "armature"}
        servo = [joint for joint in self.driven if self.is_servo[joint]]
        of_kind = {"zero": every, "stiffness": servo}
        groups |= {kind: of_kind.get(kind, self.driven) for kind in kinds}
        return self.unknowns.mask(groups)

    def result(
        self, solution: Solution, free: Mask, profiles: Mapping[int, Profile], relative: bool
    ) -> OutputErrorResult:
        """The result with estimates, refusals and errors of the held-out part.

        relative  whether gains are relative to their mean
        """
        for each in profiles.values():
            spread = 0.5 * min(each.high - each.low, self.sizes[-1]) / QUANTILE
            solution = dataclasses.replace(
                solution, covariance=solution.covariance + spread**2 * np.outer(each.moved, each.moved)
            )
        found, refusals = self._estimates(solution, free, relative)
        of_backlash = self._backlashes(profiles)
        found, refusals = found + of_backlash[0], refusals + of_backlash[1]
        before, after = (self._errors(x) for x in (self.start, solution.x))
        outcome = outcome_of(before, after)
        if outcome == "better" and any(each.what in self.doubtful for each in refusals):
            outcome = "not certain"
        return OutputErrorResult(
            joints=self.unknowns.joints,
            estimates=tuple(each for each in found if each.kind in KINDS),
            friction=tuple(each for each in found if each.kind in FRICTION),
            refusals=tuple(refusals),
            outcome=outcome,
            before=np.sqrt(np.mean(before, axis=0)),
            after=np.sqrt(np.mean(after, axis=0)),
            seconds=self.fitted[0].steps * self.drives[0].step_s,
            shots=sum(len(shots.first) for shots in self.fitted),
            scales=self.forward.scales,
            by_servo=frozenset(name for name, servo in zip(self.unknowns.joints, self.is_servo, strict=True) if servo),
            relative_gains=relative,
            behind=self.behind,
        )

    def _backlashes(self, profiles: Mapping[int, Profile]) -> tuple[list[Estimate], list[Refusal]]:
        found, refusals = list[Estimate](), list[Refusal]()
        for joint, each in profiles.items():
            place = self.unknowns.place("backlash").start + joint
            name = self.unknowns.name(place)
            if not each.is_clear:
                refusals.append(
                    Refusal(f"{name} by output error", "backlashes of two sizes fit as well", "a longer motion")
                )
                self.doubtful.add(refusals[-1].what)
            elif each.high > MOST_PLAUSIBLE * self.sizes[place]:
                refusals.append(_refusal(name, "backlash"))
            else:
                whole = np.zeros(self.unknowns.size)
                whole[place] = 1.0
                p = 0.0 if each.low > 0.0 else 1.0
                found.append(Estimate(name, whole, each.value, each.low, each.high, 0.0, each.value, "backlash", p))
        return found, refusals

    def _shots(self, recordings: Sequence[Commanded], holdout: float) -> tuple[list[Shots], list[Shots]]:
        fitted, held_out = [], []
        for each in recordings:
            shots = shots_of(each.drive, each.recorded, self.seconds, CUTOFF_HZ)
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
                + (f"; the limits of {', '.join(self.behind)} hold back the others" if self.behind else "")
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

    def _errors(self, x: Array) -> Array:
        """Squared errors (n, n_q) of the held-out segments, one after the other."""
        errors = [
            starts_of(self.forward, shots, x)[1].reshape(-1, len(self.unknowns.joints)) for shots in self.held_out
        ]
        return np.asarray(np.concatenate(errors) ** 2)

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
            if relative and kind in FRICTION:
                refusals.append(Refusal(f"{name} by output error", *COMMON_FACTOR))
                continue
            if doubt := _doubt(kind, value, half):
                self.doubtful.add(f"{name} by output error")
                refusals.append(Refusal(f"{name} by output error", doubt, "a look at the recorded commands"))
                continue
            found.append(Estimate(name, whole, value, value - half, value + half, before, value, kind, p))
        if relative:
            refusals.append(Refusal("a common factor of all gains", *COMMON_FACTOR))
        return found, refusals

    def _with_resolution(self, solution: Solution, places: np.ndarray[Any, np.dtype[np.int64]]) -> Array:
        """Covariance with what time steps round: a delay to the nearest step. A fit follows a rounded delay."""
        found = solution.covariance.copy()
        for k, place in enumerate(places.tolist()):
            if self.unknowns.kind(place) == "delay":
                found[k, k] += self.drives[0].step_s ** 2 / 12.0
        return found


COMMON_FACTOR = (
    "heavier links, more friction and larger gains give the same motion",
    "a known load, or inertias that are known (--params without inertia)",
)
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


def _doubt(kind: str, value: float, half: float) -> str:
    """Why an estimate, certain to within +-half, cannot be right; "" if it can."""
    if kind == "delay" and value + half < 0.0:
        return f"the motion would precede the command by {-value:.3g} s: the model lacks something else"
    most = MOST_PLAUSIBLE * PLAUSIBLE.get(kind, np.inf)
    if abs(value) - half > most:
        return f"{value:.3g} is beyond +-{most:.3g}: the model lacks something else"
    return ""


def outcome_of(before: Array, after: Array) -> str:
    """Outcome from the squared errors (n, n_q) of the held-out part, by Wilcoxon's test of its blocks in pairs.

    The blocks differ as much as the motion: a wrong joint is seen in those alone in which it moves.
    """
    from scipy.stats import wilcoxon  # slow to load, seldom needed

    scale = np.maximum(np.mean(before, axis=0), LEAST_ERROR**2)
    first, second = (
        np.array([float(np.mean(part)) for part in np.array_split(each / scale, min(BLOCKS, len(each)))])
        for each in (before, after)
    )
    if second.mean() >= first.mean():
        return "not better"
    return "better" if wilcoxon(first, second, alternative="greater").pvalue <= CHANCE else "not certain"


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
