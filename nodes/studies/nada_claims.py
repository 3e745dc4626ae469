"""What Nada and Bayoumi claim, in our words, and the rules that decide each claim. [NadaBayoumi2024]"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from nodes.studies.claims import (
    ENOUGH,
    Claim,
    Finding,
    Verdict,
    growth,
    held_share,
    sci,
    settled_share,
    verdict_of,
    violation_text,
)
from nodes.studies.methods import B1, B2, DIRECT, DIRECT_INSIDE, FLC1, FLC2, FLC3, NONE, b3
from nodes.studies.nada_runs import (
    BOUND_PHI,
    BOUND_PHIDOT,
    FIXED,
    FLC,
    LARGEST,
    ONE_CALL,
    REACH,
    STEPS,
    Runs,
)
from nodes.studies.runs import Run
from nodes.studies.study import Results

READINGS = (FIXED, ONE_CALL)
UNIVERSE_PHI, UNIVERSE_PHIDOT = 1e-2, 1e2  # 1/Kp and 1/Kd of the paper's scaling: where its controller saturates


def _text(results: Results, named: Iterable[tuple[str, Run]]) -> str:
    return "; ".join(f"{name}: {violation_text(results[run])}" for name, run in named)


def _figures(results: Results, named: Iterable[tuple[str, Run]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, run in named:
        found[f"{name}: peak |Φ|"] = results[run].peak_phi
        found[f"{name}: peak |Φ̇|"] = results[run].peak_phidot
    return found


def stable(results: Results, run: Run) -> bool:
    """Whether a run held and its violation did not grow tenfold."""
    found = results[run]
    return found.held and growth(found.phi) < ENOUGH


def claims(runs: Runs) -> tuple[Claim, ...]:
    """All claims, in the paper's order."""
    return (*triple_claims(runs), *rotary_claims(runs), *fuzzy_claims(runs), *gear_claims(runs))


def triple_claims(runs: Runs) -> tuple[Claim, ...]:
    """Section 3.3."""

    def small(results: Results) -> list[Finding]:
        run = runs.triple_small(DIRECT)
        peak = results[run].peak_phi
        verdict = verdict_of(results[run].held and peak <= BOUND_PHI)
        return [Finding("RK4, 1 ms, fed back", violation_text(results[run]), verdict, {"peak |Φ|": peak})]

    def large(results: Results) -> list[Finding]:
        found = []
        named = (("RK4, 1 ms, fed back", DIRECT), ("RK4, 1 ms, inside the right-hand side", DIRECT_INSIDE))
        for reading, method in named:
            outcome = results[runs.triple(method)]
            path = outcome.watched["outputs"]
            out = float(np.hypot(path[:, 0], path[:, 1]).max()) - REACH
            grown = growth(outcome.phi)
            verdict = verdict_of(grown >= ENOUGH and out > 1e-2 * REACH)
            here = f"{violation_text(outcome)}; the tip is at most {sci(max(0.0, out))} m outside its reach"
            found.append(Finding(reading, here, verdict, {"growth": grown, "outside the reach (m)": out}))
        return found

    def bounds(results: Results) -> list[Finding]:
        found = []
        for reading, run in runs.bounded().items():
            outcome = results[run]
            inside = outcome.held and outcome.peak_phi <= BOUND_PHI and outcome.peak_phidot <= BOUND_PHIDOT
            here = f"{violation_text(outcome)}; linear bound on the step {sci(1e3 * outcome.limit_s)} ms"
            figures = {"peak |Φ|": outcome.peak_phi, "peak |Φ̇|": outcome.peak_phidot, "limit_s": outcome.limit_s}
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
            "peaks of |Φ|₁ and |Φ̇|₁ within these bounds.",
            bounds,
            ("triple",),
        ),
    )


def rotary_claims(runs: Runs) -> tuple[Claim, ...]:
    """Section 4 up to figure 19: no stabilization, Baumgarte."""

    def unstabilized(results: Results) -> list[Finding]:
        found = []
        for reading in READINGS:
            named = runs.unstabilized(reading)
            factors = {name: growth(results[run].phi) for name, run in named.items()}
            grows = all(not results[run].held or factors[name] > 1.0 for name, run in named.items())
            found.append(Finding(reading, _text(results, named.items()), verdict_of(grows), factors))
        return found

    def constants_fail(results: Results) -> list[Finding]:
        found = []
        for reading in READINGS:
            named = {method.label: runs.rotary(method, reading, LARGEST) for method in (B1, B2)}
            failed = all(not stable(results, run) for run in named.values())
            text, figures = _text(results, named.items()), _figures(results, named.items())
            found.append(Finding(reading, text, verdict_of(failed), figures))
        return found

    def following_holds(results: Results) -> list[Finding]:
        found = []
        for reading in READINGS:
            run = runs.rotary(b3(LARGEST), reading, LARGEST)
            figures = {"peak |Φ|": results[run].peak_phi, "growth": growth(results[run].phi)}
            found.append(Finding(reading, violation_text(results[run]), verdict_of(stable(results, run)), figures))
        return found

    def dense(results: Results) -> list[Finding]:
        named = runs.baumgarte(FIXED, STEPS[0])
        good = all(stable(results, run) for run in named.values())
        return [Finding(FIXED, _text(results, named.items()), verdict_of(good), _figures(results, named.items()))]

    return (
        Claim(
            "unstabilized",
            "section 4, figure 17",
            "Without stabilization the violation of every integrator grows as time goes on.",
            "|Φ|₁ of the last tenth exceeds that of the second tenth, or the run is lost, for every integrator.",
            unstabilized,
            ("unstabilized",),
        ),
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
            following_holds,
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


def fuzzy_claims(runs: Runs) -> tuple[Claim, ...]:
    """Section 4 from figure 20 on: the fuzzy sets beside the others."""

    def holds_at_largest(results: Results) -> list[Finding]:
        found = []
        for reading in READINGS:
            named = {name: runs.rotary(method, reading, LARGEST) for name, method in FLC.items()}
            good = all(stable(results, run) for run in named.values())
            text, figures = _text(results, named.items()), _figures(results, named.items())
            found.append(Finding(reading, text, verdict_of(good), figures))
        return found

    def below(level: str) -> list[Finding] | object:
        def judge(results: Results) -> list[Finding]:
            found = []
            for reading in READINGS:
                fuzzy = {name: results[runs.rotary(method, reading, LARGEST)] for name, method in FLC.items()}
                other = results[runs.rotary(b3(LARGEST), reading, LARGEST)]
                symbol = "|Φ|" if level == "phi" else "|Φ̇|"
                peaks = {name: float(getattr(outcome, f"peak_{level}")) for name, outcome in fuzzy.items()}
                peaks["(1/δt, √2/δt)"] = float(getattr(other, f"peak_{level}"))
                lower = all(o.held and peaks[name] < peaks["(1/δt, √2/δt)"] for name, o in fuzzy.items())
                here = f"peak {symbol}: " + ", ".join(
                    f"{name} {sci(value)}" if name not in fuzzy or fuzzy[name].held else f"{name} lost"
                    for name, value in peaks.items()
                )
                found.append(Finding(reading, here, verdict_of(lower), peaks))
            return found

        return judge

    def gaussians_best(results: Results) -> list[Finding]:
        found = []
        for reading, dt in ((f"{FIXED}, 1 ms", STEPS[0]), (ONE_CALL, LARGEST)):
            kind = FIXED if reading.startswith(FIXED) else ONE_CALL
            named = {name: runs.rotary(method, kind, dt) for name, method in FLC.items()}
            best = min(named, key=lambda name: results[named[name]].peak_phi)
            fastest = min(named, key=lambda name: results[named[name]].peak_phidot)
            text, figures = _text(results, named.items()), _figures(results, named.items())
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
            holds_at_largest,
            ("compared",),
        ),
        Claim(
            "fuzzy-below-position",
            "section 4, figures 20, 21",
            "All three fuzzy sets violate positions less than Baumgarte (1/δt, √2/δt) at 50 ms.",
            "the peak |Φ|₁ of each set is below Baumgarte's, and none is lost.",
            below("phi"),  # type: ignore[arg-type]
            ("compared",),
        ),
        Claim(
            "fuzzy-below-velocity",
            "section 4, figures 20, 21",
            "The same for velocities, where the difference is said to be largest.",
            "the peak |Φ̇|₁ of each set is below Baumgarte's, and none is lost.",
            below("phidot"),  # type: ignore[arg-type]
            ("compared",),
        ),
        Claim(
            "gaussians-best",
            "section 4",
            "Of the three sets the Gaussians violate the constraints least.",
            "set III has the smallest peak of |Φ|₁ and of |Φ̇|₁ of the three.",
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
            here = f"{violation_text(outcome)}; holds for {100 * share:.0f} % of the time"
            verdict = verdict_of(grown >= ENOUGH and share < 0.1)
            found.append(Finding(f"{reading}, {name}", here, verdict, {"growth": grown, "held share": share}))
    return found


def _dynamics_claims(runs: Runs) -> tuple[Claim, ...]:
    def shares(results: Results, reading: str) -> dict[str, float]:
        found = {}
        for method in (b3(LARGEST), FLC1, FLC2, FLC3):
            outcome = results[runs.rotary(method, reading, LARGEST)]
            found[method.label] = settled_share(outcome.t, outcome.watched["row 9"][:, 0]) if outcome.held else 1.0
        return found

    def oscillates(results: Results) -> list[Finding]:
        found = []
        for reading in READINGS:
            share = shares(results, reading)[b3(LARGEST).label]
            here = f"row 9 stays below a tenth of its peak after {100 * share:.0f} % of the time"
            found.append(Finding(reading, here, verdict_of(share > 0.5), {"settled after (share)": share}))
        return found

    def damped(results: Results) -> list[Finding]:
        found = []
        for reading in READINGS:
            settled = shares(results, reading)
            fuzzy = [settled[method.label] for method in (FLC1, FLC2, FLC3)]
            here = "settled after " + ", ".join(f"{100 * share:.0f} % ({name})" for name, share in settled.items())
            faster = max(fuzzy) < settled[b3(LARGEST).label]
            found.append(Finding(reading, here, verdict_of(faster), settled))
        return found

    def any_step(results: Results) -> list[Finding]:
        found = []
        for label, swept in runs.fuzzy_steps().items():
            good = [run.dt for run in swept if results[run].held]
            bad = [run.dt for run in swept if not results[run].held]
            limit = results[swept[0]].limit_s
            here = f"holds up to {sci(1e3 * max(good))} ms" if good else "holds at no step"
            here += f", lost from {sci(1e3 * min(bad))} ms on" if bad else ""
            here += f"; linear bound {sci(1e3 * limit)} ms"
            found.append(Finding(f"RK4, {label}", here, verdict_of(not bad), {"limit_s": limit}))
        return found

    def against_reference(results: Results) -> list[Finding]:
        reference, fuzzy = (results[run] for run in runs.reference())
        n = min(len(reference.t), len(fuzzy.t))
        apart = np.abs(reference.watched["joints"][:n] - fuzzy.watched["joints"][:n]).max(axis=1)
        span = float(np.ptp(reference.watched["joints"], axis=0).max())
        share = float(apart.max()) / span
        here = f"angles differ by at most {sci(float(apart.max()))} rad in {sci(float(fuzzy.t[-1]))} s"
        here += f", {100 * share:.2g} % of the range of motion"
        return [Finding(ONE_CALL, here, verdict_of(share <= 0.01), {"share of the range": share})]

    return (
        Claim(
            "ninth-baumgarte",
            "section 4, figures 22, 23",
            "Under Baumgarte (1/δt, √2/δt) the ninth constraint oscillates for more than half of the time.",
            "row 9 settles below a tenth of its peak only after half of the time.",
            oscillates,
            ("ninth",),
        ),
        Claim(
            "ninth-fuzzy",
            "section 4, figures 22, 23",
            "The fuzzy sets damp the ninth constraint faster than Baumgarte (1/δt, √2/δt).",
            "each set settles below a tenth of its peak earlier; a lost run never settles.",
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
    """Figure 24, in evaluations of the right-hand side, which do not depend on the machine, and in time."""

    def evaluations(results: Results, run: Run) -> float | None:
        found = results[run]
        return float(found.evaluations) if found.held and found.evaluations is not None else None

    def sharply(results: Results) -> list[Finding]:
        dense, wide = (evaluations(results, runs.rotary(b3(dt), ONE_CALL, dt)) for dt in (STEPS[0], LARGEST))
        if dense is None or wide is None:
            return [Finding(ONE_CALL, "a run was lost, or nothing counts the evaluations", Verdict.OPEN)]
        here = f"{dense:.0f} evaluations with the gains of 1 ms, {wide:.0f} with those of 50 ms"
        return [Finding(ONE_CALL, here, verdict_of(dense >= 3 * wide), {"1 ms": dense, "50 ms": wide})]

    def cheapest(results: Results) -> list[Finding]:
        found = []
        for reading, dt in ((f"{FIXED}, 1 ms", STEPS[0]), (ONE_CALL, LARGEST)):
            kind = FIXED if reading.startswith(FIXED) else ONE_CALL
            named = {method.label: runs.rotary(method, kind, dt) for method in (FLC3, FLC1, FLC2, b3(dt), DIRECT)}
            costs = {name: cost.per_second for name, run in named.items() if (cost := results.cost(run))}
            if FLC3.label not in costs or len(costs) < 2:
                found.append(Finding(reading, "the run was lost, there is no time to compare", Verdict.OPEN))
                continue
            here = "per simulated second: " + ", ".join(f"{name} {sci(1e3 * c)} ms" for name, c in costs.items())
            best = min(costs, key=lambda name: costs[name])
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


def gear_claims(runs: Runs) -> tuple[Claim, ...]:
    """Section 5."""

    def damped(results: Results) -> list[Finding]:
        found = []
        for reading in READINGS:
            outcome = results[runs.gear(FLC3, reading)]
            share = settled_share(outcome.t, outcome.watched["unit rows"][:, 0])
            peak = float(np.abs(outcome.watched["unit rows"][:, 0]).max())
            here = (
                f"unit-norm rows peak at {sci(peak)} and stay below a tenth of it after {100 * share:.0f} % of the time"
            )
            found.append(Finding(reading, here, verdict_of(outcome.held and share <= 0.15), {"settled after": share}))
        return found

    def rolling(results: Results) -> list[Finding]:
        found = []
        for reading in READINGS:
            outcome = results[runs.gear(FLC3, reading)]
            peak = float(outcome.watched["rolling rows"].max())
            bare = float(results[runs.gear(NONE, reading)].watched["rolling rows"].max())
            here = f"rolling rows peak at {sci(peak)} per s; without stabilization {sci(bare)}"
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
            found.append(Finding(reading, violation_text(outcome), verdict_of(inside), _figures(results, [("", run)])))
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
            f"their |Φ̇|₁ stays within {sci(UNIVERSE_PHIDOT)} per s, where the scaled input saturates.",
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
