"""Named values that a node plots: what is taken, what is refused in one line, and what is said of NaN."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from nodes.framework.messages import PlotValues
from nodes.framework.messages.codec import MAX_BYTES, decode, encode
from nodes.framework.messages.plotting import LONGEST_NAME, MOST_NAMES, MOST_NUMBERS, PlottedValues
from nodes.framework.recording.schema import decode_json, json_schema


@pytest.fixture
def refused() -> list[str]:
    return []


@pytest.fixture
def warned() -> list[str]:
    return []


@pytest.fixture
def plotted(refused: list[str], warned: list[str]) -> PlottedValues:
    return PlottedValues(refused.append, warned.append)


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (0.1, 0.1),
        (3, 3.0),
        (True, 1.0),
        (np.float32(0.5), 0.5),
        (np.int64(7), 7.0),
        (np.array(2.5), 2.5),
        (Fraction(1, 4), 0.25),
        ([1, 2.5], [1.0, 2.5]),
        ((), []),
        (np.arange(3), [0.0, 1.0, 2.0]),
        ([np.float64(1.0)], [1.0]),
    ],
)
def test_numbers_and_vectors_become_floats(plotted: PlottedValues, refused: list[str], value: Any, number: Any) -> None:
    plotted.add("x", value)
    assert plotted.take() == PlotValues(values={"x": number})
    assert not plotted
    assert refused == []


def test_a_unit_belongs_to_its_name_and_one_that_is_no_short_text_is_refused(
    plotted: PlottedValues, refused: list[str]
) -> None:
    plotted.add("x", 1.0, "rad/s")
    plotted.add("y", 2.0)
    assert plotted.take() == PlotValues(values={"x": 1.0, "y": 2.0}, units={"x": "rad/s"})
    plotted.add("y", 2.0, "metres per second")
    plotted.add("z", 3.0, 5)  # type: ignore[arg-type]
    assert plotted.take() == PlotValues(values={"y": 2.0, "z": 3.0})
    assert refused == [
        f"the unit {unit!r} of {name!r} is not a text of at most 16 characters"
        for unit, name in (("metres per second", "y"), ("5", "z"))
    ]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("1.5", "'x' is a str, not a number or a vector of numbers"),
        (None, "'x' is a NoneType, not a number"),
        (1j, "'x' is a complex, not a number"),
        ([1.0, "2"], "'x' is a str, not a number"),
        (np.eye(2), "'x' is a list, not a number"),
        ({"a": 1.0}, "'x' is a dict, not a number"),
        (10**400, "'x' is an integer that is too large for a float"),
        ([0.0] * (MOST_NUMBERS + 1), f"'x' is a vector of 65 numbers; a node plots vectors of at most {MOST_NUMBERS}"),
    ],
)
def test_another_value_is_refused_in_one_line(
    plotted: PlottedValues, refused: list[str], value: Any, says: str
) -> None:
    plotted.add("x", value)
    assert not plotted
    (line,) = refused
    assert line.startswith(says)
    assert "\n" not in line


def test_a_name_keeps_its_first_shape(plotted: PlottedValues, refused: list[str]) -> None:
    for value in (1.0, [1.0, 2.0], 3.0):
        plotted.add("error", value)
    assert plotted.take().values == {"error": 3.0}
    plotted.add("torque", [1.0, 2.0])
    plotted.add("torque", [1.0])
    assert plotted.take().values == {"torque": [1.0, 2.0]}
    assert refused == [
        "'error' is a vector of 2 numbers, and was a single number before; give it another name",
        "'torque' is a vector of 1 numbers, and was a vector of 2 numbers before; give it another name",
    ]


@pytest.mark.parametrize("name", ["", "x" * (LONGEST_NAME + 1), "two\nlines", 5])
def test_a_name_that_is_no_name_is_refused(plotted: PlottedValues, refused: list[str], name: Any) -> None:
    plotted.add(name, 1.0)
    assert not plotted
    assert "is not a text of 1 to 80 printable characters" in refused[0]
    assert "\n" not in refused[0]


def test_names_are_bounded_and_the_largest_message_is_one(plotted: PlottedValues, refused: list[str]) -> None:
    names = [f"{number:x>{LONGEST_NAME}}" for number in range(MOST_NAMES + 1)]
    for name in names:
        plotted.add(name, [math.pi] * MOST_NUMBERS)
    message = plotted.take()
    assert list(message.values) == names[:MOST_NAMES]
    assert refused == [f"{names[-1]!r} is one name too many; a node plots at most {MOST_NAMES} names"]
    assert len(encode(message, "robot/node/plot")) < MAX_BYTES


def test_nan_is_kept_and_said_once_for_each_name(plotted: PlottedValues, warned: list[str]) -> None:
    for value in (1.0, math.nan, math.inf):
        plotted.add("error", value)
    plotted.add("torque", [1.0, -math.inf])
    plotted.add("large", [1e308, 1e308])  # finite, although its sum is not
    values = plotted.take().values
    assert values["error"] == math.inf
    assert values["torque"] == [1.0, -math.inf]
    assert warned == [
        "plots 'error' = nan, which is drawn as a gap and recorded as null",
        "plots 'torque' = -inf, which is drawn as a gap and recorded as null",
    ]


def test_a_plotted_message_comes_back_from_the_wire_and_from_a_recording() -> None:
    import msgspec

    message = PlotValues(values={"error": 0.1, "torque": [1.0, -2.5], "none": [], "lost": math.nan, "some": [math.nan]})
    for back in (decode("r/n/plot", encode(message)), decode_json(PlotValues, msgspec.json.encode(message))):
        assert isinstance(back, PlotValues)
        assert repr(back.values) == repr(message.values)  # nan is not equal to itself
    values = msgspec.json.decode(json_schema(PlotValues))["properties"]["values"]
    assert values == {"type": "object", "properties": {}}  # any value: a number, a vector, or null
