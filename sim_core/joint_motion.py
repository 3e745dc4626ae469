"""Where the declared joints of a running simulation are, how fast, and what drives them."""

from __future__ import annotations

import numpy as np

from sim_core.integrators.workspace import Workspace
from sim_core.system import System


class JointMotion:
    """Reads the joints out of a workspace, in their declared order; angles relative to the parent and unwrapped."""

    def __init__(self, system: System, w: Workspace) -> None:
        n, actuators = len(system.joint_names), system.mechanism.actuators
        self._w = w
        self._position, self._velocity = np.zeros(n), np.zeros(n)
        self._read = system.bind("joints", [w.t, w.q, w.v, w.u, w.p], [self._position, self._velocity])
        self._wraps = np.array(system.wraps, dtype=int)
        self._turns_of = {int(joint): place for place, joint in enumerate(system.wraps)}
        self._driven = np.zeros((n, system.n_u))  # which actuator drives which joint
        for k, actuator in enumerate(actuators):
            if actuator.joint:
                self._driven[system.joint_names.index(actuator.joint), k] = 1.0

    def now(self) -> tuple[np.ndarray, np.ndarray]:
        """Position (n_joints,), rad or m, and velocity."""
        self._read()
        position, velocity = self._position.copy(), self._velocity.copy()
        if len(self._wraps):
            position[self._wraps] += 2 * np.pi * self._w.turns[: len(self._wraps)]
        return position, velocity

    def position(self, joint: int) -> float:
        """Position of one joint, by its place in the order."""
        self._read()
        position, place = float(self._position[joint]), self._turns_of.get(joint)
        return position if place is None else position + 2 * np.pi * float(self._w.turns[place])

    def effort(self) -> np.ndarray:
        """What the actuators apply to each joint (n_joints,), N m or N."""
        return np.asarray(self._driven.dot(self._w.u))
