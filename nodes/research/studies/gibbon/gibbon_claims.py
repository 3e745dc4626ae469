"""Claims about the gibbon on its cable, and the rules that decide them."""

from __future__ import annotations

from collections.abc import Sequence

from nodes.research.studies.framework.claims import Claim, Finding, Verdict, verdict_of
from nodes.research.studies.framework.study import Results
from nodes.research.studies.gibbon.gibbon_runs import LAUNCHED, Case, Runs

NEAR, FAR = (0.101, 0.051), (0.201, 0.101)  # relative errors (tension, mass) that the claims cover


def claims(runs: Runs) -> tuple[Claim, ...]:
    """All claims of the gibbon's study, in the order of the study's page."""
    return (launched_claim(runs), replanning_claim(runs), errors_claim(runs), damping_claim(runs))


def _finding(reading: str, results: Results, case: Case, required: int) -> Finding:
    found = results.parts[case.name]
    count, seconds = found["hand_overs"], found["seconds"]
    here = f"{count} hand-overs in a row in {seconds:.1f} s ({required} needed)"
    figures = {"hand-overs": float(count), "peak torque (N m)": found["figures"]["peak_torque_n_m"]}
    figures["peak force of a hand (N)"] = found["figures"]["peak_hand_force_n"]
    return Finding(reading, here, verdict_of(count >= required), figures)


def _together(reading: str, results: Results, cases: Sequence[Case], required: int) -> Finding:
    counts = [results.parts[case.name]["hand_overs"] for case in cases]
    good = sum(count >= required for count in counts)
    here = f"{good} of {len(cases)} runs make {required} hand-overs in a row; the fewest are {min(counts)}"
    return Finding(reading, here, verdict_of(good == len(cases)), {"runs": float(len(cases)), "good": float(good)})


def launched_claim(runs: Runs) -> Claim:
    """Claim that the gibbon hands over (changes the gripping hand) in spite of the model errors in its launch file.

    The model errors are those of the planner's model of cable and arms.
    """
    required = runs.spans.required

    def judge(results: Results) -> list[Finding]:
        named = (
            ("tension 10 % low, arms 5 % heavy, twice the modes", LAUNCHED),
            ("twice the modes alone", Case()),
            ("no errors of the model", Case(modes=1)),
        )
        return [_finding(reading, results, case, required) for reading, case in named]

    return Claim(
        "launched",
        "launch/gibbon_cable.toml",
        "The robot swings along a cable that differs from its planner's model.",
        f"{required} hand-overs in a row.",
        judge,
        ("motion",),
        met=Verdict.HOLDS,
    )


def replanning_claim(runs: Runs) -> Claim:
    """Claim that replanning during the flight is necessary."""

    required = runs.spans.required

    def judge(results: Results) -> list[Finding]:
        once, often = (
            sum(results.parts[case.name]["hand_overs"] >= required for case in cases)
            for cases in (runs.once, runs.damped)
        )
        here = (
            f"{once} of {len(runs.once)} runs with one plan per swing make {required} hand-overs in a row, {often} of "
        )
        here += f"{len(runs.damped)} where it is planned anew every 50 ms"
        figures = {"once": float(once), "anew": float(often)}
        return [
            Finding("runs with one plan per swing, and runs with replanning", here, verdict_of(once < often), figures)
        ]

    return Claim(
        "replanning",
        "plans in flight",
        "One plan per swing, followed by a law about its path, is not enough.",
        f"with one plan per swing fewer runs make {required} hand-overs in a row than with plans in flight.",
        judge,
        ("damping",),
        met=Verdict.HOLDS,
    )


def _within(case: Case, most: tuple[float, float]) -> bool:
    return abs(case.tension) < most[0] and abs(case.mass) < most[1]


def errors_claim(runs: Runs) -> Claim:
    """Claim about errors of the planner's model in tension and mass, up to the largest errors that are simulated."""
    required = runs.spans.required
    most = [max(abs(getattr(case, kind)) for case in runs.grid if _within(case, FAR)) for kind in ("tension", "mass")]

    def judge(results: Results) -> list[Finding]:
        near = [case for case in runs.grid if _within(case, NEAR)]
        far = [case for case in runs.grid if case not in near and _within(case, FAR)]
        found = [_together("tension within 10 %, mass within 5 %", results, near, required)]
        if far:
            found.append(_together("tension up to 20 % or mass up to 10 % off", results, far, required))
        return found

    return Claim(
        "errors",
        "tension and mass",
        f"Errors of tension up to {100 * most[0]:.0f} % and of mass up to {100 * most[1]:.0f} % together are survived.",
        f"every run makes {required} hand-overs in a row.",
        judge,
        ("errors",),
        met=Verdict.HOLDS,
    )


def damping_claim(runs: Runs) -> Claim:
    """Claim about planning with a wrong value of the cable's damping."""
    required = runs.spans.required

    def judge(results: Results) -> list[Finding]:
        return [_together("beside the launched errors", results, runs.damped, required)]

    return Claim(
        "damping",
        "damping",
        "A cable that is damped less or more than believed is no harder.",
        f"every run makes {required} hand-overs in a row.",
        judge,
        ("damping",),
        met=Verdict.HOLDS,
    )
