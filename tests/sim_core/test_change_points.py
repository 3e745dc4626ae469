"""Linkages that pass through change points, where all bars lie in line and the rows lose rank, under the defaults."""

from __future__ import annotations

import dataclasses
import math
import warnings

import numpy as np
import pytest

from robots.registry import build
from sim_core.errors import ConstraintGapWarning, SimulationDiverged
from sim_core.mechanism.description import Body, ConstraintMode, Joint, Mechanism, Tunable
from sim_core.mechanism.quantities import Number, value_of
from sim_core.simulation import Simulation
from sim_core.system import System, assemble

KNOWN = (0.4, 0.9, 0.6, 1.1)  # crank, coupler, rocker, ground
SPEEDS = np.linspace(6.0, 15.0, 10)


def bars_of(seed: int) -> tuple[float, ...]:
    """Crank, coupler, rocker, ground with shortest + longest = the sum of the others; the crank is the shortest."""
    if seed < 0:
        return KNOWN
    random = np.random.default_rng(seed)
    crank = float(random.uniform(0.2, 0.5))
    one, other = (float(x) for x in crank + random.uniform(0.1, 0.7, 2))
    longest = one + other - crank
    rest = [one, other, longest]
    random.shuffle(rest)
    return (crank, *rest)


def four_bar(bars: tuple[float, ...]) -> Mechanism:
    """Uniform rods of 1 kg/m, the crank upright."""
    crank, coupler, rocker, ground = bars
    start = 0.5 * math.pi
    a = np.array([crank * math.cos(start), crank * math.sin(start)])
    pivot = np.array([ground, 0.0])
    across = pivot - a
    d = float(np.hypot(*across))
    turn = math.atan2(across[1], across[0]) + math.acos((coupler**2 + d**2 - rocker**2) / (2 * coupler * d))
    b = a + coupler * np.array([math.cos(turn), math.sin(turn)])
    ends = [(np.zeros(2), a), (a, b), (pivot, b)]
    names = ("crank", "coupler", "rocker")
    bodies, q = [], list[float]()
    for name, (p, r) in zip(names, ends, strict=True):
        length = float(np.hypot(*(r - p)))
        inertia = (0.0, 0.0, length**3 / 12, 0.0, 0.0, 0.0)
        bodies.append(Body(name=name, mass=length, inertia=(inertia[2], inertia[2], *inertia[2:])))
        q += [*((p + r) / 2).tolist(), math.atan2(*(r - p)[::-1])]
    half = [(0.5 * bar, 0.0, 0.0) for bar in (crank, coupler, rocker)]
    back = [(-0.5 * bar, 0.0, 0.0) for bar in (crank, coupler, rocker)]
    joints = (
        Joint(name="a", child="crank", child_point=back[0]),
        Joint(name="b", parent="crank", child="coupler", parent_point=half[0], child_point=back[1]),
        Joint(name="c", parent="coupler", child="rocker", parent_point=half[1], child_point=half[2]),
        Joint(name="d", child="rocker", parent_point=(ground, 0.0, 0.0), child_point=back[2]),
    )
    return Mechanism(
        name="four_bar_at_the_limit",
        coordinates="absolute",
        bodies=tuple(bodies),
        joints=joints,
        gravity=(0.0, -9.81, 0.0),
        initial_q=tuple(q),
        initial_v=(0.0,) * 9,
    )


def turning(system: System, speed: float) -> np.ndarray:
    """Velocities with the crank at that speed."""
    J = system.terms(0.0, system.mechanism.initial_q, np.zeros(9))[2]
    rate = np.zeros(9)
    rate[2] = 1.0
    wanted = np.append(np.zeros(len(J)), speed)
    return np.linalg.lstsq(np.vstack([J, rate]), wanted, rcond=None)[0]


def run(system: System, speed: float, seconds: float) -> tuple[float, float]:
    """Largest change of the energy over the largest kinetic energy, infinite when lost; steps taken over ticks."""
    sim = Simulation(system)
    sim.reset(system.mechanism.initial_q, turning(system, speed))
    start, change, most = sim.energy(), 0.0, 0.0
    try:
        for _ in range(round(seconds / 0.01)):
            sim.advance(0.01)
            change = max(change, abs(sim.energy() - start))
            most = max(most, system.energy(sim.time, sim.state.q, sim.state.v)[0])
    except SimulationDiverged:
        return math.inf, math.inf
    lost = sim.violation()[0] > 1e-3
    return (math.inf if lost else change / most), (sim.tick + sim.substeps) / sim.tick


def check(seed: int, speeds: np.ndarray, seconds: float) -> None:
    require_passage(assemble(four_bar(bars_of(seed))), speeds, seconds)


def require_passage(system: System, speeds: np.ndarray, seconds: float) -> None:
    found = [run(system, float(speed), seconds) for speed in speeds]
    assert max(change for change, _ in found) <= 1e-3, found
    assert max(steps for _, steps in found) <= 1.5, found


@pytest.mark.parametrize("seed", [-1, 0])
def test_a_linkage_passes_its_change_points(seed: int) -> None:
    check(seed, SPEEDS[[0, 5]], 5.0)


def test_a_linkage_with_a_joint_that_can_be_released_passes_its_change_points() -> None:
    modes = (ConstraintMode(name="closed"), ConstraintMode(name="open", constraints=("a", "b", "c")))
    mechanism = dataclasses.replace(four_bar(KNOWN), name="four_bar_released", constraint_modes=modes)
    require_passage(assemble(mechanism), SPEEDS[[0, 5]], 5.0)
    sims = [Simulation(assemble(each)) for each in (mechanism, four_bar(KNOWN))]
    for sim in sims:
        sim.reset(sim.system.mechanism.initial_q, turning(sim.system, 9.0))
        sim.advance(2.0)
    assert sims[0].substeps == sims[1].substeps > 0


@pytest.mark.parametrize("factor", [1e-4, 1e4])
def test_other_masses_change_neither_the_passage_nor_its_substeps(factor: float) -> None:
    """The motion without gravity does not depend on a common factor of all masses."""
    mechanism = dataclasses.replace(four_bar(KNOWN), name="four_bar_tuned", gravity=(0.0, 0.0, 0.0))

    def tuned(name: str, number: Number) -> Tunable:
        value = value_of(number)
        return Tunable(name, value, 1e-6 * value, 1e6 * value)

    bodies = [
        dataclasses.replace(
            body,
            mass=tuned(f"{body.name}.m", body.mass),
            inertia=(*body.inertia[:2], tuned(f"{body.name}.i", body.inertia[2]), 0.0, 0.0, 0.0),
        )
        for body in mechanism.bodies
    ]
    sim = Simulation(assemble(dataclasses.replace(mechanism, bodies=tuple(bodies))))
    sim.reset(mechanism.initial_q, turning(sim.system, 9.0))
    sim.set_parameters({name: factor * value for name, value in sim.parameters.items()})
    energy = sim.energy()
    sim.advance(5.0)
    assert sim.energy() == pytest.approx(energy, rel=1e-3)
    assert 0 < sim.substeps <= 0.5 * sim.tick
    again = Simulation(sim.system)
    again.restore(sim.snapshot())
    for each in (sim, again):
        each.advance(1.0)
    np.testing.assert_array_equal(again.state.q, sim.state.q)


def test_a_restored_state_that_violates_its_constraints_is_named() -> None:
    sim = Simulation(assemble(four_bar(KNOWN)))
    sim.step(20)
    state = sim.snapshot()
    moved = dataclasses.replace(state, q=state.q + np.eye(len(state.q))[0] * 0.3)
    with pytest.warns(
        ConstraintGapWarning, match=r"the restored state of .* violates its constraints, with \|Phi\|_1 ="
    ):
        sim.restore(moved)
    assert [notice.kind for notice in sim.take_notices()] == ["constraint_gap"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sim.restore(state)


def test_a_restored_state_takes_the_same_substeps() -> None:
    system = assemble(four_bar(KNOWN))
    sim, again = Simulation(system), Simulation(system)
    sim.reset(system.mechanism.initial_q, turning(system, 9.0))
    while sim.substeps == 0:
        before = sim.snapshot()
        sim.step()
    again.restore(before)
    again.step()
    assert again.substeps == sim.substeps
    np.testing.assert_array_equal(again.state.q, sim.state.q)
    sim.step(500)
    again.step(200)
    again.step(300)
    np.testing.assert_array_equal(again.state.q, sim.state.q)
    np.testing.assert_array_equal(again.state.U, sim.state.U)


@pytest.mark.parametrize("name", ["crank_slider", "equal_crank_slider", "four_bar_chain", "epicyclic_gear_train"])
def test_where_nothing_throws_a_mechanism_its_steps_are_whole(name: str) -> None:
    """Far from change points, or with violations that are mere rounding there, as in the chain."""
    sim = Simulation(assemble(build(name)))
    sim.advance(2.0)
    assert sim.substeps == 0


def test_projection_acts_in_every_part() -> None:
    system = assemble(four_bar(KNOWN))
    sim = Simulation(system, stabilizer="projection")
    sim.reset(system.mechanism.initial_q, turning(system, 9.0))
    energy = sim.energy()
    sim.advance(5.0)
    assert sim.substeps > 0
    assert sim.energy() == pytest.approx(energy, rel=1e-2)


@pytest.mark.parametrize(("stepper", "stabilizer"), [("rk4", "baumgarte"), ("semi_implicit", "projection")])
def test_a_run_that_diverges_at_a_change_point_names_its_constraints_and_what_passes(
    stepper: str, stabilizer: str
) -> None:
    system = assemble(four_bar(KNOWN))
    sim = Simulation(system, stepper=stepper, stabilizer=stabilizer)
    sim.reset(system.mechanism.initial_q, turning(system, 12.0))
    with pytest.raises(SimulationDiverged, match=r"almost lost rank at t = .*; rk4 and dopri5 with sampled_fuzzy or"):
        sim.advance(30.0)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(-1, 10))
def test_linkages_pass_their_change_points_for_a_minute(seed: int) -> None:
    check(seed, SPEEDS, 60.0)
