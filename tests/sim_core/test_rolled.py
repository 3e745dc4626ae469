"""Kernels that are loops over links give the numbers of straight-line kernels."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import numpy as np
import pytest

from robots import build
from sim_core import Simulation, forward_dynamics, inverse_dynamics
from sim_core.derivation.rolled.kernels import derive_rolled
from sim_core.errors import InvalidRequest
from sim_core.kernels.choice import is_rolled
from sim_core.kernels.effort import CompilationTooLarge
from sim_core.kernels.rolled import module_of_rolled
from sim_core.mechanism import GROUND, Actuator, Body, Joint, JointOutput, Mechanism, Tunable, X, Y, Z
from sim_core.system import System, assemble

AGREEMENT = 1e-12


def tree(n: int, seed: int = 0, kinds: tuple[str, ...] = ("revolute",), branches: int = 1, **more: object) -> Mechanism:
    """A tree of n bodies in space with random numbers; `branches` is the number of children of a body, 1 for a chain.

    kinds  kinds of the joints, which take turns
    """
    random = np.random.default_rng(seed)
    bodies, joints = list[Body](), list[Joint]()
    for k in range(n):
        moments = 0.01 * (1.0 + 0.2 * random.random(3))
        products = 1e-3 * random.normal(size=3)
        center = 0.1 * random.normal(size=3)
        bodies.append(
            Body(
                name=f"body_{k}",
                mass=1.0 + random.random(),
                inertia=(*moments, *products),
                center_of_mass=tuple(center.tolist()),
            )
        )
        axis = random.normal(size=3)
        axis /= np.linalg.norm(axis)
        kind, parent = kinds[k % len(kinds)], (k - 1) // branches
        points = 0.2 * random.normal(size=(2, 3))
        joints.append(
            Joint(
                name=f"joint_{k}",
                kind=kind,
                parent=f"body_{parent}" if k else GROUND,
                child=f"body_{k}",
                parent_point=tuple(points[0].tolist()),
                child_point=tuple(points[1].tolist()),
                axis=(X, Y, Z, tuple(axis.tolist()))[k % 4],
                rotation=((0.0, -1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)),
                **({} if kind == "fixed" else {"damping": 0.1, "load": 0.3 * (k % 3), "armature": 0.01 * (k % 2)}),
            )
        )
    moving = [joint.name for joint in joints if joint.kind != "fixed"]
    q, v = 0.3 * random.normal(size=(2, len(moving)))
    return Mechanism(
        name=f"tree_{n}",
        coordinates="joint",
        bodies=tuple(bodies),
        joints=tuple(joints),
        actuators=(Actuator(name="first", joint=moving[0]), Actuator(name="last", joint=moving[-1])),
        outputs=(JointOutput(name="middle", joint=moving[len(moving) // 2]),),
        initial_q=tuple(q.tolist()),
        initial_v=tuple(v.tolist()),
        **more,
    )


MECHANISMS = {
    "chain": tree(12),
    "chain of sliding joints": tree(9, 1, ("prismatic", "revolute", "revolute")),
    "tree": tree(15, 2, ("revolute", "prismatic"), branches=2),
    "tree with fixed bodies": tree(14, 3, ("fixed", "revolute", "fixed", "prismatic", "revolute"), branches=3),
    "one link": tree(1, 4),
}


def differs(a: object, b: object) -> float:
    """Largest difference of two results, as a share of the largest entry of the second."""
    found, expected = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    assert found.shape == expected.shape
    return float(np.abs(found - expected).max(initial=0.0) / max(np.abs(expected).max(initial=0.0), 1e-300))


def results(system: System) -> dict[str, object]:
    random = np.random.default_rng(7)
    q, v, tau = random.normal(size=(3, system.n_q))
    u = random.normal(size=system.n_u)
    M, f, J, gamma = system.terms(0.0, q, v, u)
    a, lam, factor = system.acceleration(0.0, q, v, u)
    positions, rotations = system.poses(0.0, q, v)
    power = np.zeros(1)
    inputs = [np.zeros(1), q, v, u, system.default_parameters()]
    system.bind("power", inputs, [power])()
    return {
        "M": M, "f": f, "J": J, "gamma": gamma, "a": a, "lam": lam,
        "M a": M @ a,
        "apply": system.apply(factor, tau, np.zeros(0))[0],
        "forward dynamics": forward_dynamics(system, q, v, tau),
        "inverse dynamics": inverse_dynamics(system, q, v, tau),
        "energy": system.energy(0.0, q, v), "power": power,
        "positions": positions, "rotations": rotations,
        "joints": system.joints(0.0, q, v), "outputs": list(system.outputs(0.0, q, v).values()),
        "residual": system.solve_residual(0.0, q, v, a), "least norm": system.least_norm(0.0, q, v, np.zeros(0)),
    }  # fmt: skip


@pytest.mark.parametrize("name", MECHANISMS)
def test_rolled_and_unrolled_kernels_give_the_same_numbers(name: str) -> None:
    rolled, unrolled = (assemble(MECHANISMS[name], rolled=way) for way in (True, False))
    assert (rolled.is_rolled, unrolled.is_rolled) == (True, False)
    expected = results(unrolled)
    for what, value in results(rolled).items():
        assert differs(value, expected[what]) < AGREEMENT, what


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_simulation_takes_the_same_steps_with_rolled_kernels(name: str) -> None:
    rolled, unrolled = (Simulation(assemble(MECHANISMS[name], rolled=way)) for way in (True, False))
    for simulation in (rolled, unrolled):
        simulation.advance(0.05)
    assert differs(rolled.state.q, unrolled.state.q) < AGREEMENT
    assert differs(rolled.state.v, unrolled.state.v) < AGREEMENT
    assert differs(rolled.energy(), unrolled.energy()) < AGREEMENT
    assert rolled.energy_ledger.work == pytest.approx(unrolled.energy_ledger.work, rel=AGREEMENT)


def test_a_rolled_simulation_continues_from_a_snapshot_with_the_same_bytes() -> None:
    system = assemble(MECHANISMS["tree"], rolled=True)
    whole, halves = Simulation(system), Simulation(system)
    whole.advance(0.04)
    halves.advance(0.02)
    state = halves.state
    restored = Simulation(assemble(MECHANISMS["tree"], rolled=True))
    restored.restore(state)
    restored.advance(0.02)
    assert restored.state.q.tobytes() == whole.state.q.tobytes()
    assert restored.state.v.tobytes() == whole.state.v.tobytes()


def test_a_rolled_system_is_loaded_from_the_cache() -> None:
    mechanism = MECHANISMS["chain"]
    first = assemble(mechanism, rolled=True)
    second = assemble(mechanism, rolled=True)
    assert second.code_hash == first.code_hash != assemble(mechanism, rolled=False).code_hash


HEAVY = dataclasses.replace(MECHANISMS["one link"].bodies[0], mass=Tunable("mass", 1.0))
REFUSED = {
    "absolute coordinates": build("four_bar_chain"),
    "constraints, beams": build("gibbon"),
    "tunables": dataclasses.replace(MECHANISMS["one link"], bodies=(HEAVY,)),
}


@pytest.mark.parametrize("part", REFUSED)
def test_what_cannot_be_rolled_is_refused_by_name(part: str) -> None:
    with pytest.raises(InvalidRequest, match=rf"cannot be rolled, because it has .*{part}.*; assemble .* rolled=False"):
        assemble(REFUSED[part], rolled=True)


def test_by_default_long_chains_are_rolled_and_short_or_branched_trees_are_not() -> None:
    assert [n for n in (5, 10, 20, 30, 60) if is_rolled(tree(n))] == [30, 60]
    assert not is_rolled(tree(60, branches=2))
    assert not is_rolled(tree(60), forced=False)
    assert is_rolled(tree(1000, branches=1))


def test_straight_line_derivatives_of_a_long_chain_are_refused_before_their_derivation() -> None:
    system = assemble(tree(400))
    assert system.is_rolled
    for request in (lambda: system.derivatives(0.0, np.zeros(400), np.zeros(400)), system.casadi, system.batch):
        with pytest.raises(CompilationTooLarge):
            request()


def lines_run(work: Callable[[], Any]) -> int:
    """Number of lines of Python that a function runs, with every round of a loop."""
    count = 0

    def trace(_frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def test_the_derivation_and_emission_of_rolled_kernels_grow_with_the_number_of_links_and_no_faster() -> None:
    def work(mechanism: Mechanism) -> None:
        assert is_rolled(mechanism)
        derivation = derive_rolled(mechanism)
        module_of_rolled(derivation.kernels, derivation.tables)

    few, many, most = (lines_run(partial(work, tree(n))) for n in (40, 320, 1280))
    assert (most - many) / (1280 - 320) <= 1.1 * (many - few) / (320 - 40)
