"""Snapshots of a run, and the point of a recorded run from which a new run continues.

A snapshot is taken within a time step, after all nodes have run and replied and before the simulation advances. It
contains the state of the server, with the commands of this time step, and the state of each node, with the messages
that the node will receive when it next runs. The rest of the run depends on nothing else.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from nodes.framework.hosting.outgoing import EncodedMessage
from nodes.framework.messages import Event

FORMAT = 1
NEVER = 2**63 - 1
LEVEL = 6  # of zlib
LARGEST_BYTES = 4 << 20  # of a state that is not compressed, as of a message on the wire
# kinds of the events of a user's actions that a restart repeats
STOPS = ("estop", "estop_released")
ACTIONS = ("push", "set", "pause", "resume", *STOPS)


class LinksState(msgspec.Struct, kw_only=True):
    """State of the simulated communication links of a run: delayed messages, and state of the random delays and losses.

    Arrival times are simulation times in s. Messages with equal arrival times arrive in the order of their sequence
    numbers.

    links       number of random draws and latest arrival time for each pair of nodes, see `Links.snapshot`
    commands    (arrival time, sequence number, node, topic, message) of each message on its way to the server
    on_the_way  {node: (arrival time, sequence number, topic, message) of each message on its way to this node}
    busy_until  {node: simulation time (s) until which this node computes, and does not run again}
    """

    links: dict[str, Any]
    commands: list[tuple[float, int, str, str, bytes]] = []
    on_the_way: dict[str, list[tuple[float, int, str, bytes]]] = {}
    busy_until: dict[str, float] = {}


class RunState(msgspec.Struct, kw_only=True):
    """State of a run at a tick, after the nodes have run.

    server   state of the simulation server, see `RobotSimulation.run_state`
    nodes    {name of a node: state of the node, see `snapshot_of`}, for the nodes that publish topics
    waiting  {name of a node: messages that the node receives when it next runs}
    links    state of the simulated communication links; None for a run without them
    """

    tick: int
    server: dict[str, Any]
    nodes: dict[str, bytes] = {}
    waiting: dict[str, list[tuple[str, bytes]]] = {}
    links: LinksState | None = None
    format: int = FORMAT

    def encode(self) -> bytes:
        """The state as bytes, for the field `data` of a `Snapshot`."""
        return zlib.compress(_encoder.encode(self), LEVEL)

    @staticmethod
    def decode(data: bytes) -> RunState:
        """State of a run from the field `data` of a `Snapshot`.

        Raises ValueError with a one-line message if the data cannot be read.
        """
        try:
            content = zlib.decompressobj().decompress(data, LARGEST_BYTES + 1)
            if len(content) > LARGEST_BYTES:
                raise ValueError(f"it has more than {LARGEST_BYTES} bytes")
            found = _decoder.decode(content)
        except (zlib.error, ValueError, msgspec.MsgspecError, RecursionError) as error:
            raise ValueError(f"a snapshot of this recording cannot be read: {error}; record the run again") from None
        if found.format != FORMAT:
            raise ValueError(
                f"the snapshots of this recording have format {found.format}, but this version of armswing reads "
                f"format {FORMAT}; use the version of armswing that made the recording"
            )
        return found


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(RunState)


class Restart(msgspec.Struct, kw_only=True):
    """Point of a recorded run from which a new run continues.

    step_s     time step of the run in s
    tick       first tick at which the new run publishes messages
    run        state of the recorded run in the latest snapshot before `tick`
    code_hash  hash of the kernels in the recorded robot description
    fresh      {node: reason} of the nodes that start anew instead of from the snapshot
    played     {node: (tick, topic, encoded message) of each message that the node published between the snapshot and
               `tick`}; these messages are sent in place of a node that does not run during this time
    actions    (tick, event) of each action of a user between the snapshot and `tick`, see `ACTIONS`
    """

    step_s: float
    tick: int
    run: RunState
    code_hash: str = ""
    fresh: dict[str, str] = {}
    played: dict[str, list[tuple[int, str, bytes]]] = {}
    actions: list[tuple[int, Event]] = []

    def encode(self) -> bytes:
        """This point of a recorded run as bytes, which are passed to the process of the simulation server."""
        return _encoder.encode(self)

    @staticmethod
    def decode(data: bytes) -> Restart:
        """Point of a recorded run from the bytes that `encode` returned.

        Raises ValueError with a one-line message for other bytes.
        """
        try:
            return _restart_decoder.decode(data)
        except msgspec.MsgspecError as error:
            raise ValueError(f"the point of the recording at which to restart cannot be decoded: {error}") from None


_restart_decoder = msgspec.msgpack.Decoder(Restart)


class Played:
    """Stand-in for a node that does not run: sends the messages that the node published in the recording."""

    lossless, state, publishes = False, b"", True

    def __init__(self, name: str, decimation: int, step_s: float, messages: Sequence[tuple[int, str, bytes]]) -> None:
        self.name, self.decimation = name, decimation
        self._step_s = step_s
        self._at: dict[int, list[EncodedMessage]] = {}
        for tick, topic, payload in messages:
            self._at.setdefault(tick, []).append((topic, payload))

    def subscribes_to(self, topic: str) -> bool:
        """Always False: a recorded node receives no messages."""
        return False

    def turn(self, now: float, incoming: Sequence[EncodedMessage], kind: str = "") -> list[EncodedMessage]:
        """Messages that the node published at this simulation time in the recording."""
        return self._at.get(round(now / self._step_s), [])

    def restore(self, now: float, state: bytes, latched: Sequence[EncodedMessage], stamps: bool) -> None:
        """Do nothing, because a recorded node has no state to restore."""

    def settle(self) -> list[EncodedMessage]:
        """Return no messages, because no reply is ever pending."""
        return []


def require_robot(begin: Restart, code_hash: str) -> None:
    """Raise ValueError with a one-line message if the recorded robot and the simulated robot have different kernels."""
    if begin.code_hash != code_hash:
        raise ValueError(
            f"the recording has a robot with other equations (hash {begin.code_hash or 'none'}) than this simulation "
            f"(hash {code_hash}); use the robot description and the version of armswing that made the recording"
        )


def next_snapshot(tick: int, snapshot_s: float, step_s: float) -> int:
    """First tick at or after `tick` at which a snapshot is taken; NEVER if `snapshot_s` is 0.

    Snapshots are taken at tick 0, and one tick before each multiple of `snapshot_s`. A run that is restarted at such a
    multiple therefore computes only one tick again.
    """
    if not snapshot_s:
        return NEVER
    every = max(round(snapshot_s / step_s), 1)
    return 0 if tick == 0 else math.ceil((tick + 1) / every) * every - 1


def waiting_plain(waiting: Mapping[str, Sequence[EncodedMessage]]) -> dict[str, list[EncodedMessage]]:
    """{node: messages that wait for this node}, without the nodes for which no messages wait."""
    return {name: list(messages) for name, messages in waiting.items() if messages}
