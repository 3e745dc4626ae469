"""Numbers in a description: constants, which are compiled into the kernels, Tunables and CapturedParameters."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sim_core.mechanism.frozen import Frozen

Vector3 = tuple[float, float, float]

RANGE = 1e4  # upper bound of a tunable without one, over its lower bound


@dataclass(frozen=True)
class Tunable(Frozen):
    """A number of a description that is an input of the kernels, so that it can be set while a simulation runs.

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
        """Powers of ten (lower, upper) that enclose the bounds; None unless `least` and `most` are both positive.

        Without an upper bound, `upper` is RANGE (a constant of this module) times `lower`.
        """
        if not 0.0 < self.least < math.inf:
            return None
        low = 10.0 ** math.floor(math.log10(self.least))
        return low, 10.0 ** math.ceil(math.log10(self.most)) if math.isfinite(self.most) else RANGE * low


@dataclass(frozen=True)
class CapturedParameter(Frozen):
    """A number that a guard sets from the current position when the guard fires, such as the position where a hand
    grips.

    The number is part of the simulation's state.
    value  value at the start
    """

    name: str
    value: float


@dataclass(frozen=True)
class FirstOrderState(Frozen):
    """A first-order state z with dz/dt = g(t, q, v, z, u), stored as if it were the velocity of a further coordinate.

    name   name of the further coordinate, whose entry in v is z, and whose entry in q is the time integral of z
    start  z at the start
    """

    name: str
    start: float = 0.0


Number = float | Tunable | CapturedParameter


@dataclass(frozen=True)
class NotNegative:
    """Range of a number, for annotations such as `Annotated[Number, NotNegative("kg")]`.

    unit       unit of the number, for the error message
    of_length  unit for a joint whose position is a length, if it differs
    remedy     end of the error message
    """

    unit: str = ""
    of_length: str = ""
    remedy: str = ""
    zero: bool = True  # whether the number may be 0

    def fault(self, name: str, number: Number, is_length: bool) -> str:
        """Text such as "mass is -2 kg; it must not be negative" for a number outside the range; otherwise ""."""
        value = value_of(number)
        if value > 0.0 or (self.zero and value == 0.0):
            return ""
        called = f" ({number.name})" if isinstance(number, Tunable) else ""
        unit = self.of_length if is_length and self.of_length else self.unit
        must = "not be negative" if self.zero else "be above 0"
        return f"{name}{called} is {value:g}{unit and f' {unit}'}; it must {must}{self.remedy and f'; {self.remedy}'}"


@dataclass(frozen=True)
class Positive(NotNegative):
    """Range of a number that must be above 0."""

    zero: bool = False


def value_of(number: Number) -> float:
    """Value of a number of a description as a float; for a Tunable or CapturedParameter its value at the start."""
    return float(number.value if isinstance(number, Tunable | CapturedParameter) else number)


def holding(constraint: str) -> str:
    """Name of the parameter that is 1 while a constraint holds and 0 otherwise: CONSTRAINT.holds."""
    return f"{constraint}.holds"


FORCE, POINT = ("fx", "fy", "fz"), ("px", "py", "pz")
PUSH_NUMBERS = len(FORCE) + len(POINT)  # numbers in the parameter vector p of each body that can be pushed


def push_names(body: str) -> tuple[str, ...]:
    """Names of the six entries of p for a body's external force.

    The entries are the force along the world axes (3,), N, then its point of action in the body's frame (3,), m.
    """
    return tuple(f"{body}.push.{part}" for part in (*FORCE, *POINT))
