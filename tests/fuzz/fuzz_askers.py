"""Sockets of ours that ask, or listen to the registry, under attack by who should answer."""

from __future__ import annotations

import os
import threading
from abc import abstractmethod

import msgspec
import zmq
from fuzz_frames import Frames, stream
from fuzz_receivers import DOMAIN, PATIENCE_S, LostError, Target

from nodes.framework.hosting.turns import RemotePort
from nodes.framework.messages.codec import encode
from nodes.framework.transport.bus import Context
from nodes.framework.transport.domain import ipc_endpoint
from nodes.framework.transport.host_config import news_endpoint
from nodes.framework.transport.registry import NEWS_TOPIC, News, NodeEntry
from nodes.framework.transport.registry_link import RegistryLink
from nodes.framework.transport.service import ServiceClient
from nodes.framework.transport.sockets import BoundEndpoint, make_socket


class Asking(Target):
    """One who waits for a reply; the attacker is who should give it, and gives everything else before it."""

    def __init__(self, context: Context, name: str, real: list[Frames]) -> None:
        super().__init__()
        self.name = name
        self.real = real
        self._attacker = make_socket(context, zmq.ROUTER)
        self._bound = BoundEndpoint(self._attacker, ipc_endpoint(DOMAIN, f"fuzz-{id(self)}"))
        self.endpoint = self._bound.endpoint

    @abstractmethod
    def ask(self) -> None:
        """Start the question; return when it is answered."""

    @abstractmethod
    def answer(self, request: bytes) -> bytes:
        """The right answer to a request."""

    @abstractmethod
    def refusals(self) -> int:
        """How many frames were refused so far."""

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
        self._bound.release()


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
        from nodes.framework.transport.service import ServiceError

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
        self._port = RemotePort(context, "node", self.endpoint, ["*"], publishes=True, deadline_s=PATIENCE_S)

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
        entry = NodeEntry(name="damp", pid=os.getpid(), endpoints={"data": "ipc:///tmp/a"}, publishes=["status"])
        news = [News(instance="1", revision=i, nodes=[entry] * i) for i in range(3)]
        self.real = [[NEWS_TOPIC, msgspec.msgpack.encode(each)] for each in news]
        self._attacker = make_socket(context, zmq.XPUB)
        self._bound = BoundEndpoint(self._attacker, news_endpoint(DOMAIN))
        self._heard = 0
        self._link = RegistryLink(DOMAIN)
        self._hear, self._link._receive = self._link._receive, self._count
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
        self._bound.release()
