"""The entities of simulation_interfaces: the robots of a launch, and their bodies."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping

from nodes.framework.bridges.ros2.conversion import WORLD, ros_time
from nodes.framework.bridges.ros2.robot_topics import RobotTopics
from nodes.framework.client import Client
from nodes.framework.messages import BodyPoses
from nodes.framework.ros2.interfaces.geometry_msgs import Accel, Point, Pose, Quaternion, Twist, Vector3
from nodes.framework.ros2.interfaces.simulation_interfaces import Bounds, EntityFilters, EntityState
from nodes.framework.ros2.interfaces.std_msgs import Header

LONGEST_FILTER = 200
_REG_EXTENDED, _REG_NOSUB = 1, 8
_SIZE_OF_REGEX = 256  # more than sizeof(regex_t) of every C library
NAN = math.nan
Vector = tuple[float, float, float]


class EntityNotFound(LookupError):  # noqa: N818  it is what happened
    """Raised if there is no entity of a name. The text is one line."""


class NotSettable(RuntimeError):  # noqa: N818  it is what happened
    """Raised if the state of an entity cannot be set. The text is one line."""


class Entities:
    """The robots and bodies of the launch, as entities ROBOT and ROBOT/BODY. A robot's state is that of its first body.

    robots  {robot: its topics}, which have its description and latest poses
    """

    def __init__(self, robots: Mapping[str, RobotTopics]) -> None:
        self._robots = robots

    @property
    def names(self) -> list[str]:
        """Names of all entities."""
        return [
            name
            for robot, topics in list(self._robots.items())
            for name in (robot, *(f"{robot}/{body.name}" for body in topics.description.bodies))
        ]

    def unsupported(self, filters: EntityFilters) -> str:
        """One line on a filter that is missing; "" if there is none."""
        if filters.categories or filters.tags.tags or filters.bounds.type != Bounds.TYPE_EMPTY:
            return "entities are filtered by name only: leave out categories, tags and bounds"
        return ""

    def matching(self, pattern: str) -> list[str]:
        """Names of the entities that match a regular expression (POSIX Extended); all for "".

        Raises ValueError with a one-line message for an invalid expression.
        """
        return [name for name in self.names if not pattern or _Regex(pattern).matches(name)]

    def state(self, entity: str) -> EntityState:
        """Motion of an entity in the frame `world`. Raises EntityNotFound."""
        topics, body = self._find(entity)
        poses = topics.poses
        if poses is None:
            raise EntityNotFound(f"entity {entity[:80]!r} has no pose yet")
        point, quaternion = _pose(poses, body)
        w, x, y, z = quaternion
        linear, angular = self._velocity(topics, body)
        unknown = Vector3(NAN, NAN, NAN)
        return EntityState(
            Header(ros_time(poses.timestamp), WORLD),
            Pose(Point(*point), Quaternion(x, y, z, w)),
            Twist(Vector3(*linear), Vector3(*angular)),
            Accel(unknown, unknown),
        )

    def set_state(self, client: Client, entity: str, state: EntityState) -> None:
        """Set the motion of the base of a robot without a fixed base.

        Raises EntityNotFound, NotSettable for another body, and ValueError for a pose that is none.
        """
        topics, body = self._find(entity)
        name = topics.description.bodies[body].name
        place = None if topics.model is None else topics.model.free.get(name)
        if place is None:
            raise NotSettable(
                f"{entity[:80]!r} is moved by its joints; only the base of a robot on a free joint is set"
            )
        if state.header.frame_id not in ("", WORLD):
            raise ValueError(f"the frame is {state.header.frame_id[:80]!r}; give the pose in {WORLD!r}")
        p, q, linear, angular = state.pose.position, state.pose.orientation, state.twist.linear, state.twist.angular
        quaternion = _unit((q.w, q.x, q.y, q.z))
        turned = _rotated_back(quaternion, (angular.x, angular.y, angular.z))
        numbers = [p.x, p.y, p.z, linear.x, linear.y, linear.z, *turned]
        if not all(map(math.isfinite, numbers)):
            raise ValueError("position and twist must be finite numbers")
        snapshot = client.call("sim", "snapshot")
        robot, each = topics.description.robot, snapshot if "robot" not in snapshot else {"": snapshot}
        one = next(state for state in each.values() if state["robot"] == robot)
        one["q"][place.coordinates : place.coordinates + 6] = [p.x, p.y, p.z, 0.0, 0.0, 0.0]
        one["v"][place.coordinates : place.coordinates + 6] = numbers[3:]
        one["p"][place.quaternion : place.quaternion + 4] = list(quaternion)
        one["guards"], one["ledger"] = [], []  # the energy account begins anew
        client.call("sim", "restore", state=snapshot)

    def _find(self, entity: str) -> tuple[RobotTopics, int]:
        for robot, topics in list(self._robots.items()):
            if entity == robot:
                return topics, 0
            for place, body in enumerate(topics.description.bodies):
                if entity == f"{robot}/{body.name}":
                    return topics, place
        raise EntityNotFound(f"no entity {entity[:80]!r}; call get_entities for their names")

    def _velocity(self, topics: RobotTopics, body: int) -> tuple[Vector, Vector]:
        """Linear and angular velocity in the world: mean over the two latest poses."""
        before, after = topics.earlier, topics.poses
        if before is None or after is None or after.timestamp <= before.timestamp:
            return (NAN, NAN, NAN), (NAN, NAN, NAN)
        span = after.timestamp - before.timestamp
        (p0, q0), (p1, q1) = _pose(before, body), _pose(after, body)
        linear = tuple((b - a) / span for a, b in zip(p0, p1, strict=True))
        return linear, _rotation_vector(q0, q1, span)  # type: ignore[return-value]


def _pose(poses: BodyPoses, body: int) -> tuple[list[float], list[float]]:
    return poses.p[3 * body : 3 * body + 3], poses.quaternion[4 * body : 4 * body + 4]


def _unit(quaternion: tuple[float, float, float, float]) -> tuple[float, ...]:
    norm = math.hypot(*quaternion)
    if not 0.99 < norm < 1.01:
        raise ValueError(f"the orientation has the norm {norm:g}; give a unit quaternion")
    return tuple(each / norm for each in quaternion)


def _product(a: tuple[float, ...], b: tuple[float, ...]) -> tuple[float, float, float, float]:
    aw, ax, ay, az = a
    bw, bx, by, bz = b
    return (
        aw * bw - ax * bx - ay * by - az * bz,
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
    )


def _conjugate(q: tuple[float, ...]) -> tuple[float, ...]:
    return q[0], -q[1], -q[2], -q[3]


def _rotated_back(q: tuple[float, ...], vector: Vector) -> Vector:
    """The vector in the axes that the quaternion q turned, R(q)^T vector."""
    _, x, y, z = _product(_product(_conjugate(q), (0.0, *vector)), q)
    return x, y, z


def _rotation_vector(before: list[float], after: list[float], span: float) -> Vector:
    """Mean angular velocity from one orientation to another one, in the world's axes."""
    w, x, y, z = _product(tuple(after), _conjugate(tuple(before)))
    sine = math.hypot(x, y, z)
    angle = 2.0 * math.atan2(sine, abs(w)) * math.copysign(1.0, w)
    scale = angle / sine / span if sine > 0.0 else 0.0
    return x * scale, y * scale, z * scale


class _Regex:
    """A POSIX Extended regular expression, as the C library compiles and matches it."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > LONGEST_FILTER or pattern.count("{") > 1 or "\\" in pattern or "\0" in pattern:
            raise ValueError(
                f"filter: give at most {LONGEST_FILTER} characters, without backslashes and with one interval at most"
            )
        self._libc = ctypes.CDLL(None)
        self._compiled = ctypes.create_string_buffer(_SIZE_OF_REGEX)
        if self._libc.regcomp(self._compiled, pattern.encode(), _REG_EXTENDED | _REG_NOSUB):
            raise ValueError(f"filter {pattern!r} is no POSIX Extended regular expression")

    def matches(self, text: str) -> bool:
        """Whether a part of the text matches the expression."""
        return bool(self._libc.regexec(self._compiled, text.encode(), 0, None, 0) == 0)

    def __del__(self) -> None:
        if hasattr(self, "_compiled"):
            self._libc.regfree(self._compiled)
