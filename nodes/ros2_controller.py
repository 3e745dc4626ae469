"""A controller of ROS 2 as a participant in lockstep: each time step waits for its command."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Mapping

import msgspec

from nodes.framework.bridges.ros2 import graph
from nodes.framework.bridges.ros2.command_conversion import Actuators, joint_commands
from nodes.framework.bridges.ros2.conversion import nanoseconds, ros_time
from nodes.framework.bridges.ros2.graph import Attachment, Endpoint
from nodes.framework.bridges.ros2.robot_topics import RobotTopics
from nodes.framework.bridges.ros2.session import ROUTER, RosSession, RouterAbsent
from nodes.framework.messages import BodyPoses, Description, JointCommand, Message, RobotState
from nodes.framework.plan.launch_plan import Plan
from nodes.framework.ros2.interfaces.rosgraph_msgs import Clock
from nodes.framework.ros2.interfaces.sensor_msgs import JointState
from nodes.framework.ros2.interfaces.tf2_msgs import TFMessage
from nodes.node import Context, Node, Outgoing

RETRY_S = 0.5
SHARE = 0.8  # of deadline_ms: the rest is for the reply to the simulation
MOST_KEPT = 64  # commands for other states


class Ros2ControllerParams(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Router and ROS domain, and whether the node is the router."""

    router: str = ROUTER  # address of rmw_zenohd
    listen: bool = False  # whether the node is the router at this address
    ros_domain: int = 0  # 0 to 232


class NoCommandError(RuntimeError):
    """The controller sent no command for a state before the deadline."""


class Ros2Controller(Node):
    """Publishes /clock, /tf and the robot's joint states in ROS 2, and waits for the command that answers each state.

    The controller answers a state with a JointState on /ROBOT/joint_command whose stamp is that of the state. The
    launch begins when such a controller is there. A time step waits for the command for 80 % of the key `deadline_ms`
    of [sim]; then the run fails, and the error names the state. With equal commands, runs are equal to the last bit.
    """

    subscribes = {"description": Description, "state": RobotState, "body_poses": BodyPoses}
    publishes = {"command": JointCommand}
    Params = Ros2ControllerParams
    stateless = True

    @classmethod
    def check(cls, params: Ros2ControllerParams, plan: Plan) -> None:
        if plan.sim.mode != "lockstep":
            raise ValueError(
                f"mode {plan.sim.mode!r} does not wait for a controller; use mode 'lockstep', or leave the node out "
                "and run 'armswing bridge ros2' beside the launch"
            )

    @classmethod
    def commands(cls, params: Ros2ControllerParams, plan: Plan) -> Collection[str] | None:
        return None

    def on_start(self, context: Context) -> Outgoing:
        self._context = context
        self._deadline_s = SHARE * 1e-3 * context.sim.deadline_ms
        self._arrived = threading.Condition()
        self._commands: dict[int, JointState] = {}  # {stamp, ns: command}
        self._answered = self._late = 0
        self._session: RosSession | None = None
        self._topics: RobotTopics | None = None
        self._waits_for = f"a router of ROS 2 at {context.params.router}"
        self._stopped = threading.Event()
        threading.Thread(target=self._connect, name="ros2", daemon=True).start()
        return None

    @property
    def waits_for(self) -> str:
        return self._waits_for

    @property
    def counters(self) -> Mapping[str, int]:
        """Numbers of commands that answered a state, of others, and of refused messages."""
        refused = 0 if self._session is None else self._session.refusals.count
        return {"answered": self._answered, "late": self._late, "refused_ros": refused}

    def on_message(self, name: str, message: Message) -> Iterator[tuple[str, Message]]:
        """Publish a description, state or poses. After a state, wait for the command that answers it."""
        if isinstance(message, Description):
            self._begin(message)
        elif isinstance(message, BodyPoses) and self._topics is not None:
            self._topics.publish_poses(message)
        elif isinstance(message, RobotState) and self._topics is not None:
            stamp = ros_time(message.timestamp)
            self._clock.publish(Clock(stamp))
            self._topics.publish_state(message, stamp)
            for command in joint_commands(self._await(nanoseconds(stamp)), self._actuators):
                command.state_seq = message.seq
                yield "command", command

    def on_reset(self, time: float) -> Outgoing:
        with self._arrived:
            self._commands.clear()
        return None

    def on_stop(self) -> Outgoing:
        self._stopped.set()
        if self._session is not None:
            self._session.close()
        return None

    # -- the graph of ROS 2

    def _connect(self) -> None:
        """Connect to the router, and find out whether a controller is there; on a thread of its own."""
        params = self._context.params
        while not self._stopped.is_set():
            try:
                session = RosSession(params.router, params.listen, params.ros_domain)
            except RouterAbsent as error:
                self._waits_for = str(error)
                self._stopped.wait(RETRY_S)
                continue
            node = session.node(f"/{graph.ros_name(self._context.robot)}/armswing", blocks=True)  # no state may be lost
            node.subscribe(self._command_topic, JointState, self._receive)
            self._clock = node.publisher("/clock", Clock, graph.Qos(depth=1))
            self._tf = node.publisher("/tf", TFMessage, graph.Qos(depth=100))
            self._node = node
            self._waits_for = f"a controller of ROS 2 that publishes {self._command_topic}"
            self._session = session
            while not any(self._is_controller(each) for each in session.endpoints()):
                if self._stopped.wait(RETRY_S):
                    return
            self._waits_for = ""
            return

    @property
    def _command_topic(self) -> str:
        return f"/{graph.ros_name(self._context.robot)}/joint_command"

    def _is_controller(self, endpoint: Endpoint) -> bool:
        return endpoint.kind == graph.PUBLISHER and endpoint.name == self._command_topic

    def _begin(self, description: Description) -> None:
        """Declare the topics of the robot."""
        if self._session is None:
            raise NoCommandError(f"the simulation runs, but the node still waits for {self._waits_for}")
        self._actuators = Actuators.of(description)
        self._topics = RobotTopics(self._node, self._tf, description)
        self._topics.publish_model(None)

    def _receive(self, message: JointState, attachment: Attachment) -> None:
        with self._arrived:
            if len(self._commands) >= MOST_KEPT:
                del self._commands[next(iter(self._commands))]
                self._late += 1
            self._commands[nanoseconds(message.header.stamp)] = message
            self._arrived.notify_all()

    def _await(self, stamp_ns: int) -> JointState:
        """The command for the state with this stamp. Raises NoCommandError at the deadline."""
        until = time.monotonic() + self._deadline_s
        with self._arrived:
            while (command := self._commands.pop(stamp_ns, None)) is None:
                left_s = until - time.monotonic()
                if left_s <= 0.0:
                    others = ", ".join(f"{1e-9 * each:g}" for each in list(self._commands)[-3:]) or "none"
                    raise NoCommandError(
                        f"no command on {self._command_topic} with the stamp {1e-9 * stamp_ns:.9f} s arrived within "
                        f"{self._deadline_s:g} s; stamps received: {others}. Stamp each command as the joint state "
                        "that it answers, or raise deadline_ms in [sim]"
                    )
                self._arrived.wait(left_s)
            self._answered += 1
            self._late += len(self._commands)
            self._commands.clear()
            return command
