"""The regressor of a tree: tau = Y pi at every state, and its base parameters."""

from __future__ import annotations

import numpy as np
import pytest

from robots.registry import build
from sim_core.errors import InvalidRequest
from sim_core.identification.base_parameters import base_parameters
from sim_core.identification.inertial_parameters import (
    BASIS,
    about_center,
    about_origin,
    is_consistent,
    metric,
    nearest_consistent,
    parameters_of,
    pseudo_inertia,
)
from sim_core.identification.regressor import LANES, Regressor
from sim_core.identification.rigid_tree import rigid_tree
from sim_core.inverse import inverse_dynamics
from sim_core.mechanism import Body, Joint, Mechanism
from sim_core.system import assemble

TREES = ("arm_2dof", "arm_4dof", "arm_6dof", "triple_pendulum", "gibbon")


def tree(name: str) -> Mechanism:
    mechanism = build(name, coordinates="joint") if name in ("triple_pendulum",) else build(name)
    return rigid_tree(mechanism, [joint.name for joint in mechanism.moving_joints])


def states(n_q: int, count: int = 11) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(3)
    q, v, a = random.normal(size=(3, count, n_q))
    return q, v, a


@pytest.mark.parametrize("name", TREES)
def test_the_regressor_times_the_parameters_is_the_inverse_dynamics(name: str) -> None:
    mechanism = tree(name)
    regressor, system = Regressor(mechanism), assemble(mechanism)
    motion = states(system.n_q)
    tau = regressor(*motion) @ regressor.pi
    expected = np.array([inverse_dynamics(system, *each) for each in zip(*motion, strict=True)])
    np.testing.assert_allclose(tau, expected, atol=1e-11 * np.abs(expected).max())


def test_spherical_and_free_joints_have_a_regressor_too() -> None:
    body = {"mass": 2.0, "inertia": (0.3, 0.2, 0.25, 0.01, -0.02, 0.03), "center_of_mass": (0.1, -0.2, 0.3)}
    mechanism = Mechanism(
        name="floating",
        coordinates="joint",
        bodies=(Body(name="base", **body), Body(name="ball", **body)),
        joints=(
            Joint(name="float", kind="free", child="base"),
            Joint(name="socket", kind="spherical", parent="base", child="ball", parent_point=(0.0, 0.0, 0.5)),
        ),
        initial_q=(0.0,) * 9,
        initial_v=(0.0,) * 9,
    )
    regressor, system = Regressor(mechanism), assemble(mechanism)
    motion = states(system.n_q)
    expected = np.array([inverse_dynamics(system, *each) for each in zip(*motion, strict=True)])
    np.testing.assert_allclose(regressor(*motion) @ regressor.pi, expected, atol=1e-11 * np.abs(expected).max())


def test_bound_kernels_write_the_same_numbers() -> None:
    regressor = Regressor(tree("arm_4dof"))
    motion = states(4, LANES)
    Y = regressor(*motion)
    q, v, a = (array[2].copy() for array in motion)
    out = np.zeros(Y.shape[1:], order="F")
    regressor.bind(q, v, a, out)()
    np.testing.assert_allclose(out, Y[2], atol=1e-12 * np.abs(Y).max())
    lanes = np.zeros((Y.shape[2], Y.shape[1], LANES))
    regressor.bind_lanes(*(np.ascontiguousarray(array.T) for array in motion), lanes)()
    np.testing.assert_array_equal(lanes.T, Y)


def test_arrays_of_another_shape_are_refused() -> None:
    regressor = Regressor(tree("arm_2dof"))
    with pytest.raises(InvalidRequest, match=r"v has shape \(3, 2\)"):
        regressor(np.zeros((4, 2)), np.zeros((3, 2)), np.zeros((4, 2)))
    with pytest.raises(ValueError, match="Fortran order"):
        regressor.bind(np.zeros(2), np.zeros(2), np.zeros(2), np.zeros((2, 20)))


@pytest.mark.parametrize("name", TREES)
def test_base_parameters_give_the_same_efforts_with_fewer_numbers(name: str) -> None:
    regressor = Regressor(tree(name))
    base = base_parameters(regressor)
    motion = states(len(regressor.joints), 40)
    Y = regressor(*motion)
    np.testing.assert_allclose(
        Y[:, :, base.columns] @ (base.B @ regressor.pi), Y @ regressor.pi, atol=1e-8 * np.abs(Y @ regressor.pi).max()
    )
    stacked = Y[:, :, base.columns].reshape(-1, len(base.columns))
    sizes = np.linalg.norm(stacked, axis=0)
    assert np.linalg.matrix_rank(stacked / np.where(sizes > 0.0, sizes, 1.0)) == int(np.sum(sizes > 0.0))


def test_the_pendulum_has_two_base_parameters_and_the_double_pendulum_tells_no_single_mass() -> None:
    assert len(base_parameters(Regressor(tree("arm_2dof"))).columns) < 20
    mechanism = Mechanism(
        name="pendulum",
        coordinates="joint",
        bodies=(Body(name="bob", mass=1.0, inertia=(0.1, 0.1, 0.01, 0.0, 0.0, 0.0), center_of_mass=(0.0, 0.0, -0.5)),),
        joints=(Joint(name="hinge", child="bob", axis=(0.0, 1.0, 0.0)),),
        initial_q=(0.0,),
        initial_v=(0.0,),
    )
    base = base_parameters(Regressor(mechanism))
    assert [base.name(k) for k in range(3)] == ["bob/hx", "bob/hz", "bob/Iyy"]
    assert len(base.columns) == 3
    mass = np.eye(10)[0]
    assert not base.is_determined(mass)
    assert "bob/m" in base.without_effect


def test_pseudo_inertias_and_parameters_are_inverse_maps() -> None:
    random = np.random.default_rng(1)
    pi = random.normal(size=10)
    np.testing.assert_allclose(parameters_of(pseudo_inertia(pi)), pi, atol=1e-14)
    np.testing.assert_allclose(np.einsum("kij,k->ij", BASIS, pi), pseudo_inertia(pi), atol=1e-14)
    m, c, inertia = about_center(about_origin(2.0, [0.1, 0.2, 0.3], np.diag([0.3, 0.2, 0.4])))
    np.testing.assert_allclose([m, *c, *np.diag(inertia)], [2.0, 0.1, 0.2, 0.3, 0.3, 0.2, 0.4], atol=1e-14)


def test_the_distance_of_inertias_does_not_depend_on_units() -> None:
    pi = about_origin(2.0, [0.1, 0.2, 0.3], np.diag([0.3, 0.2, 0.4]))
    change = 0.01 * np.random.default_rng(2).normal(size=10)
    millimetres = np.array([1.0, *[1e3] * 3, *[1e6] * 6])
    ours = change @ metric(pi) @ change
    np.testing.assert_allclose((change * millimetres) @ metric(pi * millimetres) @ (change * millimetres), ours)
    doubled = 2.0 * pi - pi
    np.testing.assert_allclose(doubled @ metric(pi) @ doubled, 2.0, rtol=1e-12)  # tr(1) / 2


def test_an_impossible_inertia_has_a_nearest_consistent_one() -> None:
    rod = about_origin(1.0, [0.0, 0.0, -0.3], np.diag([0.05, 0.05, 0.0]))
    needle = about_origin(1.0, [0.0, 0.0, -0.3], np.diag([0.05, 0.01, 0.0]))
    assert not is_consistent(needle)
    for pi in (rod, needle):
        assert is_consistent(nearest_consistent(pi, 1e-4))
        np.testing.assert_allclose(nearest_consistent(pi, 1e-4)[:4], pi[:4])
