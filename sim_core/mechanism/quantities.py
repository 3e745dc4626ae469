"""Numbers in a description: constants (folded into the kernels), tunable while a simulation runs, or captured by it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sim_core.mechanism.frozen import Frozen

Vector3 = tuple[float, float, float]

RANGE = 1e4  # upper bound of a tunable without one, over its lower bound


@dataclass(frozen=True)
class Tunable(Frozen):
    """A number that stays an input of the kernels, so that it can change while a simulation runs.

    least, most  inclusive bounds of the value
    unit         unit of value and bounds
    """

    name: str
    value: float
    least: float = -math.inf
    most: float = math.inf
    unit: str = ""

    @property
    def decades(self) -> tuple[float, float] | None:
        """Powers of ten around positive bounds, RANGE between them without an upper bound; None for other bounds."""
        if not 0.0 < self.least < math.inf:
            return None
        low = 10.0 ** math.floor(math.log10(self.least))
        return low, 10.0 ** math.ceil(math.log10(self.most)) if math.isfinite(self.most) else RANGE * low


@dataclass(frozen=True)
class CapturedParameter(Frozen):
    """A number that a guard sets from the motion when it fires, such as the position where a hand grips.

    It is part of the state.
    value  value at the start
    """

    name: str
    value: float


@dataclass(frozen=True)
class FirstOrderState(Frozen):
    """A state z of its own, beside those of the coordinates, with dz/dt = g(t, q, v, z, u).

    name   its name among the coordinates: the coordinate of this name is the integral of z, its velocity is z
    start  z at the start
    """

    name: str
    start: float = 0.0


Number = float | Tunable | CapturedParameter


def value_of(number: Number) -> float:
    """The value of a number of the description: its start value where it is tunable or captured."""
    return float(number.value if isinstance(number, Tunable | CapturedParameter) else number)


def holding(constraint: str) -> str:
    """Name of the parameter (1 or 0) that tells whether a constraint holds."""
    return f"{constraint}.holds"
