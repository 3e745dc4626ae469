"""Processor in the loop: a controller in C on this processor and on emulated aarch64, in one lockstep run."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodes.cli.application import run
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.key_checks import PlanError
from nodes.hil.processor.comparison import compare_commands, ulps
from nodes.hil.processor.plan import plan_of_processors

CROSS, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
PACKAGES = "apt-get install make gcc libc6-dev qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
CONTROLLER = '[[nodes]]\nname = "my_controller"\nrun = "{run}"\n'
PYTHON = Path(__file__).parents[3] / "launch" / "examples" / "my_controller.py"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the controller for this processor, and for aarch64 with and without contraction of a * b + c."""
    if not all(shutil.which(each) for each in ("make", "cc", CROSS, EMULATOR)):
        pytest.skip(f"no compiler or emulator for aarch64: {PACKAGES}")
    folder = tmp_path_factory.mktemp("c")
    assert run(["export", "client", "--lang", "c", "--output", str(folder)]) == 0
    cross = [f"CC={CROSS}", "LDFLAGS=-static"]
    for name, how in (
        ("arm", [*cross, "CFLAGS=-O1"]),
        ("contracting", [*cross, "CFLAGS=-O2 -ffp-contract=fast"]),
        ("here", ["CFLAGS=-O1"]),
    ):
        subprocess.run(["make", "-B", "-C", folder, *how], check=True, capture_output=True, timeout=100)
        (folder / "my_controller").rename(folder / name)
    return folder


@pytest.mark.parametrize(("build", "code"), [("arm", 0), ("contracting", 1)])
def test_commands_on_aarch64_are_equal_or_their_distance_is_told(
    build: str, code: int, built: Path, ground: Any
) -> None:
    arguments = ["--program", built / build, "--emulator", EMULATOR, "--set", "sim.deadline_ms=30000", "--json"]
    done = ground.run(
        "hil", "processor", ground.launch_file(CONTROLLER.format(run=built / "here")), *arguments, "--duration", "1"
    )
    assert done.returncode == code, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["turns"] == 200
    assert found["equal"] is (code == 0)
    assert (found["ulps"] == 0) is (code == 0)
    assert set(found["turn_p99_s"]) == {"my_controller", "my_controller_other"}
    assert all(each > 0.0 for each in found["turn_p99_s"].values())
    assert found["text"] in (ground.folder / "processor" / "index.html").read_text()
    assert "<svg" in (ground.folder / "processor" / "turn_times.svg").read_text()


def test_a_node_in_python_is_refused_in_one_line(ground: Any, tmp_path: Path) -> None:
    nodes = CONTROLLER.format(run=f"{PYTHON}:HoldArm")
    plan = load_plan(ground.launch_file(nodes, mode="lockstep"))
    with pytest.raises(PlanError, match=r"runs Python code .*, which is the same for all processors"):
        plan_of_processors(plan, "my_controller", tmp_path / "arm", "", tmp_path / "p.mcap")


def test_distances_count_the_doubles_between_two_numbers() -> None:
    one = np.array([1.0, -1.0, 0.0, -0.0, 5e-324, 1.0, 0.1])
    other = np.array([np.nextafter(1.0, 2.0), np.nextafter(-1.0, 0.0), -0.0, -0.0, -5e-324, -1.0, 0.1])
    assert ulps(one, other).tolist() == [1, 1, 1, 0, 3, 2 * 0x3FF0000000000000 + 1, 0]
    assert np.array_equal(ulps(one, other), ulps(other, one))


def test_commands_that_cannot_be_compared_say_why() -> None:
    def commands(n: int, name: str = "arm") -> dict[str, Any]:
        seq = np.arange(1, n + 1)
        return {"seq": seq, "timestamp": 0.1 * seq, "name": [[name]] * n, "value": np.zeros((n, 1))}

    assert compare_commands(commands(3), commands(3)).equal
    for other, line in ((None, "no command"), (commands(2), "one published 3"), (commands(3, "elbow"), "in name")):
        found = compare_commands(commands(3), other)
        assert not found.equal
        assert line in found.text
    differing = commands(3)
    differing["value"][1] = 5e-324
    told = compare_commands(commands(3), differing).text
    assert told == "1 of 3 commands differ, by 1 ULP at most (4.94e-324), first at 0.2 s"
