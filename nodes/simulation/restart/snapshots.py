"""Snapshots of a run, and the point of a recorded run from which a new run continues.

A snapshot is taken in a step after all nodes have run and replied, before the simulation advances: the server holds the
commands of this step, and each participant the messages that wait for its next turn. The rest of the run depends on
nothing else.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from nodes.hosting.hosted import EncodedMessage
from nodes.messages import Event

FORMAT = 1
NEVER = 2**63 - 1
LEVEL = 6  # of zlib
ACTIONS = ("push", "set", "pause", "resume")  # kinds of the events of a user's actions that a restart repeats


class LinksState(msgspec.Struct, kw_only=True):
    """State of the links of a run: messages on their way, with arrival time, s, and number.

    links       draws and latest arrivals, see `Links.snapshot`
    commands    (arrival, number, node, topic, message) on their way to the server
    on_the_way  {node: (arrival, number, topic, message) on their way to the node}
    busy_until  {node: time before which the node has no turn, s}
    """

    links: dict[str, Any]
    commands: list[tuple[float, int, str, str, bytes]] = []
    on_the_way: dict[str, list[tuple[float, int, str, bytes]]] = {}
    busy_until: dict[str, float] = {}


class RunState(msgspec.Struct, kw_only=True):
    """State of a run at a tick, after the nodes have run.

    server   state of the simulation server, see `SimServer.run_state`
    nodes    {name: state of the node, see `HostedNode.snapshot`}, of the nodes that publish
    waiting  {name: messages for its next turn}
    links    state of the links, None for a run without
    """

    tick: int
    server: dict[str, Any]
    nodes: dict[str, bytes] = {}
    waiting: dict[str, list[tuple[str, bytes]]] = {}
    links: LinksState | None = None
    format: int = FORMAT

    def encode(self) -> bytes:
        """The `data` of a `Snapshot`."""
        return zlib.compress(_encoder.encode(self), LEVEL)

    @staticmethod
    def decode(data: bytes) -> RunState:
        """The state in the `data` of a `Snapshot`. ValueError, one line, for data that cannot be read."""
        try:
            found = _decoder.decode(zlib.decompress(data))
        except (zlib.error, msgspec.MsgspecError) as error:
            raise ValueError(f"its snapshot cannot be read: {error}") from None
        if found.format != FORMAT:
            raise ValueError(f"its snapshots have format {found.format}; this armswing reads format {FORMAT}")
        return found


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(RunState)


class Restart(msgspec.Struct, kw_only=True):
    """Point of a recorded run from which a new run continues.

    step_s     step of the run, s
    tick       first step whose messages are published, at least one after that of the snapshot
    run        the latest snapshot before `tick`
    code_hash  hash of the kernels in the recorded robot description
    fresh      {node: reason} of the nodes that start anew instead of from the snapshot
    played     {node: messages recorded from it between snapshot and `tick`, with their ticks}, of those nodes
    actions    (tick, event) of what users did between snapshot and `tick`, see `ACTIONS`
    """

    step_s: float
    tick: int
    run: RunState
    code_hash: str = ""
    fresh: dict[str, str] = {}
    played: dict[str, list[tuple[int, str, bytes]]] = {}
    actions: list[tuple[int, Event]] = []

    def encode(self) -> bytes:
        """The point as bytes, which are passed to the process of the simulation server."""
        return _encoder.encode(self)

    @staticmethod
    def decode(data: bytes) -> Restart:
        """The point that `encode` returned as bytes. ValueError, one line, for other bytes."""
        try:
            return _restart_decoder.decode(data)
        except msgspec.MsgspecError as error:
            raise ValueError(f"not a point of a recording: {error}") from None


_restart_decoder = msgspec.msgpack.Decoder(Restart)


class Played:
    """A port that returns the recorded messages of a node in place of the node, which does not run."""

    lossless, state, publishes = False, b"", True

    def __init__(self, name: str, decimation: int, step_s: float, messages: Sequence[tuple[int, str, bytes]]) -> None:
        self.name, self.decimation = name, decimation
        self._step_s = step_s
        self._at: dict[int, list[EncodedMessage]] = {}
        for tick, topic, payload in messages:
            self._at.setdefault(tick, []).append((topic, payload))

    def wants(self, topic: str) -> bool:
        """Always False: a recorded node receives no messages."""
        return False

    def turn(self, now: float, incoming: Sequence[EncodedMessage], kind: str = "") -> list[EncodedMessage]:
        """Messages that the node published at this simulation time in the recording."""
        return self._at.get(round(now / self._step_s), [])

    def restore(self, now: float, state: bytes, latched: Sequence[EncodedMessage], stamps: bool) -> None:
        """Does nothing."""

    def settle(self) -> list[EncodedMessage]:
        """Returns no messages, as no reply is ever pending."""
        return []


def require_robot(begin: Restart, code_hash: str) -> None:
    """Raise ValueError, one line, where the recorded robot or its kernels are not those of the simulation."""
    if begin.code_hash != code_hash:
        raise ValueError(
            f"the recording is of a robot with other equations (hash {begin.code_hash or 'none'}, here {code_hash}); "
            "its description or armswing changed, so the run cannot be continued"
        )


def next_snapshot(tick: int, snapshot_s: float, step_s: float) -> int:
    """The first tick from `tick` on at which a snapshot is taken: 0, and the last one before each `snapshot_s`.

    A run that is restarted at a multiple of `snapshot_s` thus takes a single step before.
    """
    if not snapshot_s:
        return NEVER
    every = max(round(snapshot_s / step_s), 1)
    return 0 if tick == 0 else math.ceil((tick + 1) / every) * every - 1


def waiting_plain(waiting: Mapping[str, Sequence[EncodedMessage]]) -> dict[str, list[EncodedMessage]]:
    """The waiting messages by participant, {name: messages}, without participants that have none."""
    return {name: list(messages) for name, messages in waiting.items() if messages}
