"""What a listener hears that fell behind: all of it, or the latest where the latest says all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import zmq

from nodes.framework.hosting.subscriptions import ReceivedMessage, Subscriptions
from nodes.framework.messages import Event, JointCommand, Message, RobotState
from nodes.framework.transport.bus import Publisher
from nodes.framework.transport.registry import NodeEntry

SPEAKER = """
import os
import sys
import zmq
from nodes.framework.hosting.session import finish
from nodes.framework.transport.bus import Publisher
from nodes.framework.messages import Event

context = zmq.Context.instance()
publisher = Publisher(context, "sim", sys.argv[1])
while not publisher.socket.poll() or publisher.socket.recv() != b"\\x01~":
    pass
publisher.publish("arm/event", Event(kind="first"))
for _ in range(3000):  # more than the kernel holds
    publisher.publish("arm/event", Event(kind="late", detail="x" * 1000))
publisher.close()
finish(context)
os._exit(0)
"""


class Backlog:
    """A feed on which messages wait."""

    source = "sim"

    def __init__(self, messages: list[tuple[str, Message]]) -> None:
        self.socket = self
        self.lost = 0
        self._waiting = iter(messages)

    def receive(self) -> tuple[str, Message, bytes] | None:
        heard = next(self._waiting, None)
        return None if heard is None else (*heard, b"")

    def close(self) -> None: ...


def waiting(states: int) -> list[tuple[str, Message]]:
    """States, and among them a command each hundred."""
    messages: list[tuple[str, Message]] = []
    for seq in range(1, states + 1):
        messages.append(("arm/state", RobotState(seq=seq)))
        if seq % 100 == 0:
            messages.append(("arm/command", JointCommand(seq=seq // 100)))
    return messages


@pytest.mark.parametrize(
    ("states", "keeps_all", "heard_states", "stale"),
    [
        (60, False, list(range(1, 61)), 0),  # not far behind
        (5000, False, [1, 5000], 4998),  # the first is given at once: the usual case is one
        (5000, True, list(range(1, 5001)), 0),
    ],
)
def test_who_fell_far_behind_hears_the_latest_state_and_counts_the_rest(
    states: int, keeps_all: bool, heard_states: list[int], stale: int
) -> None:
    links = Subscriptions(zmq.Context.instance(), "damp", {}, keeps_all)
    feed: Any = Backlog(waiting(states))
    links.subscriber.connections["sim"] = feed
    heard: list[ReceivedMessage] = []
    before = -1
    while len(heard) > before:  # it polls as awake while messages wait
        before = len(heard)
        links.drain({feed}, heard.append)
    assert [message.seq for _, _, message, _ in heard if isinstance(message, RobotState)] == heard_states
    commands = [message.seq for _, _, message, _ in heard if isinstance(message, JointCommand)]
    assert commands == list(range(1, states // 100 + 1))  # each says something of its own
    assert (links.stale, links.lost) == (stale, stale)


def test_who_fell_far_behind_hears_every_message_of_a_users_topic() -> None:
    links = Subscriptions(zmq.Context.instance(), "damp", {})
    feed: Any = Backlog([("arm/gripper_state", RobotState(seq=seq)) for seq in range(1, 301)])
    links.subscriber.connections["sim"] = feed
    heard: list[ReceivedMessage] = []
    before = -1
    while len(heard) > before:
        before = len(heard)
        links.drain({feed}, heard.append)
    assert [message.seq for _, _, message, _ in heard] == list(range(1, 301))
    assert links.lost == 0


def listener(name: str, endpoint: str, keeps_all: bool = False) -> tuple[Subscriptions, zmq.Poller]:
    """Links that hear the events of the publisher at this endpoint."""
    links, poller = Subscriptions(zmq.Context.instance(), name, {"arm/event": Event}, keeps_all), zmq.Poller()
    links.offer([NodeEntry(name="sim", pid=1, endpoints={"data": endpoint}, publishes=["arm/event"])])
    links.update(poller, lambda heard: None)
    return links, poller


def test_who_leaves_is_heard_to_the_end(tmp_path: Path) -> None:
    """The news that it left may come before its last messages, or while they wait."""
    publisher = Publisher(zmq.Context.instance(), "sim", endpoint := f"ipc://{tmp_path}/data")
    links, poller = listener("recorder", endpoint, keeps_all=True)
    heard: list[ReceivedMessage] = []
    while not links.ready:
        publisher.serve_subscriptions()
        links.take_all(heard.append)
    for _ in range(500):
        publisher.publish("arm/event", Event(kind="late"))
    publisher.close()
    links.offer([])
    assert links.update(poller, heard.append) == ["sim"]
    assert len(heard) == 500
    links.close()


def test_a_process_that_ends_hands_over_what_waits(tmp_path: Path) -> None:
    endpoint = f"ipc://{tmp_path}/data"
    links, _ = listener("recorder", endpoint, keeps_all=True)
    (feed,) = links.subscriber.connections.values()
    process = subprocess.Popen([sys.executable, "-c", SPEAKER, endpoint])
    heard: list[ReceivedMessage] = []
    assert feed.socket.poll(30_000)
    links.take_last(heard.append, {"sim"})
    assert feed.ended
    assert len(heard) == 3001
    assert process.wait(30.0) == 0
    links.close()
