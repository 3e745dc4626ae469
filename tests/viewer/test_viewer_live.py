"""The live feed against a real registry and publisher: it waits for them, follows them, and waits again."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import pytest
import zmq

from nodes.framework.messages import Description, Message, RobotState
from nodes.framework.transport.bus import Publisher
from nodes.framework.transport.domain import domain_folder
from nodes.framework.transport.registry import NodeEntry, Registry, RegistryClient
from viewer.data.boundaries import LaunchBegan
from viewer.data.live import LiveFeed
from viewer.data.signals import Signals

DOMAIN = 9


@pytest.fixture
def feed(monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveFeed]:
    """A feed on a domain in a folder of its own, with a path short enough for ipc."""
    folder = tempfile.mkdtemp(prefix="as")
    monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
    found = LiveFeed(DOMAIN)
    yield found
    found.close()
    shutil.rmtree(folder)


def speak_until_heard(
    feed: LiveFeed,
    said: list[tuple[str, Message]],
    wanted: int,
    pid: int | None = None,
    kept: list[Message] | None = None,
) -> Signals:
    """Run a registry and a server that repeats `said` until the feed has passed on `wanted` states.

    pid   process id with which the server is registered; None for that of the test
    kept  list to which all messages of the feed are added
    """
    signals = Signals()
    with Registry(DOMAIN), RegistryClient(DOMAIN) as registry:
        endpoint = f"ipc://{domain_folder(DOMAIN)}/sim"
        publisher = Publisher(zmq.Context.instance(), "sim", endpoint)
        topics = sorted({topic for topic, _ in said})
        registry.register(NodeEntry(name="sim", pid=pid or os.getpid(), endpoints={"data": endpoint}, publishes=topics))
        deadline = time.monotonic() + 20.0
        poller = zmq.Poller()
        poller.register(publisher.socket, zmq.POLLIN)
        while signals.states < wanted and time.monotonic() < deadline:
            if poller.poll(5):
                publisher.serve_subscriptions()
            for topic, message in said:
                publisher.publish(topic, message)
            for topic, message in feed.take():
                signals.add([(topic, message)])
                if kept is not None:
                    kept.append(message)
        publisher.close()
    return signals


def test_the_feed_waits_for_a_launch_follows_it_and_finds_the_next(feed: LiveFeed, said_in_space: list[Any]) -> None:
    assert feed.take() == []
    for _ in range(2):
        heard = speak_until_heard(feed, said_in_space[:4], wanted=20)
        assert heard.states >= 20
        assert heard.robot == "swing"
        assert heard.description is not None
        assert heard.poses is not None
        feed.take()


def test_the_feed_separates_the_messages_of_two_launches(feed: LiveFeed, said_in_space: list[Any]) -> None:
    heard: list[Message] = []
    with subprocess.Popen(["sleep", "100"]) as other:  # a process may register its children
        for pid in (os.getpid(), os.getpid(), other.pid):  # the first launch is quiet for a time in between
            speak_until_heard(feed, said_in_space[:4], wanted=20, pid=pid, kept=heard)
            heard += [message for _, message in feed.take()]
        other.kill()
    (place,) = [place for place, message in enumerate(heard) if isinstance(message, LaunchBegan)]
    assert sum(isinstance(message, RobotState) for message in heard[:place]) >= 40
    assert sum(isinstance(message, RobotState) for message in heard[place:]) >= 20


def test_a_launch_that_follows_at_once_is_separated_too(feed: LiveFeed) -> None:
    """The subscription goes on, as no message was awaited for long."""
    states = [("arm/state", RobotState(seq=seq)) for seq in (1, 2)]
    launches = [("arm/description", Description()), *states, ("arm/description", Description()), *states]
    flood = Flood(*launches)
    flood.servers = [[NodeEntry(name="sim", pid=pid)] for pid in (1, 2)]
    feed._follow(flood, patience_s=1.0)  # type: ignore[arg-type]
    assert [type(message) for _, message in feed.take()] == [
        *(Description, RobotState, RobotState),
        *(LaunchBegan, Description, RobotState, RobotState),
    ]


class Flood:
    """A client whose stream says what it is given; `servers` are its answers to `nodes`, one after the other."""

    def __init__(self, *said: tuple[str, Message]) -> None:
        self._said = said
        self.servers: list[list[NodeEntry]] = []

    def stream(self, timeout_s: float, pause_s: float) -> Iterator[tuple[str, Message]]:
        yield from self._said

    def nodes(self) -> list[NodeEntry]:
        return self.servers.pop(0) if self.servers else []


def test_states_without_a_description_make_the_feed_subscribe_anew_with_more_patience(feed: LiveFeed) -> None:
    states = [("arm/state", RobotState(seq=tick)) for tick in range(5)]
    assert feed._follow(Flood(*states), patience_s=-1.0) == -2.0  # type: ignore[arg-type]
    assert feed.take() == states[:1]
    described = [("arm/description", Description()), *states]
    assert feed._follow(Flood(*described), patience_s=-1.0) > 0.0  # type: ignore[arg-type]
    assert feed.take() == described
