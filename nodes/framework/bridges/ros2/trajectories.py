"""Joint trajectories of ROS 2: the reference of all joints at any time, by the rules of ros2_control's controller.

Between two points, the position is linear in time if the points have positions only; with velocities it is a cubic
polynomial, and with accelerations too it is one of fifth degree.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from nodes.framework.messages import JointReference
from nodes.framework.ros2.interfaces.trajectory_msgs import JointTrajectory, JointTrajectoryPoint

MOST_POINTS = 100_000
Row = tuple[Sequence[float], Sequence[float], Sequence[float]]  # positions, velocities and accelerations of the joints


@dataclass(frozen=True)
class Trajectory:
    """A trajectory that began at a simulation time.

    names  joints
    times  simulation times of the points, s, which increase
    rows   positions, velocities and accelerations at the points; empty lists for quantities that are not given
    """

    names: list[str]
    times: list[float]
    rows: list[Row]

    @property
    def end(self) -> float:
        """Simulation time of the last point, s."""
        return self.times[-1]

    def at(self, time: float) -> JointReference:
        """The reference at a simulation time (s). After the end it rests at the last point."""
        after = bisect_right(self.times, time)
        if after == len(self.times):
            rest = [0.0] * len(self.names)
            return JointReference(name=self.names, position=list(self.rows[-1][0]), velocity=rest, acceleration=rest)
        if after == 0:
            after = 1  # time is that of the first point, but for rounding
        span = self.times[after] - self.times[after - 1]
        share = max(time - self.times[after - 1], 0.0)
        before, target = self.rows[after - 1], self.rows[after]
        joints = [_between(span, share, *_values(before, k), *_values(target, k)) for k in range(len(self.names))]
        positions, velocities, accelerations = (list(each) for each in zip(*joints, strict=True))
        return JointReference(name=self.names, position=positions, velocity=velocities, acceleration=accelerations)


def trajectory_of(message: JointTrajectory, start: float, motion: Mapping[str, tuple[float, float]]) -> Trajectory:
    """The trajectory in a message. If its first point is later than its start, it begins at the present motion.

    start   simulation time of the trajectory's start, s
    motion  {joint: present position, present velocity}

    Raises ValueError with a one-line message for a trajectory that does not fit the robot or itself.
    """
    names, points = message.joint_names, message.points
    if not names or len(set(names)) != len(names):
        raise ValueError("joint_names must name each joint once")
    for name in names:
        if name not in motion:
            raise ValueError(f"the robot has no joint {name[:80]!r}; its joints are {', '.join(motion)}")
    if not 0 < len(points) <= MOST_POINTS:
        raise ValueError(f"the trajectory has {len(points)} points; give 1 to {MOST_POINTS}")
    times = [start + each.time_from_start.sec + 1e-9 * each.time_from_start.nanosec for each in points]
    rows = [_row(each, len(names), place) for place, each in enumerate(points)]
    if times[0] > start:
        present = [motion[name] for name in names]
        moves, turns = bool(rows[0][1]), bool(rows[0][2])
        velocities = [velocity for _, velocity in present] if moves else []
        rows.insert(0, ([position for position, _ in present], velocities, [0.0] * len(names) if turns else []))
        times.insert(0, start)
    if times[0] < start or any(later <= earlier for earlier, later in pairwise(times)):
        raise ValueError("time_from_start must be at least 0 and increase from point to point")
    return Trajectory(list(names), times, rows)


def _row(point: JointTrajectoryPoint, count: int, place: int) -> Row:
    row = point.positions, point.velocities, point.accelerations
    for values, what in zip(row, ("positions", "velocities", "accelerations"), strict=True):
        if len(values) != count and (values or what == "positions"):
            raise ValueError(f"point {place} has {len(values)} {what} for {count} joints")
        if not all(map(math.isfinite, values)):
            raise ValueError(f"point {place}: {what} must be finite numbers")
    if point.accelerations and not point.velocities:
        raise ValueError(f"point {place} has accelerations, but no velocities; give both")
    return row


def _values(row: Row, joint: int) -> tuple[float, float | None, float | None]:
    positions, velocities, accelerations = row
    return positions[joint], velocities[joint] if velocities else None, accelerations[joint] if accelerations else None


def _between(
    span: float,
    t: float,
    p0: float,
    v0: float | None,
    a0: float | None,
    p1: float,
    v1: float | None,
    a1: float | None,
) -> tuple[float, float, float]:
    """Position, velocity and acceleration a time t after a point, of the polynomial that joins it to the next point."""
    if v0 is None or v1 is None:
        slope = (p1 - p0) / span
        return p0 + slope * t, slope, 0.0
    T, d = span, p1 - p0
    if a0 is None or a1 is None:
        c = (p0, v0, (3.0 * d - (2.0 * v0 + v1) * T) / T**2, (-2.0 * d + (v0 + v1) * T) / T**3, 0.0, 0.0)
    else:
        c = (
            p0,
            v0,
            0.5 * a0,
            (20.0 * d - (8.0 * v1 + 12.0 * v0) * T - (3.0 * a0 - a1) * T**2) / (2.0 * T**3),
            (-30.0 * d + (14.0 * v1 + 16.0 * v0) * T + (3.0 * a0 - 2.0 * a1) * T**2) / (2.0 * T**4),
            (12.0 * d - 6.0 * (v1 + v0) * T + (a1 - a0) * T**2) / (2.0 * T**5),
        )
    position = c[0] + t * (c[1] + t * (c[2] + t * (c[3] + t * (c[4] + t * c[5]))))
    velocity = c[1] + t * (2.0 * c[2] + t * (3.0 * c[3] + t * (4.0 * c[4] + t * 5.0 * c[5])))
    acceleration = 2.0 * c[2] + t * (6.0 * c[3] + t * (12.0 * c[4] + t * 20.0 * c[5]))
    return position, velocity, acceleration
