"""Launch files and command lines of the tests of sweeps."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

LAUNCH = f"""
seed = 3
duration_s = 0.1

[sim]
robot = "rotary_pendulum"
mode = "MODE"

[[nodes]]
name = "node"
run = "{Path(__file__).parent / "misbehaving.py"}:Misbehaving"
"""
COMMAND = (sys.executable, "-P", "-m", "nodes.cli", "sweep")


@pytest.fixture(scope="module")
def launch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A launch file in lockstep with the node of `misbehaving.py`; `realtime.toml` beside it is paced."""
    folder = tmp_path_factory.mktemp("launch")
    for name, mode in (("node", "lockstep"), ("realtime", "realtime")):
        (folder / f"{name}.toml").write_text(LAUNCH.replace("MODE", mode))
    return folder / "node.toml"


@pytest.fixture(scope="session")
def sweep() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs `armswing sweep` with these arguments."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False)

    return run


def rows_of(folder: Path) -> list[dict[str, str]]:
    """The rows of a sweep's table."""
    with (folder / "cells.csv").open(newline="") as file:
        return list(csv.DictReader(file))
