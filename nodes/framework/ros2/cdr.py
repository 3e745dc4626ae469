"""CDR, the encoding of ROS 2 messages on the wire and in bags: XCDR version 1, plain, either byte order.

Every value is aligned to its size, counted from the end of the header of 4 bytes. Each message has a function of its
own per direction, generated from its fields: scalars that follow each other are packed in one call, for each of the
eight positions at which they can begin.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import TypeVar

from nodes.framework.ros2.cdr_functions import decoding_function, encoding_function
from nodes.framework.ros2.interface import RosMessage, type_name

M = TypeVar("M", bound=RosMessage)

MAX_BYTES = 1 << 24
HEADER = b"\x00\x01\x00\x00"  # plain CDR, little-endian
_BYTE_ORDERS = {b"\x00\x00": ">", b"\x00\x01": "<"}
_PADDING = 3  # most bytes after the last field: some writers fill up to a multiple of 4


class CdrError(ValueError):
    """Bytes that are not a message of a type, or a message that does not fit its type.

    Attributes: type_name, reason.
    """

    exit_code = 2

    def __init__(self, type_name: str, reason: str) -> None:
        super().__init__(f"{type_name}: {reason}")
        self.type_name = type_name
        self.reason = reason


def encode(message: RosMessage) -> bytes:
    """The message in CDR, little-endian, with its header.

    Raises CdrError if a value does not fit the type of its field.
    """
    try:
        body = _encoding(type(message))(message)
    except (struct.error, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise CdrError(type_name(type(message)), f"a value does not fit its field: {error}") from None
    if len(body) > MAX_BYTES:
        raise CdrError(type_name(type(message)), f"the message has {len(body)} bytes; at most {MAX_BYTES} are allowed")
    return HEADER + body


def decode(kind: type[M], payload: bytes | memoryview) -> M:
    """The message of type `kind` that the payload contains.

    Raises CdrError if the payload is invalid or too large. No more memory is used than the payload's length, times a
    constant.
    """
    size = len(payload)
    byte_order = _BYTE_ORDERS.get(bytes(payload[:2]))
    if size < len(HEADER) or byte_order is None:
        raise CdrError(
            type_name(kind), f"the payload begins with {bytes(payload[:4]).hex(' ')!r}, not with a CDR header"
        )
    if size > MAX_BYTES:
        raise CdrError(type_name(kind), f"the message has {size} bytes; at most {MAX_BYTES} are allowed")
    body = bytes(payload[4:])
    try:
        message: M
        message, end = _decoding(kind, byte_order)(body)
    except (struct.error, ValueError) as error:
        raise CdrError(type_name(kind), f"the payload is not such a message: {error}") from None
    if len(body) - end > _PADDING:
        raise CdrError(type_name(kind), f"{len(body) - end} bytes follow the last field")
    return message


@cache
def _encoding(kind: type[RosMessage]) -> Callable[[RosMessage], bytes]:
    return encoding_function(kind)


@cache
def _decoding(kind: type[M], byte_order: str) -> Callable[[bytes], tuple[M, int]]:
    return decoding_function(kind, byte_order)
