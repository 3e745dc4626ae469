"""Simulation of the model with the commands that the robot applied, each from the instant at which the robot received
it.

Because of network jitter, the robot and its model receive a command at different instants. The resulting differences
are not errors of the robot. The measured states are therefore compared with a model that receives the same commands at
the same instants as the robot.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from nodes.framework.messages import JointCommand, RobotState
from nodes.framework.plan.launch_plan import SimPlan
from nodes.hil.alignment.streams import Floats, Stream
from nodes.hil.emulation.plant import Plant, PlantPerturbation

FIRST_S = 0.1  # latest first known time for which a run counts as known from its start, s
LATEST = 64  # states in a snapshot whose times are kept
REMEMBERED = 4096  # states whose times are kept to compute the age of commands


class CommandReplayModel:
    """A model that is simulated from simulation time 0 with the commands that the robot applied."""

    def __init__(self, sim: SimPlan) -> None:
        self._plant = Plant(sim, PlantPerturbation())
        self.restart()

    def restart(self) -> None:
        """Return the model to its start state and discard all commands."""
        self._plant.reset()
        self._commands: deque[tuple[int, JointCommand]] = deque()
        self._latest_s = -1.0  # time of the latest state, s

    def snapshot(self) -> dict[str, Any]:
        """State of the model, and the commands that it has not applied yet, for `restore`."""
        return {"plant": self._plant.snapshot(), "taken": self._commands, "said": self._latest_s}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a result of `snapshot`."""
        self._plant.restore(state["plant"])
        self._commands, self._latest_s = state["taken"], state["said"]

    @property
    def names(self) -> list[str]:
        """Names of the model's joints."""
        return self._plant.names

    def add_command(self, time: float, command: JointCommand) -> None:
        """Add a command that the robot applied from simulation time `time` (s) on; the time is rounded to the nearest
        time step.
        """
        self._commands.append((round(time / self._plant.step_s), command))

    def until(self, time: float) -> Iterator[RobotState]:
        """Yield the model's states up to the time step nearest to `time` (s).

        If `time` is later than this time step, also yield the state at `time`. Call this method when all commands up
        to `time` have been added.
        """
        plant = self._plant
        if self._latest_s < 0.0:
            yield self._state(0.0)
        last = round(time / plant.step_s)
        while plant.tick < last:
            while self._commands and self._commands[0][0] <= plant.tick:
                _, command = self._commands.popleft()
                # a command that it rejects was not applied by the robot either
                plant.command(command.mode, command.name, command.value)
            plant.step()
            yield self._state(0.0)
        if time > self._latest_s:
            yield self._state(time - plant.tick * plant.step_s)

    def _state(self, later_s: float) -> RobotState:
        """State of the model, extrapolated to the instant `later_s` seconds after its latest time step."""
        plant = self._plant
        position = plant.position + later_s * plant.velocity
        time = self._latest_s = plant.tick * plant.step_s + later_s
        velocity, effort = plant.velocity.tolist(), plant.effort.tolist()
        return RobotState(
            timestamp=time, name=plant.names, position=position.tolist(), velocity=velocity, effort=effort
        )


def retraced(sim: SimPlan, end_s: float, commands: Iterable[tuple[float, JointCommand]]) -> Stream:
    """Stream of the model's states at every time step from 0 to `end_s` (s), with the commands that the robot applied.

    commands  (simulation time in s, command) of each applied command, with non-decreasing times
    """
    retrace = CommandReplayModel(sim)
    for time, command in commands:
        retrace.add_command(time, command)
    states = list(retrace.until(end_s))

    def rows(field: str) -> Floats:
        found: Floats = np.array([getattr(state, field) for state in states])
        return found

    return Stream(rows("timestamp"), tuple(retrace.names), rows("position"), rows("velocity"), rows("effort"))


class CommandAges:
    """Ages (s) of the states from which the applied commands were computed.

    A command is computed from a state of the simulation. The age of this state is the simulation time from the state to
    the instant at which the robot applied the command.
    """

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self.count, self.largest = 0, 0.0
        self._sum = 0.0
        self._times: list[tuple[int, float]] = [(-1, 0.0)] * remembered

    def snapshot(self) -> dict[str, Any]:
        """The ages so far, and the times of the latest states, for `restore`."""
        return {"count": self.count, "largest": self.largest, "sum": self._sum, "times": sorted(self._times)[-LATEST:]}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a result of `snapshot`."""
        self.count, self.largest, self._sum = state["count"], state["largest"], state["sum"]
        for seq, at in state["times"]:
            self._times[seq % len(self._times)] = seq, at

    def add_state(self, state: RobotState) -> None:
        """Record the time of a state."""
        self._times[state.seq % len(self._times)] = state.seq, state.timestamp

    def add(self, time: float, command: JointCommand) -> None:
        """Record a command that the robot applied at simulation time `time` (s)."""
        if command.state_seq is None:
            return
        seq, at = self._times[command.state_seq % len(self._times)]
        if seq == command.state_seq:
            age = max(time - at, 0.0)
            self.count, self._sum, self.largest = self.count + 1, self._sum + age, max(self.largest, age)

    @property
    def mean(self) -> float:
        """Mean of all known ages (s)."""
        return self._sum / max(self.count, 1)

    @property
    def text(self) -> str:
        """One line about the applied commands, and about the ages of the states from which they were computed."""
        if not self.count:
            return "commands at the times the robot received them"
        # times are sums of steps: less than a microsecond is rounding
        mean, most = (f"{1e3 * age if age >= 1e-6 else 0:.3g} ms" for age in (self.mean, self.largest))
        return f"commands at the times the robot received them, {mean} after the states they respond to, {most} at most"
