"""A gait: references for the joints of a quadruped that trots in place or along its own axis."""

import math

import msgspec

from armswing import Node, messages

LEGS = {"FR": 0.0, "FL": 0.5, "RR": 0.5, "RL": 0.0}  # diagonal legs step together
LINK = 0.2  # m: length of thigh and calf, of A1


class Trot(Node):
    """Each foot stays on the ground for half a period and swings forward in the other half, from `begin_s` on."""

    subscribes = {"state": messages.RobotState}
    publishes = {"reference": messages.JointReference}
    stateless = True  # a reference is a function of time

    class Params(msgspec.Struct, forbid_unknown_fields=True):
        begin_s: float = 1.0
        frequency_hz: float = 2.5
        stride: float = 0.06  # m in one stance
        lift: float = 0.05  # m
        height: float = 0.28  # m, of the hips above the feet

    def on_start(self, context):
        self.context = context

    def on_message(self, name, state):
        params = self.context.params
        time = max(0.0, state.timestamp - params.begin_s)
        size = min(1.0, time)  # the first second's steps grow
        names, angles = [], []
        for leg, offset in LEGS.items():
            phase = (params.frequency_hz * time + offset) % 1.0
            swing = phase < 0.5
            along = -math.cos(2 * math.pi * phase) if swing else 3.0 - 4.0 * phase  # of half a stride
            up = params.lift * math.sin(2 * math.pi * phase) ** 2 if swing else 0.0
            thigh, calf = self.leg(0.5 * size * params.stride * along, params.height - size * up)
            names += [f"{leg}_hip_joint", f"{leg}_thigh_joint", f"{leg}_calf_joint"]
            angles += [0.0, thigh, calf]
        yield "reference", messages.JointReference(name=names, position=angles, velocity=[0.0] * len(names))

    @staticmethod
    def leg(forward, below):
        """Angles, rad, of thigh and calf that place the foot this far in front of and below the hip, m."""
        reach = math.hypot(forward, below)
        calf = -2.0 * math.acos(min(1.0, reach / (2.0 * LINK)))
        return -math.atan2(forward, below) - 0.5 * calf, calf
