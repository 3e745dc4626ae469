"""Interpretations, assumptions and plots for the pages of both papers on fuzzy stabilization.

[NadaBayoumi2024; Man2025]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nodes.research.studies.framework import figures, surfaces
from nodes.research.studies.framework.methods import FIXED, ONE_CALL
from nodes.research.studies.framework.runs import Run
from nodes.research.studies.framework.study import Assumption, Plot

Named = Sequence[tuple[str, Run]]
Columns = Mapping[str, Named]


def readings(step: str, beside: str = "") -> dict[str, str]:
    """Texts that explain the two interpretations of a "time step" that a paper does not define.

    Returns {FIXED: text, ONE_CALL: text}. FIXED: the time step is the fixed step size of an integrator. ONE_CALL: the
    time step is the interval between the outputs of one call of an adaptive solver.

    step    symbol of the time step in the paper
    beside  text to append to the text of ONE_CALL
    """
    return {
        FIXED: f"{step} is the step of the integrator: Dormand–Prince 5 (the higher formula of ode45), with steps of "
        f"exactly {step}.",
        ONE_CALL: f"{step} is the distance of the output instants of one call of an adaptive solver (Dormand–Prince "
        "5(4), relative tolerance 10⁻³, absolute 10⁻⁶, the defaults of ode45), which chooses its steps freely up to "
        f"50 ms.{beside}",
    }


SIMULATED_TIME = Assumption(
    "simulated time", "see the axes", "not stated in the text; the figures that show it are lost"
)


def gaussians(sigma: str, universe: str) -> Assumption:
    """Assumption about the width of the Gaussian fuzzy sets, which the papers do not state.

    sigma     assumed width, as text for the page
    universe  interval of the fuzzy sets' inputs, as text for the page
    """
    return Assumption(
        "Gaussian sets: σ", f"{sigma} of a universe of {universe}", "not stated; neighbours meet at a half"
    )


def conjunction(why: str) -> Assumption:
    """Assumption about the AND operator for two membership values of a fuzzy rule.

    why  reason for the assumption
    """
    return Assumption("AND of two memberships", "product", why)


def clamped(why: str) -> Assumption:
    """Assumption about inputs outside the universe of the fuzzy sets.

    why  reason for the assumption
    """
    return Assumption("inputs beyond the universe", "clamped to it", f"{why}unclamped Gaussians end in 0/0")


def memberships_plot(kinds: Sequence[str], caption: str, size: tuple[float, float]) -> Plot:
    """Plot of the membership functions of several kinds of fuzzy sets."""
    return Plot("memberships", caption, lambda results, figure: surfaces.memberships(figure, kinds), size=size)


def surfaces_plot(kinds: Sequence[str], caption: str, size: tuple[float, float]) -> Plot:
    """Plot of the control surfaces of several kinds of fuzzy sets, with product and with minimum as conjunction."""
    return Plot("surfaces", caption, lambda results, figure: surfaces.control_surfaces(figure, kinds), size=size)


def violations_plot(file: str, caption: str, columns: Columns, size: tuple[float, float] | None = None) -> Plot:
    """Plot of the constraint violation |Φ|₁ over time (upper row) and of its rate |dΦ/dt|₁ (lower row).

    `columns` is {title of a column of plots: (label, run) of each curve in this column}.

    The curves are also written as a table.
    """
    return Plot(
        file,
        caption,
        lambda results, figure: figures.violations(results, figure, columns),
        curves=curves_of(columns),
        **sized(size),
    )


def tips_plot(caption: str, named: Named, reach: float, size: tuple[float, float]) -> Plot:
    """Plot of the path of the pendulum's tip in several runs."""
    draw = figures.trajectories
    return Plot("tips", caption, lambda results, figure: draw(results, figure, named, reach), size=size)


def precision_plot(file: str, caption: str, swept: Any) -> Plot:
    """Work-precision diagram: largest constraint violation |Φ|₁ against the step size, and against computing time."""
    return Plot(file, caption, lambda results, figure: figures.precision(results, figure, swept))


def limits_plot(caption: str, limits: Any, size: tuple[float, float]) -> Plot:
    """Plot of the largest stable step size of each stabilizer and stepper.

    limits  function that returns the step sizes, {stabilizer: {stepper: step size in s}}
    """
    words = (
        "Largest fixed step at which each stabilizer's linear bound allows stability, by integrator. Hollow points "
        f"stand at the edges: {caption}"
    )
    draw = surfaces.stability_limits
    return Plot("limits", words, lambda results, figure: draw(figure.subplots(), limits()), size=size)


def curves_of(columns: Columns) -> tuple[tuple[str, Run], ...]:
    """(label, run) of every curve in the columns of a plot, without repetition."""
    return tuple(dict.fromkeys(pair for named in columns.values() for pair in named))


def sized(size: tuple[float, float] | None) -> dict[str, Any]:
    """Keyword arguments of `Plot` for its size; {} if `size` is None, which gives the default size."""
    return {} if size is None else {"size": size}
