"""Code shown by the front page and the pages of docs/ does what they say."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodes.framework.client import read_recording
from nodes.framework.messages import RobotState
from nodes.framework.plan.files.file import load_plan
from nodes.framework.recording.reader import RecordingWriter
from sim_core.analysis.comparison import every_stabilizer
from sim_core.stabilization.stabilizers import Baumgarte
from sim_core.system import assemble

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "launch/examples"


PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if "_generated" not in page.parts),
]


def block(words: str, language: str = "python") -> str:
    """The fenced block of the pages that contains `words`; where several pages show it, they show the same."""
    pattern = re.compile(rf"^```{language}\n(.*?)^```", re.MULTILINE | re.DOTALL)
    (found,) = {text for page in PAGES for text in pattern.findall(page.read_text()) if words in text}
    return str(found)


def test_the_controller_shown_is_the_tested_example_of_twenty_lines() -> None:
    example = (EXAMPLES / "my_controller.py").read_text()
    assert block("class HoldArm") == example
    statements = [
        line for line in example.splitlines() if line.strip() and not line.startswith(('"', "import", "from"))
    ]
    assert len(statements) <= 20


def test_the_robot_shown_can_be_simulated() -> None:
    namespace: dict[str, Any] = runpy.run_path(str(EXAMPLES / "my_robot.py"))
    exec(block("cart_pole()"), namespace)
    assert namespace["sim"].time == pytest.approx(10.0)


def test_the_gibbon_shown_lets_go() -> None:
    namespace: dict[str, Any] = {}
    exec(block('build("gibbon"'), namespace)
    sim = namespace["sim"]
    assert sim.constraint_mode == "b"
    assert sim.parameters["tension"] == 4500.0
    assert sim.outputs()["hand_b_force_z"] > 0.0


def test_the_dynamics_shown_undo_each_other() -> None:
    namespace: dict[str, Any] = {}
    exec(block("forward_dynamics("), namespace)
    np.testing.assert_allclose(namespace["accelerations"], namespace["a"], rtol=0, atol=1e-10)
    expected = namespace["efforts"].copy()
    namespace["efforts"][:] = 0.0
    namespace["call"]()
    np.testing.assert_array_equal(namespace["efforts"], expected)
    assert namespace["position"][2] > 0.5  # the left hand is stretched out well above the floor


def test_the_load_report_shown_names_every_actuator_with_its_share(capsys: pytest.CaptureFixture[str]) -> None:
    exec(block("load_report("), {})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 21
    (tilt,) = (line for line in lines if line.startswith("tilt_rod"))
    assert re.match(r"tilt_rod +peak +\d+\.\d N +\d+ % +\d+\.\d W", tilt)


def test_the_tools_shown_after_it_work_on_its_motion(capsys: pytest.CaptureFixture[str]) -> None:
    namespace: dict[str, Any] = {}
    exec(block("load_report("), namespace)
    capsys.readouterr()
    exec(block("tune_springs("), namespace)
    balance, tilt, loads, _ = capsys.readouterr().out.splitlines()
    assert re.match(r"balance .* RMS force 62 N -> 7 N$", balance)
    assert re.match(r"tilt_spring .* RMS force 432 N -> 426 N$", tilt)
    assert "'tilt_spring': " in loads
    assert namespace["loads"].floor.force[2] == pytest.approx(454.0, abs=20.0)  # its weight, as it moves


def test_the_linkage_shown_is_compared_under_every_stabilizer(capsys: pytest.CaptureFixture[str]) -> None:
    example = EXAMPLES / "my_linkage.py"
    lines = [line for line in example.read_text().splitlines() if line.strip()]
    assert len([line for line in lines if not line.startswith(('"', "import", "from"))]) < 40
    namespace: dict[str, Any] = runpy.run_path(str(example))
    exec(block("compare("), namespace)
    printed = capsys.readouterr().out
    system = assemble(namespace["my_linkage"]())
    phi, phidot = system.residual(0.0, system.mechanism.initial_q, system.mechanism.initial_v)
    assert max(np.abs(phi).max(), np.abs(phidot).max()) <= 1e-15
    for label in every_stabilizer(system, 1e-3):
        assert label in printed


def test_the_launch_file_shown_chooses_its_methods(tmp_path: Path) -> None:
    file = tmp_path / "chosen.toml"
    file.write_text(block("[sim.stabilizer]", "toml"))
    sim = load_plan(file).sim
    assert sim.make_stabilizer() == Baumgarte(5.0, 12.0)
    assert sim.make_stepper().options == (1e-9, 1e-12)
    assert sim.parameters == {"start": "printed"}


def test_a_recording_is_read_as_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RecordingWriter(tmp_path / "demo.mcap", {}) as writer:
        for tick in range(5):
            state = RobotState(timestamp=tick * 1e-3, name=["arm", "pendulum"], position=[0.1, 0.2 * tick])
            writer.write("rotary_pendulum/state", state, state.timestamp)
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {}
    exec(block('read_recording("demo.mcap")'), namespace)
    assert namespace["state"]["timestamp"] == pytest.approx(np.arange(5) * 1e-3)
    assert namespace["state"]["position"].shape == (5, 2)


def test_a_robot_of_another_package_joins_by_the_entry_point_shown_and_is_launched(tmp_path: Path) -> None:
    package = tmp_path / "my_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "my_robot.py").write_text((EXAMPLES / "my_robot.py").read_text())
    group, line = block("entry-points", "toml").strip().splitlines()
    installed = tmp_path / "my_package-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: my_package\nVersion: 1.0\n")
    name = re.fullmatch(r'\[project\.entry-points\."(.+)"\]', group)
    assert name
    (installed / "entry_points.txt").write_text(f"[{name[1]}]\n{line.replace(chr(34), '')}\n")
    runtime = tempfile.mkdtemp(prefix="as")  # short: ipc paths have a limit
    (tmp_path / "cart_pole.toml").write_text(block('file = "cart_pole.mcap"', "toml"))

    def armswing(*arguments: str) -> str:
        paths = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH", "")]))
        done = subprocess.run(
            [sys.executable, "-P", "-m", "nodes.cli", *arguments],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": paths, "XDG_RUNTIME_DIR": runtime},
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert {"rail", "hinge"} <= set(re.findall(r"\w+", armswing("robot", "show", "cart_pole")))
    assert "5.000 s in 5000 steps" in armswing("launch", "cart_pole.toml")
    assert read_recording(tmp_path / "cart_pole.mcap")["cart_pole/state"]["timestamp"][-1] == pytest.approx(5.0)
    shutil.rmtree(runtime)
