"""Node that commands the actuators by the actions that a program outside of the launch sends to its services.

Each action is valid for a limited time. After that, the node sends no command, so that the watchdog of the simulation,
or the guard or driver of a robot, puts the actuators into their safe mode. An action has no effect if no state has
arrived for its time, or if it waited for so long itself, as when the process of the node did not run.
"""

from __future__ import annotations

import math
import time
from typing import Any

import msgspec

from nodes.framework.messages import JointCommand, Message, RobotState
from nodes.guard.backlog import Backlog
from nodes.node import Context, Node, Outgoing

STALE_MS = 50.0  # age from which a state that waited while the process did not run is not replied to


class ActionPortParams(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Parameters of an ActionPort."""

    most_life_ms: float = 200.0  # longest time for which an action is valid, ms of simulation time

    def __post_init__(self) -> None:
        if not (math.isfinite(self.most_life_ms) and self.most_life_ms > 0.0):
            raise ValueError(f"most_life_ms is {self.most_life_ms}; it must be a number above 0")


class ActionPort(Node):
    """Replies to each state with the command of the latest action, while the action is valid."""

    subscribes = {"state": RobotState}
    publishes = {"command": JointCommand}
    services = {
        "act": "command actuators: mode, name and value of a command, life_ms, after which the action ends; since, the "
        "time at which its life begins, by default now",
        "halt": "end the present action",
        "observe": "the latest state: time, name, position, velocity",
    }
    Params = ActionPortParams
    state_attributes = ("_state", "_action", "_until", "_life_s", "_ended")

    def on_start(self, context: Context) -> Outgoing:
        """Start without an action."""
        self._context = context
        self._state: RobotState | None = None
        self._action: JointCommand | None = None
        self._until: float | None = None  # simulation time at which the present action ends, s
        self._life_s, self._ended = 0.0, 0
        self._backlog = Backlog(STALE_MS)
        self._fresh_at = math.inf  # this computer's clock at the latest state, s; infinite in lockstep
        return None

    def on_reset(self, time: float) -> Outgoing:
        """Begin the life of the present action anew, as time does; in lockstep the reset arrives after the action."""
        self._state = self._until = None
        return None

    @property
    def counters(self) -> dict[str, int]:
        """Number of actions that ended because no other action followed in time."""
        return {"ended_actions": self._ended}

    def on_message(self, name: str, message: Message) -> Outgoing:
        """Send the command of the present action, if it is still valid."""
        if not isinstance(message, RobotState):
            return None
        self._backlog.run()
        if self._backlog.stale_s(message):
            return None
        self._fresh_at = time.monotonic() if message.sent_ns else math.inf
        self._state = message
        action = self._action
        if action is None:
            return None
        if self._until is None:  # the action came before the first state
            self._until = message.timestamp + self._life_s
        if message.timestamp >= self._until - 1e-9:
            self._action = None
            self._ended += 1
            return None
        command = JointCommand(mode=action.mode, name=action.name, value=action.value, state_seq=message.seq)
        return [("command", command)]

    def on_request(self, name: str, args: dict[str, Any]) -> Any:
        """Execute one of the services."""
        if name == "act":
            return self._act(args)
        if name == "halt":
            self._action = None
        elif name != "observe":
            return super().on_request(name, args)
        return self._seen()

    def _act(self, args: dict[str, Any]) -> Any:
        life_ms, since = args.get("life_ms"), args.get("since")
        most = self._context.params.most_life_ms
        if isinstance(life_ms, bool) or not isinstance(life_ms, int | float) or not 0.0 < life_ms <= most:
            raise ValueError(f"act: life_ms is {life_ms!r}; it must be a number above 0, at most {most:g}")
        if since is not None and not (isinstance(since, int | float) and math.isfinite(since)):
            raise ValueError(f"act: since is {since!r}; it must be a time, s")
        try:
            action = msgspec.convert({key: args.get(key) for key in ("mode", "name", "value")}, JointCommand)
        except msgspec.ValidationError as error:
            raise ValueError(f"act: {error}; pass mode, name = [actuators] and value = [numbers]") from None
        if len(action.name) != len(action.value) or not action.name or not all(map(math.isfinite, action.value)):
            raise ValueError(f"act: value is {action.value}; it must be one finite number for each of {action.name}")
        self._life_s = 1e-3 * life_ms
        self._action = action if time.monotonic() - self._fresh_at < self._life_s else None
        begin = since if since is not None or self._state is None else self._state.timestamp
        self._until = None if begin is None else begin + self._life_s
        return self._seen()

    def _seen(self) -> dict[str, Any] | None:
        state = self._state
        if state is None:
            return None
        seen = {"name": state.name, "position": state.position, "velocity": state.velocity}
        return {"time": state.timestamp, "is_active": self._action is not None, **seen}
