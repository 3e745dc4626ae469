"""Messages to MessagePack and back. What cannot be a message is a `WireError` that names topic and reason."""

from __future__ import annotations

import math
from functools import cache
from typing import TypeVar

import msgspec

from nodes.wire.messages import JointCommand, Message
from nodes.wire.topics import lookup

MAX_BYTES = 1 << 20

M = TypeVar("M", bound=Message)

_encoder = msgspec.msgpack.Encoder()


class WireError(ValueError):
    """A frame or message that does not belong on the wire. Attributes: topic, reason."""

    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(f"topic {topic!r}: {reason}")
        self.topic = topic
        self.reason = reason


@cache
def _decoder(kind: type[Message]) -> msgspec.msgpack.Decoder[Message]:
    return msgspec.msgpack.Decoder(kind)


def encode(message: Message, topic: str = "") -> bytes:
    """The message as MessagePack; `topic` only names it in an error."""
    if isinstance(message, JointCommand):
        _check_command(topic, message)
    try:
        payload = _encoder.encode(message)
    except (TypeError, ValueError, OverflowError) as error:
        raise WireError(topic, f"cannot be encoded: {error}") from None
    if len(payload) > MAX_BYTES:
        raise WireError(topic, f"{len(payload)} bytes, at most {MAX_BYTES} are allowed")
    return payload


def decode(topic: str, payload: bytes, kind: type[Message] | None = None) -> Message:
    """The message of a topic on the wire; `kind` for topics that the table does not have."""
    if kind is None:
        row = lookup(topic)
        if row is None:
            raise WireError(topic, "not a topic of the table")
        kind = row.message
    if len(payload) > MAX_BYTES:
        raise WireError(topic, f"{len(payload)} bytes, at most {MAX_BYTES} are allowed")
    try:
        message = _decoder(kind).decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise WireError(topic, f"not a {kind.__name__}: {error}") from None
    if kind is JointCommand:
        _check_command(topic, message)  # type: ignore[arg-type]
    return message


def _check_command(topic: str, command: JointCommand) -> None:
    if len(command.name) != len(command.value):
        raise WireError(topic, f"{len(command.name)} names for {len(command.value)} values")
    # one value that is not finite makes the sum so; summing costs less than asking each
    if not math.isfinite(sum(command.value)) and not all(map(math.isfinite, command.value)):
        raise WireError(topic, "a value is not finite")
