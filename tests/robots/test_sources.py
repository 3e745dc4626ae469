"""Every number of a robot says where it is from: SOURCES.md beside its description."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from robots import registry
from sim_core.mechanism.quantities import value_of

ROBOTS = Path(registry.__file__).parent
KINDS = {"measured", "datasheet", "published", "assumed"}
VARIANTS: dict[str, list[dict[str, object]]] = {
    "charmie": [{}, {"loops": "closed"}],
    "gibbon": [{}, {"links": 3}, {"line": "bars"}, {"line": "bars", "links": 3, "trunk": "actuated"}],
    "rotary_pendulum": [{}, {"variant": "qnet"}],
    "triple_pendulum": [{}, {"variant": "man"}],
}


def rows_of(robot: str) -> list[tuple[str, list[float], str, str]]:
    """What, values, kind and source of every row of the robot's table."""
    found = []
    for page in ROBOTS.rglob("SOURCES.md"):
        for section in page.read_text().split("\n## ")[1:]:
            if f"`{robot}`" in section.splitlines()[0]:
                table = [line for line in section.splitlines() if line.startswith("| ")][2:]
                cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
                found += [(what, [float(v) for v in values.split(",")], *rest) for what, values, *rest in cells]
    return found


@pytest.mark.parametrize("robot", registry.BUILTIN)
def test_every_robot_has_rows_that_say_what_kind_of_number_and_where_from(robot: str) -> None:
    rows = rows_of(robot)
    assert rows, f"robot {robot!r} has no table in a SOURCES.md"
    for what, values, kind, source in rows:
        assert what
        assert values
        assert kind in KINDS, f"{robot}: {what} is {kind!r}"
        assert source
    assert rows[0][3] != "as above"


@pytest.mark.parametrize("robot", registry.BUILTIN)
def test_parameters_masses_and_springs_of_every_robot_are_numbers_of_its_table(robot: str) -> None:
    rows = rows_of(robot)
    for variant in VARIANTS.get(robot, [{}]):
        mechanism = registry.build(robot, **variant)
        numbers = [body.mass for body in mechanism.bodies]
        numbers += [n for s in mechanism.springs for n in (s.stiffness, s.rest_length, s.pretension) if n]
        numbers += [joint.load for joint in mechanism.joints if joint.load]
        listed = [value for _, values, _, _ in rows for value in values]
        for number in [*numbers, *mechanism.parameters.values()]:
            assert value_of(number) in listed
    for parameter, value in registry.build(robot).parameters.items():
        own = [values for what, values, _, _ in rows if parameter in re.findall(r"`([\w.]+)`", what)]
        assert any(value in values for values in own), f"{robot}: `{parameter}` = {value} has no row"


def test_what_is_not_known_of_the_gear_train_is_marked_assumed() -> None:
    kinds = {what: kind for what, _, kind, _ in rows_of("epicyclic_gear_train")}
    assert {what for what, kind in kinds.items() if kind != "assumed"} == {"`torque` on the arm about its z"}
    assert len(kinds) >= 6
