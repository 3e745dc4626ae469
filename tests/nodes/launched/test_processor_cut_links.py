"""A controller in C on emulated aarch64, in lockstep over a link that is cut and joined again: no command differs."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodes.cli.application import run
from nodes.framework.client import read_recording

NAME = "my_controller"
CROSS, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
PACKAGES = "apt-get install make qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
COMMAND, STATE = "rotary_pendulum/command", "rotary_pendulum/state"
TURNS_PER_S = 200
BYTES_PER_TURN = 600  # request and reply
CUTS = 25
LONGEST_CUT_S = 1.0
DEADLINE_MS = 4000
NODES = f"""deadline_ms = {DEADLINE_MS}.0

[[nodes]]
name = "{NAME}"
run = "{{program}}"
params = {{{{ angle_deg = 20.0 }}}}

[[nodes]]
name = "recorder"
run = "nodes/recorder.py:Recorder"
params = {{{{ file = "{{file}}" }}}}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A script that runs the controller, built for aarch64, under an emulator."""
    if not all(shutil.which(each) for each in ("make", CROSS, EMULATOR)):
        pytest.skip(f"no compiler or emulator for aarch64: {PACKAGES}")
    folder = tmp_path_factory.mktemp("c")
    assert run(["export", "client", "--lang", "c", "--output", str(folder)]) == 0
    make = ["make", "-C", folder, f"CC={CROSS}", "LDFLAGS=-static"]
    subprocess.run(make, check=True, capture_output=True, timeout=100)
    script = folder / "on_aarch64"
    script.write_text(f'#!/bin/sh\nexec {EMULATOR} {folder / NAME} "$@"\n')
    script.chmod(0o755)
    return script


def launched(ground: Any, program: Path, file: str, turns: int) -> None:
    """Run a launch of so many turns; fails the test where it does not end well."""
    plan = ground.launch_file(NODES.format(program=program, file=file), mode="lockstep")
    process = ground.start("launch", plan, "--duration", turns / TURNS_PER_S)
    out, err = process.communicate(timeout=60.0 + 0.05 * turns)
    assert process.returncode == 0, out + err


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("turns", [2_000, pytest.param(100_000, marks=pytest.mark.soak)])
def test_commands_over_a_link_that_is_cut_are_those_over_one_that_is_not(
    turns: int, program: Path, ground: Any, cut_link: Callable[..., Any]
) -> None:
    chance = random.Random(17)
    largest = 2.0 * BYTES_PER_TURN * turns / CUTS

    def next_cut() -> tuple[float, float]:
        """Anywhere, also within the handshake and within a frame; back at once, or later."""
        return chance.choice((chance.uniform(1.0, 500.0), chance.uniform(1.0, largest), largest)), chance.choice(
            (0.0, chance.uniform(0.0, LONGEST_CUT_S))
        )

    began = time.monotonic()
    launched(ground, program, "whole.mcap", turns)
    undisturbed_s = time.monotonic() - began
    with cut_link(NAME, next_cut) as link:
        launched(ground, program, "cut.mcap", turns)
    disturbed_s = time.monotonic() - began - undisturbed_s
    print(f"{turns} turns on {EMULATOR}: {undisturbed_s:.1f} s, with {link.cuts} cuts of the link {disturbed_s:.1f} s")
    assert link.cuts >= CUTS // 2
    whole, cut = (read_recording(ground.folder / file) for file in ("whole.mcap", "cut.mcap"))
    assert len(whole[COMMAND]["seq"]) == turns
    for topic in (COMMAND, STATE, f"rotary_pendulum/{NAME}/plot"):
        assert whole[topic].keys() == cut[topic].keys()
        for key, column in whole[topic].items():
            assert column.tobytes() == cut[topic][key].tobytes(), (topic, key)


def test_a_link_that_does_not_come_back_ends_the_run_in_one_line(
    program: Path, ground: Any, cut_link: Callable[..., Any]
) -> None:
    nodes = NODES.format(program=program, file="lost.mcap").replace(f"{DEADLINE_MS}.0", "500.0")
    with cut_link(NAME, lambda: (100_000.0, 3600.0)) as link:
        done = ground.run("launch", ground.launch_file(nodes, mode="lockstep"), "--duration", "60")
    assert link.cuts == 1
    assert done.returncode == 1
    lines = [line for line in (done.stdout + done.stderr).splitlines() if "did not reply" in line]
    assert lines, done.stdout + done.stderr
    assert re.search(r"node 'my_controller' did not reply to turn \d+ within 500 ms \(deadline_ms\)", lines[0])
    assert "Traceback" not in done.stdout + done.stderr
