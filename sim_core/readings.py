"""What a running simulation tells of itself: joints, energy, outputs, violation of the rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sim_core.integrators.workspace import Workspace
from sim_core.kernels.bound import BoundKernel
from sim_core.system import System

TURN = 2 * np.pi


class Told(NamedTuple):
    """Everything at one instant, as plain numbers; joints in their declared order."""

    position: list[float]
    velocity: list[float]
    effort: list[float]
    phi: float
    phidot: float
    energy: float
    outputs: dict[str, float]


class Readings:
    """Reads a workspace; its kernels write into one array, so that everything is read by one call.

    Angles are relative to the parent and unwrapped. `n_holonomic` and `n_rows` count the rows that are told.
    """

    def __init__(self, system: System, w: Workspace, n_holonomic: int, n_rows: int) -> None:
        n, k = len(system.joint_names), len(system.output_names)
        self._w, self._n, self._names = w, n, system.output_names
        self._told = np.zeros(2 * n + 2 + k)
        self._position, self._velocity, self._energy, self._outputs = np.split(self._told, [n, 2 * n, 2 * n + 2])
        self._phi, self._phidot = w.phi[:n_holonomic], w.phidot[:n_rows]
        state = [w.t, w.q, w.v, w.u, w.p]
        self._read_joints = system.bind("joints", state, [self._position, self._velocity])
        self._read_energy = system.bind("energy", state, [self._energy])
        self._read_outputs = system.bind("outputs", state, [self._outputs])
        self._read_rows = system.bind("residual", state, [w.phi, w.phidot])
        each = [self._read_joints, self._read_energy, self._read_outputs, self._read_rows]
        self._read_all = BoundKernel.in_turn(each)
        self._turns_of = {int(joint): place for place, joint in enumerate(system.wraps)}
        self._output_turns = list(system.output_wraps)
        self._drivers: list[list[int]] = [[] for _ in range(n)]  # the actuators of each joint
        for index, actuator in enumerate(system.mechanism.actuators):
            if actuator.joint:
                self._drivers[system.joint_names.index(actuator.joint)].append(index)

    def all(self) -> Told:
        """All of it, for less than one by one."""
        self._read_all()
        n, numbers = self._n, self._told.tolist()
        position, velocity, outputs = numbers[:n], numbers[n : 2 * n], numbers[2 * n + 2 :]
        for joint, place in self._turns_of.items():
            position[joint] += TURN * float(self._w.turns[place])
        energy = numbers[2 * n] + numbers[2 * n + 1]
        return Told(position, velocity, self._efforts(), *self._violation(), energy, self._named(outputs))

    def motion(self) -> tuple[np.ndarray, np.ndarray]:
        """Position (n_joints,), rad or m, and velocity of the joints."""
        self._read_joints()
        position, velocity = self._position.copy(), self._velocity.copy()
        for joint, place in self._turns_of.items():
            position[joint] += TURN * self._w.turns[place]
        return position, velocity

    def position(self, joint: int) -> float:
        """Position of one joint, by its place in the order."""
        self._read_joints()
        position, place = float(self._position[joint]), self._turns_of.get(joint)
        return position if place is None else position + TURN * float(self._w.turns[place])

    def effort(self) -> np.ndarray:
        """What the actuators apply to each joint (n_joints,), N m or N."""
        return np.array(self._efforts(), dtype=float)

    def energy(self) -> float:
        """Kinetic plus potential energy, J."""
        self._read_energy()
        return float(sum(self._energy.tolist()))

    def outputs(self) -> dict[str, float]:
        """The mechanism's named outputs."""
        self._read_outputs()
        return self._named(self._outputs.tolist())

    def violation(self) -> tuple[float, float]:
        """|Phi|_1 and |Phidot|_1, in the rows' own scaling."""
        self._read_rows()
        return self._violation()

    def _violation(self) -> tuple[float, float]:
        return float(sum(map(abs, self._phi.tolist()))), float(sum(map(abs, self._phidot.tolist())))

    def _efforts(self) -> list[float]:
        u = self._w.u.tolist()
        return [u[drivers[0]] if len(drivers) == 1 else float(sum(u[k] for k in drivers)) for drivers in self._drivers]

    def _named(self, values: list[float]) -> dict[str, float]:
        for output, place in self._output_turns:
            values[output] += TURN * float(self._w.turns[place])
        return dict(zip(self._names, values, strict=True))
