"""Claims of Nada and Bayoumi on the fuzzy sets for the rotary pendulum, and the rules that decide them.

[NadaBayoumi2024, sec. 4, figs. 20-26]
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nodes.research.studies.framework.claims import (
    ENOUGH,
    Claim,
    Finding,
    Verdict,
    at_common_times,
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
from nodes.research.studies.framework.methods import DIRECT, DIRECT_INSIDE, FIXED, FLC1, FLC2, FLC3, NONE, ONE_CALL, b3
from nodes.research.studies.framework.runs import Run
from nodes.research.studies.framework.study import Results
from nodes.research.studies.nada.judging import BELOW_TENFOLD, READINGS, TENFOLD, growths, peaks, stable, texts
from nodes.research.studies.nada.nada_runs import FLC, LARGEST, STEPS, Runs

ROUNDING = 1e-9  # largest violation of a row that counts as rounding


def fuzzy_claims(runs: Runs) -> tuple[Claim, ...]:
    """Claims of section 4 from figure 20 on: the fuzzy sets compared with other methods."""

    def is_stable_at_largest_step(results: Results) -> list[Finding]:
        found = []
        for reading in READINGS:
            named = {name: runs.rotary(method, reading, LARGEST) for name, method in FLC.items()}
            good = all(stable(results, run) for run in named.values())
            text, figures = growths(results, named.items(), BELOW_TENFOLD), peaks(results, named.items())
            found.append(Finding(reading, text, verdict_of(good), figures))
        return found

    def below(level: str) -> Callable[[Results], list[Finding]]:
        def judge(results: Results) -> list[Finding]:
            found = []
            for reading in READINGS:
                fuzzy = {name: results[runs.rotary(method, reading, LARGEST)] for name, method in FLC.items()}
                other = results[runs.rotary(b3(LARGEST), reading, LARGEST)]
                symbol = "|Φ|" if level == "phi" else "|dΦ/dt|"
                largest = {name: float(getattr(outcome, f"peak_{level}")) for name, outcome in fuzzy.items()}
                largest["(1/δt, √2/δt)"] = float(getattr(other, f"peak_{level}"))
                lower = all(o.held and largest[name] < largest["(1/δt, √2/δt)"] for name, o in fuzzy.items())
                held = {name: outcome.held for name, outcome in fuzzy.items()} | {"(1/δt, √2/δt)": other.held}
                here = f"peak {symbol} (the last the largest needed): " + ", ".join(
                    f"{name} {sci(value) if held[name] else 'lost'}" for name, value in largest.items()
                )
                found.append(Finding(reading, here, verdict_of(lower), largest))
            return found

        return judge

    def gaussians_best(results: Results) -> list[Finding]:
        found = []
        for reading, kind, dt in ((f"{FIXED}, 1 ms", FIXED, STEPS[0]), (ONE_CALL, ONE_CALL, LARGEST)):
            named = {name: runs.rotary(method, kind, dt) for name, method in FLC.items()}
            best = min(named, key=lambda name: results[named[name]].peak_phi)
            fastest = min(named, key=lambda name: results[named[name]].peak_phidot)
            figures = peaks(results, named.items())
            text = f"the smallest peak |Φ| is that of {best}, the smallest peak |dΦ/dt| that of {fastest}; "
            text += texts(results, named.items())
            found.append(Finding(reading, text, verdict_of(best == fastest == "set III"), figures))
        return found

    return (
        Claim(
            "direct-long",
            "section 4, figures 20 to 23",
            "Direct correction accumulates error in long simulations and holds for less than a tenth of the time.",
            "at 50 ms |Φ|₁ grows tenfold, and |Φ|₁ exceeds one characteristic length before a tenth of the time.",
            lambda results: _direct_long(runs, results),
            ("compared", "direct"),
        ),
        Claim(
            "fuzzy-largest",
            "section 4, figures 20, 21",
            "All three fuzzy sets are stable at 50 ms.",
            "the three runs hold and |Φ|₁ does not grow tenfold.",
            is_stable_at_largest_step,
            ("compared",),
        ),
        Claim(
            "fuzzy-below-position",
            "section 4, figures 20, 21",
            "All three fuzzy sets violate positions less than Baumgarte (1/δt, √2/δt) at 50 ms.",
            "the peak |Φ|₁ of each set is below Baumgarte's, and none is lost.",
            below("phi"),
            ("compared",),
        ),
        Claim(
            "fuzzy-below-velocity",
            "section 4, figures 20, 21",
            "The same for velocities, where the difference is said to be largest.",
            "the peak |dΦ/dt|₁ of each set is below Baumgarte's, and none is lost.",
            below("phidot"),
            ("compared",),
        ),
        Claim(
            "gaussians-best",
            "section 4",
            "Of the three sets the Gaussians violate the constraints least.",
            "set III has the smallest peak of |Φ|₁ and of |dΦ/dt|₁ of the three.",
            gaussians_best,
            ("compared",),
        ),
        *_dynamics_claims(runs),
    )


def _direct_long(runs: Runs, results: Results) -> list[Finding]:
    found = []
    for reading in READINGS:
        for name, method in (("fed back", DIRECT), ("inside the right-hand side", DIRECT_INSIDE)):
            run = runs.rotary(method, reading, LARGEST)
            outcome = results[run]
            grown, share = growth(outcome.phi), held_share(outcome.lost_at, run.seconds)
            here = f"{growth_text(grown, TENFOLD)}; holds for {100 * share:.0f} % of the time (less than 10 % needed); "
            here += violation_text(outcome)
            verdict = verdict_of(grown >= ENOUGH and share < 0.1)
            found.append(Finding(f"{reading}, {name}", here, verdict, {"growth": grown, "held share": share}))
    return found


def _dynamics_claims(runs: Runs) -> tuple[Claim, ...]:
    def shares(results: Results, reading: str) -> dict[str, float]:
        found = {}
        for method in (b3(LARGEST), FLC1, FLC2, FLC3):
            outcome = results[runs.rotary(method, reading, LARGEST)]
            rows = outcome.watched["rows pendulum"][:, 0]
            found[method.label] = settled_share(outcome.t, rows) if outcome.held else 1.0
        return found

    def ninth_itself(results: Results) -> Finding:
        peak = float(np.abs(results[runs.rotary(NONE, ONE_CALL)].watched["row 9"][:, 0]).max())
        reason = "with axes that are never singular" if peak <= ROUNDING else "see the other lines;"
        here = f"{reason} row 9 stays at {sci(peak)} even without stabilization: there is nothing to damp"
        return Finding("constraint row 9", here, Verdict.OPEN, {"peak without stabilization": peak})

    def oscillates(results: Results) -> list[Finding]:
        found = []
        for reading in READINGS:
            share = shares(results, reading)[b3(LARGEST).label]
            here = f"they {share_text(share)} (after more than 50 % needed)"
            found.append(
                Finding(f"{reading}, rows of the joint", here, verdict_of(share > 0.5), {"settled after": share})
            )
        return [ninth_itself(results), *found]

    def damped(results: Results) -> list[Finding]:
        found = []
        for reading in READINGS:
            settled = shares(results, reading)
            fuzzy = [settled[method.label] for method in (FLC1, FLC2, FLC3)]
            here = "; ".join(f"under {name} they {share_text(share)}" for name, share in settled.items())
            faster = max(fuzzy) < settled[b3(LARGEST).label]
            found.append(Finding(f"{reading}, rows of the joint", here, verdict_of(faster), settled))
        return [ninth_itself(results), *found]

    def any_step(results: Results) -> list[Finding]:
        found = []
        for label, swept in runs.fuzzy_steps().items():
            good = [run.dt for run in swept if results[run].held]
            bad = [run.dt for run in swept if not results[run].held]
            limit = results[swept[0]].limit_s
            here = f"holds up to {sci(1e3 * max(good))} ms" if good else "holds at no step"
            here += f", lost from {sci(1e3 * min(bad))} ms on" if bad else ""
            here += f" (all up to {sci(1e3 * swept[-1].dt)} ms needed); {bound_text(limit)}"
            found.append(Finding(f"RK4, {label}", here, verdict_of(not bad), {"limit_s": limit}))
        return found

    def against_reference(results: Results) -> list[Finding]:
        reference, fuzzy = (results[run] for run in runs.reference())
        _, one, other = at_common_times(reference, fuzzy, "joints")
        apart = np.abs(one - other).max(axis=1)
        span = float(np.ptp(reference.watched["joints"], axis=0).max())
        share = float(apart.max()) / span
        here = f"they differ by at most {sci(100 * share)} % of the range of motion (1 % allowed), "
        here += f"{sci(float(apart.max()))} rad in {sci(float(fuzzy.t[-1]))} s"
        return [Finding(ONE_CALL, here, verdict_of(share <= 0.01), {"share of the range": share})]

    return (
        Claim(
            "ninth-baumgarte",
            "section 4, figures 22, 23",
            "Under Baumgarte (1/δt, √2/δt) the ninth constraint oscillates for more than half of the time.",
            "the five rows of the pendulum's joint, to which row 9 belongs, settle below a tenth of their peak only "
            "after half of the time.",
            oscillates,
            ("ninth",),
        ),
        Claim(
            "ninth-fuzzy",
            "section 4, figures 22, 23",
            "The fuzzy sets damp the ninth constraint faster than Baumgarte (1/δt, √2/δt).",
            "under each set these five rows settle below a tenth of their peak earlier; a lost run never settles.",
            damped,
            ("ninth",),
        ),
        Claim(
            "any-step",
            "sections 1.4, 6",
            "Fuzzy stabilization works whatever the step.",
            "every run of the sweep from 0.25 to 50 ms holds.",
            any_step,
            ("sweep", "limits"),
        ),
        Claim(
            "reference",
            "section 4, figures 25, 26",
            "The fuzzy motion at 50 ms agrees with a reference of dense steps.",
            "the largest difference of the joint angles is at most 1 % of the range of motion.",
            against_reference,
            ("reference",),
        ),
        *cost_claims(runs),
    )


def cost_claims(runs: Runs) -> tuple[Claim, ...]:
    """Claims about figure 24, on computing time and on evaluations of the right-hand side.

    The number of evaluations does not depend on the computer.
    """

    def evaluations(results: Results, run: Run) -> float | None:
        found = results[run]
        return float(found.evaluations) if found.held and found.evaluations is not None else None

    def sharply(results: Results) -> list[Finding]:
        dense, wide = (evaluations(results, runs.rotary(b3(dt), ONE_CALL, dt)) for dt in (STEPS[0], LARGEST))
        if dense is None or wide is None:
            return [Finding(ONE_CALL, "a run was lost, or nothing counts the evaluations", Verdict.OPEN)]
        here = f"{sci(dense / wide)} times as many evaluations (3 needed): {dense:.0f} with the gains of 1 ms, "
        here += f"{wide:.0f} with those of 50 ms"
        return [Finding(ONE_CALL, here, verdict_of(dense >= 3 * wide), {"1 ms": dense, "50 ms": wide})]

    def cheapest(results: Results) -> list[Finding]:
        found = []
        for reading, kind, dt in ((f"{FIXED}, 1 ms", FIXED, STEPS[0]), (ONE_CALL, ONE_CALL, LARGEST)):
            named = {method.label: runs.rotary(method, kind, dt) for method in (FLC3, FLC1, FLC2, b3(dt), DIRECT)}
            costs = {name: cost.per_second for name, run in named.items() if (cost := results.cost(run))}
            if FLC3.label not in costs or len(costs) < 2:
                found.append(
                    Finding(
                        reading,
                        "a run ended without a result, so that no computing times can be compared",
                        Verdict.OPEN,
                    )
                )
                continue
            best = min(costs, key=lambda name: costs[name])
            here = f"the least time is that of {best}; per simulated second: "
            here += ", ".join(f"{name} {sci(1e3 * c)} ms" for name, c in costs.items())
            found.append(Finding(reading, here, verdict_of(best == FLC3.label), costs))
        return found

    return (
        Claim(
            "cost-dense",
            "section 4, figure 24",
            "The cost of Baumgarte (1/δt, √2/δt) rises sharply when dense steps make its gains large.",
            "the solver evaluates the right-hand side three times as often with the gains of 1 ms as with those of "
            "50 ms.",
            sharply,
            ("cost",),
        ),
        Claim(
            "cost-least",
            "section 4, figure 24",
            "Fuzzy stabilization with Gaussians takes the least time of all methods.",
            "its measured time per simulated second is the smallest of the paper's methods. The paper's own times (its "
            "processor, MATLAB) are in a lost figure and are not compared.",
            cheapest,
            ("cost",),
            timed=True,
        ),
    )
