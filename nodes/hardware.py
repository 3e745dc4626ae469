"""Stands in for the real robot: a plant that differs from the model, with sensors and a clock of its own."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

from nodes.hil.plant import Differences, Plant, mechanism_of, spread
from nodes.hil.sensors import Sensing, Sensors
from nodes.runtime.node import Context, Node, Outgoing
from nodes.runtime.plan import SimPlan
from nodes.wire.messages import JointCommand, Message, RobotState

MOST_WAITING = 4096  # commands on their way
JUST_BEGUN_S = 0.1  # of a model that is so young, the robot is no younger


class HardwareParams(Sensing, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """By how much the robot differs from its model, how it is measured, and how late it hears its commands."""

    command_delay_ms: float = 0.0  # a command holds so long after it came

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.command_delay_ms < math.inf:
            raise ValueError(f"command_delay_ms is {self.command_delay_ms}; it must be a number of at least 0")


class Hardware(Node):
    """Takes the same commands as the model and says `measured`, what the robot's own sensors make of its state.

    In lockstep it lives in simulation time, which it reads from the model's states: equal seeds give equal samples, and
    without any difference it is the model. In realtime it begins with the model and lives in the time of its computer,
    as a robot does, and its clock is that of `measured`'s stamps and of the round trips that ask for it.
    """

    listens = {"state": RobotState, "command": JointCommand}
    speaks = {"measured": RobotState}
    Params = HardwareParams
    rate_hz = 500.0
    has_own_clock = True

    @classmethod
    def check(cls, params: HardwareParams, plan: Mapping[str, Any]) -> None:
        sim = msgspec.convert(plan["sim"], SimPlan)
        if sim.mode == "fast" or (sim.mode == "realtime" and sim.speed != 1.0):
            how = "mode 'fast'" if sim.mode == "fast" else f"speed {sim.speed:g}"
            raise ValueError(
                f'a robot keeps no pace with {how}; mode = "lockstep", or "realtime" at speed 1, has it do so'
            )
        mechanism = mechanism_of(sim, params)
        spread("gain", params.gain, [actuator.name for actuator in mechanism.actuators], "actuator")
        Sensors(params, [joint.name for joint in mechanism.moving_joints], sim.step_s, np.random.default_rng(0))

    def on_start(self, context: Context) -> Outgoing:
        self._context = context
        self._params: HardwareParams = context.params
        self._plant = Plant(msgspec.convert(context.plan["sim"], SimPlan), self._params)
        self._sensors = self._new_sensors()
        self._refused = self._commands = 0
        self._host_s = 0.0  # time of its computer
        self._switched_on = self._first_state = math.nan  # by its computer's clock; by simulation time
        self._begin(0.0)
        return None

    def on_parameters(self, params: HardwareParams) -> Outgoing:
        """Sensors may change while running; the machine itself cannot."""
        for field in Differences.__struct_fields__:
            if getattr(params, field) != getattr(self._params, field):
                raise ValueError(f"{field} is of the machine and holds for the whole run; set it in the launch file")
        before, self._params = self._params, params
        try:
            sensors = self._new_sensors()
        except ValueError:
            self._params = before
            raise
        sensors.samples, sensors.lost = self._sensors.samples, self._sensors.lost
        self._sensors = sensors
        return None

    def on_message(self, name: str, message: Message) -> Iterator[tuple[str, Message]]:
        """A state says what time it is, a command what to do from its time on."""
        if isinstance(message, RobotState):
            if self._context.clock:
                self._begin_with(message.timestamp)
            else:
                yield from self._advance(message.timestamp)
        elif isinstance(message, JointCommand):
            since = self._time
            if not self._context.clock:  # a node that is not called each step hears several at once
                yield from self._advance(message.timestamp)
                since = max(message.timestamp, self._time)
            self._waiting.append((since + self._params.command_delay_ms * 1e-3, message))

    def on_tick(self, now: float) -> Iterator[tuple[str, Message]]:
        """With a clock of its own, go on to what its computer's clock says."""
        if self._context.clock and not math.isnan(self._switched_on):
            yield from self._advance(self._host_s - self._switched_on)

    def clock_ns(self, host_ns: int) -> int:
        """What its clock shows: offset, drift and step count from when it was switched on."""
        self._host_s = 1e-9 * host_ns
        t = 0.0 if math.isnan(self._switched_on) else self._host_s - self._switched_on
        return host_ns + round(1e9 * (self._params.clock.at(t) - t))

    def _begin_with(self, time: float) -> None:
        """Switch the robot on when the model begins to move."""
        if math.isnan(self._first_state):
            self._first_state = time
        elif math.isnan(self._switched_on) and time > self._first_state:
            self._switched_on = self._host_s - (time if time < JUST_BEGUN_S else 0.0)

    def on_reset(self, time: float) -> Outgoing:
        """The robot is put back to its start too, wherever the model was put."""
        if time > 0.0:
            self._context.warn(f"the model was put to t = {time:g} s; the emulated robot begins anew at its start")
        self._begin(time)
        return None

    def _begin(self, time: float) -> None:
        self._plant.reset()
        self._sensors.restart()
        self._origin, self._said_first = (0.0 if self._context.clock else time), False
        self._switched_on = self._first_state = math.nan
        self._waiting: deque[tuple[float, JointCommand]] = deque(maxlen=MOST_WAITING)

    def _new_sensors(self) -> Sensors:
        return Sensors(self._params, self._plant.names, self._plant.step_s, self._context.random)

    @property
    def _time(self) -> float:
        return self._origin + self._plant.tick * self._plant.step_s

    def _advance(self, time: float) -> Iterator[tuple[str, Message]]:
        """Go on to this simulation time, and say what was sampled on the way."""
        if not self._said_first:
            self._said_first = True
            self._origin = 0.0 if self._context.clock else time  # who comes late begins where time is
            yield from self._sample()
        for _ in range(math.floor((time - self._time) / self._plant.step_s + 0.5)):
            self._follow()
            self._plant.step()
            yield from self._sample()

    def _sample(self) -> Iterator[tuple[str, Message]]:
        plant = self._plant
        sample = self._sensors.see(self._time, plant.position, plant.velocity, plant.effort)
        if sample is None:
            return
        if self._context.clock:
            sample.timestamp += self._switched_on
            sample.clock = self._context.clock
        yield "measured", sample

    def _follow(self) -> None:
        """Take the commands that hold from now on."""
        grace = self._plant.step_s / 2.0
        while self._waiting and self._waiting[0][0] <= self._time + grace:
            _, command = self._waiting.popleft()
            if reason := self._plant.command(command.mode, command.name, command.value):
                self._refused += 1
                self._context.warn(f"a command is refused: {reason}")
            else:
                self._commands += 1

    @property
    def counters(self) -> Mapping[str, int]:
        """Commands that it followed and did not, samples taken and lost on the way."""
        sensors = self._sensors
        return {
            "commands": self._commands,
            "commands_refused": self._refused,
            "samples": sensors.samples,
            "samples_lost": sensors.lost,
        }
