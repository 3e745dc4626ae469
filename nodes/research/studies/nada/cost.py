"""Cost of Nada's methods: figure 24, work-precision diagrams, and stable step sizes. [NadaBayoumi2024]"""

from __future__ import annotations

from typing import Any

from nodes.research.pages.style import legend_below
from nodes.research.studies.framework import figures
from nodes.research.studies.framework import fuzzy_pages as shared
from nodes.research.studies.framework.methods import (
    B2,
    DIRECT,
    DIRECT_INSIDE,
    FIXED,
    FIXED_STEPPINGS,
    FLC1,
    FLC2,
    FLC3,
    ONE_CALL,
    PID,
    SAMPLED,
    b3,
)
from nodes.research.studies.framework.runs import Run
from nodes.research.studies.framework.study import Plot, Results, Section
from nodes.research.studies.nada.nada_runs import LARGEST, STEPS, Runs


def cost_section(runs: Runs) -> Section:
    """Section with figure 24 of the paper, the work-precision diagrams, and the stable step sizes."""
    return Section(
        "cost",
        "Cost, step and precision",
        "Times are of this machine and differ from run to run; evaluations of the right-hand side do not. Lost runs "
        "have no point.",
        (
            Plot(
                "cost",
                "Cost over δt (figure 24): evaluations and time per simulated second of the rotary pendulum, "
                "one adaptive call on the left, fixed steps on the right.",
                lambda r, f: draw_cost(runs, r, f),
            ),
            shared.precision_plot(
                "sweep",
                "Work and precision under RK4 with fixed steps: largest |Φ|₁ over the step, and over the time "
                "it takes, for what feeds violations back.",
                runs.sweep(),
            ),
            shared.precision_plot(
                "corrections",
                "The same for what corrects the state after a step, or inside the right-hand side, and for PID "
                "feedback with gains that follow the step.",
                runs.corrections(),
            ),
            shared.precision_plot(
                "integrators",
                "The same for every fixed-step integrator with the sampled law.",
                runs.integrators(),
            ),
            shared.limits_plot(
                "any step is stable, because the gains follow it or the state is corrected; none is, because nothing "
                "pulls back what is integrated.",
                limits,
                (9.5, 5.2),
            ),
        ),
    )


def limits() -> dict[str, dict[str, float]]:
    """{stabilizer: {stepper: largest step size (s) that the stabilizer's linearized analysis allows}}.

    Gains that depend on the step size are those for 1 ms.
    """
    methods = (B2, b3(STEPS[0]), PID, DIRECT, DIRECT_INSIDE, FLC1, FLC2, FLC3, SAMPLED)
    found: dict[str, dict[str, float]] = {}
    for method in methods:
        label = f"{method.label}, δt = 1 ms" if "δt" in method.label else method.label
        stabilizer = method.make()
        found[label] = {s.label: stabilizer.stability_limit(s.make(), STEPS[0]) for s in FIXED_STEPPINGS}
    return found


def draw_cost(runs: Runs, results: Results, figure: Any) -> None:
    """Draw function evaluations and computing time against the time step dt of the paper, for two interpretations.

    In the left column, dt is the interval between the outputs of one call of an adaptive solver. In the right column,
    dt is the step size of a fixed-step integrator.
    """
    axes = figure.subplots(2, 2, sharex="col")
    methods = {FLC3.label: FLC3, FLC1.label: FLC1, FLC2.label: FLC2, DIRECT.label: DIRECT, SAMPLED.label: SAMPLED}
    for column, reading in enumerate((ONE_CALL, FIXED)):
        named = {
            name: [(dt, runs.rotary(method, reading, dt if reading == FIXED else LARGEST)) for dt in STEPS]
            for name, method in methods.items()
        }
        named[b3(LARGEST).label] = [(dt, runs.rotary(b3(dt), reading, dt)) for dt in STEPS]
        counted, timed = {}, {}
        for name, pairs in named.items():
            counted[name] = [(1e3 * dt, _evaluations(results, run)) for dt, run in pairs]
            timed[name] = [
                (1e3 * dt, 1e3 * cost.per_second if (cost := results.cost(run)) else None) for dt, run in pairs
            ]
        figures.against(axes[0, column], counted, "evaluations are not counted")
        figures.against(axes[1, column], timed)
        axes[0, column].set_title(reading)
        axes[1, column].set_xlabel("δt (ms)")
    axes[0, 0].set_ylabel("evaluations\nper simulated second")
    axes[1, 0].set_ylabel("time\nper simulated second (ms)")
    legend_below(figure, axes.flat)


def _evaluations(results: Results, run: Run) -> float | None:
    found = results[run]
    return found.evaluations / run.seconds if found.held and found.evaluations is not None else None
