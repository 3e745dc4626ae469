"""Quadrupeds from the files of example-robot-data stand on their feet, and withstand pushes as in MuJoCo."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from armswing import Simulation, assemble, build
from robots.export import export
from sim_core.mechanism import Mechanism
from tests.robots.importing.robot_files import needs_files, robot_files

STEP = 1e-3  # s
CREEP = 1e-3  # m
SAME = 18  # of 20 pushes
ALIKE = {"friction": "ignore", "limits": "none", "meshes": "boxes"}  # as the exported file has the robot

pytestmark = [needs_files, pytest.mark.filterwarnings("ignore::sim_core.errors.DescriptionWarning")]


@dataclass(frozen=True)
class Stance:
    """A file, a posture, and the gains and effort limit of the controller that holds it."""

    file: str
    start: str
    stiffness: float
    damping: float
    limit: float

    def robot(self) -> Mechanism:
        """The robot in its posture; the points of boxes are balls of 1 mm, because MuJoCo has no points."""
        made = build(str(robot_files()[self.file]), base="free", start=self.start, repair="inertia massless", **ALIKE)
        contacts = tuple(replace(contact, radius=max(contact.radius, 1e-3)) for contact in made.contacts)
        return replace(made, contacts=contacts, pushable=(made.joints[0].child,))

    def effort(self, reference: Any, position: Any, rate: Any) -> Any:
        """Efforts of the joints."""
        wanted = self.stiffness * (reference - position) - self.damping * rate
        return np.clip(wanted, -self.limit, self.limit)


BENT = "*_thigh_joint=0.8 *_calf_joint=-1.6"
STANCES = {
    "a1": Stance("a1_description/urdf/a1.urdf", BENT, 80.0, 2.0, 33.0),
    "go1": Stance("go1_description/urdf/go1.urdf", BENT, 80.0, 2.0, 33.0),
    "anymal": Stance(
        "anymal_b_simple_description/robots/anymal.urdf",
        "?F_HFE=0.6 ?F_KFE=-1.2 ?H_HFE=-0.6 ?H_KFE=1.2",
        400.0,
        10.0,
        80.0,
    ),
    "solo": Stance("solo_description/robots/solo12.urdf", "*_HFE=0.8 *_KFE=-1.6", 8.0, 0.15, 5.0),
}


class Ours:
    """The robot here, held in its posture."""

    def __init__(self, stance: Stance, robot: Mechanism) -> None:
        self.sim, self._stance, self._root = Simulation(assemble(robot), step_s=STEP), stance, robot.pushable[0]
        self._own = slice(6, 6 + len(robot.moving_joints))
        self._reference = np.array(robot.initial_q[self._own])

    def run(self, seconds: float, force: Any = (0.0, 0.0, 0.0)) -> float:
        """Height of the base, m, after some seconds under a force on it."""
        self.sim.push(self._root, force)
        for _ in range(round(seconds / STEP)):
            self.control()
            self.sim.step()
        return float(self.sim.coordinates[2])

    def control(self) -> None:
        """Set the efforts that hold the posture."""
        q, v = self.sim.coordinates[self._own], self.sim.velocities[self._own]
        self.sim.drive(self._stance.effort(self._reference, q, v))


class Peer:
    """The same robot and contacts in MuJoCo."""

    def __init__(self, stance: Stance, robot: Mechanism) -> None:
        self._mujoco = pytest.importorskip("mujoco")
        self.model = self._mujoco.MjModel.from_xml_string(export(robot, "mjcf").text)
        self.model.opt.timestep, self.model.opt.cone = STEP, self._mujoco.mjtCone.mjCONE_ELLIPTIC
        self.data = self._mujoco.MjData(self.model)
        joints = [self.model.joint(actuator.joint).id for actuator in robot.actuators]
        self._q, self._v = self.model.jnt_qposadr[joints], self.model.jnt_dofadr[joints]
        starts = dict(zip([joint.name for joint in robot.moving_joints], robot.initial_q[6:], strict=False))
        self._reference = np.array([starts[actuator.joint] for actuator in robot.actuators])
        self.data.qpos[self._q] = self._reference
        self._stance, self._root = stance, self.model.body(robot.pushable[0]).id

    def run(self, seconds: float, force: Any = (0.0, 0.0, 0.0)) -> float:
        """Height of the base, m, after some seconds under a force on it."""
        data = self.data
        for _ in range(round(seconds / STEP)):
            self.control()
            data.qfrc_applied[:] = 0.0
            at = data.xpos[self._root]
            self._mujoco.mj_applyFT(self.model, data, np.array(force), np.zeros(3), at, self._root, data.qfrc_applied)
            self.step()
        return float(data.qpos[2])

    def control(self) -> None:
        """Set the efforts that hold the posture."""
        data = self.data
        data.ctrl[:] = self._stance.effort(self._reference, data.qpos[self._q], data.qvel[self._v])

    def step(self) -> None:
        """Take a step."""
        self._mujoco.mj_step(self.model, self.data)


def creep(name: str, seconds: float) -> float:
    """Largest motion of the base, m, after 3 s."""
    ours = Ours(STANCES[name], STANCES[name].robot())
    ours.run(3.0)
    places = [ours.sim.coordinates[:3].copy()]
    for _ in range(10):
        ours.run(seconds / 10)
        places.append(ours.sim.coordinates[:3].copy())
    return float(np.abs(np.array(places) - places[0]).max())


def alike(name: str, pushes: int, share: float = 1.0) -> int:
    """Number of pushes of 20 to 100 N times `share` for 0.1 s after which the robot stands or lies as in MuJoCo."""
    stance, random, same = STANCES[name], np.random.default_rng(5), 0
    robot = stance.robot()
    ours, peer = Ours(stance, robot), Peer(stance, robot)
    ours.run(2.0)
    standing, before = peer.run(2.0), ours.sim.snapshot()
    q, v = peer.data.qpos.copy(), peer.data.qvel.copy()
    for _ in range(pushes):
        size, angle = share * random.uniform(20.0, 100.0), random.uniform(0.0, 2.0 * np.pi)
        force = (size * np.cos(angle), size * np.sin(angle), 0.0)
        ours.sim.restore(before)
        peer.data.qpos[:], peer.data.qvel[:], peer.data.qacc_warmstart[:] = q, v, 0.0
        for each in (ours, peer):
            each.run(0.1, force)
        same += (ours.run(1.5) > 0.6 * standing) == (peer.run(1.5) > 0.6 * standing)
    return same


def test_a1_stands_and_does_not_creep() -> None:
    assert creep("a1", 3.0) < CREEP


@pytest.mark.soak
@pytest.mark.parametrize("name", STANCES)
def test_a_quadruped_stands_for_a_minute_and_does_not_creep(name: str) -> None:
    assert creep(name, 60.0) < CREEP


@pytest.mark.soak
@pytest.mark.parametrize("name", STANCES)
def test_a_quadruped_withstands_pushes_or_falls_as_in_mujoco(name: str) -> None:
    assert alike(name, 20) >= SAME
