"""Position commands: the actuators' servos move each driven joint to its reference."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec
import numpy as np

from nodes.controllers.take_over import TakeOver
from nodes.controllers.tracking import ExpectedJoints, Targets, TrackingError, Vector
from nodes.framework.messages import Description, Event, JointCommand, JointReference, Message, RobotState
from nodes.framework.plan.launch_plan import Plan
from nodes.node import Context, Node, Outgoing


class JointPositionParams(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Names of the driven joints. The actuator of each joint has the name of the joint, and a servo.

    joints  driven joints
    """

    joints: list[str]

    def __post_init__(self) -> None:
        if not self.joints:
            raise ValueError("key 'joints' is empty; name at least one joint")


class JointPosition(Node):
    """Replies to each state with position commands: the reference, extrapolated to the time of the state.

    A joint without a reference is held where it was in the first state. The servos run in the simulation server at
    every time step; late commands therefore cause lag but no instability. A node that is started in the middle of a run
    begins with the positions at which the servos give the present efforts.
    """

    subscribes = {"description": Description, "state": RobotState, "reference": JointReference, "event": Event}
    publishes = {"command": JointCommand}
    Params = JointPositionParams
    state_attributes = ("_take_over", "_given", "_targets", "_held", "_error")

    @classmethod
    def check(cls, params: JointPositionParams, plan: Plan) -> None:
        # imported here, since the node's own process does not need them
        from robots.files import robot_name
        from robots.registry import build

        sim = plan.sim
        for actuator in build(sim.robot, **sim.parameters).actuators if sim.robot else ():
            if actuator.name in params.joints and actuator.servo is None:
                raise ValueError(
                    f"joints: actuator {actuator.name!r} of {robot_name(sim.robot)!r} has no servo to follow "
                    "position commands; use a controller that commands effort"
                )

    @classmethod
    def commands(cls, params: JointPositionParams, plan: Plan) -> Collection[str] | None:
        return params.joints

    def on_start(self, context: Context) -> Outgoing:
        self._context = context
        self._take_over, self._description = TakeOver(context), Description()
        return self.on_parameters(context.params)

    def on_parameters(self, params: JointPositionParams) -> Outgoing:
        self._joints, self._units = list(params.joints), getattr(self, "_units", {})
        self._expected = ExpectedJoints(self._context, params.joints)
        self._given = np.zeros(len(params.joints))
        return self._begin()

    def on_reset(self, time: float) -> Outgoing:
        self._take_over.restart(time)
        return self._begin()

    def _begin(self) -> Outgoing:
        self._targets, self._held = Targets(self._joints), False
        self._error = TrackingError(self._joints, [self._units.get(joint, "rad") for joint in self._joints])
        return None

    def on_message(self, name: str, message: Message) -> Outgoing:
        if isinstance(message, Description):
            self._description = message
            self._units = {joint.name: joint.unit for joint in message.joints}
            return self._begin()
        if isinstance(message, Event):
            self._take_over.process_event(message)
        elif isinstance(message, JointReference):
            self._take_over.learn(self._targets.add_reference(message))
        elif isinstance(message, RobotState) and self._expected.are_in(message):
            position = np.array([message.position[index] for index in self._expected.indices])
            if not self._held:
                self._targets.hold(position)
                self._held = True
            target = self._targets.at(message.timestamp)[0]
            self._error.add_error(target - position, self._targets.has_reference)
            if self._take_over.add_state(message):
                self._given = self._servos_target(message)
            value = self._take_over(message.timestamp, self._given, target).tolist()
            command = JointCommand(mode="position", name=list(self._joints), value=value, state_seq=message.seq)
            return [("command", command)]
        return None

    def _servos_target(self, state: RobotState) -> Vector:
        """Positions x* (rad or m) at which the servos give the present efforts u = k (x* - x) - d v.

        k is the stiffness of a servo and d its damping, x the position of its joint and v the velocity.
        """
        servos = {each.joint: (each.stiffness, each.damping) for each in self._description.actuators}
        found = []
        for joint, i in zip(self._joints, self._expected.indices, strict=True):
            stiffness, damping = servos.get(joint, (0.0, 0.0))
            effort = state.effort[i] if state.effort else 0.0
            off = (effort + damping * state.velocity[i]) / stiffness if stiffness > 0.0 else 0.0
            found.append(state.position[i] + off)
        return np.array(found)

    @property
    def figures(self) -> Mapping[str, float]:
        return self._error.figures
