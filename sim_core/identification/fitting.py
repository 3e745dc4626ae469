"""Fit of a robot's inertial parameters and friction to recorded positions and efforts.

    result = fit(mechanism, names, [Recorded(time, q, effort)])
    result.outcome                     # "better", "not better", "not certain" or "refused"
    result.pi, result.friction         # of the corrected model

The steps: (1) cutoff of the filter per joint by cross-validation; (2) joints whose efforts contradict the others are
fitted apart; (3) the weight of the prior, and friction columns beyond the usual ones, by cross-validation; (4) the
consistent inertias of least error; (5) the error on the last part, which is not fitted, beside that of the model before
and of the model before with fitted friction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sim_core.errors import InvalidRequest
from sim_core.identification.base_parameters import base_parameters
from sim_core.identification.calibration import ERRORS, Reference, Springs, with_zeros
from sim_core.identification.consistency import consistent_minimum
from sim_core.identification.design import N_FRICTION, Rows, Split, rows_of
from sim_core.identification.estimates import Estimate, determined, estimates_of, refusals_of
from sim_core.identification.friction import COLUMNS, WRITTEN
from sim_core.identification.inertial_parameters import nearest_consistent
from sim_core.identification.loops import LoopRegressor, dependent_joints, rigid_loops
from sim_core.identification.regression import Mask, Prior, Regression, is_gain
from sim_core.identification.regressor import Regressor
from sim_core.identification.result import (
    BETTER,
    NOT_CERTAIN,
    FitResult,
    JointScore,
    Prediction,
    held_out_errors,
    opposed_joints,
    outcome_of,
    pooled,
    unsure,
)
from sim_core.identification.rigid_tree import rigid_tree
from sim_core.identification.ripple import ripples_of
from sim_core.identification.selection import (
    EXPLAINED,
    FIRST_WEIGHT,
    free_unknowns,
    further_friction,
    is_without_motor,
    is_zero,
    joints_of_another_size,
    lowest_within_chance,
    regression_of,
    reweighted,
    unexplained_joints,
    variances_of,
    without_contradictions,
)
from sim_core.identification.signals import LEAST_MOVING_S, Recorded, moving_s, sampled, too_little_motion
from sim_core.mechanism.description import Mechanism
from sim_core.mechanism.quantities import value_of

Array = np.ndarray[Any, np.dtype[np.float64]]
CUTOFFS_HZ = (1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 30.0)
PRIOR_WEIGHTS = tuple(10.0**power for power in range(-2, 6))
LEAST_RADIUS = 0.01  # m: smallest radius of gyration per axis that the prior gives to a link
HELD = 100.0  # precision, over that of the data or of the prior, with which what the motion does not tell is held
NOT_TOLD = 10.0  # weight of the prior in what no effort determines; it changes only to be consistent
PASSES = 3  # of a fit with errors of the measurement, which are linear about the model of the pass before
LEAST_ERROR = 1e-12  # mean squared error over variance; less is rounding of simulated efforts
CUTOFF_GAIN = 0.1  # relative gain of a joint's error, from which on it has a cutoff of its own


class NothingToFitError(ValueError):
    """Raised if nothing can be fitted, with a one-line reason."""


def fit(
    mechanism: Mechanism,
    joints: Sequence[str],
    recordings: Sequence[Recorded],
    *,
    holdout: float = 0.3,
    inertia: bool = True,
    held: Mapping[str, float] | None = None,
    unit_unknown: Sequence[str] = (),
    constant_sd: Mapping[str, float] | None = None,
    errors: Sequence[str] = (),
    left_out: Mapping[str, str] | None = None,
    blocks: int = 10,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> FitResult:
    """Fit a mechanism's inertias and friction to recordings of its joints; see `FitResult`.

    joints        names of the recorded joints, in the order of the recordings' columns. A joint without motor has the
                  effort 0, which is as much knowledge as a measured effort
    holdout       last share of the motion of each recording, of which nothing is fitted
    inertia       whether inertias are fitted; otherwise only friction is
    held          {joint: position, rad or m} of joints that were not recorded, by default 0
    unit_unknown  joints whose efforts have an unknown unit: these joints are fitted apart
    constant_sd   {joint: relative standard deviation of its motor constant}, by default 0
    errors        which of `calibration.ERRORS` are fitted as well: errors of the measurement, not of the model
    left_out      {joint: reason} of joints whose efforts are not fitted
    progress      called with the numbers of finished steps and of all steps
    Raises NothingToFitError, with a one-line reason, if there is too little motion or no effort.
    """
    if not 0.0 < holdout < 1.0:
        raise InvalidRequest(f"holdout is {holdout}; it must be above 0 and below 1")
    for name in errors:
        if name not in ERRORS:
            raise InvalidRequest(f"errors has {name!r}; it may have {', '.join(ERRORS)}")
    fitter = _Fitter(mechanism, joints, recordings, Split(holdout, blocks), held or {}, frozenset(errors), progress)
    return fitter.result(inertia, unit_unknown, constant_sd or {}, left_out or {})


@dataclass(frozen=True)
class _Choice:
    """What cross-validation chose.

    known        joints with efforts
    together     joints that are fitted together
    apart        {joint: reason}
    unexplained  {joint: reason}
    doubtful     those of the unexplained joints whose positions may be wrong as well as their efforts
    weight       of the prior
    inertia      whether inertias are fitted
    any_inertia  whether inertias were to be fitted, if they gain anything
    extra        {(joint, friction column): relative gain}
    """

    rows: Rows
    regression: Regression
    known: list[int]
    together: list[int]
    apart: dict[int, str]
    unexplained: dict[int, str]
    doubtful: list[int]
    weight: float
    inertia: bool
    extra: dict[tuple[int, int], float]
    cutoffs_hz: Array
    errors: frozenset[str]
    any_inertia: bool

    @property
    def estimated(self) -> Mask:
        """Unknowns of which estimates are made: those of the corrected model, and any inertias that were asked for."""
        return free_unknowns(self.regression, self.together, self.any_inertia, self.written, self.errors)

    @property
    def written(self) -> list[tuple[int, int]]:
        """Pairs (joint, column) of the further friction that a mechanism can have."""
        return [(j, k) for j, k in self.extra if COLUMNS[k] in WRITTEN]

    @property
    def free(self) -> Mask:
        """Unknowns of the corrected model, with the errors of the measurement."""
        return free_unknowns(self.regression, self.together, self.inertia, self.written, self.errors)


class _Fitter:
    """State of one fit: the parts of the recordings, the regressor, and the rows at the chosen cutoffs."""

    def __init__(
        self,
        mechanism: Mechanism,
        joints: Sequence[str],
        recordings: Sequence[Recorded],
        split: Split,
        held: Mapping[str, float],
        errors: frozenset[str],
        progress: Callable[[int, int], None],
    ) -> None:
        self.mechanism, self.split, self.progress = mechanism, split, progress
        self.regressor = regressor_of(mechanism, joints, held)
        self.joints = self.regressor.joints
        order = [list(joints).index(name) for name in self.joints]
        self.parts = [parts for each in recordings if (parts := sampled(each.of(order)))]
        if not self.parts:
            raise NothingToFitError("no recording has a part without gaps that is long enough")
        self.springs: Springs = None
        if mechanism.springs and isinstance(self.regressor, LoopRegressor):
            self.springs = springs = self.regressor.spring_efforts
            self.parts = [
                [replace(part, effort=part.effort - springs(part.q)) for part in parts] for parts in self.parts
            ]
        self.errors = errors
        self.plain = base_parameters(self.regressor)
        zeros = self.joints if "zero" in errors else ()
        self.base = with_zeros(self.plain, zeros)
        self.pi_before = np.concatenate([self.regressor.pi, np.zeros(len(zeros))])
        self.n_pi = len(self.regressor.pi)
        self.prior = Prior.of(_consistent(self.regressor.pi), self.base)
        self.friction_before = _friction_of(mechanism, self.joints)

    # -- the steps ----------------------------------------------------------------------------------------------------

    def result(
        self,
        inertia: bool,
        unit_unknown: Sequence[str],
        constant_sd: Mapping[str, float],
        left_out: Mapping[str, str],
    ) -> FitResult:
        self._require_motion()
        cutoffs, x = self._cutoffs(), np.concatenate([self.prior.beta, self.friction_before.ravel()])
        for left in reversed(range(self.passes)):
            self.progress(len(CUTOFFS_HZ) + self.passes - 1 - left, len(CUTOFFS_HZ) + self.passes)
            found = Reference.of(x, len(self.plain.columns), len(self.joints), self.errors, self.springs)
            rows = self._rows(cutoffs, found if self.errors else None)
            choice = self._choice(rows, cutoffs, inertia, unit_unknown, left_out)
            if left:
                x = choice.regression.solve(choice.together, choice.weight, choice.free, self._start(choice.inertia))
        models, pi = self._models(choice)
        if choice.inertia and self._pooled(choice, models["friction"]) <= self._pooled(choice, models["after"]):
            choice = replace(choice, inertia=False)
            models, pi = self._models(choice)
        return self._collected(choice, models, pi, constant_sd)

    def _choice(
        self, rows: Rows, cutoffs: Array, inertia: bool, unit_unknown: Sequence[str], left_out: Mapping[str, str]
    ) -> _Choice:
        """Which joints are fitted together, and with which prior and friction, by cross-validation."""
        regression = regression_of(self.prior, rows, self.split.blocks)
        known = [j for j in range(len(self.joints)) if regression.raw.count[:, j].all()]
        if not known:
            raise NothingToFitError("no joint has efforts in every part of the motion")
        unexplained = unexplained_joints(rows, regression, known)
        doubtful = [j for j in unexplained if self.joints[j] not in left_out and not is_zero(rows, j)]
        unexplained |= {j: left_out[self.joints[j]] for j in known if self.joints[j] in left_out}
        apart = {j: "its unit is unknown" for j in known if self.joints[j] in unit_unknown and j not in unexplained}
        left = [j for j in known if j not in apart | unexplained]
        apart |= joints_of_another_size(self.regressor, rows, regression, left)
        together, more = without_contradictions(rows, regression, [j for j in left if j not in apart], self.errors)
        if all(is_without_motor(rows, j) for j in together):
            why = "; ".join(f"{self.joints[j]}: {text}" for j, text in (apart | more | unexplained).items())
            raise NothingToFitError(
                "no joint has efforts that gravity, inertia and friction explain" + (why and f"; {why}")
            )
        regression = reweighted(regression, together, self.errors)
        weight, gains = self._weight(regression, together, inertia)
        extra = further_friction(rows, regression, together, weight, gains, self.errors)
        found = apart | more
        return _Choice(
            rows,
            regression,
            known,
            together,
            found,
            unexplained,
            doubtful,
            weight,
            gains,
            extra,
            cutoffs,
            self.errors,
            inertia,
        )

    def _models(self, choice: _Choice) -> tuple[dict[str, Array], Array]:
        """({model: unknowns x (n_x,)}, parameters pi (n_pi,) of the corrected model)."""
        regression, joints = choice.regression, choice.together
        before = self._start(inertia=False)
        alone, _ = self._solved(choice, regression.free(joints, inertia=False, extra=choice.written), before)
        free, told = self._solved(choice, choice.free, self._start(inertia=choice.inertia))
        consistent = self._consistent(choice, free, told)
        pi, friction = np.split(consistent, [len(self.pi_before)])
        after = np.concatenate([self.base.B @ pi, friction])
        return {"before": before, "friction": alone, "after": after, "free": free}, pi

    def _pooled(self, choice: _Choice, x: Array) -> float:
        """Error on the held-out part of all joints that are fitted together, by unknowns x."""
        z = choice.regression.rows(x)
        return pooled(held_out_errors(choice.rows, z, self.prior)[choice.together])

    def _solved(self, choice: _Choice, free: Mask, start: Array) -> tuple[Array, Mask]:
        """(unknowns x, which of them were fitted): of the free ones those that the motion determines.

        The others keep their values in `start`. Friction that would drive its joint is 0, and determined again is what
        appeared as a sum with it.
        """
        regression, joints, weight = choice.regression, choice.together, choice.weight
        x = regression.solve(joints, weight, free, start)
        while True:
            told = determined(regression, choice.rows, joints, free, x)
            x = regression.solve(joints, weight, told, start)
            none = told & regression.signed & (x == 0.0)
            if not none.any():
                return x, told
            start, free = np.where(none, 0.0, start), free & ~none

    def _cutoffs(self) -> Array:
        """Cutoffs (n_q,) of least cross-validated error of fits of each joint alone.

        The cutoff of all joints is the lowest whose geometric mean of the errors differs from the least by chance only;
        a single block with another motion does not decide it. A joint has another cutoff if the gain is beyond chance.
        """
        rate = min(part.rate_hz for parts in self.parts for part in parts)
        candidates = [cutoff for cutoff in CUTOFFS_HZ if cutoff < rate / 4.0] or [rate / 5.0]
        n_q, errors = len(self.joints), []
        prior = Prior.of(self.prior.pi[: self.n_pi], self.plain)
        for done, cutoff in enumerate(candidates):
            self.progress(done, len(CUTOFFS_HZ) + self.passes)
            rows = self._rows(np.full(n_q, cutoff))
            regression = regression_of(prior, rows, self.split.blocks)
            error, variance = np.ones((self.split.blocks, n_q)), variances_of(rows, prior)
            for j in range(n_q):
                if regression.raw.count[:, j].all() and not is_without_motor(rows, j):
                    alone = regression.validated([j], FIRST_WEIGHT, regression.free([j]))[:, j]
                    error[:, j] = alone / variance[j]
            errors.append(error)
        logarithms = np.log(np.maximum(errors, LEAST_ERROR))  # (candidates, blocks, n_q)
        each = logarithms.mean(axis=1)
        explained = np.exp(each.min(axis=0)) < EXPLAINED
        common = lowest_within_chance(logarithms[:, :, explained])
        found = np.full(n_q, candidates[common])
        for j, own in enumerate(np.argmin(each, axis=0)):
            if is_gain(errors[common][:, j], errors[own][:, j], least=CUTOFF_GAIN):
                found[j] = candidates[own]
        return found

    def _rows(self, cutoffs: Array, reference: Reference | None = None) -> Rows:
        pi = self.prior.pi[: self.n_pi]
        return rows_of(self.regressor, self.plain, self.parts, cutoffs, self.split, pi, reference)

    @property
    def passes(self) -> int:
        """Number of fits after the choice of the filter."""
        return PASSES if self.errors else 1

    def _require_motion(self) -> None:
        moving = moving_s(part for parts in self.parts for part in parts)
        if moving < LEAST_MOVING_S:
            raise NothingToFitError(too_little_motion(moving))

    def _start(self, inertia: bool) -> Array:
        beta = self.prior.beta if inertia else self.base.B @ self.pi_before
        return np.concatenate([beta, self.friction_before.ravel()])

    def _weight(self, regression: Regression, joints: list[int], inertia: bool) -> tuple[float, bool]:
        """(weight of the prior, whether the inertias gain) by cross-validation."""
        friction = regression.validated(
            joints,
            FIRST_WEIGHT,
            free_unknowns(regression, joints, False, (), self.errors),
            self._start(inertia=False),
        )
        if not inertia:
            return FIRST_WEIGHT, False
        scaled = regression.weights[joints]
        errors = {
            weight: regression.validated(joints, weight, free_unknowns(regression, joints, True, (), self.errors))[
                :, joints
            ]
            @ scaled
            for weight in PRIOR_WEIGHTS
        }
        best = min(errors, key=lambda weight: float(errors[weight].mean()))
        return best, is_gain(friction[:, joints] @ scaled, errors[best])

    def _consistent(self, choice: _Choice, x: Array, told: Mask) -> Array:
        """[pi; friction] of least error with consistent inertias, and friction that does not drive the joint.

        What the motion does not determine, by `told`, is held at the prior, and so are masses without effect; both
        move if consistent inertias need it, as under a load that is much heavier than a link. In the rest, pi is as
        near to the prior as consistent inertias are.

        x  unknowns without the condition that inertias are consistent
        """
        regression, inertia = choice.regression, choice.inertia
        n_i, n_beta = self.n_pi, len(self.plain.columns)
        found = np.concatenate([self.pi_before[:n_i], x[n_beta:]])
        if not inertia:
            return found
        prior, B = self.prior.pi[:n_i], self.base.B[:n_beta, :n_i]
        H, g = (each.copy() for each in regression.equations(choice.together))
        spread = self.prior.base_covariance[:n_beta, :n_beta]
        precision = choice.weight * np.linalg.inv(spread)
        precision += np.diag(np.where(told[:n_beta], 0.0, HELD * np.diag(H)[:n_beta]))
        H[:n_beta, :n_beta] += precision
        g[:n_beta] += precision @ self.prior.beta[:n_beta]
        lift = np.zeros((regression.size, regression.size - n_beta + n_i))
        lift[:n_beta, :n_i], lift[n_beta:, n_i:] = B, np.eye(regression.size - n_beta)
        H, g = lift.T @ regression.with_prior(H, 0.0) @ lift, lift.T @ g
        sizes = np.diag(self.prior.covariance)[:n_i].copy()
        sizes[[k for k in range(0, n_i, 10) if not B[:, k].any()]] /= HELD
        rest = np.diag(1.0 / sizes) - B.T @ np.linalg.solve((B * sizes) @ B.T, B)  # of what no effort determines
        H[:n_i, :n_i] += NOT_TOLD * rest
        g[:n_i] += NOT_TOLD * rest @ prior
        chosen = np.concatenate([np.ones(n_i, dtype=bool), told[n_beta:]])
        found[:n_i] = prior
        right = (g - H[:, ~chosen] @ found[~chosen])[chosen]
        signs = regression.signed[n_beta:][told[n_beta:]]
        links = len(self.regressor.links)
        found[chosen] = consistent_minimum(H[np.ix_(chosen, chosen)], right, found[chosen], links, signs)
        return found

    # -- the result ---------------------------------------------------------------------------------------------------

    def _collected(
        self, choice: _Choice, models: Mapping[str, Array], pi: Array, constant_sd: Mapping[str, float]
    ) -> FitResult:
        rows, regression, names = choice.rows, choice.regression, self.joints
        z = {name: regression.rows(x) for name, x in models.items()}
        opposed = opposed_joints(rows, z["after"], sorted(choice.apart | choice.unexplained))
        for j in sorted(choice.apart | choice.unexplained):
            for name, has_inertia in (("friction", False), ("after", True), ("free", True)):
                z[name][j] = self._alone(regression, j, has_inertia)
        errors = {name: held_out_errors(rows, each, self.prior) for name, each in z.items()}
        outcome, reason, changes = outcome_of(rows, z, choice.together, self.prior, names)
        if choice.doubtful and outcome == BETTER:
            doubtful = ", ".join(names[j] for j in choice.doubtful)
            outcome, changes = NOT_CERTAIN, {j: unsure(change) for j, change in changes.items()}
            reason += (
                f"; the efforts of {doubtful} do not fit any motion there, and if its positions are wrong, all other "
                "efforts were fitted along a wrong motion"
            )
        if opposed and choice.inertia and outcome == BETTER:
            outcome, changes = NOT_CERTAIN, {j: unsure(change) for j, change in changes.items()}
            reason += (
                f"; the efforts of {', '.join(names[j] for j in opposed)}, which were not fitted with the others, are "
                "opposite to those of the corrected model"
            )
        estimates = self._estimates(choice, models, constant_sd)
        refused = {names[j]: why for j, why in choice.unexplained.items()}
        before, friction, after = (
            np.einsum("njk,jk->nj", rows.raw, z[name]) for name in ("before", "friction", "after")
        )
        return FitResult(
            joints=names,
            links=self.regressor.links,
            fitted=tuple(names[j] for j in choice.together),
            apart={names[j]: why for j, why in choice.apart.items()},
            refused=refused,
            outcome=outcome,
            reason=reason,
            inertias_fitted=choice.inertia,
            cutoffs_hz=choice.cutoffs_hz,
            prior_weight=choice.weight,
            extra={(names[j], COLUMNS[k]): share for (j, k), share in choice.extra.items()},
            pi_before=self.regressor.pi,
            pi=pi[: self.n_pi],
            friction_before=self.friction_before,
            friction=models["after"][regression.n_b :].reshape(len(names), N_FRICTION),
            speed_scales=rows.speed_scales,
            scores={
                names[j]: JointScore(
                    before=float(errors["before"][j]),
                    friction=float(errors["friction"][j]),
                    after=float(errors["after"][j]),
                    free=float(errors["free"][j]),
                    change=changes.get(j, ""),
                )
                for j in choice.known
            },
            estimates=tuple(estimates),
            refusals=tuple(
                refusals_of(
                    self.regressor,
                    regression,
                    self.plain,
                    rows,
                    estimates,
                    choice.estimated,
                    choice.any_inertia,
                    refused,
                    names,
                    np.zeros_like(rows.q) if self.springs is None else self.springs(rows.q),
                )
            ),
            base=self.base,
            prediction=Prediction(rows.time, rows.y, before, friction, after, rows.block),
            rate_hz=rows.rate_hz,
        )

    def _estimates(
        self, choice: _Choice, models: Mapping[str, Array], constant_sd: Mapping[str, float]
    ) -> list[Estimate]:
        """Estimates with intervals, for any inertias, even if the model keeps its own.

        Inertias that gain nothing beyond chance may differ all the same, and errors of the measurement with them.
        """
        return estimates_of(
            choice.regression,
            choice.rows,
            choice.together,
            choice.estimated,
            models["before"],
            models["after"],
            self.joints,
            constant_sd,
            ripples_of(self.regressor, self.plain, choice.rows, models["before"][: len(self.plain.columns)]),
        )

    def _alone(self, regression: Regression, joint: int, inertia: bool) -> Array:
        """Unknowns (n_b + n_f,) of a joint's rows with parameters of its own."""
        x = regression.solve([joint], FIRST_WEIGHT, regression.free([joint], inertia))
        return np.asarray(regression.rows(x)[joint])


def regressor_of(mechanism: Mechanism, joints: Sequence[str], held: Mapping[str, float]) -> Regressor | LoopRegressor:
    """Regressor of the measured joints; through loops, which determine the motion of the joints without actuators."""
    dependent = dependent_joints(mechanism, joints)
    if not dependent:
        return Regressor(rigid_tree(mechanism, joints, held))
    independent = [name for name in joints if name not in dependent]
    return LoopRegressor(rigid_loops(mechanism, [*independent, *dependent], held), independent)


def _consistent(pi: Array) -> Array:
    """Parameters of each link, made consistent."""
    links = [nearest_consistent(pi[at : at + 10], LEAST_RADIUS**2) for at in range(0, len(pi), 10)]
    return np.concatenate(links)


def _friction_of(mechanism: Mechanism, joints: Sequence[str]) -> Array:
    """Coefficients (n_q, n_f) of the friction columns in a mechanism."""
    found = np.zeros((len(joints), N_FRICTION))
    known = {joint.name: joint for joint in mechanism.joints}
    for row, name in zip(found, joints, strict=True):
        joint = known[name]
        coulomb = value_of(joint.friction.coulomb) if joint.friction is not None else 0.0
        values = {
            "viscous": value_of(joint.damping),
            "coulomb": coulomb,
            "load": value_of(joint.load),
            "armature": value_of(joint.armature),
        }
        for column, value in values.items():
            row[COLUMNS.index(column)] = value
    return found
