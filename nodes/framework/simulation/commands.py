"""Commands to the actuators of one robot: from nodes, from a user, and their end by a watchdog or an emergency stop."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from nodes.framework.messages import Event, JointCommand
from nodes.framework.messages.codec import decode, encode
from nodes.framework.plan.launch_plan import SimPlan
from nodes.framework.simulation.actuation import Actuation
from nodes.framework.simulation.monitoring.command_events import CommandEvents
from nodes.framework.simulation.monitoring.watchdog import fresh_states, too_old
from nodes.framework.simulation.publishing import StatePublisher
from nodes.framework.transport.rejections import RejectionLog
from sim_core.simulation import Simulation

HAND_S = 3.0  # a user's command of actuators ends if it is not renewed for this time, s
MOST_WAITING = 1024  # most commands between two steps


class CommandHandler:
    """Receives the commands to one robot's actuators, and sets the efforts of each time step.

    topic      topic of the commands of nodes
    actuation  the actuators
    emergency  reason of the emergency stop in force; "" if there is no emergency stop. During an emergency stop,
               commands are refused
    granted    nodes outside of the plan that may publish commands
    """

    def __init__(
        self,
        sim: SimPlan,
        simulation: Simulation,
        actuation: Actuation,
        messages: StatePublisher,
        refusals: RejectionLog,
    ) -> None:
        self.topic = f"{sim.robot_name}/command"
        self.actuation = actuation
        self.emergency = ""
        self.granted: list[str] = []
        self.observed = CommandEvents(sim.watchdog_s, sim.safe_mode, actuation.cut)
        self._sim, self._simulation, self._messages, self._refusals = sim, simulation, messages, refusals
        self._within = f"{sim.namespace}/" if sim.namespace else ""  # prefix of the nodes' names; messages leave it out
        self._inbox: deque[tuple[str, JointCommand]] = deque(maxlen=MOST_WAITING)
        self._watchdog_s = sim.watchdog_s
        self._state_s = messages.state_every * sim.step_s
        self._fresh = fresh_states(sim.watchdog_s if sim.mode == "realtime" else None, self._state_s)
        self._hand_until = 0.0  # by time.monotonic(): a user's commands end here, unless they are renewed
        self._restored_seq = 0  # of the latest state of a restored run with other numbers, which its nodes may answer
        self._motion: tuple[Any, Any] | None = None  # of the joints, at the present tick
        self._clock = 0.0  # of the watchdog: simulated seconds, or wall seconds where speed is above 1
        self.set_speed(sim.speed)

    def set_speed(self, speed: float) -> None:
        """Set the speed, in simulated seconds per wall second. It has an effect in mode realtime only."""
        self._speed = speed
        self._clock_step = self._sim.step_s / (max(speed, 1.0) if self._sim.mode == "realtime" else 1.0)

    @property
    def safe(self) -> bool:
        """Whether actuators are in their safe mode, because no commands arrive or after an emergency stop."""
        return bool(self.actuation.safe or self.emergency)

    @property
    def detail(self) -> str:
        """Reason of the safe mode, as one line for the user."""
        if self.emergency:
            return f"{self.emergency}: safe mode {self._sim.safe_mode}, until 'armswing estop --release'"
        return f"no command for {1e3 * (self._watchdog_s or 0.0):g} ms: {self._sim.safe_mode}"

    # -- commands of nodes

    def refuse(self, reason: str) -> None:
        """Count and report an invalid command message."""
        self._refusals.refuse(self.topic, reason)

    def receive(self, source: str, command: JointCommand, timed: bool = True) -> None:
        """Receive a command from a node. The command takes effect in the next time step.

        timed  whether to measure the round-trip time of the command; false for a command that a simulated link delayed
        """
        if timed and command.state_seq is not None:
            self._messages.round_trips.answered(command.state_seq)
        self._inbox.append((source.removeprefix(self._within), command))

    def forget(self, source: str) -> None:
        """Record that a node left, so that other nodes may command its actuators. May be called from any thread."""
        source = source.removeprefix(self._within)
        self.actuation.forget(source)
        if source in self.granted:
            self.granted.remove(source)
        self.observed.gone.append(source)

    def apply(self) -> None:
        """Apply the received commands, check the watchdogs, and set the efforts of this time step."""
        actuation, observed, joints, inbox = self.actuation, self.observed, self.joints, self._inbox
        while inbox:
            source, command = inbox.popleft()
            objection = self.emergency
            if state_seq := command.state_seq:
                objection = self._objection(state_seq) or objection
            if reason := actuation.accept(source, command, joints, self._clock, objection):
                self.refuse(reason)
                self._messages.events(observed.refused(source, reason, self._simulation.time))
            else:
                observed.accepted(source)
        if actuation.by_hand and time.monotonic() > self._hand_until:
            self.give_back()
        if observed.gone or observed.cut:
            self._messages.events(observed.departures(self._simulation.time))
        # no watchdog can trip earlier; most steps skip this
        if self._watchdog_s is not None and self._clock - actuation.commanded_at > self._watchdog_s:
            for source in actuation.watch(joints, self._clock):
                self._messages.events([observed.silent(source, self._simulation.time)])
        actuation.drive(joints)

    def end_step(self) -> None:
        """Record that the simulation advanced by one time step."""
        self._motion = None
        self._clock += self._clock_step

    def joints(self) -> tuple[Any, Any]:
        """(positions, velocities) of the joints at the present tick. They are computed at the first call in a tick."""
        if self._motion is None:
            self._motion = self._simulation.readings.motion()
        return self._motion

    def _objection(self, state_seq: int) -> str:
        """Reason to refuse a command because of the state to which it replies; "" to accept the command.

        state_seq  sequence number of the state to which the command replies
        """
        newest = self._messages.round_trips.seq
        if newest - state_seq > self._fresh:
            limit_s = math.inf if self._watchdog_s is None else self._watchdog_s
            return too_old((newest - state_seq) * self._state_s, limit_s, self._speed)
        if state_seq > max(newest, self._restored_seq):
            return f"replies to state {state_seq}, and the newest state is {newest}; give the seq of a received state"
        return ""

    # -- commands of a user, and of nodes outside of the plan

    def command_by_hand(self, mode: Any, name: Any, value: Any) -> list[str]:
        """Command actuators as a user, in place of the nodes, from the next time step on.

        Returns the names of all actuators that a user commands. Nodes' commands to these actuators have no effect
        until `give_back` is called, or until HAND_S seconds have passed since the last call of this method.

        Raises ValueError with a one-line message for a wrong command, or if the launch does not permit it.
        """
        if self._sim.mode != "realtime":
            raise ValueError(
                f"hand_command: the launch runs in mode {self._sim.mode!r}, but a user can command actuators in "
                "mode 'realtime' only; set mode = \"realtime\" in [sim] of the launch file"
            )
        if self.emergency:
            raise ValueError(
                f"hand_command: the actuators are stopped ({self.emergency}); release the emergency stop first "
                "with the service 'release'"
            )
        try:
            command = msgspec.convert({"mode": mode, "name": name or [], "value": value or []}, JointCommand)
        except msgspec.ValidationError as error:
            raise ValueError(f"hand_command: {error}; pass mode, name = [actuators] and value = [numbers]") from None
        if len(command.name) != len(command.value) or not all(map(math.isfinite, command.value)):
            raise ValueError(
                f"hand_command: the argument 'value' is {command.value}; pass a list with one finite number for each "
                f"entry of the argument 'name', whose length is {len(command.name)}"
            )
        self._hand_until = time.monotonic() + HAND_S
        if command.name and (added := self.actuation.command_by_hand(command, self.joints, self._clock)):
            self._messages.events([Event(kind="hand", detail=f"a user now commands {', '.join(added)}")])
        return sorted(self.actuation.by_hand)

    def give_back(self) -> None:
        """End the user's commands to actuators, so that nodes can command these actuators again."""
        if names := self.actuation.give_back(self.joints):
            self._messages.events([Event(kind="hand_back", detail=f"the user no longer commands {', '.join(names)}")])

    def grant(self, node: str) -> list[str]:
        """Allow a node outside of the plan to publish commands; return the actuators that it may command now.

        Raises ValueError with a one-line message if there are no such actuators.
        """
        if self._sim.mode == "lockstep":
            raise ValueError(
                "in lockstep the simulation accepts commands only from nodes of its launch file; add the node there"
            )
        source = node.removeprefix(self._within)
        try:
            free = self.actuation.free_actuators(source)
        except ValueError as error:
            self.refuse(str(error))
            raise
        if source not in self.granted:
            self.granted.append(source)
            line = f"node {source!r} may now command {', '.join(free)}"
            self._messages.events([Event(kind="take_over", node=source, detail=line)])
        return free

    # -- emergency stop

    def stop(self, reason: str) -> None:
        """Put all actuators into their safe mode now, and refuse commands until `release` is called."""
        if self.emergency:
            return
        self.emergency = reason[:200] or "emergency stop"
        self.give_back()
        self.actuation.make_safe(self.joints)
        self.observed.safe_since = self._simulation.time
        line = f"{self.emergency}: {self._sim.safe_mode}"
        self._messages.events([Event(kind="estop", new=self.emergency, detail=line)])

    def release(self) -> bool:
        """End the emergency stop, so that commands are accepted again. Returns whether there was an emergency stop."""
        if not self.emergency:
            return False
        self.emergency = ""
        self._messages.events([Event(kind="estop_released")])
        return True

    # -- reset, snapshot, restart

    def clear(self, effort: np.ndarray, servos: dict[str, Any] | None) -> None:
        """Discard the commands, after the simulation was reset or restored.

        effort  efforts of the actuators in the new state, N m or N
        servos  state of the servos from a snapshot; None after a reset
        """
        self._motion = None
        self._inbox.clear()
        self.actuation.discard_commands(effort, servos)
        self.observed.clear()

    def to_plain(self) -> dict[str, Any]:
        """State of the commands as plain data, for a snapshot."""
        return {
            "clock": self._clock,
            "actuation": self.actuation.to_plain(),
            "emergency": self.emergency,
            "events": self.observed.to_plain(),
            "inbox": [(source, encode(command)) for source, command in self._inbox],
        }

    def from_plain(self, plain: Mapping[str, Any], restored_seq: int) -> None:
        """Continue from a result of `to_plain`, after `clear`.

        restored_seq  sequence number of the latest state in the snapshot, if the numbers do not continue from it;
                      otherwise 0
        """
        self._clock = plain["clock"]
        self._restored_seq = restored_seq
        self.actuation.from_plain(plain["actuation"])
        self.emergency = plain.get("emergency", "")
        self.observed.from_plain(plain["events"])
        self._inbox.extend((source, decode(self.topic, payload, JointCommand)) for source, payload in plain["inbox"])
