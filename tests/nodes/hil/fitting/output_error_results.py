"""Results of fits of two joints, of chosen estimates."""

from __future__ import annotations

import numpy as np

from nodes.hil.fitting.verdict import ErrorVerdict, FitVerdict
from sim_core.identification.estimates import Estimate
from sim_core.identification.output_error.fitting import OutputErrorResult
from sim_core.identification.output_error.unknowns import FRICTION


def estimate(name: str, value: float, half: float = 1e-3) -> Estimate:
    """An estimate, which is sure unless it is 0."""
    p = 0.0 if abs(value) > half else 1.0
    return Estimate(name, np.zeros(0), value, value - half, value + half, 0.0, value, name.split("/")[1], p)


def result(*estimates: Estimate, outcome: str = "better", relative_gains: bool = False) -> OutputErrorResult:
    """A result with these estimates."""
    zeros = np.zeros(2)
    return OutputErrorResult(
        joints=("a", "b"),
        estimates=tuple(each for each in estimates if each.kind not in FRICTION),
        friction=tuple(each for each in estimates if each.kind in FRICTION),
        refusals=(),
        outcome=outcome,
        before=zeros,
        after=zeros,
        seconds=0.5,
        shots=5,
        scales=np.array([0.05, 0.07]),
        by_servo=frozenset({"a"}),
        relative_gains=relative_gains,
    )


def verdict(*errors: tuple[str, float, float]) -> FitVerdict:
    """A verdict by efforts with these errors of the measurement: (name, low, high)."""
    return FitVerdict(
        recordings={},
        robot="arm_4dof",
        outcome="better",
        reason="",
        inertias_fitted=False,
        prior_weight=1.0,
        joints=[],
        parameters=[],
        errors=[
            ErrorVerdict(
                name=name, kind=name.split("/")[1], value=0.5 * (low + high), low=low, high=high, is_found=True
            )
            for name, low, high in errors
        ],
        refusals=[],
        more_friction=[],
        notes=[],
    )
