"""Launch files with one thing wrong, drawn at random: each is refused in one line, or is a plan that can run."""

from __future__ import annotations

import copy
import json
import random
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodes.plan.file import load_plan
from nodes.plan.tables import PlanError
from robots.registry import BUILTIN, build
from sim_core.mechanism import Mechanism, Tunable

LAUNCH = Path(__file__).parents[3] / "launch"
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


@pytest.mark.soak
def test_three_hundred_mutated_launch_files_are_refused_or_run_for_the_time_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused, ran, failed = 0, 0, []
    for seed in range(1000, 1300):
        folder = tmp_path / str(seed)
        folder.mkdir()
        document = mutated(seed)
        file = written(document, folder)
        if refusal(file):
            refused += 1
            continue
        asked = load_plan(file).duration_s
        short = ["--duration", "0.05"] if asked is None or asked > 1.0 else []
        summary = folder / "summary.json"
        command = [sys.executable, "-P", "-m", "nodes.cli", "launch", str(file), "--json", str(summary), *short]
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
        said = run.stdout + run.stderr
        told = json.loads(summary.read_text())["time"] if summary.exists() else None
        ended = told is not None and abs(told - (0.05 if short else asked or 0.0)) <= 0.0101
        ran += ended
        if run.returncode not in (0, 1, 2) or "Traceback" in said or (run.returncode == 0 and not ended):
            failed.append((seed, run.returncode, told, said[-2000:]))
    print(f"{refused} refused, {300 - refused} taken, {ran} of them ran for the time asked for")
    assert not failed, failed[:3]


TALL = "[" * 5000 + "]" * 5000
ROTARY = '[sim]\nrobot = "rotary_pendulum"\n'
RECORDER = '[[nodes]]\nname = "recorder"\nrun = "nodes/recorder.py:Recorder"\n'
MOVES = '[[nodes]]\nname = "way"\nrun = "nodes/trajectory.py:Trajectory"\n'
WRONG = {
    "a seed below zero": (f"seed = -1\n{ROTARY}", "'seed'", "0 .. "),
    "an endless duration": (f"duration_s = 1e300\n{ROTARY}", "'duration_s'", "1e-06 .. 1e+08 s"),
    "a duration of no step": (f"duration_s = 1e-12\n{ROTARY}", "'duration_s'", "1e-06 .. 1e+08 s"),
    "a duration below one step": (f"duration_s = 1e-4\n{ROTARY}", "'duration_s'", "less than one step of 1 ms"),
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
    "a recording with NUL": (f'{ROTARY}{RECORDER}params = {{ file = "a\\u0000.mcap" }}', "NUL", "file"),
    "a recording of 5,000 characters": (f'{ROTARY}{RECORDER}params = {{ file = "{"a" * 5000}" }}', "5000", "at most"),
    "nested brackets": (f"seed = {TALL}\n{ROTARY}", "nested", "16 deep"),
    "nested tables": (f"{'.'.join(['a'] * 5000)} = 1\n{ROTARY}", "nested", "16 deep"),
    "a number of 5,000 digits": (f"seed = {'1' * 5000}\n{ROTARY}", "not valid TOML", "digits"),
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
    "200,000 waypoints": (
        f'{ROTARY}{MOVES}params = {{ joints = ["arm"], kind = "quintic", waypoints = ['
        + ", ".join(f"[{k}.0, 1.0]" for k in range(200_000))
        + "] }",
        "200000 rows",
        "at most 10000",
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
