"""Plots of the study of stability measures: the paper's figures 2 to 9."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nodes.research.pages.style import BLUE, GREEN, INK, MUTED, PAPER, VERMILION, legend_below
from nodes.research.studies.framework.study import Results
from nodes.research.studies.schiehlen.schiehlen_runs import CRITICAL, is2_of_single

MOST = 6.0  # largest IS1 of a map's colours
RADII = ((0.5, BLUE), (1.0, GREEN), (1.478, VERMILION))
PI_TICKS = [-math.pi, -math.pi / 2, 0.0, math.pi / 2, math.pi]
PI_NAMES = ["−π", "−π/2", "0", "π/2", "π"]


def is2_single(results: Results, figure: Any) -> None:
    """Draw the stability measure IS2 of the single pendulum over the initial distance r (figure 2).

    IS2 is the largest factor by which the distance from the equilibrium grows, over all motions that start at r. Points
    show the result of the search over initial states, and the curve shows the closed form.
    """
    axis, curve = figure.subplots(), results.parts["single curve"]
    r = np.linspace(0.01, CRITICAL, 400)
    axis.plot(r, [is2_of_single(float(x)) for x in r], color=INK, lw=1.2, label="eq. 54")
    _found(axis, curve)
    axis.axvline(CRITICAL, color=VERMILION, lw=0.9, ls=(0, (4, 3)), label="r* = 1.478")
    axis.set(xlabel="distance r of the start (1)", ylabel="IS2 (1)", xlim=(0, 1.65), ylim=(1, 2.6))
    legend_below(figure, [axis])


def _found(axis: Any, curve: dict[str, Any]) -> None:
    """Draw the stability measure IS2 as points over the initial distance r from the equilibrium.

    IS2 is the largest factor by which this distance grows, over all motions that start at r. A cross at the top marks a
    distance at which a motion tumbles.
    """
    bounded = [(r, y) for r, y, over in zip(curve["r"], curve["is2"], curve["tumbles"], strict=True) if not over]
    over = [r for r, over in zip(curve["r"], curve["tumbles"], strict=True) if over]
    if bounded:
        axis.plot(*zip(*bounded, strict=True), "o", color=BLUE, label="found, at least")
    if over:
        where = axis.get_xaxis_transform()
        axis.plot(
            over,
            [0.97] * len(over),
            "x",
            color=VERMILION,
            transform=where,
            label="tumbles; its IS2 is in the table only",
        )


def portrait(results: Results, figure: Any) -> None:
    """Draw the phase portrait of the single pendulum, with three squares of initial states (figure 3)."""
    axis, found = figure.subplots(), results.parts["portrait"]
    for angle, rate in zip(found["angle"], found["rate"], strict=True):
        axis.plot(angle, rate, color=MUTED, lw=0.8)
    angle = np.linspace(-math.pi, math.pi, 400)
    for sign in (1, -1):
        label = "separatrix" if sign == 1 else None
        axis.plot(angle, sign * np.sqrt(2 * (1 + np.cos(angle))), color=INK, lw=1.4, label=label)
    for r, color in RADII:
        axis.plot([-r, r, r, -r, -r], [-r, -r, r, r, -r], color=color, label=f"r = {r:g}")
    axis.set(xlabel="angle φ (rad)", ylabel="rate φ' (1)", xlim=(-math.pi, math.pi), ylim=(-2.6, 2.6))
    axis.set_xticks(PI_TICKS, PI_NAMES)
    legend_below(figure, [axis])


def is1_single(results: Results, figure: Any) -> None:
    """Draw the stability measure IS1 of the single pendulum over its initial state, for T = 100 (figure 4).

    IS1 is the largest factor by which the distance from the equilibrium grows within the time T.
    """
    axis, found = figure.subplots(), results.parts["single map"]
    draw_map(figure, axis, found, 2.5, "IS1 within T = 100 (1)")
    for r, color in RADII:
        axis.plot([-r, r, r, -r, -r], [-r, -r, r, r, -r], color=color, label=f"r = {r:g}")
    axis.set(xlabel="angle φ₀ (rad)", ylabel="rate φ₀' (1)")
    legend_below(figure, [axis])


def draw_map(figure: Any, axis: Any, found: dict[str, Any], most: float, label: str) -> None:
    """Draw the stability measure IS1 over a square of initial states; motions that tumble have one dark colour.

    IS1 is the largest factor by which a motion's distance from the equilibrium grows.

    most  largest IS1 of the colour scale
    """
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    side = found["axis"]
    edges = np.concatenate([side - (side[1] - side[0]) / 2, [side[-1] + (side[1] - side[0]) / 2]])
    values = np.ma.masked_where(found["tumbles"], found["is1"])
    drawn = axis.pcolormesh(edges, edges, values, cmap="viridis_r", vmin=1.0, vmax=most, rasterized=True)
    over = np.ma.masked_where(~found["tumbles"], np.ones_like(found["is1"]))
    axis.pcolormesh(edges, edges, over, cmap=ListedColormap([INK]), rasterized=True)
    axis.set_aspect("equal")
    axis.grid(visible=False)
    bar = figure.colorbar(drawn, ax=axis, label=label, extend="max")
    bar.ax.legend(handles=[Patch(color=INK, label="tumbles")], loc="lower left", bbox_to_anchor=(0, 1.01))


def trajectory(results: Results, figure: Any) -> None:
    """Draw the angular velocity of the lower arm over time (figure 5)."""
    axis, found = figure.subplots(), results.parts["example"]
    axis.plot(found["t"], found["rate"], color=BLUE, lw=0.9)
    axis.set(xlabel="time t (1)", ylabel="rate α₂' (1)", xlim=(0, 100))


def is1_time(results: Results, figure: Any) -> None:
    """Draw the stability measure IS1 of one motion against the duration T (figure 6).

    IS1 is the largest factor by which the distance from the equilibrium grows within T. Points show the values that
    another integrator computes.
    """
    axis, found = figure.subplots(), results.parts["example"]
    axis.plot(found["t"], found["is1"], color=BLUE, label="IS1_T")
    axis.plot(found["marks"], found["other"], "o", color=VERMILION, label="scipy, DOP853")
    axis.set(xlabel="duration T (1)", ylabel="IS1_T (1)", xlim=(0, 101))
    legend_below(figure, [axis])


def is2_double(results: Results, figure: Any) -> None:
    """Draw the stability measure IS2 of the double pendulum over the initial distance r (figure 7).

    IS2 is the largest factor by which the distance from the equilibrium grows, over all motions that start at r. A
    vertical line marks the distance from which the initial energy suffices for tumbling.
    """
    axis, curve = figure.subplots(), results.parts["double curve"]
    _found(axis, curve)
    r = np.linspace(0.04, 0.8, 200)
    axis.plot(r, [is2_of_single(float(x)) for x in r], color=INK, lw=1.2, label="single pendulum, eq. 54")
    least = results.parts["boundary"]["least"]
    axis.axvline(least, color=GREEN, lw=1.1, ls=(0, (4, 3)), label=f"energy suffices from {least:.4f} on")
    axis.axvline(0.72, color=MUTED, lw=1.1, ls=(0, (1.2, 1.6)), label="0.72 of the paper")
    axis.set(xlabel="distance r of the start (1)", ylabel="IS2 within T = 100 (1)", xlim=(0, 0.82), ylim=(1, 5))
    legend_below(figure, [axis], 3)


def sensitivity(results: Results, figure: Any) -> None:
    """Draw the distance between two motions over time, for two pairs of neighbouring initial states (figure 8)."""
    axis, found = figure.subplots(), results.parts["sensitivity"]
    for name, color, text in (("dark", VERMILION, "a dark region"), ("light", BLUE, "the middle")):
        axis.plot(found["t"], found[name], color=color, lw=1.0, label=f"{text} of figure 9")
    axis.set(xlabel="time t (1)", ylabel="largest distance of the states (1)", yscale="log", xlim=(0, 100))
    legend_below(figure, [axis])


def double_map(results: Results, figure: Any) -> None:
    """Draw the stability measure IS1 of the double pendulum over both initial angles (figure 9).

    IS1 is the largest factor by which a motion's distance from the equilibrium grows.
    """
    axis, found = figure.subplots(), results.parts["map"]
    draw_map(figure, axis, found, MOST, "IS1 within T = 100 (1)")
    low = found["axis"]
    upper, lower = np.meshgrid(low, low)
    # energy of the starts over m2 l2^2, less that of the lower mass upright: below zero nothing can tumble
    energy = 0.375 + 0.25 * np.cos(upper - lower) - 2 * np.cos(upper) - np.cos(lower) + 1
    axis.contour(low, low, energy, levels=[0.0], colors=[PAPER], linewidths=1.2)
    axis.contour(low, low, energy, levels=[0.0], colors=[VERMILION], linewidths=1.2, linestyles="dashed")
    axis.plot([], [], color=VERMILION, ls="--", lw=1.2, label="inside, the energy lets no arm go over")
    axis.set(xlabel="upper angle α₁₀ (rad)", ylabel="lower angle α₂₀ (rad)")
    axis.set_xticks(PI_TICKS, PI_NAMES)
    axis.set_yticks(PI_TICKS, PI_NAMES)
    legend_below(figure, [axis])
