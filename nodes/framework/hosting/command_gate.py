"""Passes commands to a driver through the driver's guard, and withholds commands during an emergency stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from nodes.framework.messages import Event, JointCommand, Message, RobotState
from nodes.framework.messages.protocol import NOTHING_STOPPED, RELEASED
from nodes.framework.plan.key_checks import convert
from nodes.framework.plan.launch_plan import NodePlan
from nodes.node import Node

if TYPE_CHECKING:
    from nodes.guard.driver import DriverGuard


COMMAND = "command"


class CommandGate:
    """Filter for the commands to one node.

    The node's guard, if there is one, limits the commands. During an emergency stop, commands are withheld. A driver is
    a node that receives commands and publishes a measured state.

    now    function that returns the time of the guard's clock (s)
    name   "command", the topic of a driver's commands; "" for a node that is not a driver
    guard  the guard, which checks commands against limits; None for a node without a guard
    """

    def __init__(self, node: Node, node_plan: NodePlan, now: Callable[[], float]) -> None:
        is_driver = node.subscribes.get(COMMAND) is JointCommand and RobotState in node.publishes.values()
        self.name = COMMAND if is_driver else ""
        self._now = now
        self._stopped = ""  # reason of an emergency stop
        self._events: list[Event] = []
        self._node = node_plan.local_name
        self.guard: DriverGuard | None = None
        if node_plan.guard is not None:
            from nodes.guard.driver import DriverGuard
            from nodes.guard.limits import GuardParams

            limits = convert(node_plan.guard, GuardParams, f"node {node_plan.name!r}: guard")
            self.guard = DriverGuard(limits, node_plan.local_name)

    def process_message(self, message: Message, age_s: float) -> list[Message]:
        """The messages to deliver to the node in place of a received message.

        age_s  age (s) of the state from which a command was computed
        """
        if self.guard is not None:
            if isinstance(message, JointCommand):
                return self.guard.process_command(message, self._now(), age_s)
            self.guard.process_message(message, self._now())
        return [] if self._stopped and isinstance(message, JointCommand) else [message]

    def measured(self, message: Message) -> None:
        """Pass a message that the node publishes, such as a measured state, to the guard."""
        if self.guard is not None:
            self.guard.process_message(message, self._now())

    def due(self) -> list[Message]:
        """Commands that the guard issues by itself now, such as those of a braking motion."""
        return [] if self.guard is None else self.guard.check(self._now())

    def stop(self, reason: str) -> tuple[str, list[Message]]:
        """Begin an emergency stop. Returns (description of the stop, commands that stop the robot)."""
        if self.guard is not None:
            return "controlled stop", self.guard.stop(self._now(), reason)
        if not self._stopped:
            self._stopped = reason or "emergency stop"
            self._events.append(Event(kind="estop", node=self._node, detail=f"{self._stopped}: commands are held back"))
        return "commands are held back: the node has no guard", []

    def release(self) -> str:
        """End an emergency stop. Returns "released", or a text which says that no stop was in force.

        Raises ValueError with a one-line message if the guard does not permit the release.
        """
        if self.guard is not None:
            return self.guard.acknowledge(self._now())
        if not self._stopped:
            return NOTHING_STOPPED
        self._stopped = ""
        self._events.append(Event(kind="estop_released", node=self._node))
        return RELEASED

    @property
    def emergency(self) -> str:
        """Reason of the emergency stop in force; "" without one."""
        return self._stopped if self.guard is None else self.guard.emergency

    def reset(self) -> None:
        """Reset the guard after simulation time was set back."""
        if self.guard is not None:
            self.guard.reset()

    def events(self) -> Iterator[Event]:
        """Yield the events of guard and emergency stop since the previous call."""
        events, self._events = self._events, []
        yield from events
        if self.guard is not None:
            yield from self.guard.events

    @property
    def counters(self) -> Mapping[str, int]:
        """Counters of the node's guard; {} for a node without a guard."""
        return {} if self.guard is None else self.guard.counters

    def snapshot(self) -> Any:
        """State of the node's guard, for `restore`; None for a node without a guard."""
        return None if self.guard is None else self.guard.snapshot()

    def restore(self, state: Any) -> None:
        """Set the node's guard to a state that `CommandGate.snapshot` returned. Does nothing for a node without a
        guard.
        """
        if self.guard is not None:
            self.guard.restore(state)
