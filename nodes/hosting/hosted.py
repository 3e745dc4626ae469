"""Adapter around a node: resolves topic names, and stamps, encodes, decodes and checks the node's messages.

It has two callers, the runner (over sockets) and the lockstep scheduler. Both exchange encoded messages with a
HostedNode, so a node receives and publishes the same bytes in one process as over sockets.
"""

from __future__ import annotations

import math
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, cast, get_type_hints

import msgspec

from nodes.guard.stop_log import GuardLog
from nodes.hosting.command_gate import CommandGate
from nodes.hosting.node_state import decode_state, encode_state
from nodes.hosting.reloading import Handover, Loaded, load_anew
from nodes.messages import Event, GuardStops, JointCommand, Message, PeerClock, RobotState, Verdict
from nodes.messages.codec import WireError, decode, encode
from nodes.messages.plotting import PlottedValues
from nodes.messages.stamp import MessageStamper, is_stamped
from nodes.messages.topics import node_topic, resolve
from nodes.node import Context, Node, Outgoing
from nodes.plan.key_checks import PlanError, convert
from nodes.plan.launch_plan import NodePlan, Plan
from nodes.transport.rejections import RejectionLog
from sim_core.tables import ranges_of

EncodedMessage = tuple[str, bytes]  # (full topic name, encoded message)
Out = Callable[[str, bytes], None]
RESTARTED = "the process of the guard was restarted"
GUARD_WARNINGS = ("guard_rejected", "guard_stop", "guard_acknowledged")  # kinds of events that are also logged


class NodeState(msgspec.Struct, kw_only=True):
    """Saved state of a node between two lockstep steps, with the data that its `HostedNode` keeps for it.

    code    checksum of the source of the node's class, see `code_of`
    params  the node's parameters
    time    simulation time (s)
    ticks   number of the next call of `on_tick`
    stamps  {topic: sequence number of the latest message that the node published on this topic}
    random  encoded state of the generator `context.random`; an encoded None if the generator was not used
    node    encoded result of `Node.snapshot`; None for a node without state
    guard   encoded state of the node's guard; None for a node without a guard
    guard_log  what the node's guard did so far, see `GuardLog.snapshot`; None if it did nothing
    """

    code: str
    params: dict[str, Any]
    time: float
    ticks: int
    stamps: dict[str, int]
    random: bytes
    node: bytes | None
    guard: bytes | None = None
    guard_log: dict[str, Any] | None = None


_state_encoder = msgspec.msgpack.Encoder()
_state_decoder = msgspec.msgpack.Decoder(NodeState)


def read_node_state(saved: bytes) -> NodeState:
    """The node state that `HostedNode.snapshot` encoded. Raises ValueError with a one-line message for other bytes."""
    try:
        return _state_decoder.decode(saved)
    except msgspec.MsgspecError as error:
        raise ValueError(
            f"the saved bytes do not contain the state of a node: {error}; use a snapshot of the same node"
        ) from None


class HostedNode:
    """One node, with the data that the runner or the lockstep scheduler keeps for it.

    out                function that is called with each topic and encoded message as soon as the node publishes it
    context_plan       plan that the node sees in its context; None if the node sees `plan`
    now_ns             function that returns the reading of the node's clock, ns since the epoch
    time               simulation time (s): that of the latest state, or set by the lockstep scheduler
    subscriptions      {topic: (declared name, message type)} of the node's subscriptions; empty if `subscribes_to_all`
                       is true
    subscribes_to_all  whether the node subscribes to all topics
    refusals           log of refused messages: invalid messages and plotted values that the node published, and invalid
                       messages that it received
    plot_topic         topic of the values that the node plots
    announce           function that is called with `plot_topic` before the first message on this topic
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
        self.out = out
        self.name = node_plan.name
        self.decimation = node_plan.decimation
        self.robot = plan.robot_of(node_plan.namespace)
        self.lossless = node.lossless
        self.subscribes_to_all = "*" in node.subscribes
        self._within = f"{node_plan.namespace}/" if node_plan.namespace else ""
        topic = partial(topic_of, remap=node_plan.remap, robot=self.robot)
        self.subscriptions = {topic(name): (name, kind) for name, kind in node.subscribes.items() if name != "*"}
        self.publishes = {name: (topic(name), kind) for name, kind in node.publishes.items()}
        plan = plan.view(node_plan.namespace)
        self.time = 0.0
        self._state_topic = resolve("state", self.robot)
        self.refusals = RejectionLog(self.name)
        self._stamper = MessageStamper(wall_clock, now_ns)
        self._ticks = 0
        self.plot_topic = node_topic("plot", self.robot, node_plan.local_name)
        self.announce: Callable[[str], None] = lambda topic: None
        self._params = convert(node_plan.params, node.Params, f"node {self.name!r}: params")
        self.context = Context(
            name=node_plan.local_name,
            robot=self.robot,
            step_s=plan.sim.step_s,
            params=self._params,
            random=cast(Any, (plan.seed, zlib.crc32(node_plan.local_name.encode()))),
            plan=plan if context_plan is None else context_plan,
            clock=self.name if node.has_own_clock and wall_clock else "",
        )
        self.context.plotted = PlottedValues(partial(self.refusals.refuse, self.plot_topic), self.context.warn)
        self._has_plotted = False
        in_turns = plan.sim.mode == "lockstep" or (plan.sim.mode == "fast" and node.lossless)
        self._has_simulation_time = in_turns or self.subscribes_to(self._state_topic)

        self._has_watchdog = plan.sim.watchdog_s is not None
        self._planned = dict(node_plan.params)
        self._latest: dict[str, tuple[str, Message]] = {}  # {topic: (declared name, message)}
        self._handover: Handover | None = None
        self.gate = CommandGate(node, node_plan, (lambda: self.time) if not wall_clock else time.monotonic)
        self._guard_log = GuardLog()

    def load_anew(self, file: Path, content: bytes | None = None) -> Loaded:
        """Create a node from an edited file, for `replace_node`.

        Called on another thread. Raises the exceptions that the code of the file raises.

        content  content of the file; None to read it
        """
        own = {resolve(name, self.robot) for name in ("command", "raw_command")}
        commands = {name for name, (topic, kind) in self.publishes.items() if kind is JointCommand and topic in own}
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
            self.node, self.context, self._params = node, context, context.params
            self._handover = None
            settled(failure)

        left = partial(self._warn_left, loaded.file)
        self._handover = Handover((self.node, self.context), loaded, self.time, self._publish_all, done, left)
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
        self._publish_all(self.node.on_start(self.context))

    def receive(self, topic: str, message: Message, lost: int = 0) -> None:
        """Pass a received message to the node. A state that is earlier than the latest state resets the node.

        lost  number of messages of the same publisher and topic that were lost before this message
        """
        if lost:
            self.lose(topic, lost)
        if topic == self._state_topic and isinstance(message, RobotState):
            if message.timestamp < self.time:
                self.reset(message.timestamp)
            self.time = message.timestamp
        self._deliver(topic, message)

    def lose(self, topic: str, count: int) -> None:
        """Tell the node that `count` messages of a topic were lost."""
        known = self.subscriptions.get(topic)
        self.node.on_lost(topic if known is None else known[0], count)

    def tick(self, now: float) -> None:
        """Call the node's `on_tick` with the time `now` (s), and publish the messages that it returns."""
        if self._handover is not None:
            self._handover.call("on_tick", now, now=self.time)
        else:
            self._publish_all(self.node.on_tick(now))
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
        self._publish_all(None)
        return response

    def receive_clock(self, reading: PeerClock) -> None:
        """Pass to the node the result of a round trip to another node's clock."""
        self._publish_all(self.node.on_clock(reading))

    def reset(self, time: float) -> None:
        """Tell the node that simulation time was set back to `time` (s)."""
        before, self.time = self.time, time
        if self._has_simulation_time:
            self._guard_log.reset(before, time)
        self._ticks = 0 if self.node.rate_hz is None else math.ceil(time * self.node.rate_hz - 1e-6)
        self.gate.reset()
        self._publish_all(self.node.on_reset(time))

    def turn(self, time: float, incoming: Iterable[EncodedMessage]) -> None:
        """Run the node for one lockstep step at simulation time `time` (s).

        Delivers the messages `incoming`, then calls `on_tick` if a tick is due.
        """
        if time < self.time:
            self.reset(time)
        self.time = time
        for topic, payload in incoming:
            if not self.subscribes_to(topic):
                continue
            known = self.subscriptions.get(topic)
            try:
                message = decode(topic, payload, None if known is None else known[1])
            except WireError as error:
                self.refusals.refuse(topic, error.reason)
                continue
            self._deliver(topic, message)
        rate = self.node.rate_hz
        if rate is not None and time * rate >= self._ticks - 1e-6:
            self._ticks = math.floor(time * rate + 1e-6) + 1
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
                'it must be None or a Verdict of nodes.messages, such as Verdict("passed", "why")'
            )
        return verdict

    @property
    def emergency(self) -> str:
        """Reason of the emergency stop in force; "" without one."""
        return self.gate.emergency

    @property
    def guard_stops(self) -> GuardStops | None:
        """Stops of the robot by the node until now: controlled stops by its guard, or emergency stops.

        None if there was no stop.
        """
        return self._guard_log.measure(self._stop_clock, self._passed)

    @property
    def limited(self) -> str:
        """One line about the latest command that the node's guard changed or did not pass on; "" if there was no such
        command.
        """
        return self._guard_log.latest

    @property
    def _passed(self) -> int | None:
        """Number of commands that the node's guard passed on; None for a node without this counter."""
        return {**self.node.counters, **self.gate.counters}.get("passed")

    @property
    def _stop_clock(self) -> float:
        """Time (s) of the clock that measures how long the robot is stopped: simulation time, if the node knows it."""
        return self.time if self._has_simulation_time else time.monotonic()

    def _note_guard(self, event: Event) -> None:
        self._guard_log.add(event, self._stop_clock, self.time if self._has_simulation_time else None, self._passed)

    def parameters(self) -> dict[str, Any]:
        """The node's parameters as built-in Python types."""
        plain: dict[str, Any] = msgspec.to_builtins(self._params)
        return plain

    def parameter_limits(self) -> dict[str, dict[str, Any]]:
        """{parameter: {"unit": text, "low": limit, "high": limit}}; both limits are inclusive, and None means no
        limit.
        """
        found = {}
        for name, kind in get_type_hints(self.node.Params, include_extras=True).items():
            limits = next(ranges_of(kind), None)
            found[name] = {
                "unit": limits.unit if limits else "",
                "low": limits.low if limits else None,
                "high": limits.high if limits else None,
            }
        return found

    def require_fitting(self, changed_values: dict[str, Any]) -> None:
        """Raise ValueError with a one-line message for changed parameters that a launch would refuse.

        May be called from any thread.
        """
        params = self._changed(changed_values)
        plan, plain = self.context.plan, msgspec.to_builtins(params)
        if plan is None or not self.robot:
            return  # no plan to check against
        replace = msgspec.structs.replace
        nodes = [replace(node, params=plain) if node.name == self.context.name else node for node in plan.nodes]
        try:
            type(self.node).check(params, replace(plan, nodes=nodes))
        except ValueError as error:
            raise ValueError(f"node {self.name!r}: params: {error}") from None

    def _changed(self, changed_values: dict[str, Any]) -> Any:
        try:
            return convert({**self.parameters(), **changed_values}, type(self._params), f"node {self.name!r}: params")
        except PlanError as error:
            raise ValueError(str(error)) from None

    def set_parameters(self, changed_values: dict[str, Any]) -> None:
        """Change some parameters, after `require_fitting` has accepted them.

        Raises ValueError with a one-line message for values that the node refuses.
        """
        before, params = self._params, self._changed(changed_values)
        self._params = self.context.params = params
        try:
            self._publish_all(self.node.on_parameters(params))
        except ValueError:
            self._params = self.context.params = before  # refused: restore the parameters
            raise
        for event in changes(self.context.name, msgspec.to_builtins(before), self.parameters()):
            self._publish_event(event)

    def publish_event(self, kind: str, detail: str) -> None:
        """Publish an event about the node."""
        self._publish_event(Event(kind=kind, node=self.context.name, detail=detail))

    def _publish_event(self, event: Event) -> None:
        if not self.robot:  # a node of no robot has no topic for events
            return
        event.timestamp = self.time
        self._note_guard(event)
        topic = f"{self.robot}/event"
        self._stamper.stamp(topic, event)
        self.out(topic, encode(event, topic))

    def snapshot(self) -> bytes:
        """The encoded `NodeState` of the node after a lockstep step, for `restore`."""
        node, context = self.node, self.context
        home, keeps = type(node).__module__, keeps_state(type(node))
        made = context.random.bit_generator.state if "random" in vars(context) else None
        return _state_encoder.encode(
            NodeState(
                code=code_of(type(node)),
                params=self.parameters(),
                time=self.time,
                ticks=self._ticks,
                stamps=self._stamper.last,
                random=encode_state(made),
                node=encode_state(node.snapshot(), home) if keeps else None,
                guard=None if self.gate.guard is None else encode_state(self.gate.snapshot()),
                guard_log=None if self.guard_stops is None and not self.limited else self._guard_log.snapshot(),
            )
        )

    def restore(self, saved: bytes, latched: Iterable[EncodedMessage], stamps: bool = True) -> None:
        """Continue from a result of `snapshot`. Messages that the node publishes during this call are discarded.

        latched  messages that the node received before the snapshot and that nobody will send again
        stamps   whether the sequence numbers of published messages continue from those in the snapshot
        """
        found = read_node_state(saved)
        out, self.out = self.out, _dropped
        try:
            for topic, payload in latched:
                if (known := self.subscriptions.get(topic)) is not None:
                    self._deliver(topic, decode(topic, payload, known[1]))
            if found.params != self.parameters():  # set while the run was recorded
                self._params = self.context.params = self._changed(found.params)
                self._publish_all(self.node.on_parameters(self._params))
        finally:
            self.out = out
        if (made := decode_state(found.random)) is not None:
            self.context.random.bit_generator.state = made
        if found.node is not None:
            self.node.restore(decode_state(found.node, type(self.node).__module__))
        if found.guard is not None:
            self.gate.restore(decode_state(found.guard))
        self.time, self._ticks = found.time, found.ticks
        self._guard_log = GuardLog()
        if found.guard_log is not None:
            self._guard_log.restore(found.guard_log, self._stop_clock, self._passed)
        if stamps:
            self._stamper.resume(found.stamps)

    def stop(self) -> None:
        """Call the node's `on_stop` and publish its last messages."""
        self._publish_all(self.node.on_stop())

    def take_log(self) -> list[tuple[str, str]]:
        """Return (level, line) of the node's warnings and information lines since the previous call."""
        taken = list(self.context.log)
        self.context.log.clear()
        return taken

    def _deliver(self, topic: str, message: Message) -> None:
        known = self.subscriptions.get(topic)
        name = topic if known is None else known[0]
        self._latest[topic] = name, message
        if not self.gate.name:
            self._hand_over(name, message)
            return
        for each in self.gate.process_message(message, self.time - message.timestamp):
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
                self.context.warn(f"t = {self.time:.3f} s: {event.detail}")
            self._publish_event(event)

    def _hand_over(self, name: str, message: Message) -> None:
        if self._handover is not None:
            self._handover.call("on_message", name, message, now=self.time)
            return
        answer = self.node.on_message(name, message)
        if answer is not None or self.context.plotted:
            self._publish_all(answer)

    def _publish_all(self, outgoing: Outgoing) -> None:
        """Publish the messages of one call of the node, then the values that it plotted in this call."""
        if outgoing is not None:
            self._publish_each(outgoing)
        if self.context.plotted:
            self._publish_plotted()

    def _publish_plotted(self) -> None:
        if not self._has_plotted:
            self._has_plotted = True
            self.announce(self.plot_topic)
            if not self._has_simulation_time:
                self.context.warn(
                    "the node plots all values at t = 0 s, because it does not know simulation time; "
                    "subscribe to 'state'"
                )
        message = self.context.plotted.take()
        message.timestamp = self.time
        self._stamper.stamp(self.plot_topic, message)
        self.out(self.plot_topic, encode(message, self.plot_topic))

    def _publish_each(self, outgoing: Iterable[tuple[str, Message]]) -> None:
        if isinstance(outgoing, Message) or not isinstance(outgoing, Iterable):
            raise TypeError(self._bad_return(outgoing))
        for item in outgoing:
            if not isinstance(item, tuple) or len(item) != 2:
                raise TypeError(self._bad_return(item))
            name, message = item
            entry = self.publishes.get(name)
            if entry is None or not isinstance(message, entry[1]):
                raise TypeError(self._bad_publication(name, message))
            topic = entry[0]
            self.gate.measured(message)
            if isinstance(message, Event):
                self._note_guard(message)
            # a message without a timestamp gets the present time; restored later, as the node may reuse it
            stamp = message.timestamp
            if not is_stamped(message):
                message.timestamp = self.time
            self._stamper.stamp(topic, message)
            try:
                self.out(topic, encode(message, topic))
            except WireError as error:
                self._stamper.take_back(topic)
                self.refusals.refuse(topic, error.reason)
            except TypeError as error:
                raise TypeError(f"node {self.name!r} published {name!r} with a field of wrong type: {error}") from None
            message.timestamp = stamp

    def _bad_return(self, what: object) -> str:
        kind = type(what).__name__
        return (
            f'node {self.name!r} returned or yielded a {kind}; write `yield "name", message` with a name of `publishes`'
        )

    def _bad_publication(self, name: str, message: object) -> str:
        table = {key: kind.__name__ for key, (_, kind) in self.publishes.items()}
        return f"node {self.name!r} published {name!r} with a {type(message).__name__}, but its `publishes` is {table}"


def keeps_state(cls: type[Node]) -> bool:
    """Whether snapshots contain the state of nodes of this class.

    They do if the class overrides `snapshot` or lists attributes in `state_attributes`.
    """
    return bool(cls.state_attributes) or cls.snapshot is not Node.snapshot


def code_of(cls: type[Node]) -> str:
    """CRC-32 of the source files of a node's class.

    The source files are those of the class and its base classes, and the modules in the same folders that these files
    import.
    """
    return _code_of(tuple(base.__module__ for base in cls.__mro__ if base not in (Node, object)))


@cache
def _code_of(modules: tuple[str, ...]) -> str:
    found: dict[str, bytes] = {}
    left = [sys.modules.get(name) for name in modules]
    while left:
        module = left.pop()
        file = getattr(module, "__file__", None)
        if file is None or file in found or not os.path.isfile(file):
            continue
        found[file] = Path(file).read_bytes()
        names = {getattr(value, "__module__", None) for value in vars(module).values()}
        used = [value for value in vars(module).values() if isinstance(value, ModuleType)]
        used += [sys.modules[name] for name in names if isinstance(name, str) and name in sys.modules]
        folder = os.path.dirname(file)
        left += [each for each in used if os.path.dirname(getattr(each, "__file__", None) or "") == folder]
    crc = 0
    for name, code in sorted((os.path.basename(file), code) for file, code in found.items()):
        crc = zlib.crc32(code, zlib.crc32(name.encode(), crc))
    return f"{crc:08x}"


def _dropped(_topic: str, _payload: bytes) -> None:
    """Discard a message. Serves as `out` of a node whose messages are not published."""


def topic_of(name: str, remap: Mapping[str, str], robot: str) -> str:
    """Full name of the topic that a node declares as `name`, after the remapping `remap` of the node in the plan."""
    return resolve(remap.get(name, name), robot)


def changes(node: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Event]:
    """Events about changed parameters of a node: one for each parameter whose value differs between `before` and
    `after`."""
    for key, new in after.items():
        if before.get(key) != new:
            old, now = (msgspec.json.encode(value).decode() for value in (before.get(key), new))
            yield Event(kind="set", node=node, key=key, old=old, new=now)
