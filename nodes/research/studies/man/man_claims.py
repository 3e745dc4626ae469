"""Claims of Man and co-authors in the project's words, and the rules that decide each claim. [Man2025]"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from nodes.research.studies.framework.claims import (
    ENOUGH,
    LOSS,
    Claim,
    Finding,
    Verdict,
    at_common_times,
    bound_text,
    first_above,
    growth,
    growth_text,
    loss_text,
    parting_time,
    sci,
    verdict_of,
    violation_text,
)
from nodes.research.studies.framework.methods import B20, FIXED, FIXED_STEPPINGS, NONE, ONE_CALL
from nodes.research.studies.framework.runs import Run
from nodes.research.studies.framework.study import Results
from nodes.research.studies.man.man_runs import CASE1 as CASE1
from nodes.research.studies.man.man_runs import NUDGE, STEP, Runs, case2
from sim_core.stabilization.rules import RULES

READINGS = (FIXED, ONE_CALL)
# The paper's table 1, rows by position and columns by velocity, negative big to positive big.
TABLE = ((-2, -2, -2, -1, 0), (-2, -2, -1, 0, 1), (-2, -1, 0, 1, 2), (-1, 0, 1, 2, 2), (0, 1, 2, 2, 2))
TINY_PHI = 1e-5  # violation without stabilization that the paper calls small
APART = 0.1  # angle from which on two motions differ visibly, rad


def _text(results: Results, named: Iterable[tuple[str, Run]]) -> str:
    return "; ".join(f"{name}: {violation_text(results[run])}" for name, run in named)


def claims(runs: Runs) -> tuple[Claim, ...]:
    """All claims of the study, in the order of the paper."""
    return (table_claim(), *triple_claims(runs), *crank_claims(runs), *reach_claims(runs))


def table_claim() -> Claim:
    """Claim about the rules of table 1."""

    def same(results: Results) -> list[Finding]:
        apart = float(np.abs(2 * RULES - np.array(TABLE)).max())
        here = f"the largest difference of an entry is {sci(apart)} (0 needed)"
        return [Finding("rules in use", here, verdict_of(apart == 0.0), {"largest difference": apart})]

    return Claim(
        "table",
        "table 1",
        "The 25 rules put the output at the sum of both inputs' places, held within ±2.",
        "every entry of the printed table is that of the rules in use here, times two.",
        same,
        ("surfaces",),
        met=Verdict.BUILT_IN,
    )


def triple_claims(runs: Runs) -> tuple[Claim, ...]:
    """Claims about example 1, the triple pendulum."""

    def grows(results: Results) -> list[Finding]:
        found = []
        for reading in READINGS:
            outcome = results[runs.triple(NONE, reading)]
            factor = growth(outcome.phi)
            grown = not outcome.held or factor >= ENOUGH
            here = f"{growth_text(factor, '10 needed')}; {violation_text(outcome)}"
            found.append(Finding(reading, here, verdict_of(grown), {"growth": factor}))
        return found

    def small(results: Results) -> list[Finding]:
        found = []
        for reading in READINGS:
            outcome = results[runs.triple(NONE, reading)]
            passed = first_above(outcome.t, outcome.phi, ENOUGH * TINY_PHI)
            span = float(outcome.t[-1])
            when = f"at {sci(passed)} s" if passed is not None else f"never in {sci(span)} s"
            here = (
                f"|Φ|₁ passes {sci(ENOUGH * TINY_PHI)} {when} (after more than 1 s needed); {violation_text(outcome)}"
            )
            figures = {"peak |Φ|": outcome.peak_phi, "leaves the level at (s)": span if passed is None else passed}
            found.append(Finding(reading, here, verdict_of(passed is None or passed > 1.0), figures))
        return found

    def keeps_violation_small(results: Results) -> list[Finding]:
        found = []
        for reading in READINGS:
            fuzzy, bare = (results[runs.triple(method, reading)] for method in (CASE1, NONE))
            good = fuzzy.held and ENOUGH * fuzzy.peak_phi <= bare.peak_phi
            part = (
                f"{sci(fuzzy.peak_phi / bare.peak_phi)} of that without stabilization" if fuzzy.held else "none, lost"
            )
            here = f"peak |Φ| under case 1: {part} (at most 0.1 of it needed); "
            here += f"case 1: {violation_text(fuzzy)}; none: {violation_text(bare)}; {bound_text(fuzzy.limit_s)}"
            figures = {"case 1: peak |Φ|": fuzzy.peak_phi, "none: peak |Φ|": bare.peak_phi, "limit_s": fuzzy.limit_s}
            found.append(Finding(reading, here, verdict_of(good), figures))
        return found

    return (
        Claim(
            "unstabilized",
            "example 1, figure 6",
            "Without stabilization the violations of the triple pendulum grow all the time.",
            "|Φ|₁ grows tenfold (last tenth over second tenth), or the run is lost.",
            grows,
            ("triple",),
        ),
        Claim(
            "unstabilized-small",
            "example 1, figure 6",
            "Without stabilization they are of the order of 10⁻⁵. (The simulated time is not in the text.)",
            f"|Φ|₁ stays below {sci(ENOUGH * TINY_PHI)} for more than a second.",
            small,
            ("triple",),
        ),
        Claim(
            "fuzzy-small",
            "example 1, figure 6",
            "Fuzzy stabilization (case 1) holds the violations at a very small size.",
            "the run holds and its peak |Φ|₁ is at most a tenth of that without stabilization.",
            keeps_violation_small,
            ("triple",),
        ),
        *motion_claims(runs),
    )


def motion_claims(runs: Runs) -> tuple[Claim, ...]:
    """Claims about figure 7, the motion of the triple pendulum."""

    def part(results: Results) -> list[Finding]:
        found = []
        for reading in READINGS:
            when = parting(results, runs.triple(NONE, reading), runs.triple(CASE1, reading))
            here = "they do not part" if when is None else f"they part by {sci(APART)} rad at {sci(when)} s"
            figures = {} if when is None else {"part at (s)": when}
            found.append(Finding(reading, here, verdict_of(when is not None), figures))
        return found

    def corrected(results: Results) -> list[Finding]:
        found = []
        reference, twin = runs.twins()
        horizon = parting(results, reference, twin)
        for reading in READINGS:
            times = [parting(results, reference, runs.triple(method, reading)) for method in (CASE1, NONE)]
            here = "; ".join(
                f"{name} leaves it " + (f"at {sci(when)} s" if when is not None else "never")
                for name, when in zip(("case 1", "no stabilization"), times, strict=True)
            )
            here += " (twice as late needed)"
            if horizon is not None:
                here += f" (two references whose starts are {sci(NUDGE)} rad apart part at {sci(horizon)} s)"
            fuzzy, bare = (math.inf if when is None else when for when in times)
            figures = {"case 1 (s)": fuzzy, "no stabilization (s)": bare}
            verdict = Verdict.OPEN if bare == math.inf else verdict_of(fuzzy >= 2 * bare)
            found.append(Finding(reading, here, verdict, figures))
        return found

    return (
        Claim(
            "angles-part",
            "example 1, figure 7",
            "Late in the run the angles of bars 2 and 3 differ between no stabilization and the fuzzy one.",
            f"they differ by {sci(APART)} rad at some time.",
            part,
            ("angles",),
        ),
        Claim(
            "angles-cause",
            "example 1, figure 7",
            "This is the work of small violations, and the stabilized motion is the right one.",
            "the stabilized motion follows a reference (tolerances 10⁻¹⁰, projection) within "
            f"{sci(APART)} rad at least twice as long as the one without stabilization.",
            corrected,
            ("angles", "parting"),
        ),
    )


def parting(results: Results, one: Run, other: Run) -> float | None:
    """First time at which two runs differ by more than APART (rad) in the angle of bar 2 or bar 3.

    Returns None if the two runs never differ by more than APART.
    """
    t, first, second = at_common_times(results[one], results[other], "bars")
    return parting_time(t, first[:, 1:], second[:, 1:], APART)


def crank_claims(runs: Runs) -> tuple[Claim, ...]:
    """Claims about example 2, the crank-slider."""

    def cannot_run(results: Results) -> list[Finding]:
        found = []
        for reading in READINGS:
            for name, printed in (("velocities as printed", True), ("consistent velocities", False)):
                run = runs.crank(NONE, reading, printed)
                outcome = results[run]
                here = loss_text(outcome) if not outcome.held else f"not lost; {violation_text(outcome)}"
                here += f"; |dΦ/dt|₁ starts at {sci(float(outcome.phidot[0]))}"
                figures = {"start |dΦ/dt|": float(outcome.phidot[0]), "peak |Φ|": outcome.peak_phi}
                found.append(Finding(f"{reading}, {name}", here, verdict_of(not outcome.held), figures))
        return found

    def peaks(results: Results) -> list[Finding]:
        found = []
        for reading in READINGS:
            named = {method.label: runs.crank(method, reading) for method in (case2(), B20)}
            fuzzy, linear = (results[run] for run in named.values())
            good = fuzzy.held and fuzzy.peak_phi < linear.peak_phi
            figures = {f"{name}: peak |Φ|": results[run].peak_phi for name, run in named.items()}
            here = f"{_text(results, named.items())} (a smaller |Φ| of the first needed)"
            found.append(Finding(reading, here, verdict_of(good), figures))
        return found

    def late(results: Results) -> list[Finding]:
        found = []
        for reading in READINGS:
            named = {method.label: runs.crank(method, reading) for method in (case2(), B20)}
            ends = {name: _late(results, run) for name, run in named.items()}
            (a, x), (b, y) = ends.values()
            here = "; ".join(
                f"{name}: "
                + (f"|Φ| {sci(p)}, |dΦ/dt| {sci(v)}" if results[named[name]].held else "lost, no late figures")
                for name, (p, v) in ends.items()
            )
            good = results[next(iter(named.values()))].held and a < b and x < y
            figures = {f"{name}: late |Φ|": p for name, (p, _) in ends.items()}
            found.append(Finding(reading, here, verdict_of(good), figures))
        return found

    return (
        Claim(
            "crank-unstabilized",
            "example 2",
            "Without stabilization the crank-slider cannot be simulated, for its constraints contradict each other.",
            "the run is lost.",
            cannot_run,
            ("crank",),
        ),
        Claim(
            "crank-peak",
            "example 2, figure 9",
            "Fuzzy stabilization (case 2) controls the violations clearly, with smaller peaks than Baumgarte (20, 20).",
            "the run holds and its peak |Φ|₁ is below Baumgarte's.",
            peaks,
            ("crank",),
        ),
        Claim(
            "crank-late",
            "example 2, figure 9",
            "After the start, too, it leaves smaller violations than Baumgarte (20, 20).",
            "the medians of |Φ|₁ and |dΦ/dt|₁ over the last tenth are below Baumgarte's.",
            late,
            ("crank",),
        ),
    )


def _late(results: Results, run: Run) -> tuple[float, float]:
    outcome = results[run]
    n = max(1, len(outcome.t) // 10)
    if not outcome.held:
        return math.inf, math.inf
    return float(np.median(outcome.phi[-n:])), float(np.median(outcome.phidot[-n:]))


def reach_claims(runs: Runs) -> tuple[Claim, ...]:
    """Claims of the paper's conclusions: the method suits any step size, any integrator and long runs."""

    def any_step(results: Results) -> list[Finding]:
        found = []
        for stepping in FIXED_STEPPINGS:
            for label, swept in runs.swept(stepping).items():
                if not swept[0].method.is_fuzzy:
                    continue
                bad = [run.dt for run in swept if not settles(results, run)]
                limit = results[swept[0]].limit_s
                here = f"{_failing(results, swept)} from {sci(1e3 * min(bad))} ms on" if bad else "holds at every step"
                here += f" (every step needed); {bound_text(limit)}"
                found.append(Finding(f"{stepping.label}, {label}", here, verdict_of(not bad), {"limit_s": limit}))
        return found

    def long_runs(results: Results) -> list[Finding]:
        found = []
        for reading in READINGS:
            for name, run in (
                ("triple pendulum", runs.triple(CASE1, reading)),
                ("crank-slider", runs.crank(case2(), reading)),
            ):
                outcome = results[run]
                figures = {"seconds": run.seconds, "peak |Φ|": outcome.peak_phi}
                here = (
                    f"holds for all {sci(run.seconds)} s; {violation_text(outcome)}"
                    if outcome.held
                    else loss_text(outcome)
                )
                found.append(Finding(f"{reading}, {name}", here, verdict_of(outcome.held), figures))
        return found

    return (
        Claim(
            "any-step",
            "abstract, section 6",
            "The method depends neither on the step nor on the integrator nor on the model.",
            "every run of the sweep holds, and none chatters: |dΦ/dt|₁ ends below the largest value at which it "
            "started.",
            any_step,
            ("sweep", "limits"),
        ),
        Claim(
            "long-runs",
            "abstract, section 6",
            f"It suits long real-time simulations, at steps of {sci(1e3 * STEP)} ms.",
            "the run holds for the whole time.",
            long_runs,
            ("triple", "crank"),
        ),
    )


def _failing(results: Results, swept: list[Run]) -> str:
    """Text that says what went wrong in the run with the smallest step size among the unsuccessful runs in `swept`.

    The text is "chatters" for a run that reached its end, otherwise the reason why the simulation ended early.
    """
    run = min((run for run in swept if not settles(results, run)), key=lambda run: run.dt)
    outcome = results[run]
    return "chatters" if outcome.held else LOSS.get(outcome.reason, "lost")


def settles(results: Results, run: Run) -> bool:
    """Whether a run did not fail and ends without chatter (persistent oscillation of the violation).

    |Phidot| is the rate of the violation. A run ends without chatter if the median of |Phidot| over the last tenth of
    the run is at most 0.1, or at most |Phidot| at the start of the run.
    """
    outcome = results[run]
    return outcome.held and _late(results, run)[1] <= max(float(outcome.phidot[0]), 0.1)
