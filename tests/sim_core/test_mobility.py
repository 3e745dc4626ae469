"""Mass matrices, gravity and speed terms from a description alone equal those of the derived equations."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from robots.registry import build
from sim_core.mobility import dynamics_at
from sim_core.system import assemble


@pytest.mark.parametrize("name", ["arm_2dof", "launch/examples/bench_arm.urdf"])
def test_mass_matrix_and_forces_of_many_states_equal_those_of_the_compiled_system(name: str) -> None:
    mechanism = build(name)
    free = [dataclasses.replace(joint, damping=0.0, stops=None, friction=None) for joint in mechanism.joints]
    mechanism = dataclasses.replace(mechanism, joints=tuple(free))
    system, random = assemble(mechanism), np.random.default_rng(1)
    q, v = random.uniform(-2.0, 2.0, (2, 20, system.n_q))
    M, g, c = dynamics_at(mechanism, q, v, np.ones((20, len(mechanism.bodies))))
    for k in range(20):
        mass, force, *_ = system.terms(0.0, q[k], v[k])
        assert M[k] == pytest.approx(mass, abs=1e-12)
        assert g[k] - c[k] == pytest.approx(force, abs=1e-7)


def test_masses_scale_the_terms_of_their_bodies() -> None:
    mechanism = build("arm_2dof")
    q = v = np.full((1, 2), 0.5)
    heavy = [dynamics_at(mechanism, q, v, np.full((1, len(mechanism.bodies)), share)) for share in (1.0, 1.2)]
    for light, heavier in zip(*heavy, strict=True):
        assert heavier == pytest.approx(1.2 * light, rel=1e-6)
