"""Plots of the pendulum on its beam: motion, poses, energy, differences between the formulations, cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nodes.research.pages.style import BLUE, INK, MUTED, VERMILION, legend_below, line
from nodes.research.studies.framework import figures
from nodes.research.studies.framework.claims import at_common_times
from nodes.research.studies.framework.runs import Run
from nodes.research.studies.framework.study import Results
from nodes.research.studies.lipinski.lipinski_runs import ALPHA, FIRST, FORMS, PARTITIONED, POSES, Runs, apart, drift
from nodes.research.studies.lipinski.shapes import deflected, model_of
from robots.benchmarks.lipinski import LOWER_LENGTH, UPPER_LENGTH


def motion(results: Results, figure: Any, runs: Runs) -> None:
    """Draw mid-span deflection, contact position and contact force over time, one column per kind of supports."""
    columns = {
        "clamped": [("all nodes", runs.reference), ("20 modes at 1 ms", runs.real_time())],
        "simple supports": [("20 modes, RK4", runs.modal(supports="simple"))],
    }
    axes = figure.subplots(3, len(columns), sharex=True)
    labels = ("mid-span, down (m)", "contact (m)", "contact force (N)")
    for column, (title, named) in enumerate(columns.items()):
        for row, label in enumerate(labels):
            axis = axes[row, column]
            for index, (name, run) in enumerate(named, start=2 * column):
                found = results[run]
                axis.plot(found.t, found.watched["outputs"][:, row], label=name, **line(name, index))
            axis.set_ylabel(label if column == 0 else "")
        axes[0, column].set_title(title)
        axes[0, column].invert_yaxis()
        axes[-1, column].set_xlabel("time (s)")
    legend_below(figure, axes.flat)


def poses(results: Results, figure: Any, supported: Mapping[str, Run]) -> None:
    """Draw the beam and the arms of the pendulum at the times POSES, in one row of drawings per kind of supports.

    A run that ends before one of these times is drawn at its end instead.
    """
    axes = figure.subplots(len(supported), len(POSES), sharex=True, sharey=True)
    for row, (supports, run) in zip(axes, supported.items(), strict=True):
        found, model = results[run], model_of(run)
        x = np.linspace(0.0, model.beam.length, model.beam.elements + 1)
        deflection = deflected(found, run)[0]
        for axis, time in zip(row, POSES, strict=True):
            place = int(np.abs(found.t - time).argmin())
            arms = _arms(found.watched["joints"][place])
            axis.plot(x, 0 * x, color=MUTED, lw=0.8, ls=(0, (4, 3)))
            axis.plot(x, -deflection[place], color=INK, lw=1.8, label="beam")
            axis.plot(arms[:2, 0], arms[:2, 1], color=BLUE, lw=3, solid_capstyle="round", label="upper arm")
            axis.plot(arms[1:, 0], arms[1:, 1], color=VERMILION, lw=3, solid_capstyle="round", label="lower arm")
            axis.plot(*arms[0], "o", color=INK, ms=4)
            axis.set(title=f"t = {found.t[place]:g} s", aspect="equal")
        row[0].set_ylabel(f"{supports}\nz (m)")
    for axis in axes[-1]:
        axis.set_xlabel("x (m)")
    legend_below(figure, axes.flat)


def _arms(joints: np.ndarray) -> np.ndarray:
    """Positions (x, z) in m, (3, 2), of three points: contact, joint of the two arms, free end of the lower arm.

    joints  joint positions at one instant
    """
    slide, drop, q3, q4 = joints
    parts = [
        (slide, -drop),
        (-UPPER_LENGTH * np.sin(q3), -UPPER_LENGTH * np.cos(q3)),
        (-LOWER_LENGTH * np.sin(q3 + q4), -LOWER_LENGTH * np.cos(q3 + q4)),
    ]
    return np.asarray(np.cumsum(parts, axis=0))


def energies(results: Results, figure: Any, runs: Runs) -> None:
    """Draw the change of energy over time.

    The left plot shows the results for the contact force as printed in the paper and as corrected. The right plot shows
    the results for all formulations, on a logarithmic axis.
    """
    left, right = figure.subplots(1, 2)
    for index, (name, run) in enumerate(
        (
            ("force as printed", runs.modal("partitioned_as_printed")),
            ("force across the beam", runs.modal()),
        )
    ):
        change = drift(results[run])
        left.plot(results[run].t[: len(change)], change, label=name, **line(name, index))
    named = [*runs.forms.items(), ("20 modes at 1 ms, implicit midpoint", runs.real_time())]
    named.append(("20 modes at 1 ms, generalized-α", runs.real_time(ALPHA)))
    for index, (name, run) in enumerate(named, start=2):
        change = np.abs(drift(results[run]))
        t, series = figures.envelope(results[run].t[: len(change)], change, 120)
        right.plot(t, np.clip(series, figures.FLOOR, None), label=name, **line(f"form {name}", index))
    left.set(xlabel="time (s)", ylabel="energy less that of the start (J)")
    right.set(xlabel="time (s)", ylabel="its absolute value (J)", yscale="log")
    legend_below(figure, [left, right])


def agreement(results: Results, figure: Any, runs: Runs) -> None:
    """Draw the differences of each formulation from the partitioned formulation over time."""
    axes = figure.subplots(1, 3, sharex=True)
    quantities = {"mid-span": "m", "angles": "rad", "contact force": "N"}
    for axis, (title, unit) in zip(axes, quantities.items(), strict=True):
        axis.set(title=title, xlabel="time (s)", ylabel=f"from the partition ({unit})", yscale="log")
    for index, form in enumerate(form for form in FORMS if form != PARTITIONED):
        one, other = results[runs.nodal(form)], results[runs.reference]
        t, ours, theirs = at_common_times(one, other, "outputs")
        _, joints, their_joints = at_common_times(one, other, "joints")
        gaps = (
            np.abs(ours - theirs)[:, 0],
            np.abs(joints - their_joints)[:, 2:].max(axis=1),
            np.abs(ours - theirs)[:, 2],
        )
        early = t <= FIRST + 1e-9
        for axis, gap in zip(axes, gaps, strict=True):
            at, series = figures.envelope(t[early], gap[early], 120)
            axis.plot(at, np.clip(series, figures.FLOOR, None), label=form, **line(f"form {form}", index))
    legend_below(figure, axes)


def work(results: Results, figure: Any, runs: Runs) -> None:
    """Draw the error of the mid-span deflection against the step size (left), and the computing time of each
    formulation (right)."""
    left, right = figure.subplots(1, 2)

    def distance(run: Run) -> float | None:
        return float(apart(results, run, runs.modal())[0]) if results[run].held else None

    figures.against_step(left, runs.swept(), distance, "mid-span less that of RK4 at 0.1 ms (m)")
    named = [(f"{form}, all nodes, 20 µs", run) for form, run in runs.forms.items()]
    named += [("20 modes, RK4, 0.1 ms", runs.modal())]
    named += [(f"20 modes, {stepping}, 1 ms", swept[2]) for stepping, swept in runs.swept().items()]
    costs = {name: cost.per_second for name, run in named if (cost := results.cost(run)) is not None}
    right.barh(list(costs), [1e3 * cost for cost in costs.values()], color=BLUE, height=0.6)
    right.set(xscale="log", xlabel="time per simulated second (ms)")
    right.axvline(1e3, color=MUTED, lw=0.9, ls=(0, (4, 3)))
    right.invert_yaxis()
    right.xaxis.set_major_formatter(figures.plain_number)
    legend_below(figure, [left])
