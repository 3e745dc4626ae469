"""The stabilizers by name: gains as data, the compiled law each of them uses, and what step they can bear.

A stabilizer turns (Phi, Phidot, h) into U of J a = gamma - U. `sampled` ones are evaluated once per step and held.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from sim_core.errors import InvalidRequest, UnknownName
from sim_core.integrators.steppers import Stepper
from sim_core.integrators.workspace import (
    CORRECTING_STAGES,
    EVERY_STAGE,
    FRESH_FACTOR,
    POSITION_LEVEL,
    PROJECTING,
    PSEUDO_INVERSE,
    SAMPLED,
    STEP_FACTOR,
    UNSTABILIZED,
    VELOCITY_LEVEL,
)
from sim_core.stabilization.membership import FuzzySets
from sim_core.typed import typed


def largest_step(growth: Callable[[float], float]) -> float:
    """The largest step (s) over which nothing grows, by growth(step) of the loop; inf when nothing ever does."""

    def stable(step: float) -> bool:
        return growth(step) <= 1 + 1e-9

    low, high = 0.0, 1e-6
    while stable(high):
        low, high = high, 2 * high
        if high > 1e3:
            return math.inf
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if stable(middle) else (low, middle)
    return low


def largest_stable_step(stepper: Stepper, kp: float, kd: float) -> float:
    """The largest step (s) at which e'' = -kp e - kd e' does not grow when U acts at every stage; inf when always."""
    return largest_step(lambda step: stepper.growth(kp, kd, step))


@dataclass(frozen=True)
class Stabilizer:
    """No stabilization, and the contract of the others.

    sampled    U is computed at the start of a step and held over its stages
    memory     numbers per row that the law keeps from step to step
    requested_name  the name that `stabilizer_named` was given, which for a paper's controller says more; "" otherwise
    """

    name: ClassVar[str] = "none"
    sampled: ClassVar[bool] = False
    memory: ClassVar[int] = 0
    requested_name: str = field(default="", init=False, repr=False, compare=False)

    @property
    def called(self) -> str:
        """What messages call it: as the user did."""
        return self.requested_name or self.name

    def law_address(self) -> int:
        """Address of the compiled law, 0 for none."""
        return 0

    def correction_mode(self) -> tuple[int, int, int, int]:
        """How a loop uses it, as in integrators/workspace.py: mode, whether its law remembers, levels, solve."""
        if not self.law_address():
            return UNSTABILIZED, 0, 0, 0
        return SAMPLED if self.sampled else EVERY_STAGE, int(self.memory > 0), 0, 0

    def gains(self, h: float, stepper: Stepper, length: float) -> np.ndarray:
        """The law's numbers for a step h and a mechanism of a characteristic length."""
        return np.zeros(1)

    def linear_gains(self, h: float) -> tuple[float, float] | None:
        """kp, kd of U = kp Phi + kd Phidot, at most, when U acts at every stage; None otherwise."""
        return None

    def stability_limit(self, stepper: Stepper, h: float) -> float:
        """The largest step (s) at which the violation does not grow, with the gains for `h`; inf when always stable."""
        gains = self.linear_gains(h)
        return math.inf if gains is None else largest_stable_step(stepper, *gains)


@dataclass(frozen=True)
class Baumgarte(Stabilizer):
    """U = 2 alpha Phidot + beta^2 Phi at every stage; by default alpha = 1/h, beta = sqrt2/h. [Baumgarte1972]

    One gain alone gives the other its value, which damps critically.
    """

    name: ClassVar[str] = "baumgarte"
    alpha: float | None = None
    beta: float | None = None

    def __post_init__(self) -> None:
        _require("baumgarte", 0.0, alpha=self.alpha, beta=self.beta)

    def _both(self, h: float) -> tuple[float, float]:
        alpha, beta = self.alpha, self.beta
        if alpha is None and beta is None:
            return 1.0 / h, math.sqrt(2.0) / h
        one = alpha if alpha is not None else beta
        return float(one if alpha is None else alpha), float(one if beta is None else beta)  # type: ignore[arg-type]

    def law_address(self) -> int:
        from sim_core.stabilization import laws

        return laws.baumgarte.address

    def gains(self, h: float, stepper: Stepper, length: float) -> np.ndarray:
        return np.array(self._both(h))

    def linear_gains(self, h: float) -> tuple[float, float]:
        alpha, beta = self._both(h)
        return beta**2, 2 * alpha


@dataclass(frozen=True)
class PID(Stabilizer):
    """U = Kp Phi + Ki integral(Phi dt) + Kd Phidot at every stage; the integral grows once per step. [LinChen2011]

    Without gains the three poles of e'' + Kd e' + Kp e + Ki integral(e dt) = 0 are put at -1 / (10 h). With Kp given,
    Ki is 0 and Kd damps critically, 2 sqrt(Kp), unless they are given too.
    The integral is the law's memory: a snapshot holds it. Nonholonomic rows have Kd alone.
    """

    name: ClassVar[str] = "pid"
    memory: ClassVar[int] = 1
    Kp: float | None = None
    Ki: float | None = None
    Kd: float | None = None

    def __post_init__(self) -> None:
        _require("pid", 0.0, Kp=self.Kp, Ki=self.Ki, Kd=self.Kd)
        if self.Kp is None and (self.Ki, self.Kd) != (None, None):
            raise InvalidRequest(f"pid: Ki is {self.Ki} and Kd {self.Kd}, but there is no Kp; give it too, or none")

    def _all(self, h: float) -> tuple[float, float, float]:
        if self.Kp is None:
            w = 0.1 / h
            return 3 * w**2, w**3, 3 * w
        damping = 2.0 * math.sqrt(self.Kp) if self.Kd is None else self.Kd
        return self.Kp, 0.0 if self.Ki is None else self.Ki, damping

    def law_address(self) -> int:
        from sim_core.stabilization import laws

        return laws.pid.address

    def gains(self, h: float, stepper: Stepper, length: float) -> np.ndarray:
        return np.array(self._all(h))

    def stability_limit(self, stepper: Stepper, h: float) -> float:
        """By one step of (e, e', integral) as it is taken: the integral grows by h e, then the stages see it held."""
        if stepper.adaptive:
            return math.inf
        kp, ki, kd = self._all(h)
        loop = np.array([[0.0, 1.0, 0.0], [-kp, -kd, -ki], [0.0, 0.0, 0.0]])

        def growth(step: float) -> float:
            begun = np.eye(3)
            begun[2, 0] = step
            return float(np.abs(np.linalg.eigvals(_one_step(stepper, step * loop) @ begun)).max())

        return min(largest_step(growth), largest_stable_step(stepper, kp, kd))


def _one_step(stepper: Stepper, Z: np.ndarray) -> np.ndarray:
    """What a step makes of y' = Z y / h; without a tableau velocities first, then positions with the new ones."""
    identity = np.eye(len(Z))
    if stepper.tableau is None:
        return (identity + np.diag([1, 0, 0]) @ Z) @ (identity + np.diag([0, 1, 0]) @ Z)
    A, b, _ = stepper.tableau.arrays()
    n, s = len(Z), len(b)
    stages = np.linalg.solve(np.eye(n * s) - np.kron(A, Z), np.kron(np.ones((s, 1)), identity))
    return np.asarray(identity + np.kron(b[None, :], Z) @ stages)


@dataclass(frozen=True)
class FuzzyPaper(Stabilizer):
    """The papers' controller at every stage: U = Ku FLC(Kp Phi, Kd Phidot), 25 rules, inputs clamped.

    Nonholonomic rows have the five rules of the single input Kd Phidot (FLC-SISO), with the same Kd and Ku.
    [NadaBayoumi2024, secs. 4, 5] The defaults are set III (Gaussian), product, and that paper's scaling; scalings.py
    makes those of both papers by name.
    """

    name: ClassVar[str] = "fuzzy_paper"
    Kp: float = 1e2
    Kd: float = 1e-2
    Ku: float = 1e4
    sets: FuzzySets = field(default_factory=lambda: FuzzySets("gaussian"))

    def __post_init__(self) -> None:
        _require("fuzzy_paper", 0.0, strict=True, Kp=self.Kp, Kd=self.Kd, Ku=self.Ku)

    def law_address(self) -> int:
        from sim_core.stabilization import laws

        return laws.fuzzy.address

    def gains(self, h: float, stepper: Stepper, length: float) -> np.ndarray:
        return np.array([self.Kp, self.Kd, self.Ku, *self.sets.code()])

    def linear_gains(self, h: float) -> tuple[float, float]:
        from sim_core.stabilization.rules import largest_chord

        gain = largest_chord(self.sets) * self.Ku
        return gain * self.Kp, gain * self.Kd

    def stability_limit(self, stepper: Stepper, h: float) -> float:
        """By the steepest chord of the surface, and of the five rules of a single input."""
        from sim_core.stabilization.rules import largest_chord

        rate = largest_chord(self.sets, inputs=1) * self.Ku * self.Kd
        return min(super().stability_limit(stepper, h), largest_stable_step(stepper, 0.0, rate))


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

    def __post_init__(self) -> None:
        if self.pole is not None and not 0.0 <= self.pole < 1.0:
            raise InvalidRequest(f"sampled_fuzzy: pole is {self.pole}; it must lie in [0, 1)")
        _require("sampled_fuzzy", 0.0, strict=True, saturation=self.saturation)

    def law_address(self) -> int:
        from sim_core.stabilization import laws

        return laws.sampled_fuzzy.address

    def gains(self, h: float, stepper: Stepper, length: float) -> np.ndarray:
        rho = stepper.pole if self.pole is None else self.pole
        disturbance = 2 * 9.81 * h * h / (1 - rho) ** 2
        eps = max(1e-2 * length, disturbance) if self.saturation is None else self.saturation
        slope = 1.0
        if self.sets != FuzzySets():
            from sim_core.stabilization.rules import largest_slope

            slope = largest_slope(self.sets)
        return np.array([eps, rho, stepper.hold_coefficient, slope, *self.sets.code()])


@dataclass(frozen=True)
class Projection(Stabilizer):
    """After each step M x + J' y = 0, J x = -Phi for q, then -Phidot for v, solved in the factor of the step."""

    name: ClassVar[str] = "projection"

    def correction_mode(self) -> tuple[int, int, int, int]:
        return PROJECTING, 0, POSITION_LEVEL + VELOCITY_LEVEL, STEP_FACTOR


@dataclass(frozen=True)
class DirectCorrection(Stabilizer):
    """After each step dq = -J^+ Phi for q, then dv = -J^+ Phidot for v, each with J where it acts. [YoonEtAl1994]

    weight      "pseudo_inverse": J^+ of Moore and Penrose [NadaBayoumi2024, eqs. 8, 12]; "mass": the correction that is
                least in the metric of M, by the constrained solve
    level       which of the two: "both", "position" (velocities are left to drift: no step is stable), "velocity"
    inside_rhs  the correction stays inside the right-hand side: every stage's derivative is that of corrected q and v,
                but what is integrated is never corrected. So the papers' violations grow; no step makes it stable.
    Nonholonomic rows count in both: q moves along them, v is put on them (the paper's dq leaves them out).
    """

    name: ClassVar[str] = "direct_correction"
    weight: Literal["pseudo_inverse", "mass"] = "pseudo_inverse"
    level: Literal["both", "position", "velocity"] = "both"
    inside_rhs: bool = False

    def __post_init__(self) -> None:
        for name, value, choices in (("weight", self.weight, WEIGHTS), ("level", self.level, LEVELS)):
            if value not in choices:
                raise InvalidRequest(f"direct_correction has no {name} {value!r}; it is one of {', '.join(choices)}")

    def correction_mode(self) -> tuple[int, int, int, int]:
        return CORRECTING_STAGES if self.inside_rhs else PROJECTING, 0, LEVELS[self.level], WEIGHTS[self.weight]

    def stability_limit(self, stepper: Stepper, h: float) -> float:
        """0 where nothing pulls back what is integrated, or its velocities while positions are moved."""
        return 0.0 if self.inside_rhs or self.level == "position" else math.inf


WEIGHTS = {"pseudo_inverse": PSEUDO_INVERSE, "mass": FRESH_FACTOR}
LEVELS = {"both": POSITION_LEVEL + VELOCITY_LEVEL, "position": POSITION_LEVEL, "velocity": VELOCITY_LEVEL}
STABILIZERS: dict[str, Callable[..., Stabilizer]] = {
    kind.name: kind for kind in (Stabilizer, Baumgarte, PID, DirectCorrection, Projection, FuzzyPaper, SampledFuzzy)
}


def instability(stabilizer: Stabilizer, stepper: Stepper, step_s: float) -> str:
    """What is wrong with a step (s) that is larger than the stabilizer can bear; empty when it is not."""
    limit = stabilizer.stability_limit(stepper, step_s)
    if limit >= step_s * (1 - 1e-9):
        return ""
    return (
        f"stabilizer {stabilizer.called!r} is stable under {stepper.name!r} up to a step of {limit * 1e3:.3g} ms; "
        f"the step asked for is {step_s * 1e3:.3g} ms"
    )


def stabilizers_by_name() -> dict[str, Callable[..., Stabilizer]]:
    """Every name that a stabilizer can be asked for by: the kinds, then the papers' controllers."""
    from sim_core.stabilization.scalings import PAPERS

    return STABILIZERS | PAPERS


def stabilizer_named(name: str, **parameters: Any) -> Stabilizer:
    """The stabilizer of that name; unknown names and parameters, and wrong values, are refused in one line."""
    known = stabilizers_by_name()
    if name not in known:
        raise UnknownName("sim_core", "stabilizer", name, known)
    made = known[name](**typed(f"stabilizer {name!r}", known[name], parameters))
    object.__setattr__(made, "requested_name", name)  # frozen, and of no meaning to what it does
    return made


def _require(owner: str, lowest: float, strict: bool = False, **gains: float | None) -> None:
    """Refuse gains that are no finite numbers from `lowest` (0) on; None is left to its default."""
    for name, value in gains.items():
        if value is not None and not (lowest <= value < math.inf and not (strict and value == lowest)):
            words = "positive" if strict else "zero or positive"
            raise InvalidRequest(f"{owner}: {name} is {value}; it must be finite and {words}")
