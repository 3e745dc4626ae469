"""Proportional-derivative control of each joint, independent of the other joints."""

from __future__ import annotations

import math
from collections.abc import Collection

import msgspec
import numpy as np

from nodes.controllers.take_over import TakeOver
from nodes.controllers.tracking import ExpectedJoints
from nodes.framework.messages import Event, JointCommand, JointReference, Message, RobotState
from nodes.framework.plan.launch_plan import Plan
from nodes.node import Context, Node, Outgoing


class JointPDParams(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Joints and gains. Each list has one entry per driven joint. Each joint's actuator has the name of the joint.

    joints        driven joints
    stiffness     stiffness of each joint
    damping       damping of each joint
    effort_limit  limit of each joint's effort
    """

    joints: list[str]
    stiffness: list[float]  # N m/rad or N/m
    damping: list[float]  # N m s/rad or N s/m
    effort_limit: list[float] = []  # N m or N; empty for none

    def __post_init__(self) -> None:
        if not self.joints:
            raise ValueError("key 'joints' is empty; name at least one joint")
        for field in ("stiffness", "damping", "effort_limit"):
            values = getattr(self, field)
            if len(values) != len(self.joints) and (values or field != "effort_limit"):
                raise ValueError(
                    f"{field} has {len(values)} values for {len(self.joints)} joints; give one value per joint"
                )
            if not all(math.isfinite(value) and value >= 0.0 for value in values):
                raise ValueError(f"{field} is {values}; every value must be a number of at least 0")


class JointPD(Node):
    """Replies to each state with effort = stiffness (reference - position) + damping (reference rate - velocity).

    A joint without a reference is held where it was in the first state. When the node is started in the middle of a
    run, its efforts fade in from the actuators' present efforts.
    """

    subscribes = {"state": RobotState, "reference": JointReference, "event": Event}
    publishes = {"command": JointCommand}
    Params = JointPDParams
    state_attributes = ("_take_over", "_reference", "_first")

    @classmethod
    def commands(cls, params: JointPDParams, plan: Plan) -> Collection[str] | None:
        return params.joints

    def on_start(self, context: Context) -> Outgoing:
        self._context = context
        self._take_over = TakeOver(context)
        self._reference: dict[str, tuple[float, float]] = {}
        self._first: dict[str, float] = {}
        return self.on_parameters(context.params)

    def on_parameters(self, params: JointPDParams) -> Outgoing:
        self._params = params
        self._expected = ExpectedJoints(self._context, params.joints)
        return None

    def on_reset(self, time: float) -> Outgoing:
        self._reference, self._first = {}, {}
        self._take_over.restart(time)
        return None

    def on_message(self, name: str, message: Message) -> Outgoing:
        if isinstance(message, JointReference):
            self._take_over.learn(not set(message.name) <= set(self._reference))
            for i, joint in enumerate(message.name):
                rate = message.velocity[i] if i < len(message.velocity) else 0.0
                self._reference[joint] = (message.position[i], rate)
        elif isinstance(message, RobotState) and self._expected.are_in(message):
            self._take_over.add_state(message)
            self._first = self._first or dict(zip(message.name, message.position, strict=True))
            computed = np.array([self._effort(k, message) for k in range(len(self._params.joints))])
            given = np.array([message.effort[i] if message.effort else 0.0 for i in self._expected.indices])
            value = self._take_over(message.timestamp, given, computed).tolist()
            return [("command", JointCommand(name=list(self._params.joints), value=value, state_seq=message.seq))]
        elif isinstance(message, Event):
            self._take_over.process_event(message)
        return None

    def _effort(self, k: int, state: RobotState) -> float:
        """Effort of the k-th driven joint (N m or N), clipped to the limit of this joint."""
        joint, i = self._params.joints[k], self._expected.indices[k]
        position, rate = self._reference.get(joint, (self._first[joint], 0.0))
        effort = self._params.stiffness[k] * (position - state.position[i])
        effort += self._params.damping[k] * (rate - state.velocity[i])
        limit = self._params.effort_limit[k] if self._params.effort_limit else math.inf
        return float(max(-limit, min(limit, effort)))
