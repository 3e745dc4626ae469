"""The laws against independent evaluations, the poles they promise, and the steps they can bear."""

from __future__ import annotations

import ctypes
import warnings

import numpy as np
import pytest

from robots.registry import build
from sim_core.errors import InvalidRequest, SimulationDiverged, StabilityWarning, UnknownName
from sim_core.integrators.steppers import stepper_named
from sim_core.simulation import Simulation
from sim_core.stabilization import laws
from sim_core.stabilization.membership import FuzzySets
from sim_core.stabilization.registry import stabilizer_named
from sim_core.stabilization.stabilizers import Baumgarte, SampledFuzzy
from sim_core.system import assemble


def call(law, phi, phidot, gains, h=1e-3, n_holonomic=None):  # type: ignore[no-untyped-def]
    double = ctypes.POINTER(ctypes.c_double)
    kind = ctypes.CFUNCTYPE(None, *[double] * 5, ctypes.c_double, ctypes.c_int64, ctypes.c_int64)
    n = len(phidot)
    arrays = [np.ascontiguousarray(a, dtype=float) for a in (phi, phidot, gains, np.zeros(1), np.zeros(n))]
    kind(law.address)(*[a.ctypes.data_as(double) for a in arrays], h, n if n_holonomic is None else n_holonomic, n)
    return arrays[-1]


@pytest.mark.parametrize("stepper", ["rk4", "semi_implicit"])
@pytest.mark.parametrize("h", [1e-4, 1e-3, 1e-2])
def test_sampled_law_puts_both_poles_where_it_says(stepper: str, h: float) -> None:
    """The double integrator e'' = -U under hold, one step by the stepper's own plant."""
    method = stepper_named(stepper)
    gains = SampledFuzzy().gains(h, method, 1.0)
    step = np.zeros((2, 2))
    small = 1e-6 * gains[0]
    for column, (e, rate) in enumerate(((small, 0.0), (0.0, small / h))):
        U = call(laws.sampled_fuzzy, [e], [rate], gains, h)[0]
        step[:, column] = [(e + h * rate - method.hold_coefficient * h * h * U) / small, (rate - h * U) * h / small]
    np.testing.assert_allclose(np.linalg.eigvals(step), method.pole, atol=1e-6)


def test_nonholonomic_rows_use_their_rate_alone() -> None:
    assert call(laws.baumgarte, [1.0, 1.0], [0.5, 0.5], [2.0, 3.0], n_holonomic=1).tolist() == [11.0, 2.0]
    gains = SampledFuzzy().gains(1e-3, stepper_named("rk4"), 1.0)
    both = call(laws.sampled_fuzzy, [1e-4, 1e-4], [0.0, 0.0], gains, n_holonomic=1)
    assert both[0] > 0.0
    assert both[1] == 0.0


def test_gains_that_cannot_be_stable_warn_with_the_figure() -> None:
    system = assemble(build("triple_pendulum"))
    with pytest.warns(StabilityWarning, match=r"up to a step of .* ms; step_s is 5 ms"):
        sim = Simulation(system, step_s=5e-3, stabilizer="fuzzy_paper")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Simulation(system, step_s=5e-3)
    assert sim.step_s == 5e-3


def test_divergence_keeps_the_last_states_and_says_where() -> None:
    system = assemble(build("triple_pendulum"))
    with pytest.warns(StabilityWarning):
        sim = Simulation(system, step_s=1e-2, stabilizer=Baumgarte(500.0, 1000.0))
    with pytest.raises(SimulationDiverged, match="'triple_pendulum' diverged at t = ") as caught:
        sim.advance(60.0)
    error = caught.value
    stored = np.load(error.file)["t_q_v"]
    error.file.unlink()
    np.testing.assert_array_equal(stored, error.history)
    assert np.isfinite(stored).all()
    assert np.all(np.diff(stored[:, 0]) > 0)
    assert stored[-1, 0] == pytest.approx(error.time)


def test_unknown_stabilizers_and_parameters_are_named() -> None:
    with pytest.raises(UnknownName, match="no stabilizer 'fuzy'; its stabilizers are none, baumgarte"):
        stabilizer_named("fuzy")
    with pytest.raises(UnknownName, match="no parameter 'gamma'; its parameters are alpha, beta"):
        stabilizer_named("baumgarte", gamma=1.0)
    with pytest.raises(InvalidRequest, match="kind is 'square'; it must be one of triangle"):
        FuzzySets("square")  # type: ignore[arg-type]
    for bad in ({"pole": 1.0}, {"pole": float("nan")}, {"saturation": 0.0}):
        with pytest.raises(InvalidRequest, match=next(iter(bad))):
            SampledFuzzy(**bad)
