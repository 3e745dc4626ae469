"""Position commands: the actuators' own servos take every driven joint to its reference."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec
import numpy as np

from nodes.controllers.tracking import ExpectedJoints, Targets, TrackingError
from nodes.runtime.node import Context, Node, Outgoing
from nodes.wire.messages import Description, JointCommand, Message, Reference, RobotState


class JointPositionParams(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Which joints it drives; their actuators carry their names and have servos."""

    joints: list[str]

    def __post_init__(self) -> None:
        if not self.joints:
            raise ValueError("joints is empty; name at least one")


class JointPosition(Node):
    """Answers every state with where the reference, carried on by its rates, is now, in mode "position".

    A joint without a reference is held where it was in the first state. The servos run in the server at every step, so
    that commands which come late cost lag and no stability.
    """

    listens = {"description": Description, "state": RobotState, "reference": Reference}
    speaks = {"command": JointCommand}
    Params = JointPositionParams

    @classmethod
    def check(cls, params: JointPositionParams, plan: Mapping[str, Any]) -> None:
        from robots.registry import build  # not in the node's own process

        sim = plan.get("sim", {})
        for actuator in build(sim["robot"], **sim.get("parameters", {})).actuators if sim.get("robot") else ():
            if actuator.name in params.joints and actuator.servo is None:
                raise ValueError(
                    f"joints: actuator {actuator.name!r} of {sim['robot']!r} has no servo, which follows positions; "
                    "controllers of effort drive it"
                )

    @classmethod
    def commands(cls, params: JointPositionParams, plan: Mapping[str, Any]) -> Collection[str] | None:
        return params.joints

    def on_start(self, context: Context) -> Outgoing:
        self._context = context
        return self.on_parameters(context.params)

    def on_parameters(self, params: JointPositionParams) -> Outgoing:
        self._joints, self._units = list(params.joints), getattr(self, "_units", {})
        self._expected = ExpectedJoints(self._context, params.joints)
        return self.on_reset(0.0)

    def on_reset(self, time: float) -> Outgoing:
        self._targets, self._held = Targets(self._joints), False
        self._error = TrackingError(self._joints, [self._units.get(joint, "rad") for joint in self._joints])
        return None

    def on_message(self, name: str, message: Message) -> Outgoing:
        if isinstance(message, Description):
            self._units = {joint.name: joint.unit for joint in message.joints}
            return self.on_reset(message.timestamp)
        if isinstance(message, Reference):
            self._targets.hear(message)
        elif isinstance(message, RobotState) and self._expected.are_in(message):
            position = np.array([message.position[index] for index in self._expected.indices])
            if not self._held:
                self._targets.hold(position)
                self._held = True
            wanted = self._targets.at(message.timestamp)[0]
            self._error.see(wanted - position, self._targets.heard)
            command = JointCommand(mode="position", name=list(self._joints), value=wanted.tolist(), answers=message.seq)
            return [("command", command)]
        return None

    @property
    def figures(self) -> Mapping[str, float]:
        return self._error.figures
