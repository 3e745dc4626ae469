"""Gibbons, and what they are made to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from robots.registry import build
from sim_core.simulation import Simulation
from sim_core.state import Transition
from sim_core.system import assemble


def _hang(**parameters: Any) -> Simulation:
    return Simulation(assemble(build("gibbon", **parameters)))


@pytest.fixture(scope="session")
def hang() -> Callable[..., Simulation]:
    """A simulation of a gibbon at its start, of the parameters given."""
    return _hang


@pytest.fixture(scope="session")
def about_to_grip() -> Callable[..., Simulation]:
    """Hand a holds, hand b comes up to where it would hold: the elbow is `off` rad short of that, at `rate` rad/s."""

    def make(off: float = 0.02, rate: float = -0.5, **parameters: Any) -> Simulation:
        both, sim = build("gibbon", **parameters), _hang(start="a", **parameters)
        q, v = np.array(both.initial_q), np.zeros(len(both.initial_q))
        q[3] += off
        v[3] = rate
        sim.reset(q, v)
        return sim

    return make


@pytest.fixture(scope="session")
def step_until() -> Callable[..., Transition]:
    """Step until there is an event of a kind; others before it are dropped."""

    def step(sim: Simulation, kind: str, longest: float = 3.0) -> Transition:
        for _ in range(round(longest / sim.step_s)):
            sim.step()
            for event in sim.take_events():
                if event.kind == kind:
                    return event
        pytest.fail(f"no {kind} within {longest} s; it is in constraint mode {sim.constraint_mode!r}")

    return step
