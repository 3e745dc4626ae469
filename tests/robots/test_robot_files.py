"""Robots of a user's own file, named "path/to/file.py:function"."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from armswing import build
from robots import files, registry
from sim_core.errors import InvalidRequest
from sim_core.inverse import mass_matrix
from sim_core.system import assemble

ROD = """
from typing import Annotated

from robots.parameters import ParameterInfo
from sim_core.mechanism import Body, Joint, Mechanism, Y
import numbers_of_mine


def rod(mass: Annotated[float, ParameterInfo("mass of the rod", "kg")] = numbers_of_mine.MASS) -> Mechanism:
    "A rod that hangs on a hinge."
    body = Body(name="rod", mass=mass, inertia=(1, 1, 1, 0, 0, 0), center_of_mass=(0, 0, -1.0))
    hinge = Joint(name="hinge", kind="revolute", child="rod", axis=Y)
    return Mechanism(
        name="a_rod", coordinates="joint", bodies=(body,), joints=(hinge,), initial_q=(0.5,), initial_v=(0.0,)
    )


def table():
    return {"mass": 2.0}


def halved():
    return 1.0 / 0.0


nothing = None
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A stranger's folder, with a robot, a module beside it and packages named as ours."""
    (tmp_path / "rods.py").write_text(ROD)
    (tmp_path / "numbers_of_mine.py").write_text("MASS = 2.0\n")
    (tmp_path / "wrong.py").write_text("import math\n\nmath.cosinus(1.0)\n")
    for package in ("nodes", "robots", "sim_core"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise RuntimeError('the wrong one')\n")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("numbers_of_mine", None)


def test_a_function_of_a_file_is_a_robot_like_those_of_the_registry(folder: Path) -> None:
    for robot in ("rods.py:rod", f"{folder}/rods.py:rod"):
        assert build(robot).bodies[0].mass == 2.0
        assert build(robot, mass=3.0).bodies[0].mass == 3.0
        assert files.robot_name(robot) == "rod"
        [parameter] = registry.parameters(robot)
        assert (parameter.name, parameter.default, parameter.unit) == ("mass", 2.0, "kg")
    assert files.robot_name("rotary_pendulum") == "rotary_pendulum"
    with pytest.raises(InvalidRequest, match=r"'rods.py:rod' has no parameter 'mas'; its parameters are mass"):
        build("rods.py:rod", mas=1.0)


def test_an_edited_file_is_read_anew_and_its_kernels_too(folder: Path) -> None:
    before = assemble(build("rods.py:rod"))
    (folder / "rods.py").write_text(ROD.replace("inertia=(1, 1, 1", "inertia=(5, 5, 5"))
    after = assemble(build("rods.py:rod"))
    assert mass_matrix(before, np.zeros(1)) == pytest.approx(3.0)
    assert mass_matrix(after, np.zeros(1)) == pytest.approx(7.0)


def test_an_edit_of_the_same_length_in_the_same_second_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file = folder / "rods.py"
    for inertia, mass in (("inertia=(1, 1, 1", 3.0), ("inertia=(5, 5, 5", 7.0)):
        file.write_text(ROD.replace("inertia=(1, 1, 1", inertia))
        os.utime(file, (1e9, 1e9))
        assert mass_matrix(assemble(build("rods.py:rod")), np.zeros(1)) == pytest.approx(mass)
    assert not list(folder.glob("__pycache__/rods*"))


@pytest.mark.parametrize(
    ("robot", "line"),
    [
        ("rods.py", "robot 'rods.py' does not refer to a function in a file; write 'path/to/file.py:function'"),
        ("rods.py:", "robot 'rods.py:' does not refer to a function in a file; write 'path/to/file.py:function'"),
        (
            "rods.py:_rod",
            "robot 'rods.py:_rod' does not refer to a function in a file; write 'path/to/file.py:function'",
        ),
        ("no.py:rod", "robot 'no.py:rod': no such file; tried {folder}/no.py"),
        (
            "rods.py:rodd",
            "robot 'rods.py:rodd': {folder}/rods.py has no function 'rodd'; its functions are rod, table, halved; "
            "did you mean 'rod'?",
        ),
        (
            "rods.py:ROD",
            "robot 'rods.py:ROD': {folder}/rods.py has no function 'ROD'; its functions are rod, table, halved",
        ),
        ("rods.py:table", "robot 'rods.py:table': the builder function returned a dict; it must return a Mechanism"),
        (
            "rods.py:halved",
            "robot 'rods.py:halved': building it from {folder}/rods.py failed, line 23: "
            "ZeroDivisionError: float division by zero",
        ),
        (
            "wrong.py:rod",
            "robot 'wrong.py:rod': importing {folder}/wrong.py failed, line 3: "
            "AttributeError: module 'math' has no attribute 'cosinus'",
        ),
    ],
)
def test_what_is_no_robot_is_refused_in_one_line(folder: Path, robot: str, line: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        build(robot)
    assert str(refused.value) == line.format(folder=folder)


def test_an_unknown_name_is_told_of_files_too() -> None:
    with pytest.raises(InvalidRequest, match=r"no robot 'rod'; .*; one of your own is 'path/to/file.py:function'"):
        build("rod")
    with pytest.raises(InvalidRequest, match=r'given to its robot as a parameter, corrections="fitted\.toml"'):
        build("fitted.toml")


@pytest.mark.parametrize("content", [True, False], ids=["content", "file"])
def test_an_edit_of_the_same_size_within_the_same_second_is_imported(
    content: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    values = []
    for value in (1, 2):
        file = tmp_path / "gain.py"
        file.write_text(f"GAIN = {value}\n")
        os.utime(file, (1e9, 1e9))
        module = files.python_module(file, file.read_bytes() if content else None)
        values.append(module.GAIN)
        del sys.modules[module.__name__]
    assert values == [1, 2]


def test_an_emptied_file_is_not_the_module_that_it_was(tmp_path: Path) -> None:
    file = tmp_path / "gain.py"
    file.write_text("GAIN = 1\n")
    files.python_module(file)
    file.write_text("")
    assert not hasattr(files.python_module(file, file.read_bytes()), "GAIN")
