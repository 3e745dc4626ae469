"""The gibbon on a cable of rigid segments: the cable sags as the beam of modes does, and in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.linalg import eigh, null_space

from robots.gibbon.chain import Chain
from robots.gibbon.lines import cable
from robots.gibbon.parameters import CABLE_BENDING, CABLE_LENGTH, CABLE_MASS, CABLE_SEGMENTS, GRAVITY
from robots.registry import build
from sim_core.errors import InvalidRequest
from sim_core.flexible.elements import beam_model
from sim_core.mechanism import Mechanism, Tunable
from sim_core.simulation import Simulation
from sim_core.state import State
from sim_core.system import assemble


@pytest.mark.parametrize("tension", [2500.0, 5e3, 20e3])
def test_midspan_is_where_the_beam_of_modes_has_it(tension: float) -> None:
    """The robot hangs by one hand at midspan: 0.2 % at most; the bar is 1 %."""
    common = {"start": "a", "start_x": CABLE_LENGTH / 2, "tension": tension}
    segments = build("gibbon", line="segments", **common).initial_q[1]
    modes = build("gibbon", line="cable", modes=49, clamp_width=0.0, **common).initial_q[1]
    assert segments == pytest.approx(modes, rel=2e-3)


def test_the_chain_is_the_beam_in_closed_form_as_its_segments_become_short() -> None:
    """Small slopes: a load F at x of a pinned beam under the tension T, with k = sqrt(T / EI).

    w(x) = F / (T L) x (L - x) - F sinh(k x) sinh(k (L - x)) / (T k sinh(k L)). The error is that of springs gathered in
    joints, of second order in the segments' length.
    """
    T, x, F = 20e3, 8.0, 10.0
    k = np.sqrt(T / CABLE_BENDING)
    expected = F * x * (CABLE_LENGTH - x) / (T * CABLE_LENGTH)
    expected -= F * np.exp(-k * 0.0) / (2.0 * T * k)  # sinh(k x) sinh(k (L - x)) / sinh(k L) is 1/2 to 1e-40
    errors = []
    for count in (100, 200, 400):
        chain = Chain(count, CABLE_LENGTH, 0.0, CABLE_BENDING, 0.0)
        errors.append(abs(-chain.point(chain.pitches([(x, 0.0, F)], T), x)[1] / expected - 1.0))
    assert errors[-1] < 1e-3
    assert errors[1] / errors[2] == pytest.approx(4.0, rel=0.3)
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.3)


def test_a_heavy_chain_without_stiffness_hangs_as_a_catenary_does() -> None:
    """With a constant force H along x at its end, z'' = mu g / H sqrt(1 + z'^2)."""
    H, count = 200.0, 400
    chain = Chain(count, CABLE_LENGTH, CABLE_MASS, 1e-6, 0.0)
    pitches = chain.pitches([], H)
    a = H / (CABLE_MASS * GRAVITY)
    half = CABLE_LENGTH / 2
    span, sag = 2 * a * np.arcsinh(half / a), np.hypot(a, half) - a
    assert chain.point(pitches, CABLE_LENGTH) == (pytest.approx(span, rel=1e-5), pytest.approx(0.0, abs=1e-12))
    assert -chain.point(pitches, half)[1] == pytest.approx(sag, rel=1e-4)


def test_the_vibrations_of_the_chain_are_those_of_the_beam() -> None:
    """The first five against the beam's modes: 0.5 % at most; the bar is 1 %. The fastest is as the chain says."""
    tension, zeta = 4500.0, 0.05
    chain = Chain(CABLE_SEGMENTS, CABLE_LENGTH, CABLE_MASS, CABLE_BENDING, zeta)
    n = chain.count
    parts = chain.parts(Tunable("tension", tension, unit="N"))
    still: dict[str, Any] = {"initial_q": (0.0,) * n, "initial_v": (0.0,) * n, "gravity": (0.0, 0.0, 0.0)}
    system = assemble(Mechanism(name="chain", coordinates="joint", constraints=(chain.support(),), **parts, **still))
    zero, small = np.zeros(n), 1e-6
    M, _, J = system.terms(0.0, zero, zero)[:3]
    sides = [[system.terms(0.0, sign * small * each, zero)[1] for each in np.eye(n)] for sign in (1.0, -1.0)]
    K = -np.array(np.subtract(*sides)).T / (2.0 * small)
    free = null_space(J)
    squares = eigh(free.T @ K @ free, free.T @ M @ free, eigvals_only=True)
    beam = beam_model(cable(tension, 49, 0.01)).frequencies
    np.testing.assert_allclose(np.sqrt(squares[:5]), beam[:5], rtol=5e-3)
    assert np.sqrt(squares[-1]) == pytest.approx(chain.fastest, rel=0.01)


def test_a_snapshot_of_many_segments_goes_on_to_the_same_bytes() -> None:
    """Over a release: the segment that a hand holds is in the state."""
    system = assemble(build("gibbon", line="segments"))

    def run(simulation: Simulation, first: int, last: int) -> None:
        for tick in range(first, last):
            simulation.set_effort({"grip_a": 1.0, "grip_b": float(tick < 30), "elbow": 10.0})
            simulation.step()

    simulation, other = (Simulation(system, step_s=1e-3) for _ in range(2))
    run(simulation, 0, 20)
    kept = State.from_plain(simulation.snapshot().to_plain())
    run(simulation, 20, 60)
    assert simulation.constraint_mode == "a"
    other.step(3)
    other.restore(kept)
    run(other, 20, 60)
    assert other.snapshot().to_plain() == simulation.snapshot().to_plain()


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"line": "segments", "modes": 12}, "modes is 12, but line is 'segments'; .* set line to 'cable'"),
        ({"line": "cable", "segments": 12}, "segments is 12, but line is 'cable'; .* set line to 'segments'"),
        ({"line": "segments", "segments": 5}, "segments is 5"),
        ({"line": "segments", "tension": 1e3}, "tension is 1000 N; it must be from 2000 N to 20000 N"),
        ({"line": "bars", "tension": 5e3}, "tension is 5000.0, but line is 'bars'; .* 'cable' or 'segments'"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(parameters: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        build("gibbon", **parameters)
