"""Tables that do not fit say why in a person's words; those that fit are those that msgspec converts."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from sim_core.tables import misfit


class Wheel(msgspec.Struct, forbid_unknown_fields=True):
    radius: Annotated[float, Meta(gt=0.0)]
    teeth: Annotated[int, Meta(ge=3, le=99)] = 12


class Cart(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    wheels: Annotated[tuple[Wheel, ...], Meta(min_length=1, max_length=4)]
    at: tuple[float, float] = (0.0, 0.0)
    axis: Literal["x", "y"] = "x"
    limit: float | None = None
    is_red: bool = False
    notes: dict[str, float] = {}


GOOD: dict[str, Any] = {"name": "a", "wheels": [{"radius": 1.0}]}
WRONG: dict[str, tuple[Any, str]] = {
    "a key too many": ({**GOOD, "limt": 1.0}, "unknown key 'limt'; did you mean 'limit'?"),
    "nothing near": ({**GOOD, "q": 1.0}, "unknown key 'q'; the keys are name, wheels, at"),
    "a key too few": ({"name": "a"}, "the table lacks the key 'wheels'; give it a list of 1 to 4 tables"),
    "inside a list": ({"name": "a", "wheels": [{"radius": 0}]}, "wheels.7.radius is 0; it must be a number above 0"),
    "two bounds": ({"name": "a", "wheels": [{"radius": 1, "teeth": 2}]}, "wheels.7.teeth is 2; it must be a whole"),
    "a word": ({**GOOD, "axis": "z"}, "axis is 'z'; choose one of x, y"),
    "a number for text": ({**GOOD, "name": 1}, "name is 1; it must be text"),
    "text for a number": ({**GOOD, "limit": "1"}, "limit is '1'; it must be a number"),
    "a short point": ({**GOOD, "at": [1.0]}, "at has 1 entries; it must have 2"),
    "a point with a word": ({**GOOD, "at": [1.0, "b"]}, "at is [1.0, 'b']; it must be a list of 2 numbers"),
    "no list": ({**GOOD, "at": 1.0}, "at is 1.0; it must be a list of 2 numbers"),
    "no truth": ({**GOOD, "is_red": 1}, "is_red is 1; it must be true or false"),
    "a dict's value": ({**GOOD, "notes": {"b": "c"}}, "notes.b is 'c'; it must be a number"),
    "no table": ([], "the table is []; it must be a table"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_with_its_key_and_what_would_be_right(case: str) -> None:
    data, line = WRONG[case]
    said = str(misfit(data, Cart, first={"wheels": 7}))
    assert said.startswith(line)
    assert "\n" not in said
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(data, Cart)


values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 120),
    st.floats(-2, 2),
    st.sampled_from(["x", "y", "z"]),
    st.just([1.0, 2]),
)
wheels = st.lists(st.dictionaries(st.sampled_from(["radius", "teeth", "tooth"]), values), max_size=5)
keys = st.sampled_from(["name", "at", "axis", "limit", "is_red", "notes", "color"])


@given(
    st.fixed_dictionaries({}, optional={"wheels": wheels}).flatmap(
        lambda a: st.dictionaries(keys, values).map(lambda b: {**a, **b})
    )
)
def test_a_line_comes_exactly_where_msgspec_refuses(data: dict[str, Any]) -> None:
    """Strictly, as TOML and JSON are read."""
    try:
        msgspec.convert(data, Cart)
        refused = False
    except msgspec.ValidationError:
        refused = True
    assert bool(misfit(data, Cart)) == refused
