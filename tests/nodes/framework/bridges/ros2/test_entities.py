"""The robots and bodies of a launch as entities: found by POSIX expressions, read and set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("zenoh", reason="eclipse-zenoh is not installed: pip install 'armswing[ros2]'")

from nodes.framework.bridges.ros2.entities import Entities, EntityNotFound, NotSettable
from nodes.framework.bridges.ros2.model import model_of
from nodes.framework.messages import BodyPoses, Description, RobotState
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.launch_plan import Plan
from nodes.framework.ros2.interfaces.geometry_msgs import Point, Pose, Quaternion, Twist, Vector3
from nodes.framework.ros2.interfaces.simulation_interfaces import EntityState
from nodes.framework.simulation.server import SimServer

TUMBLER = Path(__file__).resolve().parents[5] / "launch/examples/tumbler.toml"


class Topics:
    """What entities read of a robot's topics."""

    def __init__(self, server: SimServer, ear: Any) -> None:
        self.description = ear.all(Description)[0]
        self.model = model_of(server.plan.sim.make_mechanism(), self.description.robot)
        self.poses: BodyPoses | None = ear.all(BodyPoses)[-1]
        self.earlier: BodyPoses | None = None


class Calls:
    """The services of a server in this process."""

    def __init__(self, server: SimServer) -> None:
        self.call: Callable[..., Any] = lambda node, name, **args: server.request(name, args)


@pytest.fixture
def tumbler(started: Callable[[Plan], tuple[Any, Any]]) -> tuple[SimServer, Any, Topics, Entities]:
    server, ear = started(load_plan(TUMBLER))
    server.publish_state()
    topics = Topics(server, ear)
    return server, ear, topics, Entities({"tumbler": topics})  # type: ignore[dict-item]


def test_entities_are_found_by_posix_expressions(tumbler: Any) -> None:
    *_, entities = tumbler
    assert entities.matching("") == entities.names
    assert entities.matching("^tumbler$") == ["tumbler"]
    assert entities.matching("front_(left|right)") == ["tumbler/front_left", "tumbler/front_right"]
    assert entities.matching("t{2}") == []
    for wrong in ("(", "a" * 201, r"\1", "a{9}{9}"):
        with pytest.raises(ValueError, match="filter"):
            entities.matching(wrong)


def test_the_base_of_a_robot_without_a_fixed_base_is_set(tumbler: Any) -> None:
    server, ear, _, entities = tumbler
    half = np.sqrt(0.5)
    state = EntityState(
        pose=Pose(Point(1.0, 2.0, 3.0), Quaternion(0.0, 0.0, half, half)),  # a quarter turn about z
        twist=Twist(Vector3(0.1, 0.2, 0.3), Vector3(1.0, 0.0, 0.5)),
    )
    entities.set_state(Calls(server), "tumbler/trunk", state)
    poses = ear.all(BodyPoses)[-1]
    np.testing.assert_allclose(poses.p[:3], [1.0, 2.0, 3.0], atol=1e-12)
    np.testing.assert_allclose(poses.quaternion[:4], [half, 0.0, 0.0, half], atol=1e-12)
    twist = ear.all(RobotState)[-1].twists[:6]
    np.testing.assert_allclose(twist[:3], [0.1, 0.2, 0.3], atol=1e-12)
    np.testing.assert_allclose(twist[3:], [0.0, -1.0, 0.5], atol=1e-12)  # in the body's axes
    server.resume()
    for _ in range(10):
        server.step()
    assert not [event for event in ear.heard if getattr(event[1], "kind", "") == "energy_departure"]


def test_velocities_are_the_mean_over_two_poses(tumbler: Any) -> None:
    server, ear, topics, entities = tumbler
    assert np.isnan(entities.state("tumbler").twist.linear.x)
    topics.earlier = topics.poses
    server.resume()
    for _ in range(4):
        server.step()
    server.publish_state()
    topics.poses = ear.all(BodyPoses)[-1]
    found, start = entities.state("tumbler/trunk"), 4 * server.plan.sim.step_s
    linear = found.twist.linear
    states = ear.all(RobotState)
    mean = (np.array(states[0].twists[:3]) + np.array(states[-1].twists[:3])) / 2.0
    np.testing.assert_allclose([linear.x, linear.y, linear.z], mean, atol=1e-6)
    assert linear.z == pytest.approx(-9.81 * start / 2, rel=0.03)  # it falls, and spins about another point
    tilt = np.radians(35.0)
    angular = found.twist.angular
    assert [angular.y, angular.z] == pytest.approx([-4.0 * np.sin(tilt), 4.0 * np.cos(tilt)], rel=0.02)
    assert np.isnan(found.acceleration.linear.x)


def test_what_cannot_be_set_is_refused(tumbler: Any) -> None:
    server, _, _, entities = tumbler
    calls = Calls(server)
    with pytest.raises(NotSettable, match="moved by its joints"):
        entities.set_state(calls, "tumbler/tail", EntityState())
    with pytest.raises(EntityNotFound, match="no entity 'tumble'"):
        entities.set_state(calls, "tumble", EntityState())
    for wrong in (
        Pose(orientation=Quaternion(0.0, 0.0, 0.0, 0.5)),
        Pose(Point(np.nan, 0.0, 0.0)),
    ):
        with pytest.raises(ValueError, match=r"unit quaternion|finite"):
            entities.set_state(calls, "tumbler", EntityState(pose=wrong))
