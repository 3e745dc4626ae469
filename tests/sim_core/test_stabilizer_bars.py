"""The figures that the stabilizers must reach on the triple pendulum at 1 ms."""

from __future__ import annotations

import pytest

from robots.registry import build
from sim_core.simulation import Simulation
from sim_core.stabilization.stabilizers import Baumgarte, SampledFuzzy
from sim_core.system import assemble


def test_sampled_fuzzy_holds_the_triple_pendulum_for_ten_minutes() -> None:
    sim = Simulation(assemble(build("triple_pendulum")), step_s=1e-3)
    start, drift = sim.energy(), 0.0
    for _ in range(6000):
        sim.advance(0.1)
        drift = max(drift, abs(sim.energy() - start))
    assert sim.peak_violation()[0] <= 2e-7
    assert drift <= 1e-3


def injected(stabilizer: SampledFuzzy, seconds: float) -> tuple[float, float]:
    """Largest departure of the energy after any step, J, and |Phi|_1 at the end, from a start 0.05 m off."""
    sim = Simulation(assemble(build("triple_pendulum", shift=0.05)), step_s=1e-3, stabilizer=stabilizer)
    start, most = sim.energy(), 0.0
    for _ in range(round(seconds * 1e3)):
        sim.step()
        most = max(most, abs(sim.energy() - start))
    return most, sim.violation()[0]


def test_a_start_off_the_manifold_is_pulled_in_with_little_energy() -> None:
    energy, left = injected(SampledFuzzy(), 2.0)
    assert energy <= 0.15
    assert left <= 1e-10
    # saturation is what keeps it small: a law of the same poles that never saturates
    assert injected(SampledFuzzy(saturation=10.0), 0.1)[0] >= 20 * energy


@pytest.mark.parametrize("alpha_beta", [(5.0, 5.0), (5.0, 12.0), (None, None)])
def test_baumgartes_usual_gains_hold_what_no_gains_let_drift(alpha_beta: tuple[float | None, float | None]) -> None:
    system = assemble(build("triple_pendulum"))
    peaks = []
    for stabilizer in (Baumgarte(*alpha_beta), "none"):
        sim = Simulation(system, step_s=1e-3, stabilizer=stabilizer)
        sim.advance(60.0)
        peaks.append(sim.peak_violation()[0])
    assert peaks[0] <= 1e-4 <= 1e-3 <= peaks[1]
