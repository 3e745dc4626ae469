"""Many systems at once are many systems one by one."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sim_core
from robots.registry import build, names
from sim_core.errors import InvalidRequest
from sim_core.mechanism import Crossing
from sim_core.simulation import Simulation
from sim_core.system import System, assemble


def states(system: System, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    q = np.array(system.mechanism.initial_q) + 0.1 * random.normal(size=(count, system.n_q))
    return q, 0.3 * random.normal(size=(count, system.n_q)), random.normal(size=(count, system.n_q))


def close(ours: np.ndarray, theirs: np.ndarray, tolerance: float) -> None:
    assert np.abs(ours - theirs).max(initial=0.0) <= tolerance * max(1.0, np.abs(theirs).max(initial=0.0))


RIGID = [name for name in names() if not build(name).beams]


@pytest.mark.parametrize("name", RIGID)
def test_dynamics_of_every_row_are_those_of_one_system(name: str) -> None:
    """11 rows in lanes of 4: two full vectors and one that is filled up.

    Accelerations agree to 1e-12, or to twice the effect of the last digit of q, which is larger where constraints are
    redundant: batches and single systems round differently.
    """
    system = assemble(build(name))
    batch = system.batch(lanes=4)
    q, v, a = states(system, 11)
    tau, back = batch.inverse_dynamics(q, v, a), batch.forward_dynamics(q, v, a)
    for row in range(11):
        close(tau[row], sim_core.inverse_dynamics(system, q[row], v[row], a[row]), 1e-12)
        there = sim_core.forward_dynamics(system, q[row], v[row], a[row])
        moved = sim_core.forward_dynamics(system, np.nextafter(q[row], np.inf), v[row], a[row])
        last_digit = np.abs(moved - there).max() / max(1.0, np.abs(there).max())
        close(back[row], there, max(1e-12, 2.0 * last_digit))


def test_a_mechanism_with_beams_is_refused_in_one_line() -> None:
    system = assemble(build("lipinski_pendulum", elements=4, modes=2))
    with pytest.raises(InvalidRequest, match="'lipinski_pendulum' has beams, which a batch does not support"):
        system.batch()


@pytest.mark.parametrize("lanes", [2, 4, 8])
def test_a_rollout_is_the_simulation_without_stabilizer(lanes: int) -> None:
    """CHARMIE under held efforts: 50 steps to 1e-12; three systems whatever the lanes; every fifth state."""
    system = assemble(build("charmie"))
    q, v, u = states(system, 3)
    rolled = system.batch(lanes).rollout(q, v, u, step_s=1e-3, steps=50, every=5)
    assert rolled.times.tolist() == pytest.approx([0.005 * k for k in range(11)])
    assert rolled.q.shape == rolled.v.shape == (3, 11, 21)
    for row in range(3):
        sim = Simulation(system, step_s=1e-3, stepper="rk4", stabilizer="none")
        sim.reset(q[row], v[row])
        sim.set_effort(u[row])
        for k in range(11):
            close(rolled.q[row, k], sim.state.q, 1e-12)
            close(rolled.v[row, k], sim.state.v, 1e-12)
            sim.step(5)


def test_efforts_may_change_with_every_step_and_tunables_with_every_system() -> None:
    system = assemble(build("rotary_pendulum"))
    assert system.tunable_names
    random = np.random.default_rng(5)
    q, v = (np.tile(value, (5, 1)) for value in (system.mechanism.initial_q, system.mechanism.initial_v))
    u = 1e-3 * random.normal(size=(5, 20, system.n_u))
    p = system.default_parameters() * random.uniform(0.9, 1.1, size=(5, len(system.tunable_names)))
    rolled = system.batch().rollout(q, v, u, step_s=1e-3, steps=20, p=p)
    for row in range(5):
        sim = Simulation(system, step_s=1e-3, stepper="rk4", stabilizer="none")
        sim.set_parameters(dict(zip(system.tunable_names, p[row], strict=True)))
        for k in range(20):
            close(rolled.q[row, k], sim.state.q, 1e-11)
            sim.set_effort(u[row, k])
            sim.step()
        close(rolled.v[row, 20], sim.state.v, 1e-11)


def test_two_rollouts_give_the_same_bytes_whoever_shares_the_vector() -> None:
    system = assemble(build("arm_6dof"))
    batch = system.batch()
    q, v, _ = states(system, 9)
    whole = batch.rollout(q, v, step_s=1e-3, steps=30)
    again = batch.rollout(q, v, step_s=1e-3, steps=30)
    alone = batch.rollout(q[4:5], v[4:5], step_s=1e-3, steps=30)
    assert whole.q.tobytes() == again.q.tobytes()
    assert whole.v[4].tobytes() == alone.v[0].tobytes()


def test_one_system_that_diverges_leaves_the_others_alone() -> None:
    system = assemble(build("arm_2dof"))
    q, v, _ = states(system, 3)
    wild = v.copy()
    wild[1] = 1e200
    calm, torn = (system.batch(4).rollout(q, start, step_s=1e-2, steps=20) for start in (v, wild))
    assert not np.isfinite(torn.v[1, -1]).all()
    np.testing.assert_array_equal(torn.q[[0, 2]], calm.q[[0, 2]])


def test_what_does_not_fit_is_refused_in_one_line() -> None:
    system = assemble(build("arm_2dof"))
    with pytest.raises(InvalidRequest, match="lanes is 3; it must be one of 2, 4, 8, 16, 32"):
        system.batch(3)
    batch = system.batch(2)
    q, v, _ = states(system, 3)
    with pytest.raises(InvalidRequest, match=r"v0 has shape \(2, 2\); for 3 systems of 'arm_2dof' it must be \(3, 2\)"):
        batch.rollout(q, v[:2], step_s=1e-3, steps=1)
    with pytest.raises(InvalidRequest, match=r"u has shape \(3, 4, 2\); .* must be \(3, 5, 2\) or \(3, 2\)"):
        batch.rollout(q, v, np.zeros((3, 4, 2)), step_s=1e-3, steps=5)
    with pytest.raises(InvalidRequest, match="must be a finite number"):
        batch.rollout(np.full((3, 2), np.nan), v, step_s=1e-3, steps=5)
    with pytest.raises(InvalidRequest, match=r"step_s' is 0\.0; it must be above 0"):
        batch.rollout(q, v, step_s=0.0, steps=5)
    with pytest.raises(
        ValueError, match=r"shape \(2, 4\) and is C-contiguous; it must be C-contiguous with shape \(size, 2\)"
    ):
        batch.bind("inverse_dynamics", [np.zeros((2, 4))], [])


def test_a_mechanism_with_guards_has_no_rollout() -> None:
    plain = build("arm_2dof")
    guard = Crossing(name="floor", body=plain.bodies[-1].name, level=-9.0, source="default", target="default")
    system = assemble(dataclasses.replace(plain, guards=(guard,)))
    with pytest.raises(InvalidRequest, match="has guards, which a batch does not check"):
        system.batch(2).rollout(*states(system, 1)[:2], step_s=1e-3, steps=1)


def test_what_is_compiled_for_the_first_time_is_told_on_stderr_where_no_log_is_kept(tmp_path: Path) -> None:
    program = (
        "from armswing import build; from sim_core import assemble;"
        "assemble(build('arm_2dof')).batch(lanes=2).rollout([[0.1, 0.2]], [[0, 0]], step_s=1e-3, steps=2)"
    )
    command = [sys.executable, "-P", "-c", program]
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path), "ARMSWING_INSTALLED_LOOPS": ""}
    cold, warm = (
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=100) for _ in "12"
    )
    told = [line for line in cold.stderr.splitlines() if line.startswith("compiling")]
    once = f", a few seconds, once: {tmp_path}/armswing keeps it"
    what = ("the kernels of 'arm_2dof'", "the loop of 'arm_2dof' for 2 at a time")
    assert told == [f"compiling {each}{once}" for each in what]
    assert warm.stderr == ""
