"""The guard in a driver's own process, between the received commands and the motors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from nodes.guard.command_guard import CommandGuard, Guarded
from nodes.guard.limits import GuardParams
from nodes.guard.node import check_params, event_of, is_pressed
from nodes.messages import Enable, Event, JointCommand, Message, RobotState
from nodes.node import Node

if TYPE_CHECKING:
    from nodes.plan.launch_plan import Plan


def require_driver(cls: type[Node], params: GuardParams, plan: Plan) -> None:
    """Raise ValueError, one line, for a node that cannot have a guard, or for limits that do not fit the robot."""
    if cls.subscribes.get("command") is not JointCommand:
        raise ValueError("the node does not subscribe to 'command': a guard belongs to the driver of a robot")
    if RobotState not in cls.publishes.values():
        raise ValueError("the node publishes no RobotState: a guard needs the measured state")
    if params.max_age_ms and "state" not in cls.subscribes:
        raise ValueError("key 'max_age_ms': the node does not subscribe to 'state', which has the time of commands")
    if params.enable_timeout_ms and Enable not in cls.subscribes.values():
        raise ValueError("key 'enable_timeout_ms': the node does not subscribe to 'enable'; use enable_file")
    check_params(params, plan)


class DriverGuard:
    """Guards the commands to one driver. All times are those of one clock, s.

    events  interventions that were not published yet
    """

    def __init__(self, params: GuardParams, name: str) -> None:
        self._name, self._file = name, params.enable_file
        self._guard = CommandGuard(params)
        self._latest: JointCommand | None = None

    def take(self, command: JointCommand, now: float, age_s: float) -> list[Message]:
        """The commands for the driver in place of a received one. `age_s`: age of the state from which it was computed,
        s."""
        self._latest = command
        return self._commands(self._guard.take(now, command.mode, command.name, command.value, age_s))

    def hear(self, message: Message, now: float) -> None:
        """Process a message that the driver publishes or receives: a measured state, or the enabling switch."""
        if isinstance(message, RobotState):
            self._guard.see(now, message.name, message.position, message.velocity)
        elif isinstance(message, Enable):
            self._guard.enable(now, message.pressed)

    def check(self, now: float) -> list[Message]:
        """The commands for the driver at the time `now` that the guard sends on its own, without a received command."""
        if self._file:
            self._guard.switch(is_pressed(self._file))
        return self._commands(self._guard.check(now))

    def stop(self, now: float, reason: str) -> list[Message]:
        """Begin a controlled stop. Returns its first commands."""
        return self._commands(self._guard.stop(now, "estop", reason))

    def acknowledge(self, now: float) -> None:
        """End a stop. ValueError, one line, while the robot is outside its limits."""
        self._guard.acknowledge(now)

    def reset(self) -> None:
        """Reset the guard, after simulation time was set back."""
        self._guard.reset()

    @property
    def events(self) -> list[Event]:
        """Events of the interventions since the previous call."""
        found = [event_of(each, self._name) for each in self._guard.interventions]
        self._guard.interventions.clear()
        return found

    @property
    def counters(self) -> Mapping[str, int]:
        """Numbers of clamped values and of controlled stops."""
        return {"clamps": self._guard.clamps, "stops": self._guard.stops}

    def snapshot(self) -> dict[str, Any]:
        """State of the guard, for `restore`."""
        return self._guard.snapshot()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a result of `snapshot`."""
        self._guard.restore(state)

    def _commands(self, guarded: Iterable[Guarded]) -> list[Message]:
        latest = self._latest or JointCommand()
        return [msgspec.structs.replace(latest, mode=mode, name=names, value=values) for mode, names, values in guarded]
