"""Runs a node on behalf of a host: resolves topic names; stamps, encodes, decodes and checks its messages.

Both the socket runner and the lockstep scheduler use it and exchange encoded messages with it, so a node receives and
publishes the same bytes in one process as over sockets.
"""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

import msgspec

from nodes.messages import Event, Message, PeerClock, RobotState, Verdict
from nodes.messages.codec import WireError, decode, encode
from nodes.messages.stamp import MessageStamper, is_stamped
from nodes.messages.topics import resolve
from nodes.node import Context, Node, Outgoing
from nodes.plan.launch_plan import NodePlan, Plan
from nodes.plan.tables import PlanError, convert
from nodes.transport.rejections import RejectionLog

EncodedMessage = tuple[str, bytes]  # (full topic name, encoded message)
Out = Callable[[str, bytes], None]


class HostedNode:
    """One node with the data that its host keeps for it.

    out           called with each (topic, encoded message) at once when the node publishes it
    context_plan  the plan for the node's context; None for `plan`
    now_ns        the node's clock, in nanoseconds since the epoch
    time          simulation time, s, of the latest state, or as set by the scheduler
    hears         {topic: (declared name, message type)} of its subscriptions; empty with hears_all
    hears_all     whether it subscribes to all topics
    refusals      counts invalid messages that it published or received
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
        self.robot = plan.sim.robot_name
        self.lossless = node.lossless
        self.hears_all = "*" in node.subscribes
        self.hears = {resolve(name, self.robot): (name, kind) for name, kind in node.subscribes.items() if name != "*"}
        self.publishes = {name: (resolve(name, self.robot), kind) for name, kind in node.publishes.items()}
        self.time = 0.0
        self._state_topic = resolve("state", self.robot)
        self.refusals = RejectionLog(self.name)
        self._stamper = MessageStamper(wall_clock, now_ns)
        self._ticks = 0
        self._params = convert(node_plan.params, node.Params, f"node {self.name!r}: params")
        self.context = Context(
            name=self.name,
            robot=self.robot,
            step_s=plan.sim.step_s,
            params=self._params,
            random=cast(Any, (plan.seed, zlib.crc32(self.name.encode()))),
            plan=plan if context_plan is None else context_plan,
            clock=self.name if node.has_own_clock and wall_clock else "",
        )

    def start(self) -> None:
        """Start the node."""
        self._publish_all(self.node.on_start(self.context))

    def receive(self, topic: str, message: Message) -> None:
        """Pass a received message to the node. A state older than the last one means a reset of simulation time."""
        if topic == self._state_topic and isinstance(message, RobotState):
            if message.timestamp < self.time:
                self.reset(message.timestamp)
            self.time = message.timestamp
        self._deliver(topic, message)

    def tick(self, now: float) -> None:
        """Call the node's tick with the time `now`, s."""
        self._publish_all(self.node.on_tick(now))

    def receive_clock(self, reading: PeerClock) -> None:
        """Pass a round trip to another node's clock to the node."""
        self._publish_all(self.node.on_clock(reading))

    def reset(self, time: float) -> None:
        """Report to the node that simulation time was set back to `time`, s."""
        self.time = time
        self._ticks = 0 if self.node.rate_hz is None else math.ceil(time * self.node.rate_hz - 1e-6)
        self._publish_all(self.node.on_reset(time))

    def turn(self, time: float, incoming: Iterable[EncodedMessage]) -> None:
        """One lockstep turn at simulation time `time`, s: all due messages, then a tick if one is due."""
        if time < self.time:
            self.reset(time)
        self.time = time
        for topic, payload in incoming:
            known = self.hears.get(topic)
            if known is None and not self.hears_all:
                continue
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

    def wants(self, topic: str) -> bool:
        """Whether the node subscribes to a topic."""
        return self.hears_all or topic in self.hears

    @property
    def verdict(self) -> Verdict | None:
        """The node's verdict on the run, None for none. TypeError where it is of another type."""
        verdict: object = self.node.verdict
        if verdict is not None and not isinstance(verdict, Verdict):
            kind = type(verdict).__name__
            raise TypeError(
                f"the verdict of node {self.name!r} is a {kind}; "
                'it is None or a Verdict of nodes.messages, such as Verdict("passed", "why")'
            )
        return verdict

    def parameters(self) -> dict[str, Any]:
        """The node's parameters as plain data."""
        plain: dict[str, Any] = msgspec.to_builtins(self._params)
        return plain

    def require_fitting(self, changed_values: dict[str, Any]) -> None:
        """Raise ValueError, one line, for changed parameters that a launch would refuse. Callable from any thread."""
        params = self._changed(changed_values)
        plan, plain = self.context.plan, msgspec.to_builtins(params)
        if plan is None or not self.robot:
            return  # no plan to check against
        replace = msgspec.structs.replace
        nodes = [replace(node, params=plain) if node.name == self.name else node for node in plan.nodes]
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
        """Change some parameters. ValueError, one line, for invalid ones. Call `require_fitting` first."""
        before, params = self._params, self._changed(changed_values)
        self._params = self.context.params = params
        try:
            self._publish_all(self.node.on_parameters(params))
        except ValueError:
            self._params = self.context.params = before  # refused: restore the parameters
            raise
        for event in changes(self.name, msgspec.to_builtins(before), self.parameters()) if self.robot else ():
            event.timestamp = self.time
            topic = f"{self.robot}/event"
            self._stamper.stamp(topic, event)
            self.out(topic, encode(event, topic))

    def stop(self) -> None:
        """Stop the node, which may publish last messages."""
        self._publish_all(self.node.on_stop())

    def take_log(self) -> list[tuple[str, str]]:
        """(level, line) of the node's warnings and information lines since the previous call."""
        taken = list(self.context.log)
        self.context.log.clear()
        return taken

    def _deliver(self, topic: str, message: Message) -> None:
        known = self.hears.get(topic)
        answer = self.node.on_message(topic if known is None else known[0], message)
        if answer is not None:
            self._publish_all(answer)

    def _publish_all(self, outgoing: Outgoing) -> None:
        if outgoing is None:
            return
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
            # a message without a timestamp gets the present time; restored later, as the node may reuse it
            stamp = message.timestamp
            if not is_stamped(message):
                message.timestamp = self.time
            self._stamper.stamp(topic, message)
            try:
                self.out(topic, encode(message, topic))
            except WireError as error:
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


def changes(node: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Event]:
    """One event for each parameter of a node that has changed its value."""
    for key, new in after.items():
        if before.get(key) != new:
            old, now = (msgspec.json.encode(value).decode() for value in (before.get(key), new))
            yield Event(kind="set", node=node, key=key, old=old, new=now)
