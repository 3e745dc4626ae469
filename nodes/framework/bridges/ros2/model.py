"""The model of a launch's robot for ROS 2: its URDF, and the frames that are fixed in its bodies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from xml.etree import ElementTree

from nodes.framework.bridges.ros2.conversion import WORLD, frame_of, transform
from nodes.framework.plan.launch_plan import PLAN_FILE, SimPlan, read_plan
from nodes.framework.ros2.interfaces.geometry_msgs import TransformStamped
from nodes.framework.ros2.interfaces.std_msgs import Header
from robots.export import urdf
from sim_core.mechanism import GROUND, IDENTITY_QUATERNION, Joint, Mechanism
from sim_core.mechanism.outputs import AccelerometerOutput, ForceTorqueOutput, GyroscopeOutput

ORIGIN = ".origin"  # ends the name of the link that marks a body's origin, where it is not the link's


@dataclass(frozen=True)
class FreeBase:
    """Where the state of a simulation has the motion of a base that no joint holds.

    coordinates  place of its six coordinates in q and v
    quaternion   place of its quaternion in p
    """

    coordinates: int
    quaternion: int


@dataclass(frozen=True)
class RobotModel:
    """A robot's model.

    urdf     text of its URDF; "" if URDF cannot express the robot
    fixed    transforms of the frames that are fixed in a body or in the world
    shifted  bodies whose URDF link has another origin than the body; `BODY.origin` is the frame of such a body
    free     {body: place of its motion} of bases without a joint to the ground
    note     one line for the user, or ""
    """

    urdf: str
    fixed: list[TransformStamped]
    shifted: frozenset[str] = frozenset()
    free: Mapping[str, FreeBase] = field(default_factory=dict)
    note: str = ""

    def frame(self, robot: str, body: str) -> str:
        """Frame of a body: its own axes and origin."""
        return frame_of(robot, f"{body}{ORIGIN}" if body in self.shifted else body)


def robot_model(domain_folder: Path, robot: str) -> RobotModel:
    """The model of the robot with this name in topics, from the plan of the live launch.

    Raises ValueError or OSError if there is no such plan on this computer.
    """
    plan = read_plan(domain_folder / PLAN_FILE)
    sims: list[SimPlan] = [view.sim for view in (plan.views if plan.simulations else [plan])]
    for sim in sims:
        if sim.robot_name == robot:
            mechanism = sim.make_mechanism()
            if mechanism.coordinates != "joint":  # only a tree of joints can be exported
                with suppress(ValueError, LookupError):
                    mechanism = sim.make_mechanism(coordinates="joint")
            return model_of(mechanism, robot)
    raise ValueError(f"the plan has no robot {robot!r}")


def model_of(mechanism: Mechanism, robot: str) -> RobotModel:
    """The model of a mechanism.

    robot  name of the robot in topics, with which its frames begin
    """
    fixed = [transform(Header(frame_id=WORLD), frame_of(robot, GROUND), [0.0] * 3, [1.0, 0.0, 0.0, 0.0])]
    free = {base.child: place for base, place in _free_bases(mechanism)}
    try:
        text, note = urdf.export(mechanism, open_tree=True).text, ""
    except ValueError as error:
        text, note = "", f"robot_description is not published: {error}"
    links = list(_shifted_links(text, robot)) if text else []
    shifted = frozenset(each.child_frame_id.removeprefix(f"{robot}/") for each in links)
    model = RobotModel(text, [*fixed, *links], shifted, free, note)
    return replace(model, fixed=[*model.fixed, *_sensors(mechanism, robot, model)])


def _free_bases(mechanism: Mechanism) -> Iterator[tuple[Joint, FreeBase]]:
    """The free joints whose coordinates are the pose of the body in the world, with their places."""
    if mechanism.coordinates != "joint":
        return
    names = [name for joint in mechanism.joints for name in joint.coordinates]
    parameters = list(mechanism.parameter_names)
    for joint in mechanism.oriented_joints:
        points = (*joint.parent_point, *joint.child_point)
        quaternion = f"{joint.name}.qw"
        if joint.is_free and joint.parent == GROUND and not any(points) and quaternion in parameters:
            yield joint, FreeBase(names.index(joint.coordinates[0]), parameters.index(quaternion))


def _sensors(mechanism: Mechanism, robot: str, model: RobotModel) -> Iterator[TransformStamped]:
    """Frames of the sensors in their bodies; an accelerometer and a gyroscope of one name share the first one's."""
    seen: set[str] = set()
    for output in mechanism.outputs:
        if isinstance(output, ForceTorqueOutput):
            joint = mechanism.joint(output.joint)
            body, point = joint.child, joint.child_point if output.point is None else output.point
        elif isinstance(output, AccelerometerOutput | GyroscopeOutput):
            body = output.body
            point = output.point if isinstance(output, AccelerometerOutput) else (0.0, 0.0, 0.0)
        else:
            continue
        if output.name in seen:
            continue
        seen.add(output.name)
        header = Header(frame_id=model.frame(robot, body))
        position, quaternion = ([float(x) for x in each] for each in (point, output.quaternion))
        yield transform(header, frame_of(robot, output.name), position, quaternion)


def _shifted_links(text: str, robot: str) -> Iterator[TransformStamped]:
    """Frames of the links whose origins are not those of their bodies, which `BODY.origin` marks."""
    for joint in ElementTree.fromstring(text).iter("joint"):
        child, origin = joint.find("child"), joint.find("origin")
        name = "" if child is None else child.attrib["link"]
        if name.endswith(ORIGIN) and origin is not None:
            shift = [-float(x) for x in origin.attrib["xyz"].split()]  # both frames have the same axes
            header = Header(frame_id=frame_of(robot, name))
            yield transform(header, frame_of(robot, name.removesuffix(ORIGIN)), shift, list(IDENTITY_QUATERNION))
