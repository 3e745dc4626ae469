"""The stabilizers by name: gains as data, the compiled law each of them uses, and what step they can bear.

A stabilizer turns (Phi, Phidot, h) into U of J a = gamma - U. `sampled` ones are evaluated once per step and held.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from sim_core.errors import InvalidRequest, UnknownName
from sim_core.integrators.steppers import Stepper
from sim_core.stabilization.membership import FuzzySets


@dataclass(frozen=True)
class Stabilizer:
    """No stabilization, and the contract of the others.

    sampled   U is computed at the start of a step and held over its stages
    projects  the state is put back on the constraints after each step, in the step's factor
    memory    numbers that the law keeps between calls
    """

    name: ClassVar[str] = "none"
    sampled: ClassVar[bool] = False
    projects: ClassVar[bool] = False
    memory: ClassVar[int] = 0

    def law_address(self) -> int:
        """Address of the compiled law, 0 for none."""
        return 0

    def gains(self, h: float, stepper: Stepper, length: float) -> np.ndarray:
        """The law's numbers for a step h and a mechanism of a characteristic length."""
        return np.zeros(1)

    def linear_gains(self, h: float) -> tuple[float, float] | None:
        """kp, kd of U = kp Phi + kd Phidot for small violations, when U acts at every stage; None otherwise."""
        return None

    def stability_limit(self, stepper: Stepper, h: float) -> float:
        """The largest step (s) at which the violation does not grow, with the gains for `h`; inf when always stable."""
        gains = self.linear_gains(h)
        if gains is None:
            return math.inf
        kp, kd = gains

        def stable(step: float) -> bool:
            return stepper.growth(kp, kd, step) <= 1 + 1e-9

        low, high = 0.0, 1e-6
        while stable(high):
            low, high = high, 2 * high
            if high > 1e3:
                return math.inf
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if stable(middle) else (low, middle)
        return low


@dataclass(frozen=True)
class Baumgarte(Stabilizer):
    """U = 2 alpha Phidot + beta^2 Phi at every stage; by default alpha = 1/h, beta = sqrt2/h. [Baumgarte1972]"""

    name: ClassVar[str] = "baumgarte"
    alpha: float | None = None
    beta: float | None = None

    def _both(self, h: float) -> tuple[float, float]:
        alpha = 1.0 / h if self.alpha is None else self.alpha
        return alpha, math.sqrt(2.0) / h if self.beta is None else self.beta

    def law_address(self) -> int:
        from sim_core.stabilization import laws

        return int(laws.baumgarte.address)

    def gains(self, h: float, stepper: Stepper, length: float) -> np.ndarray:
        return np.array(self._both(h))

    def linear_gains(self, h: float) -> tuple[float, float]:
        alpha, beta = self._both(h)
        return beta**2, 2 * alpha


@dataclass(frozen=True)
class FuzzyPaper(Stabilizer):
    """The papers' controller at every stage: U = Ku FLC(Kp Phi, Kd Phidot), 25 rules, inputs clamped.

    Defaults are set III (Gaussian) with product and the scaling 1e2, 1e-2, 1e4. [NadaBayoumi2024, sec. 4]
    """

    name: ClassVar[str] = "fuzzy_paper"
    Kp: float = 1e2
    Kd: float = 1e-2
    Ku: float = 1e4
    sets: FuzzySets = field(default_factory=lambda: FuzzySets("gaussian"))

    def law_address(self) -> int:
        from sim_core.stabilization import laws

        return int(laws.fuzzy.address)

    def gains(self, h: float, stepper: Stepper, length: float) -> np.ndarray:
        return np.array([self.Kp, self.Kd, self.Ku, *self.sets.code()])

    def linear_gains(self, h: float) -> tuple[float, float]:
        from sim_core.stabilization.rules import largest_slope

        slope = largest_slope(self.sets)
        return slope * self.Ku * self.Kp, slope * self.Ku * self.Kd


@dataclass(frozen=True)
class SampledFuzzy(Stabilizer):
    """The default: fuzzy control held over the step, gains from the step size so that both sampled poles sit at `pole`.

    saturation  violation at which the control saturates, in the rows' unit; None: 1 % of the characteristic length, at
                least 2 g h^2 / k1 so that gravity-sized disturbances never saturate it
    pole        None: what the stepper says
    The gains follow h, so every step size is stable.
    """

    name: ClassVar[str] = "sampled_fuzzy"
    sampled: ClassVar[bool] = True
    saturation: float | None = None
    pole: float | None = None
    sets: FuzzySets = field(default_factory=FuzzySets)

    def law_address(self) -> int:
        from sim_core.stabilization import laws

        return int(laws.sampled_fuzzy.address)

    def gains(self, h: float, stepper: Stepper, length: float) -> np.ndarray:
        rho = stepper.pole if self.pole is None else self.pole
        if not 0.0 <= rho < 1.0:
            raise InvalidRequest(f"sampled_fuzzy: pole is {rho}; it must lie in [0, 1)")
        disturbance = 2 * 9.81 * h * h / (1 - rho) ** 2
        eps = max(1e-2 * length, disturbance) if self.saturation is None else self.saturation
        if not eps > 0.0:
            raise InvalidRequest(f"sampled_fuzzy: saturation is {eps}; it must be positive")
        slope = 1.0
        if self.sets != FuzzySets():
            from sim_core.stabilization.rules import largest_slope

            slope = largest_slope(self.sets)
        return np.array([eps, rho, stepper.held_lever, slope, *self.sets.code()])


@dataclass(frozen=True)
class Projection(Stabilizer):
    """After each step M x + J' y = 0, J x = -Phi for q, then -Phidot for v, solved in the factor of the step."""

    name: ClassVar[str] = "projection"
    projects: ClassVar[bool] = True


STABILIZERS: dict[str, Callable[..., Stabilizer]] = {
    kind.name: kind for kind in (Stabilizer, Baumgarte, Projection, FuzzyPaper, SampledFuzzy)
}


def stabilizer_named(name: str, **parameters: Any) -> Stabilizer:
    """The stabilizer of that name; unknown names and parameters are refused with those that are known."""
    if name not in STABILIZERS:
        raise UnknownName("sim_core", "stabilizer", name, STABILIZERS)
    known = inspect.signature(STABILIZERS[name]).parameters
    for parameter in parameters:
        if parameter not in known:
            raise UnknownName(f"stabilizer {name!r}", "parameter", parameter, known)
    return STABILIZERS[name](**parameters)
