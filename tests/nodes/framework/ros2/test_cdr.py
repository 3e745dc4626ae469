"""CDR of every message: equal to that of rosbags, in both directions; damaged bytes are refused.

`make test` compares a hundred random messages of each type, `make soak` ten thousand.
"""

from __future__ import annotations

import random
import string
import struct
import sys
import tracemalloc
from typing import Any

import numpy as np
import pytest

from nodes.framework.ros2 import cdr
from nodes.framework.ros2.cdr import CdrError, decode, encode
from nodes.framework.ros2.cdr_functions import CODES
from nodes.framework.ros2.interface import Field, RosMessage, fields, type_name
from nodes.framework.ros2.interfaces.geometry_msgs import Twist
from nodes.framework.ros2.interfaces.rcl_interfaces import ParameterDescriptor, ParameterEvent, SetParameters
from nodes.framework.ros2.interfaces.sensor_msgs import Imu, JointState
from nodes.framework.ros2.interfaces.std_msgs import Bool, Empty, Float64MultiArray, String
from nodes.framework.ros2.interfaces.trajectory_msgs import JointTrajectory

COUNTS = [40, pytest.param(10_000, marks=pytest.mark.soak)]
LETTERS = string.ascii_letters + "_/ äß€\U0001f600\x00"
NUMPY = {"bool": "bool", "byte": "uint8", "float64": "float64", "float32": "float32"}
NUMPY |= {code: code for code in CODES if "int" in code}


def random_message(kind: type[RosMessage], source: random.Random) -> Any:
    return kind(**{each.name: random_value(each, source) for each in fields(kind)})


def random_value(field: Field, source: random.Random) -> Any:
    if not field.is_list:
        return random_one(field.kind, source)
    count = field.count if field.count is not None else source.randrange(min(field.bound or 5, 5) + 1)
    if field.kind in ("uint8", "byte"):
        return source.randbytes(count)
    return [random_one(field.kind, source) for _ in range(count)]


def random_one(kind: str | type[RosMessage], source: random.Random) -> Any:
    if not isinstance(kind, str):
        return random_message(kind, source)
    if kind == "string":
        return "".join(source.choices(LETTERS, k=source.randrange(9)))
    if kind == "bool":
        return source.random() < 0.5
    if kind.startswith("float"):
        bits = source.choice([0.0, -0.0, 1e-310, -1e300, float("inf"), -float("inf"), source.gauss(0, 1)])
        return float(np.float32(bits)) if kind == "float32" else bits
    size = struct.calcsize(CODES[kind])
    return struct.unpack(f"<{CODES[kind]}", source.randbytes(size))[0]


def as_rosbags(message: Any, store: Any) -> Any:
    """The message as an object of rosbags."""
    kind = store.types[type_name(type(message))]
    values = {}
    for each in fields(type(message)):
        value = getattr(message, each.name)
        if not each.is_list:
            values[each.name] = as_rosbags(value, store) if isinstance(value, RosMessage) else value
        elif each.kind == "string":
            values[each.name] = list(value)
        elif isinstance(each.kind, str):
            values[each.name] = np.array(list(value), dtype=NUMPY[each.kind])
        else:
            values[each.name] = [as_rosbags(entry, store) for entry in value]
    return kind(**values, **({"structure_needs_at_least_one_member": 0} if needs_member(message, kind) else {}))


def needs_member(message: Any, kind: Any) -> bool:
    return not fields(type(message)) and "structure_needs_at_least_one_member" in kind.__dataclass_fields__


@pytest.mark.parametrize("count", COUNTS)
def test_cdr_equals_that_of_rosbags_both_ways(message: type[RosMessage], store: Any, count: int) -> None:
    name = type_name(message)
    source = random.Random(name)
    for _ in range(count):
        ours = random_message(message, source)
        theirs = as_rosbags(ours, store)
        payload = encode(ours)
        expected = bytes(store.serialize_cdr(theirs, name, little_endian=True))
        assert payload == expected
        assert decode(message, expected) == ours
        assert decode(message, store.serialize_cdr(theirs, name, little_endian=False)) == ours


@pytest.mark.parametrize("message_kind", [JointState, ParameterEvent, JointTrajectory, SetParameters.Request])
def test_a_part_of_a_message_is_refused(message_kind: type[RosMessage]) -> None:
    source = random.Random(5)
    refused = 0
    for _ in range(20):
        payload = encode(random_message(message_kind, source))
        for end in range(len(payload)):
            with pytest.raises(CdrError):
                decode(message_kind, payload[:end])
            refused += 1
    assert refused > 1000


@pytest.mark.parametrize("count", [100, pytest.param(10_000, marks=pytest.mark.soak)])
def test_damaged_bytes_are_refused_or_are_a_message(message: type[RosMessage], count: int) -> None:
    """Decoding never ends with another error, and what is accepted can be encoded and decoded again."""
    source = random.Random(type_name(message))
    for _ in range(count):
        payload = bytearray(encode(random_message(message, source)))
        for _ in range(source.randrange(1, 6)):
            payload[source.randrange(len(payload))] = source.choice([0, 1, 0x7F, 0x80, 0xFF, source.randrange(256)])
        try:
            decoded = decode(message, bytes(payload))
        except CdrError:
            continue
        again = encode(decoded)
        assert encode(decode(message, again)) == again  # bytes, as nan differs from nan


@pytest.mark.parametrize("kind", [JointState, ParameterEvent, Float64MultiArray, JointTrajectory])
def test_a_count_that_lies_takes_no_memory(kind: type[RosMessage]) -> None:
    payload = cdr.HEADER + b"\xff" * 3 + b"\x7f" + bytes(4) + b"\xff\xff\xff\x7f" * 30
    longest = cdr.HEADER + bytes(8) + struct.pack("<I", 0) + bytes(4) + struct.pack("<I", 2**31) * 5
    tracemalloc.start()
    try:
        for each in (payload, longest, cdr.HEADER + b"\xff" * 400):
            with pytest.raises(CdrError):
                decode(kind, each)
        assert tracemalloc.get_traced_memory()[1] < 1e6
    finally:
        tracemalloc.stop()


def test_the_memory_of_a_message_is_bounded_by_its_bytes() -> None:
    """The worst case are lists of messages of empty texts and lists."""
    payload = cdr.HEADER + bytes(8) + struct.pack("<I", 0) + struct.pack("<I", 10_000) + bytes(3 * 1_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(CdrError):
            decode(ParameterEvent, payload)
        assert tracemalloc.get_traced_memory()[1] < 30 * len(payload)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "begins with ''"),
        (b"\x00\x01\x00", "begins with '00 01 00'"),
        (b"\x00\x07\x00\x00\x00", "begins with '00 07 00 00'"),
        (b"\x00\x01\x00\x00\x02\x00\x00\x00ab", "does not end with a zero byte"),
        (b"\x00\x01\x00\x00\x02\x00\x00\x00\xff\x00", "invalid start byte"),
        (b"\x00\x01\x00\x00\x05\x00\x00\x00ab\x00", "has 5 bytes; 3 are left"),
        (b"\x00\x01\x00\x00\x02\x00\x00\x00a\x00\x00\x00\x00\x00", "4 bytes follow"),
    ],
)
def test_a_wrong_payload_is_named(payload: bytes, reason: str) -> None:
    with pytest.raises(CdrError, match=reason) as error:
        decode(String, payload)
    assert str(error.value).startswith("std_msgs/msg/String: ")
    assert error.value.exit_code == 2


def test_a_payload_that_is_too_large_is_refused() -> None:
    with pytest.raises(CdrError, match="at most 16777216"):
        decode(String, cdr.HEADER + bytes(cdr.MAX_BYTES))
    with pytest.raises(CdrError, match="at most 16777216"):
        encode(String("a" * cdr.MAX_BYTES))


@pytest.mark.parametrize(
    "wrong",
    [
        String(5),  # type: ignore[arg-type]
        String("\udc00"),
        Float64MultiArray(data=["a"]),  # type: ignore[list-item]
        Float64MultiArray(data=1.0),  # type: ignore[arg-type]
        Imu(orientation_covariance=[0.0] * 8),
        ParameterDescriptor(type=256),
        ParameterDescriptor(integer_range=[1, 2]),  # type: ignore[list-item]
        Twist(linear=None),  # type: ignore[arg-type]
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_does_not_fit_its_field_is_refused(wrong: RosMessage) -> None:
    with pytest.raises(CdrError, match="does not fit"):
        encode(wrong)


def test_known_bytes() -> None:
    """By the rules of CDR (OMG formal/02-06-51, 15.3), by hand: alignment counts from the end of the header."""
    header = "00 01 00 00"
    assert encode(Empty()) == bytes.fromhex(f"{header} 00")
    assert encode(Bool(data=True)) == bytes.fromhex(f"{header} 01")
    assert encode(String("abc")) == bytes.fromhex(f"{header} 04 00 00 00 61 62 63 00")
    state = JointState(name=["a"], position=[1.0])
    state.header.stamp.sec, state.header.stamp.nanosec, state.header.frame_id = 1, 2, "w"
    assert encode(state) == bytes.fromhex(
        f"{header} 01 00 00 00 02 00 00 00 02 00 00 00 77 00"  # stamp, frame
        "00 00 01 00 00 00 02 00 00 00 61 00"  # padding, count and text of names
        "00 00 01 00 00 00 00 00 00 00 00 00 f0 3f"  # padding, count, padding, position
        "00 00 00 00 00 00 00 00"  # counts of velocities and efforts
    )


def test_numbers_keep_their_bits() -> None:
    values = [float("nan"), -0.0, 5e-324, sys.float_info.max]
    decoded = decode(Float64MultiArray, encode(Float64MultiArray(data=values)))
    assert struct.pack("4d", *decoded.data) == struct.pack("4d", *values)
