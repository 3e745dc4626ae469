"""Plots of the gibbon's study: paths of the hands, and numbers of swings from hand to hand ("hand-overs").

The numbers are those of runs in which the planner's model has errors in the cable's tension, in mass or in damping.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodes.research.pages.style import BLUE, INK, MUTED, PAPER, VERMILION, legend_below
from nodes.research.studies.framework.study import Results
from nodes.research.studies.gibbon.gibbon_runs import BLIND, LAUNCHED, Runs

KINDS = ((LAUNCHED, "planned anew in flight"), (BLIND, "planned once per swing"))


def motion(results: Results, figure: Any, runs: Runs) -> None:
    """Draw the paths of the hands, and below them the hands' x coordinates over time.

    There is one plot for swings that are replanned in flight, and one for swings that are planned once.
    """
    grid = figure.add_gridspec(3, 2, height_ratios=(1.0, 1.0, 0.8))
    paths = [figure.add_subplot(grid[0, :])]
    paths.append(figure.add_subplot(grid[1, :], sharex=paths[0], sharey=paths[0]))
    times = [figure.add_subplot(grid[2, 0])]
    times.append(figure.add_subplot(grid[2, 1], sharex=times[0], sharey=times[0]))
    for path, time, (case, title) in zip(paths, times, KINDS, strict=True):
        places = np.array(results.parts[case.name]["places"])
        path.axhline(0.0, color=MUTED, lw=0.9, ls=(0, (4, 3)), label="height of the cable's ends")
        for name, column, color in (("hand a", 1, BLUE), ("hand b", 3, VERMILION)):
            path.plot(places[:, column], places[:, column + 1], color=color, lw=1.0)
            time.plot(places[:, 0], places[:, column], color=color, label=name)
        path.set(ylabel="height (m)", title=f"{title}: {overs(count(results, case))}")
        path.set_aspect("equal")
        time.set(xlabel="time (s)", title=title)
    paths[-1].set_xlabel("along the line (m)")
    times[0].set_ylabel("along the line (m)")
    legend_below(figure, [*times, *paths])


def overs(number: int) -> str:
    """Text with a number of hand-overs, such as "1 hand-over"."""
    return f"{number} hand-over{'' if number == 1 else 's'}"


def count(results: Results, case: Any) -> int:
    """Number of consecutive hand-overs (changes of the gripping hand) in a simulated case."""
    return int(results.parts[case.name]["hand_overs"])


def percent(error: float) -> str:
    """A relative error as a percentage with sign; "0 %" for an error of zero."""
    return f"{100 * error:+.0f} %".replace("-", "\u2212") if error else "0 %"


def errors(results: Results, figure: Any, runs: Runs) -> None:
    """Draw a map of the number of consecutive hand-overs over the errors of the planner's model in tension and in mass.

    An error is the relative deviation of the simulated cable's tension, or of the simulated robot's mass, from the
    value in the planner's model. A hand-over is a change of the gripping hand.
    """
    axis, spans = figure.subplots(), runs.spans
    counts = np.array([count(results, case) for case in runs.grid]).reshape(len(spans.tensions), -1)
    axis.grid(visible=False)
    drawn = axis.pcolormesh(counts.T, cmap="viridis", vmin=0, vmax=spans.required, edgecolors=PAPER, linewidth=1.5)
    for (i, j), value in np.ndenumerate(counts):
        light = value > spans.required / 2
        axis.text(
            i + 0.5, j + 0.5, str(value), ha="center", va="center", color=INK if light else PAPER, fontweight="bold"
        )
    axis.set_xticks(np.arange(len(spans.tensions)) + 0.5, [percent(error) for error in spans.tensions])
    axis.set_yticks(np.arange(len(spans.masses)) + 0.5, [percent(error) for error in spans.masses])
    axis.tick_params(length=0)
    axis.set(xlabel="tension, more than believed", ylabel="mass of the arms, more than believed")
    label = f"hand-overs in a row; a run ends with {spans.required}"
    figure.colorbar(drawn, ax=axis, label=label, ticks=range(spans.required + 1))


def damping(results: Results, figure: Any, runs: Runs) -> None:
    """Draw the number of consecutive hand-overs for each value of the cable's damping.

    There is one bar for swings that are replanned in flight, and one for swings that are planned once.
    """
    axis, required = figure.subplots(), runs.spans.required
    places, width = np.arange(len(runs.damped)), 0.38
    axis.axhline(required, color=MUTED, lw=0.9, ls=(0, (4, 3)), label="a run ends with so many", zorder=0.5)
    for cases, side, color, name in (
        (runs.damped, -0.5, BLUE, "planned anew in flight"),
        (runs.once, 0.5, VERMILION, "planned once per swing"),
    ):
        counts = [count(results, case) for case in cases]
        bars = axis.bar(places + side * width, counts, width, color=color, label=name)
        for text in axis.bar_label(bars, padding=2):
            # the box keeps lines from crossing the number
            text.set_bbox({"facecolor": PAPER, "edgecolor": "none", "pad": 1.0})
    axis.grid(visible=False, axis="x")
    axis.set_xticks(places, [f"{case.damping:g}" for case in runs.damped])
    axis.set_yticks(range(required + 1))
    axis.set(xlabel="damping of the cable, over the believed", ylabel="hand-overs in a row", ylim=(0, 1.12 * required))
    legend_below(figure, [axis])
