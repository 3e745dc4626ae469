"""The guard in a driver's own process, between the received commands and the motors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from nodes.framework.messages import Enable, Event, JointCommand, Message, RobotState
from nodes.guard.backlog import Backlog
from nodes.guard.command_guard import CommandGuard
from nodes.guard.limits import GuardParams
from nodes.guard.motor_commands import Guarded
from nodes.guard.node import check_params, event_of, switch_state
from nodes.node import Node

if TYPE_CHECKING:
    from nodes.framework.plan.launch_plan import Plan

EMERGENCY = "emergency stop"  # reason of an emergency stop for which none is known


def require_driver(cls: type[Node], params: GuardParams, plan: Plan) -> None:
    """Check that a node is a driver that can have a guard, and that the guard's limits fit the robot.

    Raises ValueError with a one-line message otherwise.
    """
    if cls.subscribes.get("command") is not JointCommand:
        raise ValueError("this node does not subscribe to 'command'; move the guard to the node that drives the robot")
    if RobotState not in cls.publishes.values():
        raise ValueError(
            "the node publishes no RobotState, which a guard needs; move the guard to the driver of the robot"
        )
    if params.max_age_ms and "state" not in cls.subscribes:
        raise ValueError(
            "key 'max_age_ms': the age of commands is unknown, because the node does not subscribe to 'state'; "
            "leave the key out"
        )
    if params.enable_timeout_ms and Enable not in cls.subscribes.values():
        raise ValueError(
            "key 'enable_timeout_ms': the node does not subscribe to 'enable'; use the key 'enable_file' instead"
        )
    check_params(params, plan)


class DriverGuard:
    """Guards the commands to one driver. All times are in seconds of the same clock.

    events  events of interventions that were not published yet
    """

    def __init__(self, params: GuardParams, name: str) -> None:
        self._name, self._file = name, params.enable_file
        self._guard, self._backlog = CommandGuard(params), Backlog(params.longest_wait_ms)
        self._latest: JointCommand | None = None
        self._emergency = ""  # reason of the latest emergency stop

    def process_command(self, command: JointCommand, now: float, age_s: float) -> list[Message]:
        """Return the commands for the driver in place of a received command.

        age_s  age of the state from which the received command was computed (s)
        """
        self._backlog.run()
        if stale_s := self._backlog.stale_s(command):
            self._guard.reject_stale(now, stale_s)
            return []
        self._latest = command
        self._read_switch()
        return self._commands(self._guard.process_command(now, command.mode, command.name, command.value, age_s))

    def process_message(self, message: Message, now: float) -> None:
        """Process a message that the driver publishes or receives.

        The guard uses measured states, and messages of the enabling switch.
        """
        if isinstance(message, RobotState):
            self._guard.add_state(now, message.name, message.position, message.velocity)
        elif isinstance(message, Enable):
            self._guard.enable(now, message.pressed)

    def check(self, now: float) -> list[Message]:
        """Return the commands that the guard itself gives to the driver at the time `now`, such as those of a stop.

        Call this method regularly, also while no commands are received.
        """
        self._backlog.run()
        self._read_switch()
        return self._commands(self._guard.check(now))

    def stop(self, now: float, reason: str) -> list[Message]:
        """Begin a controlled stop. Returns its first commands."""
        self._emergency = reason or EMERGENCY
        return self._commands(self._guard.stop(now, "estop", reason))

    def acknowledge(self, now: float) -> str:
        """End a stop. Returns "released", or a text that says that nothing was stopped.

        Raises ValueError with a one-line message while the robot is outside its limits.
        """
        released = self._guard.acknowledge(now)
        self._emergency = ""
        return released

    @property
    def emergency(self) -> str:
        """Reason of the emergency stop in force; "" without one."""
        if not self._guard.stopped:
            return ""
        return self._emergency or (EMERGENCY if self._guard.stopped == "estop" else "")

    def reset(self) -> None:
        """Reset the guard after simulation time was set back. A stop remains in force."""
        self._guard.reset()

    @property
    def events(self) -> list[Event]:
        """Events of the interventions since this property was last read."""
        found = [event_of(each, self._name) for each in self._guard.interventions]
        self._guard.interventions.clear()
        return found

    @property
    def counters(self) -> Mapping[str, int]:
        """Numbers of clamped values, controlled stops, commands passed on, and, if there were any, stale commands."""
        stale = {"stale": self._backlog.stale} if self._backlog.stale else {}
        return {"clamps": self._guard.clamps, "stops": self._guard.stops, "passed": self._guard.passed} | stale

    def snapshot(self) -> dict[str, Any]:
        """State of the guard, for `restore`."""
        return self._guard.snapshot()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a result of `snapshot`."""
        self._guard.restore(state)

    def _read_switch(self) -> None:
        if self._file:
            self._guard.switch(switch_state(self._file))

    def _commands(self, guarded: Iterable[Guarded]) -> list[Message]:
        latest = self._latest or JointCommand()
        return [msgspec.structs.replace(latest, mode=mode, name=names, value=values) for mode, names, values in guarded]
