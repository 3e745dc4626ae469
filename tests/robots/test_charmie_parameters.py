"""CHARMIE's parameter file: what is wrong in one is said in one line with file, key and what would be right."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from robots.charmie.parameters import DEFAULT_FILE, read_parameters
from robots.registry import build
from sim_core.errors import InvalidRequest, ParameterWarning

MISTAKES = {
    "a misspelt key of a link": (
        "mass = 2.16",
        "masss = 2.16",
        "arm.links.7: unknown key 'masss'",
        "did you mean 'mass'?",
    ),
    "a missing key": ("mass = 20.0\n", "\n", "base lacks the key 'mass'", "give it a number above 0"),
    "a negative mass": ("mass = 1.115", "mass = -1.0", "arm.links.10.mass is -1.0", "it must be a number above 0"),
    "a word for a number": ("mass = 1.71", "mass = '1.71'", "arm.links.8.mass is '1.71'", "must be a number above 0"),
    "no number": ("gravity = 9.81", "gravity = nan", "gravity is nan", "number of at least 0"),
    "an endless one": ("mass = 20.0", "mass = inf", "base.mass is inf", "it must be a finite number"),
    "a misspelt section": ("[lift]", "[lifts]", "unknown key 'lifts'", "did you mean 'lift'?"),
    "another axis": ('axis = "x"', 'axis = "w"', "arm.links.8.axis is 'w'", "choose one of x, y, z"),
    "a flat size": ("[0.56, 0.56, 0.27]", "[0.56, 0.56]", "base.size has 2 entries", "it must have 3"),
    "crossed limits": ("lower = -2.6", "lower = 2.7", "arm.links.10.lower is 2.7", "at most arm.links.10.upper, 2.6"),
    "half a wheel": ("count = 4", "count = 4.5", "base.wheels.count is 4.5", "a whole number of at least 3"),
    "no TOML": ("[base] #", "[base #", "is not valid TOML", "line 7"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_named_in_one_line(case: str, tmp_path: Path) -> None:
    right, wrong, found, remedy = MISTAKES[case]
    text = DEFAULT_FILE.read_text()
    assert right in text
    file = tmp_path / "mine.toml"
    file.write_text(text.replace(right, wrong, 1))
    with pytest.raises(InvalidRequest) as refused:
        build("charmie", file=str(file))
    line = str(refused.value)
    assert "\n" not in line
    assert line.startswith(f"robot 'charmie': {file}")
    assert found in line
    assert remedy in line


def test_a_misspelt_robot_or_parameter_is_answered_with_the_nearest() -> None:
    with pytest.raises(InvalidRequest, match="did you mean 'charmie'"):
        build("charmi")
    with pytest.raises(InvalidRequest, match="did you mean 'loops'"):
        build("charmie", loop="closed")


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        ("mass = 20.0", "mass = 20000.0", "base.mass is 20000 kg, 1000 times the default; g?"),
        ("length = 0.135", "length = 135.0", "length is 135 m, 1000 times the default; mm?"),
        ("mass = 20.0", "mass = 0.1", "base.mass is 0.1 kg, 1/200 of the default"),
        ("lower = -2.05", "lower = -117.5", "arm.links.8.lower is -117.5 rad, 18.7 turns; is it in degrees?"),
    ],
)
def test_a_number_far_from_what_ships_is_warned_of(right: str, wrong: str, says: str, tmp_path: Path) -> None:
    text = DEFAULT_FILE.read_text()
    assert right in text
    file = tmp_path / "mine.toml"
    file.write_text(text.replace(right, wrong, 1))
    with pytest.warns(ParameterWarning) as warned:
        read_parameters(file)
    (line,) = [str(each.message) for each in warned]
    assert line.startswith(f"robot 'charmie': {file}: ")
    assert line.endswith(says)


def test_what_is_warned_of_is_said_once_by_a_program_that_reads_and_builds(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(DEFAULT_FILE.read_text().replace("mass = 20.0", "mass = 20000.0", 1))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default")
        read_parameters(file)
        build("charmie", file=str(file))
    assert len(said) == 1


def test_a_number_of_the_file_is_no_parameter_and_that_is_said() -> None:
    with pytest.raises(InvalidRequest, match="a number of its file: change it in a copy, file=COPY"):
        build("charmie", **{"balance.spring.stiffness": 100.0})


def test_numbers_near_what_ships_are_taken_in_silence(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(DEFAULT_FILE.read_text().replace("mass = 20.0", "mass = 200.0", 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_parameters(file).base.mass == 200.0


def test_a_number_is_warned_of_once_in_one_line_without_a_line_of_code(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(DEFAULT_FILE.read_text().replace("mass = 20.0", "mass = 20000.0", 1))
    code = (
        "from robots.charmie.parameters import read_parameters; from robots.registry import build\n"
        "read_parameters('mine.toml'); build('charmie', file='mine.toml'); build('charmie', file='mine.toml')"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    (line,) = done.stderr.splitlines()
    assert "ParameterWarning: robot 'charmie': mine.toml: base.mass is 20000 kg" in line
