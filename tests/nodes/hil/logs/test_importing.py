"""Logs of other programs become recordings: every unit, several files, gaps, couplings, and what is refused."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import numpy as np
import pytest

from nodes.cli.application import run as run_command
from nodes.framework.recording.reader import read_recording
from nodes.hil.logs.columns import Columns, read_columns
from nodes.hil.logs.files import read_tables
from nodes.hil.logs.importing import METADATA, ImportNote, import_log, mechanism_of
from nodes.hil.logs.tables import LogError, Table
from robots.registry import build
from sim_core.system import assemble
from viewer.data.signals import from_recording

RICMONK = Path(__file__).parents[4] / "nodes/hil/logs/example"


def columns(text: str, tmp_path: Path) -> Columns:
    file = tmp_path / "columns.toml"
    file.write_text(text)
    return read_columns(file)


def run(*words: object) -> int:
    return run_command([str(word) for word in words])


def test_a_log_of_a_real_robot_becomes_a_recording_with_its_numbers(tmp_path: Path) -> None:
    out = tmp_path / "swing.mcap"
    log = RICMONK / "swing.csv"
    assert run("import", log, "--columns", RICMONK / "swing.toml", "-o", out) == 0
    table = np.genfromtxt(log, delimiter=",", names=True, skip_header=2)
    table = table[table["meas_time"] <= 3.6]  # the range of the table of columns
    found = read_recording(out)
    state, command = found["ricmonk/measured_state"], found["ricmonk/applied_command"]
    assert list(state["name"][0]) == ["arm_1", "tail", "arm_2"]
    np.testing.assert_array_equal(state["timestamp"], table["meas_time"])
    np.testing.assert_array_equal(state["position"][:, 2], table["phi_meas_Ang_pos"])
    np.testing.assert_array_equal(state["effort"][:, 0], 0.0)  # no motor at the hook
    np.testing.assert_array_equal(command["value"][:, 0], table["tail_clipped_tau"])
    note = msgspec.json.decode(found.metadata[METADATA], type=ImportNote)
    assert note.files == ["swing.csv"]
    assert found.description is not None
    assert [joint.name for joint in found.description.joints] == ["arm_1", "tail", "arm_2"]


def test_an_imported_log_is_drawn_at_its_measured_positions(tmp_path: Path) -> None:
    out = tmp_path / "swing.mcap"
    assert run("import", RICMONK / "swing.csv", "--columns", RICMONK / "swing.toml", "-o", out) == 0
    found = read_recording(out)
    state, poses = found["ricmonk/measured_state"], found["ricmonk/measured_body_poses"]
    system = assemble(build("ricmonk"))
    at = int(np.searchsorted(state["timestamp"], poses["timestamp"][20]))
    p, _ = system.poses(0.0, state["position"][at], np.zeros(3), system.default_parameters())
    np.testing.assert_allclose(poses["p"][20], p.ravel(), atol=1e-7)
    signals = from_recording(found)
    assert (signals.robot, signals.states) == ("ricmonk", len(state["timestamp"]))
    assert signals.poses is not None
    assert signals.labels("position") == ["arm_1", "tail", "arm_2"]
    assert signals.labels("energy") == []  # no sensor has it


def test_an_import_replaces_a_file_only_with_force(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "swing.mcap"
    words = ("import", RICMONK / "swing.csv", "--columns", RICMONK / "swing.toml", "-o", out)
    assert run(*words) == 0
    before = out.read_bytes()
    assert run(*words) == 2
    assert "--force" in capsys.readouterr().err
    assert run(*words, "--force") == 0
    assert out.read_bytes() == before


def test_what_is_no_log_is_named_before_its_columns_are_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, says in (("absent", "'{}': no such file"), ("", "'{}' is a folder without metadata.yaml")):
        path = str(tmp_path / name)
        assert run("import", path, "-o", tmp_path / "out.mcap") == 2
        assert says.format(path) in capsys.readouterr().err


def pendulum(joint: str) -> str:
    return f'robot = "rotary_pendulum"\nparameters = {{ coordinates = "joint" }}\n[time]\ncolumn = "t"\n{joint}'


OTHER = '\n[joints.pendulum]\nposition = "p"\n'


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ('position = { column = "x", unit = "deg" }', math.radians(90.0)),
        ('position = { column = "x", unit = "rev" }', 180.0 * math.pi),
        ('position = { column = "x", unit = "counts", counts_per_turn = 360 }', math.pi / 2.0),
        ('position = { column = "x", unit = "counts", counts_per_turn = 360, gear = 10.0 }', math.pi / 20.0),
        ('position = { column = "x", unit = "deg", offset = 30.0, sign = -1 }', -math.radians(60.0)),
        ('position = "p"\nvelocity = { column = "x", unit = "rpm" }', 3.0 * math.pi),
        ('position = "p"\neffort = { column = "x", unit = "N mm" }', 0.09),
        ('position = "p"\neffort = { column = "x", unit = "mA", gain = 0.136, gear = 100.0 }', 1.224),
        ('position = "p"\neffort = { column = "x", unit = "unknown" }', 90.0),
        ('position = "p"\ncommand = { column = "x", unit = "deg", mode = "position" }', math.radians(90.0)),
        ('position = "p"\ncommand = { column = "x", unit = "deg/s", mode = "velocity" }', math.radians(90.0)),
    ],
)
def test_a_column_in_any_unit_arrives_in_si_units_at_the_joint(column: str, expected: float, tmp_path: Path) -> None:
    table = Table("log.csv", {"t": np.array([0.0, 0.1]), "x": np.array([90.0, 90.0]), "p": np.zeros(2)})
    found = import_log([table], columns(pendulum(f"[joints.arm]\n{column}{OTHER}"), tmp_path))
    channel = column.rpartition("\n")[2].partition(" ")[0]
    assert found.channels[channel][0, found.names.index("arm")] == pytest.approx(expected, rel=1e-12)  # type: ignore[index]


def test_three_files_with_one_time_each_are_one_log_and_other_times_are_interpolated(tmp_path: Path) -> None:
    time = np.arange(0.0, 1.0, 0.01)
    paths = [tmp_path / name for name in ("position.csv", "velocity.csv", "effort.csv")]
    np.savetxt(paths[0], np.c_[time, np.sin(time), time], delimiter=",", header="t,x,p", comments="")
    np.savetxt(paths[1], np.c_[time, np.cos(time)], delimiter=",", header="t,v", comments="")
    late = time + 0.005
    np.savetxt(paths[2], np.c_[late, 2.0 * late], delimiter=",", header="t,e", comments="")
    text = pendulum('[joints.arm]\nposition = "x"\nvelocity = "v"\neffort = "e"' + OTHER)
    found = import_log([table for path in paths for table in read_tables(path)], columns(text, tmp_path))
    arm = found.names.index("arm")
    np.testing.assert_allclose(found.channels["velocity"][:, arm], np.cos(time), rtol=1e-12)
    np.testing.assert_allclose(found.channels["effort"][1:, arm], 2.0 * time[1:], rtol=1e-9)
    assert np.isnan(found.channels["effort"][0, arm])  # before the first sample of that file
    assert len(found.note.notes) == 1
    assert "interpolated" in found.note.notes[0]


def test_a_missing_value_is_a_gap_of_its_column_alone(tmp_path: Path) -> None:
    file, out = tmp_path / "log.csv", tmp_path / "log.mcap"
    file.write_text("t;x;p;e\n0;1,5;0;nan\n0,1;2,5;0;7\n0,2;;0;8\n")
    text = pendulum('[joints.arm]\nposition = "x"\neffort = "e"' + OTHER)
    (tmp_path / "columns.toml").write_text(text)
    assert run("import", file, "--columns", tmp_path / "columns.toml", "-o", out) == 0
    found = read_recording(out)
    state = found["rotary_pendulum/measured_state"]
    arm = list(state["name"][0]).index("arm")
    np.testing.assert_array_equal(state["position"][:, arm], [1.5, 2.5, np.nan])
    np.testing.assert_array_equal(state["effort"][:, arm], [np.nan, 7.0, 8.0])
    note = msgspec.json.decode(found.metadata[METADATA], type=ImportNote)
    assert note.gaps == {"arm position": 1, "arm effort": 1}


def test_two_motors_that_move_two_joints_together_keep_the_power(tmp_path: Path) -> None:
    text = pendulum(
        """
[motors.left]
position = "a"
velocity = "va"
effort = { column = "ea", unit = "A", gain = 0.1, gain_sigma = 0.2, gear = 50.0 }
[motors.right]
position = "b"
velocity = "vb"
effort = { column = "eb", unit = "A", gain = 0.1, gain_sigma = 0.1, gear = 50.0 }
[[couplings]]
joints = ["arm", "pendulum"]
motors = ["left", "right"]
matrix = [[0.5, 0.5], [0.5, -0.5]]
"""
    )
    values = {"t": [0.0, 0.1], "a": [1.0, 1.0], "b": [3.0, 3.0], "va": [2.0, 2.0], "vb": [-1.0, -1.0]}
    values |= {"ea": [0.4, 0.4], "eb": [0.2, 0.2]}
    table = Table("log.csv", {name: np.array(column) for name, column in values.items()})
    found = import_log([table], columns(text, tmp_path))
    q, v, e = (found.channels[channel][0] for channel in ("position", "velocity", "effort"))
    np.testing.assert_allclose(q, [2.0, -1.0])
    assert v @ e == pytest.approx(2.0 * 0.4 * 5.0 + -1.0 * 0.2 * 5.0)
    assert found.note.gain_sigma == {"arm": 0.2, "pendulum": 0.2}


def test_ranges_of_time_select_samples_and_times_since_an_epoch_begin_at_0(tmp_path: Path) -> None:
    time = 1.7e9 + np.arange(10) * 0.5
    table = Table("log", {"t": time, "x": np.arange(10.0), "p": np.zeros(10)})
    text = pendulum(
        'ranges = [[1700000001.0, 1700000002.0], [1700000004.0, 1.8e9]]\n[joints.arm]\nposition = "x"' + OTHER
    )
    found = import_log([table], columns(text, tmp_path))
    np.testing.assert_array_equal(found.channels["position"][:, found.names.index("arm")], [2, 3, 4, 8, 9])
    np.testing.assert_allclose(found.time, [0.0, 0.5, 1.0, 3.0, 3.5])
    assert found.note.shift_s == 1700000001.0


@pytest.mark.parametrize(
    ("joint", "message"),
    [
        ('[joints.arm]\nposition = "y"', "has no column 'y'; its columns are 't', 'x', 'p'"),
        ('[joints.amr]\nposition = "x"', "no joint 'amr'.*did you mean 'arm'"),
        (
            '[joints.arm]\nposition = { column = "x", unit = "mm" }',
            "'mm' is no unit of the position of a rotating joint",
        ),
        ('[joints.arm]\nposition = { column = "x", unit = "counts" }', "give counts_per_turn"),
        ('[joints.arm]\nposition = "x"\neffort = { column = "x", unit = "A" }', "give gain"),
        ('[joints.arm]\nposition = { column = "x", gear = 0 }', "gear is 0"),
        ('[joints.arm]\nposition = { column = "x", gaer = 2 }', "joints.arm.position: .*'gaer'; did you mean 'gear'"),
        ('[joints.arm]\nposition = "x"\nefort = "x"', "joints.arm: unknown key 'efort'; did you mean 'effort'"),
        ('[joints.arm]\nvelocity = "x"', "no positions of arm"),
        ('[joints.arm]\nposition = "x"\n[locked]\narm = 0.0', r"both in \[joints\] and in \[locked\]"),
    ],
)
def test_a_table_of_columns_that_does_not_fit_is_refused_in_one_line(joint: str, message: str, tmp_path: Path) -> None:
    table = Table("log.csv", {"t": np.array([0.0, 0.1]), "x": np.zeros(2), "p": np.zeros(2)})
    with pytest.raises(LogError, match=message) as found:
        import_log([table], columns(pendulum(joint + OTHER), tmp_path))
    assert "\n" not in str(found.value)


def test_corrections_beside_the_table_of_columns_are_found(tmp_path: Path) -> None:
    (tmp_path / "fitted.toml").write_text("[joints.tail]\ndamping = 0.25\n")
    table = Columns(robot="ricmonk", parameters={"corrections": "fitted.toml"})
    found = mechanism_of(table, (each for each in (tmp_path,)))
    assert {joint.name: joint.damping for joint in found.joints}["tail"] == 0.25


def test_a_time_that_goes_back_is_refused_with_its_sample(tmp_path: Path) -> None:
    table = Table("log.csv", {"t": np.array([0.0, 0.2, 0.1]), "x": np.zeros(3), "p": np.zeros(3)})
    with pytest.raises(LogError, match=r"goes back from 0.2 s to 0.1 s at sample 3 of log.csv"):
        import_log([table], columns(pendulum('[joints.arm]\nposition = "x"' + OTHER), tmp_path))


GUESSED = [
    ("ricmonk", "time,tail_pos,tail_tau_fric,tail_tau_meas\n0,0,0,1\n1,1,0,2\n", '"tail_tau_meas", unit = "N m"'),
    ("ricmonk", "time,tail_pos,tail_clipped_tau,tail_cmd_tau\n0,0,0,1\n1,1,0,2\n", 'column = "tail_cmd_tau"'),
    ("ricmonk", "time,tail_pos,phi_tau\n0,0,0\n1,1,2\n", "# effort = "),
    ("rotary_pendulum", "time,pendulum_position,torque\n0,0,0\n1,1,2\n", "#   torque  0 .. 2"),
    ("ricmonk", "time_ms,tail_pos,tail_tau\n0,0,1\n1,1,2\n", 'unit = "ms"'),
    (
        "ricmonk",
        "t,tail_enc,tail_current\n0,0,1\n1,1,2\n",
        'column = "tail_enc", unit = "counts" }  # 0 .. 1; add counts_',
    ),
    ("ricmonk", "t,tail_enc,tail_current\n0,0,1\n1,1,2\n", 'unit = "A" }  # 1 .. 2; add gain'),
    ("ricmonk", "t,enc_ta,i_ta\n0,0,1\n1,1,2\n", 'effort = { column = "i_ta", unit = "A" }'),
    ("single_pendulum", "time,position,velocity,torque\n0,0,0,1\n1,1,0,2\n", 'effort = { column = "torque"'),
]


@pytest.mark.parametrize(("robot", "text", "line"), GUESSED)
def test_a_guess_takes_measured_columns_that_change(robot: str, text: str, line: str, tmp_path: Path) -> None:
    log, table = tmp_path / "log.csv", tmp_path / "guess.toml"
    log.write_text(text)
    assert run("import", log, "--guess", robot, "-o", table) == 0
    assert line in table.read_text()


def test_a_last_line_that_was_cut_off_is_left_out_and_one_in_the_middle_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("t,x\n0.0,1\n0.1,2\n0.2")
    (table,) = read_tables(log)
    assert table.columns["x"].tolist() == [1.0, 2.0]
    assert table.notes == ["log.csv: the last line, 4, was cut off and is left out"]
    for text in ("t,x\n0.0,1\n0.1\n0.2,3\n", "t,x\n0.0,1\n0.1,2\n0.2\n"):
        log.write_text(text)
        with pytest.raises(LogError, match="has 1 cells, the first line has 2"):
            read_tables(log)


def test_a_guess_names_columns_that_are_not_of_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, table = tmp_path / "log.csv", tmp_path / "guess.toml"
    log.write_text("time,tail_pos,tail_tau\n0.0,0.1,0\n0.1,x,0\n")
    assert run("import", log, "--guess", "ricmonk", "-o", table) == 0
    assert "'tail_pos' is not of numbers, and is left out: line 3: 'x'" in capsys.readouterr().out
    assert "#   tail_pos: line 3: 'x'" in table.read_text()


def test_a_guessed_table_of_columns_imports_the_log_it_was_guessed_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, out = tmp_path / "guess.toml", tmp_path / "swing.mcap"
    log = RICMONK / "swing.csv"
    assert run("import", log, "--guess", "ricmonk", "-o", table) == 0
    text = table.read_text()
    assert 'position = { column = "tail_meas_Ang_pos", unit = "rad" }' in text
    assert "\n# arm_2 = 0\n" in text  # its columns are named phi, which no rule can know, and are left
    assert run("import", log, "--columns", table, "-o", out) == 2
    assert "no positions of arm_2; give their columns" in capsys.readouterr().err
    table.write_text(text.replace("# arm_2 = 0", "arm_2 = 0"))
    assert run("import", log, "--columns", table, "-o", out) == 0


def test_the_example_is_written_once_and_can_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("import", "--example") == 0
    assert {each.name for each in tmp_path.iterdir()} == {"swing.csv", "swing.toml", "swing_license.txt"}
    assert run("import", "swing.csv", "--columns", "swing.toml") == 0
    assert run("import", "--example") == 2
    assert "'swing.csv' exists; pass --force" in capsys.readouterr().err
    assert run("import") == 2
    assert "armswing import --example writes one to try" in capsys.readouterr().err
