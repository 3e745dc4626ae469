"""The schedule: who hears what in which step, and the same bytes in one process as over sockets."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgpack
import msgspec
import pytest
import zmq

from nodes.framework.hosting.hosted import HostedNode
from nodes.framework.hosting.outgoing import EncodedMessage
from nodes.framework.hosting.turns import LockstepError, RemotePort, TurnServer
from nodes.framework.messages import Event, JointCommand, JointReference, Message
from nodes.framework.messages.codec import decode, encode
from nodes.framework.plan.launch_plan import NodePlan, Plan, SimPlan
from nodes.framework.simulation.compose import compose
from nodes.framework.simulation.lockstep import Scheduler
from nodes.framework.simulation.server import SimServer
from nodes.framework.transport.bus import Publisher, Subscriber
from nodes.framework.transport.domain import ipc_endpoint
from nodes.framework.transport.sockets import BoundEndpoint, make_socket
from nodes.node import Node

MakePlan = Callable[..., Plan]
Stream = list[tuple[str, bytes]]


class Told:
    """A participant that notes what it is told and says what a function says."""

    def __init__(
        self,
        name: str,
        wants: Sequence[str],
        say: Callable[[float], list[EncodedMessage]] = lambda _: [],
        decimation: int = 1,
        lossless: bool = False,
    ) -> None:
        self.publishes, self.state = True, b""
        self.name, self.decimation, self.lossless = name, decimation, lossless
        self._wants, self._say = wants, say
        self.turns: list[tuple[float, list[str]]] = []

    def subscribes_to(self, topic: str) -> bool:
        return topic.rpartition("/")[2] in self._wants

    def turn(self, now: float, heard: Sequence[EncodedMessage], kind: str = "") -> list[EncodedMessage]:
        self.turns.append(
            (now, [f"{topic.rpartition('/')[2]}{decode(topic, p, self._kind(topic)).seq}" for topic, p in heard])
        )
        return self._say(now)

    def restore(self, now: float, state: bytes, latched: Sequence[EncodedMessage], stamps: bool) -> None:
        raise NotImplementedError

    def settle(self) -> list[EncodedMessage]:
        return []

    @staticmethod
    def _kind(topic: str) -> type[Message] | None:
        return JointReference if topic.endswith("/gripper_state") else None


def encoded(kind: Any, topic: str) -> Callable[[float], list[EncodedMessage]]:
    from nodes.framework.messages.codec import encode

    return lambda now: [(topic, encode(kind(seq=round(now * 1e3) + 1, timestamp=now)))]


def test_each_hears_the_state_and_what_earlier_ones_said_in_this_step(make_plan: MakePlan) -> None:
    say = encoded(JointReference, "rotary_pendulum/reference")
    first = Told("first", ["state", "reference"], say)
    second = Told("second", ["state", "reference"])
    scheduler = Scheduler(SimServer(make_plan(mode="lockstep")), [first, second])
    scheduler.server.start()
    for _ in range(2):
        scheduler.step()
    assert [heard for _, heard in first.turns] == [["state1"], ["state2"]]  # its own word does not come back
    assert [heard for _, heard in second.turns] == [["state1", "reference1"], ["state2", "reference2"]]


def test_an_earlier_participant_hears_a_later_one_in_the_next_step(make_plan: MakePlan) -> None:
    early = Told("early", ["reference"])
    late = Told("late", [], encoded(JointReference, "rotary_pendulum/reference"))
    scheduler = Scheduler(SimServer(make_plan(mode="lockstep")), [early, late])
    scheduler.server.start()
    for _ in range(3):
        scheduler.step()
    assert [heard for _, heard in early.turns] == [[], ["reference1"], ["reference2"]]


def test_a_slower_participant_hears_the_latest_state_and_every_reference(make_plan: MakePlan) -> None:
    talker = Told("talker", [], encoded(JointReference, "rotary_pendulum/reference"))
    slow = Told("slow", ["state", "reference"], decimation=3)
    recorder = Told("recorder", ["state"], decimation=3, lossless=True)
    scheduler = Scheduler(SimServer(make_plan(mode="lockstep")), [talker, slow, recorder])
    scheduler.server.start()
    for _ in range(4):
        scheduler.step()
    assert slow.turns[1] == (
        pytest.approx(3e-3),
        ["reference2", "reference3", "state4", "reference4"],
    )
    assert recorder.turns[1][1] == ["state2", "state3", "state4"]
    scheduler.finish()
    assert recorder.turns[2][1] == ["state5"]
    assert len(slow.turns) == 2


def test_a_slower_participant_hears_every_message_of_a_users_topic(make_plan: MakePlan) -> None:
    talker = Told("talker", [], encoded(JointReference, "rotary_pendulum/gripper_state"))
    slow = Told("slow", ["gripper_state"], decimation=3)
    scheduler = Scheduler(SimServer(make_plan(mode="lockstep")), [talker, slow])
    scheduler.server.start()
    for _ in range(4):
        scheduler.step()
    assert slow.turns[1][1] == ["gripper_state2", "gripper_state3", "gripper_state4"]


def test_a_command_acts_in_the_step_it_is_given_in(make_plan: MakePlan) -> None:
    from nodes.framework.messages.codec import encode

    command = encode(JointCommand(name=["arm"], value=[0.02]))
    server = SimServer(make_plan(mode="lockstep"))
    scheduler = Scheduler(server, [Told("c", ["state"], lambda _: [("rotary_pendulum/command", command)])])
    scheduler.server.start()
    scheduler.step()
    assert server.simulation.joints()[2][0] == 0.02


def test_a_command_that_is_none_is_refused_and_the_run_goes_on(make_plan: MakePlan) -> None:
    server = SimServer(make_plan(mode="lockstep"))
    scheduler = Scheduler(server, [Told("c", [], lambda _: [("rotary_pendulum/command", b"\xc1")])])
    scheduler.server.start()
    scheduler.step()
    assert (server.tick, server.refusals.count) == (1, 1)


def composed(plan: Plan) -> Stream:
    stream: Stream = []
    with compose(plan, lambda topic, payload: stream.append((topic, payload))) as composition:
        composition.run()
    return stream


PLAN = ("Sweep", "Damp", "Keep")


def test_two_runs_in_one_process_are_the_same_bytes(make_plan: MakePlan) -> None:
    plan = make_plan(*PLAN, mode="lockstep", duration_s=0.3)
    first = composed(plan)
    assert first == composed(plan)
    counts = Counter(topic.rpartition("/")[2] for topic, _ in first)
    assert counts == {"description": 1, "state": 301, "body_poses": 18, "reference": 30, "command": 300, "snapshot": 1}


def test_two_runs_with_kernels_in_loops_are_the_same_bytes(make_plan: MakePlan) -> None:
    plan = make_plan(*PLAN, mode="lockstep", duration_s=0.1, **{"parameters.coordinates": "joint"})
    rolled = msgspec.structs.replace(plan, sim=msgspec.structs.replace(plan.sim, rolled=True))
    streams = composed(rolled)
    assert streams == composed(rolled)
    assert Counter(topic for topic, _ in streams) == Counter(topic for topic, _ in composed(plan))


def overheard(run: Any, plan: Plan, until: Callable[..., Any]) -> tuple[dict[str, list[bytes]], Any]:
    """Every message of a lockstep run over sockets, as an outsider hears it."""
    began = run(plan)
    topics = ["description", "state", "body_poses", "command", "reference", "snapshot"]
    listener = Subscriber(zmq.Context.instance(), [f"rotary_pendulum/{name}" for name in topics], "outsider")
    for entry in began.client.nodes():
        listener.connect(entry.name, entry.endpoints["data"])
    heard: Stream = []

    def listen() -> bool:
        for feed in listener.connections.values():
            while (item := feed.receive()) is not None:
                heard.append((item[0], item[2]))
        return listener.ready

    until(listen)
    began.call("sim", "resume", first=True)
    until(lambda: listen() and began.status()["state"] == "stopped", 30.0)
    until(lambda: listen() and sum(topic.endswith("/command") for topic, _ in heard) == 300)
    assert listener.lost == 0
    kept = began.call("keep", "dump")
    began.close()
    listener.close()
    return _by_topic(heard), kept


def _by_topic(stream: Stream) -> dict[str, list[bytes]]:
    topics: dict[str, list[bytes]] = {}
    for topic, payload in stream:
        topics.setdefault(topic, []).append(payload)
    return topics


def test_over_sockets_and_in_one_process_every_stream_is_the_same_bytes(
    make_plan: MakePlan, run: Any, until: Callable[..., Any]
) -> None:
    plan = make_plan(*PLAN, mode="lockstep", duration_s=0.3)
    first, kept_first = overheard(run, plan, until)
    second, kept_second = overheard(run, plan, until)
    here = composed(plan)
    latched = "rotary_pendulum/description"
    for streams in (first, second):
        expected = _by_topic(here)
        # state and poses of tick 0 were said before the outsider listened; what is latched is heard again
        for topic in ("state", "body_poses"):
            expected[f"rotary_pendulum/{topic}"] = expected[f"rotary_pendulum/{topic}"][1:]
        assert streams.keys() == expected.keys()
        for topic in expected.keys() - {latched}:
            assert streams[topic] == expected[topic], topic
        assert streams[latched] == expected[latched]
    order = [[topic, decode(topic, payload).seq, decode(topic, payload).timestamp] for topic, payload in here]
    assert kept_first == kept_second == order  # the recorder hears all of it, in the one order


def test_a_participant_publishes_only_the_topics_that_it_has_registered(domain: int) -> None:
    context: Any = zmq.Context()
    participant = make_socket(context, zmq.ROUTER)
    claim = BoundEndpoint(participant, ipc_endpoint(domain, "p.step"))
    topics = ["robot/command", "status"]
    port = RemotePort(context, "p", claim.endpoint, [], publishes=True, deadline_s=10.0, topics=topics)
    own = Event(kind="set", node="p", key="gain")
    permitted = [("robot/command", b"xyz"), ("robot/p/plot", b"abc"), ("robot/event", encode(own, "robot/event"))]
    forged = [("robot/state", b"xyz"), ("robot/event", encode(Event(kind="reset"), "robot/event"))]

    def answer() -> None:
        for seq in (1, 2):
            route, _ = participant.recv_multipart()
            participant.send_multipart([route, msgpack.packb([seq, [forged[0], *permitted, forged[1]]])])

    thread = threading.Thread(target=answer)
    thread.start()
    assert [port.turn(0.5, []), port.turn(0.6, [])] == [permitted, permitted]
    thread.join()
    assert port.forged == {"robot/state from p": 2, "robot/event from p": 2}
    assert port.refusals.count == 4
    port.close()
    participant.close()
    claim.release()
    context.term()


def test_a_participant_that_does_not_answer_is_named(domain: int) -> None:
    context: Any = zmq.Context()
    silent = make_socket(context, zmq.ROUTER)
    claim = BoundEndpoint(silent, ipc_endpoint(domain, "silent.step"))
    port = RemotePort(context, "damp", claim.endpoint, ["robot/state"], publishes=True, deadline_s=0.05)
    with pytest.raises(LockstepError, match=r"'damp' did not reply to turn 1 within 50 ms"):
        port.turn(0.0, [])
    port.close()
    silent.close()
    claim.release()
    context.term()


def test_replies_to_another_turn_are_not_taken_for_this_one(domain: int) -> None:
    context: Any = zmq.Context()
    participant = make_socket(context, zmq.ROUTER)
    claim = BoundEndpoint(participant, ipc_endpoint(domain, "p.step"))
    port = RemotePort(context, "p", claim.endpoint, [], publishes=True, deadline_s=2.0)

    def answer() -> None:
        route, request = participant.recv_multipart()
        seq, now, heard = msgpack.unpackb(request)
        assert (seq, now, heard) == (1, 0.5, [["robot/state", b"abc"]])
        for noise in (b"", b"\xc1", msgpack.packb([99, []]), msgpack.packb([1, [["topic"]]])):
            participant.send_multipart([route, noise])
        participant.send_multipart([route, msgpack.packb([1, [["robot/command", b"xyz"]]])])

    thread = threading.Thread(target=answer)
    thread.start()
    assert port.turn(0.5, [("robot/state", b"abc")]) == [("robot/command", b"xyz")]
    thread.join()
    port.close()
    participant.close()
    claim.release()
    context.term()


class Ticked(Node):
    """Notes the times of its turns."""

    rate_hz = 1000.0

    def __init__(self) -> None:
        self.times: list[float] = []

    def on_message(self, name: str, message: Message) -> None:
        """Never called: it subscribes to nothing."""

    def on_tick(self, now: float) -> None:
        self.times.append(now)

    def on_reset(self, time: float) -> None:
        self.times.append(-1.0)


def test_a_late_copy_of_an_earlier_turn_is_refused_and_not_run_again(domain: int) -> None:
    context: Any = zmq.Context()
    node, plan = Ticked(), Plan(name="late", sim=SimPlan(robot="rotary_pendulum", mode="lockstep"))
    hosted = HostedNode(node, plan, NodePlan(name="ticked", run="x:X"), lambda *_: None, wall_clock=False)
    server = TurnServer(context, hosted, ipc_endpoint(domain, "ticked.step"))
    publisher = Publisher(context, "ticked", ipc_endpoint(domain, "ticked.data"))
    old, new = make_socket(context, zmq.DEALER), make_socket(context, zmq.DEALER)

    def turn(link: Any, seq: int, now: float) -> Any:
        link.send(msgpack.packb([seq, now, []]))
        assert server.socket.poll(5000)
        server.serve(publisher)
        return msgpack.unpackb(link.recv())[0] if link.poll(100) else None

    for link in (old, new):
        link.connect(server.endpoint)
    try:
        assert turn(old, 1, 0.001) == 1
        assert turn(new, 1, 0.001) == 1  # sent again
        assert turn(new, 2, 0.002) == 2
        assert turn(old, 1, 0.001) is None  # what the old link delivers once it is back
        assert turn(new, 3, 0.003) == 3
        assert node.times == [0.001, 0.002, 0.003]
        assert server.refusals.count == 1
        assert "a late copy of the request of turn 1; turn 2 has been run" in server.refusals.last
    finally:
        for each in (old, new, publisher, server):
            each.close()
        context.term()


def test_a_port_that_replaces_another_continues_its_numbers(domain: int) -> None:
    context: Any = zmq.Context()
    participant = make_socket(context, zmq.ROUTER)
    claim = BoundEndpoint(participant, ipc_endpoint(domain, "q.step"))
    port = RemotePort(context, "q", claim.endpoint, [], publishes=False, seq=7)
    port.turn(0.5, [])
    assert msgpack.unpackb(participant.recv_multipart()[1])[0] == port.seq == 8
    port.close()
    participant.close()
    claim.release()
    context.term()


def test_the_composed_run_can_be_reset(make_plan: MakePlan, node_file: Path) -> None:
    stream: Stream = []
    with compose(make_plan("Damp", mode="lockstep"), lambda *item: stream.append(item)) as composition:
        composition.step(20)
        before = [decode(t, p) for t, p in stream if t.endswith("state")][1:21]
        composition.request("reset")
        count = len(stream)
        composition.step(20)
        after = [decode(t, p) for t, p in stream[count:] if t.endswith("state")]
        assert [s.position for s in before] == [s.position for s in after]  # type: ignore[attr-defined]
