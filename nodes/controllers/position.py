"""Position commands: the actuators' own servos take every driven joint to its reference."""

from __future__ import annotations

import msgspec

from nodes.controllers.tracking import ExpectedJoints
from nodes.runtime.node import Context, Node, Outgoing
from nodes.wire.messages import JointCommand, Message, Reference, RobotState


class JointPositionParams(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Which joints it drives; their actuators carry their names and have servos."""

    joints: list[str]

    def __post_init__(self) -> None:
        if not self.joints:
            raise ValueError("joints is empty; name at least one")


class JointPosition(Node):
    """Answers every state with the positions that the reference named last, in mode "position".

    A joint without a reference is held where it was in the first state. The servos run in the server at every step, so
    that commands which come late cost lag and no stability.
    """

    listens = {"state": RobotState, "reference": Reference}
    speaks = {"command": JointCommand}
    Params = JointPositionParams

    def on_start(self, context: Context) -> Outgoing:
        self._context = context
        self.on_parameters(context.params)
        return self.on_reset(0.0)

    def on_parameters(self, params: JointPositionParams) -> Outgoing:
        self._joints = list(params.joints)
        self._expected = ExpectedJoints(self._context, params.joints)
        return None

    def on_reset(self, time: float) -> Outgoing:
        self._target: dict[str, float] = {}
        return None

    def on_message(self, name: str, message: Message) -> Outgoing:
        if isinstance(message, Reference):
            self._target |= dict(zip(message.name, message.position, strict=False))
        elif isinstance(message, RobotState) and self._expected.are_in(message):
            for joint, index in zip(self._joints, self._expected.indices, strict=True):
                self._target.setdefault(joint, message.position[index])
            value = [self._target[joint] for joint in self._joints]
            command = JointCommand(mode="position", name=list(self._joints), value=value, answers=message.seq)
            return [("command", command)]
        return None
