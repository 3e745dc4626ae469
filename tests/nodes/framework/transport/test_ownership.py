"""Topics have owners: the plan's, or the first that registered; what others publish is refused, counted and named."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
import zmq

from nodes.framework.messages import Event, JointCommand, Message, PeerClock, PlotValues, RobotState, Status
from nodes.framework.messages.codec import encode
from nodes.framework.transport.bus import Publisher, Subscriber
from nodes.framework.transport.domain import ipc_endpoint
from nodes.framework.transport.ownership import MOST_NAMED, message_refusal, note_forged, registration_refusal
from nodes.framework.transport.registry import NodeEntry, Registry, RegistryClient, RegistryError

Until = Callable[..., Any]
OWNERS = {
    "left/arm/state": {"sim"},
    "left/arm/event": {"sim", "left/guard"},
    "left/arm/command": {"left/guard"},
    "left/arm/pd/plot": {"left/pd"},
    "right/arm/command": set[str](),
}
GRANTED = {"right/arm/command": ["visitor"]}
REGISTERED = [
    ("sim", "left/arm/state", ""),
    ("left/guard", "left/arm/command", ""),
    ("visitor", "right/arm/command", ""),
    ("visitor", "left/arm/plan", ""),
    ("visitor", "left/arm/visitor/plot", ""),
    ("visitor", "status", ""),
    ("visitor", "clock", ""),
    ("left/pd", "left/arm/pd/plot", ""),
    ("other", "left/arm/range", "belongs to node 'visitor', which registered it first"),
    ("left/guard", "left/arm/state", "topic 'left/arm/state' belongs to node 'sim' of the launch"),
    ("visitor", "left/arm/event", "belongs to nodes 'left/guard', 'sim' of the launch"),
    ("visitor", "left/arm/command", "no grant of the simulation for topic 'left/arm/command'"),
    ("other", "right/arm/command", "no grant of the simulation"),
    ("pd", "left/arm/pd/plot", "belongs to node 'left/pd' of the launch"),
    ("visitor", "left/arm/guard/plot", "belongs to the node in its name"),
]
SENT: list[tuple[str, list[str], str, Message, str]] = [
    ("sim", ["arm/state"], "arm/state", RobotState(), ""),
    ("sim", ["arm/event"], "arm/event", Event(kind="reset"), ""),
    ("sim", ["arm/event"], "arm/event", Event(kind="refused", node="pd"), ""),
    ("left/pd", ["status"], "left/arm/event", Event(kind="set", node="pd", key="gain"), ""),
    ("left/pd", [], "left/arm/pd/plot", PlotValues(), ""),
    ("left/pd", [], "status", Status(node="left/pd"), ""),
    ("watch", ["clock"], "clock", PeerClock(asker="watch", peer="sim"), ""),
    ("evil", ["arm/range"], "arm/state", RobotState(), "from node 'evil', to which the topic does not belong"),
    ("evil", ["arm/range"], "arm/command", JointCommand(), "to which the topic does not belong"),
    ("evil", [], "arm/pd/plot", PlotValues(), "to which the topic does not belong"),
    ("evil", ["status"], "status", Status(node="sim"), "from node 'evil', about node 'sim'"),
    ("evil", ["clock"], "clock", PeerClock(asker="watch"), "from node 'evil', about node 'watch'"),
    ("evil", [], "arm/event", Event(kind="set", node="pd"), "from node 'evil', about node 'pd'"),
    ("evil", [], "arm/event", Event(kind="reset", node="evil"), "to which events 'reset' do not belong"),
]


@pytest.mark.parametrize(("name", "topic", "reason"), REGISTERED)
def test_a_node_registers_the_topics_that_it_may_publish(name: str, topic: str, reason: str) -> None:
    others = [NodeEntry(name="visitor", pid=1, publishes=["left/arm/range", "status"])]
    entry = NodeEntry(name=name, pid=1, publishes=["status", topic])
    found = registration_refusal(entry, OWNERS, GRANTED, [each for each in others if each.name != name])
    assert reason in found
    assert bool(reason) == bool(found)


@pytest.mark.parametrize(("source", "publishes", "topic", "message", "reason"), SENT)
def test_a_message_is_accepted_from_a_node_that_registered_its_topic(
    source: str, publishes: list[str], topic: str, message: Message, reason: str
) -> None:
    found = message_refusal(source, publishes, topic, encode(message, topic))
    assert reason in found
    assert bool(reason) == bool(found)


def test_the_table_of_forged_messages_stays_small() -> None:
    forged: dict[str, int] = {}
    for number in range(3 * MOST_NAMED):
        note_forged(forged, "evil", f"arm/{number}")
    assert len(forged) == MOST_NAMED + 1
    assert forged["others"] == 2 * MOST_NAMED


def test_a_topic_outside_of_the_plan_belongs_to_the_first_until_it_leaves(domain: int) -> None:
    topic, pid = "arm/reference", os.getpid()
    with Registry(domain, owners={"arm/state": {"sim"}}) as registry, RegistryClient(domain) as client:
        client.register(NodeEntry(name="first", pid=pid, publishes=[topic]))
        with pytest.raises(RegistryError, match=f"topic '{topic}' belongs to node 'first', which registered it first"):
            client.register(NodeEntry(name="second", pid=pid, publishes=[topic]))
        client.register(NodeEntry(name="first", pid=pid, publishes=[topic]))  # renewed
        with pytest.raises(RegistryError, match="topic 'arm/state' belongs to node 'sim' of the launch"):
            client.register(NodeEntry(name="first", pid=pid, publishes=[topic, "arm/state"]))
        assert [(entry.name, entry.publishes) for entry in client.nodes()] == [("first", [topic])]
        assert registry.refused == 2
        client.unregister("first")
        client.register(NodeEntry(name="second", pid=pid, publishes=[topic]))


def test_a_subscriber_drops_counts_and_names_what_a_publisher_has_not_registered(domain: int, until: Until) -> None:
    with zmq.Context() as context:
        publisher = Publisher(context, "evil", ipc_endpoint(domain, "evil.data"))
        subscriber = Subscriber(context, ["arm/state", "arm/measured_state"], "listener")
        feed = subscriber.connect("evil", publisher.endpoint, ["arm/measured_state"])
        until(lambda: (publisher.serve_subscriptions(), subscriber.receive(), feed.ready)[-1])
        for _ in range(1000):
            publisher.publish("arm/state", RobotState())
            assert subscriber.receive() is None
        publisher.publish("arm/measured_state", RobotState(timestamp=1.0))
        assert [each[1] for each in subscriber.receive_batch(1.0)] == ["arm/measured_state"]
        until(lambda: subscriber.receive() is None and subscriber.forged == {"arm/state from evil": 1000})
        assert (subscriber.refused, subscriber.lost) == (1000, 0)
        assert subscriber.refusals.last == "'arm/state': from node 'evil', to which the topic does not belong"
        subscriber.connect("evil", publisher.endpoint, ["arm/state"])  # as the registry tells it now
        publisher.publish("arm/state", RobotState(timestamp=2.0))
        publisher.publish("arm/measured_state", RobotState(timestamp=2.0))
        until(lambda: [each[1] for each in subscriber.receive_batch(1.0)] == ["arm/state"])
        until(lambda: subscriber.receive() is None and "arm/measured_state from evil" in subscriber.forged)
        subscriber.close()
        publisher.close()
        context.destroy(linger=0)
