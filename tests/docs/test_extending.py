"""Each page of Extending is followed: its files, its changes to armswing and its commands are all that is needed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nodes.framework.client import read_recording

Follow = Callable[[Path], dict[str, str]]
PAGES = Path(__file__).parents[2] / "docs" / "extending"


def test_every_page_of_extending_is_followed_here() -> None:
    own = Path(__file__).read_text()
    assert all(f'"{page.name}"' in own for page in PAGES.glob("*.md") if page.name != "index.md")


def test_the_page_on_robots_gives_one_that_is_launched_and_one_of_the_registry(follow: Follow, tmp_path: Path) -> None:
    printed = follow(PAGES / "robot.md")
    assert "length of the rod" in printed["armswing robot show my_pendulum"]
    state = read_recording(tmp_path / "my_pendulum.mcap")["my_pendulum/state"]
    assert state["timestamp"][-1] == pytest.approx(2.0)


def test_the_page_on_nodes_gives_one_that_commands_and_its_test(follow: Follow) -> None:
    printed = follow(PAGES / "node.md")
    assert "1 passed" in printed[".venv/bin/python -m pytest -p no:pytest-qt test_my_brake.py"]


def test_the_page_on_messages_gives_one_that_is_received_and_one_of_the_table(follow: Follow) -> None:
    printed = follow(PAGES / "message.md")
    assert "kelvin" in printed["armswing message show Temperature"]
    assert "<robot>/temperature" in printed["armswing message list"]
    assert "293" in printed["armswing launch my_temperature.toml"]


def test_the_page_on_constraints_gives_one_that_holds(follow: Follow) -> None:
    follow(PAGES / "constraint.md")


def test_the_page_on_stabilizers_gives_one_that_stabilizes_and_has_a_name(follow: Follow) -> None:
    assert "largest |U| of a row" in follow(PAGES / "stabilizer.md")["armswing launch --keys"]


def test_the_page_on_steppers_gives_one_of_its_order_and_with_a_name(follow: Follow) -> None:
    assert "ralston3" in follow(PAGES / "stepper.md")["armswing launch --keys"]


def test_the_page_on_studies_gives_a_page_and_a_command(follow: Follow, tmp_path: Path) -> None:
    printed = follow(PAGES / "study.md")
    assert "holds" in printed["armswing reproduce drift --quick --workers 1"]
    assert (tmp_path / "my_study/index.html").is_file()
    assert (tmp_path / "drift/index.html").is_file()
