"""Odometry: the pose of a base from the angles of its wheels."""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec
import numpy as np

from nodes.framework.messages import Message, PlotValues, RobotState
from nodes.node import Context, Node, Outgoing

UNITS = {"x": "m", "y": "m", "yaw": "rad", "vx": "m/s", "vy": "m/s", "wz": "rad/s"}


class OdometryParams(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Wheels, with their places in the axes of the base and the direction in which each rolls; one entry per wheel."""

    wheels: list[str]  # joints of the wheels
    radius: list[float]  # m
    x: list[float]  # m
    y: list[float]  # m
    heading_deg: list[float] = []  # direction in which a positive rate rolls the wheel; empty: along x
    rollers_deg: list[float] = []  # angle of the rollers' axes, as of `Rolling`: 45 or -45 of a mecanum wheel; empty: 0
    steering: list[str] = []  # joint that turns the wheel about the vertical, "" of a fixed wheel; empty: all are fixed
    start: list[float] = []  # m, m, rad: pose x, y, yaw at the start; empty: zeros
    rate_hz: float = 100.0  # Hz, of the messages

    def __post_init__(self) -> None:
        if not self.wheels:
            raise ValueError("key 'wheels' is empty; name the joint of at least one wheel")
        for field in ("radius", "x", "y", "heading_deg", "rollers_deg", "steering"):
            values = getattr(self, field)
            if len(values) != len(self.wheels) and (values or field in ("radius", "x", "y")):
                raise ValueError(f"{field} has {len(values)} values for {len(self.wheels)} wheels; give one per wheel")
            if field != "steering" and not all(map(math.isfinite, values)):
                raise ValueError(f"{field} is {values}; its values must be finite")
        if not all(-90.0 < angle < 90.0 for angle in self.rollers_deg):
            raise ValueError(f"rollers_deg is {self.rollers_deg}; its values must be between -90 and 90")
        if not all(value > 0.0 for value in self.radius):
            raise ValueError(f"radius is {self.radius}; its values must be above 0")
        if len(self.start) not in (0, 3) or not all(map(math.isfinite, self.start)):
            raise ValueError(f"start is {self.start}; it must be x and y in m, yaw in rad, or empty")
        if not 0.0 < self.rate_hz < math.inf:
            raise ValueError(f"rate_hz is {self.rate_hz}; it must be a number above 0")


class Odometry(Node):
    """Publishes `odometry`: the pose x, y, yaw, and the twist vx, vy, wz in the axes of the base, from the wheels.

    A wheel k with the radius r_k at the place p_k, which rolls along the unit vector t_k, turns at the rate w_k with
    r_k w_k = t_k . (v + wz x p_k); with rollers, the unit vector d_k along the axis of the roller on the floor takes
    the place of t_k, and r_k d_k . t_k that of r_k. If `steering` is given, t_k turns with its joint, whose axis is
    above the middle of the wheel, and no wheel slips along its axle s_k: s_k . (v + wz x p_k) = 0. The twist is the
    solution of these equations, by least squares; of several, the smallest. Between two states it is constant, so that
    the base moves on an arc. Wheels that slip falsify the pose.
    """

    subscribes = {"state": RobotState}
    publishes = {"odometry": PlotValues}
    Params = OdometryParams
    state_attributes = ("_angles", "_pose", "_published")

    def on_start(self, context: Context) -> Outgoing:
        self._context = context
        return self.on_parameters(context.params)

    def on_parameters(self, params: OdometryParams) -> Outgoing:
        self._params = params
        self._joints = [*params.wheels, *filter(None, params.steering)]
        return self.on_reset(0.0)

    def on_reset(self, time: float) -> Outgoing:
        self._angles: np.ndarray | None = None
        self._pose, self._published = np.array(self._params.start or [0.0] * 3), -1
        return None

    def on_message(self, name: str, message: Message) -> Outgoing:
        return self._moved(message) if isinstance(message, RobotState) else None

    def _moved(self, state: RobotState) -> Iterator[tuple[str, Message]]:
        missing = [joint for joint in self._joints if joint not in state.name]
        if missing:
            raise ValueError(f"the state has no joint {missing[0]!r}; its joints are {', '.join(state.name)}")
        places, n = [state.name.index(joint) for joint in self._joints], len(self._params.wheels)
        angles, rates = (np.array([values[i] for i in places]) for values in (state.position, state.velocity))
        if self._angles is not None:
            halfway, turned = (angles[n:] + self._angles[n:]) / 2.0, (angles - self._angles)[:n]
            self._pose = self._pose + moved(self._pose[2], self._twist_of(halfway) @ turned)
        self._angles = angles
        period = math.floor((state.timestamp + self._context.step_s / 2.0) * self._params.rate_hz)
        if period != self._published:
            self._published = period
            numbers = [*self._pose, *(self._twist_of(angles[n:]) @ rates[:n])]
            yield "odometry", PlotValues(values=dict(zip(UNITS, map(float, numbers), strict=True)), units=UNITS)

    def _twist_of(self, steered: np.ndarray) -> np.ndarray:
        """Matrix (3, n) that maps the rates of the wheels to the twist of the base.

        steered  angles of the joints in `steering`, rad
        """
        params, zeros = self._params, [0.0] * len(self._params.wheels)
        heading, rollers = (np.radians(angles or zeros) for angles in (params.heading_deg, params.rollers_deg))
        heading[[k for k, joint in enumerate(params.steering) if joint]] += steered
        directions = [heading + rollers, heading + math.pi / 2.0] if params.steering else [heading + rollers]
        rows = [
            [math.cos(a), math.sin(a), math.sin(a) * x - math.cos(a) * y]
            for angles in directions
            for a, x, y in zip(angles, params.x, params.y, strict=True)
        ]
        return np.asarray(np.linalg.pinv(rows)[:, : len(zeros)] * (params.radius * np.cos(rollers)))


def moved(yaw: float, turned: np.ndarray) -> np.ndarray:
    """Change (3,) of the pose x, y, yaw on an arc of constant twist.

    turned  (3,) twist times time, in the axes of the base
    """
    half = turned[2] / 2.0
    c, s, chord = math.cos(yaw + half), math.sin(yaw + half), np.sinc(half / math.pi)
    return np.array([chord * (c * turned[0] - s * turned[1]), chord * (s * turned[0] + c * turned[1]), turned[2]])
