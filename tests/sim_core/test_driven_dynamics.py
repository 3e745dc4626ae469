"""Efforts of the actuators for accelerations of their joints: loops close, and forward dynamics gives them back."""

from __future__ import annotations

import numpy as np
import pytest

from robots.charmie import closed
from robots.charmie.parameters import read_parameters
from robots.registry import build
from sim_core import forward_dynamics, inverse_dynamics
from sim_core.inverse import DrivenDynamics
from sim_core.system import System, assemble


@pytest.fixture(scope="module")
def looped() -> System:
    return assemble(build("charmie", loops="closed"))


def at_random(system: System, seed: int) -> DrivenDynamics:
    """A state of CHARMIE with closed loops, and accelerations asked of the driven joints."""
    random = np.random.default_rng(seed)
    n = len(build("charmie").moving_joints)
    q = np.array(system.mechanism.initial_q[:n]) + 0.3 * random.normal(size=n)
    q[3:5] = random.uniform(0.02, 0.12), random.uniform(-1.0, -0.1)
    v, a = random.normal(size=n), random.normal(size=n)
    dynamics = DrivenDynamics(system)
    dynamics.q[:], dynamics.v[:], whole = closed.closed_motion(read_parameters(), system.joint_names, q, v, a)
    dynamics.a[:] = whole
    return dynamics


@pytest.mark.parametrize("seed", range(10))
def test_the_efforts_give_the_accelerations_that_were_asked_for(looped: System, seed: int) -> None:
    dynamics = at_random(looped, seed)
    asked = dynamics.a.copy()
    driven = [looped.joint_names.index(actuator.joint) for actuator in looped.mechanism.actuators]
    rest = np.setdiff1d(np.arange(looped.n_q), driven)
    dynamics.a[rest] = 99.0  # what the loops say, not what was there
    dynamics()
    assert np.all(dynamics.tau[rest] == 0.0)
    assert dynamics.a == pytest.approx(asked, rel=1e-9, abs=1e-9)
    given = forward_dynamics(looped, dynamics.q, dynamics.v, dynamics.tau)
    assert given == pytest.approx(asked, rel=1e-6, abs=1e-6)


def test_without_loops_it_is_the_inverse_dynamics() -> None:
    system = assemble(build("charmie"))
    random = np.random.default_rng(0)
    dynamics = DrivenDynamics(system)
    for array in (dynamics.q, dynamics.v, dynamics.a):
        array[:] = random.normal(size=system.n_q)
    dynamics()
    assert np.array_equal(dynamics.tau, inverse_dynamics(system, dynamics.q, dynamics.v, dynamics.a))


def test_a_joint_that_nobody_drives_gets_no_effort() -> None:
    system = assemble(build("rotary_pendulum", coordinates="joint"))
    dynamics = DrivenDynamics(system)
    dynamics.q[:], dynamics.a[:] = [0.1, 2.0], [1.0, 0.0]
    dynamics()
    assert dynamics.tau[1] == 0.0
    assert dynamics.tau[0] == inverse_dynamics(system, dynamics.q, dynamics.v, dynamics.a)[0]


def test_a_mechanism_in_other_coordinates_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'rotary_pendulum' does not have joint coordinates"):
        DrivenDynamics(assemble(build("rotary_pendulum")))


def test_joint_coordinates_given_to_absolute_ones_are_named() -> None:
    with pytest.raises(ValueError, match=r"q has 2 entries; 'rotary_pendulum' takes 12; .*coordinates=\"joint\""):
        inverse_dynamics(assemble(build("rotary_pendulum")), [0.0, 0.0], [0.0, 0.0], [0.0, 0.0])
