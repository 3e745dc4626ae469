"""Interfaces of the simulation server: `Part`, `Stepped` (for the scheduler), `Simulated` (for the event loop)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from nodes.hosting.hosted import EncodedMessage, Out
from nodes.messages import Event, JointCommand
from nodes.simulation.restart.snapshots import LinksState
from nodes.transport.rejections import RejectionLog


class Part(Protocol):
    """Interface of the simulation of one robot for a scheduler that passes commands to this simulation.

    A server simulates one robot, or several robots that are stepped together.
    """

    @property
    def robot(self) -> str:
        """Name of the robot, which is the first part of the simulation's topics, as in ROBOT/state."""

    @property
    def publishes(self) -> Sequence[str]:
        """Names of the simulation's topics, without the robot."""

    def command(self, source: str, command: JointCommand, timed: bool = True) -> None:
        """Receive a command of the node `source`; the command takes effect in the next time step.

        timed  whether the command arrived just now, so that its round trip can be measured
        """

    def refuse(self, topic: str, reason: str) -> None:
        """Count and report an invalid command message."""


class Stepped(Protocol):
    """Interface of the simulation server for the lockstep scheduler.

    out  function that the server calls with (topic, encoded message) for each message, as soon as it publishes the
         message
    """

    out: Out

    @property
    def parts(self) -> Sequence[Part]:
        """The simulations that are stepped together, each of one robot."""

    @property
    def tick(self) -> int:
        """Number of time steps since the start or the last reset; time = tick * step_s."""

    @property
    def time(self) -> float:
        """Simulation time, s."""

    def start(self, restarts: bool = False) -> None:
        """Publish the description and the initial state.

        restarts  whether the run continues from a snapshot; if so, only the description is published
        """

    def step(self) -> None:
        """Apply the commands received, advance one time step, publish the messages that are due."""

    def next_snapshot(self, tick: int) -> int:
        """The first tick from `tick` on at which a snapshot is taken."""

    def publish_snapshot(
        self,
        nodes: Mapping[str, bytes],
        waiting: Mapping[str, Sequence[EncodedMessage]],
        links: LinksState | None = None,
    ) -> None:
        """Publish the state of the run: states of the server and of the nodes, and messages waiting for the nodes."""

    def restart(self, state: Mapping[str, Any], stamps: bool, ahead: int) -> None:
        """Continue from the server's state in a snapshot, without publishing anything.

        stamps  whether the sequence numbers of messages continue from those in the snapshot
        ahead   number of unpublished time steps that follow, before the first time step whose messages are published
        """

    def repeat(self, action: Event) -> None:
        """Repeat a user's action that a recording contains as the event `action`.

        The event's kind is one of ACTIONS in `restart.snapshots`.
        """

    def publish_events(self, events: Iterable[Event]) -> None:
        """Publish events with the present simulation time."""


class Simulated(Stepped, Protocol):
    """Interface of the simulation server for the event loop.

    refusals  log that counts the rejected commands
    """

    refusals: RejectionLog

    @property
    def code_hash(self) -> str:
        """Hash of the robot's equations."""

    @property
    def speed(self) -> float:
        """Simulated seconds per wall second, in mode realtime."""

    @property
    def steps_left(self) -> int:
        """Number of requested single time steps that are still to be taken while the simulation is paused."""

    @property
    def state(self) -> str:
        """State of the server: "paused", "running", "safe" or "stopped"."""

    @property
    def detail(self) -> str:
        """One line for the user on the reason of the present state."""

    @property
    def emergency(self) -> str:
        """Reason of the emergency stop in force; "" if there is no emergency stop."""

    @property
    def runs(self) -> bool:
        """Whether to take a time step: the simulation is running, or requested single time steps are left."""

    def publish_state(self) -> None:
        """Publish the present state and poses."""

    def forget(self, source: str) -> None:
        """Record that a node left; other nodes may command its actuators. Callable from any thread."""

    def restart_pace(self) -> None:
        """Begin anew to measure the real-time factor."""

    def request(self, name: str, args: dict[str, Any]) -> Any:
        """Response to a service call about the simulation.

        Raises ValueError with a one-line message to refuse the call.
        """

    def status(self) -> dict[str, Any]:
        """Status of the simulation as plain data, in SI units."""

    def timing(self) -> Mapping[str, float | None]:
        """Quantiles of the wall time per time step and of the round-trip time, s; None if nothing was measured."""

    def counters(self) -> Mapping[str, int]:
        """Number of watchdog trips and of accepted commands."""
