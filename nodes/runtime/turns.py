"""Lockstep turns over DEALER/ROUTER: the server asks a participant once per due step and waits for its reply.

Request [head, topic, payload, topic, payload, ...], head = seq (uint64) and simulation time (float64), little
endian. Reply [seq, topic, payload, ...]: what the node said in that turn.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence

import zmq

from nodes.runtime.hosted import Envelope, HostedNode
from nodes.wire.bus import Context, Publisher
from nodes.wire.codec import MAX_BYTES
from nodes.wire.refusals import Refusals
from nodes.wire.sockets import Claim, connect, make_socket

HEAD = struct.Struct("<Qd")
SEQ = struct.Struct("<Q")


class LockstepError(RuntimeError):
    """A participant is not there or did not answer in time; the only argument is one line."""


class TurnServer:
    """A participant's side: takes requests, has the node do its turn, replies with what it said."""

    def __init__(self, context: Context, hosted: HostedNode, endpoint: str) -> None:
        self.received = 0
        self.refusals = Refusals(hosted.name)
        self._hosted = hosted
        self._said: list[Envelope] = []  # from the start on: a node may speak before its first turn
        hosted.out = self._collect
        self._socket = make_socket(context, zmq.ROUTER)
        try:
            self._claim = Claim(self._socket, endpoint)
        except ValueError:
            self._socket.close()
            raise
        self.endpoint = self._claim.endpoint

    @property
    def socket(self) -> zmq.Socket[bytes]:
        """The socket to poll for reading."""
        return self._socket

    def _collect(self, topic: str, payload: bytes) -> None:
        self._said.append((topic, payload))

    def serve(self, publisher: Publisher) -> None:
        """Do one turn if a request is here; what was said goes to the server first, then on the stream."""
        try:
            route, head, *frames = self._socket.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return
        except ValueError:
            self.refusals.refuse("(turn)", "a request without a head")
            return
        heard = _envelopes(frames)
        if len(head) != HEAD.size or heard is None:
            self.refusals.refuse("(turn)", "not a request: a head, then topics with payloads")
            return
        seq, now = HEAD.unpack(head)
        self.received += len(heard)
        self._hosted.turn(now, heard)
        said, self._said = self._said, []
        reply = [route, SEQ.pack(seq)]
        for topic, payload in said:
            reply += (topic.encode(), payload)
        self._socket.send_multipart(reply, zmq.NOBLOCK)
        for topic, payload in said:
            publisher.send(topic, payload)

    def close(self) -> None:
        """Take no more turns."""
        self._socket.close()
        self._claim.release()


class RemotePort:
    """The server's side of one participant in another process.

    A participant that speaks nothing (a recorder) cannot change this step, so its reply is awaited only
    before its next turn: it writes while the simulation goes on, and still loses nothing.
    """

    def __init__(
        self,
        context: Context,
        name: str,
        endpoint: str,
        listens: Sequence[str],
        speaks: bool,
        every: int = 1,
        lossless: bool = False,
        deadline_s: float = 1.0,
    ) -> None:
        self.name = name
        self.every = every
        self.lossless = lossless
        self._listens = frozenset(listens)
        self._speaks = speaks
        self._deadline_s = deadline_s
        self._seq = 0
        self._awaited = False
        self._socket = make_socket(context, zmq.DEALER)
        self._socket.setsockopt(zmq.SNDTIMEO, round(deadline_s * 1e3))
        connect(self._socket, endpoint)

    def wants(self, topic: str) -> bool:
        """Whether the participant listens to a topic."""
        return topic in self._listens or "*" in self._listens

    def turn(self, now: float, heard: Sequence[Envelope]) -> list[Envelope]:
        """Ask for one turn at simulation time `now`; what the participant said."""
        self.settle()
        self._seq += 1
        frames = [HEAD.pack(self._seq, now)]
        for topic, payload in heard:
            frames += (topic.encode(), payload)
        try:
            self._socket.send_multipart(frames)
        except zmq.Again:
            raise self._silent() from None
        self._awaited = True
        return self.settle() if self._speaks else []

    def settle(self) -> list[Envelope]:
        """Wait for the reply that is still due, if one is."""
        if not self._awaited:
            return []
        until = time.monotonic() + self._deadline_s
        while True:
            left = until - time.monotonic()
            if left <= 0.0 or not self._socket.poll(int(left * 1e3) + 1):
                raise self._silent()
            seq, *frames = self._socket.recv_multipart()
            said = _envelopes(frames)
            if len(seq) == SEQ.size and SEQ.unpack(seq)[0] == self._seq and said is not None:
                self._awaited = False
                return said

    def _silent(self) -> LockstepError:
        within = f"{self._deadline_s * 1e3:g} ms (deadline_ms)"
        return LockstepError(f"node {self.name!r} did not answer turn {self._seq} within {within}")

    def close(self) -> None:
        """Ask no more."""
        self._socket.close()


def _envelopes(frames: list[bytes]) -> list[Envelope] | None:
    """Topic and payload frames in pairs, None when they are not that."""
    if len(frames) % 2 or any(len(frame) > MAX_BYTES for frame in frames):
        return None
    try:
        return [(frames[i].decode(), frames[i + 1]) for i in range(0, len(frames), 2)]
    except UnicodeDecodeError:
        return None
