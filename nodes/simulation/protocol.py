"""The simulation server as the lockstep scheduler and the event loop see it; `SimServer` is one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from nodes.hosting.hosted import Out
from nodes.messages import Event, JointCommand
from nodes.transport.rejections import RejectionLog


class Stepped(Protocol):
    """A simulation as the scheduler drives it.

    out  takes each (topic, encoded message) the moment the server publishes it
    """

    out: Out

    @property
    def robot(self) -> str:
        """Namespace of the server's topics."""

    @property
    def tick(self) -> int:
        """Steps since the start or the last reset; time = tick * step_s."""

    @property
    def time(self) -> float:
        """Simulation time, seconds."""

    def start(self) -> None:
        """Publish the description and the initial state."""

    def step(self) -> None:
        """Apply the commands that came, advance one step, publish what is due."""

    def command(self, source: str, command: JointCommand) -> None:
        """Take a command of the node `source`; it holds from the next step on."""

    def refuse(self, topic: str, reason: str) -> None:
        """Count and report something that was no command."""


class Simulated(Stepped, Protocol):
    """A simulation as the event loop drives it.

    refusals  rejected commands
    """

    refusals: RejectionLog

    @property
    def publishes(self) -> Sequence[str]:
        """Names of its topics, without the robot."""

    @property
    def speed(self) -> float:
        """Simulated seconds per wall second, in realtime."""

    @property
    def steps_left(self) -> int:
        """Steps still to take while paused."""

    @property
    def state(self) -> str:
        """ "paused", "running", "safe" or "stopped"."""

    @property
    def detail(self) -> str:
        """One line on why it is in this state."""

    @property
    def runs(self) -> bool:
        """Whether a step is due."""

    def publish_state(self) -> None:
        """Publish the present state and poses."""

    def publish_events(self, events: Iterable[Event]) -> None:
        """Publish events of the present simulation time."""

    def command(self, source: str, command: JointCommand, timed: bool = True) -> None:
        """Take a command of the node `source`; it holds from the next step on. `timed`: it arrives now."""

    def forget(self, source: str) -> None:
        """Let other nodes command: this one is gone. Any thread may call this."""

    def restart_pace(self) -> None:
        """Measure the real-time factor from now on."""

    def request(self, name: str, args: dict[str, Any]) -> Any:
        """Answer a service that is about the simulation itself; ValueError refuses with a line."""

    def status(self) -> dict[str, Any]:
        """How the simulation runs: SI units, plain data."""

    def timing(self) -> Mapping[str, float | None]:
        """Percentiles of the time of a step and of a round trip, seconds; None where nothing was measured."""

    def counters(self) -> Mapping[str, int]:
        """Whole numbers that only grow: commands, watchdog trips."""
