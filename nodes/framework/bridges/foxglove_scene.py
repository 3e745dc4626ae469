"""Converts a robot to Foxglove's own schemas: bodies to a scene, poses to transforms, states to joint states."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from foxglove.messages import (
    Color,
    CubePrimitive,
    CylinderPrimitive,
    FrameTransform,
    FrameTransforms,
    JointState,
    JointStates,
    LinePrimitive,
    LinePrimitiveLineType,
    Point3,
    Pose,
    Quaternion,
    SceneEntity,
    SceneUpdate,
    SpherePrimitive,
    Timestamp,
    TriangleListPrimitive,
    Vector3,
)

from nodes.framework.messages import BodyPoses, Description, Polylines, RobotState, Shape

WORLD = "world"  # frame in which the poses of the bodies are given
THICKNESS_PX = 3.0  # of lines
GREY = "#8a8f98"  # of a shape without a colour


def stamp(time_s: float) -> Timestamp:
    """Foxglove timestamp of a simulation time in s."""
    nanoseconds = round(time_s * 1e9)
    return Timestamp(nanoseconds // 10**9, nanoseconds % 10**9)


def scene_of(description: Description) -> SceneUpdate:
    """Scene of the ground and the bodies.

    The shapes of each body form one entity, which is fixed in the body's frame.
    """
    entities = [_entity(f"{description.robot}/{WORLD}", WORLD, description.ground)]
    entities += [
        _entity(frame_of(description, place), frame_of(description, place), body.shapes)
        for place, body in enumerate(description.bodies)
    ]
    return SceneUpdate(entities=entities)


def frame_of(description: Description, body: int) -> str:
    """Name of a body's frame, such as "charmie/link_3"."""
    return f"{description.robot}/{description.bodies[body].name}"


def transforms_of(description: Description, poses: BodyPoses, time_s: float) -> FrameTransforms:
    """Transforms that give the pose of every body in the frame `world`."""
    return FrameTransforms(
        transforms=[
            FrameTransform(
                timestamp=stamp(time_s),
                parent_frame_id=WORLD,
                child_frame_id=frame_of(description, body),
                translation=_vector(poses.p[3 * body : 3 * body + 3]),
                rotation=_quaternion(poses.quaternion[4 * body : 4 * body + 4]),
            )
            for body in range(min(len(description.bodies), len(poses.p) // 3))
        ]
    )


def lines_of(topic: str, lines: Polylines, time_s: float) -> SceneUpdate:
    """Scene of polylines in the frame `world`.

    The new polylines replace the polylines of the previous message on the same topic.
    """
    points = iter(_points(lines.points))
    drawn = [_line(list(islice(points, count)), GREY) for count in lines.count]
    return SceneUpdate(entities=[SceneEntity(timestamp=stamp(time_s), frame_id=WORLD, id=topic, lines=drawn)])


def has_rows(state: RobotState) -> bool:
    """Whether a state has a position and a velocity for each joint; a recording of another program may lack some."""
    lengths = {len(state.name), len(state.position), len(state.velocity), len(state.effort or state.name)}
    return len(lengths) == 1


def joints_of(state: RobotState, time_s: float) -> JointStates:
    """Position, velocity and effort of every joint. Efforts that the state does not contain are left out."""
    efforts: Sequence[float | None] = state.effort or [None] * len(state.name)
    rows = zip(state.name, state.position, state.velocity, efforts, strict=True)
    joints = [JointState(name=name, position=q, velocity=v, effort=tau) for name, q, v, tau in rows]
    return JointStates(timestamp=stamp(time_s), joints=joints)


def _entity(name: str, frame: str, shapes: list[Shape]) -> SceneEntity:
    kinds: dict[str, list[Shape]] = {}
    for shape in shapes:
        kinds.setdefault(shape.kind, []).append(shape)
    return SceneEntity(
        id=name,
        frame_id=frame,
        frame_locked=True,
        cubes=[CubePrimitive(pose=_pose(s), size=_vector(s.size), color=_color(s)) for s in kinds.get("box", [])],
        spheres=[
            SpherePrimitive(pose=_pose(s), size=_vector([2.0 * s.size[0]] * 3), color=_color(s))
            for s in kinds.get("sphere", [])
        ],
        cylinders=[
            CylinderPrimitive(
                pose=_pose(s),
                size=_vector([2.0 * s.size[0], 2.0 * s.size[0], s.size[1]]),
                bottom_scale=1.0,
                top_scale=1.0,
                color=_color(s),
            )
            for s in kinds.get("cylinder", [])
        ],
        lines=[_line(_points(s.points), s.color or GREY, _pose(s)) for s in kinds.get("line", [])],
        triangles=[
            TriangleListPrimitive(pose=_pose(s), points=_points(s.points), color=_color(s), indices=s.faces)
            for s in kinds.get("mesh", [])
        ],
    )


def _line(points: list[Point3], color: str, pose: Pose | None = None) -> LinePrimitive:
    return LinePrimitive(
        type=LinePrimitiveLineType.LineStrip,
        pose=pose or Pose(position=Vector3(), orientation=Quaternion(w=1.0)),
        thickness=THICKNESS_PX,
        scale_invariant=True,
        points=points,
        color=_rgb(color),
    )


def _points(numbers: list[float]) -> list[Point3]:
    return [Point3(x=x, y=y, z=z) for x, y, z in zip(*[iter(numbers)] * 3, strict=True)]


def _pose(shape: Shape) -> Pose:
    return Pose(position=_vector(shape.position), orientation=_quaternion(shape.quaternion))


def _vector(numbers: list[float]) -> Vector3:
    x, y, z = numbers
    return Vector3(x=x, y=y, z=z)


def _quaternion(numbers: list[float]) -> Quaternion:
    w, x, y, z = numbers
    return Quaternion(x=x, y=y, z=z, w=w)


def _color(shape: Shape) -> Color:
    return _rgb(shape.color or GREY)


def _rgb(text: str) -> Color:
    red, green, blue = (int(text[k : k + 2], 16) / 255.0 for k in (1, 3, 5))
    return Color(r=red, g=green, b=blue, a=1.0)
