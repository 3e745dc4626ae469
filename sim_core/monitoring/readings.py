"""Readings of a running simulation: joint states, energy, outputs and constraint violations in one buffer."""

from __future__ import annotations

import numpy as np

from sim_core.integrators.workspace import Workspace
from sim_core.kernels.bound import BoundKernel
from sim_core.monitoring.reading_kernels import summed_up, unwrap
from sim_core.system import System


class Readings:
    """Reads joint states, outputs, energy and violations of a simulation with kernels that write to one array.

    Joint angles are relative to the parent and unwrapped.

    buffer       positions, velocities and efforts of the joints in declared order, then `sums`, the outputs, all poses
                 (7 each) and all twists (6 each) of the joints that `Simulation.frames` names
    n_holonomic, n_rows  number of holonomic constraint rows, which contribute to |Phi|_1; number of all constraint
                         rows, which contribute to |Phidot|_1
    joint_motion  views (n_joints,) of the joint positions and of the joint velocities in the buffer
    sums         view of |Phi|_1, |Phidot|_1 and the energy in the buffer
    read         kernel that fills the whole buffer; `read_joints` fills `joint_motion` only
    """

    def __init__(self, system: System, w: Workspace, n_holonomic: int, n_rows: int) -> None:
        n, self._names = len(system.joint_names), system.output_names
        m = len(system.mechanism.posed_joints)
        self.buffer = np.zeros(3 * n + 3 + len(self._names) + 13 * m)
        ends = np.cumsum([n, n, n, 3, len(self._names), 7 * m])
        position, velocity, effort, self.sums, self._outputs, frames, twists = np.split(self.buffer, ends)
        self._frames, self._twists = frames.reshape(-1, 7), twists.reshape(-1, 6)
        self.joint_motion, self._effort = (position, velocity), effort
        state = [w.t, w.q, w.v, w.u, w.p]
        energy = np.zeros(2)
        joints = system.bind("joints", state, [position, velocity])
        outputs = system.bind("outputs", state, [self._outputs])
        wraps = [(joint, place) for place, joint in enumerate(system.wraps)]
        first, drivers = _drivers(system)
        given = [np.array([n, n_holonomic, n_rows], dtype=float), first, drivers, w.u, w.phi, w.phidot, energy]
        self._sum_up = BoundKernel(summed_up.address, given, [effort, self.sums])
        self.read_joints = BoundKernel.in_turn([joints, _unwrapping(wraps, w.turns, position)])
        self._read_outputs = BoundKernel.in_turn([outputs, _unwrapping(system.output_wraps, w.turns, self._outputs)])
        self._read_energy = BoundKernel.in_turn([system.bind("energy", state, [energy]), self._sum_up])
        self._read_rows = BoundKernel.in_turn([system.bind("residual", state, [w.phi, w.phidot]), self._sum_up])
        each = [self.read_joints, self._read_outputs, self._read_energy, self._read_rows]
        if m:
            self._read_frames = system.bind("frames", state, [frames, twists])
            each.append(self._read_frames)
        self.read = BoundKernel.in_turn(each)

    def motion(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions (n_joints,), rad or m, and velocities (n_joints,), rad/s or m/s, of the joints."""
        self.read_joints()
        position, velocity = self.joint_motion
        return position.copy(), velocity.copy()

    def position(self, joint: int) -> float:
        """Position of one joint, rad or m, by its index in the declared order."""
        self.read_joints()
        return float(self.joint_motion[0].item(joint))

    def frames(self) -> tuple[np.ndarray, np.ndarray]:
        """Poses (n, 7) and twists (n, 6) of the n joints that `Simulation.frames` names, in the order of the
        description.
        """
        if len(self._frames):
            self._read_frames()
        return self._frames.copy(), self._twists.copy()

    def effort(self) -> np.ndarray:
        """Total effort of the actuators at each joint (n_joints,), N m or N."""
        self._sum_up()
        return self._effort.copy()

    def energy(self) -> float:
        """Kinetic plus potential energy, J."""
        self._read_energy()
        return float(self.sums[2])

    def outputs(self) -> dict[str, float]:
        """{name: value} of the mechanism's outputs; angles are unwrapped."""
        self._read_outputs()
        return self._named(self._outputs.tolist())

    def violation(self) -> tuple[float, float]:
        """1-norms |Phi|_1 and |Phidot|_1 of the constraint violations and their rates; rows are not scaled."""
        self._read_rows()
        return float(self.sums[0]), float(self.sums[1])

    def _named(self, values: list[float]) -> dict[str, float]:
        return dict(zip(self._names, values, strict=True))


def _unwrapping(wraps: object, turns: np.ndarray, angles: np.ndarray) -> BoundKernel:
    """Kernel without arguments that adds the counted revolutions to wrapped angles.

    wraps  pairs (index of an angle in `angles`, index of its number of revolutions in `turns`)
    """
    pairs = np.array(wraps, dtype=float).reshape(-1, 2)
    given = [np.array([len(pairs)], dtype=float), pairs[:, 0].copy(), pairs[:, 1].copy(), turns]
    return BoundKernel(unwrap.address, given, [angles])


def _drivers(system: System) -> tuple[np.ndarray, np.ndarray]:
    """(begins (n_joints + 1,), actuators): `actuators` contains the indices of the actuators, grouped by joint.

    The actuators of joint k are actuators[begins[k]:begins[k + 1]].
    """
    drivers: list[list[int]] = [[] for _ in system.joint_names]
    for index, actuator in enumerate(system.mechanism.actuators):
        if actuator.joint:
            drivers[system.joint_names.index(actuator.joint)].append(index)
    first = np.cumsum([0, *map(len, drivers)], dtype=float)
    return first, np.array([index for each in drivers for index in each], dtype=float)
