"""scipy's integrators of variable order and step, with the signature of the compiled loops.

Each call of a loop is one integration over n_steps ticks (steps of the simulation); q and v at the ticks come from the
method's interpolant. A sampled stabilizer or a projection makes the stabilization U or the state jump at the ticks; the
integration then restarts at every tick. Equal calls from equal states give bitwise equal results, but two calls and one
call over the same ticks give slightly different results.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from sim_core.integrators.step import accelerate, begin_step, end_step, measure, remember
from sim_core.integrators.workspace import (
    DIVERGED,
    DONE,
    DQDT,
    DVDT,
    EVENT,
    LAW_MODE,
    LAW_ROWS,
    PROJECTING,
    SAMPLED,
    STEP_TOO_SMALL,
    TIME,
    Q,
    V,
)
from sim_core.kernels.compiled import loop

# right-hand sides per tick above which the step size is considered to have gone to zero
MOST_EVALUATIONS = 100_000
LEAST_RTOL = 1e-14  # smaller relative tolerances are below rounding errors


@loop
def right_hand_side(m, calls, law, h, time, y, dydt):  # type: ignore[no-untyped-def]
    """Compute dy/dt of y = (q, v) at a time and write it to dydt (2 n_q,)."""
    n = m.state.shape[1]
    for i in range(n):
        m.state[Q, i], m.state[V, i] = y[i], y[n + i]
    m.scalars[TIME] = time
    accelerate(m, calls, law, h)
    for i in range(n):
        dydt[i], dydt[n + i] = m.state[DQDT, i], m.state[DVDT, i]


@loop
def open_tick(m, calls, law, h, tick):  # type: ignore[no-untyped-def]
    """Begin a tick: record the state in the history, measure violations, evaluate the stabilizer if it is sampled."""
    m.scalars[TIME] = tick * h
    remember(m, tick)
    begin_step(m, calls, law, h)


@loop
def close_tick(m, calls, law, h, tick, y):  # type: ignore[no-untyped-def]
    """Set the state at a tick to y = (q, v) and end the step. Returns (status, index of the guard that fired or -1)."""
    n = m.state.shape[1]
    for i in range(n):
        m.state[Q, i], m.state[V, i] = y[i], y[n + i]
    m.scalars[TIME] = tick * h
    return end_step(m, calls, law)


@loop
def close_call(m, calls, law):  # type: ignore[no-untyped-def]
    """Measure the constraint violation at the end of a call of a loop, after its last tick.

    `open_tick` measures the violation at the start of each tick.
    """
    measure(m, calls, law)


class OutOfEvaluations(Exception):  # noqa: N818 - ends an integration, not an error
    """Raised in the right-hand side to end an integration with more than MOST_EVALUATIONS evaluations per tick."""


class AdamsIntegration:
    """Integration of dy/dt = f(t, y) by VODE: Adams-Moulton, order 1 to 12. [BrownByrneHindmarsh1989]

    An integration begins with order 1, in steps whose errors are as large as the tolerances. In many short integrations
    in succession these errors would add up, so that the tolerances of an integration shorter than 1 s are multiplied by
    its length in seconds.
    """

    def __init__(self, f: Callable, t: float, y: np.ndarray, end: float, rtol: float, atol: float) -> None:
        from scipy.integrate import ode  # slow to load, seldom needed

        share = min(1.0, end - t)
        rtol, atol = max(share * rtol, LEAST_RTOL), share * atol
        self._ode = ode(f).set_integrator("vode", method="adams", rtol=rtol, atol=atol, nsteps=MOST_EVALUATIONS)
        self._ode.set_initial_value(y, t)

    def reach(self, t: float) -> np.ndarray | None:
        """Integrate to time t; returns y there, or None if the integration fails."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # VODE reports its failure as a UserWarning
            y = self._ode.integrate(t)
        return y if self._ode.successful() else None


class RadauIntegration:
    """Integration of dy/dt = f(t, y) by scipy's Radau: order 5, error control. [HairerWanner1996, ch. IV.8]"""

    def __init__(self, f: Callable, t: float, y: np.ndarray, end: float, rtol: float, atol: float) -> None:
        from scipy.integrate import Radau  # slow to load, seldom needed

        self._solver = Radau(f, t, y, end, rtol=rtol, atol=atol)

    def reach(self, t: float) -> np.ndarray | None:
        """Integrate to time t; returns y there, or None if the integration fails."""
        while self._solver.status == "running" and self._solver.t < t:
            self._solver.step()
        if self._solver.status == "failed":
            return None
        return np.array(self._solver.y if self._solver.t == t else self._solver.dense_output()(t))


def _advance(kind: Any, n_steps, h, tick, m, calls, law, rtol, atol):  # type: ignore[no-untyped-def]
    """Integrate over n_steps ticks of length h from `tick`. Returns (status, ticks completed, index of the fired guard
    or -1).

    kind           class of the integration, AdamsIntegration or RadauIntegration
    tick           number of the first tick; a tick is the fixed step of the simulation
    m, calls, law  arguments that all loops share (see integrators/step.py)
    rtol, atol     relative and absolute tolerances of the error of q and v
    """
    jumps = law[LAW_MODE] == PROJECTING or (law[LAW_MODE] == SAMPLED and law[LAW_ROWS] > 0)
    integration, left, dydt = None, MOST_EVALUATIONS, np.zeros(m.state[:2].size)

    def f(t: float, y: np.ndarray) -> np.ndarray:
        nonlocal left
        left -= 1
        if left < 0:
            raise OutOfEvaluations
        right_hand_side(m, calls, law, h, t, y, dydt)
        return dydt.copy()

    for step in range(n_steps):
        start, left = m.state[:2].flatten(), MOST_EVALUATIONS
        open_tick(m, calls, law, h, tick + step)
        try:
            if integration is None or jumps:
                end = (tick + step + 1 if jumps else tick + n_steps) * h
                integration = kind(f, (tick + step) * h, start, end, rtol, atol)
            y = integration.reach((tick + step + 1) * h)
        except OutOfEvaluations:
            y = None
        if y is None:
            m.state[:2] = start.reshape(2, -1)
            return (STEP_TOO_SMALL if np.isfinite(dydt).all() else DIVERGED), step, -1
        status, guard = close_tick(m, calls, law, h, tick + step + 1, y)
        if status != DONE:
            return status, step + int(status == EVENT), guard
    close_call(m, calls, law)
    return DONE, n_steps, -1


advance_adams = partial(_advance, AdamsIntegration)
advance_radau = partial(_advance, RadauIntegration)
