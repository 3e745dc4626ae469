"""Every robot of the registry goes to every format, or is refused in one line; a new one is tested by being listed."""

from __future__ import annotations

import inspect
from xml.etree import ElementTree

import pytest

from robots.export import FORMATS, export
from robots.registry import build, builder, names
from sim_core.errors import InvalidRequest
from sim_core.mechanism import Rolling

EXPORTED: dict[str, dict[str, str]] = {
    "arm_2dof": {},
    "arm_4dof": {},
    "arm_6dof": {},
    "rotary_pendulum": {"coordinates": "joint"},
}
FLAT = {"triple_pendulum"}  # its bars have inertia about one axis alone
POINTS = {"single_pendulum", "double_pendulum"}  # their masses are points


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", names())
def test_every_robot_is_exported_or_refused_in_one_line(name: str, form: str) -> None:
    wanted = {"coordinates": "joint"} if "coordinates" in inspect.signature(builder(name)).parameters else {}
    mechanism = build(name, **wanted)
    refused = "is in absolute coordinates" if mechanism.coordinates == "absolute" else ""
    if name in FLAT and form == "mjcf":
        refused = "none may exceed the sum of the other two; correct the inertia, because MuJoCo refuses this body"
    if name in POINTS and form == "mjcf":
        refused = "each must be at least 1e-15, because MuJoCo refuses lighter moving bodies"
    if mechanism.beams:
        refused = r"cannot express the constraints .* and beams .* \(Beam\); pass --open-tree"
    if any(isinstance(each, Rolling) for each in mechanism.constraints):
        refused = r"cannot express the constraints .*\(Rolling\).*; pass --open-tree"
    if refused:
        with pytest.raises(InvalidRequest, match=f"^robot {name!r}.*{refused}"):
            export(mechanism, form)
        return
    written = export(mechanism, form)
    joints = {joint.attrib["name"] for joint in ElementTree.fromstring(written.text).iter("joint")}
    assert {joint.name for joint in mechanism.moving_joints} <= joints


@pytest.mark.parametrize("name", [*EXPORTED, "charmie"])
def test_a_urdf_says_so_exactly_where_mujoco_refuses_it_for_want_of_mass(name: str) -> None:
    mujoco = pytest.importorskip("mujoco")
    written = export(build(name, **EXPORTED.get(name, {})), "urdf")
    assert "- -" not in written.text  # what a comment of XML makes of an option
    said = [note for note in written.notes if note.startswith("moving links without mass: ")]
    if name == "charmie":
        assert said == [
            "moving links without mass: 'link_1', 'link_2'; pinocchio takes them, MuJoCo does not; "
            "export as mjcf for MuJoCo"
        ]
        with pytest.raises(ValueError, match="mass and inertia of moving bodies must be larger than mjMINVAL"):
            mujoco.MjModel.from_xml_string(written.text)
    else:
        assert said == []
        assert mujoco.MjModel.from_xml_string(written.text).njnt > 0
