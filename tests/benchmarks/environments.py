"""Steps of vectorized environments per second and core, beside `mujoco.rollout` and `mujoco.batch` of the same robot.

    python tests/benchmarks/environments.py [--json FILE]

Each call steps 64 environments by 10 time steps of 1 ms, with a reward of numpy and automatic resets. MuJoCo only
integrates: RK4, and semi-implicit Euler, on one thread, from the same states; `mujoco.batch` goes on from them, as an
environment does, and is left out of versions without it. With delays and noise, the environments
have a random delay of 2 to 8 ms of states and commands, and noise of all measurements. Processor times; the best of
TURNS turns counts, which alternate.

The example learns its swing-up from the seeds SEEDS; after that it has to stand from ten starts of ten.
"""

from __future__ import annotations

import dataclasses
import json
import runpy
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from bars import at_least, at_most, json_file

from armswing.environments import ROTARY_PENDULUM, Motion, Task, VectorEnvironment
from robots.registry import build

TURNS, CALLS, LANES = 9, 40, 64
BARS = {"rotary_pendulum": 40.0, "arm_6dof": 12.0}
SEEDS, LEARNT_S = (1, 2, 3), 600.0  # longest processor time for each seed
EXAMPLE = Path(__file__).resolve().parents[2] / "launch/examples/learnt_swing_up.py"
TARGET = np.array([[0.3], [0.5], [-0.4], [0.2], [0.1], [0.0]])


def observe(motion: Motion) -> np.ndarray:
    """Positions and velocities (12, n)."""
    return np.concatenate([motion.q, motion.v])


def reward(motion: Motion, actions: np.ndarray) -> np.ndarray:
    """Distance to a target, with costs of velocities and efforts (n,)."""
    distance = ((motion.q - TARGET) ** 2).sum(axis=0)
    return np.asarray(-distance - 0.01 * (motion.v**2).sum(axis=0) - 0.001 * (actions**2).sum(axis=0))


TASKS = {
    "rotary_pendulum": ROTARY_PENDULUM,
    "arm_6dof": Task(robot="arm_6dof", observe=observe, reward=reward, largest=np.ones(6), duration_s=0.5),
}


def stepped(task: Task, **more: Any) -> Callable[[], object]:
    """Function that takes CALLS steps of LANES environments with random actions."""
    env = VectorEnvironment(task, LANES, **more)
    env.reset(seed=0)
    actions = np.random.default_rng(0).uniform(-1.0, 1.0, (int(CALLS), LANES, env.world.system.n_u))

    def run() -> None:
        for action in actions:
            env.step(action)

    return run


def of_mujoco(task: Task) -> dict[str, Callable[[], object]]:
    """{integrator: function that integrates as many time steps of as many systems}; {} without MuJoCo."""
    try:
        import mujoco
        from mujoco import rollout
    except ImportError:
        return {}
    from robots.export import export

    mechanism = build(task.robot, **task.parameters)
    found: dict[str, Callable[[], object]] = {}
    for name, integrator in (("RK4", mujoco.mjtIntegrator.mjINT_RK4), ("Euler", mujoco.mjtIntegrator.mjINT_EULER)):
        model = mujoco.MjModel.from_xml_string(export(mechanism, "mjcf").text)
        model.opt.integrator, model.opt.timestep = integrator, task.step_s
        data = mujoco.MjData(model)
        state = np.zeros((LANES, mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS)))
        state[:, 1 : 1 + model.nq] = np.random.default_rng(0).uniform(-1.0, 1.0, (LANES, model.nq))
        control = np.zeros((LANES, 10, model.nu))

        def run(model: Any = model, data: Any = data, state: Any = state, control: Any = control) -> None:
            for _ in range(int(CALLS)):
                rollout.rollout(model, data, state, control, nstep=10)

        found[f"mujoco.rollout, {name}"] = run
        if find_spec("mujoco.batch") is not None:
            found[f"mujoco.batch, {name}"] = batch_of_mujoco(model, state[:, 1 : 1 + model.nq])
    return found


def batch_of_mujoco(model: Any, q: np.ndarray) -> Callable[[], object]:
    """Function that steps a `mujoco.batch` of the model as often, with zero controls; each run begins at q (n, nq)."""
    from mujoco.batch import Batch

    batch = Batch(model, len(q), 1)
    positions, velocities, control = (batch.bind(name) for name in ("qpos", "qvel", "ctrl"))

    def run() -> None:
        positions[:], velocities[:] = q, 0.0
        for _ in range(int(CALLS)):
            control[:] = 0.0
            batch.step(nstep=10)

    return run


def measured(name: str) -> dict[str, float]:
    """Time steps per second and core of each way, and ratios."""
    task = TASKS[name]
    coordinates = [joint.name for joint in build(task.robot, **task.parameters).moving_joints]
    link = {"delay_ms": 2.0, "jitter_ms": 6.0}
    late: dict[str, Any] = {
        "links": {"state": link, "command": link},
        "noise": dict.fromkeys(coordinates, (0.001, 0.01)),
    }
    ways = {"environment": stepped(task), "with delays and noise": stepped(dataclasses.replace(task, **late))}
    ways |= of_mujoco(task)
    taken: dict[str, list[float]] = {way: [] for way in ways}
    for call in ways.values():
        call()
    for _ in range(int(TURNS)):
        for way, call in ways.items():
            began = time.process_time()
            call()
            taken[way].append(time.process_time() - began)
    rates = {way: LANES * 10 * int(CALLS) / min(times) for way, times in taken.items()}
    ratios = {
        f"{ours} over {theirs}": rates[ours] / rates[theirs]
        for theirs in rates
        if theirs.startswith("mujoco")
        for ours in ("environment", "with delays and noise")
    }
    return rates | ratios


def learnt(seed: int) -> dict[str, float]:
    """Processor time of the example's training, generations, and number of starts of ten from which it stands."""
    said: list[str] = []
    began = time.process_time()
    runpy.run_path(str(EXAMPLE))["train"](seed, say=said.append)
    spent = time.process_time() - began
    return {"seconds": spent, "generations": len(said), "stand": float(said[-1].split(" of 10 stand")[0].split()[-1])}


def main(json_path: str | None = None) -> dict[str, Any]:
    """Print the figures and return them."""
    report: dict[str, Any] = {name: measured(name) for name in TASKS}
    key = "environment over mujoco.rollout, RK4"
    report["bars"] = [
        at_least(f"{name}: {key}", report[name][key], bar) for name, bar in BARS.items() if key in report[name]
    ]
    report["learnt"] = runs = {str(seed): learnt(seed) for seed in SEEDS}
    report["bars"] += [
        at_least("learnt swing-up: starts of ten that stand, fewest", min(run["stand"] for run in runs.values()), 10.0),
        at_most("learnt swing-up: processor time, longest, s", max(run["seconds"] for run in runs.values()), LEARNT_S),
    ]
    for seed, run in runs.items():
        print(f"seed {seed}: {run['stand']:g} of 10 stand after {run['generations']:g} generations")
        print(f"  {'processor time':<50} {run['seconds']:12.4g} s")
    for name in TASKS:
        print(name)
        for what, value in report[name].items():
            print(f"  {what:<50} {value:12.4g}{'' if 'over' in what else ' steps/s'}")
    if json_path is not None:
        Path(json_path).write_text(json.dumps(report, indent=1))
    return report


if __name__ == "__main__":
    main(json_file(__doc__))
