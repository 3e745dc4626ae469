"""Messages survive the wire as they are; what is no message is refused with topic and reason."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from pathlib import Path

import msgpack
import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.framework.messages import (
    BodyPoses,
    Description,
    Event,
    JointCommand,
    JointReference,
    Message,
    Polylines,
    RobotState,
    Status,
)
from nodes.framework.messages.codec import LARGEST_SEQ, LATEST_S, MAX_BYTES, AnyMessage, WireError, decode, encode
from nodes.framework.messages.topics import known_topics, lookup

TOPICS = [name.replace("<", "").replace(">", "") for name in known_topics()]
finite = st.floats(allow_nan=False, allow_infinity=False)


def message_type(topic: str) -> type[Message]:
    row = lookup(topic)
    assert row is not None
    return row.message


@pytest.mark.parametrize("topic", TOPICS)
def test_a_message_of_every_topic_comes_back_as_it_went(topic: str) -> None:
    message = message_type(topic)(timestamp=0.1, seq=3, sent_ns=2**60)
    assert decode(topic, encode(message)) == message


@given(st.lists(finite), st.integers(0, LARGEST_SEQ), st.floats(0.0, LATEST_S))
def test_every_finite_number_comes_back_to_the_last_bit(values: list[float], seq: int, time: float) -> None:
    state = RobotState(
        timestamp=time, seq=seq, position=values, velocity=values, name=[str(i) for i in range(len(values))]
    )
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


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        ("efort", "mode is 'efort'; it must be one of effort, velocity, position; did you mean 'effort'?"),
        ("x" * 1000, f"mode is '{'x' * 64}'; it must be one of effort, velocity, position"),
        (7, "not a JointCommand"),
    ],
)
def test_a_foreign_writers_mode_that_is_none_is_refused_in_our_words(mode: object, says: str) -> None:
    payload = msgpack.packb({"mode": mode, "value": [1.5], "name": ["arm"], "more": {"deep": [1]}})
    with pytest.raises(WireError, match=re.escape(says)) as refused:
        decode("robot/command", payload)
    assert ("did you mean" in str(refused.value)) == ("did you mean" in says)


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
        encode(Event(detail="x" * MAX_BYTES), "robot/event")


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


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64])
def test_numbers_and_arrays_of_numpy_are_said_as_the_plain_ones_are(kind: type) -> None:
    plain = [0.5, -2.0] if kind is not np.int64 else [5, -2]
    wanted = encode(JointCommand(name=["a", "b"], value=plain))
    array = np.array(plain, dtype=kind)
    for value in (array, list(array), tuple(array)):
        assert encode(JointCommand(name=["a", "b"], value=value)) == wanted  # type: ignore[arg-type]
    state = RobotState(name=["a", "b"], position=array, velocity=array[::-1], energy=kind(2.0))  # type: ignore[arg-type]
    back = decode("robot/state", encode(state))
    assert back == RobotState(name=["a", "b"], position=plain, velocity=plain[::-1], energy=2.0)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (np.array([math.nan, 0.0]), "value is not finite"),
        (np.zeros(3), "2 names for 3 values"),
        (np.zeros((2, 2)), "field 'value' of JointCommand is not a list of numbers"),
        (np.float64(1.0), "field 'value' of JointCommand is not a list of numbers"),
        (["1", "2"], "field 'value' of JointCommand is not a list of numbers"),
        ([1.0, 2.0j], "field 'value' of JointCommand is not a list of numbers"),
    ],
)
def test_what_is_no_list_of_numbers_is_refused_before_it_is_said(value: object, says: str) -> None:
    with pytest.raises(WireError, match=says):
        encode(JointCommand(name=["a", "b"], value=value), "robot/command")  # type: ignore[arg-type]


def test_a_thing_that_is_no_message_part_is_refused_by_its_type() -> None:
    with pytest.raises(WireError, match=f"a field has a value of type {type(Path()).__name__}; convert it"):
        encode(Event(detail=Path("x")), "robot/event")  # type: ignore[arg-type]


def one_joint(**changes: object) -> RobotState:
    fields = {"name": ["a"], "position": [0.5], "velocity": [0.5], "effort": [0.5], **changes}
    return RobotState(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("topic", "message", "reason"),
    [
        ("status", Status(timestamp=1e12), "timestamp is 1000000000000.0; it must be in 0 .. 9e.09 s"),
        ("robot/event", Event(timestamp=-0.001), "timestamp is -0.001"),
        ("robot/state", RobotState(timestamp=math.inf), "timestamp is inf"),
        ("robot/state", RobotState(timestamp=math.nan), "timestamp is nan"),
        ("robot/state", RobotState(seq=LARGEST_SEQ + 1), "seq is"),
        ("robot/state", RobotState(seq=-1), "seq is -1"),
        ("robot/state", one_joint(name=[]), "0 names for 1 positions, 1 velocities and 1 efforts"),
        ("robot/state", one_joint(velocity=[]), "1 names for 1 positions, 0 velocities"),
        ("robot/state", one_joint(effort=[1.0, 2.0]), "2 efforts"),
        ("robot/state", one_joint(position=[math.nan]), "position is not finite"),
        ("robot/state", one_joint(velocity=[-math.inf]), "velocity is not finite"),
        ("robot/state", one_joint(effort=[math.inf]), "effort is not finite"),
        ("robot/reference", JointReference(name=["a"]), "1 names for 0 positions"),
        ("robot/reference", JointReference(name=["a"], position=[0.0], velocity=[0.0, 1.0]), "2 velocities"),
        ("robot/reference", JointReference(name=["a"], position=[math.nan]), "position is not finite"),
        (
            "robot/reference",
            JointReference(name=["a"], position=[0.0], acceleration=[math.inf]),
            "acceleration is not finite",
        ),
        (
            "robot/state",
            RobotState(frames=[0.0] * 7),
            "frames and twists have 7 and 0 numbers; give 7 numbers in frames",
        ),
        ("robot/state", RobotState(frames=[math.nan] * 7, twists=[0.0] * 6), "frames is not finite"),
        ("robot/body_poses", BodyPoses(p=[0.0] * 4, quaternion=[0.0] * 4), "give 3 numbers in p and 4 in quaternion"),
        ("robot/lines", Polylines(name=["a"], points=[0.0] * 3), "1 names for 0 counts"),
        (
            "robot/lines",
            Polylines(name=["a"], count=[2], points=[0.0] * 3),
            "points has 3 numbers; give 3 for each of 2",
        ),
        ("robot/overlay", Polylines(name=["a"], count=[-1]), "points has 0 numbers"),
        ("robot/overlay", Polylines(name=["a"], count=[1], points=[0.0, 0.0, math.inf]), "points is not finite"),
        ("robot/body_poses", BodyPoses(p=[0.0] * 3), "give 3 numbers in p and 4 in quaternion"),
        ("robot/body_poses", BodyPoses(p=[0.0, 0.0, math.nan], quaternion=[1.0, 0.0, 0.0, 0.0]), "p is not finite"),
    ],
)
def test_the_right_type_with_contents_that_cannot_be_is_refused(topic: str, message: Message, reason: str) -> None:
    with pytest.raises(WireError, match=reason):
        decode(topic, msgspec.msgpack.encode(message))
    with pytest.raises(WireError, match=reason):
        encode(message, topic)  # the sender refuses what every receiver would


def test_diagnostics_of_a_run_gone_wrong_pass_and_so_do_huge_numbers() -> None:
    huge = one_joint(position=[1.7e308], velocity=[1.7e308], phi=math.inf, energy=-math.inf, outputs={"x": math.inf})
    assert decode("robot/state", encode(huge)) == huge
    assert decode("robot/state", encode(RobotState(effort=[]))) == RobotState()
    latest = Status(timestamp=LATEST_S, seq=LARGEST_SEQ)
    assert decode("status", encode(latest)) == latest


whole = st.integers(-(2**63), 2**64 - 1)
FIELDS: dict[object, st.SearchStrategy[object]] = {
    float: st.floats() | st.floats(0.0, 10.0),
    int: whole | st.integers(0, 10),
    str: st.text(max_size=5),
    list[str]: st.lists(st.text(max_size=3), max_size=2),
    list[float]: st.lists(st.floats(), max_size=2) | st.lists(st.floats(), min_size=3, max_size=4),
    dict[str, float]: st.dictionaries(st.text(max_size=3), st.floats(), max_size=2),
    dict[str, int]: st.dictionaries(st.text(max_size=3), whole, max_size=2),
    int | None: st.none() | whole,
}


def filled(kind: type[Message]) -> st.SearchStrategy[dict[str, object]]:
    """Fields of the right type with any contents."""
    fields = {field.name: FIELDS[field.type] for field in msgspec.structs.fields(kind) if field.type in FIELDS}
    return st.fixed_dictionaries({}, optional=fields)


@pytest.mark.parametrize("topic", TOPICS)
@settings(max_examples=60, derandomize=True, deadline=None)
@given(data=st.data())
def test_any_well_typed_message_is_understood_or_refused(topic: str, data: st.DataObject) -> None:
    payload = msgspec.msgpack.encode(data.draw(filled(message_type(topic))))
    with suppress(WireError):
        back = decode(topic, payload)
        assert 0.0 <= back.timestamp <= LATEST_S
        assert decode(topic, msgspec.msgpack.encode(back)).seq == back.seq


def test_a_wrong_type_is_named() -> None:
    with pytest.raises(WireError, match=r"position") as caught:
        decode("robot/state", msgpack.packb({"position": ["far"]}))
    assert caught.value.topic == "robot/state"


def test_a_message_of_a_topic_that_is_not_in_the_table_has_its_fields_as_plain_data() -> None:
    payload = encode(Description(robot="x", timestamp=0.5, seq=3))
    found = decode("robot/dream", payload)
    assert isinstance(found, AnyMessage)
    assert (found.timestamp, found.seq, found.content["robot"]) == (0.5, 3, "x")
    with pytest.raises(WireError, match=r"robot/dream.*not a map of fields"):
        decode("robot/dream", b"\x91\x01")
    assert decode("robot/dream", payload, Description) == Description(robot="x", timestamp=0.5, seq=3)
