"""Body poses of the measured robot, from its measured joint positions and the geometry of its model."""

from __future__ import annotations

from typing import Any

import numpy as np

from nodes.framework.messages import BodyPoses, RobotState
from nodes.hil.alignment.streams import Floats
from sim_core.mechanism import Mechanism
from sim_core.spatial import perpendicular_axes, quaternions_from_rotations, rotation_from_quaternion
from sim_core.system import System, assemble

ITERATIONS = 20  # of Gauss-Newton for one pose
SMALLEST_STEP = 1e-10  # rad or m: a smaller change of the coordinates ends the iterations
FAINT = 1e-3  # weight of the model's joint positions, which stand for joints that are not measured
FRAME = 7  # numbers of a joint in RobotState.frames


class MeasuredPoses:
    """Poses of a robot's bodies at the measured joint positions.

    If the position of a joint is not measured, its position in the model's latest state is used. The same holds for the
    pose of a spherical, free or planar joint. In joint coordinates without loops, the joint positions give the body
    poses directly. Otherwise, least squares from the previous pose finds the coordinates that fit the measured
    positions best and close the loops. Beams are drawn undeflected.

    mechanism  the model of the robot
    poses_hz   largest number of poses per second
    """

    def __init__(self, mechanism: Mechanism, poses_hz: float) -> None:
        self._system = assemble(mechanism)
        self._period_s = 1.0 / poses_hz
        self._q = np.array(mechanism.initial_q[: self._system.n_q], dtype=float)
        self._q = np.concatenate([self._q, np.zeros(self._system.n_q - len(self._q))])
        self._p = self._system.default_parameters()
        self._places = {name: place for place, name in enumerate(self._system.joint_names)}
        rows = self._system.constraint_modes[0]
        self._is_direct = mechanism.has_joint_coordinates and rows.n_rows == 0
        self._model: dict[str, float] = {}
        self._frames: list[float] = []
        self._due = -np.inf  # time of the next poses, s

    def add_state(self, state: RobotState) -> None:
        """Add a state of the model, which gives the positions of joints that are not measured."""
        self._model = dict(zip(state.name, state.position, strict=False))
        self._frames = state.frames

    def at(self, measured: RobotState) -> BodyPoses | None:
        """Body poses for a measured state in simulation time; None if the last poses are less than 1 / `poses_hz` s
        old.
        """
        time = measured.timestamp
        if self._due - self._period_s < time < self._due - 1e-9:
            return None
        self._due = time + self._period_s
        pairs = zip(measured.name, measured.position, strict=False)
        own = {name: position for name, position in pairs if position == position}  # NaN is a gap
        self._place_frames(measured.frames or self._frames)
        self._write_joints({**self._model, **own})
        if not self._is_direct:
            self._fit(time, own)
        zero = np.zeros(self._system.n_q)
        p, R = self._system.poses(time, self._q, zero, self._p)
        return BodyPoses(
            timestamp=time, p=p.ravel().tolist(), quaternion=quaternions_from_rotations(R).ravel().tolist()
        )

    def snapshot(self) -> dict[str, Any]:
        """Coordinates of the last poses, joint positions of the model, and time of the next poses, for `restore`."""
        return {
            "q": self._q.copy(),
            "p": self._p.copy(),
            "model": dict(self._model),
            "frames": list(self._frames),
            "due": self._due,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a result of `snapshot`."""
        self._q, self._p = np.array(state["q"]), np.array(state["p"])
        self._model, self._frames, self._due = dict(state["model"]), list(state["frames"]), state["due"]

    def _write_joints(self, positions: dict[str, float]) -> None:
        """Write joint positions to the coordinates of joints with one coordinate, and to planar joints' angles."""
        mechanism, index = self._system.mechanism, 0
        if not mechanism.has_joint_coordinates:
            return
        for joint in mechanism.joints:
            index += len(joint.coordinates)
            if joint.name in self._places and joint.name in positions:
                self._q[index - 1] = positions[joint.name]  # of a planar joint, the angle

    def _place_frames(self, frames: list[float]) -> None:
        """Write the poses `frames` of the spherical, free and planar joints to the coordinates and quaternions of these
        joints. The angle of a planar joint is not written.
        """
        mechanism, index, place = self._system.mechanism, 0, 0
        posed = mechanism.posed_joints
        if not mechanism.has_joint_coordinates or len(frames) != FRAME * len(posed):
            return
        for joint in mechanism.joints:
            frame = np.array(frames[place : place + FRAME])
            place += FRAME if joint in posed else 0
            if joint.is_planar:
                x, y = perpendicular_axes(joint.axis)
                self._q[index : index + 2] = np.dot(x, frame[:3]), np.dot(y, frame[:3])
            elif joint in posed:
                end = index + len(joint.coordinates)
                self._q[index:end] = [*frame[:3], 0.0, 0.0, 0.0][-len(joint.coordinates) :]
                own = np.array(joint.rotation, dtype=float).T @ rotation_from_quaternion(frame[3:])
                first = self._system.parameter_names.index(joint.orientation_names[0])
                self._p[first : first + 4] = quaternions_from_rotations(own[None])[0]
            index += len(joint.coordinates)

    def _fit(self, time: float, own: dict[str, float]) -> None:
        """Change the coordinates to the nearest values that fit the joint positions and satisfy the constraints.

        own  {joint: measured position}. A joint without a measured position is fitted to its position in the model,
             with a small weight
        """
        targets = {name: value for name, value in {**self._model, **own}.items() if name in self._places}
        places = [self._places[name] for name in targets]
        desired = np.array(list(targets.values()))
        weights = np.array([1.0 if name in own else FAINT for name in targets])
        wraps = np.isin(places, self._system.wraps)
        for _ in range(ITERATIONS):
            position, J = _joints(self._system, time, self._q, self._p)
            off = desired - position[places]
            off[wraps] = np.remainder(off[wraps] + np.pi, 2.0 * np.pi) - np.pi
            Phi, _ = self._system.residual(time, self._q, np.zeros(self._system.n_q), self._p)
            closing = self._system.terms(time, self._q, np.zeros(self._system.n_q), None, self._p)[2][: len(Phi)]
            A = np.concatenate([weights[:, None] * J[places], closing])
            step = np.linalg.lstsq(A, np.concatenate([weights * off, -Phi]), rcond=1e-9)[0]
            self._q += step
            if not np.abs(step).max(initial=0.0) > SMALLEST_STEP:
                break


def _joints(system: System, time: float, q: Floats, p: Floats) -> tuple[Floats, Floats]:
    """Positions (n,) of the joints at the coordinates q, and their derivatives with respect to q (n, n_q)."""
    units = np.eye(system.n_q)
    positions, columns = zip(*(system.joints(time, q, unit, p) for unit in units), strict=True)
    return positions[0], np.stack(columns, axis=1)
