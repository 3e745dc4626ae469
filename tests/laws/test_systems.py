"""Laws that every assembled mechanism keeps, at states all around its start."""

from __future__ import annotations

import numpy as np
import pytest

from sim_core.analysis.balance import energy_balance
from sim_core.analysis.comparison import label_of
from sim_core.errors import InvalidRequest, UnknownName
from sim_core.integrators.steppers import STEPPERS
from sim_core.inverse import forward_dynamics, forward_kinematics, inverse_dynamics, mass_matrix
from sim_core.simulation import Simulation
from sim_core.solve import reference_solution
from sim_core.stabilization.stabilizers import (
    PID,
    Baumgarte,
    DirectCorrection,
    FuzzyPaper,
    Projection,
    SampledFuzzy,
    Stabilizer,
)
from sim_core.system import System
from tests.sim_core import reference


def states(system: System, count: int = 5, spread: float = 0.3) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    random = np.random.default_rng(20)
    start = np.array(system.mechanism.initial_q)
    return [
        (
            start + spread * random.normal(size=start.size),
            random.normal(size=start.size),
            random.normal(size=system.n_u),
        )
        for _ in range(count)
    ]


def central(function, x: np.ndarray, step: float = 1e-6) -> np.ndarray:  # type: ignore[no-untyped-def]
    columns = []
    for i in range(x.size):
        e = np.zeros(x.size)
        e[i] = step
        columns.append((function(x + e) - function(x - e)) / (2 * step))
    return np.array(columns).T if columns else np.zeros((0, 0))


def test_jacobian_is_the_derivative_of_the_constraints(constrained_system: System) -> None:
    system = constrained_system
    rows = system.constraint_modes[0]
    for q, v, _ in states(system):
        J = system.terms(0.0, q, v)[2]
        numeric = central(lambda x, v=v: system.residual(0.0, x, v)[0], q)
        np.testing.assert_allclose(J[: rows.n_holonomic], numeric, atol=1e-8 * max(1.0, np.abs(J).max()))
        np.testing.assert_allclose(system.residual(0.0, q, v)[1], J @ v, atol=1e-12 * max(1.0, np.abs(J @ v).max()))


def test_gamma_is_what_the_velocity_rows_lose_to_the_motion(constrained_system: System) -> None:
    system = constrained_system
    for q, v, _ in states(system):
        gamma = system.terms(0.0, q, v)[3]
        step = 1e-6
        ahead, behind = (system.residual(0.0, q + sign * step * v, v)[1] for sign in (1, -1))
        np.testing.assert_allclose(-gamma, (ahead - behind) / (2 * step), atol=1e-7 * max(1.0, np.abs(gamma).max()))


def test_mass_matrix_is_the_curvature_of_the_kinetic_energy(system: System) -> None:
    for q, v, _ in states(system):
        M = system.terms(0.0, q, v)[0]
        np.testing.assert_allclose(M, M.T, atol=1e-15 * max(1.0, np.abs(M).max()))
        kinetic = system.energy(0.0, q, v)[0]
        assert kinetic == pytest.approx(0.5 * v @ M @ v, rel=1e-12)


def on_the_unit_spheres(system: System, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q and v with every body's Euler parameters on the sphere, and the projector that takes out its normals."""
    q, v, P = q.copy(), v.copy(), np.eye(q.size)
    names = [name.partition(".") for name in system.coordinate_names]
    for body in {name[0] for name in names if name[2] == "e0"}:
        place = [i for i, name in enumerate(names) if name[0] == body and name[2].startswith("e")]
        q[place] /= np.linalg.norm(q[place])
        v[place] -= q[place] * (q[place] @ v[place])
        P[np.ix_(place, place)] -= np.outer(q[place], q[place])
    return q, v, P


def work_of_loads(system: System, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Generalized forces of the joint loads by finite differences of the joint rates; 0 without joints."""
    loads = np.array([joint.load for joint in system.mechanism.moving_joints], dtype=float)
    return central(lambda x: system.joints(0.0, q, x)[1], v).T @ loads if loads.any() else np.zeros(v.size)


def test_forces_are_those_of_lagrange(system: System) -> None:
    """f = Q - dM/dt v + dT/dq - dV/dq by finite differences of energies and joint rates alone.

    With Euler parameters both agree on the unit sphere and but for forces along its normal, which the norm row takes.
    """
    for q, v, u in states(system, count=3):
        q, v, P = on_the_unit_spheres(system, q, v)
        f = system.terms(0.0, q, v, u)[1]
        step = 1e-6
        Mdot = (system.terms(0.0, q + step * v, v)[0] - system.terms(0.0, q - step * v, v)[0]) / (2 * step)
        dT = central(lambda x, v=v: np.array([system.energy(0.0, x, v)[0]]), q)[0]
        dV = central(lambda x, v=v: np.array([system.energy(0.0, x, v)[1]]), q)[0]
        passive = system.terms(0.0, q, v, np.zeros(system.n_u))[1]
        lagrange = -Mdot @ v + dT - dV + work_of_loads(system, q, v)
        np.testing.assert_allclose(P @ passive, P @ lagrange, atol=2e-7 * max(1.0, np.abs(passive).max()))
        power = (f - passive) @ v
        efforts = np.zeros(len(system.joint_names))
        for index, actuator in enumerate(system.mechanism.actuators):
            if actuator.joint:
                efforts[system.joint_names.index(actuator.joint)] += u[index]
        assert power == pytest.approx(efforts @ system.joints(0.0, q, v)[1], rel=1e-9, abs=1e-12)


def test_kernels_equal_the_numpy_reference(system: System) -> None:
    """M, f, J, gamma and Phi to 1e-12 of the largest entry."""
    for q, v, _ in states(system):
        M, f, J, gamma = system.terms(0.0, q, v)
        phi = system.residual(0.0, q, v)[0]
        for ours, slow in zip((M, f, J, gamma, phi), reference.terms(system.mechanism, q, v), strict=True):
            assert ours.shape == slow.shape
            if ours.size:
                assert np.abs(ours - slow).max() <= 1e-12 * max(1.0, np.abs(slow).max())


def test_inverse_dynamics_is_what_mass_and_forces_ask_for(system: System) -> None:
    random = np.random.default_rng(5)
    for q, v, _ in states(system):
        M, f, _, _ = system.terms(0.0, q, v)
        a = random.normal(size=system.n_q)
        scale = np.abs(M) @ np.abs(a) + np.abs(f)
        assert np.abs(inverse_dynamics(system, q, v, a) - (M @ a - f)).max() <= 1e-12 * max(1.0, scale.max())


def test_the_mass_matrix_is_the_force_per_acceleration_and_weighs_the_speeds(system: System) -> None:
    rest = np.zeros(system.n_q)
    for q, v, _ in states(system, count=2):
        M = mass_matrix(system, q)
        bias = inverse_dynamics(system, q, rest, rest)
        columns = [inverse_dynamics(system, q, rest, unit) - bias for unit in np.eye(system.n_q)]
        scale = max(1.0, np.abs(M).max(), np.abs(bias).max())
        np.testing.assert_allclose(M, np.array(columns).T, rtol=0, atol=1e-11 * scale)
        np.testing.assert_allclose(M, M.T, rtol=0, atol=1e-12 * scale)
        kinetic = system.energy(0.0, q, v)[0]
        assert v @ M @ v / 2.0 == pytest.approx(kinetic, rel=1e-10)


def test_forward_dynamics_undoes_inverse_dynamics_where_nothing_is_constrained(system: System) -> None:
    """Where rows constrain the motion it is the constrained acceleration under the same forces."""
    random = np.random.default_rng(6)
    for q, v, _ in states(system):
        tau = random.normal(size=system.n_q)
        M, f, J, gamma = system.terms(0.0, q, v)
        a = forward_dynamics(system, q, v, tau)
        expected, _ = reference_solution(M, f + tau, J, gamma)
        np.testing.assert_allclose(a, expected, rtol=0, atol=1e-8 * max(1.0, np.abs(expected).max()))
        if not len(J):
            scale = np.abs(M) @ np.abs(a) + np.abs(f)
            assert np.abs(inverse_dynamics(system, q, v, a) - tau).max() <= 1e-11 * max(1.0, scale.max())


def test_forward_kinematics_gives_the_poses_by_name(system: System) -> None:
    for q, v, _ in states(system, count=2):
        frames = reference.frames_along(system.mechanism, q, v)
        found = forward_kinematics(system, q)
        assert list(found) == [body.name for body in system.mechanism.bodies]
        for name, (p, R) in found.items():
            np.testing.assert_allclose(p, frames[name].p.x, rtol=0, atol=1e-12)
            np.testing.assert_allclose(R, frames[name].R.x, rtol=0, atol=1e-12)


def test_numbers_that_are_not_finite_and_bodies_that_are_not_there_are_refused_by_name(system: System) -> None:
    zero, bad = np.zeros(system.n_q), np.full(system.n_q, np.nan)
    for place, name in enumerate("qva"):
        arguments = [zero, zero, zero]
        arguments[place] = bad
        with pytest.raises(InvalidRequest, match=rf"{name}\[0\] is nan; it must be a finite number"):
            inverse_dynamics(system, *arguments)
    poses = forward_kinematics(system, system.mechanism.initial_q)
    name = system.mechanism.bodies[0].name
    for kind in (UnknownName, KeyError):
        with pytest.raises(kind) as refused:
            poses[f"{name}x"]
        assert str(refused.value).startswith(f"robot '{system.mechanism.name}' has no body '{name}x'")
        assert "did you mean" in str(refused.value)


def test_arrays_of_another_size_are_refused_by_name(system: System) -> None:
    q = np.zeros(system.n_q)
    with pytest.raises(ValueError, match=rf"a has {system.n_q + 1} entries; .* takes {system.n_q}"):
        inverse_dynamics(system, q, q, np.zeros(system.n_q + 1))
    with pytest.raises(InvalidRequest, match="assemble"):
        inverse_dynamics(system.mechanism, q, q, q)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="q must be a numpy array of float64"):
        system.bind_inverse_dynamics(q.tolist(), q, q, q)
    with pytest.raises(ValueError, match=r"out has shape"):
        system.bind_inverse_dynamics(q, q, q, np.zeros(system.n_q + 1))


def test_accelerations_solve_the_constrained_equations(system: System) -> None:
    """KKT residual to 1e-11 of its terms, and the least-squares reference."""
    for q, v, u in states(system):
        M, f, J, gamma = system.terms(0.0, q, v, u)
        a, lam, _ = system.acceleration(0.0, q, v, u)
        dynamics = np.abs(M) @ np.abs(a) + np.abs(J).T @ np.abs(lam) + np.abs(f)
        assert np.abs(M @ a + J.T @ lam - f).max() <= 1e-11 * dynamics.max()
        if len(J):
            rows = np.abs(J) @ np.abs(a) + np.abs(gamma)
            # what stays where it is has rows without terms: 0 to the rounding of all accelerations
            assert np.abs(J @ a - gamma).max() <= 1e-11 * max(rows.max(), 1e-3 * np.abs(a).max())
        a_ref, _ = reference_solution(M, f, J, gamma)
        np.testing.assert_allclose(a, a_ref, rtol=0, atol=1e-8 * max(1.0, np.abs(a_ref).max()))


def test_a_stored_factor_solves_for_other_right_hand_sides(system: System) -> None:
    random = np.random.default_rng(3)
    for q, v, u in states(system, count=2):
        M, _, J, _ = system.terms(0.0, q, v, u)
        factor = system.acceleration(0.0, q, v, u)[2]
        r1, r2 = random.normal(size=system.n_q), random.normal(size=len(J))
        r2[~J.any(axis=1)] = 0.0  # rows that do not hold in this constraint mode
        x, y = system.apply(factor, r1, r2)
        scale = np.abs(M) @ np.abs(x) + np.abs(J).T @ np.abs(y) + np.abs(r1)
        assert np.abs(M @ x + J.T @ y - r1).max() <= 1e-11 * scale.max()
        if len(J):
            assert np.abs(J @ x - r2).max() <= 1e-10 * (np.abs(J) @ np.abs(x) + np.abs(r2)).max()


def test_least_norm_is_the_pseudo_inverse(constrained_system: System) -> None:
    """Moore and Penrose's conditions in use: J x meets what the rows can meet, and no smaller x does."""
    system = constrained_system
    random = np.random.default_rng(4)
    for q, v, _ in states(system):
        J = system.terms(0.0, q, v)[2]
        r2 = J @ random.normal(size=system.n_q)
        x = system.least_norm(0.0, q, v, r2)
        expected = np.linalg.pinv(J, rcond=1e-9) @ r2
        np.testing.assert_allclose(x, expected, rtol=0, atol=1e-9 * max(1.0, np.abs(expected).max()))


def test_joint_rates_are_the_derivatives_of_joint_positions(jointed_system: System) -> None:
    system = jointed_system
    sim = Simulation(system, step_s=1e-4, stabilizer="projection")
    sim.step(200)
    before, rate, _ = sim.joints()
    state = sim.state
    sim.step(1)
    ahead = sim.joints()[0]
    sim.restore(state)
    np.testing.assert_allclose((ahead - before) / 1e-4, rate, atol=1e-2 * max(1.0, np.abs(rate).max(initial=0.0)))


def test_energy_is_kept_without_forces(system: System, fine_step: float) -> None:
    """Over 5000 fine steps, but for what joint loads put in; a start off the manifold is projected on it first."""
    sim = Simulation(system, step_s=fine_step, stabilizer="projection")
    sim.step(5)
    start, scale = energy_balance(sim), 0.0
    for _ in range(10):
        sim.step(500)
        kinetic = system.energy(sim.time, sim.state.q, sim.state.v)[0]
        scale = max(scale, kinetic)
        assert abs(energy_balance(sim) - start) <= 1e-6 * max(scale, 1e-3)


STABILIZERS = (
    Stabilizer(),
    SampledFuzzy(),
    Projection(),
    Baumgarte(20.0, 20.0),
    PID(1e3, 1e4, 60.0),
    DirectCorrection(),
    DirectCorrection("mass", inside_rhs=True),
    FuzzyPaper(Ku=1e2),
)
FIXED = [name for name in STEPPERS if not name.endswith("_variable")]


def check_restored_snapshots(system: System, stepper: str, stabilizer: Stabilizer) -> None:
    if system.mechanism.oriented_joints and STEPPERS[stepper].spans_steps:
        with pytest.raises(InvalidRequest, match="are redefined after each time step; use one of"):
            Simulation(system, step_s=2e-4, stepper=stepper, stabilizer=stabilizer)
        return
    # a step that the squeezer, at thousands of rad/s, lets every method take
    sim = Simulation(system, step_s=2e-4, stepper=stepper, stabilizer=stabilizer)
    sim.set_effort([0.01] * system.n_u)
    sim.step(37)
    kept = sim.snapshot()
    sim.step(53)
    first = sim.snapshot().to_plain()
    other = Simulation(system, step_s=2e-4, stepper=stepper, stabilizer=stabilizer)
    other.restore(kept.from_plain(kept.to_plain()))
    other.step(53)
    assert other.snapshot().to_plain() == first
    sim.restore(kept)
    for _ in range(53):
        sim.step(1)
    assert sim.snapshot().to_plain() == first


@pytest.mark.parametrize("stepper", FIXED)
@pytest.mark.filterwarnings("ignore::sim_core.errors.StabilityWarning")
def test_a_restored_snapshot_goes_on_to_the_same_bits(system: System, stepper: str) -> None:
    check_restored_snapshots(system, stepper, SampledFuzzy())


@pytest.mark.parametrize("stabilizer", STABILIZERS, ids=label_of)
@pytest.mark.filterwarnings("ignore::sim_core.errors.StabilityWarning")
def test_a_restored_stabilizer_goes_on_to_the_same_bits(system: System, stabilizer: Stabilizer) -> None:
    check_restored_snapshots(system, "rk4", stabilizer)


@pytest.mark.parametrize("stabilizer", STABILIZERS, ids=label_of)
@pytest.mark.parametrize("stepper", FIXED)
@pytest.mark.parametrize(
    "system", ["four_bar_chain", "arm_on_elastic_stops", "mobile_arm_in_euler_parameters"], indirect=True
)
@pytest.mark.filterwarnings("ignore::sim_core.errors.StabilityWarning")
def test_every_stepper_with_every_stabilizer_goes_on_to_the_same_bits(
    system: System, stepper: str, stabilizer: Stabilizer
) -> None:
    check_restored_snapshots(system, stepper, stabilizer)


def test_arrays_handed_out_share_no_memory(system: System) -> None:
    sim = Simulation(system)
    before = sim.snapshot().to_plain()
    state, handed = sim.state, [*sim.joints(), *sim.poses(), sim.multipliers()]
    handed += [getattr(state, name) for name in ("q", "v", "u", "p", "U", "turns", "peaks")]
    for array in handed:
        array[...] = 7.0
    assert sim.snapshot().to_plain() == before
    again = [*sim.joints(), *sim.poses()]
    assert not any(np.shares_memory(a, b) for a in handed for b in again)


def test_every_kind_of_joint_moves_alike_in_both_coordinate_families(both_families: tuple[System, System]) -> None:
    """Planar, prismatic and oblique revolute joints, joint coordinates beside Euler parameters, one second."""
    sims = [Simulation(system, step_s=1e-3) for system in both_families]
    for sim in sims:
        sim.set_effort({"lift": 60.0, "shoulder": 0.5})
    measured = slice(1, None)  # the planar joint's own measure is its angle in both
    for _ in range(10):
        ends = []
        for sim in sims:
            sim.advance(0.1)
            position, velocity, _ = sim.joints()
            ends.append(np.concatenate([position[measured], velocity[measured], list(sim.outputs().values())]))
        np.testing.assert_allclose(ends[0], ends[1], atol=2e-7)
    assert sims[1].peak_violation()[0] <= 1e-6
