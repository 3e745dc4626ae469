"""Bridge to ROS 2 by rmw_zenoh: a live launch as nodes, topics, services and parameters of a ROS graph."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from nodes.framework.bridges.live import LiveMessages
from nodes.framework.bridges.ros2 import graph
from nodes.framework.bridges.ros2.commander import NODE, Commander
from nodes.framework.bridges.ros2.commands import RobotCommands
from nodes.framework.bridges.ros2.conversion import ros_time
from nodes.framework.bridges.ros2.model import robot_model
from nodes.framework.bridges.ros2.neighbours import Neighbours
from nodes.framework.bridges.ros2.parameters import UNREACHABLE, NodeParameters, parameter_event
from nodes.framework.bridges.ros2.robot_topics import RobotTopics
from nodes.framework.bridges.ros2.session import RosSession
from nodes.framework.bridges.ros2.simulation_services import SimulationServices
from nodes.framework.client import Client
from nodes.framework.messages import BodyPoses, Description, Event, Message, RobotState
from nodes.framework.ros2.interfaces.geometry_msgs import TransformStamped
from nodes.framework.ros2.interfaces.rcl_interfaces import ParameterEvent
from nodes.framework.ros2.interfaces.rosgraph_msgs import Clock
from nodes.framework.ros2.interfaces.tf2_msgs import TFMessage
from nodes.framework.transport.domain import domain_folder

FOLLOW_S = 0.5  # time between two looks at the list of nodes


class Ros2Bridge:
    """Connects the launch of a domain to the ROS graph, launch after launch, until `stop` is set.

    address    "tcp/HOST:PORT" of the router
    is_router  whether the bridge is the router itself
    ros_domain  ROS domain
    report     function that is called with a line for the user
    messages   the LiveMessages object from which the messages are read
    session    session with the router

    Raises RouterAbsent if no router answers.
    """

    def __init__(
        self,
        domain: int | None,
        stop: threading.Event,
        report: Callable[[str], None],
        address: str,
        is_router: bool = False,
        ros_domain: int = 0,
    ) -> None:
        self.session = RosSession(address, is_router, ros_domain)
        self.messages = LiveMessages(domain, stop, self._begin, self._end)
        self._report = report
        self._robots: dict[str, RobotTopics] = {}
        self._commands: dict[str, RobotCommands] = {}
        self._node = self.session.node("/armswing")
        self._clock = self._node.publisher("/clock", Clock, graph.Qos(depth=1))
        self._tf = self._node.publisher("/tf", TFMessage, graph.Qos(depth=100))
        self._fixed = self._node.publisher("/tf_static", TFMessage, graph.LATCHED)
        self._changes = self._node.publisher("/parameter_events", ParameterEvent, graph.Qos(depth=1000))
        self._change: Event | None = None  # latest change of a parameter
        self._transforms: dict[str, TransformStamped] = {}
        self._services = SimulationServices(self._robots)
        self._services.declare(self._node)
        self._neighbours = Neighbours(self.session, report)
        self._commander: Commander | None = None
        self._over = threading.Event()  # of the present launch
        self._follower: threading.Thread | None = None
        self._time = -1.0
        self._sent = self._lost = 0  # of the launches that have ended
        self.session.watch(self._neighbours.changed)

    def run(self) -> None:
        """Pass messages on until `stop` is set."""
        try:
            for topic, message, time_s in self.messages:
                self._pass_on(topic, message, time_s)
        finally:
            self._end()
            self.session.close()

    @property
    def summary(self) -> str:
        """One line on the messages of the launches that have ended."""
        session = self.session
        latest = f" (the latest: {session.refusals.last})" if session.refusals.last else ""
        return (
            f"passed on {self._clock.sent} states and {self._sent} commands; "
            f"{self.messages.lost} messages were lost on the way to the bridge, {self._lost} commands on the way from "
            f"ROS 2, {session.refusals.count} were refused{latest}, {session.apart} were published without a router"
        )

    # -- launches

    def _begin(self, client: Client) -> None:
        self._over = threading.Event()
        self._transforms.clear()
        self._services.client = client
        self._commander = Commander(client, self.session.refusals)
        self._follower = threading.Thread(
            target=self._follow, args=(client, self._over), name="ros2 nodes", daemon=True
        )
        self._follower.start()

    def _end(self) -> None:
        self._over.set()
        self._services.client = None
        if self._follower is not None:
            self._follower.join()
            self._follower = None
        if self._commander is not None:
            self._commander.close()
            self._sent += self._commander.sent
            self._commander = None
        for robot in list(self._robots):
            self._lost += self._commands.pop(robot).lost
            self._robots.pop(robot).close()
        self._time = -1.0

    def _follow(self, client: Client, over: threading.Event) -> None:
        """Keep one node of the ROS graph for each node of the launch that has parameters."""
        shown: dict[str, NodeParameters] = {}
        while not over.wait(FOLLOW_S if shown else 0.05):
            with suppress(*UNREACHABLE):
                present = {entry.name for entry in client.nodes() if "service" in entry.endpoints}
                for name in shown.keys() - present:
                    shown.pop(name).close()
                for name in sorted(present - shown.keys()):
                    shown[name] = NodeParameters(self.session, client, name)
        for each in shown.values():
            each.close()

    # -- messages

    def _pass_on(self, topic: str, message: Message, time_s: float) -> None:
        robot = topic.rpartition("/")[0]
        if isinstance(message, RobotState):
            if topic.endswith("/state") and robot in self._robots:
                self._pass_state(robot, message, time_s)
        elif isinstance(message, BodyPoses):
            if topic.endswith("/body_poses") and robot in self._robots:
                self._robots[robot].publish_poses(message)
        elif isinstance(message, Description):
            self._add_robot(message)
        elif isinstance(message, Event) and message.kind == "refused" and message.node == NODE:
            self.session.refusals.refuse(f"{robot}/command", f"by the simulation: {message.detail}")
        elif isinstance(message, Event) and message.kind == "set":
            self._pass_change(message, time_s)

    def _pass_state(self, robot: str, state: RobotState, time_s: float) -> None:
        stamp = ros_time(time_s)
        if time_s != self._time:  # once for all robots
            if time_s < self._time:
                for each in self._robots.values():
                    each.forget_states()
            self._time = time_s
            self._clock.publish(Clock(stamp))
        self._robots[robot].publish_state(state, stamp)
        self._commands[robot].follow_trajectory(state)

    def _pass_change(self, event: Event, time_s: float) -> None:
        """Publish a change of a parameter, of which the simulation publishes one event for each robot."""
        what, before = (None if e is None else (e.timestamp, e.node, e.key, e.new) for e in (event, self._change))
        self._change = event
        if what != before:
            self._changes.publish(parameter_event(event, ros_time(time_s)))

    def _add_robot(self, description: Description) -> None:
        robot = description.robot
        assert self._commander is not None
        if robot in self._robots:
            return
        node = self.session.node(f"/{graph.ros_name(robot)}/armswing")
        topics = RobotTopics(node, self._tf, description)
        self._robots[robot] = topics
        self._report(f"{robot}: connected, its topics are in {topics.namespace}")
        self._commands[robot] = RobotCommands(node, topics, self._commander)
        threading.Thread(target=self._publish_model, args=(topics,), name="ros2 model", daemon=True).start()

    def _publish_model(self, topics: RobotTopics) -> None:
        """Read the robot's model, which may take seconds, and publish it."""
        robot, model = topics.description.robot, None
        try:
            model = robot_model(domain_folder(self.messages.domain), robot)
        except (ValueError, OSError, ImportError) as error:
            self._report(f"{robot}: robot_description is not published: {error}")
        if model is not None:
            if model.note:
                self._report(f"{robot}: {model.note}")
            self._transforms |= {each.child_frame_id: each for each in model.fixed}
            self._fixed.publish(TFMessage(list(self._transforms.values())))
        topics.publish_model(model)
