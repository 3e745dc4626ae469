"""The kinds of stabilizers: their gains, their compiled laws, and the largest step size at which each is stable.

A stabilizer computes the stabilization U in J a = gamma - U from the constraint violations Phi, their rates Phidot and
the step size h. A `sampled` stabilizer is evaluated once per step, and its U is constant over the step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np

from sim_core.errors import InvalidRequest
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
from sim_core.stabilization import laws
from sim_core.stabilization.membership import FuzzySets
from sim_core.stabilization.rules import largest_chord, largest_slope


def largest_step(growth: Callable[[float], float]) -> float:
    """Largest step size, s, at which the growth per step is at most 1; inf if it is at most 1 for every step size.

    growth  function of the step size, s, that returns the factor by which a perturbation grows per step
    """

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


@lru_cache(maxsize=256)
def largest_stable_step(stepper: Stepper, kp: float, kd: float) -> float:
    """Largest step size, s, at which the stepper integrates e'' = -kp e - kd e' without growth; inf if unlimited.

    The right-hand side is evaluated at every stage of the stepper.
    """
    return largest_step(lambda step: stepper.growth(kp, kd, step))


@dataclass(frozen=True)
class Stabilizer:
    """The stabilizer "none", and base class of the others.

    sampled         whether the stabilization U is computed once at the start of a time step and constant over the
                    stages of the step
    memory          number of values per constraint row that the law keeps between steps
    requested_name  name given to `stabilizer_named`, such as "nada_set_1" for a paper's controller; "" for a stabilizer
                    made otherwise
    """

    name: ClassVar[str] = "none"
    sampled: ClassVar[bool] = False
    memory: ClassVar[int] = 0
    requested_name: str = field(default="", init=False, repr=False, compare=False)

    @property
    def called(self) -> str:
        """Name of the stabilizer in messages: the requested name if there is one, otherwise the name of its class."""
        return self.requested_name or self.name

    def law_address(self) -> int:
        """Address of the compiled law; 0 if there is none."""
        return 0

    def correction_mode(self) -> tuple[int, int, int, int]:
        """Four integers that select what the stepping loop does; integrators/workspace.py defines the codes.

        They are the mode of stabilization, 1 if the law has memory and otherwise 0, the levels (q, v or both) that are
        corrected, and the solver of the correction.
        """
        if not self.law_address():
            return UNSTABILIZED, 0, 0, 0
        return SAMPLED if self.sampled else EVERY_STAGE, int(self.memory > 0), 0, 0

    def gains(self, h: float, stepper: Stepper, length: float) -> np.ndarray:
        """Array of the law's gains for the step size h, s, and the characteristic length of a mechanism, m."""
        return np.zeros(1)

    def linear_gains(self, h: float) -> tuple[float, float] | None:
        """Gains (kp, kd) of a linear law U = kp Phi + kd Phidot, from which `stability_limit` is computed.

        They are at least as large as the gains of this stabilizer for violations of any size. None if there is no such
        linear law, or if the class computes `stability_limit` in another way.

        h  step size, s
        """
        return None

    def stability_limit(self, stepper: Stepper, h: float) -> float:
        """Largest step size, s, at which constraint violations do not grow; inf if there is no limit.

        h  step size, s, for which the gains are computed
        """
        gains = self.linear_gains(h)
        return math.inf if gains is None else largest_stable_step(stepper, *map(float, gains))


@dataclass(frozen=True)
class Baumgarte(Stabilizer):
    """Stabilization U = 2 alpha Phidot + beta^2 Phi at every stage. [Baumgarte1972]

    Phi are the constraint violations and Phidot their rates. The defaults at the step size h are alpha = 1 / h and beta
    = sqrt(2) / h. If only one gain is given, the other gain takes the same value, which gives critical damping.
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
        return laws.baumgarte.address

    def gains(self, h: float, stepper: Stepper, length: float) -> np.ndarray:
        return np.array(self._both(h))

    def linear_gains(self, h: float) -> tuple[float, float]:
        alpha, beta = self._both(h)
        return beta**2, 2 * alpha


@dataclass(frozen=True)
class PID(Stabilizer):
    """Stabilization U = Kp Phi + Ki integral(Phi dt) + Kd Phidot at every stage. [LinChen2011]

    Phi are the constraint violations and Phidot their rates. The integral advances once per step. At the step size h,
    the default gains place the three poles of e'' + Kd e' + Kp e + Ki integral(e dt) = 0 at -1 / (10 h). If Kp is
    given, the default of Ki is 0, and the default of Kd is 2 sqrt(Kp), which gives critical damping. The integral is
    the law's memory and is part of a snapshot. Only Kd acts on nonholonomic rows.
    """

    name: ClassVar[str] = "pid"
    memory: ClassVar[int] = 1
    Kp: float | None = None
    Ki: float | None = None
    Kd: float | None = None

    def __post_init__(self) -> None:
        _require("pid", 0.0, Kp=self.Kp, Ki=self.Ki, Kd=self.Kd)
        if self.Kp is None and (self.Ki, self.Kd) != (None, None):
            raise InvalidRequest(f"pid: Ki is {self.Ki} and Kd {self.Kd}, but Kp is not given; give Kp too, or no gain")

    def _all(self, h: float) -> tuple[float, float, float]:
        if self.Kp is None:
            w = 0.1 / h
            return 3 * w**2, w**3, 3 * w
        damping = 2.0 * math.sqrt(self.Kp) if self.Kd is None else self.Kd
        return self.Kp, 0.0 if self.Ki is None else self.Ki, damping

    def law_address(self) -> int:
        return laws.pid.address

    def gains(self, h: float, stepper: Stepper, length: float) -> np.ndarray:
        return np.array(self._all(h))

    def stability_limit(self, stepper: Stepper, h: float) -> float:
        """Largest step size, s, at which the violation e of a constraint does not grow.

        The limit is computed from the matrix that maps (e, e', integral of e) to their values one time step later. In a
        time step, the integral grows by the step size times e at the start of the step, and is constant over the
        stages.

        h  step size, s, for which the gains are computed
        """
        if stepper.adaptive:
            return math.inf
        kp, ki, kd = self._all(h)
        return min(_largest_stable_pid_step(stepper, kp, ki, kd), largest_stable_step(stepper, kp, kd))


@lru_cache(maxsize=256)
def _largest_stable_pid_step(stepper: Stepper, kp: float, ki: float, kd: float) -> float:
    """Largest step size, s, at which the law of `PID` lets no violation of a holonomic constraint grow."""
    loop = np.array([[0.0, 1.0, 0.0], [-kp, -kd, -ki], [0.0, 0.0, 0.0]])

    def growth(step: float) -> float:
        begun = np.eye(3)
        begun[2, 0] = step
        return float(np.abs(np.linalg.eigvals(_one_step(stepper, step * loop) @ begun)).max())

    return largest_step(growth)


def _one_step(stepper: Stepper, Z: np.ndarray) -> np.ndarray:
    """Matrix that advances y by one step of the stepper, for the linear equation y' = (Z / h) y and the step size h.

    For a stepper without a Butcher tableau, this is the matrix of the semi-implicit Euler method.
    """
    identity = np.eye(len(Z))
    if stepper.tableau is None:
        return (identity + np.diag([1, 0, 0]) @ Z) @ (identity + np.diag([0, 1, 0]) @ Z)
    A, b, _ = stepper.tableau.arrays()
    n, s = len(Z), len(b)
    stages = np.linalg.solve(np.eye(n * s) - np.kron(A, Z), np.kron(np.ones((s, 1)), identity))
    return np.asarray(identity + np.kron(b[None, :], Z) @ stages)


@dataclass(frozen=True)
class FuzzyPaper(Stabilizer):
    """Fuzzy logic controller (FLC) of [NadaBayoumi2024] and [Man2025], with 25 rules.

    The stabilization is U = Ku FLC(Kp Phi, Kd Phidot), with the constraint violations Phi and their rates Phidot. U is
    evaluated at every stage of a step. The inputs of the FLC are clamped to [-1, 1]. Rows of nonholonomic constraints
    use the five rules of the single input Kd Phidot (FLC-SISO), with the same Kd and Ku. [NadaBayoumi2024, secs. 4, 5]
    The default fuzzy sets are set III (Gaussian), with the product as AND; the default scalings Kp, Kd, Ku are those of
    [NadaBayoumi2024]. nodes/research/studies/framework/scalings.py registers the controllers of both papers by name.
    """

    name: ClassVar[str] = "fuzzy_paper"
    Kp: float = 1e2
    Kd: float = 1e-2
    Ku: float = 1e4
    sets: FuzzySets = field(default_factory=lambda: FuzzySets("gaussian"))

    def __post_init__(self) -> None:
        _require("fuzzy_paper", 0.0, strict=True, Kp=self.Kp, Kd=self.Kd, Ku=self.Ku)

    def law_address(self) -> int:
        return laws.fuzzy.address

    def gains(self, h: float, stepper: Stepper, length: float) -> np.ndarray:
        return np.array([self.Kp, self.Kd, self.Ku, *self.sets.code()])

    def linear_gains(self, h: float) -> tuple[float, float]:
        gain = largest_chord(self.sets) * self.Ku
        return gain * self.Kp, gain * self.Kd

    def stability_limit(self, stepper: Stepper, h: float) -> float:
        """Largest step size, s, at which constraint violations do not grow.

        The result is the smaller of two stability limits of linear laws: one for holonomic rows, which use the rules of
        two inputs, and one for nonholonomic rows, which use the rules of a single input. The gains of a linear law are
        the slopes of the steepest chords of the control surface (see `largest_chord`).

        h  step size, s, for which the gains are computed
        """
        rate = largest_chord(self.sets, inputs=1) * self.Ku * self.Kd
        return min(super().stability_limit(stepper, h), largest_stable_step(stepper, 0.0, rate))


@dataclass(frozen=True)
class SampledFuzzy(Stabilizer):
    """The default stabilizer: fuzzy control computed once per time step, with gains that depend on the step size h.

    The gains place both poles of the violation's sampled dynamics at `pole`, so that every step size is stable.

    saturation  violation at which the control saturates, in the unit of the row. By default 1 % of the characteristic
                length, but at least 2 g h^2 / (1 - pole)^2 with the gravitational acceleration g, so that
                accelerations of the size of g do not saturate the control
    pole        position of both poles in the z plane, in [0, 1), by default the value `Stepper.pole` of the stepper
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
        return laws.sampled_fuzzy.address

    def gains(self, h: float, stepper: Stepper, length: float) -> np.ndarray:
        rho = stepper.pole if self.pole is None else self.pole
        disturbance = 2 * 9.81 * h * h / (1 - rho) ** 2
        eps = max(1e-2 * length, disturbance) if self.saturation is None else self.saturation
        slope = 1.0
        if self.sets != FuzzySets():
            slope = largest_slope(self.sets)
        return np.array([eps, rho, stepper.hold_coefficient, slope, *self.sets.code()])


@dataclass(frozen=True)
class Projection(Stabilizer):
    """Projection of q, then of v, onto the constraints after each time step.

    The corrections dq and dv are those of least norm in the metric of the mass matrix M. With the constraint Jacobian J
    and multipliers y, they solve M dq + J' y = 0, J dq = -Phi, and then M dv + J' y = 0, J dv = -Phidot. The factorized
    KKT matrix of the time step is used again.
    """

    name: ClassVar[str] = "projection"

    def correction_mode(self) -> tuple[int, int, int, int]:
        return PROJECTING, 0, POSITION_LEVEL + VELOCITY_LEVEL, STEP_FACTOR


@dataclass(frozen=True)
class DirectCorrection(Stabilizer):
    """Corrections dq = -J^+ Phi of q, and then dv = -J^+ Phidot of v, after each step. [YoonEtAl1994]

    J is the constraint Jacobian, which is evaluated at the old q for dq and at the corrected q for dv.

    weight      "pseudo_inverse": J^+ is the Moore-Penrose pseudo-inverse [NadaBayoumi2024, eqs. 8, 12]; "mass": J^+
                gives the correction of least norm in the metric of the mass matrix M
    level       what is corrected: "both" (q and v), "position" (q only, so that the velocities drift and no step size
                is stable) or "velocity" (v only)
    inside_rhs  whether to correct only inside the right-hand side: the derivative at every stage is evaluated at
                corrected q and v, but the integrated q and v are never corrected. Violations then grow, as in the
                papers, and no step size is stable
    Nonholonomic rows are included in both corrections: in these rows, dq satisfies J dq = 0, and dv makes Phidot zero.
    The dq of [NadaBayoumi2024] omits these rows.
    """

    name: ClassVar[str] = "direct_correction"
    weight: Literal["pseudo_inverse", "mass"] = "pseudo_inverse"
    level: Literal["both", "position", "velocity"] = "both"
    inside_rhs: bool = False

    def __post_init__(self) -> None:
        for name, value, choices in (("weight", self.weight, WEIGHTS), ("level", self.level, LEVELS)):
            if value not in choices:
                raise InvalidRequest(f"direct_correction: {name} is {value!r}; it must be one of {', '.join(choices)}")

    def correction_mode(self) -> tuple[int, int, int, int]:
        return CORRECTING_STAGES if self.inside_rhs else PROJECTING, 0, LEVELS[self.level], WEIGHTS[self.weight]

    def stability_limit(self, stepper: Stepper, h: float) -> float:
        """Largest stable step size, s: 0 if the integrated velocities are never corrected, otherwise inf."""
        return 0.0 if self.inside_rhs or self.level == "position" else math.inf


WEIGHTS = {"pseudo_inverse": PSEUDO_INVERSE, "mass": FRESH_FACTOR}
LEVELS = {"both": POSITION_LEVEL + VELOCITY_LEVEL, "position": POSITION_LEVEL, "velocity": VELOCITY_LEVEL}


def instability(stabilizer: Stabilizer, stepper: Stepper, step_s: float) -> str:
    """One-line warning if the step size is above the stabilizer's stability limit; otherwise ""."""
    limit = stabilizer.stability_limit(stepper, step_s)
    if limit >= step_s * (1 - 1e-9):
        return ""
    return (
        f"stabilizer {stabilizer.called!r} is stable under {stepper.name!r} up to a step of {limit * 1e3:.3g} ms; "
        f"step_s is {step_s * 1e3:.3g} ms"
    )


def _require(owner: str, lowest: float, strict: bool = False, **gains: float | None) -> None:
    """Raise InvalidRequest for a gain that is not finite or is below `lowest`. A gain that is None passes.

    strict  whether a gain equal to `lowest` is an error too
    """
    for name, value in gains.items():
        if value is not None and not (lowest <= value < math.inf and not (strict and value == lowest)):
            words = "positive" if strict else "zero or positive"
            raise InvalidRequest(f"{owner}: {name} is {value}; it must be finite and {words}")
