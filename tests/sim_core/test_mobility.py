"""Mass matrices, gravity and speed terms from a description alone equal those of the derived equations."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from robots.registry import build
from sim_core.mechanism import Body, Joint, Mechanism
from sim_core.mobility import dynamics_at, inverse_of, mass_matrix_at, moving_bodies
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


def test_mass_matrices_of_several_trees_and_their_inverses_are_those_of_the_compiled_system() -> None:
    """Three trees whose coordinates alternate, one of them with a body that no joint turns."""
    inertia = (0.1, 0.2, 0.3, 0.01, 0.02, 0.03)
    bodies = [Body(name=f"b{k}", mass=1.0 + k, inertia=inertia, center_of_mass=(0.1, 0.2, 0.3)) for k in range(7)]
    parents = ("ground", "ground", "ground", "b0", "b1", "b3", "b1")
    kinds = ("revolute", "planar", "prismatic", "spherical", "revolute", "revolute", "prismatic")
    joints = [
        Joint(name=f"j{k}", kind=kind, parent=parent, child=f"b{k}", axis=(0.6, 0.0, 0.8), parent_point=(0.3, 0.0, 0.1))  # type: ignore[arg-type]
        for k, (kind, parent) in enumerate(zip(kinds, parents, strict=True))
    ]
    n = sum(len(joint.coordinates) for joint in joints)
    q = np.random.default_rng(2).uniform(-1.0, 1.0, (5, n))
    q[:, 5:8] = 0.0
    still = {"initial_q": (0.0,) * n, "initial_v": (0.0,) * n}
    mechanism = Mechanism(name="trees", coordinates="joint", bodies=tuple(bodies), joints=tuple(joints), **still)
    system, M = assemble(mechanism), mass_matrix_at(mechanism, moving_bodies(mechanism, q))
    expected = np.array([system.terms(0.0, each, 0.0 * each)[0] for each in q])
    np.testing.assert_allclose(M, expected, atol=1e-12)
    np.testing.assert_allclose(inverse_of(M), np.linalg.inv(expected), rtol=1e-9, atol=1e-9)
