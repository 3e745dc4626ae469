"""Robot in the loop through processes: what is wrong with the emulated robot is what the report names."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nodes.hil.report.reading import read_case
from nodes.hil.report.verdict import Compared, Verdict, limits_of

ROOT = Path(__file__).resolve().parents[3]


def launched(folder: Path, *differences: str, mode: str = "lockstep") -> tuple[int, dict[str, Any]]:
    """Exit code and summary of a short run of launch/hil_robot.toml with these differences of the hardware."""
    command = [sys.executable, "-P", "-m", "nodes.cli", "launch", str(ROOT / "launch/hil_robot.toml")]
    settings = ["sim.step_ms=2", "trajectory.decimation=5", "hardware.sample_hz=250"]  # half the work for a short test
    settings += [f"sim.mode={mode}", *(f"hardware.{each}" for each in differences)]
    done = subprocess.run(
        [*command, "--duration", "2.6", "--json", "summary.json", *(f"--set={each}" for each in settings)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (folder / "summary.json").is_file(), done.stdout + done.stderr
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    assert summary["time"] == pytest.approx(2.6), summary["ended"]
    assert summary["look"] == "armswing hil report hil_robot.mcap"
    return done.returncode, summary


def reported() -> Verdict:
    """What the report says of the run."""
    case = read_case(Path("hil_robot.mcap"), None)
    return Compared(case, limits_of(case, {})).verdict


# a mass and a delay: in tests/network, over a network
@pytest.mark.parametrize(
    ("difference", "kind", "of", "value", "tolerance"),
    [
        ("encoder_zero.joint_2=0.0087266", "bias", "joint_2", 0.0087266, 2e-5),
        ("encoder_dead.joint_3=1.0", "dead_encoder", "joint_3", 1.6, 0.05),
    ],
)
def test_what_was_planted_in_the_robot_is_named_alone(
    difference: str,
    kind: str,
    of: str,
    value: float,
    tolerance: float,
    domain: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, summary = launched(tmp_path, difference)
    outcome = summary["verdicts"]["compare"]["outcome"]
    assert code == {"passed": 0, "failed": 1, "not certain": 3}[outcome]
    report = reported()
    assert not report.passed
    (finding,) = report.findings
    assert (finding.kind, finding.of, finding.failed) == (kind, of, True)
    assert finding.value == pytest.approx(value, abs=tolerance)


def test_a_robot_like_its_model_passes_with_encoders_noise_and_loss(
    domain: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, summary = launched(tmp_path, "loss=0.05")
    assert code == 0
    assert summary["verdicts"]["compare"]["outcome"] == "passed"
    report = reported()
    assert (report.passed, report.findings) == (True, [])


def test_in_realtime_the_robots_own_clock_is_found(
    domain: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    clock = ("clock_offset_s=5.0", "clock_drift_ppm=400", "sample_hz=100")
    _, summary = launched(tmp_path, *clock, mode="realtime")
    figures = summary["figures"]["compare"]
    assert figures["hardware_clock_offset_s"] == pytest.approx(5.0, abs=0.03)
    report = reported()
    measured = report.measured.clock
    assert measured is not None
    assert measured.drift == pytest.approx(400e-6, abs=max(300e-6, 5.0 * measured.drift_sigma))
    assert measured.drift_sigma < 1e-3
    assert report.paired > 100


def test_a_launch_reports_that_the_guard_of_a_driver_stopped_the_robot(tmp_path: Path) -> None:
    text = (ROOT / "launch/hil_robot.toml").read_text()
    before, hardware, after = text.partition('run = "nodes/hardware.py:Hardware"\nhost = "${robot_host}"\n')
    assert hardware
    guard = "[nodes.guard.joints.joint_2]\nlower = 0.5\n"  # the joint starts at 0
    plan = tmp_path / "guarded.toml"
    plan.write_text(f"{before}{hardware}{guard}{after}".replace('run = "nodes/', f'run = "{ROOT}/nodes/'))
    done = subprocess.run(
        [sys.executable, "-P", "-m", "nodes.cli", "launch", str(plan), "--duration", "0.4", "--json", "summary.json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert "WARNING hardware: t = 0.000 s: lower of joint_2: a stop from 0 would reach" in done.stderr
    assert re.search(
        r"stopped by a guard +hardware at t = 0.000 s for 0.\d+ s, still stopped at the end: ", done.stdout
    )
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert done.returncode == summary["exit_code"] == 1
    line = (
        r"the guard of 'hardware' stopped the robot at t = 0.000 s for 0.\d+ s, still stopped at the end: lower of jo"
    )
    assert re.match(line, summary["ended"])
    assert summary["verdicts"]["compare"]["outcome"] != "passed"
    assert "hardware stopped the robot at t = 0.0" in summary["verdicts"]["compare"]["reason"]
    stops = summary["guard_stops"]["hardware"]
    assert (stops["count"], stops["first_time"]) == (1, pytest.approx(0.0, abs=0.01))
    assert stops["stopped_s"] == pytest.approx(0.4, abs=0.01)
