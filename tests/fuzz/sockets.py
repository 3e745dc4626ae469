"""Mutations of real frames, thrown at every kind of socket there is: none may die, and every frame is accounted for.

    python tests/fuzz/sockets.py --mutations 1000000 --seed 1

The same seed makes the same mutations. Sockets: the stream as a subscriber hears it (all topics, or some), a publisher
that is spoken to, services and their callers, lockstep turns and who asks for them, the registry's calls and its news.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import zmq

from nodes.controllers.swing_up import SwingUp
from nodes.runtime.hosted import HostedNode
from nodes.runtime.plan import NodePlan, Plan, SimPlan
from nodes.runtime.turns import RemotePort, TurnServer
from nodes.wire import messages
from nodes.wire.bus import Context, Publisher, Subscriber
from nodes.wire.codec import encode
from nodes.wire.domain import ipc_endpoint
from nodes.wire.messages import Message
from nodes.wire.registry import NEWS_TOPIC, News, NodeEntry, Registry
from nodes.wire.registry_link import RegistryLink
from nodes.wire.service import ServiceClient, ServiceServer
from nodes.wire.site import calls_endpoint, news_endpoint
from nodes.wire.sockets import Claim, make_socket
from nodes.wire.stamp import Arrivals

BATCH = 200
PATIENCE_S = 20.0
DOMAIN = 3
ROBOT = "rotary_pendulum"

Frames = list[bytes]


class LostError(AssertionError):
    """A socket died, or frames are not accounted for; the only argument is one line."""


class Mutator:
    """Seeded changes of frames: bits, bytes, lengths, extreme numbers, parts of others, more or fewer frames."""

    NUMBERS = (
        *(b"\xcb" + struct.pack(">d", x) for x in (float("nan"), float("inf"), -1.0, 1e308, 5e-324, 9e9)),
        *(b"\xcf" + struct.pack(">Q", x) for x in (0, 2**53, 2**63, 2**64 - 1)),
        b"\xd3" + struct.pack(">q", -(2**63)),
        *(
            b"\xdd\xff\xff\xff\xff",
            b"\xdf\xff\xff\xff\xff",
            b"\xdb\xff\xff\xff\xff",
            b"\xc0",
            b"\xc1",
            b"\x90",
            b"\x80",
        ),
    )

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)

    def mutate(self, real: list[Frames]) -> Frames:
        """One of these messages with one to four changes."""
        dice = self._dice
        frames = list(dice.choice(real))
        for _ in range(dice.choice((1, 1, 1, 2, 4))):
            index = dice.randrange(len(frames))
            frames[index] = dice.choice(self._changes)(self, frames[index], dice.choice(dice.choice(real)))
        if dice.random() < 0.05:
            frames.insert(dice.randrange(len(frames) + 1), dice.randbytes(dice.randrange(4)))
        elif dice.random() < 0.05 and len(frames) > 1:
            frames.pop(dice.randrange(len(frames)))
        return frames

    def _flip(self, frame: bytes, _: bytes) -> bytes:
        at = self._place(frame)
        return frame[:at] + bytes([(frame[at] if frame else 0) ^ (1 << self._dice.randrange(8))]) + frame[at + 1 :]

    def _insert(self, frame: bytes, _: bytes) -> bytes:
        at = self._place(frame)
        return frame[:at] + self._dice.randbytes(self._dice.randrange(1, 9)) + frame[at:]

    def _delete(self, frame: bytes, _: bytes) -> bytes:
        at = self._place(frame)
        return frame[:at] + frame[at + self._dice.randrange(1, 9) :]

    def _cut(self, frame: bytes, _: bytes) -> bytes:
        return frame[: self._place(frame)]

    def _number(self, frame: bytes, _: bytes) -> bytes:
        at = self._place(frame)
        number = self._dice.choice(self.NUMBERS)
        return frame[:at] + number + frame[at + self._dice.choice((0, 1, len(number))) :]

    def _splice(self, frame: bytes, other: bytes) -> bytes:
        return frame[: self._place(frame)] + other[self._place(other) :]

    def _nest(self, frame: bytes, _: bytes) -> bytes:
        at = self._place(frame)
        return frame[:at] + self._dice.choice((b"\x91", b"\x81\xa1k")) * self._dice.choice((3, 200, 5000)) + frame[at:]

    def _again(self, frame: bytes, _: bytes) -> bytes:
        return frame * self._dice.randrange(2, 4)

    def _place(self, frame: bytes) -> int:
        return self._dice.randrange(len(frame)) if frame else 0

    _changes = (_flip, _flip, _flip, _insert, _delete, _cut, _number, _number, _splice, _nest, _again)


class Target:
    """A socket of ours under attack. `throw` sends a batch at it and returns when all of it is accounted for.

    real  messages as they are, which are mutated
    sound, refused  how many of the mutations were messages all the same, and how many were counted as refused
    """

    name = ""
    real: list[Frames]

    def __init__(self) -> None:
        self.sound = self.refused = 0

    def throw(self, batch: list[Frames]) -> None:
        """Send and wait; LostError when the socket does not account for every one."""
        raise NotImplementedError

    def close(self) -> None:
        """Free the sockets."""

    def _settle(self, batch: list[Frames], done: Callable[[], int]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while (count := done()) < len(batch):
            if time.monotonic() > deadline:
                raise LostError(f"{self.name}: {count} of {len(batch)} frames are accounted for after {PATIENCE_S:g} s")


def stream() -> list[tuple[str, Message]]:
    """A message of every topic, as a launch says them."""
    m = messages
    joints = {"name": ["arm", "pendulum"], "position": [0.1, 3.1], "velocity": [0.2, -0.3], "effort": [0.01, 0.0]}
    description = m.Description(
        robot=ROBOT,
        joints=[m.JointDescription(name="arm", lower=-2.0, upper=2.0), m.JointDescription(name="pendulum")],
        actuators=[m.ActuatorDescription(name="arm", joint="arm", effort_limit=0.05)],
        bodies=[m.BodyDescription(name="arm", mass=0.1, shapes=[m.Shape(kind="box", size=[0.1, 0.1, 0.2])])],
        parameters={"torque_limit": 0.05},
        outputs=["tip"],
        step_s=1e-3,
    )
    said: dict[str, Message] = {
        "description": description,
        "state": m.RobotState(**joints, phi=1e-12, energy=0.02, outputs={"tip": 0.1}),
        "body_poses": m.BodyPoses(p=[0.0] * 6, quaternion=[1.0, 0.0, 0.0, 0.0] * 2),
        "command": m.JointCommand(name=["arm"], value=[0.02], answers=7),
        "reference": m.Reference(name=["arm"], position=[0.5], velocity=[0.1], acceleration=[0.0]),
        "event": m.Event(kind="set", node="swing_up", key="gain", old="1", new="2"),
        "cmd_vel": m.Twist(linear=[0.0, 0.2, 0.0]),
        "encoders": m.Encoders(name=["wheel"], count=[1234], pulses_per_turn=2250),
        "measured": m.RobotState(**joints),
        "residual": m.Residual(name=["arm"], position=[0.001], answers=7),
    }
    status = m.Status(node="sim", state="running", counters={"lost": 0}, timing={"step_p50_s": 1e-4})
    rows = [(f"{ROBOT}/{name}", message) for name, message in said.items()] + [("status", status)]
    for seq, (_, message) in enumerate(rows, 1):
        message.seq, message.timestamp, message.sent_ns = seq, 1.25, 1_700_000_000_000_000_000
    return rows


def stream_frames() -> list[Frames]:
    """The same as [topic, payload]."""
    return [[topic.encode(), encode(message, topic)] for topic, message in stream()]


class Repeats(Arrivals):
    """Takes no offence at a seq that mutation made too large: what comes after it would all be repeats."""

    def is_new(self, topic: str, seq: int) -> bool:
        return True


class Listening(Target):
    """A subscriber; the attacker is the publisher that it listens to."""

    def __init__(self, context: Context, topics: Iterable[str] | None) -> None:
        super().__init__()
        self.name = "subscriber of all topics" if topics is None else "subscriber of some topics"
        self.real = stream_frames()
        self._attacker = make_socket(context, zmq.XPUB)
        self._claim = Claim(self._attacker, ipc_endpoint(DOMAIN, f"fuzz-{id(self)}"))
        self._subscriber = Subscriber(context, topics, "fuzzed")
        self._feed = self._subscriber.connect("attacker", self._claim.endpoint)
        self._feed.arrivals = Repeats()
        self._wanted = [b""] if topics is None else [topic.encode() for topic in topics]
        for _ in range(len(self._wanted) + 1):
            self._attacker.recv()

    def throw(self, batch: list[Frames]) -> None:
        for frames in batch:
            self._attacker.send_multipart(frames)
        self._attacker.send_multipart([b"~", b""])  # the probe, which comes back when all before it was heard
        self._feed.ready = False
        before, sound = self._subscriber.refused, 0
        deadline = time.monotonic() + PATIENCE_S
        while not self._feed.ready:
            sound += self._subscriber.receive(0.001) is not None
            if time.monotonic() > deadline:
                raise LostError(f"{self.name}: is deaf")
        passed = [frames for frames in batch if any(map(frames[0].startswith, self._wanted))]
        probes = sum(frames[0].startswith(b"~") for frames in batch)
        refused = self._subscriber.refused - before
        unasked = 0 if self._wanted == [b""] else len(passed) - sound - refused
        # a topic that only begins like one of ours is not for us, and no fault of anyone
        longer = sum(len(frames) == 2 and frames[0] not in self._wanted for frames in passed)
        if not len(passed) - probes - longer <= sound + refused + unasked <= len(passed) or not 0 <= unasked <= longer:
            raise LostError(f"{self.name}: {len(passed)} frames came, {sound} were heard and {refused} refused")
        self.sound += sound
        self.refused += refused

    def close(self) -> None:
        self._subscriber.close()
        self._attacker.close()
        self._claim.release()


class Publishing(Target):
    """A publisher; the attacker is a subscriber that speaks."""

    name = "publisher"

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.real = [[b"\x01~"], [b"\x01"], [b"\x00status"], [b"\x01rotary_pendulum/state"], *stream_frames()]
        self._publisher = Publisher(context, "fuzzed", ipc_endpoint(DOMAIN, "fuzz-publisher"))
        for topic, message in stream():
            self._publisher.publish(topic, message)
        self._attacker = make_socket(context, zmq.XSUB)
        self._attacker.connect(self._publisher.endpoint)

    def throw(self, batch: list[Frames]) -> None:
        before = self._publisher.refusals.count
        # the attacker's own libzmq would take these for its subscriptions, and join what is left of two messages
        batch = [[first, *(b"~" + x if x[:1] in (b"\x00", b"\x01") else x for x in rest)] for first, *rest in batch]
        for frames in batch:
            self._attacker.send_multipart(frames)
        # libzmq takes subscriptions out of a message; what is left of it arrives on its own
        spoken = sum(frames[0][:1] not in (b"\x00", b"\x01") for frames in batch)
        left = sum(len(frames) - 1 for frames in batch if frames[0][:1] in (b"\x00", b"\x01"))

        def accounted() -> int:
            self._publisher.serve_subscriptions()
            while self._attacker.poll(0):
                self._attacker.recv_multipart()
            counted = self._publisher.refusals.count - before >= spoken and not self._publisher.socket.poll(5)
            return len(batch) * counted

        self._settle(batch, accounted)
        refused = self._publisher.refusals.count - before
        if not spoken <= refused <= spoken + left:
            raise LostError(f"publisher: {spoken} frames were no subscriptions, {refused} were refused")
        self.refused += refused
        self.sound += len(batch) - refused

    def close(self) -> None:
        self._attacker.close()
        self._publisher.close()


def calls() -> list[Frames]:
    """Calls as the command line and the nodes make them, the registry's among them."""
    entry = NodeEntry(name="damp", pid=os.getpid(), endpoints={"data": "ipc:///tmp/a", "service": "ipc:///tmp/b"})
    made: list[tuple[str, dict[str, Any]]] = [
        ("status", {}),
        ("speed", {"x": 2.0}),
        ("set_parameters", {"gain": 1.0, "names": ["a", "b"]}),
        ("register", msgspec.to_builtins(entry)),
        ("ready", {"name": "damp"}),
        ("nodes", {}),
        ("unregister", {"name": "damp"}),
    ]
    whole = [msgspec.msgpack.encode({"id": i, "call": name, "args": args}) for i, (name, args) in enumerate(made)]
    return [[payload] for payload in whole] + [[b"", payload] for payload in whole]


class Serving(Target):
    """A service; the attacker calls it."""

    name = "service"

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.real = calls()
        self._service = ServiceServer(context, "fuzzed", ipc_endpoint(DOMAIN, "fuzz-service"))
        self._attacker = make_socket(context, zmq.DEALER)
        self._attacker.connect(self._service.endpoint)

    def throw(self, batch: list[Frames]) -> None:
        before, replies, heard = self._service.refusals.count, 0, 0
        for frames in batch:
            self._attacker.send_multipart(frames)

        def accounted() -> int:
            nonlocal replies, heard
            self._service.socket.poll(1)
            while (request := self._service.receive()) is not None:
                heard += 1
                self._service.reply(request, {"echo": request.call.call, "args": request.call.args})
            return heard + self._service.refusals.count - before

        self._settle(batch, accounted)
        while replies < heard and self._attacker.poll(1000):
            replies += bool(self._attacker.recv_multipart())
        refused = self._service.refusals.count - before
        if heard + refused != len(batch) or replies != heard:
            raise LostError(f"service: of {len(batch)} calls {heard} heard, {replies} answered, {refused} refused")
        self.sound += heard
        self.refused += refused

    def close(self) -> None:
        self._attacker.close()
        self._service.close()


class Registering(Target):
    """The registry; the attacker calls it as a node would."""

    name = "registry"

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.real = calls()
        self._registry = Registry(DOMAIN)
        self._registry.__enter__()
        self._attacker = make_socket(context, zmq.DEALER)
        self._attacker.connect(calls_endpoint(DOMAIN))

    def throw(self, batch: list[Frames]) -> None:
        refusals = self._registry._server.refusals
        before, replies = refusals.count, 0
        for frames in batch:
            self._attacker.send_multipart(frames)

        def accounted() -> int:
            nonlocal replies
            while self._attacker.poll(2):
                replies += bool(self._attacker.recv_multipart())
            return replies + refusals.count - before  # an entry that cannot be is both counted and answered

        self._settle(batch, accounted)
        self.sound += replies
        self.refused += refusals.count - before

    def close(self) -> None:
        self._attacker.close()
        self._registry.close()


def turns() -> list[Frames]:
    """Requests for lockstep turns."""
    heard = [(topic, encode(message, topic)) for topic, message in stream()]
    return [[msgspec.msgpack.encode((seq, 0.001 * seq, heard[:seq]))] for seq in range(len(heard))]


class Turning(Target):
    """A node in lockstep; the attacker asks for its turns."""

    name = "turns of a node"

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.real = turns()
        plan = Plan(name="fuzz", sim=SimPlan(robot=ROBOT, mode="lockstep"))
        hosted = HostedNode(SwingUp(), plan, NodePlan(name="swing_up", run="x:X"), lambda *_: None)
        self._turns = TurnServer(context, hosted, ipc_endpoint(DOMAIN, "fuzz-step"))
        self._publisher = Publisher(context, "swing_up", ipc_endpoint(DOMAIN, "fuzz-turns"))
        hosted.start()
        self._attacker = make_socket(context, zmq.DEALER)
        self._attacker.connect(self._turns.endpoint)

    def throw(self, batch: list[Frames]) -> None:
        before, replies = self._turns.refusals.count, 0
        for frames in batch:
            self._attacker.send_multipart(frames)

        def accounted() -> int:
            nonlocal replies
            self._turns.serve(self._publisher)
            while self._attacker.poll(0):
                replies += bool(self._attacker.recv_multipart())
            return replies + self._turns.refusals.count - before

        self._settle(batch, accounted)
        self.sound += replies
        self.refused += self._turns.refusals.count - before

    def close(self) -> None:
        self._attacker.close()
        self._publisher.close()
        self._turns.close()


class Asking(Target):
    """One who waits for a reply; the attacker is who should give it, and gives everything else before it.

    ask    starts the question and returns when it is answered
    sound_reply  the right answer to a request
    """

    def __init__(self, context: Context, name: str, real: list[Frames]) -> None:
        super().__init__()
        self.name = name
        self.real = real
        self._attacker = make_socket(context, zmq.ROUTER)
        self._claim = Claim(self._attacker, ipc_endpoint(DOMAIN, f"fuzz-{id(self)}"))
        self.endpoint = self._claim.endpoint

    def ask(self) -> None:
        raise NotImplementedError

    def answer(self, request: bytes) -> bytes:
        raise NotImplementedError

    def refusals(self) -> int:
        raise NotImplementedError

    def throw(self, batch: list[Frames]) -> None:
        before = self.refusals()
        asking = threading.Thread(target=self.ask, daemon=True)
        asking.start()
        route, request = self._attacker.recv_multipart()
        for frames in batch:
            self._attacker.send_multipart([route, *frames])
        self._attacker.send_multipart([route, self.answer(request)])
        asking.join(PATIENCE_S)
        refused = self.refusals() - before
        # a mutation that happens to be the answer ends the question, and the rest is refused at the next one
        if asking.is_alive() or not 0 <= self.refused + refused <= self.sound + self.refused + len(batch):
            raise LostError(f"{self.name}: is stuck, {refused} of {len(batch)} refused")
        self.refused += refused
        self.sound += len(batch) - refused

    def close(self) -> None:
        self._attacker.close()
        self._claim.release()


class Calling(Asking):
    """A caller of services."""

    def __init__(self, context: Context) -> None:
        replies = [
            {"id": 1, "ok": True, "result": {"time": 1.5, "nodes": ["sim"]}, "error": ""},
            {"id": 2, "ok": False},
        ]
        super().__init__(context, "caller of a service", [[msgspec.msgpack.encode(reply)] for reply in replies])
        self._client = ServiceClient(self.endpoint, context)

    def ask(self) -> None:
        from nodes.wire.service import ServiceError

        try:
            self._client.call("status", timeout_s=PATIENCE_S)
        except ServiceError as error:
            if "no reply" in str(error):
                raise

    def answer(self, request: bytes) -> bytes:
        return msgspec.msgpack.encode({"id": msgspec.msgpack.decode(request)["id"], "result": 1})

    def refusals(self) -> int:
        return self._client.refusals.count

    def close(self) -> None:
        self._client.close()
        super().close()


class Scheduling(Asking):
    """The server's side of a lockstep turn."""

    def __init__(self, context: Context) -> None:
        said = [(topic, encode(message, topic)) for topic, message in stream()]
        real = [[msgspec.msgpack.encode((seq, said[:seq]))] for seq in range(4)]
        super().__init__(context, "asker of turns", real)
        self._port = RemotePort(context, "node", self.endpoint, ["*"], speaks=True, deadline_s=PATIENCE_S)

    def ask(self) -> None:
        self._port.turn(0.0, [])

    def answer(self, request: bytes) -> bytes:
        return msgspec.msgpack.encode((msgspec.msgpack.decode(request)[0], []))

    def refusals(self) -> int:
        return self._port.refusals.count

    def close(self) -> None:
        self._port.close()
        super().close()


class Hearing(Target):
    """A node's link to the registry; the attacker publishes the news."""

    name = "news of the registry"

    def __init__(self, context: Context) -> None:
        super().__init__()
        entry = NodeEntry(name="damp", pid=os.getpid(), endpoints={"data": "ipc:///tmp/a"}, speaks=["status"])
        news = [News(instance="1", revision=i, nodes=[entry] * i) for i in range(3)]
        self.real = [[NEWS_TOPIC, msgspec.msgpack.encode(each)] for each in news]
        self._attacker = make_socket(context, zmq.XPUB)
        self._claim = Claim(self._attacker, news_endpoint(DOMAIN))
        self._heard = 0
        self._link = RegistryLink(DOMAIN)
        self._hear, self._link._hear = self._link._hear, self._count
        self._attacker.recv()

    def _count(self, frames: Frames) -> None:
        self._hear(frames)
        self._heard += 1

    def throw(self, batch: list[Frames]) -> None:
        before, heard = self._link.refusals.count, self._heard
        wanted = [frames for frames in batch if frames[0].startswith(NEWS_TOPIC)]
        for frames in batch:
            self._attacker.send_multipart(frames)
        self._settle(wanted, lambda: self._heard - heard)
        refused = self._link.refusals.count - before
        self.refused += refused
        self.sound += len(wanted) - refused

    def close(self) -> None:
        self._link.close()
        self._attacker.close()
        self._claim.release()


TARGETS: tuple[Callable[[Context], Target], ...] = (
    lambda context: Listening(context, None),
    lambda context: Listening(context, [topic for topic, _ in stream()]),
    Publishing,
    Serving,
    Registering,
    Turning,
    Calling,
    Scheduling,
    Hearing,
)


def fuzz(mutations: int, seed: int, tell: Callable[[str], None] = print) -> int:
    """Throw so many mutations, the same number at each kind of socket; how many they were. LostError when one dies."""
    logging.disable(logging.WARNING)  # refusals are counted here
    share, thrown = -(-mutations // len(TARGETS)), 0
    for number, make in enumerate(TARGETS):
        context: Context = zmq.Context()
        target = make(context)
        mutator = Mutator(seed * 1000 + number)
        began = time.monotonic()
        for size in _batches(share):
            target.throw([mutator.mutate(target.real) for _ in range(size)])
        thrown += share
        rate = share / (time.monotonic() - began)
        counts = f"{share:>7} mutations  {target.sound:>7} sound  {target.refused:>7} refused"
        tell(f"{target.name:<26} {counts}  {rate:.0f}/s")
        target.close()
        context.destroy(linger=0)
    logging.disable(logging.NOTSET)
    return thrown


def _batches(count: int) -> Iterator[int]:
    while count > 0:
        yield min(count, BATCH)
        count -= BATCH


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutations", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fz", dir="/tmp") as folder:
        Path(folder).chmod(0o700)
        os.environ["XDG_RUNTIME_DIR"] = folder
        try:
            print(f"{fuzz(given.mutations, given.seed)} mutations, every socket lives")
        except LostError as error:
            print(f"seed {given.seed}: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
