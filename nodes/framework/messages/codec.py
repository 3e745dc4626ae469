"""Encodes messages to MessagePack and decodes them. An invalid message raises `WireError` with topic and reason.

Besides types, the contents are checked: times and counts are in range, the lists of one message agree in length, and
the numbers that a controller computes with are finite. Diagnostics (phi, energy, outputs, timing) may have any value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from numbers import Real
from typing import Any, TypeVar, overload

import msgspec

from nodes.framework.messages.structs import (
    BodyPoses,
    Encoders,
    JointCommand,
    JointReference,
    Message,
    Polylines,
    RobotState,
    Twist,
)
from nodes.framework.messages.topics import lookup
from sim_core.support.suggestion import did_you_mean

MAX_BYTES = 1 << 20
LATEST_S = 9e9  # 285 years: in nanoseconds it still fits 64 bits, as recordings need
LARGEST_SEQ = 2**53
MODES = ("effort", "velocity", "position")  # modes of a JointCommand

M = TypeVar("M", bound=Message)


def _plain(value: Any) -> Any:
    """Plain number or list for a numpy number or array.

    msgspec calls this function for each value that it cannot encode itself.
    """
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return value.tolist()
    kind = type(value).__name__
    raise TypeError(f"a field has a value of type {kind}; convert it to a number, text, list, table or numpy array")


_encoder = msgspec.msgpack.Encoder(enc_hook=_plain)


class _Mode(msgspec.Struct):
    """The mode of an encoded JointCommand, decoded without the other fields."""

    mode: str = MODES[0]


_mode_decoder = msgspec.msgpack.Decoder(_Mode)


class WireError(ValueError):
    """A ZeroMQ frame or message that does not follow the protocol. Attributes: topic, reason."""

    exit_code = 2

    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(f"topic {topic!r}: {reason}")
        self.topic = topic
        self.reason = reason


@cache
def _decoder(kind: type[Message]) -> msgspec.msgpack.Decoder[Message]:
    return msgspec.msgpack.Decoder(kind)


class AnyMessage(Message, kw_only=True):
    """A message of a topic without a row in the topic table, whose type only its publisher and subscribers know.

    content  all fields of the message as plain data, including those of `Message`
    """

    content: dict[str, Any] = {}


_content_decoder = msgspec.msgpack.Decoder(dict[str, Any])


def encode(message: Message, topic: str = "") -> bytes:
    """The message encoded as MessagePack.

    Raises WireError, which names `topic`, if the message is invalid or too large.
    """
    try:
        _check(topic, message)
    except TypeError:  # a field with one number, with text, or with a 2-D array
        raise WireError(
            topic,
            f"{_not_a_list(message)} is not a list of numbers; give lists with one number for each name",
        ) from None
    try:
        payload = _encoder.encode(message)
    except (TypeError, ValueError, OverflowError) as error:
        raise WireError(topic, f"{type(message).__name__} cannot be encoded: {error}") from None
    if len(payload) > MAX_BYTES:
        raise WireError(topic, f"the message has {len(payload)} bytes; at most {MAX_BYTES} are allowed")
    return payload


@overload
def decode(topic: str, payload: bytes, kind: type[M]) -> M: ...


@overload
def decode(topic: str, payload: bytes, kind: None = None) -> Message: ...


def decode(topic: str, payload: bytes, kind: type[Message] | None = None) -> Message:
    """The message that a payload on a topic contains.

    kind  message type; None for the type in the topic table, or `AnyMessage` for a topic that is not in the table

    Raises WireError if the payload is invalid or too large.
    """
    if kind is None:
        row = lookup(topic)
        kind = AnyMessage if row is None else row.message
    if len(payload) > MAX_BYTES:
        raise WireError(topic, f"the message has {len(payload)} bytes; at most {MAX_BYTES} are allowed")
    try:
        message = _any_message(payload) if kind is AnyMessage else _decoder(kind).decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise WireError(topic, _why_none(kind, payload, error)) from None
    _check(topic, message)
    return message


def _any_message(payload: bytes) -> AnyMessage:
    head = _decoder(Message).decode(payload)
    content = _content_decoder.decode(payload)
    return AnyMessage(timestamp=head.timestamp, seq=head.seq, sent_ns=head.sent_ns, content=content)


def _check(topic: str, message: Message) -> None:
    """Raise WireError if the contents of a message are invalid. Called by the sender and by each receiver."""
    if not 0.0 <= message.timestamp <= LATEST_S:
        raise WireError(topic, f"timestamp is {message.timestamp}; it must be in 0 .. {LATEST_S:g} s")
    if not 0 <= message.seq <= LARGEST_SEQ:
        raise WireError(topic, f"seq is {message.seq}; it must be in 0 .. 2**53")
    check = _CHECKS.get(type(message))
    if check is not None:
        check(topic, message)


def _no_mode(mode: object) -> str:
    return f"mode is {str(mode)[:64]!r}; it must be one of {', '.join(MODES)}{did_you_mean(mode, MODES)}"


def _why_none(kind: type[Message], payload: bytes, error: Exception) -> str:
    """Reason why a payload is not a message of type `kind`, for the error message."""
    if kind is JointCommand:
        with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            if (mode := _mode_decoder.decode(payload).mode) not in MODES:
                return _no_mode(mode)
    what = "map of fields" if kind is AnyMessage else kind.__name__
    return f"the payload is not a {what}: {error}"


def _not_a_list(message: Message) -> str:
    """Text that names the first field of a message that should be a flat list of numbers and is not.

    An example is "field 'value' of JointCommand"; "a field of JointCommand" if no such field is found.
    """
    for field in msgspec.structs.fields(message):
        value = getattr(message, field.name)
        is_list = isinstance(value, list | tuple) or getattr(value, "ndim", 0) == 1
        if field.type == list[float] and not (is_list and all(isinstance(item, Real) for item in value)):
            return f"field {field.name!r} of {type(message).__name__}"
    return f"a field of {type(message).__name__}"


def _check_command(topic: str, command: JointCommand) -> None:
    if command.mode not in MODES:  # decoding has checked the mode, construction in a node has not
        raise WireError(topic, _no_mode(command.mode))
    if len(command.name) != len(command.value):
        raise WireError(
            topic,
            f"JointCommand has {len(command.name)} names for {len(command.value)} values; give one value per name",
        )
    # any value that is not finite makes the sum not finite; one sum costs less than a test of each value
    if not math.isfinite(sum(command.value)):
        _check_each(topic, value=command.value)


def _check_state(topic: str, state: RobotState) -> None:
    position, velocity, effort = state.position, state.velocity, state.effort
    count = len(state.name)
    if len(position) != count or len(velocity) != count or len(effort) not in (count, 0):
        raise WireError(
            topic,
            f"RobotState has {count} names for {len(position)} positions, {len(velocity)} velocities and "
            f"{len(effort)} efforts; give one position and one velocity per name, and one effort per name or none",
        )
    if not math.isfinite(sum(position) + sum(velocity) + sum(effort)):
        _check_each(topic, position=position, velocity=velocity, effort=effort)
    if state.frames or state.twists:
        if len(state.frames) % 7 or 6 * len(state.frames) != 7 * len(state.twists):
            numbers = f"{len(state.frames)} and {len(state.twists)} numbers"
            raise WireError(
                topic,
                f"frames and twists have {numbers}; give 7 numbers in frames and 6 in twists for each joint in "
                "Description.frames",
            )
        _check_each(topic, frames=state.frames, twists=state.twists)


def _check_reference(topic: str, reference: JointReference) -> None:
    position, velocity, acceleration = reference.position, reference.velocity, reference.acceleration
    count = len(reference.name)
    if len(position) != count or len(velocity) not in (count, 0) or len(acceleration) not in (count, 0):
        raise WireError(
            topic,
            f"JointReference has {count} names for {len(position)} positions, {len(velocity)} velocities and "
            f"{len(acceleration)} accelerations; give one position per name, and one velocity and one acceleration per "
            "name or none",
        )
    _check_each(topic, position=position, velocity=velocity, acceleration=acceleration)


def _check_poses(topic: str, poses: BodyPoses) -> None:
    if len(poses.p) % 3 or 4 * len(poses.p) != 3 * len(poses.quaternion):
        numbers = f"{len(poses.p)} and {len(poses.quaternion)} numbers"
        raise WireError(
            topic, f"BodyPoses has {numbers} in p and quaternion; give 3 numbers in p and 4 in quaternion for each body"
        )
    if not math.isfinite(sum(poses.p) + sum(poses.quaternion)):
        _check_each(topic, p=poses.p, quaternion=poses.quaternion)


def _check_lines(topic: str, lines: Polylines) -> None:
    if len(lines.name) != len(lines.count):
        raise WireError(
            topic,
            f"Polylines has {len(lines.name)} names for {len(lines.count)} counts of points; give one count per name",
        )
    if any(count < 0 for count in lines.count) or len(lines.points) != 3 * sum(lines.count):
        raise WireError(
            topic, f"field points has {len(lines.points)} numbers; give 3 for each of {sum(lines.count)} points"
        )
    if not math.isfinite(sum(lines.points)):
        _check_each(topic, points=lines.points)


def _check_twist(topic: str, twist: Twist) -> None:
    for name, values in (("linear", twist.linear), ("angular", twist.angular)):
        if len(values) != 3:
            plural = "" if len(values) == 1 else "s"
            raise WireError(topic, f"{name} has {len(values)} number{plural}; it must have 3")
    _check_each(topic, linear=twist.linear, angular=twist.angular)


def _check_encoders(topic: str, encoders: Encoders) -> None:
    if len(encoders.name) != len(encoders.count):
        raise WireError(
            topic, f"Encoders has {len(encoders.name)} names for {len(encoders.count)} counts; give one count per name"
        )


def _check_each(topic: str, **fields: list[float]) -> None:
    """Raise WireError for the first field with a number that is not finite.

    For speed, most callers call this function only if the sum of the numbers is not finite. A sum of finite numbers may
    overflow; this function therefore tests each number.
    """
    for name, values in fields.items():
        if not all(map(math.isfinite, values)):
            index, value = next((i, value) for i, value in enumerate(values) if not math.isfinite(value))
            raise WireError(topic, f"{name} is not finite: entry {index} is {value}; send finite numbers only")


_CHECKS: dict[type[Message], Callable[[str, Any], None]] = {
    JointCommand: _check_command,
    RobotState: _check_state,
    JointReference: _check_reference,
    BodyPoses: _check_poses,
    Polylines: _check_lines,
    Twist: _check_twist,
    Encoders: _check_encoders,
}
