"""A gait: references for the joints of a quadruped that stands, and then trots along its own axis."""

import math

import msgspec

from armswing import Node, messages

LEGS = {"FR": 0.0, "FL": 0.5, "RR": 0.5, "RL": 0.0}  # part of a period; diagonal legs step together
LINK = 0.2  # m: length of thigh and calf, of A1
AHEAD = 1e-3  # s: step of the difference that gives the rates


class Trot(Node):
    """Each foot stays on the ground for half a period and swings forward in the other half, from `begin_s` on."""

    subscribes = {"state": messages.RobotState}
    publishes = {"reference": messages.JointReference}
    stateless = True  # a reference is a function of time

    class Params(msgspec.Struct, forbid_unknown_fields=True):
        begin_s: float = 1.0
        frequency_hz: float = 2.5
        stride: float = 0.08  # m in one stance
        lift: float = 0.06  # m
        height: float = 0.28  # m, of the hips above the feet

    def on_start(self, context):
        self.context = context

    def on_message(self, name, state):
        now, soon = (self.angles(state.timestamp + ahead) for ahead in (0.0, AHEAD))
        rates = [(soon[joint] - angle) / AHEAD for joint, angle in now.items()]
        yield "reference", messages.JointReference(name=[*now], position=[*now.values()], velocity=rates)

    def angles(self, time):
        """Angle of each joint, rad, at a time, s."""
        params, found = self.context.params, {}
        time = max(0.0, time - params.begin_s)
        size = min(1.0, time)  # the steps of the first second grow
        for leg, offset in LEGS.items():
            phase = (params.frequency_hz * time + offset) % 1.0
            swing = phase < 0.5
            along = -math.cos(2.0 * math.pi * phase) if swing else 3.0 - 4.0 * phase  # of half a stride
            up = params.lift * math.sin(2.0 * math.pi * phase) if swing else 0.0
            thigh, calf = self.leg(0.5 * size * params.stride * along, params.height - size * up)
            found |= {f"{leg}_hip_joint": 0.0, f"{leg}_thigh_joint": thigh, f"{leg}_calf_joint": calf}
        return found

    @staticmethod
    def leg(forward, below):
        """Angles, rad, of thigh and calf that place the foot this far in front of and below the hip, m."""
        calf = -2.0 * math.acos(min(1.0, math.hypot(forward, below) / (2.0 * LINK)))
        return -math.atan2(forward, below) - 0.5 * calf, calf
