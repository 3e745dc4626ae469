"""Plots of a fit: measured and predicted efforts of each joint, and spectra of what the predictions leave."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nodes.research.pages.style import BLUE, DASHED, GREEN, INK, MUTED, VERMILION, settings
from sim_core.identification.design import HELD_OUT
from sim_core.identification.result import FitResult

MOST_POINTS = 3000
DPI = 110


def draw_all(result: FitResult, units: Mapping[str, str], folder: Path) -> list[tuple[str, str]]:
    """Draw one plot per joint with efforts into the folder; returns (file, caption) of each.

    units  {joint: unit of its efforts}
    """
    drawn = []
    for row, name in enumerate(result.joints):
        if name not in result.scores:
            continue
        file = f"joint_{row + 1:02d}.png"
        with settings():
            figure = _figure(result, row, units[name])
            figure.savefig(folder / file, dpi=DPI)
        score = result.scores[name]
        caption = (
            f"{name}: error {score.before:.3g} before, {score.friction:.3g} with friction alone, {score.after:.3g} "
            "after, of the standard deviation of the held-out efforts."
        )
        drawn.append((file, caption))
    return drawn


def _figure(result: FitResult, row: int, unit: str) -> Any:
    from matplotlib.figure import Figure

    name, shown = result.joints[row], result.prediction
    held = shown.block == HELD_OUT
    figure = Figure(figsize=(9.6, 5.6), layout="constrained")
    upper, lower = figure.subplots(2, 1, height_ratios=(3, 2))
    at = np.flatnonzero(shown.block >= HELD_OUT)
    at = at[:: max(1, len(at) // MOST_POINTS)]
    time = shown.time[at]
    lines = (
        ("measured", shown.measured, {"color": INK, "lw": 1.0}),
        ("before", shown.before, {"color": VERMILION, "lw": 1.0, "ls": DASHED}),
        ("after", shown.after, {"color": BLUE, "lw": 1.3}),
    )
    breaks = np.r_[False, np.diff(time) > 5.0 * np.median(np.diff(time))]
    for label, values, look in lines:
        upper.plot(time, np.where(breaks, np.nan, values[at, row]), label=label, **look)
    if held.any():
        upper.axvspan(shown.time[held][0], shown.time[held][-1], color=MUTED, alpha=0.12, lw=0)
    in_view = shown.measured[at, row]
    if not np.nan_to_num(in_view).any():  # without a motor, all that is seen are the predictions
        in_view = np.concatenate([shown.before[at, row], shown.after[at, row]])
    low, high = np.nanmin(in_view), np.nanmax(in_view)
    size = high - low or 1.0
    upper.set_ylim(low - 0.3 * size, high + 0.5 * size)
    upper.set_title(f"Effort of {name}; shaded: held out")
    upper.set_xlabel("time (s)")
    upper.set_ylabel(f"effort ({unit})")
    for label, values, color in (
        ("before", shown.before, VERMILION),
        ("friction alone", shown.friction, GREEN),
        ("after", shown.after, BLUE),
    ):
        frequency, density = _spectrum(shown.measured[held, row] - values[held, row], result.rate_hz)
        lower.loglog(frequency, density, label=label, color=color, lw=1.2)
    lower.set_xlabel("frequency (Hz)")
    lower.set_ylabel(f"residual (({unit})²/Hz)")
    for axis in (upper, lower):
        axis.legend(loc="upper right", ncols=3)
    return figure


def _spectrum(residual: np.ndarray, rate_hz: float) -> tuple[np.ndarray, np.ndarray]:
    """(frequencies, Hz; power spectral density) of a residual, without the mean's."""
    from scipy.signal import welch

    known = residual[np.isfinite(residual)]
    frequency, density = welch(known, rate_hz, nperseg=min(len(known), int(10 * rate_hz)))
    return frequency[1:], density[1:]
