"""Plots of a report: measured and predicted position of each joint with their difference, and efforts of some
joints.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from nodes.hil.alignment.comparison import JointComparison
from nodes.hil.identification.hypotheses import QUIET
from nodes.hil.report.limits import angle_text
from nodes.hil.report.verdict import Compared
from nodes.research.pages.style import BLUE, GREEN, INK, MUTED, VERMILION, settings

MOST_POINTS = 3000
MOST_EFFORTS = 4
DPI = 110


def draw_all(compared: Compared, folder: Path) -> list[tuple[str, str]]:
    """Draw one plot per joint into the folder; returns (file, caption) of each plot, in the order of the joints."""
    drawn = []
    for index, joint in enumerate(compared.comparison.joints):
        file = f"joint_{index + 1:02d}.png"
        with settings():
            _save(_joint_figure(compared, index, joint), folder / file)
        drawn.append((file, _caption(joint, joint.name in compared.case.sliding)))
    return drawn


def draw_efforts(compared: Compared, folder: Path) -> list[tuple[str, str]]:
    """Draw the efforts of the joints with the largest effort residuals into the folder.

    Returns (file, caption) of each plot; [] if the residual is small.
    """
    found = compared.explanation
    if found.hints.residual is None or found.hints.residual < QUIET:
        return []
    sizes = np.sqrt((found.residual**2).mean(axis=0))
    worst = [index for index in np.argsort(-sizes)[:MOST_EFFORTS] if sizes[index] > 0.1 * sizes.max()]
    drawn = []
    for index in worst:
        file = f"effort_{index + 1:02d}.png"
        with settings():
            _save(_effort_figure(compared, int(index)), folder / file)
        left = float(np.sqrt((found.unexplained[:, index] ** 2).mean()))
        unit = "N" if found.names[index] in compared.case.sliding else "N m"
        text = f"{found.names[index]}: the model asks for efforts that are {sizes[index]:.3g} {unit} off (RMS)"
        drawn.append((file, f"{text}, {left:.3g} with the changes above." if found.hints.causes else f"{text}."))
    return drawn


def _effort_figure(compared: Compared, index: int) -> Any:
    from matplotlib.figure import Figure

    found = compared.explanation
    name = found.names[index]
    unit = "N" if name in compared.case.sliding else "N m"
    breaks = _breaks(found.time)
    figure = Figure(figsize=(9.6, 4.2), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))

    def line(axis: Any, values: Any, label: str, **look: Any) -> None:
        axis.plot(found.time, np.where(breaks, np.nan, values[:, index]), label=label, **look)

    line(upper, found.effort + found.residual, "by the model", color=BLUE, lw=2.4)
    line(upper, found.effort, "measured", color=VERMILION, lw=1.1)
    line(lower, -found.residual, "measured less model", color=INK, lw=1.1)
    if found.hints.causes:
        line(lower, -found.unexplained, "with the changes", color=GREEN, lw=1.1, ls=(0, (5, 2)))
    upper.set_title(f"Effort of {name}")
    upper.set_ylabel(f"effort ({unit})")
    lower.set_ylabel(f"difference ({unit})")
    lower.set_xlabel("time (s)")
    for axis in (upper, lower):
        _legend(axis)
    return figure


def _save(figure: Any, file: Path) -> None:
    figure.savefig(file, dpi=DPI, metadata={"Software": None})


def _joint_figure(compared: Compared, index: int, joint: JointComparison) -> Any:
    from matplotlib.figure import Figure

    pairs = compared.comparison.pairs
    slides = joint.name in compared.case.sliding
    factor, unit = (1e3, "mm") if slides else (math.degrees(1.0), "deg")
    every = max(1, len(pairs.time) // MOST_POINTS)
    t = pairs.time[::every]
    breaks = _breaks(t)
    figure = Figure(figsize=(9.6, 4.2), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    for values, label, color, width in (
        (pairs.predicted, "predicted", BLUE, 2.4),
        (pairs.measured, "measured", VERMILION, 1.1),
    ):
        upper.plot(t, np.where(breaks, np.nan, factor * values[::every, index]), color=color, label=label, lw=width)
    residual = np.where(breaks, np.nan, factor * pairs.residual[::every, index])
    lower.plot(t, residual, color=INK, lw=1.1, label="measured less predicted")
    if not joint.dead:
        lower.axhline(factor * joint.bias, color=MUTED, ls=(0, (5, 2)), lw=1.0, label="bias")
        limit = factor * compared.verdict.limits.of("max", slides)
        reach = factor * max(joint.max, 1e-12)
        if reach > 0.3 * limit:
            for sign in (-1.0, 1.0):
                legend = "limit of the maximum" if sign > 0.0 else "_"  # one legend entry only
                lower.axhline(sign * limit, color=VERMILION, lw=0.9, ls=(0, (1.2, 1.6)), label=legend)
    for axis in (upper, lower):
        _shade(axis, compared, joint)
    upper.set_title(joint.name)
    upper.set_ylabel(f"position ({unit})")
    lower.set_ylabel(f"difference ({unit})")
    lower.set_xlabel("time (s)")
    _legend(upper)
    _legend(lower)
    return figure


def _legend(axis: Any) -> None:
    """Draw the legend above the axes, so that it hides no curve."""
    axis.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, borderaxespad=0.2)


def _breaks(t: Any) -> Any:
    """Whether each sample is the first after a gap, (n,) bool, so that no line is drawn across the gap."""
    steps = np.diff(t)
    return np.r_[False, steps > 3.5 * np.median(steps)]


def _shade(axis: Any, compared: Compared, joint: JointComparison) -> None:
    for gap in [*compared.comparison.measured_gaps, *compared.comparison.predicted_gaps]:
        axis.axvspan(gap.start_s, gap.end_s, color=MUTED, alpha=0.15, lw=0)
    for stretch in joint.dead:
        axis.axvspan(stretch.start_s, stretch.end_s, color=VERMILION, alpha=0.10, lw=0)


def _caption(joint: JointComparison, slides: bool) -> str:
    if joint.dead:
        return f"{joint.name}: the encoder is dead in the tinted times."
    text = f"{joint.name}: bias {angle_text(joint.bias, slides)}, RMS {angle_text(joint.rms, slides)}"
    return f"{text}, at most {angle_text(joint.max, slides)} (after correction of the delay)."
