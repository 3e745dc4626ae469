"""Central differences of a kernel by the compiled loop."""

from __future__ import annotations

import numpy as np
import pytest

import robots
from sim_core.monitoring.differences import Differences
from sim_core.system import assemble


@pytest.mark.parametrize("name", ["four_bar_chain", "rotary_pendulum"])
@pytest.mark.parametrize("at", ["q", "v"])
def test_they_are_those_of_single_calls_to_the_last_bit(name: str, at: str) -> None:
    system, random = assemble(robots.build(name)), np.random.default_rng(3)
    n, rows = system.n_q, system.max_rows
    q, v, a = np.array(system.mechanism.initial_q, dtype=float), random.normal(size=n), np.zeros(n)
    given = [np.zeros(1), q, v, np.zeros(system.n_u), system.default_parameters(), np.zeros(rows)]
    accelerate = system.bind("acceleration", given, [a, np.zeros(rows), np.zeros(system.max_factor)])
    x = q if at == "q" else v
    center, directions, expected = x.copy(), 1e-3 * random.normal(size=(n - 1, n)), []
    for d in directions:
        x[:] = center + d
        accelerate()
        ahead = a.copy()
        x[:] = center - d
        accelerate()
        expected.append(ahead - a)
    x[:] = center
    found = Differences(accelerate, x, a)(directions)
    assert np.array_equal(found, expected)
    assert np.any(found != 0.0)
    assert np.array_equal(x, center)
