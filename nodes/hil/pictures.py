"""The pictures of a report: each joint's two positions and their difference, and efforts beside the model's."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nodes.hil.comparison import JointComparison
from nodes.hil.limits import angle_text
from nodes.studies.style import BLUE, INK, MUTED, VERMILION, settings

if TYPE_CHECKING:
    from nodes.hil.report import Compared

MOST_POINTS = 3000
DPI = 110


def draw_all(compared: Compared, folder: Path) -> list[tuple[str, str]]:
    """Draw into the folder; (file, caption) of each picture, in the page's order."""
    drawn = []
    for index, joint in enumerate(compared.comparison.joints):
        file = f"joint_{index + 1:02d}.png"
        with settings():
            _save(_joint_figure(compared, index, joint), folder / file)
        drawn.append((file, _caption(joint, joint.name in compared.case.sliding)))
    return drawn


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
    lower.plot(t, np.where(breaks, np.nan, factor * pairs.residual[::every, index]), color=INK, lw=1.1)
    if not joint.dead:
        lower.axhline(factor * joint.bias, color=MUTED, ls=(0, (5, 2)), lw=1.0, label="bias")
        limit = factor * compared.verdict.limits.of("max", slides)
        reach = factor * max(joint.max, 1e-12)
        if reach > 0.3 * limit:
            for sign in (-1.0, 1.0):
                lower.axhline(sign * limit, color=VERMILION, lw=0.9, ls=(0, (1.2, 1.6)))
    for axis in (upper, lower):
        _shade(axis, compared, joint)
    upper.set_title(joint.name)
    upper.set_ylabel(f"position ({unit})")
    lower.set_ylabel(f"difference ({unit})")
    lower.set_xlabel("time (s)")
    upper.legend(loc="upper right", ncols=3)
    return figure


def _breaks(t: Any) -> Any:
    """True at the first sample after a gap, so that no line is drawn across it."""
    steps = np.diff(t)
    return np.r_[False, steps > 3.5 * np.median(steps)]


def _shade(axis: Any, compared: Compared, joint: JointComparison) -> None:
    for gap in [*compared.comparison.measured_gaps, *compared.comparison.predicted_gaps]:
        axis.axvspan(gap.start_s, gap.end_s, color=MUTED, alpha=0.15, lw=0)
    for stretch in joint.dead:
        axis.axvspan(stretch.start_s, stretch.end_s, color=VERMILION, alpha=0.10, lw=0, label="encoder dead")


def _caption(joint: JointComparison, slides: bool) -> str:
    if joint.dead:
        return f"{joint.name}: the encoder is dead where the picture is tinted."
    text = f"{joint.name}: bias {angle_text(joint.bias, slides)}, RMS {angle_text(joint.rms, slides)}"
    return f"{text}, at most {angle_text(joint.max, slides)} (the delay taken out)."
