"""What the runtime asks of a simulation server; `nodes.simulation.server.SimServer` is one."""

from __future__ import annotations

from typing import Any, Protocol

from nodes.hosting.hosted import Out
from nodes.messages import JointCommand


class Simulated(Protocol):
    """A simulation as the scheduler and the socket host drive it; it knows neither.

    out   takes each (topic, encoded message) the moment the server says it
    tick  steps taken; time = tick * step_s, seconds
    """

    robot: str
    out: Out

    @property
    def tick(self) -> int:
        """Steps since the start or the last reset."""

    @property
    def time(self) -> float:
        """Simulation time, seconds."""

    def start(self) -> None:
        """Say the description and the initial state."""

    def step(self) -> None:
        """Apply the commands that came, advance one step, say what is due."""

    def command(self, source: str, command: JointCommand) -> None:
        """Take a command from a node; it holds from the next step on."""

    def refuse(self, topic: str, reason: str) -> None:
        """Count and report something that was no command."""

    def request(self, name: str, args: dict[str, Any]) -> Any:
        """Answer a service that is about the simulation itself; ValueError refuses with a line."""
