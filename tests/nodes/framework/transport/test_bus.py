"""Streams over real sockets: whole topics, latching, gaps, invalid frames, stopped listeners."""

from __future__ import annotations

import logging
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.framework.messages import Description, JointCommand, RobotState, Status
from nodes.framework.messages.codec import MAX_BYTES, AnyMessage, encode
from nodes.framework.messages.stamp import SequenceTracker
from nodes.framework.transport.bus import MOST_TOPICS, PROBE, Publisher, Subscriber
from nodes.framework.transport.domain import ipc_endpoint
from nodes.framework.transport.sockets import AddressError, BoundEndpoint, is_readable, make_socket

Until = Callable[..., Any]
STATE = "robot/state"


@pytest.fixture
def context() -> Iterator[Any]:
    with zmq.Context() as context:
        yield context
        context.destroy(linger=0)


@pytest.fixture
def publisher(context: Any, domain: int) -> Iterator[Publisher]:
    publisher = Publisher(context, "sim", ipc_endpoint(domain, "sim.data"))
    yield publisher
    publisher.close()


def listener(context: Any, publisher: Publisher, until: Until, topics: list[str] | None) -> Subscriber:
    subscriber = Subscriber(context, topics, "listener")
    feed = subscriber.connect(publisher.name, publisher.endpoint)

    def is_ready() -> bool:
        publisher.serve_subscriptions()
        if not feed.ready:
            heard = subscriber.receive()
            assert heard is None, heard
        return feed.ready

    until(is_ready)
    return subscriber


def test_nothing_said_after_ready_is_missed(context: Any, publisher: Publisher, until: Until) -> None:
    subscriber = listener(context, publisher, until, [STATE])
    for tick in range(100):
        publisher.publish(STATE, RobotState(timestamp=float(tick)))
    heard = [subscriber.receive(1.0) for _ in range(100)]
    assert [message.seq for _, _, message in heard if message] == list(range(1, 101))
    assert subscriber.lost == 0
    subscriber.close()


def test_topics_are_compared_whole(context: Any, publisher: Publisher, until: Until) -> None:
    subscriber = listener(context, publisher, until, [STATE])
    publisher.send("robot/state_estimate", encode(RobotState(seq=9)))
    publisher.publish(STATE, RobotState(timestamp=1.0))
    assert subscriber.receive(1.0)[2].timestamp == 1.0  # type: ignore[index]
    assert subscriber.refused == 0
    subscriber.close()


def test_a_gap_in_seq_is_counted_as_loss(context: Any, publisher: Publisher, until: Until) -> None:
    subscriber = listener(context, publisher, until, [STATE])
    for seq in (1, 2, 5, 5, 4, 9):
        publisher.send(STATE, encode(RobotState(seq=seq)))
    publisher.send(STATE, encode(RobotState(seq=10)))
    heard = []
    while not heard or heard[-1] != 10:
        heard.append(subscriber.receive(1.0)[2].seq)  # type: ignore[index]
    assert heard == [1, 2, 5, 9, 10]  # what is not new is not heard again
    assert subscriber.lost == 2 + 3
    subscriber.close()


def test_a_late_joiner_hears_what_is_latched_and_others_do_not_hear_it_twice(
    context: Any, publisher: Publisher, until: Until
) -> None:
    early = listener(context, publisher, until, ["robot/description", STATE])
    publisher.publish("robot/description", Description(robot="robot"))
    publisher.publish(STATE, RobotState())
    late = Subscriber(context, ["robot/description", STATE], "late")
    late.connect("sim", publisher.endpoint)

    def next_heard() -> Any:
        publisher.serve_subscriptions()
        return late.receive()

    _, topic, description = until(next_heard)
    assert (topic, description.seq, description.robot) == ("robot/description", 1, "robot")
    publisher.publish(STATE, RobotState())
    heard = [early.receive(1.0) for _ in range(3)]
    assert [(item[1], item[2].seq) for item in heard if item] == [
        ("robot/description", 1),
        (STATE, 1),
        (STATE, 2),
    ]
    early.close()
    late.close()


def test_a_latched_message_arrives_although_the_reply_to_another_subscriber_comes_first(
    context: Any, publisher: Publisher, until: Until
) -> None:
    publisher.publish("robot/description", Description(robot="robot"))
    publisher.publish(STATE, RobotState())
    both = [Subscriber(context, [topic], topic) for topic in (STATE, "robot/description")]
    feeds = [each.connect("sim", publisher.endpoint) for each in both]
    until(lambda: is_readable(publisher.socket))
    time.sleep(0.2)  # the publisher has the subscriptions of both before it answers the first
    publisher.serve_subscriptions()
    _, topic, description = until(lambda: both[1].receive())
    assert (topic, description.seq) == ("robot/description", 1)
    until(lambda: [each.receive() for each in both] and all(feed.ready for feed in feeds))
    assert [each.lost for each in both] == [0, 0]
    for each in both:
        each.close()


def test_a_subscriber_to_everything_receives_topics_of_ones_own_as_plain_data(
    context: Any, domain: int, until: Until
) -> None:
    socket, victim = stranger_and_victim(context, domain, until, None)
    fields = {"timestamp": 0.5, "seq": 3, "content": "own", "kelvin": [293.0, math.nan], "by": {"1": None}}
    socket.send_multipart([b"robot/temperature", msgspec.msgpack.encode(fields)])
    _, topic, message = victim.receive(2.0)  # type: ignore[misc]
    assert (topic, message.timestamp, message.seq) == ("robot/temperature", 0.5, 3)
    assert isinstance(message, AnyMessage)
    assert repr(message.content) == repr(fields)
    for number in range(MOST_TOPICS + 1):
        socket.send_multipart([f"robot/{number}".encode(), b"\x80"])
    topics = [received[1] for _ in range(MOST_TOPICS - 1) if (received := victim.receive(2.0)) is not None]
    assert len(topics) == MOST_TOPICS - 1
    assert victim.receive(0.0) is None
    assert (victim.refused, "topics are received already" in victim.refusals.last) == (2, True)
    victim.close()


def test_a_tracker_counts_losses_that_no_message_follows_by_the_publishers_latest_seq() -> None:
    tracker = SequenceTracker()
    assert tracker.is_new("a", 7)
    tracker.pass_latest({"a": 7, "b": 3})  # the subscription began after 3 messages on b
    assert (tracker.lost, tracker.is_new("b", 4), tracker.gap) == ({}, True, 0)
    tracker.pass_latest({"a": 10, "b": 4, "d": 2})
    assert (tracker.lost, tracker.pending) == ({"a": 3}, {"a": 3})
    assert (tracker.is_new("a", 10), tracker.pending["a"]) == (False, 3)
    assert (tracker.is_new("a", 12), tracker.gap, tracker.pending) == (True, 4, {})


def stranger_and_victim(context: Any, domain: int, until: Until, topics: list[str] | None) -> tuple[Any, Subscriber]:
    """A publisher that says anything, and one who listens to it."""
    socket = make_socket(context, zmq.XPUB)
    claim = BoundEndpoint(socket, ipc_endpoint(domain, "stranger.data"))
    victim = Subscriber(context, topics, "victim")
    feed = victim.connect("stranger", claim.endpoint)

    def is_ready() -> bool:
        socket.send_multipart([PROBE, b""])
        victim.receive()
        return feed.ready

    until(is_ready)
    return socket, victim


def test_a_subscriber_outlives_any_frames(context: Any, domain: int, until: Until) -> None:
    socket, victim = stranger_and_victim(context, domain, until, [STATE])
    sent = 0

    @settings(max_examples=300, deadline=None)
    @given(st.lists(st.binary(max_size=64), max_size=3), st.binary(max_size=8))
    def say_anything(frames: list[bytes], tail: bytes) -> None:
        nonlocal sent
        sent += 1
        socket.send_multipart([STATE.encode() + tail, *frames])
        socket.send_multipart([STATE.encode(), encode(RobotState(seq=sent, timestamp=7e8))])
        heard = victim.receive(2.0)
        while heard is not None and heard[2].timestamp != 7e8:
            heard = victim.receive(2.0)
        assert heard is not None

    say_anything()
    assert victim.refused > 0
    victim.close()


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        ([b"robot/state"], "without a payload"),
        ([b"robot/state", b"", b""], "more than two frames"),
        ([b"robot/state", b"\xc1"], "not a RobotState"),
        ([b"robot/state", encode(RobotState(name=["a"], position=[1.0], velocity=[0.0]))[:-4]], "not a RobotState"),
        ([b"robot/state", b"\x81\xa8position\xa3far"], "position"),
        ([b"robot/state", bytes(MAX_BYTES + 1)], "bytes"),
        ([b"robot/command", encode(JointCommand(name=["a"], value=[1.0])).replace(b"\x3f\xf0", b"\x7f\xf0")], "finite"),
        ([b"\xff\xfe", b""], "not the name of a topic"),
        ([b"robot/" + bytes(range(1, 32)), b"\x80"], "not the name of a topic"),
        ([b"robot/" + 300 * b"x", b"\x80"], "not the name of a topic"),
        ([b"robot/mine", b"\x91\x01"], "not a map of fields"),
        ([b"status", msgspec.msgpack.encode(Status(timestamp=1e12))], "timestamp is 1000000000000.0"),
        (
            [b"robot/state", msgspec.msgpack.encode(RobotState(name=["a"], position=[math.inf], velocity=[0.0]))],
            "position is not finite",
        ),
    ],
)
def test_a_bad_frame_is_counted_dropped_and_said_once(
    frames: list[bytes], reason: str, context: Any, domain: int, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    socket, victim = stranger_and_victim(context, domain, until, None)
    with caplog.at_level(logging.WARNING, "armswing.wire"):
        for _ in range(5):
            socket.send_multipart(frames)
        socket.send_multipart([b"robot/state", encode(RobotState(seq=1))])
        assert victim.receive(2.0)[2] == RobotState(seq=1)  # type: ignore[index]
    assert victim.refused == 5
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == 1
    assert reason in warnings[0]
    assert frames[0][:5].decode("ascii", "backslashreplace") in warnings[0].replace("\\\\", "\\")
    victim.close()


def test_a_publisher_outlives_strange_subscriptions(context: Any, publisher: Publisher, until: Until) -> None:
    rude = make_socket(context, zmq.XSUB)
    rude.connect(publisher.endpoint)
    for frame in (b"", b"\x01", b"\x07noise", b"\x00never", b"\x01" + bytes(1000)):
        rude.send(frame)
    rude.send_multipart([b"a", b"b"])
    publisher.publish("robot/description", Description())
    subscriber = Subscriber(context, [STATE], "listener")
    feed = subscriber.connect("sim", publisher.endpoint)

    def is_ready() -> bool:
        publisher.serve_subscriptions()
        subscriber.receive()
        return feed.ready

    until(is_ready)
    rude.close()
    subscriber.close()


LISTENER = """
import sys, zmq
from nodes.framework.transport.bus import Subscriber
subscriber = Subscriber(zmq.Context.instance(), ["robot/state"], "slow")
feed = subscriber.connect("sim", sys.argv[1])
while not feed.ready:
    subscriber.receive(0.05)
print("ready", flush=True)
last = 0
while last < 10**9:
    heard = subscriber.receive(1.0)
    if heard:
        last = heard[2].seq
        if heard[2].timestamp == 7e8:
            print(subscriber.lost, flush=True)
            break
"""


def test_a_stopped_listener_never_holds_up_the_publisher_and_sees_its_loss(
    context: Any, publisher: Publisher, until: Until
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", LISTENER, publisher.endpoint], stdout=subprocess.PIPE, text=True
    )
    try:
        poller = zmq.Poller()
        assert process.stdout is not None
        poller.register(process.stdout, zmq.POLLIN)

        def says_something() -> bool:
            publisher.serve_subscriptions()
            return bool(poller.poll(10))

        until(says_something)
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGSTOP)
        state = RobotState(name=["a"] * 100, position=[0.5] * 100, velocity=[0.5] * 100)
        slowest = 0.0
        for _ in range(30_000):  # far more than queues and the kernel's buffer hold
            began = time.perf_counter()
            publisher.publish(STATE, state)
            slowest = max(slowest, time.perf_counter() - began)
        assert slowest < 5.0  # a blocked send would wait until the listener goes on
        os.kill(process.pid, signal.SIGCONT)

        def last_word() -> bool:
            publisher.publish(STATE, RobotState(timestamp=7e8))
            return bool(poller.poll(10))

        until(last_word)
        assert int(process.stdout.readline()) > 0
    finally:
        process.kill()
        process.communicate()


def test_only_loopback_and_ipc_are_open(context: Any, domain: int) -> None:
    for address in ("tcp://0.0.0.0:5555", "tcp://*:5555", "tcp://192.168.1.2:5555", "udp://127.0.0.1:1", "nonsense"):
        with pytest.raises(AddressError, match="needs a CURVE key"):
            Publisher(context, "sim", address)
        with pytest.raises(AddressError, match="needs a CURVE key"):
            Subscriber(context, [STATE], "me").connect("sim", address)
    for address in ("tcp://127.0.0.1:*", "tcp://[::1]:*", "tcp://localhost:*"):
        socket = make_socket(context, zmq.XPUB)
        socket.setsockopt(zmq.IPV6, 1)
        claim = BoundEndpoint(socket, address)
        assert claim.endpoint.startswith("tcp://")
        assert socket.getsockopt(zmq.HEARTBEAT_IVL) == 100
        socket.close()


def test_a_live_ipc_path_cannot_be_taken_and_a_dead_one_can(context: Any, domain: int) -> None:
    endpoint = ipc_endpoint(domain, "sim.data")
    first = Publisher(context, "sim", endpoint)
    with pytest.raises(AddressError, match="in use by a live process"):
        Publisher(context, "sim", endpoint)
    first.close()
    Path(endpoint.removeprefix("ipc://")).touch()  # what a killed process leaves
    Publisher(context, "sim", endpoint).close()


@pytest.mark.parametrize("receive", [Subscriber.receive, Subscriber.receive_batch])
def test_a_subscriber_that_is_connected_to_no_publisher_waits_without_a_busy_loop(
    receive: Callable[[Subscriber, float], Any], context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscriber, looks = Subscriber(context, [STATE], "listener"), []
    monotonic = time.monotonic

    def counted() -> float:
        looks.append(threading.current_thread())
        return monotonic()

    monkeypatch.setattr(time, "monotonic", counted)
    began = monotonic()
    assert not receive(subscriber, 0.2)
    assert monotonic() - began >= 0.2
    assert looks.count(threading.current_thread()) <= 3


def test_no_other_thread_runs_while_a_message_is_sent(context: Any, publisher: Publisher, until: Until) -> None:
    subscriber = listener(context, publisher, until, None)
    payload = publisher.publish(STATE, RobotState(timestamp=1.0))
    interval_s = sys.getswitchinterval()
    began, stop = threading.Event(), threading.Event()
    ran: list[int] = []

    def run() -> None:
        began.wait()
        while not stop.is_set():
            ran.append(1)

    other = threading.Thread(target=run)
    other.start()
    try:
        sys.setswitchinterval(60.0)  # another thread runs only where this thread releases the lock
        began.set()
        for _ in range(1000):
            publisher.send(STATE, payload)
        ran_while_sending = len(ran)
    finally:
        sys.setswitchinterval(interval_s)
        stop.set()
        other.join()
    assert ran_while_sending == 0
    assert subscriber.receive(1.0) is not None
    subscriber.close()


def test_a_closed_publisher_sends_nothing_and_raises_an_error(context: Any, domain: int) -> None:
    publisher = Publisher(context, "arm", ipc_endpoint(domain, "closed.data"))
    publisher.publish(STATE, RobotState(timestamp=1.0))
    publisher.close()
    with pytest.raises(zmq.ZMQError, match="non-socket"):
        publisher.publish(STATE, RobotState(timestamp=1.0))
