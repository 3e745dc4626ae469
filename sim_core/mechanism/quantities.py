"""Numbers of a description: folded into the kernels, tuned while a simulation runs, or captured by it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sim_core.mechanism.frozen import Frozen

Vector3 = tuple[float, float, float]


@dataclass(frozen=True)
class Tunable(Frozen):
    """A number that stays an input of the kernels, so that it can change while a simulation runs.

    least, most  what it may be set to, both included; `unit` of all three
    """

    name: str
    value: float
    least: float = -math.inf
    most: float = math.inf
    unit: str = ""


@dataclass(frozen=True)
class CapturedParameter(Frozen):
    """A number that a guard takes from the motion when it fires: where a hand grips. It is part of the state.

    value  at the start
    """

    name: str
    value: float


Number = float | Tunable | CapturedParameter


def value_of(number: Number) -> float:
    """What a number is, or is at the start."""
    return float(number.value if isinstance(number, Tunable | CapturedParameter) else number)


def holding(constraint: str) -> str:
    """What the parameter is called that says whether a constraint holds."""
    return f"{constraint}.holds"
