"""Every robot of the registry goes to every format, or is refused in one line; a new one is tested by being listed."""

from __future__ import annotations

import inspect
from xml.etree import ElementTree

import pytest

from robots.export import FORMATS, export
from robots.registry import build, builder, names
from sim_core.errors import InvalidRequest

FLAT = {"triple_pendulum"}  # its bars have inertia about one axis alone


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", names())
def test_every_robot_is_exported_or_refused_in_one_line(name: str, form: str) -> None:
    wanted = {"coordinates": "joint"} if "coordinates" in inspect.signature(builder(name)).parameters else {}
    mechanism = build(name, **wanted)
    refused = "is in absolute coordinates" if mechanism.coordinates == "absolute" else ""
    if name in FLAT and form == "mjcf":
        refused = "none may exceed the sum of the other two, and MuJoCo takes no such body"
    if mechanism.beams:
        refused = r"cannot say, constraints .* and beams .* \(Beam\); --open-tree exports"
    if refused:
        with pytest.raises(InvalidRequest, match=f"^robot {name!r}.*{refused}"):
            export(mechanism, form)
        return
    joints = {joint.attrib["name"] for joint in ElementTree.fromstring(export(mechanism, form).text).iter("joint")}
    assert {joint.name for joint in mechanism.moving_joints} <= joints
