"""The command line about robots: what they are listed, shown and exported as."""

from __future__ import annotations

import json
import re
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from nodes.cli.application import run
from robots.importing import meshes
from robots.registry import builder, names


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def test_robots_are_listed_and_shown_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["robot", "list", "--json"]) == 0
    assert "rotary_pendulum" in json.loads(capsys.readouterr().out)
    assert run(["robot", "show", "rotary_pendulum", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [joint["name"] for joint in shown["joints"]] == ["arm", "pendulum"]
    assert shown["about"] == (builder("rotary_pendulum").__doc__ or "").split("\n")[0]
    (limit,) = [takes for takes in shown["takes"] if takes["name"] == "torque_limit"]
    assert (limit["default"], limit["none"], limit["unit"]) == (None, "no limit", "N m")


def test_the_file_of_a_robot_is_not_replaced_by_its_export(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = (Path(__file__).parents[3] / "launch/examples/bench_arm.urdf").read_bytes()
    file = tmp_path / "arm.urdf"
    file.write_bytes(content)
    for command in (["export", "--format", "urdf"], ["import"]):
        assert run(["robot", command[0], str(file), *command[1:], "--output", "arm.urdf"]) == 2
        assert "--output arm.urdf is the file of the robot itself; name another file" in capsys.readouterr().err
    assert file.read_bytes() == content


def test_a_start_is_proposed_only_where_constraints_are_violated(capsys: pytest.CaptureFixture[str]) -> None:
    tumbler = Path(__file__).parents[3] / "launch/examples/tumbler.py"
    assert run(["robot", "show", f"{tumbler}:tumbler", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["sphere_contacts"]  # for which the start is examined
    assert (shown["start_violates"], shown["consistent_start"]) == ("", None)


def test_a_robot_that_cannot_be_loaded_spoils_no_list(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    point = EntryPoint("cart", "no_such_package:cart", "armswing.robots")
    monkeypatch.setattr("robots.registry._entry_points", lambda: {"cart": point})
    assert run(["robot", "list"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("cart ")]
    assert "the entry point 'no_such_package:cart' cannot be loaded" in line


def test_a_robot_shows_its_joints_with_kind_axis_ends_limits_and_unit(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["robot", "show", "charmie"]) == 0
    rows = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert {
        "name kind axis parent child limits",
        "base_x prismatic x ground link_1 none, m",
        "tilt revolute x link_4 link_5 -1.22173 to 0 rad",
        "left_arm_1 revolute z link_6a link_7a -6.28 to 6.28 rad",
        "file robots/charmie/charmie.toml a parameter file",
    } <= set(rows)


def test_the_list_says_how_large_each_robot_is_and_what(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["robot", "list"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["robot", "bodies", "joints", "actuators", "what", "it", "is"]
    found = {row.split()[0]: row.split(maxsplit=4)[1:] for row in rows}
    assert found["rotary_pendulum"] == ["2", "2", "1", (builder("rotary_pendulum").__doc__ or "").split("\n")[0]]
    assert found.keys() == set(names())


def test_a_robot_that_nothing_drives_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["robot", "show", "triple_pendulum"]) == 0
    shown = capsys.readouterr().out
    assert "actuators: none, nothing drives it" in shown
    assert "largest effort" not in shown


def test_a_robot_with_a_spring_shows_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["robot", "show", "andrews_squeezer"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"spring +K3 +ground +4530 N/m +0.07785 m +0 N s/m", shown)
    assert run(["robot", "show", "rotary_pendulum"]) == 0
    assert "springs" not in capsys.readouterr().out


SUNK = """
<mujoco model="sunk">
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1"/>
    <body name="ball" pos="0 0 0.02">
      <joint name="hop" type="slide" axis="0 0 1"/>
      <geom name="ball" type="sphere" size="0.05" mass="0.1"/>
    </body>
  </worldbody>
</mujoco>
"""


def test_contacts_that_penetrate_each_other_at_the_start_are_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sunk.xml").write_text(SUNK)
    assert run(["robot", "show", "sunk.xml"]) == 0
    line = "warning: mechanism 'sunk': contacts penetrate each other at the start: 'ball.floor' of 'ball' with 'ground'"
    assert line in capsys.readouterr().err


PARTS = """
<mujoco>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1"/>
    <body name="foot" pos="0 0 1">
      <joint name="hop" type="slide" axis="0 0 1" damping="2" stiffness="30" springref="0.1" armature="0.5"/>
      <geom name="ball" type="sphere" size="0.05" mass="1"/>
      <body name="leg" pos="0 0 0.1">
        <joint name="hip" axis="0 1 0" frictionloss="0.2" range="-60 60"/>
        <geom type="capsule" fromto="0 0 0 0 0 0.3" size="0.02" mass="1"/>
        <body name="shin" pos="0 0 0.3">
          <joint name="knee" axis="0 1 0"/>
          <geom type="capsule" fromto="0 0 0 0 0 0.3" size="0.02" mass="1"/>
        </body>
      </body>
    </body>
  </worldbody>
  <equality><joint name="gear" joint1="knee" joint2="hip" polycoef="0 2 0 0 0"/></equality>
</mujoco>
"""


def test_parts_of_joints_couplings_and_contacts_of_a_file_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hopper.xml").write_text(PARTS)
    assert run(["robot", "show", "hopper.xml"]) == 0
    rows = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert {
        "hop damping 2 N s/m",
        "hop armature 0.5 kg",
        "hop spring 30 N/m, rest at 0.1 m",
        "gear JointRelation knee - 2 hip = 0",
    } <= set(rows)
    assert any(row.startswith("hip dry friction 0.2 N m, bristle ") for row in rows)
    assert any(re.fullmatch(r"hip stops \S+ N m/rad\S*, \S+ s/rad", row) for row in rows)
    assert any(re.fullmatch(r".*ball.* foot, sphere of 0.05 m ground, plane \S+ N/m \S+ s/m 1", row) for row in rows)
    assert run(["robot", "show", "hopper.xml", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["joints"][0]["spring"]["stiffness"] == 30.0
    assert shown["constraints"] == [{"name": "gear", "kind": "JointRelation", "between": "knee - 2 hip = 0"}]
    assert {contact["other"] for contact in shown["sphere_contacts"]} == {"ground", "shin"}
    assert run(["robot", "show", "simple_pendulum"]) == 0
    assert "of joints" not in capsys.readouterr().out
    assert run(["robot", "show", "rolling_disk", "--param", "lean_deg=0"]) == 0
    assert "start: disk at (0, 0, 0.1) m" in capsys.readouterr().out


def test_a_robot_with_switches_and_configurations_shows_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["robot", "show", "gibbon", "--param", "start=a", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["starts_in"], shown["start_violates"]) == ("a", "")
    assert shown["beams"][0]["tension"] == shown["tunables"]["tension"] == 5000.0
    assert run(["robot", "show", "gibbon", "--param", "line=bars"]) == 0
    rows = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert {
        "constraint modes: both, a, b, none, fallen; it starts in both",
        "grip_a none, a switch 1 is on, 0 off effort",
    } <= set(rows)


def test_every_robot_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    for name in names():
        for form in ([], ["--json"]):
            assert run(["robot", "show", name, *form]) == 0
            assert name in capsys.readouterr().out


def test_a_robot_is_exported_to_a_file_or_to_standard_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["robot", "export", "rotary_pendulum", "--param", "arm_mass=0.25"]  # in joint coordinates, as a tree is
    assert run([*words, "--format", "urdf", "--output", "pendulum.urdf"]) == 0
    assert '<mass value="0.25" />' in (tmp_path / "pendulum.urdf").read_text()
    start = "URDF has no start; left out is that of this robot: pendulum = 2.96706\n"
    assert capsys.readouterr() == ("", start)
    assert run([*words, "--format", "urdf"]) == 0
    assert capsys.readouterr().out == (tmp_path / "pendulum.urdf").read_text()


def test_what_an_exported_robot_lacks_is_said_line_by_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["robot", "export", "triple_pendulum", "--param", "coordinates=joint", "--format", "urdf"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "gravity is 0.0 -9.81 0.0 m/s^2; URDF has no gravity, set it in the program that reads the file"
    assert [line.split()[1] for line in lines[1:]] == ["'bar_1'", "'bar_2'", "'bar_3'"]


def test_kernels_are_not_written_over_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "arm.c").write_text("mine")
    assert run(["robot", "export", "arm_2dof", "--format", "c", "--output", "arm.c"]) == 2
    refused = capsys.readouterr().err
    assert "--output arm.c is a file, but --format c writes into a folder" in refused
    assert (tmp_path / "arm.c").read_text() == "mine"


def test_a_robot_is_printed_before_its_meshes_are_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "arm.urdf"
    arm = (Path(__file__).parents[3] / "launch/examples/bench_arm.urdf").read_text()
    mesh = '<link name="shown"><visual><geometry><mesh filename="arm.stl"/></geometry></visual></link>'
    fixed = '<joint name="shows" type="fixed"><parent link="tool"/><child link="shown"/></joint>'
    file.write_text(arm.replace("</robot>", f"{mesh}{fixed}</robot>"))
    (tmp_path / "arm.stl").write_text("solid none")
    printed = []
    monkeypatch.setattr(meshes, "triangles", lambda *_: printed.append(capsys.readouterr().out) or meshes._read(file))
    assert run(["robot", "show", str(file)]) == 0
    assert "upper_arm" in printed[0]
    assert "its mesh arm.stl cannot be read" in capsys.readouterr().err


def test_the_parameters_that_every_robot_has_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["robot", "show", "arm_4dof", "--json"]) == 0
    takes = {each["name"]: each for each in json.loads(capsys.readouterr().out)["takes"]}
    assert {"locked", "corrections", "pushable"} <= set(takes)
    assert run(["robot", "show", "arm_4dof"]) == 0
    shown = capsys.readouterr().out
    assert "locked" in shown
    assert "corrections" in shown
