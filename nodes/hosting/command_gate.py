"""Passes commands to a driver through its guard, and withholds them during an emergency stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from nodes.messages import Event, JointCommand, Message, RobotState
from nodes.node import Node
from nodes.plan.key_checks import convert
from nodes.plan.launch_plan import NodePlan

if TYPE_CHECKING:
    from nodes.guard.driver import DriverGuard


COMMAND = "command"


class CommandGate:
    """Filter of the commands for one node: the node's guard limits them, and an emergency stop withholds them.

    now   clock of the guard, s
    name  name of the topic of commands that a driver receives, "" for a node that is not a driver. A driver receives
          commands and publishes a measured state
    """

    def __init__(self, node: Node, node_plan: NodePlan, now: Callable[[], float]) -> None:
        is_driver = node.subscribes.get(COMMAND) is JointCommand and RobotState in node.publishes.values()
        self.name = COMMAND if is_driver else ""
        self._now = now
        self._stopped = ""  # reason of an emergency stop
        self._told: list[Event] = []
        self._node = node_plan.local_name
        self.guard: DriverGuard | None = None
        if node_plan.guard is not None:
            from nodes.guard.driver import DriverGuard
            from nodes.guard.limits import GuardParams

            limits = convert(node_plan.guard, GuardParams, f"node {node_plan.name!r}: guard")
            self.guard = DriverGuard(limits, node_plan.local_name)

    def take(self, message: Message, age_s: float) -> list[Message]:
        """The messages to deliver to the node in place of a received one. `age_s`: age of the state behind a command,
        s."""
        if self.guard is not None:
            if isinstance(message, JointCommand):
                return self.guard.take(message, self._now(), age_s)
            self.guard.hear(message, self._now())
        return [] if self._stopped and isinstance(message, JointCommand) else [message]

    def measured(self, message: Message) -> None:
        """Pass a message that the node publishes to the guard."""
        if self.guard is not None:
            self.guard.hear(message, self._now())

    def due(self) -> list[Message]:
        """Commands that the guard sends now on its own, without a received command."""
        return [] if self.guard is None else self.guard.check(self._now())

    def stop(self, reason: str) -> tuple[str, list[Message]]:
        """Begin an emergency stop. Returns (how the robot stops, commands that stop it)."""
        if self.guard is not None:
            return "controlled stop", self.guard.stop(self._now(), reason)
        if not self._stopped:
            self._stopped = reason or "emergency stop"
            self._told.append(Event(kind="estop", node=self._node, detail=f"{self._stopped}: commands are held back"))
        return "commands are held back: the node has no guard", []

    def release(self) -> None:
        """End an emergency stop. ValueError, one line, where the guard does not permit it."""
        if self.guard is not None:
            self.guard.acknowledge(self._now())
        elif self._stopped:
            self._stopped = ""
            self._told.append(Event(kind="estop_released", node=self._node))

    def reset(self) -> None:
        """Reset the guard, after simulation time was set back."""
        if self.guard is not None:
            self.guard.reset()

    def events(self) -> Iterator[Event]:
        """Events since the previous call."""
        told, self._told = self._told, []
        yield from told
        if self.guard is not None:
            yield from self.guard.events

    @property
    def counters(self) -> Mapping[str, int]:
        """Counters of the guard."""
        return {} if self.guard is None else self.guard.counters

    def snapshot(self) -> Any:
        """State of the guard; None where the node has no guard."""
        return None if self.guard is None else self.guard.snapshot()

    def restore(self, state: Any) -> None:
        """Set the guard to a state that `snapshot` returned."""
        if self.guard is not None:
            self.guard.restore(state)
