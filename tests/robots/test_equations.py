"""Equations that people read are those of the kernels."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robots.registry import build, builder, names
from sim_core.mechanism import Mechanism
from sim_core.system import assemble

sympy = pytest.importorskip("sympy")
from robots.export.equations import equations, written  # noqa: E402


def small() -> dict[str, Mechanism]:
    """Robots of up to six coordinates, in all coordinates they have."""
    found = {}
    for name in names():
        choices = ["absolute_angle", "joint"] if name == "double_pendulum" else ["absolute", "joint"]
        takes = "coordinates" in __import__("inspect").signature(builder(name)).parameters
        for chosen in choices if takes else [""]:
            mechanism = build(name, **({"coordinates": chosen} if chosen else {}))
            if not mechanism.beams and len(mechanism.initial_q) <= 6:
                found[f"{name} {chosen}".strip()] = mechanism
    return found


SMALL = small()


def test_there_are_several_small_robots() -> None:
    assert {"single_pendulum", "double_pendulum joint", "arm_6dof", "simple_pendulum"} <= SMALL.keys()


@pytest.mark.parametrize("name", SMALL)
def test_the_equations_are_those_of_the_kernels(name: str) -> None:
    """M, f, J and gamma to 1e-12 at 100 states."""
    system, found = assemble(SMALL[name]), equations(SMALL[name]).function()
    random = np.random.default_rng(4)
    for _ in range(100):
        q, v = random.uniform(-2, 2, (2, system.n_q))
        u, p = random.uniform(-1, 1, system.n_u), system.default_parameters()
        for ours, kernel in zip(found(0.3, *q, *v, *u, *p), system.terms(0.3, q, v, u, p), strict=True):
            values = np.array(ours, dtype=float).reshape(kernel.shape)
            assert np.abs(values - kernel).max(initial=0.0) <= 1e-12 * max(1.0, np.abs(kernel).max(initial=0.0))


def test_the_forces_of_stops_are_not_expanded() -> None:
    """Expanded, (q - limit)**3 would lose digits to cancellation, and nobody could read it."""
    assert "- 34600*(joint_4 - Min(2.6, Max(-2.6, joint_4)))**3*Max(0, " in written(build("arm_2dof"), "text")


def test_the_double_pendulum_is_equation_57_term_by_term() -> None:
    """Of lambda1 = 2, lambda2 = 3, with the powers and signs that the paper misses. [Schiehlen1993, eq. 57]"""
    found = equations(build("double_pendulum", mass_1=2.0, length_1=3.0))
    a, b = found.inputs["q"]
    da, db = found.inputs["v"]
    l1, l2, sin, cos = 2, 3, sympy.sin, sympy.cos
    assert sympy.Matrix([[(1 + l1) * l2**2, l2 * cos(b - a)], [l2 * cos(b - a), 1]]) == found.M
    right = [-(1 + l1) * l2 * sin(a) - l2 * sin(a - b) * db**2, -sin(b) + l2 * sin(a - b) * da**2]
    for ours, paper in zip(found.f, right, strict=True):
        assert set(sympy.Add.make_args(ours)) == set(sympy.Add.make_args(sympy.expand(paper)))
    assert found.J.rows == found.gamma.rows == 0
    text = written(build("double_pendulum", mass_1=2.0, length_1=3.0), "text").splitlines()
    left = "27*upper_angle_ddot + 3*lower_angle_ddot*cos(lower_angle - upper_angle)"
    right_text = "3*lower_angle_dot**2*sin(lower_angle - upper_angle) - 9*sin(upper_angle)"
    assert text[text.index("upper.angle") + 1] == f"  {left} = {right_text}"


def test_a_constraint_shows_its_reaction_force() -> None:
    text = written(build("simple_pendulum"), "text")
    assert "mass_x_ddot + lam_1*mass_x = 0" in text
    assert "lam_1 is the reaction force of rod" in text


@pytest.mark.parametrize("name", ["double_pendulum", "arm_4dof", "simple_pendulum"])
def test_the_sympy_file_has_the_equations(name: str) -> None:
    mechanism = build(name)
    space: dict[str, Any] = {}
    exec(written(mechanism, "sympy"), space)
    found = equations(mechanism)
    for part in ("M", "f", "J", "gamma"):
        ours, file = (sympy.Matrix(matrix) for matrix in (getattr(found, part), space[part]))
        assert (ours - file).is_zero_matrix or ours == file
    assert [str(x) for x, _ in space["named"]] == [str(x) for x, _ in found.named]


def test_the_c_source_has_the_equations(tmp_path: Path) -> None:
    mechanism = build("arm_6dof")
    (tmp_path / "terms.c").write_text(written(mechanism, "c"))
    done = subprocess.run(
        ["cc", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-O1", "terms.c", "-o", "terms.so", "-lm"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    system = assemble(mechanism)
    q, v, u = np.random.default_rng(1).uniform(-1, 1, (3, 6))
    out = [np.zeros(36), np.zeros(6)]
    arrays = [np.zeros(1), q, v, u, np.zeros(1), *out]
    function = ctypes.CDLL(str(tmp_path / "terms.so")).arm_6dof_terms
    function(*[ctypes.c_void_p(array.ctypes.data) for array in arrays])
    M, f = system.terms(0.0, q, v, u)[:2]
    np.testing.assert_allclose(out[0].reshape(6, 6).T, M, atol=1e-13)
    np.testing.assert_allclose(out[1], f, atol=1e-12)


def test_latex_has_every_row_and_balanced_braces() -> None:
    text = written(build("simple_pendulum"), "latex")
    assert text.startswith(r"\begin{align}")
    assert text.count("{") == text.count("}")
    assert text.count("&=") == 3


def test_of_a_large_robot_there_are_sizes_and_structure() -> None:
    text = written(build("charmie"), "text")
    assert "too large to read: 21 coordinates; --format c" in text
    assert "M: 21 x 21, " in text
    assert len(text) < 3000


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    whole = [sys.executable, "-P", "-m", "nodes.cli", "robot", "equations", *arguments]
    return subprocess.run(whole, capture_output=True, text=True, timeout=100, check=False)


def test_the_command_prints_and_refuses_in_one_line() -> None:
    done = command("single_pendulum")
    assert done.returncode == 0
    assert "pivot_ddot = -sin(pivot)" in done.stdout
    wrong = command("single_pendulum", "--format", "latx")
    assert wrong.returncode == 2
    assert "did you mean 'latex'?" in wrong.stderr
    assert len(wrong.stderr.splitlines()) == 1
    beams = command("lipinski_pendulum")
    assert beams.returncode == 2
    assert "has beams; equations can be printed only for mechanisms of rigid bodies" in beams.stderr
