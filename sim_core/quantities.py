"""Numbers of a description: folded into the kernels, tuned while a simulation runs, or captured by it."""

from __future__ import annotations

from dataclasses import dataclass

Vector3 = tuple[float, float, float]


@dataclass(frozen=True)
class Tunable:
    """A number that stays an input of the kernels, so that it can change while a simulation runs."""

    name: str
    value: float


@dataclass(frozen=True)
class Captured:
    """A number that a guard takes from the motion when it fires: where a hand grips. It is part of the state.

    value  at the start
    """

    name: str
    value: float


Number = float | Tunable | Captured


def value_of(number: Number) -> float:
    """What a number is, or is at the start."""
    return float(number.value if isinstance(number, Tunable | Captured) else number)


def holding(constraint: str) -> str:
    """What the parameter is called that says whether a constraint holds."""
    return f"{constraint}.holds"
