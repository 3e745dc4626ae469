"""Holds the arm of the rotary pendulum at an angle, with a spring and a damper."""

import math

import msgspec

from armswing import Node, messages


class HoldArm(Node):
    subscribes = {"state": messages.RobotState}
    publishes = {"command": messages.JointCommand}
    stateless = True  # restarts from a recording need nothing from it

    class Params(msgspec.Struct, forbid_unknown_fields=True):
        angle_deg: float = 30.0
        stiffness: float = 0.02  # N m/rad
        damping: float = 0.003  # N m s/rad

    def on_start(self, context):
        self.context = context  # its params change when someone sets them

    def on_message(self, name, state):
        arm = state.name.index("arm")
        params = self.context.params
        error = math.radians(params.angle_deg) - state.position[arm]
        self.context.plot("error", error, unit="rad")  # seen live and in recordings
        effort = params.stiffness * error - params.damping * state.velocity[arm]
        yield "command", messages.JointCommand(name=["arm"], value=[effort], state_seq=state.seq)
