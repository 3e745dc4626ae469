"""Two recordings are the same, or it is said what differs, how far, and from when on."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from nodes.cli.application import run
from nodes.framework.messages import RobotState
from nodes.framework.recording.reader import RecordingWriter

PLAN = {"name": "p", "sim": {"robot": "arm", "step_ms": 10.0}, "nodes": [{"name": "pd", "params": {"gain": 1.0}}]}


def write(path: Path, ticks: range, plan: Any = PLAN, pushed_at: float = math.inf, sent_ns: int = 0) -> str:
    """A recording at 100 Hz; from `pushed_at` on the elbow leaves its way by 0.5 rad/s."""
    with RecordingWriter(path, {"plan": json.dumps(plan)}, sidecar=None) as writer:
        for tick in ticks:
            now = tick / 100
            elbow = math.sin(now) + 0.5 * max(0.0, now - pushed_at)
            state = RobotState(timestamp=now, seq=tick, name=["hip", "elbow"], position=[now, elbow], sent_ns=sent_ns)
            writer.write("arm/state", state, now)
    return str(path)


def compared(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = run(["compare", *arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_equal_files_are_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [write(tmp_path / f"{name}.mcap", range(200)) for name in "ab"]
    code, found = compared(capsys, *files)
    assert (code, found["same_bytes"], found["same"]) == (0, True, True)


def test_other_bytes_of_the_same_motion_are_the_same_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [write(tmp_path / "a.mcap", range(200)), write(tmp_path / "b.mcap", range(200), sent_ns=7)]
    code, found = compared(capsys, *files)
    assert (code, found["same_bytes"], found["plan"]) == (0, False, [])
    assert [row["largest"] for row in found["joints"]] == [0.0, 0.0]


def test_a_deviation_is_measured_by_joint_from_when_it_begins_and_plans_by_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = {**PLAN, "sim": {**PLAN["sim"], "mode": "fast"}, "nodes": [{"name": "pd", "params": {"gain": 2.0}}]}
    first = write(tmp_path / "a.mcap", range(200))
    second = write(tmp_path / "b.mcap", range(50, 300), other, pushed_at=1.0)
    code, found = compared(capsys, first, second)
    assert (code, found["instants"], found["only_first"], found["only_second"]) == (1, 150, 50, 100)
    hip, elbow = found["joints"]
    assert (hip["largest"], hip["begins_s"]) == (0.0, None)
    assert elbow["largest"] == pytest.approx(0.5 * 0.99)
    assert (elbow["at_s"], elbow["begins_s"]) == (1.99, 1.01)
    assert found["plan"] == [
        {"key": "nodes.pd.params.gain", "first": 1.0, "second": 2.0},
        {"key": "sim.mode", "first": "(not there)", "second": "fast"},
    ]
    assert run(["compare", first, second]) == 1
    text = capsys.readouterr().out
    assert "elbow  0.495 rad          1.990 s  1.010 s" in text
    assert "nodes.pd.params.gain  1.0          2.0" in text


def test_a_file_without_states_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [write(tmp_path / "a.mcap", range(3)), write(tmp_path / "b.mcap", range(0))]
    assert run(["compare", *files]) == 2
    assert capsys.readouterr().err.endswith(
        "b.mcap contains no robot states, so it cannot be compared; "
        "give a recording that contains the topic ROBOT/state\n"
    )
