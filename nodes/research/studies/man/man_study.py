"""`armswing reproduce man`: fuzzy stabilization of a triple pendulum and of a crank-slider. [Man2025]"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodes.research.pages.style import legend_below
from nodes.research.studies.framework import figures
from nodes.research.studies.framework import fuzzy_pages as shared
from nodes.research.studies.framework.claims import sci
from nodes.research.studies.framework.methods import B20, DOPRI5, FIXED, FIXED_STEPPINGS, NONE, ONE_CALL, SAMPLED
from nodes.research.studies.framework.runs import Run
from nodes.research.studies.framework.study import Assumption, Plot, Results, Section, Study, pace
from nodes.research.studies.man.man_claims import claims
from nodes.research.studies.man.man_runs import CASE1, REACH, SPANS, STEP, Runs, case2, first_violation

KINDS = ("III",)


def study(quick: bool = False, spans: str = "") -> Study:
    """Definition of the study: its runs, claims and page.

    quick  whether to use the shorter runs of a quick study
    spans  key of SPANS, such as "tiny" for tests; if `spans` is not "", `quick` has no effect on the runs
    """
    runs = Runs(SPANS[spans or ("quick" if quick else "full")])
    return Study(
        name="man",
        title="Fuzzy constraint stabilization in two cases: Man and co-authors, run again",
        paper="W. Man, X. Ren, F. Gao, S. Zhang: Research on constraint violation stabilization method of multibody "
        "system dynamics based on fuzzy control (in Chinese). Dynamical Systems and Control 14 (2025) 196–205. "
        "doi:10.12677/dsc.2025.143020",
        summary="The paper takes the fuzzy controller with Gaussian sets and gives two ways of scaling it: fixed gains "
        "for starts at rest, and gains from the first step's violations for others. This page runs its triple pendulum "
        "and its crank-slider again. Its figures did not reach us, so that claims are taken from its text.",
        readings=READINGS,
        assumptions=assumptions(),
        runs=runs.all,
        claims=claims(runs),
        sections=sections(runs),
        measured=runs.measured,
        longest=Runs(SPANS["full"]).all,
        quick=quick,
        **pace(quick, spans),
    )


READINGS = shared.readings("h", " The paper's h is 10 ms.")


def assumptions() -> tuple[Assumption, ...]:
    """Assumptions about quantities that the paper does not state."""
    phi, phidot, speed = first_violation()
    return (
        shared.SIMULATED_TIME,
        shared.gaussians("0.4246", "±2"),
        shared.conjunction("not stated; the surface is drawn for minimum too"),
        shared.clamped("not stated; "),
        Assumption(
            "case 2: what it scales by",
            f"|Φ|₁ {sci(phi)}, |dΦ/dt|₁ {sci(phidot)} after one step of 10 ms, |dq/dt|₂ {sci(speed)} at the start",
            "measured here; the norms are 1-norms of the constraints (the paper's sign is lost) and the Euclidean one "
            "of the velocities",
        ),
        Assumption("crank-slider: lengths", "L1 the whole crank, L2 half the rod", "only so do its equations close"),
        Assumption(
            "crank-slider: start",
            "velocities as printed: the crank turns, all else rests",
            "they violate the second row; a consistent start is shown beside it",
        ),
    )


def sections(runs: Runs) -> tuple[Section, ...]:
    """Sections of the study's page that follow the table of claims."""
    return (
        Section(
            "controller",
            "The controller",
            "Gaussian sets, 25 rules and a weighted mean. Shown on ±1; the paper's universe is ±2.",
            (
                shared.memberships_plot(KINDS, "Membership functions (the paper's figure 3).", (6.5, 3.8)),
                shared.surfaces_plot(
                    KINDS, "Control surface with product and with minimum (the paper's figure 4).", (9.5, 4.2)
                ),
            ),
        ),
        triple_section(runs),
        crank_section(runs),
        step_section(runs),
    )


def triple_section(runs: Runs) -> Section:
    """Section of the study's page with figures 6 and 7 of the paper."""
    columns = {
        f"{FIXED}, h = 10 ms": list(runs.triples(FIXED).items()),
        ONE_CALL: list(runs.triples(ONE_CALL).items()),
    }
    shown = [(method.label, runs.triple(method, ONE_CALL)) for method in (NONE, CASE1)]
    paths = [(method.label, runs.triple(method, ONE_CALL)) for method in (NONE, CASE1, SAMPLED)]
    reference, twin = runs.twins()
    pairs = [
        (f"{method.label}, {reading}", reference, runs.triple(method, reading))
        for reading in (FIXED, ONE_CALL)
        for method in (NONE, CASE1)
    ]
    pairs.append(("a second reference, start 10⁻⁹ rad beside", reference, twin))
    return Section(
        "triple",
        "Triple pendulum",
        "Three bars of 2 m with very little inertia of their own fall from the horizontal. The motion is chaotic: "
        "paths part whatever the method.",
        (
            shared.violations_plot(
                "triple",
                "Violations without stabilization and under each method (figure 6), both readings of h.",
                columns,
            ),
            Plot(
                "angles",
                "Angles of bars 2 and 3 from the horizontal (figure 7), one adaptive call.",
                lambda results, figure: figures.motions(
                    results, figure, "bars", shown, ("bar 2 (rad)", "bar 3 (rad)"), (1, 2)
                ),
                size=(10.5, 5.0),
            ),
            Plot(
                "parting",
                "How fast motions leave a reference (tolerances 10⁻¹⁰, projected, no violation), and how fast a second "
                "reference does whose start is 10⁻⁹ rad beside it.",
                lambda results, figure: figures.separation(results, figure.subplots(), "bars", pairs, "rad"),
                size=(8.5, 4.4),
            ),
            shared.tips_plot("Path of the tip in the first 30 s, one adaptive call.", paths, REACH, (10.5, 4.2)),
        ),
    )


def crank_section(runs: Runs) -> Section:
    """Section of the study's page with figure 9 of the paper."""
    columns = {
        f"{FIXED}, h = 10 ms": list(runs.cranks(FIXED).items()),
        ONE_CALL: list(runs.cranks(ONE_CALL).items()),
    }
    return Section(
        "crank-slider",
        "Crank-slider",
        "The crank starts turning while rod and slider rest, as printed: the velocities contradict the constraints, "
        "and each method first has to repair them.",
        (
            shared.violations_plot(
                "crank",
                "Violations of the crank-slider (figure 9), both readings of h.",
                columns,
            ),
        ),
    )


def step_section(runs: Runs) -> Section:
    """Section on the claim that the method depends neither on the step size nor on the integrator."""
    return Section(
        "steps",
        "Step, integrator and cost",
        "Times are of this machine and differ from run to run. Lost runs have no point.",
        (
            shared.precision_plot(
                "sweep",
                "Work and precision with Dormand–Prince 5 and fixed steps: peak |Φ|₁ over the step, and over the time "
                "it takes.",
                runs.swept(DOPRI5),
            ),
            Plot(
                "integrators",
                "Late |dΦ/dt|₁ (median of the last tenth) over the step, for each fixed-step integrator: gains that "
                "the step cannot bear end in divergence (no point) or in chatter (a plateau).",
                lambda results, figure: draw_chatter(runs, results, figure),
            ),
            shared.limits_plot("any step is stable, because the gains follow it.", limits, (9.0, 3.4)),
        ),
    )


def limits() -> dict[str, dict[str, float]]:
    """{stabilizer: {stepper: largest step size (s) that the stabilizer's linearized analysis allows}}."""
    return {
        method.label: {s.label: method.make().stability_limit(s.make(), STEP) for s in FIXED_STEPPINGS}
        for method in (CASE1, case2(), B20, SAMPLED)
    }


def draw_chatter(runs: Runs, results: Results, figure: Any) -> None:
    """Draw |Phidot|, the rate of the constraint violation, at the end of each run against the step size.

    There is one plot per case of the fuzzy controller. The value at the end is the median over the last tenth of the
    run.
    """

    def late(run: Run) -> float | None:
        found = results[run]
        return float(np.median(found.phidot[-max(1, len(found.t) // 10) :])) if found.held else None

    cases = [label for label, swept in runs.swept(DOPRI5).items() if swept[0].method.is_fuzzy]
    axes = figure.subplots(1, len(cases), sharey=True, squeeze=False)[0]
    for axis, case in zip(axes, cases, strict=True):
        swept = {stepping.label: runs.swept(stepping)[case] for stepping in FIXED_STEPPINGS}
        figures.against_step(axis, swept, late, "late " + figures.LEVELS["phidot"])
        axis.set_title(case)
    axes[-1].set_ylabel("")
    legend_below(figure, axes)
