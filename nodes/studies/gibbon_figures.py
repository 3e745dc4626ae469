"""Pictures of the gibbon's study: where the hands go, hand-overs over errors of tension and mass, and over damping."""

from __future__ import annotations

from typing import Any

import numpy as np

from nodes.studies.gibbon_runs import BLIND, LAUNCHED, Runs
from nodes.studies.study import Results
from nodes.studies.style import BLUE, INK, MUTED, VERMILION, legend_below


def motion(results: Results, figure: Any, runs: Runs) -> None:
    """The hands along the line over time, and where they are, planned in flight and planned once."""
    axes = figure.subplots(2, 2, sharex="col", gridspec_kw={"width_ratios": [1, 2]})
    for row, (case, title) in enumerate(((LAUNCHED, "planned anew in flight"), (BLIND, "planned once per swing"))):
        places = np.array(results.parts[case.name]["places"])
        for name, column, color in (("hand a", 1, BLUE), ("hand b", 3, VERMILION)):
            axes[row, 0].plot(places[:, 0], places[:, column], color=color, label=name)
            axes[row, 1].plot(places[:, column], places[:, column + 1], color=color, lw=1.0)
        axes[row, 0].set(ylabel="along the line (m)", title=title)
        axes[row, 1].set(ylabel="height (m)", aspect="equal", title=f"{count(results, case)} hand-overs")
    axes[-1, 0].set_xlabel("time (s)")
    axes[-1, 1].set_xlabel("along the line (m)")
    legend_below(figure, list(axes[:, 0]))


def count(results: Results, case: Any) -> int:
    """Hand-overs in a row of a case."""
    return int(results.parts[case.name]["hand_overs"])


def errors(results: Results, figure: Any, runs: Runs) -> None:
    """Hand-overs in a row over the errors of tension and of mass."""
    axis, spans = figure.subplots(), runs.spans
    counts = np.array([count(results, case) for case in runs.grid]).reshape(len(spans.tensions), -1)
    drawn = axis.imshow(counts.T, cmap="viridis", vmin=0, vmax=spans.wanted, origin="lower", aspect="auto")
    for (i, j), value in np.ndenumerate(counts):
        light = value > spans.wanted / 2
        axis.text(i, j, str(value), ha="center", va="center", color=INK if light else "white", fontweight="bold")
    axis.grid(visible=False)
    axis.set_xticks(range(len(spans.tensions)), [f"{100 * error:+.0f} %" for error in spans.tensions])
    axis.set_yticks(range(len(spans.masses)), [f"{100 * error:+.0f} %" for error in spans.masses])
    axis.set(xlabel="tension beside that believed", ylabel="mass of the arms beside that believed")
    figure.colorbar(drawn, ax=axis, label=f"hand-overs in a row, of {spans.wanted}")


def damping(results: Results, figure: Any, runs: Runs) -> None:
    """Hand-overs in a row over the cable's damping, planned in flight and planned once."""
    axis, wanted = figure.subplots(), runs.spans.wanted
    places, width = np.arange(len(runs.damped)), 0.38
    for cases, side, color, name in (
        (runs.damped, -0.5, BLUE, "planned anew in flight"),
        (runs.once, 0.5, VERMILION, "planned once per swing"),
    ):
        counts = [count(results, case) for case in cases]
        axis.bar_label(axis.bar(places + side * width, counts, width, color=color, label=name))
    axis.axhline(wanted, color=MUTED, lw=0.9, ls=(0, (4, 3)))
    axis.grid(visible=False, axis="x")
    axis.set_xticks(places, [f"{case.damping:g}" for case in runs.damped])
    axis.set(
        xlabel="damping ratio of the cable, of that believed", ylabel="hand-overs in a row", ylim=(0, 1.1 * wanted)
    )
    legend_below(figure, [axis])
