"""Emulates the real robot: a plant that differs from the model, with its own sensors, delays and clock."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

from nodes.framework.messages import JointCommand, Message, RobotState
from nodes.framework.plan.launch_plan import Plan
from nodes.hil.clocks.host_time import HostTime
from nodes.hil.emulation.plant import Plant, PlantPerturbation, mechanism_of, spread
from nodes.hil.emulation.sensors import Sensing, Sensors
from nodes.node import Context, Node, Outgoing

STATE = (
    "_refused", "_commands", "_host", "_switched_on", "_first_state", "_origin", "_has_started", "_received",
    "_waiting",
)  # fmt: skip
MOST_WAITING = 4096  # commands that are delayed at one time


class HardwareParams(Sensing, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Differences between the robot and its model, sensor errors, and the delay of commands."""

    command_delay_ms: float = 0.0  # time from the receipt of a command to its effect

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.command_delay_ms < math.inf:
            raise ValueError(f"command_delay_ms is {self.command_delay_ms}; it must be a number of at least 0")


class Hardware(Node):
    """Emulated robot: receives the same commands as the model, and publishes the state that its own sensors measure.

    `measured_state` is a sample of the sensors. `applied_command` repeats each command, with the instant at which the
    robot received the command as its timestamp.

    The robot runs in simulation time, which it takes from the model's states: it pauses and resets with the run, and in
    lockstep equal seeds give equal samples. If all parameters that make
    the robot differ from the model are 0, the robot behaves exactly like the model. In
    realtime, the stamps of `measured_state` are readings of the robot's own clock, as on a real robot. In lockstep,
    they are simulation times.
    """

    subscribes = {"state": RobotState, "command": JointCommand}
    publishes = {"measured_state": RobotState, "applied_command": JointCommand}
    Params = HardwareParams
    rate_hz = 200.0
    has_own_clock = True

    @classmethod
    def check(cls, params: HardwareParams, plan: Plan) -> None:
        sim = plan.sim
        if sim.mode == "fast":
            raise ValueError('mode \'fast\' does not wait for the robot; use "lockstep" or "realtime"')
        if sim.mode == "lockstep" and (params.clock_offset_s or params.clock_drift_ppm or params.clock_step_s):
            raise ValueError(
                "in lockstep the robot stamps with simulation time, so its clock has no effect; "
                "pass --set sim.mode=realtime, or leave clock_offset_s, clock_drift_ppm and clock_step_s at 0"
            )
        mechanism = mechanism_of(sim, params)
        spread("gain", params.gain, [actuator.name for actuator in mechanism.actuators], "actuator")
        Sensors(params, [joint.name for joint in mechanism.moving_joints], sim.step_s, np.random.default_rng(0))

    def on_start(self, context: Context) -> Outgoing:
        self._context = context
        self._params: HardwareParams = context.params
        self._plant = Plant(context.sim, self._params)
        self._sensors = self._new_sensors()
        self._refused = self._commands = 0
        self._host = HostTime()
        self._host_s = self._first_host_s = 0.0  # the computer's clock, s: latest reading, and first reading
        self._switched_on = self._first_state = math.nan  # computer's clock at simulation time 0; first time, s
        self._begin(0.0)
        return None

    def on_parameters(self, params: HardwareParams) -> Outgoing:
        """Change sensor parameters while running.

        Raises ValueError if a changed parameter belongs to the machine itself, such as a mass, because the machine is
        fixed for the whole run.
        """
        for field in PlantPerturbation.__struct_fields__:
            if getattr(params, field) != getattr(self._params, field):
                raise ValueError(
                    f"{field} is a property of the machine and is fixed during a run; set it in the launch file"
                )
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
        """Handle a state or a command.

        A state advances the robot to the state's simulation time. A command waits in a queue until the robot reaches
        the command's timestamp.
        """
        if isinstance(message, RobotState):
            self._host.add_state(1e-9 * message.sent_ns, message.timestamp, message.seq)
            self._note_first_motion(message.timestamp)
            yield from self._advance(message.timestamp)
        elif isinstance(message, JointCommand):
            if not self._context.clock:  # not called on each step: several messages may arrive at once
                yield from self._advance(message.timestamp)
            self._received.append((max(message.timestamp, self._time), message))

    def on_tick(self, now: float) -> Outgoing:
        """Update the relation between simulation time and this computer's clock, from the states received so far."""
        if self._context.clock:
            self._host.add_arrival(self._host_s)
        return None

    def clock_ns(self, host_ns: int) -> int:
        """Reading of the robot's own clock (ns) when the clock of the robot's computer reads `host_ns`.

        The parameters give the robot clock's offset, its drift since the first call, and one jump of the clock at a
        given simulation time.
        """
        self._host_s = 1e-9 * host_ns
        self._first_host_s = self._first_host_s or self._host_s
        return host_ns + round(1e9 * self._ahead_s(self._host_s))

    def _ahead_s(self, host_s: float) -> float:
        """Robot clock minus computer clock (s) when the computer's clock reads `host_s`."""
        clock = self._params.clock
        steps = not math.isnan(self._switched_on) and host_s >= self._switched_on + clock.step_at_s
        return clock.offset_s + clock.drift * (host_s - self._first_host_s) + (clock.step_s if steps else 0.0)

    def _note_first_motion(self, time: float) -> None:
        """Compute what the computer's clock showed at simulation time 0, and keep it.

        Called with the simulation time of each state of the model. The value is computed at the first call after
        simulation time has advanced.
        """
        if math.isnan(self._first_state):
            self._first_state = time
        elif math.isnan(self._switched_on) and time > self._first_state:
            self._switched_on = self._host.at(0.0)

    def on_reset(self, time: float) -> Outgoing:
        """Return the emulated robot to its initial state.

        This state is used even if the simulation continues from another state, at a `time` above 0.
        """
        if time > 0.0:
            self._context.warn(f"the model was set to t = {time:g} s; the emulated robot restarts in its initial state")
        self._begin(time)
        return None

    def snapshot(self) -> Any:
        own = {name: getattr(self, name) for name in STATE}
        return {"own": own, "plant": self._plant.snapshot(), "sensors": self._sensors.snapshot()}

    def restore(self, state: Any) -> None:
        vars(self).update(state["own"])
        self._plant.restore(state["plant"])
        self._sensors.restore(state["sensors"])

    def _begin(self, time: float) -> None:
        self._plant.reset()
        self._sensors.restart()
        self._origin, self._has_started = time, False
        self._switched_on = self._first_state = math.nan
        self._received: deque[tuple[float, JointCommand]] = deque(maxlen=MOST_WAITING)
        self._waiting: deque[tuple[float, JointCommand]] = deque(maxlen=MOST_WAITING)

    def _new_sensors(self) -> Sensors:
        return Sensors(self._params, self._plant.names, self._plant.step_s, self._context.random)

    @property
    def _time(self) -> float:
        return self._origin + self._plant.tick * self._plant.step_s

    def _advance(self, time: float) -> Iterator[tuple[str, Message]]:
        """Simulate the plant up to `time` (s), and yield the samples and applied commands of each time step."""
        if not self._has_started:
            # a node that starts late begins at the present simulation time
            self._origin, self._has_started = time, True
            yield from self._sample()
        for _ in range(math.floor((time - self._time) / self._plant.step_s + 0.5)):
            if self._can_stamp:
                yield from self._accept_commands()
            self._apply_commands()
            self._plant.step()
            yield from self._sample()

    def _sample(self) -> Iterator[tuple[str, Message]]:
        plant = self._plant
        sample = self._sensors.sample(self._time, plant.position, plant.velocity, plant.effort)
        if sample is None:
            return
        if not self._can_stamp:
            self._sensors.lost += 1
            return
        if self._context.clock:
            sample.timestamp, sample.clock = self._clock_reading_s(), self._context.clock
        yield "measured_state", sample

    @property
    def _can_stamp(self) -> bool:
        """Whether the robot can stamp samples and commands now.

        Immediately after states of the model were lost, the relation between simulation time and the robot's clock is
        unknown, and the robot cannot stamp. The simulation of the robot continues nevertheless.
        """
        return not self._context.clock or self._host.is_time_known

    def _clock_reading_s(self) -> float:
        """Reading of the robot's clock (s) at the present simulation time."""
        host_s = self._host.at(self._time)
        return host_s + self._ahead_s(host_s)

    def _accept_commands(self) -> Iterator[tuple[str, Message]]:
        """Accept the commands that are due at the present simulation time, and yield each as `applied_command`."""
        grace = self._plant.step_s / 2.0
        while self._received and self._received[0][0] <= self._time + grace:
            _, command = self._received.popleft()
            if reason := self._plant.servos.objection(command.mode, command.name):
                self._refused += 1
                self._context.warn(f"a command is refused: {reason}")
                continue
            self._waiting.append((self._time + self._params.command_delay_ms * 1e-3, command))
            clock = self._context.clock
            stamp = self._clock_reading_s() if clock else self._sensors.stamp(self._time)
            yield "applied_command", msgspec.structs.replace(command, timestamp=stamp, clock=clock)

    def _apply_commands(self) -> None:
        """Apply the accepted commands whose delay has passed."""
        grace = self._plant.step_s / 2.0
        while self._waiting and self._waiting[0][0] <= self._time + grace:
            _, command = self._waiting.popleft()
            self._plant.command(command.mode, command.name, command.value)
            self._commands += 1

    @property
    def counters(self) -> Mapping[str, int]:
        """Numbers of commands applied and refused, and of samples taken and lost."""
        sensors = self._sensors
        return {
            "commands": self._commands,
            "commands_refused": self._refused,
            "samples": sensors.samples,
            "samples_lost": sensors.lost,
        }
