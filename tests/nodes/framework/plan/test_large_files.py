"""Files that are made to take a computer's time or memory are refused in one line; large honest files are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodes.framework.plan.files.document import read_document
from nodes.framework.plan.key_checks import PlanError
from nodes.planning.via_points import LARGEST_BYTES, ViaPointError, read_via_points
from robots.importing import xml_reader
from sim_core.errors import InvalidMechanism
from sim_core.support.toml_text import load_toml

DOTS = 100_000


@pytest.mark.parametrize(
    "text",
    [
        f"a{'.a' * DOTS} = 1",
        f"[a{'.a' * DOTS}]",
        f"[[a{' . a' * DOTS}]]",
        f"x = {{ a{'.a' * DOTS} = 1 }}",
        f"x = '#' # it's\n'!'{'.$!$'.replace('$', chr(39)) * DOTS} = 1",
        f"a.{'a' * 5_000_000}!",
    ],
    ids=["key", "table", "list of tables", "inline", "quoted", "one word"],
)
def test_a_key_of_many_parts_is_refused_at_once(text: str, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(text)
    with pytest.raises(PlanError, match="not valid TOML") as refused:
        read_document(tmp_path / "plan.toml")
    assert "\n" not in str(refused.value)


def test_dots_in_strings_and_numbers_are_no_parts_of_a_key() -> None:
    text = f'a = "{"b." * 100}"\nc = {[0.5] * 100}  # {"d." * 100}\n'
    assert load_toml(text) == {"a": "b." * 100, "c": [0.5] * 100}


def test_large_xml_files_are_refused() -> None:
    joints = "<joint/>" * (xml_reader.MOST_JOINTS + 1)
    with pytest.raises(InvalidMechanism, match="the file has more than 1000 joints"):
        xml_reader.parse_xml(f"<robot>{joints}</robot>".encode(), "robot")
    comments = b"<!--" * 1_000_000 + b'<?xml version="1.0"?>'
    with pytest.raises(InvalidMechanism):
        xml_reader.parse_xml(comments, "robot")


def test_200_000_via_points_are_read_and_200_mb_are_not(tmp_path: Path) -> None:
    rows = "".join(f"{index * 0.01:.2f},{index % 100}\n" for index in range(200_000))
    (tmp_path / "points.csv").write_text(f"time_s,arm_deg\n{rows}")
    assert len(read_via_points(tmp_path / "points.csv").times) == 200_000
    with (tmp_path / "large.csv").open("wb") as stream:
        stream.truncate(200_000_000)
    with pytest.raises(ViaPointError, match=f"has 200000000 bytes; shorten it to at most {LARGEST_BYTES['.csv']}"):
        read_via_points(tmp_path / "large.csv")
