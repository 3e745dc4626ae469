"""Interfaces of the simulation server for the lockstep scheduler and the event loop; `SimServer` implements both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from nodes.hosting.hosted import Out
from nodes.messages import Event, JointCommand
from nodes.transport.rejections import RejectionLog


class Stepped(Protocol):
    """A simulation as the scheduler uses it.

    out  called with each (topic, encoded message) at once when the server publishes it
    """

    out: Out

    @property
    def robot(self) -> str:
        """Namespace of the server's topics."""

    @property
    def tick(self) -> int:
        """Number of steps since the start or the last reset; time = tick * step_s."""

    @property
    def time(self) -> float:
        """Simulation time, s."""

    def start(self) -> None:
        """Publish the description and the initial state."""

    def step(self) -> None:
        """Apply the commands received, advance one step, publish what is due."""

    def command(self, source: str, command: JointCommand) -> None:
        """Receive a command of the node `source`; it takes effect in the next step."""

    def refuse(self, topic: str, reason: str) -> None:
        """Count and report an invalid command message."""


class Simulated(Stepped, Protocol):
    """A simulation as the event loop uses it.

    refusals  counts rejected commands
    """

    refusals: RejectionLog

    @property
    def publishes(self) -> Sequence[str]:
        """Names of its topics, without the robot."""

    @property
    def speed(self) -> float:
        """Simulated seconds per wall second, in mode realtime."""

    @property
    def steps_left(self) -> int:
        """Number of steps still to take while paused."""

    @property
    def state(self) -> str:
        """State of the server: "paused", "running", "safe" or "stopped"."""

    @property
    def detail(self) -> str:
        """One line for the user on the reason of the present state."""

    @property
    def runs(self) -> bool:
        """Whether to take a step: time runs, or single steps were requested."""

    def publish_state(self) -> None:
        """Publish the present state and poses."""

    def publish_events(self, events: Iterable[Event]) -> None:
        """Publish events with the present simulation time."""

    def command(self, source: str, command: JointCommand, timed: bool = True) -> None:
        """Receive a command of the node `source`; it takes effect in the next step.

        timed  whether it arrived just now, so that its round trip can be measured
        """

    def forget(self, source: str) -> None:
        """Note that a node left; other nodes may command its actuators. Callable from any thread."""

    def restart_pace(self) -> None:
        """Restart the measurement of the real-time factor."""

    def request(self, name: str, args: dict[str, Any]) -> Any:
        """Response to a service call about the simulation. ValueError, one line, to refuse."""

    def status(self) -> dict[str, Any]:
        """Status of the simulation: SI units, plain data."""

    def timing(self) -> Mapping[str, float | None]:
        """Quantiles of step time and round-trip time, s; None where nothing was measured."""

    def counters(self) -> Mapping[str, int]:
        """Number of watchdog trips and of accepted commands."""
