"""Subscriptions from other computers: no work of the publisher's thread, and who wants too many is hung up on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from nodes.framework.messages import Description, RobotState
from nodes.framework.transport import background_threads
from nodes.framework.transport.bus import END, PROBE, Publisher, Subscriber
from nodes.framework.transport.domain import ipc_endpoint
from nodes.framework.transport.host_config import HostConfig
from nodes.framework.transport.registry import Registry
from nodes.framework.transport.remote_stream import SubscriptionQuota
from nodes.framework.transport.security import allow_list, authenticator, keys

Until = Callable[..., Any]
STATE = "robot/state"
FLOOD = 20_000


@pytest.fixture
def publisher(domain: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Publisher]:
    """A publisher that is open to other computers, whose own key is allowed: here and there are this test."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    keys.make_key("desk")
    allow_list.allow("desk", keys.own_key().public)
    context: Any = zmq.Context()
    made = Publisher(context, "sim", ipc_endpoint(domain, "sim.data"), remote_endpoint="tcp://127.0.0.1:*")
    yield made
    made.close()
    context.destroy(linger=0)


class Colleague:
    """The holder of an allowed key, and raw sockets of it."""

    def __init__(self, name: str = "colleague") -> None:
        self.name = name
        self.context: Any = zmq.Context()
        self._sockets: list[Any] = []  # one that nobody holds is closed
        self._public, self._secret = zmq.curve_keypair()
        allow_list.allow(name, zmq.utils.z85.decode(self._public).hex())

    def socket(self, kind: int, endpoint: str) -> Any:
        address, _, key = endpoint.partition("#")
        made = self.context.socket(kind)
        made.linger = 0
        made.sndhwm = 2 * FLOOD
        made.reconnect_ivl = 20
        made.curve_serverkey = bytes.fromhex(key)
        made.curve_publickey, made.curve_secretkey = self._public, self._secret
        made.connect(address)
        self._sockets.append(made)
        return made

    def floods(self, endpoint: str, size: int, count: int = FLOOD) -> Any:
        """A socket that has sent so many subscriptions of so many bytes, each another one."""
        made = self.socket(zmq.XSUB, endpoint)
        for number in range(count):
            made.send(b"\x01" + f"robot/{number}".encode().ljust(size, b"x"))
        return made

    def close(self) -> None:
        self.context.destroy(linger=0)


@pytest.fixture
def colleague(publisher: Publisher) -> Iterator[Colleague]:
    made = Colleague()
    yield made
    made.close()


def ready(publisher: Publisher, until: Until, *topics: str, heard: list[Any] | None = None) -> Subscriber:
    """A listener on another computer that the publisher knows of; `heard` takes what it heard until then."""
    subscriber = Subscriber(zmq.Context.instance(), topics, "listener")
    feed = subscriber.connect("sim", publisher.remote_endpoint)

    def is_ready() -> bool:
        publisher.serve_subscriptions()
        found = subscriber.receive()
        if found is not None and heard is not None:
            heard.append(found)
        return feed.ready

    until(is_ready)
    return subscriber


def hears(publisher: Publisher, subscriber: Subscriber, until: Until, time: float) -> None:
    """Wait until what is published now is heard."""

    def heard() -> bool:
        publisher.publish(STATE, RobotState(timestamp=time))
        found = subscriber.receive(0.01)
        return found is not None and found[2].timestamp == time

    until(heard)


def test_other_computers_hear_what_is_said_what_is_latched_and_the_end(publisher: Publisher, until: Until) -> None:
    publisher.publish("robot/description", Description(robot="robot"))  # before anybody listened
    early: tuple[list[Any], list[Any]] = ([], [])
    first, second = (ready(publisher, until, "robot/description", STATE, heard=each) for each in early)
    for tick in range(100):
        publisher.publish(STATE, RobotState(timestamp=float(tick)))
    publisher.close()
    for each, before in ((first, early[0]), (second, early[1])):
        heard = [(topic, message.seq) for _, topic, message in before]
        while not each.connections["sim"].ended:
            found = each.receive(0.1)
            if found is not None:
                heard.append((found[1], found[2].seq))
        assert heard == [("robot/description", 1), *((STATE, seq) for seq in range(1, 101))]
        assert each.lost == 0
        each.close()


def test_a_flood_of_subscriptions_is_hung_up_on_and_leaves_the_publishers_thread_alone(
    publisher: Publisher, colleague: Colleague, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    honest = ready(publisher, until, STATE)
    assert publisher.remote is not None
    colleague.floods(publisher.remote_endpoint, 20)
    line = "sim: ended 1 connections of \"key 'colleague' at 127.0.0.1\": more than 64 unknown topics"
    until(lambda: line in caplog.text)
    assert publisher.remote.refused.count == 1
    hears(publisher, honest, until, 7.0)
    assert not publisher.socket.poll(50)  # no subscription of theirs came to the publisher's own socket
    assert authenticator.rejected(publisher.socket.context) == 0  # it has an allowed key
    honest.close()


def test_who_sends_large_subscriptions_gets_none_in_and_is_shut_out_when_he_comes_back_again_and_again(
    publisher: Publisher,
    colleague: Colleague,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(authenticator, "HANDSHAKES", 20)
    monkeypatch.setattr(authenticator, "HANDSHAKES_PER_S", 0.0)
    honest = ready(publisher, until, STATE)
    flood = colleague.floods(publisher.remote_endpoint, 500)

    def is_shut_out() -> bool:
        flood.poll(0)  # a socket subscribes again on each new connection only when it is used
        return "exceeds its limits and is blocked for 5 s" in caplog.text

    until(is_shut_out)
    assert publisher.remote is not None
    assert publisher.remote.refused.count == publisher.remote.refusals.count == 0  # libzmq hung up before
    hears(publisher, honest, until, 7.0)
    honest.close()


def test_known_topics_again_and_again_are_too_many_as_well(
    publisher: Publisher, colleague: Colleague, until: Until
) -> None:
    greedy = colleague.socket(zmq.XSUB, publisher.remote_endpoint)
    for _ in range(FLOOD):
        greedy.send(b"\x01robot/state")
    assert publisher.remote is not None
    until(lambda: publisher.remote.refused.count >= 1)
    assert "more than 256 subscriptions on a connection" in publisher.remote.refused.last


def test_who_was_hung_up_on_is_shut_out_and_the_others_are_not(
    publisher: Publisher, colleague: Colleague, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authenticator, "BLOCK_S", 300.0)
    colleague.floods(publisher.remote_endpoint, 20)
    assert publisher.remote is not None
    until(lambda: publisher.remote.refused.count >= 1)
    late = colleague.socket(zmq.SUB, publisher.remote_endpoint)
    late.subscribe(PROBE)
    other = Colleague("other")
    welcome = other.socket(zmq.SUB, publisher.remote_endpoint)
    welcome.subscribe(PROBE)

    def is_heard() -> bool:
        publisher.serve_subscriptions()
        return bool(welcome.poll(5))

    until(is_heard)
    assert welcome.recv_multipart() == [PROBE, b""]
    assert not late.poll(0)
    assert publisher.remote.refused.count == 1
    other.close()


def test_io_threads_do_not_interrupt_others_while_a_key_is_blocked(
    publisher: Publisher, colleague: Colleague, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authenticator, "BLOCK_S", 2.0)

    def policies() -> set[int]:
        return {os.sched_getscheduler(thread) for thread in background_threads.io_threads()}

    assert policies() == {os.SCHED_OTHER}
    colleague.floods(publisher.remote_endpoint, 20)
    until(lambda: policies() == {os.SCHED_BATCH})
    colleague.close()
    until(lambda: policies() == {os.SCHED_OTHER})
    monkeypatch.setattr(background_threads, "_is_permanent", False)  # restored after the test
    background_threads.defer_others()
    background_threads.defer_io(False)
    assert policies() == {os.SCHED_BATCH}


def test_an_unknown_topic_is_refused_and_counted_and_nobody_is_hung_up_on_for_it(
    publisher: Publisher, colleague: Colleague, until: Until
) -> None:
    listener = colleague.socket(zmq.SUB, publisher.remote_endpoint)
    for topic in ("robot/of_my_own", STATE, PROBE.decode()):
        listener.subscribe(topic)

    def is_heard() -> bool:
        publisher.serve_subscriptions()
        return bool(listener.poll(5))

    until(is_heard)
    assert publisher.remote is not None
    assert publisher.remote.refusals.count == 1
    assert "not in the topic table" in publisher.remote.refusals.last
    assert publisher.remote.refused.count == 0
    listener.close()


def test_listeners_that_never_read_hold_up_nobody(publisher: Publisher, colleague: Colleague, until: Until) -> None:
    honest = ready(publisher, until, STATE)
    deaf = [colleague.socket(zmq.SUB, publisher.remote_endpoint) for _ in range(50)]
    for each in deaf:
        each.rcvhwm = 1
        each.subscribe(b"")
    state = RobotState(name=["a"] * 50, position=[0.5] * 50, velocity=[0.5] * 50)
    for _ in range(2000):
        publisher.publish(STATE, state)
    hears(publisher, honest, until, 7.0)
    assert publisher.remote is not None
    assert publisher.remote.refused.count == 0
    honest.close()


def test_the_registrys_news_have_the_same_quota(publisher: Publisher, domain: int, until: Until) -> None:
    host_config = HostConfig(host="desk", address="127.0.0.1")
    with Registry(domain, host_config=host_config) as registry:
        colleague = Colleague()
        news = f"tcp://127.0.0.1:{17401 + 2 * domain}#{keys.own_key().public}"
        colleague.floods(news, 20)
        until(lambda: registry.refused >= 1)
        other = Colleague("other")
        listener = other.socket(zmq.SUB, news)
        listener.subscribe(b"registry")
        until(lambda: listener.poll(5))
        other.close()
        colleague.close()


def test_a_peer_has_a_share_of_subscriptions_and_of_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    living = {fd: ("10.0.0.1", fd) for fd in range(1000)}
    monkeypatch.setattr(authenticator, "peer_at", living.get)

    def excess(quota: SubscriptionQuota, fd: int, times: int = 1, known: bool = True) -> str:
        return [quota.excess("key", (fd, "10.0.0.1", fd), known) for _ in range(times)][-1]

    quota = SubscriptionQuota()
    assert excess(quota, 1, 256) == ""
    assert excess(quota, 1) == "more than 256 subscriptions on a connection"
    assert excess(quota, 2, 64, known=False) == ""
    assert "64 unknown topics" in excess(quota, 2, known=False)
    quota = SubscriptionQuota()
    assert {excess(quota, fd) for fd in range(128)} == {""}
    assert excess(quota, 128) == "more than 128 connections"
    assert quota.excess("another key", (129, "10.0.0.2", 129), True) == ""
    del living[5], living[128]
    assert excess(quota, 130) == ""  # one has ended
    living |= {5: ("10.0.0.1", 5)}
    quota = SubscriptionQuota()
    assert {excess(quota, fd, 256) for fd in range(8)} == {""}
    assert excess(quota, 9, 64) == "more than 2048 subscriptions"


def test_the_probe_is_echoed_on_the_publishers_own_socket_as_before(domain: int, until: Until) -> None:
    context: Any = zmq.Context()
    publisher = Publisher(context, "sim", ipc_endpoint(domain, "sim.data"))
    assert publisher.remote is None
    assert not publisher.remote_endpoint
    listener = context.socket(zmq.SUB)
    listener.connect(publisher.endpoint)
    listener.subscribe(PROBE)

    def is_heard() -> bool:
        publisher.serve_subscriptions()
        return bool(listener.poll(5))

    until(is_heard)
    assert listener.recv_multipart() == [PROBE, b""]
    publisher.close()
    assert listener.recv_multipart() == [PROBE, END]
    assert not [name for name in os.listdir(ipc_endpoint(domain, "")[6:]) if name.startswith("sim.data")]
    listener.close()
    context.term()
