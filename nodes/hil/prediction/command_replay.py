"""The model driven by the commands as the robot took them, each from the instant on that the robot says.

A command reaches the robot and its model at different instants, by the jitter of a network. What follows from that is
no error of the robot, so its measured states are set beside a model that had the same commands at the same time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import numpy as np

from nodes.hil.alignment.streams import Floats, Stream
from nodes.hil.emulation.plant import Plant, PlantPerturbation
from nodes.messages import JointCommand, RobotState
from nodes.plan.launch_plan import SimPlan

FIRST_S = 0.1  # a run that is known from then on is known from its start
REMEMBERED = 4096  # states whose time is, for the age of commands


class CommandReplayModel:
    """One model, from its start at simulation time 0."""

    def __init__(self, sim: SimPlan) -> None:
        self._plant = Plant(sim, PlantPerturbation())
        self.restart()

    def restart(self) -> None:
        """Back to the start, with nothing taken."""
        self._plant.reset()
        self._taken: deque[tuple[int, JointCommand]] = deque()
        self._said = -1.0  # s, of the latest state

    @property
    def names(self) -> list[str]:
        """Its joints."""
        return self._plant.names

    def take(self, time: float, command: JointCommand) -> None:
        """A command that holds from this simulation time on, to the nearest step; one out of order from the last."""
        self._taken.append((round(time / self._plant.step_s), command))

    def until(self, time: float) -> Iterator[RobotState]:
        """Its states up to the step nearest to this time; call it when all commands up to there were taken."""
        plant = self._plant
        if self._said < 0.0:
            yield self._state(0.0)
        last = round(time / plant.step_s)
        while plant.tick < last:
            while self._taken and self._taken[0][0] <= plant.tick:
                _, command = self._taken.popleft()
                plant.command(command.mode, command.name, command.value)  # what it cannot do, the robot did not take
            plant.step()
            yield self._state(0.0)
        if time > self._said:
            yield self._state(time - plant.tick * plant.step_s)

    def _state(self, later_s: float) -> RobotState:
        """The state now, or less than a step later."""
        plant = self._plant
        position = plant.position + later_s * plant.velocity
        time = self._said = plant.tick * plant.step_s + later_s
        velocity, effort = plant.velocity.tolist(), plant.effort.tolist()
        return RobotState(
            timestamp=time, name=plant.names, position=position.tolist(), velocity=velocity, effort=effort
        )


def retraced(sim: SimPlan, end_s: float, taken: Iterable[tuple[float, JointCommand]]) -> Stream:
    """The model's states at every step from 0 to `end_s`; `taken` has simulation times that do not fall."""
    retrace = CommandReplayModel(sim)
    for time, command in taken:
        retrace.take(time, command)
    states = list(retrace.until(end_s))

    def rows(field: str) -> Floats:
        found: Floats = np.array([getattr(state, field) for state in states])
        return found

    return Stream(rows("timestamp"), tuple(retrace.names), rows("position"), rows("velocity"), rows("effort"))


class CommandAges:
    """How old the states were that commands answer, when the robot took the commands: s of simulation time."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self.count, self.largest = 0, 0.0
        self._sum = 0.0
        self._times: list[tuple[int, float]] = [(-1, 0.0)] * remembered

    def see(self, state: RobotState) -> None:
        """Note when a state was."""
        self._times[state.seq % len(self._times)] = state.seq, state.timestamp

    def add(self, time: float, command: JointCommand) -> None:
        """Note a command that was taken at this simulation time."""
        if command.state_seq is None:
            return
        seq, at = self._times[command.state_seq % len(self._times)]
        if seq == command.state_seq:
            age = max(time - at, 0.0)
            self.count, self._sum, self.largest = self.count + 1, self._sum + age, max(self.largest, age)

    @property
    def mean(self) -> float:
        """Of all that are known."""
        return self._sum / max(self.count, 1)

    @property
    def text(self) -> str:
        """In words."""
        if not self.count:
            return "commands as the robot took them"
        # times are sums of steps: below a microsecond there is nothing but their rounding
        mean, most = (f"{1e3 * age if age >= 1e-6 else 0:.3g} ms" for age in (self.mean, self.largest))
        return f"commands as the robot took them, {mean} after the states that they answer, {most} at most"
