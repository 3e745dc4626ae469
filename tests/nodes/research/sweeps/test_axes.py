"""Axes as they are written on the command line."""

from __future__ import annotations

import tomllib

import numpy as np
import pytest

from nodes.research.sweeps.axes import Axis, AxisError, as_text, parse_axis, seed_of


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a.b=3000:6000:7", (3000, 3500, 4000, 4500, 5000, 5500, 6000)),
        ("a.b=0.1:0.3:3", (0.1, 0.2, 0.3)),
        ("a.b=0:1:3", (0.0, 0.5, 1.0)),
        ("a.b=3:1:3", (3, 2, 1)),
        ("a.b=10,20,30", (10, 20, 30)),
        ("a.b=rk4,semi_implicit", ("rk4", "semi_implicit")),
        ("a.b='x:y:z','u'", ("x:y:z", "u")),
        ("a.b=[1, 2],[3, 4]", ([1, 2], [3, 4])),
        ("a.b=true,false", (True, False)),
    ],
)
def test_an_axis_has_the_values_that_it_lists(text: str, values: tuple[object, ...]) -> None:
    axis = parse_axis(text)
    assert axis == Axis("a.b", values)
    assert list(map(type, axis.values)) == list(map(type, values))


@pytest.mark.parametrize(
    "text",
    [
        *("a.b", "a.b=", "=1,2", "a.b=5", "a.b=5:5:1", "a.b=5:5:2", "a.b=1:2:0", "a.b=1:2:x", "a.b=1,,2", "a.b=1,1"),
        *("a.b=1,1.0", "a.b=-0.0,0,1"),
        *("a.b=normal:1", "a.b=normal:1:0", "a.b=normal:x:1", "a.b=uniform:2:1", "a.b=uniform:0:inf", "a.b=nan:1:3"),
    ],
)
def test_anything_else_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(AxisError, match=r"^--over '.*': .*") as refused:
        parse_axis(text)
    assert "\n" not in str(refused.value)


def test_a_number_is_no_repetition_of_a_text_or_a_truth_value() -> None:
    assert parse_axis('a.b=1,"1",true,"true"').values == (1, "1", True, "true")


@pytest.mark.parametrize("value", [0.1 + 0.2, 1e-300, 10**15, "a \"b\" \\ 'c'\n", True, [1, [2.5, "x"]], {"a b": [1]}])
def test_the_text_of_a_value_is_toml_and_exact(value: object) -> None:
    assert tomllib.loads(f"value = {as_text(value)}")["value"] == value


def test_random_axes_follow_from_the_seed_and_are_independent() -> None:
    normal, uniform = parse_axis("a.b=normal:5:0.1"), parse_axis("c.d=uniform:2:3")
    seeds = [seed_of(1, cell) for cell in range(2000)]
    assert len(set(seeds)) == len(seeds)
    assert max(seeds) < 2**52
    a, c = (np.array([axis.draw(seed) for seed in seeds]) for axis in (normal, uniform))
    assert abs(a.mean() - 5.0) < 4 * 0.1 / np.sqrt(a.size)
    assert abs(a.std() - 0.1) < 4 * 0.1 / np.sqrt(2 * a.size)
    assert c.min() >= 2.0
    assert c.max() < 3.0
    assert abs(np.corrcoef(a, c)[0, 1]) < 4 / np.sqrt(a.size)
    assert normal.draw(seeds[0]) == a[0]
