"""Runs of a launch in lockstep from many initial states, in worker processes.

The result of a run is the smallest and the largest value of each state.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.launch_plan import Plan
from nodes.framework.plan.node_classes import load_class
from nodes.framework.simulation.compose import Composition
from nodes.recorder import Recorder
from nodes.research.maps.kept_runs import KeptRuns, identity_of
from nodes.research.workers import Loss, Pool
from sim_core.analysis.attitudes import component_names
from sim_core.batch.peaks import Peaks, cpu_name, layout_of, state_reader, state_rows
from sim_core.errors import InvalidRequest, SimulationDiverged
from sim_core.system import System

Array = np.ndarray
LIMIT_S = 600.0  # wall time after which a run has failed


class StartError(InvalidRequest):
    """A run of a launch ended with an error. The message is one line."""


class Start(NamedTuple):
    """Number of a run, and its initial state q, v (n_q,)."""

    number: int
    q: list[float]
    v: list[float]


class Motion(msgspec.Struct):
    """Smallest and largest value of each state in a run, and the last state.

    low, high  smallest and largest values; empty if an error ended the run
    q, v, p    coordinates, velocities and parameters of the last state; empty if an error ended the run
    error      error that ended the run, in one line; "" if no error occurred. A run that diverges is not an error; its
               values are nan
    """

    low: list[float] = []
    high: list[float] = []
    q: list[float] = []
    v: list[float] = []
    p: list[float] = []
    error: str = ""


@dataclass(frozen=True)
class StartJob:
    """Job for worker processes: runs of a plan from initial states.

    plan       plan in lockstep with one robot
    steps      number of time steps of each run
    system     the plan's robot, which all runs share
    attitudes  reference attitudes (m, 4) of the spherical and free joints, as for `Batch.peaks`
    """

    plan: Plan
    steps: int
    system: System
    attitudes: Array | None = None

    def encode(self, task: Start) -> bytes:
        """Encode an initial state as bytes."""
        return msgspec.msgpack.encode(tuple(task))

    def do(self, task: bytes) -> bytes:
        """Run the plan from an encoded initial state, and return the smallest and largest values of the states as
        bytes.
        """
        start = Start(*msgspec.msgpack.decode(task, type=tuple[int, list[float], list[float]]))
        try:
            motion = motion_from(self.plan, self.steps, start, self.system, self.attitudes)
        except Exception as error:
            motion = Motion(error=" ".join(f"{type(error).__name__}: {error}".split()))
        return msgspec.msgpack.encode(motion)

    def decode(self, result: bytes) -> Motion:
        """Decode the result of a run."""
        return msgspec.msgpack.decode(result, type=Motion)

    def lost(self, task: Start, loss: Loss) -> Motion:
        """Motion without values, whose `error` says why the process ended."""
        return Motion(error=loss.reason)


def plan_for_starts(launch: Path, seconds: float, overrides: Sequence[str] = ()) -> Plan:
    """Plan of a launch in lockstep for runs from many initial states, without the launch's recorders and milestones.

    seconds    simulation time of a run
    overrides  texts such as "node.key=value" and "sim.key=value"
    Raises PlanError or StartError with a one-line message for an invalid launch.
    """
    plan = load_plan(launch, [*overrides, "sim.mode=lockstep"])
    if plan.simulations:
        raise StartError(f"{launch} has several robots; a map is of one robot")
    if not 0.0 < seconds < math.inf or round(seconds / plan.sim.step_s) < 1:
        raise StartError(f"the runs last {seconds:g} s; they must last one step of {plan.sim.step_ms:g} ms at least")
    plan.duration_s, plan.milestones, plan.sim.snapshot_s = None, [], 0.0
    plan.nodes = [node for node in plan.nodes if not issubclass(load_class(node.run, plan.folder), Recorder)]
    return plan


def motion_from(plan: Plan, steps: int, start: Start, system: System, attitudes: Array | None = None) -> Motion:
    """Run a plan in this process from an initial state, for a number of time steps.

    Returns the smallest and the largest value of each state over all time steps.

    system     the plan's robot
    attitudes  reference attitudes (m, 4) of the spherical and free joints, as for `Batch.peaks`
    """
    with Composition(plan, start=(start.q, start.v), assembled=system) as composition:
        (robot,) = composition.server.robots
        simulation, read = robot.simulation, state_reader(system, attitudes)
        turns = bool(system.mechanism.oriented_joints)

        def now() -> Array:
            p = simulation.state.p if turns else np.zeros(0)
            return read(simulation.coordinates, simulation.velocities, p)

        state = now()
        low, high = state.copy(), state.copy()
        try:
            for _ in range(steps):
                composition.step()
                state = now()
                np.minimum(low, state, out=low)
                np.maximum(high, state, out=high)
            last = [simulation.coordinates, simulation.velocities, simulation.state.p]
        except SimulationDiverged:
            low = high = np.full_like(state, np.nan)
            last = [np.full(len(values), np.nan) for values in (start.q, start.v, system.parameter_names)]
    return Motion(low.tolist(), high.tolist(), *(values.tolist() for values in last))


def ranges_from(
    plan: Plan,
    system: System,
    q: Array,
    v: Array,
    seconds: float,
    *,
    workers: int,
    progress: Callable[[int, int], None],
    kept: Path | None = None,
    attitudes: Array | None = None,
    limit_s: float = LIMIT_S,
) -> Peaks:
    """Smallest and largest value of each state in each of n runs of a plan.

    Run k starts from the coordinates q[k] and the velocities v[k]. A run that diverges is not an error; its values are
    nan.

    plan       plan in lockstep with one robot; all nodes of the plan take part in each run
    system     system of this robot
    q          (n, n_q) initial coordinates (m or rad)
    v          (n, n_q) initial velocities (m/s or rad/s)
    seconds    simulation time of each run
    workers    number of worker processes
    progress   function that is called several times per second with the numbers of finished runs and of all runs; it
               may raise an exception to stop
    kept       file for the finished runs, from which a repeated call continues; None: finished runs are not kept
    attitudes  reference attitudes (m, 4) of the spherical and free joints, as for `Batch.peaks`
    limit_s    wall time (s) after which a run has failed
    Raises StartError with a one-line message if a node or the simulation raises an error. Raises JournalError if the
    file `kept` has the runs of another stability map.
    """
    count, n = q.shape
    steps = round(seconds / plan.sim.step_s)
    rows, quaternions = state_rows(system, attitudes is not None), layout_of(system).quaternions
    ends = np.cumsum([len(rows), len(rows), n, n, len(quaternions)])
    identity = identity_of(plan, steps, q, v, *([] if attitudes is None else [attitudes]))
    with (
        tempfile.TemporaryDirectory() as folder,
        KeptRuns(kept or Path(folder) / "map.runs", identity, count, int(ends[-1])) as runs,
    ):
        tasks = [Start(k, q[k].tolist(), v[k].tolist()) for k in np.flatnonzero(~runs.done).tolist()]
        progress(count - len(tasks), count)
        with Pool(StartJob(plan, steps, system, attitudes), min(workers, max(len(tasks), 1)), limit_s) as pool:
            for task, motion in pool.results(tasks, lambda: progress(int(runs.done.sum()), count)):
                if motion.error:
                    at = dict(zip(component_names(system), (f"{x:.6g}" for x in [*task.q, *task.v]), strict=True))
                    raise StartError(f"the run from {', '.join(map('='.join, at.items()))} failed: {motion.error}")
                attitude = [motion.p[index] for index in quaternions]
                runs.keep(task.number, np.array([*motion.low, *motion.high, *motion.q, *motion.v, *attitude]))
        low, high, q, v, turned = np.split(runs.rows, ends[:-1], axis=1)
    sim = plan.sim
    names = (sim.make_stepper().name, sim.make_stabilizer().name)
    orientations = turned.reshape(count, len(quaternions) // 4, 4)
    return Peaks(rows, low, high, q, v, sim.step_s, steps, *names, 1, cpu_name(), orientations)
