"""Reference of named joints over simulation time: a sine, steps, or minimum-jerk moves between waypoints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from nodes.runtime.node import Context, Node, Outgoing
from nodes.wire.messages import Message, Reference, RobotState

Point = tuple[float, float, float]  # value, rate, acceleration


class TrajectoryParams(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What to publish. Angles in degrees; times in seconds of simulation time.

    waypoints  [[t, value], ...] for all joints alike, or [[t, value of joint 1, value of joint 2, ...], ...];
               held before the first and after the last
    """

    joints: list[str]
    kind: Literal["sine", "steps", "minimum_jerk"] = "sine"
    rate_hz: float = 100.0  # Hz, of the reference
    start_s: float = 0.0  # s; before it the trajectory stays where it begins
    amplitude_deg: float = 30.0  # sine
    period_s: float = 5.0  # s, sine
    waypoints: list[list[float]] = []  # s, then degrees: steps and minimum_jerk

    def __post_init__(self) -> None:
        if not self.joints or len(set(self.joints)) != len(self.joints):
            raise ValueError(f"joints is {self.joints}; name at least one, each once")
        for name in ("rate_hz", "period_s"):
            if not (math.isfinite(value := getattr(self, name)) and value > 0.0):
                raise ValueError(f"{name} is {value}; it must be a number above 0")
        for name in ("start_s", "amplitude_deg"):
            if not math.isfinite(value := getattr(self, name)):
                raise ValueError(f"{name} is {value}; it must be finite")
        if self.kind == "sine":
            if self.waypoints:
                raise ValueError('kind "sine" takes no waypoints; they belong to "steps" and "minimum_jerk"')
        else:
            self._check_waypoints()

    def _check_waypoints(self) -> None:
        """Raise ValueError with one line unless the waypoints are rows of one form with rising times."""
        if not self.waypoints:
            raise ValueError(f'kind "{self.kind}" needs waypoints = [[t, value_deg], ...]')
        widths = {2, 1 + len(self.joints)}
        for k, row in enumerate(self.waypoints):
            if len(row) not in widths or len(row) != len(self.waypoints[0]):
                wanted = " or ".join(str(width) for width in sorted(widths))
                raise ValueError(f"waypoint {k} is {row}; every one has {wanted} numbers: t, then value_deg")
            if not all(math.isfinite(number) for number in row):
                raise ValueError(f"waypoint {k} is {row}; every number must be finite")
            if k and row[0] <= self.waypoints[k - 1][0]:
                raise ValueError(f"waypoint {k} is at {row[0]} s, not after {self.waypoints[k - 1][0]} s before it")


def sine(amplitude: float, period: float, t: float) -> Point:
    """A sin(2 pi t / period) from t = 0 on, at rest at 0 before."""
    if t < 0.0:
        return 0.0, 0.0, 0.0
    w = 2.0 * math.pi / period
    s, c = math.sin(w * t), math.cos(w * t)
    return amplitude * s, amplitude * w * c, -amplitude * w * w * s


def steps(times: Sequence[float], values: Sequence[float], t: float) -> Point:
    """The value of the last waypoint passed; the first one's before it."""
    passed = sum(time <= t for time in times)
    return values[max(0, passed - 1)], 0.0, 0.0


def minimum_jerk(times: Sequence[float], values: Sequence[float], t: float) -> Point:
    """From waypoint to waypoint, at rest in each: 10 s^3 - 15 s^4 + 6 s^5 of the way, s the share of time."""
    if t <= times[0] or len(times) == 1:
        return values[0], 0.0, 0.0
    if t >= times[-1]:
        return values[-1], 0.0, 0.0
    k = sum(time <= t for time in times)
    span, way = times[k] - times[k - 1], values[k] - values[k - 1]
    s = (t - times[k - 1]) / span
    share = s**3 * (10.0 + s * (-15.0 + 6.0 * s))
    rate = 30.0 * s**2 * (1.0 - s) ** 2 / span
    acceleration = 60.0 * s * (1.0 - s) * (1.0 - 2.0 * s) / span**2
    return values[k - 1] + way * share, way * rate, way * acceleration


class Trajectory(Node):
    """Publishes `reference` at `Params.rate_hz` of simulation time: the state's stamps are its clock.

    So that it pauses, resets and runs at the simulation's speed with it, in every mode.
    """

    listens = {"state": RobotState}
    speaks = {"reference": Reference}
    Params = TrajectoryParams

    def on_start(self, context: Context) -> Outgoing:
        self._half_step_s = context.step_s / 2.0
        self.on_parameters(context.params)
        return self.on_reset(0.0)

    def on_parameters(self, params: TrajectoryParams) -> Outgoing:
        self._params = params
        self._times = [row[0] for row in params.waypoints]
        values = zip(*(row[1:] for row in params.waypoints), strict=True)
        columns = [[math.radians(value) for value in column] for column in values]
        self._values = columns * len(params.joints) if len(columns) == 1 else columns
        return None

    def on_reset(self, time: float) -> Outgoing:
        self._published = -1  # number of the last period in which a reference went out
        return None

    def on_message(self, name: str, message: Message) -> Outgoing:
        now = message.timestamp
        # half a step of grace: a stamp may fall short of the period by rounding
        period = math.floor((now + self._half_step_s) * self._params.rate_hz)
        if period == self._published:
            return None
        self._published = period
        points = [self._point(i, now - self._params.start_s) for i in range(len(self._params.joints))]
        position, velocity, acceleration = ([point[k] for point in points] for k in range(3))
        reference = Reference(
            name=list(self._params.joints), position=position, velocity=velocity, acceleration=acceleration
        )
        return [("reference", reference)]

    def _point(self, i: int, t: float) -> Point:
        """Reference of the i-th joint t seconds after the start: rad, rad/s, rad/s^2."""
        if self._params.kind == "sine":
            return sine(math.radians(self._params.amplitude_deg), self._params.period_s, t)
        curve = steps if self._params.kind == "steps" else minimum_jerk
        return curve(self._times, self._values[i], t)
