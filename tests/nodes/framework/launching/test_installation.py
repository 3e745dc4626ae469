"""Loops compiled with the installation are those that runs call, and an empty cache starts with them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nodes.framework.launching.installation import STEPPERS, TASKS, rollout_types
from sim_core.integrators import steppers
from sim_core.kernels.machine_code.installed import VARIABLE, installed_loops, replace_folder

CALL = """
import numpy
from nodes.planning.brachiation.rollout import over_limit
print(over_limit(numpy.full(2, 3.0), 2, 1.0), sum(over_limit.stats.cache_hits.values()))
"""


def run(program: str, cache: Path, installed: str) -> str:
    environment = os.environ | {"XDG_CACHE_HOME": str(cache), VARIABLE: installed}
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=100
    )
    return done.stdout.strip()


def test_an_empty_cache_starts_with_the_installed_loops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(CALL, tmp_path / "first", "") == "(2.0, 3.0) 0"
    monkeypatch.setenv(VARIABLE, str(tmp_path / "installed"))
    target = installed_loops()
    assert target is not None
    target.parent.mkdir()
    (compiled,) = (tmp_path / "first" / "armswing" / "loops").iterdir()
    replace_folder(target, compiled)
    assert run(CALL, tmp_path / "second", str(tmp_path / "installed")) == "(2.0, 3.0) 1"
    assert run(CALL, tmp_path / "third", "") == "(2.0, 3.0) 0"


def test_every_compiled_loop_of_a_stepper_is_installed() -> None:
    loops = {name: steppers.stepper_named(name).loop() for name in steppers.STEPPERS}
    installed = [loops[name] for name in STEPPERS]
    assert [name for name, loop in loops.items() if hasattr(loop, "py_func") and loop not in installed] == []


@pytest.mark.soak
def test_the_installation_compiles_everything_once(tmp_path: Path) -> None:
    environment = os.environ | {VARIABLE: str(tmp_path)}
    command = [sys.executable, "-P", "-m", "nodes.framework.launching.installation"]
    subprocess.run(command, env=environment, check=True, timeout=900)
    (folder,) = tmp_path.iterdir()
    found = {file.name.partition("-")[0].partition(".")[2] for file in folder.rglob("*.nbi")}  # numba's names
    found |= {file.name.rpartition("-")[0] for file in folder.glob("*.json")}
    wanted = {steppers.stepper_named(name).loop().__name__ for name in STEPPERS} | rollout_types().keys()
    assert wanted <= found
    assert len(found) > len(wanted) + len(TASKS) - len(STEPPERS)  # and laws, servos, readings
