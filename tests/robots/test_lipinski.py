"""The double pendulum on a beam: the printed matrices, case A as it was measured, what the formulations agree on."""

from __future__ import annotations

import dataclasses
import re
import warnings
from functools import cache

import numpy as np
import pytest

from robots.benchmarks.lipinski import lipinski_pendulum
from robots.registry import build
from sim_core.derivation.beams import with_beams
from sim_core.errors import InvalidRequest, SimulationDiverged, StabilityWarning, StartWarning
from sim_core.integrators.workspace import RELAXED
from sim_core.mechanism import Mechanism
from sim_core.simulation import Simulation
from sim_core.stabilization.stabilizers import Baumgarte, SampledFuzzy, Stabilizer
from sim_core.system import assemble
from tests.sim_core import reference

TIMES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
# mid-span, x of contact, q3, q4, contact force of case A, by RK4 at 1 us with all 98 modes; force to 0.05 N
CASE_A = np.array(
    [
        [0.4738284, 2.5, -0.2240931, 1.7948894, 399.462],
        [0.3648650, 2.7034129, -0.0227115, 1.194554, 309.256],
        [0.4092331, 2.9669545, 0.4344421, -0.3998654, 325.207],
        [0.4761528, 2.1364827, -0.203462, -0.1415963, 458.795],
        [0.5845047, 2.1709009, -0.0961052, -0.6977883, 606.721],
        [0.5540690, 2.7869787, 0.37652, -0.9781759, 404.36],
    ]
)


def row_of(sim: Simulation) -> list[float]:
    outputs, angles = sim.outputs(), sim.joints()[0][2:]
    return [outputs["midspan"], outputs["contact_position"], *angles, outputs["contact_force"]]


def motion(sim: Simulation) -> tuple[np.ndarray, float]:
    """The rows at TIMES, and the largest departure of the energy at any of 1000 instants."""
    start, drift, rows = sim.energy(), 0.0, [row_of(sim)]
    for _ in TIMES[1:]:
        for _ in range(200):
            sim.advance(1e-3)
            drift = max(drift, abs(sim.energy() - start))
        rows.append(row_of(sim))
    return np.array(rows), drift


FORMULATIONS: dict[str, tuple[str, Stabilizer]] = {
    "partitioned": ("partitioned", Stabilizer()),
    "schur_sampled_fuzzy": ("schur", SampledFuzzy()),
    "augmented_baumgarte": ("augmented", Baumgarte()),
    "augmented_sampled_fuzzy": ("augmented", SampledFuzzy()),
}


@cache
def nodal_motion(name: str) -> tuple[np.ndarray, float]:
    formulation, stabilizer = FORMULATIONS[name]
    system = assemble(build("lipinski_pendulum", modes=0, formulation=formulation))
    return motion(Simulation(system, step_s=2e-5, stepper="rk4", stabilizer=stabilizer))


@pytest.mark.parametrize("name", FORMULATIONS)
def test_every_formulation_gives_the_measured_motion_and_keeps_its_energy(name: str) -> None:
    rows, drift = nodal_motion(name)
    np.testing.assert_allclose(rows[:, :4], CASE_A[:, :4], rtol=0, atol=2e-7)
    np.testing.assert_allclose(rows[:, 4], CASE_A[:, 4], rtol=0, atol=0.2)
    assert drift <= 1e-6


def test_the_formulations_agree() -> None:
    found = np.array([nodal_motion(name)[0] for name in FORMULATIONS])
    apart = np.ptp(found, axis=0).max(axis=0)
    assert (apart <= [1e-7, 1e-7, 1e-8, 1e-8, 0.5]).all(), apart


def test_the_real_time_form_follows_the_measured_motion_at_a_millisecond() -> None:
    sim = Simulation(assemble(build("lipinski_pendulum")), step_s=1e-3, stepper="implicit_midpoint")
    rows, drift = motion(sim)
    apart = np.abs(rows - CASE_A).max(axis=0)
    assert (apart[:4] <= [2e-4, 1e-4, 2e-4, 2e-4]).all(), apart
    assert drift <= 3e-3


@pytest.mark.parametrize("formulation", ["partitioned", "schur"])
def test_generalized_alpha_follows_it_too(formulation: str) -> None:
    system = assemble(build("lipinski_pendulum", formulation=formulation))
    rows, drift = motion(Simulation(system, step_s=1e-3, stepper="generalized_alpha"))
    assert (np.abs(rows - CASE_A).max(axis=0)[:4] <= [2e-4, 1e-4, 2e-4, 2e-4]).all()
    assert drift <= 3e-3


def test_the_printed_force_of_the_contact_loses_energy() -> None:
    """Vertical although the beam is inclined, it does work: 35.6 J between the highest and the lowest of a second."""
    found = {}
    for formulation in ("partitioned", "partitioned_as_printed"):
        system = assemble(build("lipinski_pendulum", formulation=formulation))
        sim = Simulation(system, step_s=2e-4, stepper="rk4")
        energies = [sim.energy()]
        for _ in range(1000):
            sim.advance(1e-3)
            energies.append(sim.energy())
        found[formulation] = np.array(energies) - energies[0]
    assert np.abs(found["partitioned"]).max() <= 1e-4
    printed = found["partitioned_as_printed"]
    assert printed.min() < -10.0
    assert np.ptp(printed) == pytest.approx(35.6, abs=0.1)


@pytest.mark.parametrize("stepper", ["implicit_midpoint", "generalized_alpha"])
@pytest.mark.parametrize("formulation", ["partitioned", "schur"])
def test_the_implicit_steppers_keep_their_order_where_the_linear_part_is_implicit(
    stepper: str, formulation: str
) -> None:
    system = assemble(build("lipinski_pendulum", elements=10, modes=3, formulation=formulation))
    ends = []
    for step in (2e-3, 1e-3, 5e-4, 2.5e-5):
        sim = Simulation(system, step_s=step, stepper=stepper, stabilizer="none")
        sim.advance(0.1)
        ends.append(np.array(row_of(sim)[:4]))
    errors = [np.abs(end - ends[-1]).max() for end in ends[:3]]
    assert np.log2(errors[1] / errors[2]) == pytest.approx(2.0, abs=0.2)
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.3)


@pytest.mark.parametrize("stabilizer", ["none", "sampled_fuzzy", "projection", "baumgarte"])
def test_the_linear_part_changes_no_result(stabilizer: str) -> None:
    """One step of the same equations with and without the kernel that holds it implicit."""
    system = assemble(build("lipinski_pendulum", elements=10, modes=3, formulation="schur"))
    sims = [Simulation(system, step_s=1e-3, stepper="implicit_midpoint", stabilizer=stabilizer) for _ in range(2)]
    assert sims[0]._calls.table[RELAXED, 0] != 0
    sims[0]._calls.table[RELAXED, 0] = 0
    for sim in sims:
        sim.advance(0.05)
    np.testing.assert_allclose(sims[0].state.q, sims[1].state.q, rtol=0, atol=1e-9)


@pytest.mark.parametrize("stepper", ["implicit_midpoint", "rk4", "radau5"])
@pytest.mark.parametrize("formulation", ["partitioned", "schur"])
@pytest.mark.parametrize("speed", [6.0, -6.0])
def test_a_point_that_slides_off_the_beam_ends_the_run_and_is_named(
    formulation: str, stepper: str, speed: float
) -> None:
    system = assemble(build("lipinski_pendulum", elements=6, modes=2, formulation=formulation))
    sim = Simulation(system, step_s=1e-3, stepper=stepper)
    q, v = np.array(system.mechanism.initial_q), np.array(system.mechanism.initial_v)
    v[0] = speed
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StartWarning)
        sim.reset(q, v)
    with pytest.raises(SimulationDiverged) as caught:
        sim.advance(1.5)
    caught.value.file.unlink()
    positions = caught.value.history[:, 1]
    assert abs(positions[-1] - (5.0 if speed > 0.0 else 0.0)) < 0.02
    assert positions[:-1].min() >= 0.0
    assert positions[:-1].max() <= 5.0
    says = r"contact 'contact' slid off the end of beam 'beam', which is 5 m long: at t = [\d.]+ s it was at x = "
    assert re.search(says, str(caught.value)), str(caught.value)


def test_a_run_that_diverges_on_its_beam_does_not_speak_of_its_end() -> None:
    with pytest.warns(StabilityWarning, match="fastest mode"):
        sim = Simulation(assemble(build("lipinski_pendulum", modes=40)), step_s=5e-3, stepper="rk4")
    with pytest.raises(SimulationDiverged, match="no longer finite") as caught:
        sim.advance(1.5)
    caught.value.file.unlink()
    assert "slid off" not in str(caught.value)


@pytest.mark.parametrize("supports", ["clamped", "simple"])
@pytest.mark.parametrize("formulation", ["partitioned", "schur", "augmented"])
def test_it_starts_in_the_equilibrium_that_the_torque_held(supports: str, formulation: str) -> None:
    mechanism = lipinski_pendulum(supports=supports, formulation=formulation, preload_torque=60.0)
    system = assemble(mechanism)
    q, v = mechanism.initial_q, mechanism.initial_v
    effort = np.zeros(system.n_q)
    effort[system.coordinate_names.index("lower")] = 60.0
    M, f, J, gamma = system.terms(0.0, q, v)
    K = np.block([[M, J.T], [J, np.zeros((len(J), len(J)))]])
    a = np.linalg.solve(K, np.concatenate([f + effort, gamma]))[: system.n_q]
    assert np.abs(a).max() <= 1e-8
    assert np.abs(system.acceleration(0.0, q, v)[0]).max() > 1.0


def test_a_torque_without_equilibrium_is_refused_with_the_largest_that_has_one() -> None:
    says = r"preload_torque is 100.0 N m; at gravity 9.81 m/s2 it must be at most 98.1 N m"
    with pytest.raises(InvalidRequest, match=says):
        build("lipinski_pendulum", gravity=9.81)
    build("lipinski_pendulum", gravity=9.81, preload_torque=98.1)
    build("lipinski_pendulum", preload_torque=-100.0)


def test_parameters_that_cannot_be_are_refused_in_one_line() -> None:
    for bad in (
        {"supports": "glued"},
        {"formulation": "penalty"},
        {"modes": 99},
        {"modes": -1},
        {"elements": 0},
        {"elements": 2.5},
        {"modes": 2.5},
        {"tension": -1.0},
        {"damping_ratio": float("nan")},
        {"gravity": -10.0},
    ):
        with pytest.raises(InvalidRequest) as caught:
            build("lipinski_pendulum", **bad)
        assert "\n" not in str(caught.value)


def bare_chain() -> Mechanism:
    """The arms without the beam."""
    plain = lipinski_pendulum(formulation="schur")
    return dataclasses.replace(plain, constraints=(), beams=(), outputs=(), initial_q=(0.0,) * 4, initial_v=(0.0,) * 4)


def test_the_arms_have_the_printed_matrices() -> None:
    """Eqs. 34 as printed: M, and F with z down. [Lipinski2023]"""
    system = assemble(bare_chain())
    m, inertia, l3, l4, d4, g = 20.0, 2.0, 0.75, 0.5, 1.5, 10.0
    random = np.random.default_rng(1)
    for _ in range(5):
        q, v = random.normal(size=(2, 4))
        s3, c3, s34, c34, s4, c4 = (f(x) for x in (q[2], q[2] + q[3], q[3]) for f in (np.sin, np.cos))
        reach = d4 * m + l3 * m
        M = np.zeros((4, 4))
        M[0, 0] = M[1, 1] = 2 * m
        M[0, 3], M[1, 3], M[3, 3] = -l4 * m * c34, -l4 * m * s34, inertia + l4**2 * m
        M[2, 3] = inertia + l4 * m * (l4 + d4 * c4)
        M[0, 2], M[1, 2] = -l4 * m * c34 - c3 * reach, -l4 * m * s34 - s3 * reach
        M[2, 2] = 2 * inertia + l4 * m * (l4 + d4 * c4) + d4 * m * (d4 + l4 * c4) + l3**2 * m
        M = np.triu(M) + np.triu(M, 1).T
        w3, w4 = v[2], v[3]
        F = np.array(
            [
                w3**2 * (l4 * m * s34 + s3 * reach) + w4 * l4 * m * s34 * (2 * w3 + w4),
                -(w3**2) * (l4 * m * c34 + c3 * reach) - w4 * l4 * m * c34 * (2 * w3 + w4) - g * 2 * m,
                l4 * g * m * s34 + g * s3 * reach - w4**2 * d4 * l4 * m * s4 - 2 * w3 * w4 * d4 * l4 * m * s4,
                w3**2 * d4 * l4 * m * s4 + l4 * g * m * s34,
            ]
        )
        ours_M, ours_f, _, _ = system.terms(0.0, q, v)
        np.testing.assert_allclose(ours_M, M, atol=1e-12 * np.abs(M).max())
        np.testing.assert_allclose(ours_f, -F, atol=1e-12 * np.abs(F).max())


def test_the_partition_is_the_whole_system_without_the_eliminated_coordinate() -> None:
    """Accelerations, contact force and joint positions of the formulations at the same states."""
    systems = {name: assemble(build("lipinski_pendulum", formulation=name)) for name in ("partitioned", "schur")}
    random = np.random.default_rng(2)
    for _ in range(5):
        q = np.array(systems["partitioned"].mechanism.initial_q) + 0.1 * random.normal(size=23)
        v = random.normal(size=23)
        drop = reference.frames_along(systems["partitioned"].mechanism, q, v)["hook"].p
        whole_q, whole_v = np.insert(q, 1, -drop.x[2]), np.insert(v, 1, -drop.d[2])
        whole = systems["schur"].acceleration(0.0, whole_q, whole_v)[0]
        np.testing.assert_allclose(
            systems["partitioned"].acceleration(0.0, q, v)[0], np.delete(whole, 1), rtol=1e-9, atol=1e-9
        )
        ours, theirs = (
            system.outputs(0.0, *state)
            for system, state in zip(systems.values(), ((q, v), (whole_q, whole_v)), strict=True)
        )
        assert ours == pytest.approx(theirs, rel=1e-9)


def test_a_system_without_beams_is_derived_as_it_was() -> None:
    from sim_core.derivation.coordinates import recursive

    symbols, motion = recursive.derive(bare_chain())
    assert with_beams(bare_chain(), symbols, motion) == (symbols, motion)
