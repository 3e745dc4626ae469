"""Launch files with one thing wrong, drawn at random: each is refused in one line, or is a plan that can run."""

from __future__ import annotations

import copy
import json
import math
import random
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodes.cli.application import run as command_line
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.key_checks import PlanError
from nodes.framework.recording.reader import RecordingFile
from robots.registry import BUILTIN, build
from sim_core.mechanism import Mechanism, Tunable

LAUNCH = Path(__file__).parents[4] / "launch"
FILES = ("rotary_pendulum.toml", "rotary_pendulum_lockstep.toml")
VALUES: list[Any] = [
    *(0, -1, 1, 7, 10**18, 10**30, -(10**18), 0.0, -0.0, 1e-12, 1e-9, 0.5, 1e9, 1e18, 1e300, -1e300, 1e308, 5e-324),
    *(float("nan"), float("inf"), float("-inf"), True, False),
    *("", "x", "a" * 5000, "nul\0", "line\nbreak", "/", "..", "/tmp", "é", "nan", "lockstep", "../../etc"),
    *([], [1], [[0.0, 1e308], [1.0, 0.0]], [[-1.0, 0.0], [1.0, 0.0]], {}, {"x": 1}, {"name": "rk4"}, [{}]),
]
KEYS = (
    "seed",
    "step_ms",
    "rate_hz",
    "watchdog_ms",
    "decimation",
    "duration_s",
    "domain",
    "cpu",
    "name",
    "file",
    "kind",
)


def mutated(seed: int) -> dict[str, Any]:
    """A shipped launch file with one to three changes, by a seeded draw."""
    draw = random.Random(seed)
    document = tomllib.loads((LAUNCH / draw.choice(FILES)).read_text())
    document["duration_s"] = 0.05
    for _ in range(draw.choice((1, 1, 2, 3))):
        tables = list(_tables(document))
        table = draw.choice(tables)
        what = draw.choice(("value", "value", "value", "key", "drop", "again"))
        if what == "key" or not table:
            table[draw.choice(KEYS)] = draw.choice(VALUES)
        elif what == "drop":
            del table[draw.choice(sorted(table))]
        elif what == "again" and "nodes" in document and isinstance(document["nodes"], list) and document["nodes"]:
            document["nodes"].append(copy.deepcopy(draw.choice(document["nodes"])))
        else:
            table[draw.choice(sorted(table))] = copy.deepcopy(draw.choice(VALUES))
    return document


def _tables(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _tables(inner)


def toml(value: Any) -> str:
    """A value as TOML has it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, float):
        return repr(value) if "." in repr(value) or "e" in repr(value) or "n" in repr(value) else f"{value!r}.0"
    return json.dumps(value)


def written(document: dict[str, Any], folder: Path) -> Path:
    """The launch file of a document."""
    file = folder / "launch.toml"
    file.write_text("".join(f"{json.dumps(key)} = {toml(value)}\n" for key, value in document.items()))
    return file


def refusal(file: Path) -> str:
    """The line by which a launch file is refused, "" for one that is taken."""
    try:
        load_plan(file)
    except PlanError as error:
        line = str(error)
        assert line
        assert "\n" not in line
        assert len(line) < 2000, line[:300]
        return line
    return ""


@pytest.mark.parametrize("seed", range(30))
def test_a_mutated_launch_file_is_refused_in_one_line_or_is_a_plan(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refusal(written(mutated(seed), tmp_path))


LONGEST_S = 8.0  # asked for by a file: longer ones are launched with --duration
SHORT_S = 0.05


def launched(file: Path, seconds: float | None) -> tuple[str, str]:
    """How a launch ended, "refused", "ran" or "wrong", and why.

    seconds  duration for the command line; None if the file asks for one
    """
    plan = load_plan(file)
    asked = plan.duration_s if seconds is None else seconds
    assert asked is not None
    summary = file.parent / "summary.json"
    command = [sys.executable, "-P", "-m", "nodes.cli", "launch", str(file), "--json", str(summary)]
    command += [] if seconds is None else ["--duration", str(seconds)]
    try:
        run = subprocess.run(command, cwd=file.parent, capture_output=True, text=True, timeout=60 + 4 * asked)
    except subprocess.TimeoutExpired:
        return "wrong", "does not end by itself"
    printed = run.stdout + run.stderr
    if "Traceback" in printed:
        return "wrong", printed[-2000:]
    if run.returncode == 2:
        lines = run.stderr.strip().splitlines()
        return ("refused" if len(lines) == 1 else "wrong"), run.stderr[-2000:]
    if not summary.exists():
        return "wrong", f"exit code {run.returncode}, no summary: {printed[-2000:]}"
    told = json.loads(summary.read_text())
    # no time for a milestone is no error of the file
    if told["ended"] != f"missed: {', '.join(told['missed'])}" and run.returncode != 0:
        return "wrong", f"exit code {run.returncode}: {printed[-2000:]}"
    if abs(told["time"] - asked) > plan.sim.step_s:
        return "wrong", f"{told['time']} s of {asked} s: {printed[-2000:]}"
    for recording in file.parent.glob("*.mcap") if plan.sim.mode == "lockstep" else ():
        state = f"{plan.sim.robot_name}/state"
        end = max((found.time_ns * 1e-9 for found in RecordingFile(recording) if found.topic == state), default=asked)
        if abs(end - asked) > plan.sim.step_s + 1.0 / (plan.sim.rate_hz or math.inf):
            return "wrong", f"{recording.name} ends at {end} s of {asked} s"
    return "ran", ""


@pytest.mark.soak
def test_three_hundred_mutated_launch_files_are_refused_or_run_for_the_time_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ends, wrong = Counter[str](), []
    for seed in range(1000, 1300):
        folder = tmp_path / str(seed)
        folder.mkdir()
        file = written(mutated(seed), folder)
        if refusal(file):
            capsys.readouterr()
            assert command_line(["launch", str(file)]) == 2, seed
            assert len(capsys.readouterr().err.strip().splitlines()) == 1, seed
            ends["refused"] += 1
            continue
        asked = load_plan(file).duration_s
        end, why = launched(file, SHORT_S if asked is None or asked > LONGEST_S else None)
        ends[end] += 1
        if end == "wrong":
            wrong.append((seed, why))
    assert not wrong, (ends, wrong)


TALL = "[" * 5000 + "]" * 5000
ROTARY = '[sim]\nrobot = "rotary_pendulum"\n'
RECORDER = '[[nodes]]\nname = "recorder"\nrun = "nodes/recorder.py:Recorder"\n'
MOVES = '[[nodes]]\nname = "way"\nrun = "nodes/trajectory.py:Trajectory"\n'
WRONG = {
    "a seed below zero": (f"seed = -1\n{ROTARY}", "'seed'", "0 .. "),
    "an endless duration": (f"duration_s = 1e300\n{ROTARY}", "'duration_s'", "1e-06 .. 1e+08 s"),
    "a duration of no step": (f"duration_s = 1e-12\n{ROTARY}", "'duration_s'", "1e-06 .. 1e+08 s"),
    "a duration below one step": (f"duration_s = 1e-4\n{ROTARY}", "'duration_s'", "less than one time step of 1 ms"),
    "a step of nothing": (f"{ROTARY}step_ms = 1e-9\n", "'step_ms'", "0.001 .. 10000 ms"),
    "a rate beyond every step": (f"{ROTARY}rate_hz = 1e9\n", "'rate_hz'", "0.001 .. 1e+06 Hz"),
    "a turn that never comes": (
        f'{ROTARY}{RECORDER}decimation = {10**18}\nparams = {{ file = "a.mcap" }}',
        "'decimation'",
        "1 .. 1000000",
    ),
    "a name of 5,000 characters": (
        f'{ROTARY}[[nodes]]\nname = "{"a" * 5000}"\nrun = "a.py:B"',
        "5000 characters",
        "64",
    ),
    "a plan's name of 5,000 characters": (f'name = "{"a" * 5000}"\n{ROTARY}', "'name'", "5000 characters"),
    "a run of 5,000 characters": (f'{ROTARY}[[nodes]]\nname = "a"\nrun = "{"a" * 5000}.py:B"', "no such file", "tried"),
    "a recording that is a folder": (f'{ROTARY}{RECORDER}params = {{ file = "." }}', "is a folder", "run.mcap"),
    "an included file of 5,000 characters": (
        f'{ROTARY}[[include]]\nfile = "{"a" * 5000}"',
        "names no file",
        "too long",
    ),
    "an included file with NUL": (f'{ROTARY}[[include]]\nfile = "a\\u0000.toml"', "'file'", "null byte"),
    "an included file without end": (
        f'{ROTARY}[[include]]\nfile = "/dev/zero"',
        "/dev/zero",
        "more than 8000000 bytes",
    ),
    "a robot's file of 5,000 characters": (f'[sim]\nrobot = "{"a" * 5000}.urdf"\n', "'robot'", "no such file"),
    "a recording with NUL": (f'{ROTARY}{RECORDER}params = {{ file = "a\\u0000.mcap" }}', "NUL", "file"),
    "a recording of 5,000 characters": (
        f'{ROTARY}{RECORDER}params = {{ file = "{"a" * 5000}" }}',
        "5000",
        "may have 2000",
    ),
    "nested brackets": (f"seed = {TALL}\n{ROTARY}", "nested", "16 deep"),
    "nested tables": (f"{'.'.join(['a'] * 5000)} = 1\n{ROTARY}", "a dotted key", "64 parts"),
    "tables nested deeper": (f"{'.'.join(['a'] * 20)} = 1\n{ROTARY}", "nested", "16 deep"),
    "a number of 5,000 digits": (f"seed = {'1' * 5000}\n{ROTARY}", "not valid TOML", "1000 characters"),
    "a waypoint at 1e308": (
        f'{ROTARY}{MOVES}params = {{ joints = ["arm"], kind = "steps", waypoints = [[1e308, 1.0]] }}',
        "waypoint 1",
        "0 .. 1e+08 s",
    ),
    "a waypoint to 1e308": (
        f'{ROTARY}{MOVES}params = {{ joints = ["arm"], kind = "steps", waypoints = [[1.0, 1e308]] }}',
        "waypoint 1",
        "-1e+06 .. 1e+06",
    ),
    "a waypoint before zero": (
        f'{ROTARY}{MOVES}params = {{ joints = ["arm"], kind = "steps", waypoints = [[-1.0, 1.0]] }}',
        "waypoint 1",
        "0 .. 1e+08 s",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_makes_no_sense_is_refused_with_its_range(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text, *words = WRONG[what]
    file = tmp_path / "launch.toml"
    file.write_text(text)
    line = refusal(file)
    assert all(word in line for word in words), line[:400]


def lifting(payload: float = 1.0) -> Mechanism:
    """A pendulum with a payload of 0.5 .. 2 kg."""
    mechanism = build("rotary_pendulum")
    first, *rest = mechanism.bodies
    return replace(mechanism, bodies=(replace(first, mass=Tunable("payload", payload, 0.5, 2.0)), *rest))


def test_a_tunable_of_a_robot_starts_within_its_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BUILTIN, "lifting", lifting)
    file = tmp_path / "launch.toml"
    file.write_text('[sim]\nrobot = "lifting"\n')
    with pytest.raises(PlanError, match="payload"):
        load_plan(file, ["sim.parameters.payload=9"])
    assert load_plan(file, ["sim.parameters.payload=1.5"]).sim.parameters == {"payload": 1.5}
