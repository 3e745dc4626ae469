"""What a file says in a way that is not read is refused or named: misplaced elements, text, other formats' words."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

from robots.export import export
from robots.registry import build
from sim_core.errors import DescriptionWarning, InvalidMechanism
from sim_core.mechanism import Mechanism

URDF = """<robot name="arm">
  <link name="base"/>
  <link name="arm">
    <inertial><origin xyz="0 0 0.2"/><mass value="1"/>
      <inertia ixx="0.02" iyy="0.02" izz="0.02" ixy="0" ixz="0" iyz="0"/></inertial>
  </link>
  <joint name="turn" type="revolute">
    <origin xyz="0 0 1"/><parent link="base"/><child link="arm"/>
    <axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" effort="5" velocity="2"/>
  </joint>
</robot>
"""
MJCF = """<mujoco>
  <compiler angle="radian"/>
  <default><joint damping="0.1"/></default>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1"/>
    <body name="ball" pos="0 0 0.2">
      <freejoint name="free"/>
      <geom name="ball" type="sphere" size="0.1" mass="1"/>
    </body>
    <body name="arm" pos="1 0 1">
      <joint name="turn" axis="0 1 0"/>
      <geom name="rod" type="sphere" size="0.02" pos="0 0 -0.3" mass="1"/>
    </body>
  </worldbody>
  <contact><pair geom1="ball" geom2="floor"/></contact>
</mujoco>
"""


def built(folder: Path, text: str, kind: str) -> tuple[Mechanism, list[str]]:
    """The mechanism of a file with this text, and the warnings of its import."""
    file = folder / f"robot.{kind}"
    file.write_text(text)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mechanism = build(str(file))
    found = [str(each.message).partition(": ")[2] for each in caught if each.category is DescriptionWarning]
    return mechanism, found


def changed(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


ORIGIN, AXIS, PAIR = '<origin xyz="0 0 1"/>', '<axis xyz="0 1 0"/>', '<pair geom1="ball" geom2="floor"/>'


@pytest.mark.parametrize(
    ("text", "kind", "old", "new", "message"),
    [
        (
            URDF,
            "urdf",
            ORIGIN,
            '<origin pos="0 0 1"/>',
            "line 8: joint 'turn': <origin>: there is no attribute 'pos'; did you",
        ),
        (
            URDF,
            "urdf",
            ORIGIN,
            '<origin XYZ="0 0 1"/>',
            "joint 'turn': <origin>: there is no attribute 'XYZ'; did you mean 'xyz'",
        ),
        (URDF, "urdf", ORIGIN, '<origin xyz="0 0"/>', "line 8: joint 'turn': <origin>: xyz is '0 0'; it must be three"),
        (
            URDF,
            "urdf",
            AXIS,
            '<axis xyz="0 1 0"><limit lower="-2"/></axis>',
            "joint 'turn': <limit>: this element is in <axis>",
        ),
        (URDF, "urdf", '<mass value="1"/>', '<mass value="1kg"/>', "link 'arm': <inertial>: <mass>: value is '1kg'"),
        (
            MJCF,
            "xml",
            'pos="0 0 -0.3"',
            'xyz="0 0 -0.3"',
            "line 12: <geom>: Schema violation: unrecognized attribute: 'xyz'",
        ),
        (
            MJCF,
            "xml",
            'axis="0 1 0"/>',
            'axis="0 1 0" Range="0 1"/>',
            "line 11: <joint>: Schema violation: unrecognized attribute: 'Range'",
        ),
        (
            MJCF,
            "xml",
            'axis="0 1 0"/>',
            'axis="0 1 0"><limit range="0 1"/></joint>',
            "line 11: <limit>: Schema violation: unrecognized element",
        ),
        (
            MJCF,
            "xml",
            'damping="0.1"',
            'damping="a"',
            "line 3: <joint>: bad format in attribute 'damping'",
        ),
        (
            MJCF,
            "xml",
            'damping="0.1"',
            'damping="-1"',
            "line 11: joint 'turn': damping is -1; it must not be negative",
        ),
        (
            MJCF,
            "xml",
            PAIR,
            '<pair geom1="ball" geom2="ball"/>',
            "contact 'ball.ball': body and other are both 'ball'; they must be two different bodies",
        ),
        (
            MJCF,
            "xml",
            PAIR,
            PAIR.replace("<pair", '<pair name="p"') * 2,
            "line 15: <pair>: repeated name 'p' in pair",
        ),
        (MJCF, "xml", PAIR, PAIR.replace("/>", ' solref="0 -1"/>'), "solref gives the contact no stiffness"),
        (
            MJCF,
            "xml",
            'mass="1"/>\n    </body>\n    <body name="arm"',
            'mass="1" material="blu"/></body><body name="arm"',
            "line 8: 'ball': material 'blu' not found in geom 1",
        ),
        (
            MJCF,
            "xml",
            '<geom name="ball"',
            '<geom name="ball" contype="1.5"',
            "line 8: <geom>: bad format in attribute 'contype'",
        ),
        (
            MJCF,
            "xml",
            "<default>",
            "<option><flag/><flag gravity='disable'/></option><default>",
            "line 3: <option>: Schema violation: unique element 'flag' found 2 times",
        ),
        (
            MJCF,
            "xml",
            "</mujoco>",
            '<keyframe><key name="k" qpos="1 2 3 4 5 6 7 8 9"/></keyframe></mujoco>',
            "keyframe 'k': invalid qpos size, expected 8, got 9",
        ),
        (
            MJCF,
            "xml",
            "</mujoco>",
            '<equality><joint name="e" joint1="turn"/><joint name="e" joint1="turn"/></equality></mujoco>',
            "line 16: <joint>: repeated name 'e' in equality",
        ),
    ],
)
def test_it_is_refused_in_one_line(text: str, kind: str, old: str, new: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidMechanism, match=re.escape(message)) as caught:
        built(tmp_path, changed(text, old, new), kind)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "kind", "old", "new", "message"),
    [
        (
            URDF,
            "urdf",
            ORIGIN,
            "<origin>0 0 1</origin>",
            "line 8 (joint 'turn': <origin>): the text '0 0 1' in <origin> is not read: URDF has values in attributes",
        ),
        (URDF, "urdf", ORIGIN, '<origin xyz="0 0 1"><x>3</x></origin>', "line 8: <x> in <origin> is not read"),
        (
            MJCF,
            "xml",
            'mass="1"/>\n    </body>\n  </worldbody>',
            'mass="1"/>1 0 0</body></worldbody>',
            "line 10: the text '1 0 0' in <body> is not read: MJCF has values in attributes",
        ),
        (
            MJCF,
            "xml",
            PAIR,
            PAIR.replace("/>", ' friction="0.1 0.25"/>'),
            "line 15 (<pair>): friction is 0.1 in one direction and 0.25 in the other: the first is read for both",
        ),
        (
            MJCF,
            "xml",
            PAIR,
            PAIR.replace("/>", ' solref="-1000 1"/>'),
            "line 15 (<pair>): solref is -1000 1, which mixes two formats: as in MuJoCo it is 0.02 1",
        ),
    ],
)
def test_it_is_named_in_a_warning(text: str, kind: str, old: str, new: str, message: str, tmp_path: Path) -> None:
    assert message not in built(tmp_path, text, kind)[1]
    assert message in built(tmp_path, changed(text, old, new), kind)[1]


@pytest.mark.parametrize("solref", ["0 1", "0.02 0", "-1000 1", "0.02 -1"])
def test_a_solref_of_two_formats_is_the_default_as_in_mujoco(
    solref: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mujoco = pytest.importorskip("mujoco")
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its warnings to a file in the working directory
    default, _ = built(tmp_path, MJCF, "xml")
    text = changed(MJCF, PAIR, PAIR.replace("/>", f' solref="{solref}"/>'))
    assert built(tmp_path, text, "xml")[0].contacts == default.contacts
    depths = []
    for each in (MJCF, text):
        model = mujoco.MjModel.from_xml_string(each)
        data = mujoco.MjData(model)
        mujoco.mj_step(model, data, nstep=1500)
        depths.append(0.1 - data.qpos[2])
    assert depths[0] > 1e-5
    assert depths[1] == pytest.approx(depths[0], rel=1e-9)


def test_two_pairs_of_the_same_geoms_are_two_contacts(tmp_path: Path) -> None:
    mechanism, _ = built(tmp_path, changed(MJCF, PAIR, PAIR * 2), "xml")
    found = [contact.name for contact in mechanism.contacts if contact.body == "ball" and contact.other == "ground"]
    assert found == ["ball.floor", "ball.floor.2"]


def test_the_contact_of_a_named_pair_has_its_name(tmp_path: Path) -> None:
    mechanism, _ = built(tmp_path, changed(MJCF, PAIR, PAIR.replace("<pair", '<pair name="landing"')), "xml")
    assert next(contact.name for contact in mechanism.contacts if contact.body == "ball") == "landing"


def test_an_edited_solref_of_an_exported_contact_is_named(tmp_path: Path) -> None:
    text = export(built(tmp_path, MJCF, "xml")[0], "mjcf").text
    assert not [each for each in built(tmp_path, text, "xml")[1] if "solref" in each]
    edited = re.sub(r'(<pair name="ball.floor"[^>]*solref=")[^"]*"', r'\g<1>0.1 1.0"', text)
    assert edited != text
    (warning,) = [each for each in built(tmp_path, edited, "xml")[1] if "solref" in each]
    assert re.search(
        r"solref gives a contact [\d.]+ times as deep as the numbers of armswing.contact.ball.floor", warning
    )
