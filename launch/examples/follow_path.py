"""A base on two wheels follows a path: an eight, by pure pursuit of a point ahead on it."""

import math

import msgspec

from armswing import Node, messages

POINTS = 400  # of the path


class FollowPath(Node):
    """Drives along an arc to the point of the path at the distance `ahead`, as fast as `speed`."""

    subscribes = {"state": messages.RobotState, "odometry": messages.PlotValues}
    publishes = {"command": messages.JointCommand}
    state_attributes = ("place", "now", "speed")

    class Params(msgspec.Struct, forbid_unknown_fields=True):
        size: float = 1.5  # m, half the length of the eight
        speed: float = 0.8  # m/s
        ahead: float = 0.25  # m
        acceleration: float = 1.0  # m/s^2
        radius: float = 0.08  # m, of the wheels
        track: float = 0.28  # m, between the wheels

    @classmethod
    def commands(cls, params, plan):
        return ["left_wheel", "right_wheel"]

    def on_start(self, context):
        self.context, size = context, context.params.size
        angles = [2.0 * math.pi * k / POINTS for k in range(POINTS)]
        self.path = [(size * math.sin(a), size * math.sin(a) * math.cos(a)) for a in angles]
        self.on_reset(0.0)

    def on_reset(self, time):
        self.place, self.now, self.speed = 0, (0.0, 0.0, math.pi / 4), 0.0

    def on_message(self, name, message):
        if name == "odometry":
            self.now = tuple(message.values[key] for key in ("x", "y", "yaw"))
            return
        params, (x, y, yaw) = self.context.params, self.now
        while math.dist(self.path[self.place], (x, y)) < params.ahead:
            self.place = (self.place + 1) % POINTS
        dx, dy = self.path[self.place][0] - x, self.path[self.place][1] - y
        aside = -math.sin(yaw) * dx + math.cos(yaw) * dy
        self.speed = min(params.speed, params.acceleration * message.timestamp)
        turn = self.speed * 2.0 * aside / (dx * dx + dy * dy)
        rates = [(self.speed - sign * turn * params.track / 2.0) / params.radius for sign in (1.0, -1.0)]
        yield (
            "command",
            messages.JointCommand(
                mode="velocity", name=["left_wheel", "right_wheel"], value=rates, state_seq=message.seq
            ),
        )
