"""Claims of a paper, and rules that decide from computed results whether each claim is reproduced.

A rule is a function of computed results; the study's page shows the text of the rule beside the verdict. No verdict is
written by hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np

ENOUGH = 10.0  # growth factor, or ratio of two quantities, from which on a change counts as clear
SETTLED = 0.1  # fraction of its peak below which a series has settled


class Verdict(StrEnum):
    """Result of applying a claim's rule to the computed results."""

    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not reproduced"
    CHECKED = "checked otherwise"
    BUILT_IN = "by construction"
    HOLDS = "holds"
    FAILS = "does not hold"
    OPEN = "cannot be judged"


MEANINGS = {
    Verdict.CHECKED: "our results agree with each other; the paper's, with which they should agree, are not available",
    Verdict.BUILT_IN: "the claim follows from our assumptions or from the model's form, and does not support the paper",
    Verdict.HOLDS: "a claim of our own, in no paper, whose rule is met",
    Verdict.FAILS: "a claim of our own, in no paper, whose rule is not met",
}


@dataclass(frozen=True)
class Finding:
    """Result of judging a claim for one interpretation of the paper, or for one case.

    reading  interpretation of the paper, or name of the case
    result   text that describes the computed result
    verdict  verdict that the claim's rule gives
    figures  {name: value} of the computed numbers on which the verdict is based
    """

    reading: str
    result: str
    verdict: Verdict
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """A claim in the project's words, the rule that decides it, and the function that applies the rule to the results.

    key        identifier of the claim within the study
    where      place in the paper
    statement  text of the claim
    rule       text of the rule
    judge      function that applies the rule, and returns one `Finding` per interpretation or case
    plots      names of the plot files that show the results on which the claim is judged
    timed      whether the claim depends on measured times, which differ from run to run and are kept in separate tables
    met        verdict if the rule is met, for example REPRODUCED for a claim of the paper, HOLDS for a claim of the
               project's own
    """

    key: str
    where: str
    statement: str
    rule: str
    judge: Callable[[Any], list[Finding]]
    plots: tuple[str, ...] = ()
    timed: bool = False
    met: Verdict = Verdict.REPRODUCED

    def findings(self, results: Any) -> list[Finding]:
        """Apply the claim's rule to the results, and return one `Finding` per interpretation or case.

        If the rule is met, the verdict is the claim's `met`. If the rule is not met, the verdict is FAILS for a claim
        whose `met` is HOLDS, and NOT_REPRODUCED for any other claim.
        """
        unmet = Verdict.FAILS if self.met == Verdict.HOLDS else Verdict.NOT_REPRODUCED
        ours = {Verdict.REPRODUCED: self.met, Verdict.NOT_REPRODUCED: unmet}
        return [replace(found, verdict=ours.get(found.verdict, found.verdict)) for found in self.judge(results)]


def verdict_of(is_met: bool) -> Verdict:
    """REPRODUCED if the rule of a claim is met, otherwise NOT_REPRODUCED.

    `Claim.findings` later replaces this verdict for claims whose `met` is not REPRODUCED.
    """
    return Verdict.REPRODUCED if is_met else Verdict.NOT_REPRODUCED


def growth(series: np.ndarray) -> float:
    """Growth factor of a series: the median of its last tenth divided by the median of its second tenth.

    Returns 1 if both medians are zero, and inf if only the median of the second tenth is zero. For fewer than ten
    samples, the result is the last sample divided by the first.
    """
    n = len(series) // 10
    early, late = (series[n : 2 * n], series[-n:]) if n else (series[:1], series[-1:])
    before, after = float(np.median(early)), float(np.median(late))
    if before == 0.0:
        return math.inf if after > 0.0 else 1.0
    return after / before


def settled_share(t: np.ndarray, series: np.ndarray, level: float = SETTLED) -> float:
    """Settling time of a series, as a fraction of the time span.

    After the settling time, the absolute values of the series stay below the threshold, which is `level` times the
    largest absolute value. Returns 1 if the last sample is not below the threshold, and 0 for a series of zeros.
    """
    size = np.abs(series)
    peak = float(size.max())
    if peak == 0.0:
        return 0.0
    above = np.flatnonzero(size >= level * peak)
    if above[-1] + 1 >= len(t):
        return 1.0
    return float((t[above[-1] + 1] - t[0]) / (t[-1] - t[0]))


def held_share(lost_at: float | None, seconds: float) -> float:
    """Fraction of the planned duration `seconds` (s) for which the mechanism stayed assembled.

    lost_at  time at which the run failed, s; None for a run that did not fail; the result is then 1
    """
    return 1.0 if lost_at is None else min(1.0, lost_at / seconds)


def first_above(t: np.ndarray, series: np.ndarray, level: float) -> float | None:
    """Time of the first sample of `series` above `level`; None if no sample is above `level`.

    t  times of the samples
    """
    above = np.flatnonzero(series > level)
    return float(t[above[0]]) if len(above) else None


def at_common_times(one: Any, other: Any, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values of a sampled quantity at the instants that two runs have in common.

    Returns (common instants (n,), values of the first run (n, k), values of the second run (n, k)).

    one, other  outcomes of the two runs
    name        name of the quantity
    """
    _, first, second = np.intersect1d(np.round(one.t, 9), np.round(other.t, 9), return_indices=True)
    return one.t[first], one.watched[name][first], other.watched[name][second]


def parting_time(t: np.ndarray, one: np.ndarray, other: np.ndarray, distance: float) -> float | None:
    """First time at which two motions (n, k), sampled at the same times `t`, differ by more than `distance`.

    Returns None if the motions never differ by more than `distance`.
    """
    return first_above(t, np.abs(one - other).max(axis=1), distance)


SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def sci(value: float) -> str:
    """Number as text with two significant digits, such as 3.1·10⁻⁵.

    Numbers from 0.01 to 1000 have no exponent, and from 100 on three digits. Infinite numbers give "∞" and "-∞", and
    NaN gives "NaN".
    """
    if math.isnan(value):
        return "NaN"
    if value == 0.0 or math.isinf(value):
        return "0" if value == 0.0 else "∞" if value > 0.0 else "-∞"
    if 0.01 <= abs(value) < 1000:
        return f"{value:.2g}" if abs(value) < 100 else f"{value:.0f}"
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return f"{mantissa}·10{str(int(exponent)).translate(SUPERSCRIPTS)}"


def violation_text(outcome: Any) -> str:
    """Text on the constraint violation in a run.

    For a run that failed, the text states time and reason of the failure; for any other run, the peaks of the
    constraint violation and of its rate.
    """
    peaks = f"peaks |Φ| {sci(outcome.peak_phi)}, |dΦ/dt| {sci(outcome.peak_phidot)}"
    return peaks if outcome.held else loss_text(outcome)


def loss_text(outcome: Any) -> str:
    """Text with the time at which a run failed, and the reason."""
    return f"{LOSS.get(outcome.reason, 'lost')} at {sci(outcome.lost_at)} s"


LOSS = {"not finite": "no longer finite", "step went to zero": "the solver's step went to zero"}
LOSS |= {"solver did not converge": "the solver fails"}


def growth_text(factor: float, needed: str) -> str:
    """Text with the factor by which a violation grew, and with the rule's condition for this factor, `needed`."""
    return f"|Φ| {f'grows {sci(factor)}-fold' if factor >= 1.0 else f'shrinks to {sci(factor)}'} ({needed})"


def share_text(share: float) -> str:
    """Text that states the settling time of a series, given as the fraction `share` of the time span."""
    return "never settle" if share >= 1.0 else f"settle after {100 * share:.0f} % of the time"


def bound_text(limit_s: float) -> str:
    """Text with the largest fixed step size that is stable according to the stabilizer's linearized analysis.

    limit_s  this step size in s; inf if every step size is stable, 0 if none is stable
    """
    if 0.0 < limit_s < math.inf:
        return f"linear bound {sci(1e3 * limit_s)} ms"
    return f"linear bound: {'any' if limit_s else 'no'} step"
