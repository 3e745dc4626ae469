"""Claims of Nada and Bayoumi on the triple pendulum, the rotary pendulum without fuzzy control, and the gear train.

The texts are in the project's words, and each claim has the rule that decides it. [NadaBayoumi2024, secs. 3.3, 4, 5]
"""

from __future__ import annotations

import numpy as np

from nodes.research.studies.framework.claims import (
    ENOUGH,
    Claim,
    Finding,
    Verdict,
    bound_text,
    growth,
    growth_text,
    held_share,
    sci,
    settled_share,
    share_text,
    verdict_of,
    violation_text,
)
from nodes.research.studies.framework.methods import (
    ABM4,
    ADAMS,
    B1,
    B2,
    DIRECT,
    DIRECT_INSIDE,
    FIXED,
    FLC3,
    NONE,
    ODE45,
    ONE_CALL,
    RADAU,
    TR_BDF2,
    b3,
)
from nodes.research.studies.framework.study import Results
from nodes.research.studies.nada.fuzzy import fuzzy_claims
from nodes.research.studies.nada.judging import (
    BELOW_TENFOLD,
    READINGS,
    TENFOLD,
    UNIVERSE_PHI,
    UNIVERSE_PHIDOT,
    growths,
    peaks,
    stable,
    texts,
)
from nodes.research.studies.nada.nada_runs import BOUND_PHI, BOUND_PHIDOT, LARGEST, REACH, STEPS, Runs


def claims(runs: Runs) -> tuple[Claim, ...]:
    """All claims of the study, in the order of the paper."""
    return (*triple_claims(runs), *rotary_claims(runs), *fuzzy_claims(runs), *gear_claims(runs))


def triple_claims(runs: Runs) -> tuple[Claim, ...]:
    """Claims of section 3.3 on the triple pendulum."""

    def small(results: Results) -> list[Finding]:
        run = runs.triple_small(DIRECT)
        peak = results[run].peak_phi
        verdict = verdict_of(results[run].held and peak <= BOUND_PHI)
        here = f"{violation_text(results[run])} (|Φ| at most {sci(BOUND_PHI)} needed)"
        return [Finding("RK4, 1 ms, fed back", here, verdict, {"peak |Φ|": peak})]

    def large(results: Results) -> list[Finding]:
        found = []
        named = (("RK4, 1 ms, fed back", DIRECT), ("RK4, 1 ms, inside the right-hand side", DIRECT_INSIDE))
        for reading, method in named:
            outcome = results[runs.triple(method)]
            path = outcome.watched["outputs"]
            out = float(np.hypot(path[:, 0], path[:, 1]).max()) - REACH
            grown = growth(outcome.phi)
            verdict = verdict_of(grown >= ENOUGH and out > 1e-2 * REACH)
            here = f"{growth_text(grown, TENFOLD)}; the tip is at most {sci(max(0.0, out))} m outside its reach "
            here += f"({sci(1e-2 * REACH)} m needed); {violation_text(outcome)}"
            found.append(Finding(reading, here, verdict, {"growth": grown, "outside the reach (m)": out}))
        return found

    def bounds(results: Results) -> list[Finding]:
        found = []
        for reading, run in runs.bounded().items():
            outcome = results[run]
            inside = outcome.held and outcome.peak_phi <= BOUND_PHI and outcome.peak_phidot <= BOUND_PHIDOT
            here = f"{violation_text(outcome)} ({sci(BOUND_PHI)} and {sci(BOUND_PHIDOT)} allowed); "
            here += bound_text(outcome.limit_s)
            figures = {"peak |Φ|": outcome.peak_phi, "peak |dΦ/dt|": outcome.peak_phidot, "limit_s": outcome.limit_s}
            found.append(Finding(reading, here, verdict_of(inside), figures))
        return found

    return (
        Claim(
            "direct-small",
            "section 3.3, figure 13",
            "Direct correction keeps the triple pendulum's violations minimal in small swings over a short time.",
            f"peak |Φ|₁ at most {sci(BOUND_PHI)} over the short run.",
            small,
        ),
        Claim(
            "direct-large",
            "section 3.3, figure 14",
            "In large swings over a long time direct correction fails: violations grow and the tip leaves the "
            "pendulum's reach.",
            "|Φ|₁ grows tenfold (last tenth over second tenth) and the tip is 1 % of the reach outside it.",
            large,
            ("tips", "direct"),
        ),
        Claim(
            "fuzzy-bounds",
            "section 3.3, figure 15",
            "Fuzzy stabilization lets the user set upper bounds; here 10⁻⁶ for positions and 10⁻⁴ for velocities.",
            "peaks of |Φ|₁ and |dΦ/dt|₁ within these bounds.",
            bounds,
            ("triple",),
        ),
    )


def rotary_claims(runs: Runs) -> tuple[Claim, ...]:
    """Claims of section 4 up to figure 19, about runs without stabilization and runs with Baumgarte's method."""

    def unstabilized(results: Results) -> list[Finding]:
        found = []
        for reading in READINGS:
            named = runs.unstabilized(reading)
            factors = {name: growth(results[run].phi) for name, run in named.items()}
            grows = all(not results[run].held or factors[name] > 1.0 for name, run in named.items())
            here = growths(results, named.items(), "above 1 needed")
            found.append(Finding(reading, here, verdict_of(grows), factors))
        return found

    def constants_fail(results: Results) -> list[Finding]:
        found = []
        for reading in READINGS:
            named = {method.label: runs.rotary(method, reading, LARGEST) for method in (B1, B2)}
            failed = all(not stable(results, run) for run in named.values())
            text, figures = growths(results, named.items(), TENFOLD), peaks(results, named.items())
            found.append(Finding(reading, text, verdict_of(failed), figures))
        return found

    def is_stable_with_following_gains(results: Results) -> list[Finding]:
        found = []
        for reading in READINGS:
            run = runs.rotary(b3(LARGEST), reading, LARGEST)
            figures = {"peak |Φ|": results[run].peak_phi, "growth": growth(results[run].phi)}
            grown = growth_text(figures["growth"], BELOW_TENFOLD) if results[run].held else "does not hold"
            here = f"{grown}; {violation_text(results[run])}"
            found.append(Finding(reading, here, verdict_of(stable(results, run)), figures))
        return found

    def dense(results: Results) -> list[Finding]:
        named = runs.baumgarte(FIXED, STEPS[0])
        good = all(stable(results, run) for run in named.values())
        here = growths(results, named.items(), BELOW_TENFOLD)
        return [Finding(FIXED, here, verdict_of(good), peaks(results, named.items()))]

    return (
        Claim(
            "unstabilized",
            "section 4, figure 17",
            "Without stabilization the violation of every integrator grows as time goes on.",
            "|Φ|₁ of the last tenth exceeds that of the second tenth, or the run is lost, for every integrator.",
            unstabilized,
            ("unstabilized",),
        ),
        *integrator_claims(runs),
        Claim(
            "baumgarte-constants",
            "section 4, figures 18, 19",
            "At 50 ms Baumgarte with constant gains, (5, 5) or (5, 12), is unstable.",
            "both runs are lost or their |Φ|₁ grows tenfold.",
            constants_fail,
            ("baumgarte",),
        ),
        Claim(
            "baumgarte-following",
            "section 4, figures 18, 19",
            "At 50 ms Baumgarte with (1/δt, √2/δt) is stable.",
            "the run holds and its |Φ|₁ does not grow tenfold.",
            is_stable_with_following_gains,
            ("baumgarte",),
        ),
        Claim(
            "baumgarte-dense",
            "section 4",
            "With dense steps all three sets of Baumgarte gains are stable.",
            "all three runs at 1 ms hold and |Φ|₁ does not grow tenfold.",
            dense,
            ("baumgarte",),
        ),
    )


def integrator_claims(runs: Runs) -> tuple[Claim, ...]:
    """Claims about figure 17, which compares integrators."""

    def adams_best(results: Results) -> list[Finding]:
        found = []
        for reading, adams in ((FIXED, ABM4), (ONE_CALL, ADAMS)):
            named = runs.unstabilized(reading)
            if adams.label not in named:
                found.append(Finding(reading, f"there is no {adams.label} to run", Verdict.OPEN))
                continue
            best = min(named, key=lambda name: results[named[name]].peak_phi)
            text, figures = texts(results, named.items()), peaks(results, named.items())
            text = f"the smallest peak |Φ| is that of {best}; {text}"
            found.append(Finding(reading, text, verdict_of(best == adams.label), figures))
        return found

    def unbounded(results: Results) -> list[Finding]:
        named = runs.unstabilized(FIXED)
        if TR_BDF2.label not in named:
            return [Finding(FIXED, f"there is no {TR_BDF2.label} to run", Verdict.OPEN)]
        run = named[TR_BDF2.label]
        share = held_share(results[run].lost_at, run.seconds)
        here = f"holds for {100 * share:.0f} % of the time (less than 10 % needed); {violation_text(results[run])}"
        return [Finding(f"{FIXED}, 1 ms", here, verdict_of(share < 0.1), {"held share": share})]

    def radau_cost(results: Results) -> list[Finding]:
        named = runs.unstabilized(ONE_CALL)
        found = []
        for other, ratio in ((ADAMS, 1.45), (ODE45, 2.3)):
            counts = [results[named[s.label]].evaluations if s.label in named else None for s in (RADAU, other)]
            reading = f"Radau over {other.label}"
            if counts[0] is None or counts[1] is None:
                found.append(Finding(reading, "not both can be run", Verdict.OPEN))
                continue
            here_ratio = counts[0] / counts[1]
            here = f"{sci(here_ratio)} times the evaluations ({ratio / 2:.2g} to {2 * ratio:.2g} needed); "
            here += f"the paper's times are {ratio:g} to 1"
            verdict = verdict_of(ratio / 2 <= here_ratio <= 2 * ratio)
            found.append(Finding(reading, here, verdict, {"ratio of evaluations": here_ratio}))
        return found

    return (
        Claim(
            "adams-best",
            "section 4, figure 17",
            "Of the unstabilized integrators the Adams methods violate the constraints least.",
            "theirs is the smallest peak of |Φ|₁.",
            adams_best,
            ("unstabilized",),
        ),
        Claim(
            "tr-bdf-unbounded",
            "section 4, figure 17",
            "TR-BDF's violations are unbounded early in the simulation.",
            "|Φ|₁ exceeds one characteristic length before a tenth of the time.",
            unbounded,
            ("unstabilized",),
        ),
        Claim(
            "radau-cost",
            "section 4",
            "Radau takes 145 % of the time of the Adams methods and 230 % of that of Runge–Kutta.",
            "evaluations of the right-hand side are in these ratios within a factor of two; times are not compared, "
            "for the implementations differ.",
            radau_cost,
            ("unstabilized",),
        ),
    )


def gear_claims(runs: Runs) -> tuple[Claim, ...]:
    """Claims of section 5 on the gear train."""

    def damped(results: Results) -> list[Finding]:
        found = []
        for reading in READINGS:
            outcome = results[runs.gear(FLC3, reading)]
            share = settled_share(outcome.t, outcome.watched["unit rows"][:, 0])
            peak = float(np.abs(outcome.watched["unit rows"][:, 0]).max())
            here = f"they {share_text(share)} (at most 15 % needed); their peak is {sci(peak)}"
            found.append(Finding(reading, here, verdict_of(outcome.held and share <= 0.15), {"settled after": share}))
        return found

    def rolling(results: Results) -> list[Finding]:
        found = []
        for reading in READINGS:
            outcome = results[runs.gear(FLC3, reading)]
            peak = float(outcome.watched["rolling rows"].max())
            bare = float(results[runs.gear(NONE, reading)].watched["rolling rows"].max())
            here = (
                f"their peak is {sci(peak)} per s ({sci(UNIVERSE_PHIDOT)} allowed); without stabilization {sci(bare)}"
            )
            figures = {"peak": peak, "without stabilization": bare}
            verdict = verdict_of(outcome.held and peak <= UNIVERSE_PHIDOT)
            found.append(Finding(reading, here, verdict, figures))
        return found

    def limited(results: Results) -> list[Finding]:
        found = []
        for reading in READINGS:
            run = runs.gear(FLC3, reading)
            outcome = results[run]
            inside = outcome.held and outcome.peak_phi <= UNIVERSE_PHI and outcome.peak_phidot <= UNIVERSE_PHIDOT
            here = f"{violation_text(outcome)} ({sci(UNIVERSE_PHI)} and {sci(UNIVERSE_PHIDOT)} allowed)"
            figures = {"peak |Φ|": outcome.peak_phi, "peak |dΦ/dt|": outcome.peak_phidot}
            found.append(Finding(reading, here, verdict_of(inside), figures))
        return found

    return (
        Claim(
            "gear-damped",
            "section 5, figures 29, 30",
            "The gear train's unit-norm constraints are damped within about 12 % of the time.",
            "their |Φ|₁ stays below a tenth of its peak after at most 15 % of the time.",
            damped,
            ("gear_rows",),
        ),
        Claim(
            "gear-rolling",
            "section 5, figure 31",
            "The nonholonomic rows stay within the permissible error.",
            f"their |dΦ/dt|₁ stays within {sci(UNIVERSE_PHIDOT)} per s, where the scaled input saturates.",
            rolling,
            ("gear_rows",),
        ),
        Claim(
            "gear-limited",
            "section 5, figure 32",
            "The norms of all constraints of the gear train stay limited and acceptable.",
            f"peaks within {sci(UNIVERSE_PHI)} and {sci(UNIVERSE_PHIDOT)} per s, where the scaled inputs saturate.",
            limited,
            ("gear",),
        ),
    )
