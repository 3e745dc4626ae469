"""Controller of CHARMIE's omnidirectional base: follows `cmd_vel` or a reference, and publishes encoder counts."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping

import msgspec
import numpy as np

from nodes.controllers.take_over import TakeOver
from nodes.controllers.tracking import ExpectedJoints, Targets, TrackingError
from nodes.framework.messages import Encoders, Event, JointCommand, JointReference, Message, RobotState, Twist
from nodes.framework.plan.launch_plan import Plan
from nodes.node import Context, Node, Outgoing
from robots.charmie import base
from robots.charmie.parameters import read_parameters
from robots.charmie.wheels import wheel_names

JOINTS = ("base_x", "base_y", "base_yaw")
UNITS = ("m", "m", "rad")


class OmniBaseParams(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Gains, rates and timeout of the base controller.

    file  parameter file like robots/charmie/charmie.toml; "" means the file of the plan's robot
    """

    timeout_s: float = 0.5  # s of simulation time after which a cmd_vel is ignored
    follow_gain: float = 4.0  # 1/s, gain from position error to velocity
    encoders_hz: float = 100.0  # Hz
    rate_hz: float = 200.0  # Hz, rate of commands; wheels hold their speed in between
    file: str = ""

    def __post_init__(self) -> None:
        for name in ("timeout_s", "follow_gain", "encoders_hz", "rate_hz"):
            if not (math.isfinite(value := getattr(self, name)) and value > 0.0):
                raise ValueError(f"{name} is {value}; it must be a number above 0")


class OmniBase(Node):
    """Publishes velocities of the base's joints with which every wheel stays within its speed and acceleration limits.

    `cmd_vel` is a twist in the base's own axes: x to the robot's right, y forward, yaw to the left. A `cmd_vel` younger
    than `timeout_s` has priority over the reference. Otherwise the base follows the reference; without a reference it
    stands still. With the robot's parameter base = "wheels" the velocities are those of the wheels' joints.
    """

    subscribes = {"state": RobotState, "cmd_vel": Twist, "reference": JointReference, "event": Event}
    publishes = {"command": JointCommand, "encoders": Encoders}
    Params = OmniBaseParams
    state_attributes = (
        "_time", "_cmd_vel", "_cmd_vel_at", "_twist", "_place", "_angles", "_counted", "_commanded", "_commanded_at",
        "_targets", "_error", "_take_over", "_warned_limited",
    )  # fmt: skip

    @classmethod
    def check(cls, params: OmniBaseParams, plan: Plan) -> None:
        read_parameters(_file(params, plan.sim.parameters))

    @classmethod
    def commands(cls, params: OmniBaseParams, plan: Plan) -> Collection[str] | None:
        of_robot = read_parameters(_file(params, plan.sim.parameters))
        return wheel_names(of_robot) if _on_wheels(plan.sim.parameters) else JOINTS

    def on_start(self, context: Context) -> Outgoing:
        self._context = context
        self._expected = ExpectedJoints(context, JOINTS)
        self._take_over = TakeOver(context)
        return self.on_parameters(context.params)

    def on_parameters(self, params: OmniBaseParams) -> Outgoing:
        found = read_parameters(_file(params, self._context.robot_parameters))
        of_robot, self._names = found.base, wheel_names(found)
        self._rolls = _on_wheels(self._context.robot_parameters)
        self._params, self._wheels, self._warned_limited = params, of_robot.wheels, False
        self._speed_up = of_robot.acceleration_limit / of_robot.wheels.radius  # rad/s^2, limit of a wheel
        return self._begin(0.0)

    def on_reset(self, time: float) -> Outgoing:
        self._take_over.restart(time)
        return self._begin(time)

    def _begin(self, time: float) -> Outgoing:
        self._time, self._cmd_vel, self._cmd_vel_at = time, np.zeros(3), -math.inf
        self._twist = np.zeros(3)  # present twist, in the base's axes
        self._place: np.ndarray | None = None
        self._angles = np.zeros(self._wheels.count)
        self._counted = self._commanded = -1
        self._commanded_at = time
        self._targets, self._error = Targets(JOINTS), TrackingError(JOINTS, UNITS)
        return None

    def on_message(self, name: str, message: Message) -> Outgoing:
        if isinstance(message, Twist):
            self._cmd_vel = np.array([*message.linear[:2], message.angular[2]])
            self._cmd_vel_at = self._time
            self._warn_limited()
        elif isinstance(message, JointReference):
            self._targets.add_reference(message)
        elif isinstance(message, Event):
            self._take_over.process_event(message)
        elif isinstance(message, RobotState) and self._expected.are_in(message):
            return self._answer(message)
        return None

    def _answer(self, state: RobotState) -> Iterator[tuple[str, Message]]:
        self._time = state.timestamp
        place = np.array([state.position[i] for i in self._expected.indices])
        if self._take_over.add_state(state):  # continue from the present speed
            self._take_over.done()
            self._twist = base.to_base(float(place[2]), np.array([state.velocity[i] for i in self._expected.indices]))
            self._commanded_at = self._time
        desired = self._desired_twist(place)
        if (period := self._period(self._params.rate_hz)) != self._commanded:
            dt, self._commanded, self._commanded_at = self._time - self._commanded_at, period, self._time
            self._twist = self._accelerated(base.within_limits(self._wheels, desired), dt)
            yield "command", self._command(float(place[2]), state.seq)
        if self._place is not None:
            self._angles += base.wheel_turns(self._wheels, self._place, place)
        if self._rolls:
            self._angles = np.array([state.position[state.name.index(name)] for name in self._names])
        self._place = place
        if (period := self._period(self._params.encoders_hz)) != self._counted:
            self._counted = period
            yield "encoders", self._encoders()

    def _command(self, yaw: float, seq: int) -> JointCommand:
        """Velocities of the wheels, or of the base's joints at the yaw angle `yaw`, for the present twist."""
        if self._rolls:
            names, rates = list(self._names), base.wheel_rates(self._wheels, self._twist)
        else:
            names, rates = list(JOINTS), base.to_world(yaw, self._twist)
        return JointCommand(mode="velocity", name=names, value=rates.tolist(), state_seq=seq)

    def _period(self, rate_hz: float) -> int:
        """Number of whole periods of `rate_hz` from time zero to the time of the latest state.

        Because timestamps are rounded, half a time step of the simulation is added to the time of the state.
        """
        return math.floor((self._time + self._context.step_s / 2.0) * rate_hz)

    def _desired_twist(self, place: np.ndarray) -> np.ndarray:
        """Desired twist in the base's axes (x in m/s, y in m/s, yaw in rad/s).

        A recent `cmd_vel` gives the twist. Otherwise the twist follows from the reference, and without a reference the
        twist is zero.

        place  present pose of the base
        """
        position, velocity, _ = self._targets.at(self._time)
        followed = self._targets.has_reference
        self._error.add_error(np.where(followed, position - place, 0.0), followed)
        if self._time - self._cmd_vel_at <= self._params.timeout_s:
            return self._cmd_vel
        rates = np.where(followed, velocity + self._params.follow_gain * (position - place), 0.0)
        return base.to_base(float(place[2]), rates)

    def _warn_limited(self) -> None:
        """Warn, once, that the wheels cannot follow the twist of `cmd_vel`.

        The warning contains the twist that the wheels can follow.
        """
        if self._warned_limited or (can := base.within_limits(self._wheels, self._cmd_vel)) is self._cmd_vel:
            return
        self._warned_limited = True
        requested, reduced = (
            f"x {x:.3g} m/s, y {y:.3g} m/s, yaw {yaw:.3g} rad/s" for x, y, yaw in (self._cmd_vel, can)
        )
        most = f"the wheels turn at {self._wheels.speed_limit:g} rad/s at most"
        self._context.warn(f"cmd_vel asks for {requested}; {most}, so the base drives at {reduced}")

    def _accelerated(self, twist: np.ndarray, dt: float) -> np.ndarray:
        """Return the twist that can be reached within dt seconds, on the way from the present twist to `twist`.

        The change is limited by the wheels' largest acceleration.
        """
        change = twist - self._twist
        fastest = float(np.abs(base.wheel_rates(self._wheels, change)).max())
        most = self._speed_up * max(dt, 0.0)
        return twist if fastest <= most else self._twist + change * (most / fastest)

    def _encoders(self) -> Encoders:
        count = base.counts(self._wheels, self._angles)
        return Encoders(name=list(self._names), count=count, pulses_per_turn=self._wheels.pulses_per_turn)

    @property
    def figures(self) -> Mapping[str, float]:
        return self._error.figures


def _file(params: OmniBaseParams, given: Mapping[str, float | str]) -> str:
    return params.file or str(given.get("file", ""))


def _on_wheels(given: Mapping[str, float | str]) -> bool:
    return given.get("base") == "wheels"
