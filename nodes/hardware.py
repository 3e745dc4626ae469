"""Stands in for the real robot: a plant that differs from the model, with sensors and a clock of its own."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

from nodes.hil.clocks.host_time import HostTime
from nodes.hil.emulation.plant import Plant, PlantPerturbation, mechanism_of, spread
from nodes.hil.emulation.sensors import Sensing, Sensors
from nodes.messages import JointCommand, Message, RobotState
from nodes.node import Context, Node, Outgoing
from nodes.plan.launch_plan import SimPlan

MOST_WAITING = 4096  # commands on their way
NEARLY_0_S = 1e-9  # a stamp of 0 would be none


class HardwareParams(Sensing, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """By how much the robot differs from its model, how it is measured, and how late it hears its commands."""

    command_delay_ms: float = 0.0  # a command holds so long after it was taken

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.command_delay_ms < math.inf:
            raise ValueError(f"command_delay_ms is {self.command_delay_ms}; it must be a number of at least 0")


class Hardware(Node):
    """Takes the same commands as the model and says `measured`, what the robot's own sensors make of its state.

    `taken` says each command again, at the instant that the robot had it.

    It lives in simulation time, which it reads from the model's states: so it pauses and resets with the run, and in
    lockstep equal seeds give equal samples. Without any difference it is the model. In realtime its own clock, beside
    that of its computer, stamps `measured`, as a robot's does; in lockstep, where no clock is asked, simulation time.
    """

    subscribes = {"state": RobotState, "command": JointCommand}
    publishes = {"measured_state": RobotState, "applied_command": JointCommand}
    Params = HardwareParams
    rate_hz = 200.0
    has_own_clock = True

    @classmethod
    def check(cls, params: HardwareParams, plan: Mapping[str, Any]) -> None:
        sim = msgspec.convert(plan["sim"], SimPlan)
        if sim.mode == "fast":
            raise ValueError('mode \'fast\' waits for no robot; "lockstep" and "realtime" do')
        if sim.mode == "lockstep" and (params.clock_offset_s or params.clock_drift_ppm or params.clock_step_s):
            raise ValueError(
                "a clock of its own cannot be told from simulation time in lockstep, where nobody asks it; "
                "--set sim.mode=realtime, or leave clock_offset_s, clock_drift_ppm and clock_step_s at 0"
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
        self._host = HostTime()
        self._host_s = self._asked_s = 0.0  # time of its computer: now, and when it was first asked
        self._switched_on = self._first_state = math.nan  # by its computer's clock; by simulation time
        self._begin(0.0)
        return None

    def on_parameters(self, params: HardwareParams) -> Outgoing:
        """Sensors may change while running; the machine itself cannot."""
        for field in PlantPerturbation.__struct_fields__:
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
            self._host.hear(1e-9 * message.sent_ns, message.timestamp, message.seq)
            self._begin_with(message.timestamp)
            yield from self._advance(message.timestamp)
        elif isinstance(message, JointCommand):
            if not self._context.clock:  # who is not called each step hears several at once
                yield from self._advance(message.timestamp)
            self._heard.append((max(message.timestamp, self._time), message))

    def on_tick(self, now: float) -> Outgoing:
        """See how far the computer's clock is from that of who says states: the quickest message tells best."""
        if self._context.clock:
            self._host.see(self._host_s)
        return None

    def clock_ns(self, host_ns: int) -> int:
        """What its clock shows: ahead, gaining from when it was first asked, put forward in the robot's time."""
        self._host_s = 1e-9 * host_ns
        self._asked_s = self._asked_s or self._host_s
        return host_ns + round(1e9 * self._ahead_s(self._host_s))

    def _ahead_s(self, host_s: float) -> float:
        """By how much its clock is ahead of its computer's."""
        clock = self._params.clock
        steps = not math.isnan(self._switched_on) and host_s >= self._switched_on + clock.step_at_s
        return clock.offset_s + clock.drift * (host_s - self._asked_s) + (clock.step_s if steps else 0.0)

    def _begin_with(self, time: float) -> None:
        """Note when the model began to move."""
        if math.isnan(self._first_state):
            self._first_state = time
        elif math.isnan(self._switched_on) and time > self._first_state:
            self._switched_on = self._host.at(0.0)

    def on_reset(self, time: float) -> Outgoing:
        """The robot is put back to its start too, wherever the model was put."""
        if time > 0.0:
            self._context.warn(f"the model was put to t = {time:g} s; the emulated robot begins anew at its start")
        self._begin(time)
        return None

    def _begin(self, time: float) -> None:
        self._plant.reset()
        self._sensors.restart()
        self._origin, self._said_first = time, False
        self._switched_on = self._first_state = math.nan
        self._heard: deque[tuple[float, JointCommand]] = deque(maxlen=MOST_WAITING)
        self._waiting: deque[tuple[float, JointCommand]] = deque(maxlen=MOST_WAITING)

    def _new_sensors(self) -> Sensors:
        return Sensors(self._params, self._plant.names, self._plant.step_s, self._context.random)

    @property
    def _time(self) -> float:
        return self._origin + self._plant.tick * self._plant.step_s

    def _advance(self, time: float) -> Iterator[tuple[str, Message]]:
        """Go on to this simulation time, and say what was sampled on the way."""
        if not self._said_first:
            self._origin, self._said_first = time, True  # who comes late begins where time is
            yield from self._sample()
        for _ in range(math.floor((time - self._time) / self._plant.step_s + 0.5)):
            if self._knows_time:
                yield from self._take()
            self._follow()
            self._plant.step()
            yield from self._sample()

    def _sample(self) -> Iterator[tuple[str, Message]]:
        plant = self._plant
        sample = self._sensors.see(self._time, plant.position, plant.velocity, plant.effort)
        if sample is None:
            return
        if not self._knows_time:
            self._sensors.lost += 1
            return
        if self._context.clock:
            sample.timestamp, sample.clock = self._shown(), self._context.clock
        yield "measured_state", sample

    @property
    def _knows_time(self) -> bool:
        """Whether it can stamp: not where states were lost, for it lives by them. It goes on then as it did before."""
        return not self._context.clock or self._host.knows

    def _shown(self) -> float:
        """What its clock shows at the present simulation time."""
        host_s = self._host.at(self._time)
        return host_s + self._ahead_s(host_s)

    def _take(self) -> Iterator[tuple[str, Message]]:
        """Take the commands that have come by now, and say so."""
        grace = self._plant.step_s / 2.0
        while self._heard and self._heard[0][0] <= self._time + grace:
            _, command = self._heard.popleft()
            if reason := self._plant.servos.objection(command.mode, command.name):
                self._refused += 1
                self._context.warn(f"a command is refused: {reason}")
                continue
            self._waiting.append((self._time + self._params.command_delay_ms * 1e-3, command))
            clock = self._context.clock
            stamp = self._shown() if clock else self._sensors.stamp(self._time) or NEARLY_0_S
            yield "applied_command", msgspec.structs.replace(command, timestamp=stamp, clock=clock)

    def _follow(self) -> None:
        """Do what was taken, where its delay is over."""
        grace = self._plant.step_s / 2.0
        while self._waiting and self._waiting[0][0] <= self._time + grace:
            _, command = self._waiting.popleft()
            self._plant.command(command.mode, command.name, command.value)
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
