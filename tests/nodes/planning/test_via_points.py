"""Via-point files: both forms say the same, and what is wrong is named with file and line."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from nodes.planning.via_points import ViaPointError, read_via_points

CSV = """# a lift and a tilt
time_s, lift_mm, tilt_deg, tilt_deg_s, tilt_deg_s2

0.0, 10, 0, 0, 0
2.0, 80, -90, 18, 9
"""
TOML = """
joints = ["lift", "tilt"]
units = ["mm", "deg"]

[[via]]
time_s = 0.0
position = [10, 0]

[[via]]
time_s = 2
position = [80, -90]
velocity = [0, 18]
acceleration = [0, 9]
"""


@pytest.mark.parametrize(("suffix", "text"), [("csv", CSV), ("toml", TOML)])
def test_both_forms_are_read_in_si(suffix: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / f"points.{suffix}"
    file.write_text(text)
    via = read_via_points(file)
    assert (via.joints, via.units, via.times) == (["lift", "tilt"], ["mm", "deg"], [0.0, 2.0])
    assert via.positions == [[0.01, 0.0], pytest.approx([0.08, -math.pi / 2])]
    assert via.velocities == [[0.0, 0.0], pytest.approx([0.0, math.pi / 10])]
    assert via.accelerations == [[0.0, 0.0], pytest.approx([0.0, math.pi / 20])]


def test_a_joints_name_may_look_like_a_unit(tmp_path: Path) -> None:
    file = tmp_path / "points.csv"
    file.write_text("time_s,arm_m_1_deg,base_m_s,base_m\n0,1,2,3\n")
    via = read_via_points(file)
    assert (via.joints, via.velocities, via.positions[0][1]) == (["arm_m_1", "base"], [[0.0, 2.0]], 3.0)


@pytest.mark.parametrize(
    ("suffix", "was", "now", "says"),
    [
        ("csv", CSV, "", "no header"),
        ("csv", "time_s", "t", "line 2: the first column is 't'; it must be time_s"),
        (
            "csv",
            "lift_mm",
            "lift_in",
            "line 2: column 'lift_in' does not name a joint and a unit (deg, rad, m, mm), such as elbow_deg",
        ),
        ("csv", "lift_mm", "tilt_deg", "line 2: column 'tilt_deg' gives joint 'tilt' a second time"),
        (
            "csv",
            "tilt_deg_s2",
            "tilt_rad_s2",
            "line 2: column 'tilt_rad_s2': another column gives joint 'tilt' in deg; use one unit",
        ),
        ("csv", "lift_mm", "lift_mm_s", "line 2: joint 'lift' has no position column; add lift_mm"),
        ("csv", "10,", "", "line 4: 4 values for 5 columns; column 'tilt_deg_s2' has no value"),
        ("csv", "18, 9", "18, 9, 7", "line 5: 6 values for 5 columns; value '7' has no column"),
        ("csv", "80", "far", "line 5: column 'lift_mm' is 'far'; it must be a finite number"),
        ("csv", "80", "", "line 5: column 'lift_mm' is ''; it must be a finite number"),
        ("csv", "80", "inf", "line 5: column 'lift_mm' is 'inf'; it must be a finite number"),
        ("csv", "2.0,", "0.0,", "line 5: time_s is 0; it must be above 0, the time_s of the previous via point"),
        ("csv", CSV[CSV.index("\n0.0") :], "", "no via points"),
        ("toml", "[[via]]", "[[via]", "not valid TOML"),
        ("toml", '"lift", ', "", 'the file must have joints = ["..."]'),
        ("toml", '"mm"', '"in"', "unknown unit 'in'; the units are deg, rad, m, mm"),
        ("toml", '"lift"', '"tilt"', "name each joint once"),
        ("toml", "units", "colour = 1\nunits", "unknown key 'colour'"),
        (
            "toml",
            "velocity",
            "speed",
            "line 9: [[via]] has time_s, position, speed, acceleration; it must have time_s",
        ),
        ("toml", "[80, -90]", "[80]", "line 9: [[via]]: position is [80]; it must be 2 numbers"),
        ("toml", "[80, -90]", "[80, nan]", "line 9: [[via]]: position is nan; it must be a finite number"),
        ("toml", "[80, -90]", "[80, true]", "line 9: [[via]]: position is True; it must be a finite number"),
        (
            "toml",
            "time_s = 2",
            "time_s = -1",
            "line 9: [[via]]: time_s is -1; it must be above 0, the time_s of the previous via point",
        ),
    ],
)
def test_what_is_wrong_is_named_with_file_and_line(suffix: str, was: str, now: str, says: str, tmp_path: Path) -> None:
    text = {"csv": CSV, "toml": TOML}[suffix]
    assert was in text
    file = tmp_path / f"points.{suffix}"
    file.write_text(text.replace(was, now, 1))
    with pytest.raises(ViaPointError) as refusal:
        read_via_points(file)
    line = str(refusal.value)
    assert "\n" not in line
    assert line.startswith(str(file))
    assert says in line


def test_a_file_that_is_not_there_or_no_such_form_is_named(tmp_path: Path) -> None:
    with pytest.raises(ViaPointError, match=r"points.csv: no such via-point file"):
        read_via_points(tmp_path / "points.csv")
    with pytest.raises(ViaPointError, match=r"points.txt: a via-point file must be a .csv or a .toml file"):
        read_via_points(tmp_path / "points.txt")
