"""The state of a node is encoded and decoded to equal values of the same types."""

from __future__ import annotations

import math
from collections import deque
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.controllers.tracking import Targets
from nodes.framework.hosting.node_state import decode_state, encode_state
from nodes.framework.messages import JointCommand, JointReference, RobotState
from nodes.framework.messages.stamp import is_stamped

KEYS = st.text() | st.integers() | st.tuples(st.integers(), st.text())
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(KEYS, inner)
        | st.tuples(inner, inner)
        | st.sets(st.integers() | st.text())
        | st.builds(deque, st.lists(inner), st.sampled_from([None, 100]))
    ),
    max_leaves=20,
)


class Own:
    """A class of a node's own module."""

    def __init__(self) -> None:
        self.seen, self.past = {"a": 1.5}, deque([np.zeros(2)], maxlen=3)


def same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and a == b and (not isinstance(a, deque) or a.maxlen == b.maxlen)


@given(VALUES)
def test_every_plain_value_comes_back_with_its_type(value: Any) -> None:
    encoded = encode_state(value)
    found = decode_state(encoded)
    assert same(found, value)
    assert encode_state(found) == encoded


def test_arrays_numbers_of_any_size_and_what_is_not_finite_come_back() -> None:
    arrays = {"f": np.array([[1.0, math.nan], [math.inf, -0.0]]), "b": np.array([True]), "n": np.array(["rad", "m"])}
    found = decode_state(encode_state({**arrays, "big": 2**130, "unset": msgspec.UNSET, "one": np.float64(2.5)}))
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert found[name].tobytes() == array.tobytes()
    assert found["big"] == 2**130
    assert found["unset"] is msgspec.UNSET
    assert same(found["one"], 2.5)
    found["f"][0, 0] = 3.0  # may be written to


def test_messages_keep_whether_they_have_a_timestamp() -> None:
    fresh, stamped = JointCommand(name=["arm"], value=[1.0]), RobotState(timestamp=0.0, seq=4, outputs={"x": 1.0})
    first, second = decode_state(encode_state([fresh, stamped]))
    assert first == fresh
    assert not is_stamped(first)
    assert second == stamped
    assert is_stamped(second)


def test_objects_of_this_project_and_of_the_nodes_own_module_come_back() -> None:
    targets = Targets(["arm"])
    targets.add_reference(
        JointReference(timestamp=0.5, name=["arm"], position=[1.0], velocity=[2.0], acceleration=[0.0])
    )
    found = decode_state(encode_state(targets))
    assert isinstance(found, Targets)
    assert [part.tolist() for part in found.at(0.6)] == [part.tolist() for part in targets.at(0.6)]
    own = decode_state(encode_state(Own(), home=__name__), home=__name__)
    assert isinstance(own, Own)
    assert own.past.maxlen == 3


@pytest.mark.parametrize(
    "value",
    [{"law": [math.sin]}, partial(math.pow, 2.0), Own(), type, iter([1]), np.array([None])],
    ids=["function", "partial", "stranger", "class", "iterator", "objects"],
)
def test_what_cannot_be_saved_is_named_by_its_path(value: Any) -> None:
    with pytest.raises(TypeError, match=r"^snapshot.* is a .*cannot be saved"):
        encode_state(value)


@pytest.mark.parametrize(
    "name", ["subprocess:Popen", "nodes.framework.hosting.node_state:deque", "nodes.nothing:Here", ":Own"]
)
def test_no_other_class_is_made_from_a_recording(name: str) -> None:
    data = msgspec.msgpack.encode({"~": "object", "type": name, "": {}})
    with pytest.raises(ValueError, match="no class"):
        decode_state(data)


@pytest.mark.parametrize("data", [b"", b"\xc1", msgspec.msgpack.encode({"~": "tuple"}), b"\x81\xa1~\xa1x"], ids=str)
def test_bytes_that_are_no_state_are_refused_in_one_line(data: bytes) -> None:
    with pytest.raises(ValueError, match="bytes do not contain a saved node state") as error:
        decode_state(data)
    assert "\n" not in str(error.value)
