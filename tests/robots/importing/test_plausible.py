"""Numbers of a file that are probably in other units are named, with their line; plausible ones are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from robots.registry import build
from sim_core.errors import DescriptionWarning, InvalidMechanism
from tests.robots.importing.test_nothing_in_silence import built

URDF = """<robot name="arm">
  <link name="base"/>
  <link name="arm">
    <inertial><origin xyz="0 0 0.2"/><mass value="1"/>
      <inertia ixx="{inertia}" iyy="{inertia}" izz="{inertia}" ixy="0" ixz="0" iyz="0"/></inertial>
  </link>
  <joint name="turn" type="revolute">
    <origin xyz="0 0 {height}"/><parent link="base"/><child link="arm"/><axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" effort="5" velocity="2"/>
  </joint>
</robot>
"""
MJCF = """<mujoco>
  <compiler angle="{angle}"/>
  <worldbody>
    <body name="arm" pos="0 0 {height}">
      <joint name="turn" axis="0 1 0" range="-90 90"/>
      <inertial pos="0 0 -0.2" mass="1" diaginertia="{inertia} {inertia} {inertia}"/>
    </body>
  </worldbody>
</mujoco>
"""


@pytest.mark.parametrize(("text", "kind", "line", "name"), [
    (URDF, "urdf", 4, "link 'arm': <inertial>"),
    (MJCF.replace("{angle}", "degree"), "xml", 4, "body 'arm'"),
])  # fmt: skip
def test_an_inertia_in_g_mm2_is_named(text: str, kind: str, line: int, name: str, tmp_path: Path) -> None:
    assert built(tmp_path, text.format(inertia=0.02, height=1.0), kind)[1] == []
    (warning,) = built(tmp_path, text.format(inertia=2e7, height=1.0), kind)[1]
    assert f"line {line} ({name}): inertia is as large as if the mass were 4472 m away from the center" in warning
    assert warning.endswith("an extent of 0.2 m; inertia is in kg m2, mass in kg")


@pytest.mark.parametrize(("text", "kind", "line"), [
    (URDF, "urdf", 7),
    (MJCF.replace("{angle}", "degree"), "xml", 5),
])  # fmt: skip
def test_a_length_in_mm_is_named(text: str, kind: str, line: int, tmp_path: Path) -> None:
    (warning,) = built(tmp_path, text.format(inertia=0.02, height=1000.0), kind)[1]
    assert f"line {line} (joint 'turn'): its origin is 1000 m away from its parent; lengths are in m" in warning


def test_a_range_in_degrees_where_the_unit_is_rad_is_named(tmp_path: Path) -> None:
    (warning,) = built(tmp_path, MJCF.format(angle="radian", inertia=0.02, height=1.0), "xml")[1]
    assert "line 5 (joint 'turn'): range is -90 to 90 rad, more than 4 turns; <compiler angle> is the unit" in warning


@pytest.mark.parametrize("later", ["ball", "hinge"])
def test_a_rotation_after_a_ball_joint_is_refused_as_in_mujoco(later: str, tmp_path: Path) -> None:
    file = tmp_path / "two.xml"
    file.write_text(
        f"""<mujoco><worldbody>
    <body name="a">
      <joint name="one" type="ball"/>
      <joint name="two" type="{later}"/>
      <geom type="sphere" size="0.1"/>
    </body></worldbody></mujoco>"""
    )
    with pytest.raises(InvalidMechanism, match=r"line 2: 'a': ball followed by rotation in body 'a'"):
        build(str(file))


def test_a_general_actuator_with_a_bias_of_zero_is_a_motor(tmp_path: Path) -> None:
    file = tmp_path / "motor.xml"
    text = MJCF.format(angle="degree", inertia=0.02, height=1.0)
    actuator = '<actuator><general name="m" joint="turn" biastype="affine" gainprm="2"/></actuator>'
    file.write_text(text.replace("</mujoco>", f"{actuator}</mujoco>"))
    with pytest.warns(DescriptionWarning, match="commands are efforts at the joint"):
        mechanism = build(str(file))
    assert [(each.name, each.joint, each.servo) for each in mechanism.actuators] == [("m", "turn", None)]
