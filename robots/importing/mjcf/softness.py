"""Softness of MuJoCo's contacts: their depth at rest, and the numbers that stand for it here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from sim_core.mechanism import SphereContact, dissipation_for
from sim_core.mechanism.quantities import value_of

SOLREF, SOLIMP = (0.02, 1.0), (0.9, 0.95, 0.001, 0.5, 2.0)  # MuJoCo's defaults
BOUNDS = (1e-4, 0.9999)  # of MuJoCo's impedance
LEAST = 0.1  # coefficient of restitution of a contact with a damping ratio of 1
EARTH = 9.81  # m/s2: in place of no gravity
DEEPEST = 1.0  # m
STEP = 0.002  # s: MuJoCo's default
PREFIX = "armswing.contact."  # of a <numeric> with the numbers of a contact, which an export writes
PARAMETERS = ("stiffness", "exponent", "dissipation", "slip_velocity")  # in the order of the <numeric>


@dataclass(frozen=True)
class Softness:
    """Contact parameters of a pair of geoms: friction coefficient, and MuJoCo's solref and solimp."""

    friction: float
    solref: tuple[float, ...]
    solimp: tuple[float, ...]

    @property
    def damping_ratio(self) -> float:
        first, second = self.solref
        return second if first > 0.0 else -second / (2.0 * math.sqrt(-first)) if first < 0.0 else 1.0

    @property
    def dissipation(self) -> float:
        """Dissipation, s/m, of the contact, see `dissipation_of`."""
        return dissipation_of(self.damping_ratio)

    def impedance(self, x: float) -> float:
        """MuJoCo's impedance d at the penetration x, m, from solimp."""
        least, most = (min(max(bound, BOUNDS[0]), BOUNDS[1]) for bound in self.solimp[:2])
        width, middle, power = self.solimp[2:]
        share = min(x / width, 1.0) if width > 0.0 else 1.0
        if power == 1.0 or share in (0.0, 1.0):
            y = share
        elif share <= middle:
            y = share**power / middle ** (power - 1.0)
        else:
            y = 1.0 - (1.0 - share) ** power / (1.0 - middle) ** (power - 1.0)
        return least + y * (most - least)


# both functions solve by bisection, and the contacts of a file have few kinds of softness
@lru_cache(maxsize=1024)
def dissipation_of(damping_ratio: float) -> float:
    """Dissipation c, s/m, that gives an impact at 1 m/s the coefficient of restitution of MuJoCo's damping ratio z.

    This coefficient is exp(-pi z / sqrt(1 - z^2)), but at least LEAST.
    """
    z = damping_ratio
    restitution = 0.0 if z >= 1.0 else math.exp(-math.pi * z / math.sqrt(1.0 - z * z)) if z > 0.0 else 1.0
    return dissipation_for(max(restitution, LEAST), 1.0)


@lru_cache(maxsize=1024)
def depth_at_rest(softness: Softness, gravity: float, step: float) -> float:
    """Penetration, m, of a single MuJoCo contact at rest under the acceleration `gravity`, m/s2.

    The penetration is the solution x of d(x)^2 k x = (1 - d(x)) gravity, where d is MuJoCo's impedance from solimp
    and k the stiffness from solref.

    step  MuJoCo's time step, s: a shorter time constant in solref than 2 * step is replaced by 2 * step. With 0, no
          time constant is replaced
    """
    first, second = softness.solref
    most = min(max(softness.solimp[1], BOUNDS[0]), BOUNDS[1])
    constant = max(first, 2.0 * step)
    k = 1.0 / (most * constant * second) ** 2 if first > 0.0 else -first / most**2
    low, high = 0.0, DEEPEST
    for _ in range(100):
        x = 0.5 * (low + high)
        d = softness.impedance(x)
        low, high = (x, high) if d * d * k * x < (1.0 - d) * gravity else (low, x)
    return 0.5 * (low + high)


def numbers_of(contact: SphereContact) -> list[float]:
    """The numbers of a contact that MuJoCo's attributes cannot hold, in the order of PARAMETERS."""
    return [value_of(getattr(contact, name)) for name in PARAMETERS]
