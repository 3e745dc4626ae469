"""What other engines compute from the files we export is what we compute, in 1,000 random states per robot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from robots.registry import build
from sim_core.inverse import forward_dynamics, forward_kinematics, inverse_dynamics, mass_matrix
from sim_core.mechanism import Mechanism
from sim_core.system import System, assemble

TREES = [f"tree_{seed}" for seed in range(4)]
ROBOTS: dict[str, dict[str, Any]] = {
    "charmie": {"limits": "none"},
    "arm_2dof": {"limits": "none"},
    "arm_4dof": {"limits": "none"},
    "arm_6dof": {"limits": "none"},
    "rotary_pendulum": {"coordinates": "joint"},
}
STATES = 1000
RELATIVE = 1e-9


@pytest.fixture(params=[*ROBOTS, *TREES], scope="module")
def system(request: pytest.FixtureRequest, random_tree: Callable[[int], Mechanism]) -> System:
    if request.param in ROBOTS:
        return assemble(build(request.param, **ROBOTS[request.param]))
    return assemble(random_tree(int(request.param.removeprefix("tree_"))))


@pytest.fixture(scope="module")
def theirs(system: System, engine: Any) -> Any:
    return engine(system)


@pytest.fixture(scope="module")
def states(system: System) -> np.ndarray:
    """(STATES, 3, n_q): positions over several turns, velocities, accelerations."""
    return np.random.default_rng(20).normal(scale=(3.0, 2.0, 5.0), size=(STATES, system.n_q, 3)).transpose(0, 2, 1)


def misses(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference, relative to the largest of theirs."""
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def damping_of(system: System) -> np.ndarray:
    """N m s or N s/m, of every coordinate; a planar joint brakes its turning."""
    found: list[float] = []
    for joint in system.mechanism.joints:
        damping = float(getattr(joint.damping, "value", joint.damping))
        found += {"planar": [0.0, 0.0, damping], "fixed": []}.get(joint.kind, [damping])
    return np.array(found)


def brake(theirs: Any, system: System) -> np.ndarray:
    """The damping that an engine's algorithms leave to the caller."""
    return damping_of(system) if type(theirs).__name__ == "Pinocchio" else np.zeros(system.n_q)


def test_the_mass_matrix_agrees(system: System, theirs: Any, states: np.ndarray) -> None:
    worst = max(misses(mass_matrix(system, q), theirs.mass_matrix(q)) for q, _, _ in states)
    assert worst < RELATIVE


def test_the_inverse_dynamics_agree(system: System, theirs: Any, states: np.ndarray) -> None:
    worst, damping = 0.0, brake(theirs, system)
    for q, v, a in states:
        worst = max(worst, misses(inverse_dynamics(system, q, v, a), theirs.inverse_dynamics(q, v, a) + damping * v))
    assert worst < RELATIVE


def test_the_forward_dynamics_agree(system: System, theirs: Any, states: np.ndarray) -> None:
    worst, damping = 0.0, brake(theirs, system)
    for q, v, tau in states:
        worst = max(
            worst, misses(forward_dynamics(system, q, v, tau), theirs.forward_dynamics(q, v, tau - damping * v))
        )
    assert worst < RELATIVE


def test_the_bodies_are_at_the_same_place(system: System, theirs: Any, states: np.ndarray) -> None:
    shared = getattr(theirs, "shared", slice(None))
    for q, _, _ in states:
        p, R = (np.array(part) for part in zip(*forward_kinematics(system, q).values(), strict=True))
        p_theirs, R_theirs = theirs.poses(q)
        assert misses(p[shared], p_theirs) < RELATIVE
        assert np.abs(R[shared] - R_theirs).max() < RELATIVE


def test_closed_charmie_is_closed_in_mujoco_too(in_mujoco: Any) -> None:
    """Springs and closures; the connections at their stiffest, whose compliance leaves 1e-4 of the load."""
    mujoco = pytest.importorskip("mujoco")
    system = assemble(build("charmie", loops="closed", limits="none"))
    theirs = in_mujoco(system)
    model, data = theirs.model, theirs.data
    start = np.array(system.mechanism.initial_q)
    for q, v, a in np.random.default_rng(8).normal(size=(100, 3, system.n_q)):
        assert misses(inverse_dynamics(system, q, v, a), theirs.inverse_dynamics(q, v, a)) < RELATIVE
    model.opt.disableflags = int(mujoco.mjtDisableBit.mjDSBL_LIMIT)
    model.eq_solimp[:, :2] = 0.9999
    model.opt.tolerance, model.opt.iterations = 0.0, 100
    for tau in np.random.default_rng(9).normal(scale=3.0, size=(20, system.n_q)):
        theirs_a = theirs.forward_dynamics(start, 0 * start, tau)
        assert np.abs(data.efc_pos).max() < 1e-12
        assert data.nefc == 12
        assert misses(forward_dynamics(system, start, 0 * start, tau), theirs_a) < 3e-5
