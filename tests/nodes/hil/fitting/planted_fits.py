"""Deviations that are planted in the emulated arm of launch/hil_robot.toml, and how a fit of its recording judges them.

    arm = EmulatedArm()
    case = planted("mass gain", seed=7)
    found = judged(arm, case)          # found.inside of found.intervals contain the planted value

The arm gets the commands of a lockstep run of the launch file, which depend on the model alone. Each run has its own
sizes, joints and noise.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.launch_plan import SimPlan
from nodes.framework.recording.reader import Recording, read_recording
from nodes.framework.simulation.compose import compose
from nodes.hil.emulation.plant import Plant
from nodes.hil.emulation.sensors import Sensing, Sensors
from robots.registry import build
from sim_core.identification.calibration import ERRORS
from sim_core.identification.estimates import surely_changed
from sim_core.identification.fitting import fit
from sim_core.identification.friction import COLUMNS
from sim_core.identification.inertial_parameters import inertial_parameters
from sim_core.identification.result import FitResult
from sim_core.identification.rigid_tree import rigid_tree
from sim_core.identification.signals import Recorded
from sim_core.mechanism import Body

PLAN = Path(__file__).resolve().parents[4] / "launch/hil_robot.toml"
KINDS = ("mass", "friction", "zero", "delay", "gain")
CELLS = (*KINDS, *(" ".join(pair) for pair in combinations(KINDS, 2)))
BODIES = ("link_8", "link_9", "link_10")  # those whose mass the motion shows
SIZES = {"mass": (0.1, 0.3), "friction": (0.3, 1.5), "zero": (0.01, 0.04), "delay": (5, 15), "gain": (0.05, 0.15)}
SETTINGS = {"friction": "friction", "zero": "encoder_zero", "gain": "gain"}  # keys of the emulated robot, by joint
UNCHANGED = 1e-9  # relative difference of rounding between a planted value and the model's


@dataclass(frozen=True)
class Planted:
    """Deviations of one run.

    sizes  {kind: (body or joint, size)}: share of mass or gain, N m s/rad, rad, or ms by which all efforts are late
    """

    cell: str
    seed: int
    sizes: Mapping[str, tuple[str, float]]

    @property
    def settings(self) -> dict[str, dict[str, float]]:
        """Parameters of the emulated robot."""
        keys = {"mass": "mass", **SETTINGS}
        return {keys[kind]: {of: size} for kind, (of, size) in self.sizes.items() if kind in keys}


def planted(cell: str, seed: int) -> Planted:
    """The deviations of a cell, of random sizes and places."""
    random = np.random.default_rng([38, CELLS.index(cell), seed])
    sizes = {}
    for kind in cell.split():
        of = str(random.choice(BODIES)) if kind == "mass" else f"joint_{random.integers(1, 5)}"
        low, high = SIZES[kind]
        size = float(random.integers(int(low), int(high) + 1)) if kind == "delay" else float(random.uniform(low, high))
        sizes[kind] = of, size
    return Planted(cell, seed, sizes)


class EmulatedArm:
    """The emulated arm of the launch file under the commands of a run of it, which is made when it is needed.

    launched  recording of this run, in which nothing is planted
    """

    def __init__(self) -> None:
        plan = load_plan(PLAN)
        self.sim: SimPlan = plan.sim
        self.sensing: dict[str, Any] = dict(next(node.params for node in plan.nodes if node.name == "hardware"))
        self.mechanism = build(self.sim.robot)
        self.joints = [joint.name for joint in self.mechanism.moving_joints]

    @cached_property
    def launched(self) -> Recording:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "run.mcap"
            with compose(load_plan(PLAN, [f"recorder.file={file}"])) as launch:
                launch.run()
            return read_recording(file, warn=False)

    @cached_property
    def commands(self) -> tuple[list[float], list[list[float]]]:
        """Times and positions of the commands."""
        found = self.launched["arm_4dof/applied_command"]
        return found["timestamp"].tolist(), np.asarray(found["value"]).tolist()

    @property
    def measured(self) -> Mapping[str, Any]:
        """Measured states of the launch file's run."""
        return self.launched["arm_4dof/measured_state"]

    def recorded(self, case: Planted) -> Recorded:
        """Positions and efforts that the arm's sensors measure; an effort is that of the middle of the step before."""
        sensing = Sensing(**self.sensing, **case.settings)
        plant, h = Plant(self.sim, sensing), self.sim.step_s
        sensors = Sensors(sensing, self.joints, h, np.random.default_rng([case.seed, CELLS.index(case.cell)]))
        late = round(case.sizes["delay"][1] * 1e-3 / h) if "delay" in case.sizes else 0
        efforts, samples = [plant.effort], [sensors.sample(0.0, plant.position, plant.velocity, plant.effort)]
        (times, values), end = self.commands, float(self.measured["timestamp"][-1])
        due = 0
        while plant.tick * h < end - h / 2.0:
            while due < len(times) and times[due] <= (plant.tick + 0.5) * h:
                plant.command("position", self.joints, values[due])
                due += 1
            plant.step()
            efforts.append(plant.effort)
            effort = efforts[max(len(efforts) - 1 - late, 0)]
            samples.append(sensors.sample(plant.tick * h, plant.position, plant.velocity, effort))
        taken = [each for each in samples if each is not None]
        time = np.array([each.timestamp for each in taken])
        effort = np.array([each.effort for each in taken])
        middle = np.stack([np.interp(time, time - h / 2.0, column) for column in effort.T], axis=1)
        return Recorded(time, np.array([each.position for each in taken]), middle)

    def truth(self, case: Planted, found: FitResult) -> np.ndarray:
        """Planted values (n_x,) of the unknowns of the fit."""
        sizes, tree = case.sizes, rigid_tree(self.mechanism, self.joints)
        heavier = tuple(_heavier(body, *sizes.get("mass", ("", 0.0))) for body in tree.bodies)
        heavy = dataclasses.replace(tree, bodies=heavier)
        pi = np.concatenate([inertial_parameters(heavy, link) for link in found.links])
        zeros = np.zeros(len(found.base.columns))
        columns = found.friction_before.copy()
        for kind, (of, size) in sizes.items():
            row = None if kind == "mass" else self.joints.index(of)
            if kind == "zero":
                zeros[len(zeros) - len(self.joints) + row] = size
            elif kind == "friction":
                columns[row, COLUMNS.index("viscous")] += size
            elif kind == "gain":  # the sensor shows the effort before the gain
                columns[row, COLUMNS.index("gain")] = 1.0 / (1.0 + size) - 1.0
            elif kind == "delay":
                columns[:, COLUMNS.index("delay")] = 1e-3 * size
        return np.concatenate([found.base.B[:, : len(pi)] @ pi + zeros, columns.ravel()])


@dataclass(frozen=True)
class Judged:
    """Intervals of one fit beside what was planted.

    missed  names of the estimates whose interval does not contain the planted value
    finds   names of the estimates that differ from the model, by Holm's correction over all of the fit
    false   those among them of which nothing was planted
    """

    intervals: int
    missed: list[str]
    finds: list[str]
    false: list[str]


def judged(arm: EmulatedArm, case: Planted, recorded: Recorded | None = None) -> Judged:
    """Fit with all errors of the measurement searched for, whatever was planted."""
    recorded = arm.recorded(case) if recorded is None else recorded
    found = fit(arm.mechanism, arm.joints, [recorded], errors=ERRORS)
    truth = arm.truth(case, found)
    missed = [each.name for each in found.estimates if not each.low <= each.direction @ truth <= each.high]
    finds = surely_changed(found.estimates)
    false = [
        each.name for each in finds if abs(each.direction @ truth - each.before) <= UNCHANGED * (1.0 + abs(each.before))
    ]
    return Judged(len(found.estimates), missed, [each.name for each in finds], false)


def coverage(found: Sequence[Judged]) -> float:
    """Share of all intervals that contain the planted value."""
    return 1.0 - sum(len(each.missed) for each in found) / sum(each.intervals for each in found)


def _heavier(body: Body, name: str, share: float) -> Body:
    if body.name != name:
        return body
    factor = 1.0 + share
    return dataclasses.replace(body, mass=factor * body.mass, inertia=tuple(factor * each for each in body.inertia))
