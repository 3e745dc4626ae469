"""The integration methods ("steppers") by name, with their properties and compiled loops."""

from __future__ import annotations

import cmath
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sim_core.errors import InvalidRequest, UnknownName
from sim_core.integrators import loops
from sim_core.integrators.methods.tableaus import (
    DORMAND_PRINCE,
    DORMAND_PRINCE_DENSE,
    DORMAND_PRINCE_FIXED,
    MIDPOINT,
    RADAU_IIA_5,
    RK4,
    TR_BDF2,
    Tableau,
)
from sim_core.tables import arguments


@dataclass(frozen=True)
class Stepper:
    """An integration method, which advances the state by one tick (step of the simulation).

    order          order of convergence: halving h divides the error by 2^order
    stages         number of rows of stage memory that the loop needs
    evaluations    evaluations of the acceleration per step; 0 if their number varies
    loop           function that returns the stepping loop, which is compiled when it is first called
    tableau        tableau of the method; for a multistep method, tableau of its first steps
    companion      for multistep methods: function of z = h lambda that returns the matrix of one step of y' = lambda y
    hold_coefficient  c: a stabilization U that is constant over a step of size h changes the violation Phi by -c h^2 U
                      in the step; 1 for semi-implicit Euler, 1/2 for all other methods
    pole           value at which the sampled stabilizer places both poles of the violation's discrete-time dynamics
    memory         (m0, m1, m2): the memory kept between steps has m0 + m1 n_q + m2 n_q^2 numbers
    adaptive       whether error control chooses the steps; the method is then stable for ticks of any length
    spans_steps    whether the method uses positions or accelerations of earlier steps, so that the coordinates must not
                   change between steps
    restarts       whether the memory holds for constant inputs and parameters only; if these change at a tick, it is
                   cleared, and the method restarts from the state at this tick
    acceleration   index in the memory at which an acceleration (n_q) of the last step begins; if inputs or parameters
                   change, the jump of the acceleration is added to it. None if the method keeps no such acceleration
    options        further constant arguments of the loop
    extras         function of n_q that returns the loop's arguments, in place of tableau and options
    amplification  function (kp, kd, h) that returns the matrix of one step of e'' = -kp e - kd e', for the vector of e,
                   e' and the method's memory; None if the tableau or `companion` describes the method's stability
    """

    name: str
    order: int
    stages: int
    evaluations: int
    loop: Callable[[], Any] = field(repr=False)
    tableau: Tableau | None = None
    companion: Callable[[complex], np.ndarray] | None = field(default=None, repr=False)
    hold_coefficient: float = 0.5
    pole: float = 0.3
    memory: tuple[int, ...] = ()
    adaptive: bool = False
    spans_steps: bool = False
    restarts: bool = False
    acceleration: int | None = None
    options: tuple[float, ...] = ()
    extras: Callable[[int], tuple[Any, ...]] | None = field(default=None, repr=False)
    amplification: Callable[[float, float, float], np.ndarray] | None = field(default=None, repr=False)

    @property
    def is_explicit(self) -> bool:
        """Whether the method is explicit or semi-implicit, with a fixed step size.

        If such a method damps a fast mode, the step size is too large. Implicit methods damp fast modes on purpose.
        """
        return not self.adaptive and not (self.tableau is not None and self.tableau.groups)

    def memory_size(self, n_q: int) -> int:
        """Length of the memory array that the stepper keeps between steps, for n_q coordinates."""
        return sum(count * n_q**power for power, count in enumerate(self.memory))

    def arguments(self, n_q: int) -> tuple[Any, ...]:
        """The loop's arguments after (n_steps, h, tick, m, calls, law), for n_q coordinates."""
        if self.extras is not None:
            return self.extras(n_q)
        if self.tableau is None:
            return self.options
        error = (np.array(self.tableau.error),) if self.tableau.error else ()
        dense = (np.array(self.tableau.dense),) if self.tableau.dense else ()
        return (*self.tableau.arrays(), *error, *dense, *self.options)

    def growth(self, kp: float, kd: float, h: float) -> float:
        """Spectral radius of one step of size h for e'' = -kp e - kd e'; the step is stable if the radius is at most 1.

        The feedback -kp e - kd e' is evaluated at every stage. Methods with error control have the result 0.
        """
        if self.adaptive:
            return 0.0
        if self.amplification is not None:
            return _spectral_radius(self.amplification(kp, kd, h))
        z = [h * root for root in _roots(kp, kd)]
        if self.companion is not None:
            return max(_spectral_radius(self.companion(pole)) for pole in z)
        if self.tableau is not None:
            conjugate = kd * kd < 4.0 * kp  # R(z) has the same absolute value at both of two conjugate roots
            return max(self.tableau.growth(pole) for pole in (z[:1] if conjugate else z))
        return _spectral_radius(np.array([[1 - kp * h * h, h * (1 - kd * h)], [-kp * h, 1 - kd * h]]))


def _roots(kp: float, kd: float) -> tuple[complex, complex]:
    """The two roots of x^2 + kd x + kp, computed without cancellation."""
    root = cmath.sqrt(kd * kd - 4.0 * kp)
    larger = -0.5 * (kd + root if kd >= 0.0 else kd - root)
    return larger, (kp / larger if larger != 0.0 else 0j)


def _spectral_radius(step: np.ndarray) -> float:
    return float(np.abs(np.linalg.eigvals(step)).max())


def adams_companion(z: complex) -> np.ndarray:
    """Matrix (4, 4) by which one predictor-corrector step of y' = lambda y multiplies (y, z y_1, z y_2, z y_3).

    z is h lambda, and y_k is the value of y k steps ago.
    """
    predicted = np.array([1 + 55 / 24 * z, -59 / 24, 37 / 24, -9 / 24])
    corrected = 9 / 24 * z * predicted + np.array([1 + 19 / 24 * z, -5 / 24, 1 / 24, 0])
    return np.array([corrected, [z, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]])


def _require_tolerances(owner: str, **tolerances: float) -> None:
    for name, value in tolerances.items():
        if not 0.0 < value < float("inf"):
            raise InvalidRequest(f"{owner}: {name} is {value}; it must be finite and positive")


def _implicit(name: str, order: int, tableau: Tableau, tolerance: float) -> Stepper:
    """An implicit Runge-Kutta stepper.

    order      order of convergence
    tolerance  convergence tolerance of Newton's method: change of h times the stage accelerations (step size h),
               relative to max(1, largest |v|)
    """
    _require_tolerances(name, tolerance=tolerance)
    s, size = len(tableau.b), tableau.groups[-1]

    def extras(n: int) -> tuple[Any, ...]:
        A, b, c = tableau.arrays()
        rows = np.vstack([A, A @ A, tableau.ahead(), b, b @ A, c])
        lu, pivots = np.zeros((size * n, size * n)), np.zeros(size * n, dtype=np.int64)
        scratch = lu, pivots, np.zeros(size * n), np.zeros(1 + 2 * n * n)
        return (rows, np.array(tableau.groups), tolerance, *scratch)

    return Stepper(name, order, s, 0, loops.implicit, tableau, memory=(3, s, 2), extras=extras)


def _one_stage(name: str, constants: list[float], tolerance: float, **more: Any) -> Stepper:
    """A stepper with one unknown acceleration a per step.

    constants  coefficients of the method, which `advance_one_stage` takes as its argument `rows`
    tolerance  convergence tolerance: change of h a (step size h) per iteration, relative to max(1, largest |v|)
    more       further fields of the Stepper
    """
    _require_tolerances(name, tolerance=tolerance)
    rows = np.array(constants)[:, None]

    def extras(n: int) -> tuple[Any, ...]:
        scratch = np.zeros((n, n)), np.zeros(n, dtype=np.int64), np.zeros(n), np.zeros(1 + 2 * n * n)
        return (rows, tolerance, *scratch)

    return Stepper(name, 2, 2, 0, loops.one_stage, MIDPOINT, memory=(3, 1, 2), extras=extras, **more)


def abm4() -> Stepper:
    """Adams-Bashforth-Moulton, order 4; Runge-Kutta steps at the start and after a change of inputs or parameters."""
    more: dict[str, Any] = {"memory": (2, 6), "spans_steps": True, "restarts": True}
    return Stepper("abm4", 4, 4, 2, loops.multistep, RK4, adams_companion, 0.5, pole=0.8, **more)


def implicit_midpoint(tolerance: float = 1e-10) -> Stepper:
    """Implicit midpoint rule, order 2: linear oscillations keep their amplitude. [HairerWanner1996, ch. IV.8]

    tolerance  convergence tolerance: change of h a (step size h, acceleration a) per iteration, relative to
               max(1, largest |v|)
    """
    return _one_stage("implicit_midpoint", [1 / 2, 1 / 4, 1 / 2], tolerance)


def generalized_alpha(rho: float = 0.9, tolerance: float = 1e-10) -> Stepper:
    """Generalized-alpha, order 2: the fastest vibrations shrink by the factor rho per step. [ChungHulbert1993]

    The acceleration is evaluated at intermediate q and v. The method of [ArnoldBruls2007] averages the accelerations at
    the ends of the step instead. With rho = 1, this stepper is the implicit midpoint rule. Its energy error for
    fast-rotating robot arms is then a seventh of that of [ArnoldBruls2007].

    tolerance  convergence tolerance: change of h a (step size h, acceleration a) per iteration, relative to
               max(1, largest |v|)
    """
    if not 0.0 <= rho <= 1.0:
        raise InvalidRequest(f"generalized_alpha: rho is {rho}; it must lie in [0, 1]")
    alpha_m, alpha_f = (2 * rho - 1) / (rho + 1), rho / (rho + 1)
    gamma = 1 / 2 + alpha_f - alpha_m
    beta = (gamma + 1 / 2) ** 2 / 4
    place, share, old = 1 - alpha_f, 1 / (1 - alpha_m), alpha_m / (1 - alpha_m)

    def amplification(kp: float, kd: float, h: float) -> np.ndarray:
        """Matrix (3, 3) of one step h of e'' = -kp e - kd e' for the vector (e, e', auxiliary acceleration)."""
        e, v, A = np.eye(3)
        e_star = e + place * h * (v + h * (1 / 2 - beta - beta * old) * A)
        v_star = v + place * h * (1 - gamma - gamma * old) * A
        a = -(kp * e_star + kd * v_star) / (1 + place * share * h * (kd * gamma + kp * h * beta))
        ahead = share * a - old * A
        return np.array(
            [e + h * v + h * h * ((1 / 2 - beta) * A + beta * ahead), v + h * ((1 - gamma) * A + gamma * ahead), ahead]
        )

    constants = [place * gamma * share, place * beta * share, place, share, old, beta, gamma]
    more: dict[str, Any] = {"amplification": amplification, "spans_steps": True, "acceleration": 3}
    return _one_stage("generalized_alpha", constants, tolerance, **more)


def tr_bdf2(tolerance: float = 1e-12) -> Stepper:
    """TR-BDF2, a trapezoidal stage followed by BDF2: order 2, L-stable, fixed step. [HoseaShampine1996]

    tolerance  convergence tolerance of Newton's method: change of h times the stage accelerations (step size h),
               relative to max(1, largest |v|)
    """
    return _implicit("tr_bdf2", 2, TR_BDF2, tolerance)


def radau5(tolerance: float = 1e-12) -> Stepper:
    """Radau IIA of order 5, L-stable, fixed step. [HairerWanner1996, ch. IV.8]

    tolerance  convergence tolerance of Newton's method: change of h times the stage accelerations (step size h),
               relative to max(1, largest |v|)
    """
    return _implicit("radau5", 5, RADAU_IIA_5, tolerance)


def _controlled(
    name: str, loop: Callable[[], Any], tableau: Tableau | None, rtol: float, atol: float, **more: Any
) -> Stepper:
    _require_tolerances(name, rtol=rtol, atol=atol)
    stages = len(tableau.b) if tableau is not None else 1
    options = (float(rtol), float(atol))
    return Stepper(name, 5, stages, 0, loop, tableau, options=options, adaptive=True, **more)


def dopri5_adaptive(rtol: float = 1e-6, atol: float = 1e-9) -> Stepper:
    """Dormand-Prince 5(4) with error control; every tick is the end of a step.

    rtol, atol  relative and absolute tolerances of the error of q and v
    """
    return _controlled("dopri5_adaptive", loops.adaptive, DORMAND_PRINCE, rtol, atol, memory=(1,))


def dopri5_dense(rtol: float = 1e-6, atol: float = 1e-9) -> Stepper:
    """Dormand-Prince 5(4) with error control and steps independent of the ticks, as in ode45.

    States at ticks are interpolated. A sampled stabilizer is evaluated once per step of the integrator.
    rtol, atol  relative and absolute tolerances of the error of q and v
    """
    more: dict[str, Any] = {"memory": (4, 12), "restarts": True, "spans_steps": True}
    return _controlled("dopri5_dense", loops.dense, DORMAND_PRINCE_DENSE, rtol, atol, **more)


def adams_variable(rtol: float = 1e-6, atol: float = 1e-9) -> Stepper:
    """Adams methods of order 1 to 12 with error control, by scipy's VODE.

    Each call of `Simulation.step` or `Simulation.advance` is a separate integration.
    rtol, atol  relative and absolute tolerances of the error of q and v
    """
    return _controlled("adams_variable", loops.adams, None, rtol, atol, spans_steps=True)


def radau_variable(rtol: float = 1e-6, atol: float = 1e-9) -> Stepper:
    """Radau IIA of order 5 with error control, by scipy.

    Each call of `Simulation.step` or `Simulation.advance` is a separate integration.
    rtol, atol  relative and absolute tolerances of the error of q and v
    """
    return _controlled("radau_variable", loops.radau, None, rtol, atol, spans_steps=True)


STEPPERS: dict[str, Stepper] = {
    stepper.name: stepper
    for stepper in (
        Stepper("rk4", 4, 4, 4, loops.explicit, RK4),
        Stepper("semi_implicit", 1, 1, 1, loops.semi_implicit, hold_coefficient=1.0),
        Stepper("dopri5", 5, 6, 6, loops.explicit, DORMAND_PRINCE_FIXED),
        abm4(),
        implicit_midpoint(),
        generalized_alpha(),
        tr_bdf2(),
        radau5(),
        dopri5_adaptive(),
        dopri5_dense(),
        adams_variable(),
        radau_variable(),
    )
}


# Steppers that take options, by name.
ADJUSTABLE: dict[str, Callable[..., Stepper]] = {
    maker.__name__: maker
    for maker in (
        implicit_midpoint,
        generalized_alpha,
        tr_bdf2,
        radau5,
        dopri5_adaptive,
        dopri5_dense,
        adams_variable,
        radau_variable,
    )
}


def stepper_named(name: str, **options: Any) -> Stepper:
    """The stepper with this name and options.

    Raises InvalidRequest for an unknown name or option and for a value of the wrong type.
    """
    if name not in STEPPERS:
        raise UnknownName("sim_core", "stepper", name, STEPPERS)
    if not options:
        return STEPPERS[name]
    maker: Callable[..., Stepper] = ADJUSTABLE.get(name, lambda: STEPPERS[name])
    return maker(**arguments(f"stepper {name!r}", maker, options))
