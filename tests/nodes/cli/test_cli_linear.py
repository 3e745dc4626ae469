"""`armswing robot linearize` and `armswing robot modes`: matrices that others read, modes, refusals in one line."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest

from nodes.cli.application import run
from robots.registry import build
from sim_core.analysis.linearization import linearize, operating_point
from sim_core.system import assemble


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(["robot", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_the_matrices_as_csv_are_those_of_linearize(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = printed(capsys, "linearize", "arm_2dof", "--step-ms", "2", "--format", "csv")
    assert code == 0, err
    system = assemble(build("arm_2dof"))
    point = operating_point(system)
    linear = linearize(system, (point.q, point.v), point.u, step_s=2e-3)
    found = {
        (row["matrix"], row["row"], row["column"]): float(row["value"]) for row in csv.DictReader(io.StringIO(out))
    }
    for i, row in enumerate(linear.states):
        for k, column in enumerate(linear.states):
            assert found["A", row, column] == linear.A[i, k]
    assert len(found) == linear.A.size + linear.B.size + linear.C.size + linear.D.size


def test_text_names_units_and_a_position_that_is_no_equilibrium(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = printed(capsys, "linearize", "rotary_pendulum", "--at", "pendulum=1.0")
    assert code == 0
    assert out.splitlines()[:3] == [
        "x' = A x + B u; y = C x + D u",
        "x: arm (rad), pendulum (rad), arm.velocity (rad/s), pendulum.velocity (rad/s)",
        "u: arm (N m)",
    ]
    assert "note: the position is no equilibrium" in err


def test_matlab_code_has_names_and_step(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = printed(capsys, "linearize", "arm_2dof", "--step-ms", "1", "--format", "matlab")
    last = out.splitlines()[-1]
    assert code == 0
    assert last.startswith("sys = ss(A, B, C, D, 0.001, 'StateName', {'joint_2', 'joint_4', ")


def test_modes_of_the_upright_pendulum_are_listed_and_one_grows(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("modes", "rotary_pendulum", "--at", f"pendulum={np.pi}")
    code, out, _ = printed(capsys, *arguments)
    assert code == 0
    assert "unstable: 1 mode grows by e in" in out
    _, out, _ = printed(capsys, *arguments, "--json")
    modes = json.loads(out)
    assert sorted(round(mode["damping"]) for mode in modes) == [-1, 1, 1, 1]


def test_rigid_body_motions_are_named_and_rounding_is_no_damping(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = printed(capsys, "modes", "rotary_pendulum", "--at", "pendulum=0")
    header, *rows = out.splitlines()
    assert code == 0
    assert header.startswith("undamped rad/s  damped Hz")
    assert [row.split()[0] for row in rows] == ["0", "0", rows[2].split()[0]]
    assert all(row.endswith("arm 100 % (rigid-body motion)") for row in rows[:2])
    assert rows[2].split()[2] == "0"  # the pendulum swings without damping


def test_compilations_are_announced_without_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("sim_core.derivatives.FEW_S", 0.0)
    code, out, err = printed(capsys, "modes", "double_pendulum")
    assert code == 0
    assert "compiling" not in out
    assert "compiling the derivatives of 'double_pendulum', a few seconds" in err
    assert re.search(r"compiling the derivatives of 'double_pendulum', [\d,]+ instructions, about [\d.]+ s", err)


def test_a_large_robot_is_linearized_with_permission(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("sim_core.kernels.effort.LIMIT_BYTES", 1e6)
    code, _, err = printed(capsys, "modes", "double_pendulum")
    assert code == 2
    assert "--yes to a command" in err
    assert printed(capsys, "modes", "double_pendulum", "--yes")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("linearize", "arm_2dof", "--at", "jiont_2=1"), "has no coordinate 'jiont_2'"),
        (("linearize", "arm_2dof", "--effort", "joint_3=1"), "has no actuator 'joint_3'"),
        (("linearize", "arm_2dof", "--output", "hand"), "has no output 'hand'"),
        (("linearize", "arm_2dof", "--step-ms", "0"), "--step-ms is 0"),
        (("modes", "arm_2dof", "--at", "joint_2=far"), "--at joint_2=far: the value must be a number"),
    ],
)
def test_bad_input_is_one_line(arguments: tuple[str, ...], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = printed(capsys, *arguments)
    assert (code, out) == (2, "")
    assert line in err.splitlines()[-1]
