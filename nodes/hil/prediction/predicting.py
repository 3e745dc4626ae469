"""Source of the predicted states for hil_compare while a run is in progress.

The predicted states are either those of the running simulation, or those of a local model that receives the commands
that the robot applied.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from nodes.framework.messages import Event, JointCommand, Residual, RobotState
from nodes.framework.plan.launch_plan import SimPlan
from nodes.hil.alignment.live import LivePairs
from nodes.hil.alignment.stamps import SERVER, Stamped
from nodes.hil.prediction.command_replay import FIRST_S, CommandAges, CommandReplayModel
from sim_core.errors import SimulationDiverged

STATE = ("lost", "commands_lost", "_last_command", "_time", "_first", "_waiting")  # attributes
Judged = Iterator[tuple[Residual, list[float]]]


class LivePrediction:
    """Pairs each measured state with the predicted state of the same simulation time, as both arrive.

    At first, the simulation server publishes the predicted states. Once the robot reports an applied command, a local
    model predicts instead. The local model receives each command at the instant at which the robot applied this
    command.

    lost           one line that says why the local model cannot be used; "" if it can be used
    commands_lost  number of reports of applied commands that were lost in transit
    """

    def __init__(self, sim: SimPlan | None, gap_s: float, delay_s: float) -> None:
        self.pairs = LivePairs(gap_s, delay_s)
        self.ages = CommandAges()
        self.lost, self.commands_lost = "", 0
        self._last_command = 0
        self._sim, self._delay_s = sim, delay_s
        self._retrace: CommandReplayModel | None = None
        self._spare: CommandReplayModel | None = None
        self._time, self._first = 0.0, -1.0
        self._waiting: deque[Stamped] = deque()

    def prepare(self) -> None:
        """Build the local model in advance, because this takes time."""
        self._spare = None if self._sim is None else CommandReplayModel(self._sim)

    @property
    def retraces(self) -> bool:
        """Whether the local model predicts now; otherwise, the simulation server does."""
        return self._retrace is not None

    @property
    def waiting(self) -> int:
        """Number of measured states for whose instants there is no prediction yet."""
        return self.pairs.waiting + sum(isinstance(each, RobotState) for each in self._waiting)

    def predict(self, state: RobotState) -> Judged:
        """Add a state of the simulation server. Yields (residual, predicted velocities) for each pair that is now
        complete.
        """
        self._time = state.timestamp
        self.ages.add_state(state)
        if self._first < 0.0:
            self._first = state.timestamp
        if self._retrace is None:
            yield from self.pairs.predict(state)
        yield from self._go_on()

    def add_message(self, message: Stamped) -> Judged:
        """Add a measured state or an applied command, in the order of their publication.

        Yields (residual, predicted velocities) for each pair that is now complete.
        """
        if isinstance(message, JointCommand):
            if message.seq > self._last_command + 1:  # sequence numbers begin at 1
                self.commands_lost += message.seq - 1 - self._last_command
            self._last_command = message.seq
        self._waiting.append(message)
        yield from self._go_on()

    def snapshot(self) -> dict[str, Any]:
        """Waiting messages, pairs of states, ages of states, and state of the local model, for `restore`."""
        return {
            "own": {name: getattr(self, name) for name in STATE},
            "pairs": self.pairs.snapshot(),
            "ages": self.ages.snapshot(),
            "retrace": None if self._retrace is None else self._retrace.snapshot(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a result of `snapshot`."""
        vars(self).update(state["own"])
        self.pairs.restore(state["pairs"])
        self.ages.restore(state["ages"])
        self._retrace = None
        if state["retrace"] is not None and self._sim is not None:
            self._retrace, self._spare = self._spare or CommandReplayModel(self._sim), None
            self._retrace.restore(state["retrace"])

    def forget(self, time: float) -> None:
        """Discard all states, because simulation time was set to `time` (s)."""
        self.pairs.unpaired += sum(isinstance(each, RobotState) for each in self._waiting)
        self._waiting.clear()
        self.pairs.forget()
        self._first = -1.0
        if self._retrace is not None:
            self._retrace.restart()
        if time > FIRST_S:
            self.lose(f"simulation time was set to {time:g} s")

    def process_event(self, event: Event) -> None:
        """Process an event of the run. An event that changes the server's model makes the local model invalid."""
        if event.kind == "set" and event.node == SERVER:
            self.lose(f"parameter {event.key} of the model was changed")
        elif event.kind == "push":
            self.lose("the model was pushed")
        elif event.kind == "restore":
            self.lose("the model was set to another state")

    def lose(self, why: str) -> None:
        """Stop using the local model for the reason `why`, and use the states of the simulation server from now on."""
        if not self.lost:
            self.lost = why
            self._retrace = None
            self.pairs.forget()

    def _go_on(self) -> Judged:
        while self._waiting and self._waiting[0].timestamp <= self._time:
            message = self._waiting.popleft()
            if isinstance(message, JointCommand):
                self._add_command(message)
                continue
            yield from self._caught_up(message.timestamp - self._delay_s)
            yield from self.pairs.measure(message)

    def _add_command(self, command: JointCommand) -> None:
        self.ages.add(command.timestamp, command)
        if self.lost:
            return
        if self._retrace is None:
            if self._first > FIRST_S:
                self.lose(f"the first state received is of t = {self._first:g} s, not of the start")
                return
            if self._sim is None:
                self.lose("the plan, which describes the model, is not known")
                return
            self._retrace, self._spare = self._spare or CommandReplayModel(self._sim), None
            self.pairs.forget()
        self._retrace.add_command(command.timestamp, command)

    def _caught_up(self, time: float) -> Judged:
        if self._retrace is None:
            return
        try:
            for state in self._retrace.until(time):
                yield from self.pairs.predict(state)
        except SimulationDiverged as error:
            self.lose(f"the model with these commands diverged: {error.line}")
