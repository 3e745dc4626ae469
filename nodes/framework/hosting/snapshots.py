"""Snapshots of nodes between two lockstep steps: made, decoded, and put back into a node."""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from nodes.framework.hosting.hosted import HostedNode
from nodes.framework.hosting.node_state import decode_state, encode_state, keeps_state
from nodes.framework.hosting.outgoing import EncodedMessage
from nodes.framework.messages.codec import decode
from nodes.guard.stop_log import GuardLog
from nodes.node import Node


class NodeState(msgspec.Struct, kw_only=True):
    """Saved state of a node between two lockstep steps, with the data that its `HostedNode` keeps for it.

    code    checksum of the source of the node's class, see `code_of`
    params  the node's parameters
    time    simulation time (s)
    ticks   number of the next call of `on_tick`
    stamps  {topic: sequence number of the latest message that the node published on this topic}
    random  encoded state of the generator `context.random`; an encoded None if the generator was not used
    node    encoded result of `Node.snapshot`; None for a node without state
    guard   encoded state of the node's guard; None for a node without a guard
    guard_log  what the node's guard did so far, see `GuardLog.snapshot`; None if it did nothing
    """

    code: str
    params: dict[str, Any]
    time: float
    ticks: int
    stamps: dict[str, int]
    random: bytes
    node: bytes | None
    guard: bytes | None = None
    guard_log: dict[str, Any] | None = None


_decode = msgspec.msgpack.Decoder(NodeState).decode


def read_node_state(saved: bytes) -> NodeState:
    """The node state that `snapshot_of` encoded. Raises ValueError with a one-line message for other bytes."""
    try:
        return _decode(saved)
    except msgspec.MsgspecError as error:
        raise ValueError(
            f"the saved bytes do not contain the state of a node: {error}; use a snapshot of the same node"
        ) from None


def snapshot_of(hosted: HostedNode) -> bytes:
    """The encoded `NodeState` of the node after a lockstep step, for `restore`."""
    node, context = hosted.node, hosted.context
    home, keeps = type(node).__module__, keeps_state(type(node))
    made = context.random.bit_generator.state if "random" in vars(context) else None
    return msgspec.msgpack.encode(
        NodeState(
            code=code_of(type(node)),
            params=hosted.parameters.plain(),
            time=hosted.messages.time,
            ticks=hosted.ticks,
            stamps=hosted.messages.stamper.last,
            random=encode_state(made),
            node=encode_state(node.snapshot(), home) if keeps else None,
            guard=None if hosted.gate.guard is None else encode_state(hosted.gate.snapshot()),
            guard_log=None if hosted.guard_stops is None and not hosted.limited else hosted.guard_log.snapshot(),
        )
    )


def restore(hosted: HostedNode, saved: bytes, latched: Iterable[EncodedMessage], stamps: bool = True) -> None:
    """Continue from a result of `snapshot_of`. Messages that the node publishes during this call are discarded.

    latched  messages that the node received before the snapshot and that nobody will send again
    stamps   whether the sequence numbers of published messages continue from those in the snapshot
    """
    found = read_node_state(saved)
    out, hosted.messages.out = hosted.messages.out, _dropped
    try:
        for topic, payload in latched:
            if (known := hosted.subscriptions.get(topic)) is not None:
                hosted.deliver(topic, decode(topic, payload, known[1]))
        if found.params != hosted.parameters.plain():  # set while the run was recorded
            hosted.parameters.values = hosted.context.params = hosted.parameters.changed(found.params)
            hosted.messages.publish(hosted.node.on_parameters(hosted.parameters.values))
    finally:
        hosted.messages.out = out
    if (made := decode_state(found.random)) is not None:
        hosted.context.random.bit_generator.state = made
    if found.node is not None:
        hosted.node.restore(decode_state(found.node, type(hosted.node).__module__))
    if found.guard is not None:
        hosted.gate.restore(decode_state(found.guard))
    hosted.messages.time, hosted.ticks = found.time, found.ticks
    hosted.guard_log = GuardLog()
    if found.guard_log is not None:
        hosted.guard_log.restore(found.guard_log, hosted.stop_clock, hosted.passed)
    if stamps:
        hosted.messages.stamper.resume(found.stamps)


def code_of(cls: type[Node]) -> str:
    """CRC-32 of the source files of a node's class.

    The source files are those of the class and its base classes, and the modules in the same folders that these files
    import.
    """
    return _code_of(tuple(base.__module__ for base in cls.__mro__ if base not in (Node, object)))


@cache
def _code_of(modules: tuple[str, ...]) -> str:
    found: dict[str, bytes] = {}
    left = [sys.modules.get(name) for name in modules]
    while left:
        module = left.pop()
        file = getattr(module, "__file__", None)
        if file is None or file in found or not os.path.isfile(file):
            continue
        found[file] = Path(file).read_bytes()
        names = {getattr(value, "__module__", None) for value in vars(module).values()}
        used = [value for value in vars(module).values() if isinstance(value, ModuleType)]
        used += [sys.modules[name] for name in names if isinstance(name, str) and name in sys.modules]
        folder = os.path.dirname(file)
        left += [each for each in used if os.path.dirname(getattr(each, "__file__", None) or "") == folder]
    crc = 0
    for name, code in sorted((os.path.basename(file), code) for file, code in found.items()):
        crc = zlib.crc32(code, zlib.crc32(name.encode(), crc))
    return f"{crc:08x}"


def _dropped(_topic: str, _payload: bytes) -> None:
    """Discard a message. Serves as `out` of a node whose messages are not published."""
