"""Messages that a node publishes: checked, stamped and encoded, under the full names of their topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import msgspec

from nodes.framework.messages import Event, JointCommand, Message
from nodes.framework.messages.codec import WireError, encode
from nodes.framework.messages.plotting import PlottedValues
from nodes.framework.messages.stamp import MessageStamper, is_stamped
from nodes.framework.messages.topics import node_topic, resolve
from nodes.framework.plan.launch_plan import NodePlan
from nodes.framework.transport.rejections import RejectionLog
from nodes.node import Context, Node, Outgoing

EncodedMessage = tuple[str, bytes]  # (full topic name, encoded message)
Out = Callable[[str, bytes], None]


class NodePublisher:
    """Publishes the messages of one node.

    out         function that is called with each topic and encoded message as soon as the node publishes it
    publishes   {declared name: (topic, message type)}
    context     context of the node, with the values that it plotted
    time        simulation time (s), which events and messages without a timestamp get
    has_time    whether the node knows simulation time
    answers     whether commands of the node may answer states of the simulation; those of a node that receives other
                states only, such as measured ones, lose their state_seq
    refusals    log of refused messages: invalid messages and plotted values that the node published
    stamper     object that sets seq and sent_ns of each message
    plot_topic  topic of the values that the node plots
    announce    function that is called with `plot_topic` before the first message on this topic

    observe  function that is called with each message before it is published
    """

    def __init__(
        self,
        node: Node,
        node_plan: NodePlan,
        robot: str,
        context: Context,
        out: Out,
        stamper: MessageStamper,
        observe: Callable[[Message], None],
    ) -> None:
        topic = partial(topic_of, remap=node_plan.remap, robot=robot)
        self.out = out
        self.publishes = {name: (topic(name), kind) for name, kind in node.publishes.items()}
        self.context = context
        self.time = 0.0
        self.has_time = self.answers = True
        self.refusals = RejectionLog(node_plan.name)
        self.stamper = stamper
        self.plot_topic = node_topic("plot", robot, node_plan.local_name)
        self.announce: Callable[[str], None] = lambda topic: None
        context.plotted = PlottedValues(partial(self.refusals.refuse, self.plot_topic), context.warn)
        self._name, self._observe = node_plan.name, observe
        self._event_topic = f"{robot}/event" if robot else ""  # a node of no robot has no topic for events
        self._has_plotted = False

    def event(self, event: Event) -> None:
        """Publish an event about the node."""
        if not self._event_topic:
            return
        event.timestamp = self.time
        self._observe(event)
        self.stamper.stamp(self._event_topic, event)
        self.out(self._event_topic, encode(event, self._event_topic))

    def publish(self, outgoing: Outgoing) -> None:
        """Publish the messages of one call of the node, then the values that it plotted in this call."""
        if outgoing is not None:
            self._publish_each(outgoing)
        if self.context.plotted:
            self._publish_plotted()

    def _publish_plotted(self) -> None:
        if not self._has_plotted:
            self._has_plotted = True
            self.announce(self.plot_topic)
            if not self.has_time:
                self.context.warn(
                    "the node plots all values at t = 0 s, because it does not know simulation time; "
                    "subscribe to 'state'"
                )
        message = self.context.plotted.take()
        message.timestamp = self.time
        self.stamper.stamp(self.plot_topic, message)
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
            if not self.answers and isinstance(message, JointCommand):
                message = msgspec.structs.replace(message, state_seq=None)
            self._observe(message)
            # a message without a timestamp gets the present time; restored later, as the node may reuse it
            stamp = message.timestamp
            if not is_stamped(message):
                message.timestamp = self.time
            self.stamper.stamp(topic, message)
            try:
                self.out(topic, encode(message, topic))
            except WireError as error:
                self.stamper.take_back(topic)
                self.refusals.refuse(topic, error.reason)
            except TypeError as error:
                raise TypeError(f"node {self._name!r} published {name!r} with a field of wrong type: {error}") from None
            message.timestamp = stamp

    def _bad_return(self, what: object) -> str:
        kind = type(what).__name__
        form = '`yield "name", message` with a name of `publishes`'
        return f"node {self._name!r} returned or yielded a {kind}; write {form}"

    def _bad_publication(self, name: str, message: object) -> str:
        table = {key: kind.__name__ for key, (_, kind) in self.publishes.items()}
        return f"node {self._name!r} published {name!r} with a {type(message).__name__}, but its `publishes` is {table}"


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
