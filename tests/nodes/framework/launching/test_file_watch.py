"""Which saved files are loaded anew under `armswing launch --watch`, and what the launch says of missing ones."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from nodes.framework.launching import watching
from nodes.framework.launching.watching import FileWatch
from nodes.framework.plan.files.file import load_plan

NODE = "from armswing import Node\n\n\nclass Idle(Node):\n    pass\n"
LAUNCH = """
[hosts]
desk = "127.0.0.1"
robot = "127.0.0.2"

[sim]
robot = "rotary_pendulum"
host = "desk"

[[nodes]]
name = "here"
run = "here.py:Idle"

[[nodes]]
name = "there"
run = "there.py:Idle"
host = "robot"
"""


class Watched:
    """The files of a launch on one of its hosts, and what FileWatch asks and says."""

    def __init__(self, folder: Path, host: str) -> None:
        for name in ("here", "there"):
            (folder / f"{name}.py").write_text(NODE)
        (folder / "launch.toml").write_text(LAUNCH)
        self.asked: list[str] = []
        self.said: list[str] = []
        plan = load_plan(folder / "launch.toml")
        self.watch = FileWatch(plan, self._ask, lambda line, name: self.said.append(f"[{name}] {line}"), host)

    def _ask(self, name: str, service: str, timeout_s: float) -> Any:
        self.asked.append(f"{name}: {service}")
        return ""

    def look_until(self, lines: list[str], count: int) -> None:
        deadline = time.monotonic() + 20.0
        while len(lines) < count:
            assert time.monotonic() < deadline
            self.watch.poll()


def test_a_deleted_file_is_named_once_and_loaded_when_it_is_back(tmp_path: Path) -> None:
    watched = Watched(tmp_path, "desk")
    file = tmp_path / "here.py"
    file.unlink()
    watched.look_until(watched.said, 1)
    for _ in range(3):
        watched.watch.poll()
    assert watched.said == [f"[here] {file} is missing; the code that was loaded last stays in charge"]
    file.write_text(NODE)
    watched.look_until(watched.asked, 1)
    assert watched.asked == ["here: reload"]


def test_a_file_whose_time_is_in_the_future_is_loaded(tmp_path: Path) -> None:
    watched = Watched(tmp_path, "desk")
    os.utime(tmp_path / "here.py", (time.time() + 3600.0,) * 2)
    watched.look_until(watched.asked, 1)
    assert watched.asked == ["here: reload"]


def test_a_file_that_an_editor_replaces_is_not_called_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(tmp_path, "desk")
    monkeypatch.setattr(watching, "MISSING_S", float("inf"))
    (tmp_path / "here.py").unlink()
    watched.watch.poll()
    (tmp_path / "here.py").write_text(NODE + "\n")
    watched.look_until(watched.asked, 1)
    assert not [line for line in watched.said if "missing" in line]


def test_each_host_loads_the_files_of_its_own_nodes(tmp_path: Path) -> None:
    watched = Watched(tmp_path, "robot")
    for name in ("here", "there"):
        (tmp_path / f"{name}.py").write_text(NODE + "\n")
    watched.look_until(watched.asked, 1)
    assert watched.asked == ["there: reload"]
