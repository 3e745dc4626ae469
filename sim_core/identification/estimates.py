"""Estimates with intervals of what a motion determines, and refusals of what it does not determine."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim_core.identification.base_parameters import BaseParameters
from sim_core.identification.calibration import PLAUSIBLE
from sim_core.identification.design import Rows
from sim_core.identification.friction import CALIBRATION, COLUMNS, OF_ACCELERATION, OF_SPEED
from sim_core.identification.intervals import correlated_sum
from sim_core.identification.regression import Mask, Regression
from sim_core.identification.regressor import LinearEfforts
from sim_core.identification.ripple import SHARE_SD
from sim_core.identification.selection import FIRST_WEIGHT, spread_of

Array = np.ndarray[Any, np.dtype[np.float64]]
LEVEL = 0.95
MOST_TERMS = 5  # of a sum of parameters in a reason
LARGEST_SD = 0.5  # of an estimate, as a share of the parameter's plausible size
NEGLIGIBLE = 0.05  # share of an unknown's plausible size, below which the effect of an undetermined one is left out
NOISY = 0.25  # share of the variance of a velocity or acceleration that is noise, from which on it shows nothing
DEVIATION = 0.3  # standard deviation of what is left out from the prior, as a share of its plausible size


@dataclass(frozen=True)
class Estimate:
    """Estimate of a combination of parameters, by the data alone, with its interval of 95 %.

    name       sum of parameters
    direction  (n_x,) coefficients of the combination in the base parameters and friction coefficients
    before     value in the model before the fit
    after      value in the corrected model, to which the prior contributes
    kind       "model", or the error of the measurement that it concerns first: "zero", "gain" or "delay"
    p          probability of a value as far from that of the model before, if the model before is right
    """

    name: str
    direction: Array
    value: float
    low: float
    high: float
    before: float
    after: float
    kind: str
    p: float


@dataclass(frozen=True)
class Refusal:
    """What cannot be known, why, and what would tell it."""

    what: str
    why: str
    remedy: str


def estimates_of(
    regression: Regression,
    rows: Rows,
    joints: list[int],
    free: Mask,
    before: Array,
    after: Array,
    names: Sequence[str],
    constant_sd: Mapping[str, float],
    ripples: Sequence[Array] = (),
) -> list[Estimate]:
    """Estimates of all unknowns that the motion determines, each with the share of the others that it contains.

    ripples  changes (n, n_q) of all efforts, of which the recorded ones have an unknown share, see `ripples_of`
    """
    H, g = regression.equations(joints)
    sizes = _plausible_sizes(regression, rows, after)
    told = determined(regression, rows, joints, free, after)
    kept, dropped = np.flatnonzero(told), np.flatnonzero(free & ~told & (np.diag(H) > 0.0))
    if not len(kept):
        return []
    inverse = np.asarray(np.linalg.inv(H[np.ix_(kept, kept)]), dtype=np.float64)
    fixed = np.where(free, 0.0, after)
    value = inverse @ (g - H @ fixed)[kept]
    covariance, dof = _covariance(regression, rows, joints, kept, inverse, value, fixed)
    for j in joints:
        if sd := constant_sd.get(names[j], 0.0):
            change = inverse @ _right_of(regression, j)[kept]
            covariance += sd**2 * np.outer(change, change)
    for ripple in ripples:
        right = sum(regression.weights[j] * _right_with(regression, rows, j, ripple[:, j]) for j in joints)
        change = inverse @ np.asarray(right)[kept]
        covariance += SHARE_SD**2 * np.outer(change, change)
    mixed = inverse @ H[np.ix_(kept, dropped)]
    prior = np.concatenate([regression.prior.beta, np.zeros(regression.size - regression.n_b)])
    from scipy.stats import t as student  # slow to load, seldom needed

    dof = max(dof, 1.0)
    quantile = float(student.ppf(0.5 + LEVEL / 2.0, dof))
    found = []
    for row, place in enumerate(kept):
        direction = np.zeros(regression.size)
        direction[place] = 1.0
        small = np.abs(mixed[row]) * sizes[dropped] < NEGLIGIBLE * sizes[place]
        direction[dropped[~small]] = mixed[row, ~small]
        left_out = mixed[row, small] * sizes[dropped[small]]
        variance = max(float(covariance[row, row]), 0.0) + float(np.sum((DEVIATION * left_out) ** 2))
        center = float(value[row] - mixed[row, small] @ prior[dropped[small]])
        sd = float(np.sqrt(variance))
        before_it = float(direction @ before)
        half, p = quantile * sd, 2.0 * float(student.sf(abs(center - before_it) / sd, dof)) if sd > 0.0 else 1.0
        name = _name(regression, direction, int(place), names)
        found.append(
            Estimate(
                name,
                direction,
                center,
                center - half,
                center + half,
                before_it,
                float(direction @ after),
                _kind(regression, int(place)),
                p,
            )
        )
    return found


def determined(regression: Regression, rows: Rows, joints: list[int], free: Mask, x: Array) -> Mask:
    """(n_x,) which of the free unknowns the motion determines; x is a fit, whose residuals give the errors' size."""
    H = regression.equations(joints)[0]
    sizes = _plausible_sizes(regression, rows, x)
    some = np.flatnonzero(free & (np.diag(H) > 0.0))
    information = H[np.ix_(some, some)] * np.outer(sizes[some], sizes[some])
    found = np.zeros(len(free), dtype=bool)
    found[some[_told(information, _inflation(regression, rows, joints, x))]] = True
    return found


def _plausible_sizes(regression: Regression, rows: Rows, x: Array) -> Array:
    """(n_x,) plausible sizes of the unknowns: standard deviations of the prior, and those of a joint's efforts.

    A rotor inertia is at most as large as all that the joint moves by the fit x. 0 for friction and rotor inertia of a
    joint whose velocity, or acceleration, is noise of its positions.
    """
    beta = np.sqrt(np.diag(regression.prior.base_covariance))
    fitted = rows.block >= 0
    columns = np.sqrt(np.mean(rows.raw[fitted][:, :, regression.n_b :] ** 2, axis=0))
    y = rows.y[fitted]
    squares = np.nanmean(y**2, axis=0, where=np.isfinite(y))
    efforts = np.sqrt(np.where(regression.driven, squares, spread_of(y, rows.raw[fitted], regression.prior)))
    friction = np.nan_to_num(efforts, nan=1.0)[:, None] / np.where(columns > 0.0, columns, 1.0)
    armature = COLUMNS.index("armature")
    moved = rows.inertia + regression.rows(x)[:, regression.n_b + armature]
    friction[:, armature] = np.minimum(friction[:, armature], moved)
    for kinds, noise in zip((OF_SPEED, OF_ACCELERATION), rows.noise, strict=True):
        places = [COLUMNS.index(name) for name in kinds]
        friction[np.ix_(noise > NOISY * columns[:, places[0]] ** 2, places)] = 0.0
    for name in CALIBRATION:
        friction[:, COLUMNS.index(name)] = PLAUSIBLE[name]
    return np.concatenate([beta, friction.ravel()])


def _told(information: Array, inflation: float) -> Array:
    """Indices of the unknowns that the motion determines, by a Cholesky decomposition with pivoting.

    information  (n, n) of the unknowns as shares of their plausible sizes
    """
    rest, kept = information.copy(), []
    for _ in range(len(rest)):
        pivot = int(np.argmax(np.diag(rest)))
        left = float(rest[pivot, pivot])
        if not left > inflation / LARGEST_SD**2:
            break
        kept.append(pivot)
        column = rest[:, pivot] / np.sqrt(left)
        rest -= np.outer(column, column)
        rest[kept, kept] = -np.inf
    return np.array(sorted(kept), dtype=int)


def _residuals(regression: Regression, rows: Rows, joint: int, z: Array) -> tuple[Array, Array]:
    """(filtered rows (n, k), residuals (n,)) of the joint's rows that are fitted."""
    at = (rows.block >= 0) & np.isfinite(rows.y_filtered[:, joint])
    A = rows.filtered[at, joint]
    return A, rows.y_filtered[at, joint] - A @ z[joint]


def _inflation(regression: Regression, rows: Rows, joints: list[int], after: Array) -> float:
    """Number of rows per effective row: how much more uncertain correlated residuals make an estimate."""
    z = regression.rows(after)
    count = effective = 0.0
    for j in joints:
        A, residual = _residuals(regression, rows, j, z)
        count += len(A)
        effective += correlated_sum(A[:, :1], residual)[1]
    return max(count / max(effective, 1.0), 1.0)


def _covariance(
    regression: Regression, rows: Rows, joints: list[int], kept: Any, inverse: Array, value: Array, fixed: Array
) -> tuple[Array, float]:
    """(covariance (k, k) of the estimates, degrees of freedom) for residuals with an autoregressive model per joint.

    The covariance is H^-1 (A' W Sigma W A) H^-1. The Sigma of each joint is restored from its residuals, which are
    smaller than the errors by what the fit took up.
    """
    x = fixed.copy()
    x[kept] = value
    z, n_b = regression.rows(x), regression.n_b
    middle, effective = np.zeros_like(inverse), 0.0
    for j in joints:
        A, residual = _residuals(regression, rows, j, z)
        places = np.concatenate([np.arange(n_b), np.arange(*regression.friction_slice(j).indices(regression.size))])
        of_kept = {place: row for row, place in enumerate(kept)}
        local = [k for k, place in enumerate(places) if place in of_kept]
        target = [of_kept[places[k]] for k in local]
        w, place = regression.weights[j], np.ix_(target, target)
        summed, number = correlated_sum(A[:, local], residual, w * inverse[place])
        middle[place] += w**2 * summed
        effective += number
    return inverse @ middle @ inverse, effective - len(kept)


def _right_of(regression: Regression, joint: int) -> Array:
    """Right-hand side (n_x,) of the normal equations of one joint's rows."""
    return regression.equations([joint])[1]


def _right_with(regression: Regression, rows: Rows, joint: int, effort: Array) -> Array:
    """A' effort (n_x,) with the rows A of one joint that are fitted, for an effort (n,)."""
    at = (rows.block >= 0) & np.isfinite(rows.y_filtered[:, joint])
    found, right = np.zeros(regression.size), rows.filtered[at, joint].T @ effort[at]
    found[: regression.n_b], found[regression.friction_slice(joint)] = right[: regression.n_b], right[regression.n_b :]
    return found


def _name(regression: Regression, direction: Array, place: int, names: Sequence[str]) -> str:
    n_b, base = regression.n_b, regression.prior.base
    terms = [_unknown(base, n_b, place, names)]
    for k in np.flatnonzero(direction):
        if k == place:
            continue
        sign = "-" if direction[k] < 0.0 else "+"
        text = _unknown(base, n_b, int(k), names)
        terms.append(f"{sign} {abs(direction[k]):.3g} {f'({text})' if ' ' in text else text}")
    return " ".join(terms)


def _kind(regression: Regression, place: int) -> str:
    if place < regression.n_b:
        return "zero" if place >= regression.n_b - regression.prior.n_zero else "model"
    column = COLUMNS[(place - regression.n_b) % len(COLUMNS)]
    return column if column in CALIBRATION else "model"


def surely_changed(estimates: Sequence[Estimate], level: float = 1.0 - LEVEL) -> list[Estimate]:
    """The estimates that differ from the model before, where at most a share `level` of such lists has a false one.

    The probabilities are corrected for their number. [Holm1979]
    """
    found: list[Estimate] = []
    for rank, each in enumerate(sorted(estimates, key=lambda each: each.p)):
        if each.p > level / (len(estimates) - rank):
            break
        found.append(each)
    return found


def _unknown(base: BaseParameters, n_b: int, place: int, names: Sequence[str]) -> str:
    if place < n_b:
        return base.name(place)
    joint, column = divmod(place - n_b, len(COLUMNS))
    return f"{names[joint]}/{COLUMNS[column]}"


def refusals_of(
    regressor: LinearEfforts,
    regression: Regression,
    base: BaseParameters,
    rows: Rows,
    estimates: Sequence[Estimate],
    free: Mask,
    with_inertia: bool,
    refused: Mapping[str, str],
    names: Sequence[str],
    known: Array,
) -> list[Refusal]:
    """What cannot be known: efforts, parameters without effect, and parameters that the motion does not show.

    free   (n_x,) unknowns of which estimates were to be made
    known  (n, n_q) efforts of the rows that do not depend on any unknown, such as those of springs
    """
    found = [
        Refusal(f"efforts of {joint}", why, f"a known load at {joint}, or its motor constant")
        for joint, why in refused.items()
    ]
    if with_inertia:
        found += _constants(regressor, regression, rows, free, names, known)
    by_link: dict[str, list[str]] = {}
    for name in base.without_effect:
        link, _, parameter = name.rpartition("/")
        by_link.setdefault(link, []).append(parameter)
    for link, parameters in by_link.items():
        found.append(
            Refusal(
                f"{', '.join(parameters)} of {link}",
                "no effort depends on it, whatever the motion",
                "a force sensor under the base",
            )
        )
    told = {each.name.partition(" ")[0] for each in estimates}
    found += _of_joints(regression, free, told, names)
    if not with_inertia:
        return found
    found += _only_in_sums(base)
    untold = [k for k, column in enumerate(base.columns) if base.parameters[column] not in told]
    for k, joint in zip(untold, _telling_joints(regressor, base, rows, untold), strict=True):
        found.append(
            Refusal(
                base.name(k),
                "the motion does not tell it from the other parameters",
                f"a faster and wider motion of {names[joint]} together with the other joints",
            )
        )
    return found


def _of_joints(regression: Regression, free: Mask, told: Collection[str], names: Sequence[str]) -> Iterator[Refusal]:
    """Friction, and errors of the measurement, of each joint that are not among the estimates `told`."""
    first = regression.n_b - regression.prior.n_zero
    untold = [
        name
        for place in np.flatnonzero(free[first:]) + first
        if (name := _unknown(regression.prior.base, regression.n_b, int(place), names)) not in told
    ]
    for joint in names:
        if kinds := [kind for each, _, kind in (name.rpartition("/") for name in untold) if each == joint]:
            yield Refusal(
                f"{', '.join(kinds)} of {joint}",
                "the motion does not tell it from the other parameters",
                f"a wider motion of {joint} in both directions, at several speeds",
            )


def _only_in_sums(base: BaseParameters) -> list[Refusal]:
    """Parameters of each link that the efforts tell only as parts of sums, and the sum that has the first of them."""
    by_link: dict[str, dict[str, int]] = {}
    for name, k in base.only_in_sums.items():
        link, _, parameter = name.rpartition("/")
        by_link.setdefault(link, {})[parameter] = k
    return [
        Refusal(
            f"{', '.join(parameters)} of {link}, each alone",
            f"the efforts depend on sums with other links only, as {next(iter(parameters))} in "
            f"{base.name(next(iter(parameters.values())), MOST_TERMS)}, whatever the motion",
            f"{link} alone on a scale, and as a pendulum; no motion and no known load tells it",
        )
        for link, parameters in by_link.items()
    ]


def _constants(
    regressor: LinearEfforts, regression: Regression, rows: Rows, free: Mask, names: Sequence[str], known: Array
) -> list[Refusal]:
    """Errors of motor constants that positions and efforts cannot show, although the inertias are unknown.

    The efforts `known` show the common factor of all constants as far as no inertia and no friction gives the same.
    """
    q = regressor.random_positions(np.random.default_rng(0), 20)
    weight = np.abs(regressor(q, 0.0 * q, 0.0 * q) @ regressor.pi).max(axis=0)
    found = []
    if not _shows(known, regression, rows, free):
        found.append(
            Refusal(
                "a common factor of all motor constants",
                "heavier links and larger constants give the same efforts",
                "a known load on the last link, or inertias that are known (--params without inertia)",
            )
        )
    for name, size, spring in zip(names, weight, np.abs(known).max(axis=0), strict=True):
        if max(size, spring) <= 1e-9 * weight.max(initial=1e-300):
            found.append(
                Refusal(
                    f"the motor constant of {name}",
                    "no gravity acts about its axis; only inertia that it shares with other joints tells it",
                    "a known load far from its axis",
                )
            )
    return found


def _shows(effort: Array, regression: Regression, rows: Rows, free: Mask) -> bool:
    """Whether the recorded efforts tell by which factor they contain an effort (n, n_q), beside the free unknowns."""
    if not effort.any():
        return False
    joints = [j for j in range(regression.n_q) if free[regression.friction_slice(j)].any()]
    unscaled = free.copy()
    unscaled[regression.n_b + COLUMNS.index("gain") :: len(COLUMNS)] = False
    recorded = Regression(regression.prior, regression.raw, regression.raw, regression.weights, regression.driven)
    H, left, right = recorded.equations(joints)[0], 0.0, np.zeros(regression.size)
    for j in joints:
        at = (rows.block >= 0) & np.isfinite(rows.y[:, j])
        A, y, w = rows.raw[at, j], effort[at, j], regression.weights[j]
        right[: regression.n_b] += w * (A.T @ y)[: regression.n_b]
        right[regression.friction_slice(j)] = w * (A.T @ y)[regression.n_b :]
        left += w * float(y @ y)
    some = np.flatnonzero(unscaled & (np.diag(H) > 0.0))
    scale = 1.0 / np.sqrt(np.diag(H)[some])
    taken, *_ = np.linalg.lstsq(H[np.ix_(some, some)] * np.outer(scale, scale), right[some] * scale, rcond=None)
    left -= float(right[some] * scale @ taken)
    inflation = _inflation(regression, rows, joints, regression.solve(joints, FIRST_WEIGHT, free))
    return left > inflation / (LARGEST_SD * PLAUSIBLE["gain"]) ** 2


def _telling_joints(regressor: LinearEfforts, base: BaseParameters, rows: Rows, untold: list[int]) -> list[int]:
    """For each of the base parameters `untold`, the joint whose faster motion enlarges its column the most.

    The joint moves three times as fast as it did.
    """
    at = np.flatnonzero(rows.block >= 0)
    at = at[:: max(1, len(at) // 200)]
    q, v, a = rows.q[at], rows.v[at], rows.a[at]
    sizes = []
    for joint in range(len(regressor.joints)):
        faster = np.ones(len(regressor.joints))
        faster[joint] = 3.0
        columns = regressor(q, v * faster, a * faster**2, base.columns[untold])
        sizes.append(np.sum(columns**2, axis=(0, 1)))
    return [int(k) for k in np.argmax(sizes, axis=0)]
