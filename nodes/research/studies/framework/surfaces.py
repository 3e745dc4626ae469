"""Plots of the fuzzy controller: membership functions, control surface, a section of that surface, and stable step
sizes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nodes.research.pages.style import BLUE, GREEN, INK, MUTED, OCHRE, PINK, VERMILION, appearance, legend_below
from nodes.research.studies.framework.figures import plain_number
from nodes.research.studies.framework.methods import SETS
from sim_core.stabilization.rules import slope_at_zero, surface

NAMES = ("negative big", "negative small", "zero", "positive small", "positive big")
COLORS = (BLUE, GREEN, INK, OCHRE, VERMILION)
POSITION, VELOCITY = r"$K_p\,\Phi$ (1)", r"$K_d\,\mathrm{d}\Phi/\mathrm{d}t$ (1)"
CONJUNCTIONS = ("product", "minimum")


def _with(sets: Any, conjunction: str) -> Any:
    return dataclasses.replace(sets, conjunction=conjunction)


def memberships(figure: Any, kinds: Sequence[str]) -> None:
    """Draw the five fuzzy sets of each kind over the universe."""
    axes = figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0]
    x = np.linspace(-1, 1, 401)
    for axis, kind in zip(axes, kinds, strict=True):
        degrees = SETS[kind].degrees(x)
        for index, name in enumerate(NAMES):
            dash = ("-", (0, (5, 2)), "-", (0, (5, 2)), "-")[index]
            axis.plot(x, degrees[:, index], color=COLORS[index], ls=dash, label=name)
        axis.set(title=f"set {kind}: {SETS[kind].kind}s", xlabel="scaled input (1)")
    axes[0].set_ylabel("membership (1)")
    legend_below(figure, axes, min(5, 3 * len(kinds)))


def control_surfaces(figure: Any, kinds: Sequence[str]) -> None:
    """Draw the controller's output U over both scaled inputs.

    There is one row of plots per conjunction (AND operator of the rules) and one column per kind of fuzzy sets. For a
    single kind, the plots of both conjunctions are in one row.
    """
    shape = (len(CONJUNCTIONS), len(kinds)) if len(kinds) > 1 else (1, len(CONJUNCTIONS))
    axes = figure.subplots(*shape, sharex=True, sharey=True, squeeze=False)
    x = np.linspace(-1, 1, 161)
    levels = np.linspace(-1, 1, 17)
    filled = None
    for row, conjunction in enumerate(CONJUNCTIONS):
        for column, kind in enumerate(kinds):
            axis = axes.reshape(len(CONJUNCTIONS), len(kinds))[row, column]
            U = surface(_with(SETS[kind], conjunction), x, x)
            filled = axis.contourf(x, x, U.T, levels=levels, cmap="PuOr")
            axis.contour(x, x, U.T, levels=levels[2:-2:2], colors=INK, linewidths=0.5, linestyles="-")
            ticks = (-1, -0.5, 0, 0.5, 1)
            axis.set(aspect="equal", title=f"set {kind}, {conjunction}", xticks=ticks, yticks=ticks)
            axis.grid(False)
    for axis in axes[-1]:
        axis.set_xlabel(POSITION)
    for axis in axes[:, 0]:
        axis.set_ylabel(VELOCITY)
    figure.colorbar(filled, ax=axes, label="output of the controller (1)", shrink=0.85)


def sections(axis: Any, kinds: Sequence[str]) -> None:
    """Draw the controller's output U over its first scaled input, for several kinds of fuzzy sets.

    The first input is Kp Phi, the scaled constraint violation. The second input Kd Phidot, the scaled rate of the
    violation, is 0. The slope at zero is the gain for small violations.
    """
    x = np.linspace(-1, 1, 801)
    for index, kind in enumerate(kinds):
        for conjunction in CONJUNCTIONS:
            sets = _with(SETS[kind], conjunction)
            dash = "-" if conjunction == "product" else (0, (4, 2))
            label = f"set {kind}, {conjunction}: slope {slope_at_zero(sets):.2f} at zero"
            color = (BLUE, VERMILION, PINK)[index]
            axis.plot(x, surface(sets, x, np.zeros(1))[:, 0], color=color, ls=dash, label=label)
    axis.set(xlabel=POSITION + r", with $\mathrm{d}\Phi/\mathrm{d}t = 0$", ylabel="output of the controller (1)")
    axis.legend(loc="upper left")


def stability_limits(axis: Any, limits: Mapping[str, Mapping[str, float]]) -> None:
    """Draw the largest stable step sizes on a logarithmic axis, one row per stabilizer.

    A hollow point at the right edge means that every step size is stable. A hollow point at the left edge means that no
    step size is stable.

    limits  {stabilizer: {stepper: largest stable step size in s}}
    """
    finite = [limit for row in limits.values() for limit in row.values() if 0.0 < limit < math.inf]
    never, always = min(finite, default=1e-3) * 1e3 / 10, max(finite, default=1.0) * 1e3 * 10
    steppers = list(next(iter(limits.values())))
    for place, row in enumerate(limits.values()):
        for index, stepper in enumerate(steppers):
            limit = row[stepper]
            shown = appearance(stepper, index)
            inside = 0.0 < limit < math.inf
            x = limit * 1e3 if inside else never if limit == 0.0 else always
            y = place + 0.6 / len(steppers) * (index - (len(steppers) - 1) / 2)
            face = shown["color"] if inside else "none"
            axis.plot([x], [y], marker=shown["marker"], ls="", color=shown["color"], mfc=face)
    for index, stepper in enumerate(steppers):
        shown = appearance(stepper, index)
        axis.plot([], [], marker=shown["marker"], ls="", color=shown["color"], label=stepper)
    axis.set_yticks(range(len(limits)), list(limits))
    axis.set(xscale="log", xlabel="largest stable step of the linear bound (ms)")
    edges = [(never, "none", 0.0), (always, "any", math.inf)]
    used = [edge for edge in edges if any(edge[2] == limit for row in limits.values() for limit in row.values())]
    for edge, words, _ in used:
        axis.axvline(edge, color=MUTED, lw=0.8, ls=(0, (2, 2)))
        axis.text(edge, -0.75, words, ha="center", va="center", color=MUTED, fontsize=8.5, backgroundcolor="white")
    axis.set_xlim(never / 4, always * 4)
    axis.set_ylim(len(limits) - 0.5, -1.0)
    axis.xaxis.set_major_formatter(plain_number)
    legend_below(axis.figure, [axis], 3)
