"""Messages survive the wire as they are; what is no message is refused with topic and reason."""

from __future__ import annotations

import math
from contextlib import suppress

import msgpack
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.wire.codec import MAX_BYTES, WireError, decode, encode
from nodes.wire.messages import Description, JointCommand, Message, RobotState
from nodes.wire.topics import GLOBAL_TOPICS, ROBOT_TOPICS

TOPICS = [f"robot/{name}" for name in ROBOT_TOPICS] + list(GLOBAL_TOPICS)
finite = st.floats(allow_nan=False, allow_infinity=False)


def message_type(topic: str) -> type[Message]:
    leaf = topic.rpartition("/")[2]
    return (ROBOT_TOPICS.get(leaf) or GLOBAL_TOPICS[leaf]).message


@pytest.mark.parametrize("topic", TOPICS)
def test_a_message_of_every_topic_comes_back_as_it_went(topic: str) -> None:
    message = message_type(topic)(timestamp=0.1, seq=3, sent_ns=2**60)
    assert decode(topic, encode(message)) == message


@given(st.lists(finite), st.integers(0, 2**63 - 1), finite)
def test_every_finite_number_comes_back_to_the_last_bit(values: list[float], seq: int, time: float) -> None:
    state = RobotState(timestamp=time, seq=seq, position=values, name=[str(i) for i in range(len(values))])
    back = decode("robot/state", encode(state))
    assert back == state
    assert isinstance(back, RobotState)
    assert [math.copysign(1, x) for x in back.position] == [math.copysign(1, x) for x in values]


@pytest.mark.parametrize("topic", TOPICS)
def test_any_messagepack_reader_sees_plain_maps(topic: str) -> None:
    plain = msgpack.unpackb(encode(message_type(topic)()))
    assert {"timestamp", "seq", "sent_ns"} <= plain.keys()


def test_a_foreign_writer_is_understood_and_its_unknown_fields_are_left_aside() -> None:
    payload = msgpack.packb({"timestamp": 1, "seq": 2, "value": [1.5], "name": ["arm"], "colour": "red"})
    command = decode("robot/command", payload)
    assert command == JointCommand(timestamp=1.0, seq=2, value=[1.5], name=["arm"])


@pytest.mark.parametrize("topic", TOPICS)
@given(payload=st.binary(max_size=200))
def test_noise_is_refused_and_never_anything_else(topic: str, payload: bytes) -> None:
    with suppress(WireError):
        decode(topic, payload)


@pytest.mark.parametrize("topic", TOPICS)
def test_a_truncated_message_is_refused(topic: str) -> None:
    payload = encode(message_type(topic)(timestamp=0.5))
    for end in range(len(payload)):
        with pytest.raises(WireError):
            decode(topic, payload[:end])


def test_deeply_nested_and_oversized_payloads_are_refused() -> None:
    with pytest.raises(WireError):
        decode("robot/state", b"\x81\xa4name" + b"\x91" * 100_000)
    with pytest.raises(WireError, match="bytes"):
        decode("robot/state", b"\x00" * (MAX_BYTES + 1))
    with pytest.raises(WireError, match="bytes"):
        encode(RobotState(position=[0.5] * (MAX_BYTES // 9 + 1)), "robot/state")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_command_that_is_not_finite_is_refused_both_ways(value: float) -> None:
    command = JointCommand(name=["arm"], value=[value])
    with pytest.raises(WireError, match="finite"):
        encode(command, "robot/command")
    with pytest.raises(WireError, match="finite"):
        decode("robot/command", msgspec.msgpack.encode(command))


def test_a_command_of_huge_finite_values_is_not_mistaken_for_an_infinite_one() -> None:
    command = JointCommand(name=["a", "b"], value=[1.7e308, 1.7e308])
    assert decode("robot/command", encode(command)) == command


def test_a_command_needs_a_value_for_each_name() -> None:
    with pytest.raises(WireError, match="1 names for 0 values"):
        decode("robot/command", msgspec.msgpack.encode(JointCommand(name=["arm"])))


def test_a_wrong_type_is_named() -> None:
    with pytest.raises(WireError, match=r"position") as caught:
        decode("robot/state", msgpack.packb({"position": ["far"]}))
    assert caught.value.topic == "robot/state"


def test_a_topic_that_is_not_in_the_table_needs_its_type() -> None:
    payload = encode(Description(robot="x"))
    with pytest.raises(WireError, match="table"):
        decode("robot/dream", payload)
    assert decode("robot/dream", payload, Description) == Description(robot="x")
