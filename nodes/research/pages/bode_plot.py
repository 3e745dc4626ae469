"""Draws a measured loop gain, and the response of the robot beside that of its linear model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from nodes.research.pages.style import settings


def draw_bode_plot(path: Path, title: str, found: Any, unit: str) -> None:
    """Write a PNG with magnitude and phase over the frequency.

    found  result of `nodes.research.sweeps.frequency.frequency_response`
    unit   unit of the robot's response
    """
    # matplotlib is an extra
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    margins = found.margins
    with settings():
        figure = Figure(figsize=(9.0, 6.0), layout="constrained")
        FigureCanvasAgg(figure)
        (size, robot_size), (phase, robot_phase) = figure.subplots(2, 2, sharex=True)
        size.loglog(found.frequencies, np.abs(found.loop), ".-")
        size.axhline(1.0, color="0.5", linewidth=0.8)
        phase.semilogx(found.frequencies, _degrees(found.loop), ".-")
        phase.axhline(-180.0, color="0.5", linewidth=0.8)
        robot_size.loglog(found.frequencies, np.abs(found.robot), ".", label="measured in the loop")
        robot_phase.semilogx(found.frequencies, _degrees(found.robot), ".")
        if found.linear is not None:
            robot_size.loglog(found.frequencies, np.abs(found.linear), label="linear model")
            robot_phase.semilogx(found.frequencies, _degrees(found.linear))
        for f in (margins.phase_hz, margins.delay_hz, margins.gain_hz, margins.lower_gain_hz):
            if f is not None:
                for axis in (size, phase):
                    axis.axvline(f, color="0.7", linewidth=0.8, linestyle=":")
        size.set(title=f"loop gain at {found.actuator}", ylabel="1")
        robot_size.set(title=f"{found.joint} by {found.actuator}", ylabel=unit)
        robot_size.legend()
        for axis in (phase, robot_phase):
            axis.set(xlabel="Hz", ylabel="degrees")
        figure.suptitle(title)
        figure.savefig(path)


def _degrees(response: Any) -> Any:
    """Phase in degrees without jumps, which begins in -270 .. 90."""
    phase = np.unwrap(np.angle(response))
    return np.degrees(phase - 2.0 * np.pi * np.ceil((phase[0] - 0.5 * np.pi) / (2.0 * np.pi)))
