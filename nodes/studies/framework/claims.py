"""What a paper claims, and the rules by which our own figures decide whether it came out here too.

A rule is a function of measured series or figures; the page prints its words beside the verdict. No verdict is typed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np

ENOUGH = 10.0  # a quantity has grown, or differs clearly, when it did so by this factor
SETTLED = 0.1  # a series has settled when it stays below this share of its peak


class Verdict(StrEnum):
    """What the measured figures say of a claim."""

    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not reproduced"
    CHECKED = "checked otherwise"
    BUILT_IN = "by construction"
    HOLDS = "holds"
    FAILS = "does not hold"
    OPEN = "cannot be judged"


MEANINGS = {
    Verdict.CHECKED: "our figures agree with each other; the paper's, which they should meet, are not to be had",
    Verdict.BUILT_IN: "it follows from what we assumed or from how the model is made, and says nothing for the paper",
    Verdict.HOLDS: "a claim of our own, in no paper, whose rule is met",
    Verdict.FAILS: "a claim of our own, in no paper, whose rule is not met",
}


@dataclass(frozen=True)
class Finding:
    """One reading of a claim: what came out here, and the verdict; `figures` are the numbers it stands on."""

    reading: str
    here: str
    verdict: Verdict
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """A claim in our words, the rule that decides it, and the function that applies the rule to the results.

    timed  it rests on measured times, which differ from run to run: kept in tables of their own
    plots  files of the pictures that show it
    met    what its verdict is where the rule is met: that need not reproduce anything
    """

    key: str
    where: str
    says: str
    rule: str
    judge: Callable[[Any], list[Finding]]
    plots: tuple[str, ...] = ()
    timed: bool = False
    met: Verdict = Verdict.REPRODUCED

    def findings(self, results: Any) -> list[Finding]:
        """What came out, with the verdicts that this claim can have."""
        unmet = Verdict.FAILS if self.met == Verdict.HOLDS else Verdict.NOT_REPRODUCED
        ours = {Verdict.REPRODUCED: self.met, Verdict.NOT_REPRODUCED: unmet}
        return [replace(found, verdict=ours.get(found.verdict, found.verdict)) for found in self.judge(results)]


def verdict_of(holds: bool) -> Verdict:
    """Reproduced when it holds, as far as the claim's own `met` lets it be."""
    return Verdict.REPRODUCED if holds else Verdict.NOT_REPRODUCED


def growth(series: np.ndarray) -> float:
    """Median of the last tenth over the median of the second tenth: how a violation grows after its start.

    inf when it starts from nothing and ends with something, 1 when both are nothing; a series too short to have
    tenths is judged by its ends.
    """
    n = len(series) // 10
    early, late = (series[n : 2 * n], series[-n:]) if n else (series[:1], series[-1:])
    before, after = float(np.median(early)), float(np.median(late))
    if before == 0.0:
        return math.inf if after > 0.0 else 1.0
    return after / before


def settled_share(t: np.ndarray, series: np.ndarray, level: float = SETTLED) -> float:
    """Share of the time after which |series| stays below `level` of its peak; 1 when it never does, 0 when all is 0."""
    size = np.abs(series)
    peak = float(size.max())
    if peak == 0.0:
        return 0.0
    above = np.flatnonzero(size >= level * peak)
    if above[-1] + 1 >= len(t):
        return 1.0
    return float((t[above[-1] + 1] - t[0]) / (t[-1] - t[0]))


def held_share(lost_at: float | None, seconds: float) -> float:
    """Share of the time for which the mechanism stayed together."""
    return 1.0 if lost_at is None else min(1.0, lost_at / seconds)


def first_above(t: np.ndarray, series: np.ndarray, level: float) -> float | None:
    """Time of the first sample above the level; None when there is none."""
    above = np.flatnonzero(series > level)
    return float(t[above[0]]) if len(above) else None


def at_common_times(one: Any, other: Any, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The instants at which two outcomes were both looked at, and what they watched then, (n, k) each."""
    _, first, second = np.intersect1d(np.round(one.t, 9), np.round(other.t, 9), return_indices=True)
    return one.t[first], one.watched[name][first], other.watched[name][second]


def parting_time(t: np.ndarray, one: np.ndarray, other: np.ndarray, distance: float) -> float | None:
    """Time at which two motions (n, k) sampled at the same instants first differ by `distance`; None: never."""
    return first_above(t, np.abs(one - other).max(axis=1), distance)


SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def sci(value: float) -> str:
    """A figure with two digits as a person reads it: 3.1·10⁻⁵; near one it is written plainly."""
    if value == 0.0 or not math.isfinite(value):
        return "0" if value == 0.0 else "∞"
    if 0.01 <= abs(value) < 1000:
        return f"{value:.2g}" if abs(value) < 100 else f"{value:.0f}"
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return f"{mantissa}·10{str(int(exponent)).translate(SUPERSCRIPTS)}"


def violation_text(outcome: Any) -> str:
    """Peaks of an outcome, or when it was lost."""
    peaks = f"peaks |Φ| {sci(outcome.peak_phi)}, |dΦ/dt| {sci(outcome.peak_phidot)}"
    return peaks if outcome.held else loss_text(outcome)


def loss_text(outcome: Any) -> str:
    """When and by what a run was lost."""
    return f"{LOSS.get(outcome.reason, 'lost')} at {sci(outcome.lost_at)} s"


LOSS = {"not finite": "no longer finite", "step went to zero": "the solver's step went to zero"}
LOSS |= {"solver did not converge": "the solver fails"}


def growth_text(factor: float, needed: str) -> str:
    """By what factor a violation grew, and what the rule asks for."""
    return f"|Φ| {f'grows {sci(factor)}-fold' if factor >= 1.0 else f'shrinks to {sci(factor)}'} ({needed})"


def share_text(share: float) -> str:
    """When a series settles, as a share of the time."""
    return "never settle" if share >= 1.0 else f"settle after {100 * share:.0f} % of the time"


def bound_text(limit_s: float) -> str:
    """The stabilizer's linear bound on a fixed step, s, in words; by inf any step is stable, by 0 none."""
    if 0.0 < limit_s < math.inf:
        return f"linear bound {sci(1e3 * limit_s)} ms"
    return f"linear bound: {'any' if limit_s else 'no'} step"
