"""Adapter around a node: resolves topic names, and stamps, encodes, decodes and checks the node's messages.

It has two callers, the runner (over sockets) and the lockstep scheduler. Both exchange encoded messages with a
HostedNode, so a node receives and publishes the same bytes in one process as over sockets.
"""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec

from nodes.framework.hosting.command_gate import CommandGate
from nodes.framework.hosting.node_state import decode_state, encode_state, keeps_state
from nodes.framework.hosting.outgoing import EncodedMessage, NodePublisher, Out, changes, topic_of
from nodes.framework.hosting.parameters import NodeParameters
from nodes.framework.hosting.reloading import Handover, Loaded, load_anew
from nodes.framework.messages import Event, GuardStops, JointCommand, Message, PeerClock, RobotState, Verdict
from nodes.framework.messages.codec import WireError, decode
from nodes.framework.messages.stamp import MessageStamper
from nodes.framework.messages.topics import resolve
from nodes.framework.plan.launch_plan import NodePlan, Plan
from nodes.guard.stop_log import GuardLog
from nodes.node import Context, Node

RESTARTED = "the process of the guard was restarted"
GUARD_WARNINGS = ("guard_rejected", "guard_stop", "guard_acknowledged")  # kinds of events that are also logged


class HostedNode:
    """One node, with the data that the runner or the lockstep scheduler keeps for it.

    messages           publisher of the node's messages, which knows the simulation time: that of the latest state, or
                       set by the lockstep scheduler
    parameters         the node's parameters
    ticks              number of the next call of `on_tick`
    gate               filter for the commands to the node
    guard_log          record of what the node's guard did
    subscriptions      {topic: (declared name, message type)} of the node's subscriptions; empty if `subscribes_to_all`
                       is true
    subscribes_to_all  whether the node subscribes to all topics

    out           function that is called with each topic and encoded message as soon as the node publishes it
    context_plan  plan that the node sees in its context; None if the node sees `plan`
    now_ns        function that returns the reading of the node's clock, ns since the epoch
    """

    def __init__(
        self,
        node: Node,
        plan: Plan,
        node_plan: NodePlan,
        out: Out,
        wall_clock: bool = True,
        context_plan: Plan | None = None,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.node = node
        self.name = node_plan.name
        self.decimation = node_plan.decimation
        self.robot = plan.robot_of(node_plan.namespace)
        self.lossless = node.lossless
        self.subscribes_to_all = "*" in node.subscribes
        self._within = f"{node_plan.namespace}/" if node_plan.namespace else ""
        topic = partial(topic_of, remap=node_plan.remap, robot=self.robot)
        self.subscriptions = {topic(name): (name, kind) for name, kind in node.subscribes.items() if name != "*"}
        plan = plan.view(node_plan.namespace)
        self._state_topic = resolve("state", self.robot)
        self.ticks = 0
        self.parameters = NodeParameters(self.name, node.Params, node_plan.params)
        self.context = Context(
            name=node_plan.local_name,
            robot=self.robot,
            step_s=plan.sim.step_s,
            params=self.parameters.values,
            random=cast(Any, (plan.seed, zlib.crc32(node_plan.local_name.encode()))),
            plan=plan if context_plan is None else context_plan,
            clock=self.name if node.has_own_clock and wall_clock else "",
        )
        stamper = MessageStamper(wall_clock, now_ns)
        self.messages = NodePublisher(node, node_plan, self.robot, self.context, out, stamper, self._observe)
        in_turns = plan.sim.mode == "lockstep" or (plan.sim.mode == "fast" and node.lossless)
        self.messages.has_time = in_turns or self.subscribes_to(self._state_topic)
        has_states = any(kind is RobotState for _, kind in self.subscriptions.values())
        self.messages.answers = self.subscribes_to(self._state_topic) or not has_states
        self._has_watchdog = plan.sim.watchdog_s is not None
        self._planned = dict(node_plan.params)
        self._latest: dict[str, tuple[str, Message]] = {}  # {topic: (declared name, message)}
        self._handover: Handover | None = None
        self.gate = CommandGate(node, node_plan, (lambda: self.messages.time) if not wall_clock else time.monotonic)
        self.guard_log = GuardLog()

    def load_anew(self, file: Path, content: bytes | None = None) -> Loaded:
        """Create a node from an edited file, for `replace_node`.

        Called on another thread. Raises the exceptions that the code of the file raises.

        content  content of the file; None to read it
        """
        own = {resolve(name, self.robot) for name in ("command", "raw_command")}
        commands = {
            name for name, (topic, kind) in self.messages.publishes.items() if kind is JointCommand and topic in own
        }
        return load_anew(file, self.node, self.context, self._planned, dict(self._latest), commands, content)

    @property
    def is_being_replaced(self) -> bool:
        """Whether the commands still change from those of one node to those of another."""
        return self._handover is not None

    def replace_node(self, loaded: Loaded, settled: Callable[[BaseException | None], None]) -> str:
        """Replace the running node by a loaded one, from the next message on.

        settled  function that is called once the replacement has ended: with None if only the new node's commands act,
                 or with the exception of the new node if it failed
        Returns a note on parameters that the new node no longer has; "" if it has all of them.
        Raises ValueError while `is_being_replaced` is true.
        """
        if self.is_being_replaced:
            raise ValueError("the node is still being replaced by that of the previous edit")
        if keeps_state(type(self.node)) and keeps_state(type(loaded.node)):
            state = encode_state(self.node.snapshot(), type(self.node).__module__)
            loaded.node.restore(decode_state(state, type(loaded.node).__module__))

        def done(node: Node, context: Context, failure: BaseException | None) -> None:
            self.node, self.context, self.parameters.values = node, context, context.params
            self.messages.context = context
            self._handover = None
            settled(failure)

        left = partial(self._warn_left, loaded.file)
        self._handover = Handover(
            (self.node, self.context), loaded, self.messages.time, self.messages.publish, done, left
        )
        return f"; the edited class no longer has the parameter {', '.join(loaded.dropped)}" if loaded.dropped else ""

    def _warn_left(self, file: str, names: list[str], commands_others: bool) -> None:
        """Warn of actuators that the edited file no longer commands.

        commands_others  whether it still commands other actuators, so that no watchdog acts
        """
        which = f"actuator {names[0]!r}" if len(names) == 1 else f"the actuators {', '.join(map(repr, names))}"
        ends = " until the watchdog acts" if self._has_watchdog and not commands_others else ""
        line = f"the edited {file} no longer commands {which}; the last command stays in force{ends}"
        self.context.warn(line)
        self.publish_event("reload", line)

    def start(self) -> None:
        """Call the node's `on_start` and publish the messages that it returns."""
        self.messages.publish(self.node.on_start(self.context))

    def receive(self, topic: str, message: Message, lost: int = 0) -> None:
        """Pass a received message to the node. A state that is earlier than the latest state resets the node.

        lost  number of messages of the same publisher and topic that were lost before this message
        """
        if lost:
            self.lose(topic, lost)
        if topic == self._state_topic and isinstance(message, RobotState):
            if message.timestamp < self.messages.time:
                self.reset(message.timestamp)
            self.messages.time = message.timestamp
        self.deliver(topic, message)

    def lose(self, topic: str, count: int) -> None:
        """Tell the node that `count` messages of a topic were lost."""
        known = self.subscriptions.get(topic)
        self.node.on_lost(topic if known is None else known[0], count)

    def tick(self, now: float) -> None:
        """Call the node's `on_tick` with the time `now` (s), and publish the messages that it returns."""
        if self._handover is not None:
            self._handover.call("on_tick", now, now=self.messages.time)
        else:
            self.messages.publish(self.node.on_tick(now))
        self._give_due()

    def emergency_stop(self, reason: str) -> str:
        """Stop the robot that the node drives. Returns a description of the stop.

        Raises ValueError for a node that is not a driver.
        """
        if not self.gate.name:
            raise ValueError(f"node {self.name!r} drives no robot; send an emergency stop to a driver")
        how, commands = self.gate.stop(reason)
        self._give(commands)
        return how

    def stop_after_restart(self) -> None:
        """Stop the robot after a restart of the node's process, if the node has a guard.

        The guard's state was lost with the earlier process. A stop that was in force when that process ended therefore
        lasts until a release. The robot of a node without a guard is not stopped.
        """
        if self.gate.guard is not None:
            self._give(self.gate.stop(RESTARTED)[1])
        elif "raw_command" in self.node.subscribes and "estop" in self.node.services:
            self.request("estop", {"reason": RESTARTED})

    def release(self) -> str:
        """End an emergency stop. Returns "released", or a text which says that no stop was in force.

        Raises ValueError with a one-line message if the guard does not permit the release.
        """
        how = self.gate.release()
        self._give([])
        return how

    def request(self, name: str, args: dict[str, Any]) -> Any:
        """The node's response to a service request. Raises ValueError with a one-line message if the node refuses the
        request.
        """
        response = self.node.on_request(name, args)
        self.messages.publish(None)
        return response

    def receive_clock(self, reading: PeerClock) -> None:
        """Pass to the node the result of a round trip to another node's clock."""
        self.messages.publish(self.node.on_clock(reading))

    def reset(self, time: float) -> None:
        """Tell the node that simulation time was set back to `time` (s)."""
        before, self.messages.time = self.messages.time, time
        if self.messages.has_time:
            self.guard_log.reset(before, time)
        self.ticks = 0 if self.node.rate_hz is None else math.ceil(time * self.node.rate_hz - 1e-6)
        self.gate.reset()
        self.messages.publish(self.node.on_reset(time))

    def turn(self, time: float, incoming: Iterable[EncodedMessage]) -> None:
        """Run the node for one lockstep step at simulation time `time` (s).

        Delivers the messages `incoming`, then calls `on_tick` if a tick is due.
        """
        if time < self.messages.time:
            self.reset(time)
        self.messages.time = time
        for topic, payload in incoming:
            if not self.subscribes_to(topic):
                continue
            known = self.subscriptions.get(topic)
            try:
                message = decode(topic, payload, None if known is None else known[1])
            except WireError as error:
                self.messages.refusals.refuse(topic, error.reason)
                continue
            self.deliver(topic, message)
        rate = self.node.rate_hz
        if rate is not None and time * rate >= self.ticks - 1e-6:
            self.ticks = math.floor(time * rate + 1e-6) + 1
            self.tick(time)

    def subscribes_to(self, topic: str) -> bool:
        """Whether the node subscribes to a topic.

        A node that subscribes to "*" receives the topics of its namespace and the topics that belong to no robot.
        """
        return topic in self.subscriptions or (
            self.subscribes_to_all and (topic.startswith(self._within) or "/" not in topic)
        )

    @property
    def subscribes(self) -> list[str]:
        """Full names of the topics that the node subscribes to. "left/*" stands for all topics of the namespace
        "left".
        """
        return [f"{self._within}*"] if self.subscribes_to_all else list(self.subscriptions)

    @property
    def verdict(self) -> Verdict | None:
        """The node's verdict on the run; None for a node that does not judge the run.

        Raises TypeError if the node's verdict has another type.
        """
        verdict: object = self.node.verdict
        if verdict is not None and not isinstance(verdict, Verdict):
            kind = type(verdict).__name__
            raise TypeError(
                f"the verdict of node {self.name!r} is a {kind}; "
                'it must be None or a Verdict of nodes.framework.messages, such as Verdict("passed", "why")'
            )
        return verdict

    @property
    def guard_stops(self) -> GuardStops | None:
        """Stops of the robot by the node until now: controlled stops by its guard, or emergency stops.

        None if there was no stop.
        """
        return self.guard_log.measure(self.stop_clock, self.passed)

    @property
    def limited(self) -> str:
        """One line about the latest command that the node's guard changed or did not pass on; "" if there was no such
        command.
        """
        return self.guard_log.latest

    @property
    def passed(self) -> int | None:
        """Number of commands that the node's guard passed on; None for a node without this counter."""
        return {**self.node.counters, **self.gate.counters}.get("passed")

    @property
    def stop_clock(self) -> float:
        """Time (s) of the clock that measures how long the robot is stopped: simulation time, if the node knows it."""
        return self.messages.time if self.messages.has_time else time.monotonic()

    def _observe(self, message: Message) -> None:
        """Pass a message that the node publishes to its guard and to the record of the guard."""
        self.gate.measured(message)
        if isinstance(message, Event):
            time = self.messages.time if self.messages.has_time else None
            self.guard_log.add(message, self.stop_clock, time, self.passed)

    def set_parameters(self, changed_values: dict[str, Any]) -> None:
        """Change some parameters, after `NodeParameters.require_fitting` has accepted them.

        Raises ValueError with a one-line message for values that the node refuses.
        """
        before, params = self.parameters.values, self.parameters.changed(changed_values)
        self.parameters.values = self.context.params = params
        try:
            self.messages.publish(self.node.on_parameters(params))
        except ValueError:
            self.parameters.values = self.context.params = before  # refused: restore the parameters
            raise
        for event in changes(self.context.name, msgspec.to_builtins(before), self.parameters.plain()):
            self.messages.event(event)

    def publish_event(self, kind: str, detail: str) -> None:
        """Publish an event about the node."""
        self.messages.event(Event(kind=kind, node=self.context.name, detail=detail))

    def stop(self) -> None:
        """Call the node's `on_stop` and publish its last messages."""
        self.messages.publish(self.node.on_stop())

    def take_log(self) -> list[tuple[str, str]]:
        """Return (level, line) of the node's warnings and information lines since the previous call."""
        taken = list(self.context.log)
        self.context.log.clear()
        return taken

    def deliver(self, topic: str, message: Message) -> None:
        """Pass a message to the node, through the guard of a driver."""
        known = self.subscriptions.get(topic)
        name = topic if known is None else known[0]
        self._latest[topic] = name, message
        if not self.gate.name:
            self._hand_over(name, message)
            return
        for each in self.gate.process_message(message, self.messages.time - message.timestamp):
            self._hand_over(name, each)
        self._give_due()

    def _give_due(self) -> None:
        """Deliver the commands that the guard issues by itself, such as those of a braking motion."""
        if self.gate.name:
            self._give(self.gate.due())

    def _give(self, commands: Iterable[Message]) -> None:
        """Deliver commands of the node's guard to the node, and publish the guard's events."""
        for command in commands:
            self._hand_over(self.gate.name, command)
        for event in self.gate.events():
            if event.kind in GUARD_WARNINGS:
                self.context.warn(f"t = {self.messages.time:.3f} s: {event.detail}")
            self.messages.event(event)

    def _hand_over(self, name: str, message: Message) -> None:
        if self._handover is not None:
            self._handover.call("on_message", name, message, now=self.messages.time)
            return
        answer = self.node.on_message(name, message)
        if answer is not None or self.context.plotted:
            self.messages.publish(answer)
