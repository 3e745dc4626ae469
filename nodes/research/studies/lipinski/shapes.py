"""Deformation of the beam in Lipinski's motion: deflection, slope, and the times at which mid-span changes direction.

The paper gives no numbers for its figures 4 and 5, so that results can be compared with these figures only by eye.
[Lipinski2023, sec. 8]
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from nodes.research.studies.framework.claims import Claim, Finding, Verdict, sci, verdict_of
from nodes.research.studies.framework.runs import Run
from nodes.research.studies.framework.study import Column, Results, Table
from nodes.research.studies.lipinski.lipinski_runs import FIRST, Runs
from robots.registry import build
from sim_core.flexible.elements import beam_model

DEEP = 0.05  # deflection of the middle that counts as significant, as a fraction of the beam's length
STEEP = 0.5  # largest slope for which the beam's small-slope equations are accepted
TURNING_S = 1.2  # turning points are listed up to this time, s
COLUMNS = {
    "supports": Column("supports"),
    "mid-span turns": Column("mid-span is there"),
    "time (s)": Column("time (s)"),
    "mid-span, down (m)": Column("mid-span, down (m)"),
}


@cache
def model_of(run: Run) -> Any:
    """Beam model of a run."""
    return beam_model(build(run.robot, **dict(run.parameters)).beams[0])


def deflected(outcome: Any, run: Run) -> tuple[np.ndarray, np.ndarray]:
    """(downward displacement in m, slope) of every node of the beam at the sampled instants, (n, nodes) each."""
    model = model_of(run)
    nodes = outcome.watched["coordinates"][:, -model.n :] @ model.basis.T
    return nodes[:, ::2], nodes[:, 1::2]


def turning_points(t: np.ndarray, series: np.ndarray) -> list[tuple[float, float, bool]]:
    """(time, value, whether the value is a maximum) of every local extremum of a series, without its two ends."""
    rises = np.sign(np.diff(series))
    (places,) = np.nonzero(rises[1:] * rises[:-1] < 0)
    return [(float(t[k + 1]), float(series[k + 1]), bool(rises[k] > 0)) for k in places]


def turns(runs: Runs) -> Table:
    """Table of the times at which the middle of the beam reverses its direction, for both kinds of supports."""

    def rows(results: Results) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for supports, run in runs.supported.items():
            outcome = results[run]
            middle = outcome.watched["outputs"][:, 0]
            early = outcome.t <= TURNING_S
            start = (float(outcome.t[0]), float(middle[0]), None)
            for time, value, lowest in (start, *turning_points(outcome.t[early], middle[early])):
                kind = "at rest" if lowest is None else "lowest" if lowest else "highest"
                found.append(dict(zip(COLUMNS, (supports, kind, round(time, 6), value), strict=True)))
        return found

    return Table(
        "turns",
        "When the middle of the beam turns, by the real-time form: to be held beside the paper's figure 4. A support "
        "that the author used should have its turns in this order and at these times.",
        rows,
        COLUMNS,
    )


def deep_claim(runs: Runs) -> Claim:
    """Claim of section 8 that the beam's deformations are significant."""

    def judge(results: Results) -> list[Finding]:
        found = []
        for supports, run in runs.supported.items():
            outcome = results[run]
            middle = outcome.watched["outputs"][outcome.t <= FIRST + 1e-9, 0]
            span = model_of(run).beam.length
            highest, lowest = float(middle.min()), float(middle.max())
            here = f"mid-span hangs {highest:.3f} to {lowest:.3f} m down, {100 * highest / span:.0f} to "
            here += f"{100 * lowest / span:.0f} % of the length"
            figures = {"highest (m)": highest, "lowest (m)": lowest}
            found.append(Finding(supports, here, verdict_of(highest >= DEEP * span), figures))
        return found

    return Claim(
        "deformation",
        "section 8, figures 4 and 5",
        "The beam is soft, and its deformations are significant. (No more is said of the figures in words.)",
        f"in the first second mid-span hangs at least {100 * DEEP:g} % of the beam's length below its ends. Both kinds "
        "of supports do, so that this tells nothing of which the paper has.",
        judge,
        ("motion", "poses"),
    )


def steep_claim(runs: Runs) -> Claim:
    """The project's own claim on whether the slopes stay small enough for the beam's equations.

    The claim is judged for clamped ends and for simple supports.
    """

    def judge(results: Results) -> list[Finding]:
        found = []
        for supports, run in runs.supported.items():
            outcome = results[run]
            steepest = float(np.abs(deflected(outcome, run)[1][outcome.t <= FIRST + 1e-9]).max())
            here = f"the slope reaches {sci(steepest)}, where the curvature is taken {(1 + steepest**2) ** 1.5:.2g} "
            here += "times as large as it is"
            found.append(Finding(supports, here, verdict_of(steepest <= STEEP), {"slope": steepest}))
        return found

    return Claim(
        "slopes",
        "not in the paper",
        "The beam hangs no steeper than its equations, made for small slopes, can say.",
        f"slopes stay within {STEEP:g} in the first second. That is one reason to assume clamped ends.",
        judge,
        ("poses",),
        met=Verdict.HOLDS,
    )
