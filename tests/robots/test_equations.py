"""Equations that people read are those of the kernels."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodes.cli.application import run as command_line
from robots.registry import build, builder, names
from sim_core.mechanism import Body, Joint, Mechanism
from sim_core.system import assemble

sympy = pytest.importorskip("sympy")
from robots.export.equations import Equations, equations, written  # noqa: E402


def small() -> dict[str, Mechanism]:
    """Rigid robots of up to six degrees of freedom, in all coordinates they have."""
    found = {}
    for name in names():
        choices = ["absolute_angle", "joint"] if name == "double_pendulum" else ["absolute", "joint"]
        takes = "coordinates" in __import__("inspect").signature(builder(name)).parameters
        for chosen in choices if takes else [""]:
            mechanism = build(name, **({"coordinates": chosen} if chosen else {}))
            if (not mechanism.beams and len(mechanism.initial_q) <= 6) or mechanism.coordinates == "absolute":
                found[f"{name} {chosen}".strip()] = mechanism
    return found


SMALL = small()


MADE: dict[str, Equations] = {}  # by hash of the mechanism


def equations_of(mechanism: Mechanism) -> Equations:
    """The equations of a mechanism, made once for all tests."""
    key = mechanism.canonical_hash
    if key not in MADE:
        MADE[key] = equations(mechanism)
    return MADE[key]


@pytest.fixture(autouse=True)
def _made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robots.export.equations.equations", equations_of)


def test_there_are_several_small_robots() -> None:
    assert {"single_pendulum", "double_pendulum joint", "arm_6dof", "simple_pendulum"} <= SMALL.keys()
    assert {"rotary_pendulum absolute", "andrews_squeezer", "epicyclic_gear_train"} <= SMALL.keys()


@pytest.mark.parametrize("name", SMALL)
def test_the_equations_are_those_of_the_kernels(name: str) -> None:
    """M, f, J and gamma to 1e-12 at 100 states."""
    system, found = assemble(SMALL[name]), equations_of(SMALL[name]).function()
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
    found = equations_of(build("double_pendulum", mass_1=2.0, length_1=3.0))
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
    assert text.endswith("The reaction forces of the constraints are -J' lam, with these multipliers:\n  lam_1  rod")


def test_the_rows_of_a_constraint_are_told_apart() -> None:
    text = written(build("crank_slider"), "text")
    for line in ("constraint crank_pin, row 1 of 2", "  lam_2  crank_pin, row 2 of 2"):
        assert line in text.splitlines()


@pytest.mark.parametrize("name", ["double_pendulum", "arm_4dof", "simple_pendulum"])
def test_the_sympy_file_has_the_equations(name: str) -> None:
    mechanism = build(name)
    space: dict[str, Any] = {}
    exec(written(mechanism, "sympy"), space)
    found = equations_of(mechanism)
    for part in ("M", "f", "J", "gamma"):
        ours, file = (sympy.Matrix(matrix) for matrix in (getattr(found, part), space[part]))
        assert (ours - file).is_zero_matrix or ours == file
    assert [str(x) for x, _ in space["named"]] == [str(x) for x, _ in found.named]


@pytest.mark.parametrize("name", ["arm_6dof", "crank_slider", "charmie", "gibbon", "lipinski_pendulum"])
def test_the_c_source_has_the_equations(name: str, tmp_path: Path) -> None:
    """It is a function of t, q, v, u and p alone, for robots of any size."""
    compiler = shutil.which("cc") or pytest.skip("no C compiler: apt-get install -y gcc libc6-dev")
    mechanism = build(name)
    (tmp_path / "terms.c").write_text(written(mechanism, "c"))
    done = subprocess.run(
        [compiler, "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-O1", "terms.c", "-o", "terms.so", "-lm"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    system = assemble(mechanism)
    n, rows = system.n_q, system.max_rows
    random = np.random.default_rng(1)
    q, v, u = random.uniform(-1, 1, n), random.uniform(-1, 1, n), random.uniform(-1, 1, system.n_u)
    if mechanism.beams:
        q = np.array(mechanism.initial_q) + 1e-3 * q  # contact points on their beam
    results = system.terms(0.0, q, v, u)[: 4 if rows else 2]
    out = [np.zeros(result.shape[::-1]) for result in results]  # column by column
    arrays = [np.zeros(1), q, v, u, np.append(system.default_parameters(), 0.0), *out]
    function = getattr(ctypes.CDLL(str(tmp_path / "terms.so")), f"{name}_terms")
    function(*[ctypes.c_void_p(array.ctypes.data) for array in arrays])
    for ours, kernel in zip(out, results, strict=True):
        np.testing.assert_allclose(ours.T, kernel, atol=1e-12 * max(1.0, float(np.abs(kernel).max())))


def test_latex_has_every_row_and_balanced_braces() -> None:
    text = written(build("simple_pendulum"), "latex")
    assert text.startswith(r"\begin{align}")
    assert text.count("{") == text.count("}")
    assert text.count("&=") == 3


def test_of_a_large_robot_there_are_sizes_and_structure() -> None:
    text = written(build("charmie"), "text")
    assert "too large to read: 21 coordinates, " in text
    assert "M: 21 x 21, " in text
    assert len(text) < 3000


def test_sizes_and_structure_are_comments_of_the_format() -> None:
    exec(written(build("charmie"), "sympy"), {})
    assert all(line.startswith("%") for line in written(build("charmie"), "latex").splitlines())


def test_a_file_without_parameters_has_an_empty_tuple_of_them() -> None:
    space: dict[str, Any] = {}
    exec(written(build("crank_slider"), "sympy"), space)
    assert space["p"] == ()


def test_a_beams_shape_functions_are_tables_in_c() -> None:
    mechanism = build("lipinski_pendulum")
    assert "not written out, because the beam's shape functions are tables: " in written(mechanism, "latex")
    found = equations_of(mechanism)
    (table,) = found.tables
    assert len(found.arguments) == 1 + 2 * len(mechanism.initial_q) + len(mechanism.parameter_names) + len(table.row)
    assert table.values.shape[1] == len(table.row)


def test_a_linkage_of_one_degree_of_freedom_is_written_out_while_it_can_be_read() -> None:
    assert "constraint " in written(build("parallelogram_four_bar"), "text")
    assert "too large to read: 49 coordinates, " in written(build("epicyclic_gear_train"), "text")


def command(*arguments: str) -> int:
    return command_line(["robot", "equations", *arguments])


def test_the_command_prints_and_refuses_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("single_pendulum") == 0
    assert "pivot_ddot = -sin(pivot)" in capsys.readouterr().out
    assert command("single_pendulum", "--format", "latx") == 2
    refused = capsys.readouterr().err
    assert "did you mean 'latex'?" in refused
    assert len(refused.splitlines()) == 1


@pytest.mark.parametrize(("more", "coordinates"), [((), 3), (("--param", "coordinates=absolute"), 9)])
def test_a_robot_with_a_choice_of_coordinates_is_written_in_minimal_ones(
    more: tuple[str, ...], coordinates: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("triple_pendulum", *more) == 0
    assert capsys.readouterr().out.startswith(f"triple_pendulum: {coordinates} coordinates")


def test_names_that_clash_are_told_apart_and_leave_the_equations_right() -> None:
    """Names of the file, of SymPy, keywords, one identifier for two names, and a velocity's name."""
    parts = ("t", "lambda", "E", "sin", "x0", "u.1", "u_1", "u_1_dot")
    bodies = tuple(Body(name=f"body {name}", mass=1.0, inertia=(0.1, 0.2, 0.3, 0, 0, 0)) for name in parts[:4])
    for chosen in (parts[:4], parts[4:]):
        joints = [
            Joint(name=name, parent=bodies[k - 1].name if k else "ground", child=bodies[k].name, axis=axis)
            for k, (name, axis) in enumerate(zip(chosen, ((0, 0, 1), (0, 1, 0), (1, 0, 0), (0, 0, 1)), strict=True))
        ]
        rest = {"initial_q": (0.0,) * 4, "initial_v": (0.0,) * 4}
        mechanism = Mechanism(name="clash", coordinates="joint", bodies=bodies, joints=tuple(joints), **rest)
        found, system = equations_of(mechanism), assemble(mechanism)
        symbols = found.arguments
        assert len(set(symbols)) == len(symbols) == 9
        space: dict[str, Any] = {}
        exec(written(mechanism, "sympy"), space)
        assert [space["t"], *space["q"], *space["v"]] == symbols
        q, v = np.random.default_rng(3).uniform(-1, 1, (2, 4))
        for ours, kernel in zip(found.function()(0.3, *q, *v), system.terms(0.3, q, v), strict=True):
            np.testing.assert_allclose(np.array(ours, dtype=float).reshape(kernel.shape), kernel, atol=1e-13)
        values = dict(zip(symbols, [0.3, *q, *v], strict=True))
        M = space["M"].subs(list(reversed(space["named"]))).subs(values)
        np.testing.assert_allclose(np.array(M, dtype=float), system.terms(0.3, q, v)[0], atol=1e-13)
    assert [str(x) for x in found.inputs["q"]] == ["x0", "u_1", "u_1_", "u_1_dot_"]
