"""The steppers by name: data, and the compiled loop each of them uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sim_core.errors import UnknownName
from sim_core.system import System


@dataclass(frozen=True)
class Tableau:
    """Butcher tableau of an explicit method; `error` are the weights of the embedded error, empty without one."""

    A: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]
    error: tuple[float, ...] = ()

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A (s, s), b (s,), c = row sums of A."""
        s = len(self.b)
        A = np.zeros((s, s))
        for i, row in enumerate(self.A):
            A[i, : len(row)] = row
        return A, np.array(self.b), A.sum(axis=1)


RK4 = Tableau(A=((), (1 / 2,), (0.0, 1 / 2), (0.0, 0.0, 1.0)), b=(1 / 6, 1 / 3, 1 / 3, 1 / 6))
DORMAND_PRINCE = Tableau(
    A=(
        (),
        (1 / 5,),
        (3 / 40, 9 / 40),
        (44 / 45, -56 / 15, 32 / 9),
        (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
        (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
        (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
    ),
    b=(35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0.0),
    error=(71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40),
)
# Without its embedded error the last stage of Dormand-Prince has no use.
DORMAND_PRINCE_FIXED = Tableau(A=DORMAND_PRINCE.A[:6], b=DORMAND_PRINCE.b[:6])


@dataclass(frozen=True)
class Stepper:
    """How a state is carried over one tick.

    order        of the local formula; halving h divides the error by 2^order
    stages       evaluations of the acceleration per step
    held_lever   how far a U held over a step moves the position: -held_lever h^2 U (1/2 for one-step methods)
    pole         where the sampled law puts its poles under this stepper
    memory       numbers that it keeps between steps
    needs        attributes it asks of a system beside its kernels, e.g. the linear part an implicit rule factors
    """

    name: str
    order: int
    stages: int
    loop: Callable[[], Any] = field(repr=False)
    tableau: Tableau | None = None
    held_lever: float = 0.5
    pole: float = 0.3
    memory: int = 0
    options: tuple[float, ...] = ()
    needs: tuple[str, ...] = ()

    def arguments(self, system: System) -> tuple[Any, ...]:
        """What its loop takes after (n_steps, h, tick, m, calls, law): its numbers, then what it needs of a system."""
        if self.tableau is None:
            return (*self.options, *(getattr(system, need) for need in self.needs))
        error = (np.array(self.tableau.error),) if self.options else ()
        needed = (getattr(system, need) for need in self.needs)
        return (*self.tableau.arrays(), *error, *self.options, *needed)

    def growth(self, kp: float, kd: float, h: float) -> float:
        """Largest growth per step of e'' = -kp e - kd e' when U acts at every stage: at most 1 where it is stable."""
        if self.tableau is None:
            step = np.array([[1 - kp * h * h, h * (1 - kd * h)], [-kp * h, 1 - kd * h]])
            return float(np.abs(np.linalg.eigvals(step)).max())
        A, b, _ = self.tableau.arrays()
        ones, identity = np.ones(len(b)), np.eye(len(b))
        z = h * np.roots([1.0, kd, kp]).astype(complex)
        return float(max(abs(1 + pole * (b @ np.linalg.solve(identity - pole * A, ones))) for pole in z))


def _explicit_loop() -> Any:
    from sim_core.integrators.runge_kutta import advance_explicit

    return advance_explicit


def _semi_implicit_loop() -> Any:
    from sim_core.integrators.semi_implicit import advance_semi_implicit

    return advance_semi_implicit


def _adaptive_loop() -> Any:
    from sim_core.integrators.adaptive import advance_adaptive

    return advance_adaptive


def dopri5_adaptive(rtol: float = 1e-6, atol: float = 1e-9) -> Stepper:
    """Dormand-Prince 5(4) with error control between ticks: tolerances relative and absolute, on q and v alike."""
    tableau = DORMAND_PRINCE
    return Stepper(
        "dopri5_adaptive",
        5,
        len(tableau.b),
        _adaptive_loop,
        tableau,
        memory=1,
        options=(float(rtol), float(atol)),
    )


STEPPERS: dict[str, Stepper] = {
    stepper.name: stepper
    for stepper in (
        Stepper("rk4", 4, 4, _explicit_loop, RK4),
        Stepper("semi_implicit", 1, 1, _semi_implicit_loop, held_lever=1.0),
        Stepper("dopri5", 5, 6, _explicit_loop, DORMAND_PRINCE_FIXED),
        dopri5_adaptive(),
    )
}


def stepper_named(name: str) -> Stepper:
    """The stepper of that name; UnknownName otherwise."""
    if name not in STEPPERS:
        raise UnknownName("sim_core", "stepper", name, STEPPERS)
    return STEPPERS[name]
