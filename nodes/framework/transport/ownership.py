"""Ownership of topics: which nodes may publish a topic.

The plan of a launch names the nodes that may publish each of its topics. A topic that the plan does not name belongs to
the node that registered it first. The registry refuses the registration of a node that may not publish one of its
topics, and subscribers accept a topic only from a node that has registered it. On the topics `status` and `clock`,
every registered node may publish messages about itself, and on `ROBOT/event` events about itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from nodes.framework.messages import Event, Message, PeerClock, Status
from nodes.framework.messages.codec import WireError, decode
from nodes.framework.messages.topics import GLOBAL_TOPICS, NODE_TOPICS, lookup

Owners = Mapping[str, Collection[str]]  # {topic: names of the nodes that may publish it}

NOT_GRANTED = "no grant of the simulation"  # begins the refusal of a node that has to call the service `take_over`
MOST_NAMED = 32  # largest number of entries in a table of forged messages
_ABOUT: dict[type[Message], str] = {Status: "node", PeerClock: "asker", Event: "node"}
_OWN_EVENTS = frozenset(  # kinds of events that every node publishes about itself
    {"set", "reload", "estop", "estop_released"} | {"guard_clamp", "guard_rejected", "guard_stop", "guard_acknowledged"}
)


class Registered(Protocol):
    """Part of a registry entry: the name of a node, and the topics that it publishes."""

    name: str
    publishes: list[str]


def registration_refusal(entry: Registered, owners: Owners, granted: Owners, others: Iterable[Registered]) -> str:
    """Reason why a node may not publish one of its topics; "" if the node may publish all of them.

    owners   nodes that the plan names; an empty collection for the commands of a robot that no node of the plan
             commands
    granted  nodes that the simulation has allowed to publish commands
    others   entries of all other nodes
    """
    wanted = set(entry.publishes).difference(GLOBAL_TOPICS)
    for topic in sorted(wanted):
        shown = repr(topic[:80])
        if topic in owners:
            if entry.name in owners[topic] or entry.name in granted.get(topic, ()):
                continue
            if topic.endswith("/command"):
                return (
                    f"{NOT_GRANTED} for topic {shown}: a node outside of the launch file must call the service "
                    "'take_over' of the simulation before it publishes commands"
                )
            names = sorted(owners[topic])
            named = f"nodes {', '.join(map(repr, names))}" if len(names) > 1 else f"node {names[0]!r}"
            return (
                f"topic {shown} belongs to {named} of the launch; publish another topic, or add node "
                f"{entry.name[:80]!r} to the launch file"
            )
        if _is_plot(topic):
            if _is_own_plot(entry.name, topic):
                continue
            return f"topic {shown} belongs to the node in its name; publish plotted values with context.plot"
        for other in others:
            if topic in other.publishes and not topic.endswith(("/command", "/event")):
                return (
                    f"topic {shown} belongs to node {other.name!r}, which registered it first; publish another topic, "
                    f"or end node {other.name!r} first"
                )
    return ""


def message_refusal(source: str, publishes: Collection[str], topic: str, payload: bytes) -> str:
    """Reason to drop a message that a registered node sent; "" to accept it.

    source     name of the node
    publishes  topics that the node has registered
    """
    row = lookup(topic)
    kind = None if row is None else row.message
    if (topic in publishes and kind not in (Status, PeerClock)) or (_is_plot(topic) and _is_own_plot(source, topic)):
        return ""
    if kind not in _ABOUT:
        return f"from node {source!r}, to which the topic does not belong"
    try:
        message = decode(topic, payload, kind)
    except WireError:
        return ""  # the decoding for the subscriber fails, too, and names the reason
    about = getattr(message, _ABOUT[kind])
    if about not in (source, _local(source)):
        return f"from node {source!r}, about node {about[:80]!r}"
    if isinstance(message, Event) and message.kind not in _OWN_EVENTS:
        return f"from node {source!r}, to which events {message.kind[:80]!r} do not belong"
    return ""


def is_shared(topic: str, publishes: Collection[str]) -> bool:
    """Whether the node may publish only messages about itself on a topic, so that each message has to be checked.

    publishes  topics that the node has registered
    """
    return topic in GLOBAL_TOPICS or (topic.endswith("/event") and topic not in publishes)


def note_forged(forged: dict[str, int], source: str, topic: str, count: int = 1) -> None:
    """Count a message in the table `forged`, {"TOPIC from NODE": number of messages}, whose size is limited."""
    key = f"{topic[:80]} from {source[:80]}"
    if key not in forged and len(forged) >= MOST_NAMED:
        key = "others"
    forged[key] = forged.get(key, 0) + count


def _local(name: str) -> str:
    return name.rpartition("/")[2]


def _is_plot(topic: str) -> bool:
    return lookup(topic) is NODE_TOPICS["plot"]


def _is_own_plot(name: str, topic: str) -> bool:
    """Whether a topic "ROBOT/NODE/plot" has the node's own name."""
    return topic.split("/")[-2] == _local(name)
