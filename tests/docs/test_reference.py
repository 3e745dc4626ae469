"""The generated reference has a row for everything that the code defines."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

import armswing
from nodes.framework.messages.topics import known_topics
from nodes.framework.plan.key_reference import ABOUT_METHODS, TABLES, keys
from robots.registry import BUILTIN
from sim_core.integrators.steppers import ADJUSTABLE, STEPPERS
from sim_core.stabilization.registry import stabilizers_by_name
from sim_core.tables import defaults_of

DOCS = Path(__file__).parents[2] / "docs"
spec = importlib.util.spec_from_file_location("docs_generated", DOCS / "generated.py")
assert spec
assert spec.loader
generated = importlib.util.module_from_spec(spec)
spec.loader.exec_module(generated)


def first_cells(text: str) -> list[str]:
    return [line.split("|")[1].strip(" `") for line in text.splitlines() if line.startswith("| `")]


def test_every_stepper_and_stabilizer_has_one_line_and_no_other_name_has() -> None:
    assert set(ABOUT_METHODS) == {*STEPPERS, *stabilizers_by_name()}


@pytest.mark.parametrize("kind", ["stabilizer", "stepper"])
def test_the_tables_of_methods_are_those_that_can_be_asked_for(kind: str) -> None:
    known = stabilizers_by_name() if kind == "stabilizer" else {n: ADJUSTABLE.get(n, lambda: None) for n in STEPPERS}
    lines = [line for line in generated.methods(kind).splitlines() if line.startswith("| `")]
    assert [line.split("|")[1].strip(" `") for line in lines] == list(known)
    for line, maker in zip(lines, known.values(), strict=True):
        assert set(re.findall(r"(?:^|, )`(\w+)`", line.split("|")[3].strip())) == set(defaults_of(maker))


def test_every_launch_key_is_in_the_reference() -> None:
    wanted = [key for name in TABLES for key, *_ in keys(name)]
    assert first_cells(generated.launch_keys())[: len(wanted)] == wanted


def test_every_topic_and_message_is_in_the_reference() -> None:
    assert first_cells(generated.topics()) == list(known_topics())
    headings = re.findall(r"^### (\w+)$", generated.messages(), re.MULTILINE)
    assert {row.message.__name__ for row in known_topics().values()} <= set(headings)


def test_every_shipped_controller_is_in_the_reference_with_a_unit_or_meaning_of_each_parameter() -> None:
    text = generated.controllers()
    headings = re.findall(r"^## (\w+)$", text, re.MULTILINE)
    page = (DOCS / "reference" / "controllers.md").read_text()
    assert {"JointPD", "JointPosition", "GravityPD", "ComputedTorque", "Impedance", "SwingUp"} <= set(headings)
    assert all(f"`{name}`" in page for name in headings)
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert [row for row in rows if row.endswith("|  |")] == []


def test_every_public_name_is_in_the_reference_with_a_line() -> None:
    rows = generated.public_names().splitlines()[2:]
    assert [row.split("|")[1].strip(" `") for row in rows] == armswing.__all__
    assert [row for row in rows if row.endswith("|  |")] == []


def test_every_robot_is_in_the_reference() -> None:
    assert first_cells(generated.robots()) == sorted(BUILTIN)


def test_every_command_is_in_the_reference_with_an_example() -> None:
    text = generated.commands()
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    assert len(sections) > 30
    assert all("```sh\narmswing " in section for section in sections)


def test_a_docstring_with_lines_on_fields_becomes_a_list_of_terms() -> None:
    text = ["The result.", "", "name    what |Phi| is,", "        and more", "other   `code`_x", "", "After."]
    assert generated.as_rst(text) == [
        "The result.",
        "",
        "``name``",
        "    what \\|Phi\\| is,",
        "    and more",
        "``other``",
        "    ``code``\\ _x",
        "",
        "After.",
    ]
