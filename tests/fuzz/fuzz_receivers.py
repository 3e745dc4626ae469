"""Sockets of ours that only take what comes, under attack: subscribers, publishers, services, the registry, turns."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

import zmq
from fuzz_frames import ROBOT, Frames, calls, stream, stream_frames, turns

from nodes.controllers.swing_up import SwingUp
from nodes.framework.hosting.hosted import HostedNode
from nodes.framework.hosting.turns import TurnServer
from nodes.framework.messages.stamp import SequenceTracker
from nodes.framework.plan.launch_plan import NodePlan, Plan, SimPlan
from nodes.framework.transport.bus import Context, Publisher, Subscriber
from nodes.framework.transport.domain import ipc_endpoint
from nodes.framework.transport.host_config import calls_endpoint
from nodes.framework.transport.registry import Registry
from nodes.framework.transport.service import ServiceServer
from nodes.framework.transport.sockets import BoundEndpoint, make_socket

PATIENCE_S = 20.0
DOMAIN = 3


class LostError(AssertionError):
    """A socket died, or frames are not accounted for; the only argument is one line."""


class Target(ABC):
    """A socket of ours under attack. `throw` sends a batch at it and returns when all of it is accounted for.

    real  messages as they are, which are mutated
    sound, refused  how many of the mutations were messages all the same, and how many were counted as refused
    """

    name = ""
    real: list[Frames]

    def __init__(self) -> None:
        self.sound = self.refused = 0

    @abstractmethod
    def throw(self, batch: list[Frames]) -> None:
        """Send and wait; LostError when the socket does not account for every one."""

    @abstractmethod
    def close(self) -> None:
        """Free the sockets."""

    def _settle(self, batch: list[Frames], done: Callable[[], int]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while (count := done()) < len(batch):
            if time.monotonic() > deadline:
                raise LostError(f"{self.name}: {count} of {len(batch)} frames are accounted for after {PATIENCE_S:g} s")


class Repeats(SequenceTracker):
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
        self._bound = BoundEndpoint(self._attacker, ipc_endpoint(DOMAIN, f"fuzz-{id(self)}"))
        self._subscriber = Subscriber(context, topics, "fuzzed")
        self._feed = self._subscriber.connect("attacker", self._bound.endpoint)
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
        self._bound.release()


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
