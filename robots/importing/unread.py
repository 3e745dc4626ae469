"""Checks for elements and attributes of a URDF file that the import does not read.

Names that are probably misspelt are refused with InvalidMechanism; others get a warning.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from robots.importing.notes import Notes
from robots.importing.xml_reader import Element, short
from sim_core.mechanism.joints import ORIGIN
from sim_core.support.suggestion import nearest

# names that shape the motion, by the tag of the element that has them
CHILDREN = {
    "robot": {"link", "joint", "material"},
    "link": {"inertial", "visual", "collision"},
    "inertial": {"origin", "mass", "inertia"},
    "joint": {"origin", "parent", "child", "axis", "limit", "dynamics", "mimic", "safety_controller", "calibration"},
}
ATTRIBUTES: dict[str, set[str]] = {
    "robot": {"name", "version"},
    "link": {"name"},
    "inertial": set(),
    "inertia": {"ixx", "iyy", "izz", "ixy", "ixz", "iyz"},
    "joint": {"name", "type"},
    "parent": {"link"},
    "child": {"link"},
    "origin": {"xyz", "rpy"},
    "axis": {"xyz"},
    "dynamics": {"damping", "friction"},
    "limit": {"lower", "upper", "effort", "velocity"},
    "mimic": {"joint", "multiplier", "offset"},
    "mass": {"value"},
}
# attributes of MJCF and other formats, and what they are in URDF
FOREIGN = {"pos": "xyz", "position": "xyz", "x": "xyz", "y": "xyz", "z": "xyz", "quat": "rpy", "euler": "rpy"}
FOREIGN |= {"roll": "rpy", "pitch": "rpy", "yaw": "rpy", "range": "lower"}
LEAVES = {"origin", "axis", "limit", "dynamics", "mimic", "mass", "inertia", "parent", "child"}  # have no elements
ALIKE = 0.75  # similarity of two names of which one is taken for a misspelt other
UNREAD = {
    "collision": "<collision> is not read: bodies do not touch one another or the ground",
    "transmission": "<transmission> is not read: commands are efforts at the joint",
    "gazebo": "<gazebo> is not read: it concerns another program",
    "ros2_control": "<ros2_control> is not read: it concerns another program",
    "sensor": "<sensor> is not read: the robot has no such sensor",
    "safety_controller": "<safety_controller> is not read: its soft limits are a controller's",
    "calibration": "<calibration> is not read: the model knows its joint positions",
}


def note_unread(robot: Element, notes: Notes) -> None:
    """Warn of elements and attributes that are not read. Refuse misspelt ones, because the import would use defaults
    instead.
    """
    owners = [robot, *robot.all("link"), *robot.all("joint")]
    _check_attributes(robot, robot, notes)
    for link in robot.all("link"):
        for inertial in link.all("inertial"):
            inertial.label = f"{link.label}: <inertial>"
            owners.append(inertial)
    for owner in owners:
        _check_children(owner, notes)
        for child in owner.children:
            if child.tag in ATTRIBUTES:
                _check_attributes(owner, child, notes)
            if child.tag in LEAVES:
                child.label = child.label or (f"{owner.label}: <{child.tag}>" if owner.label else "")
                _check_content(owner, child, notes)
            if child.tag == "origin" and (most := max(map(abs, child.numbers("rpy", 3, ORIGIN)))) > 2.0 * math.pi:
                notes.add(child, f"rpy has an angle of {most:g} rad, more than a turn: angles in URDF are in rad")


def _check_children(owner: Element, notes: Notes) -> None:
    present = [child.tag for child in owner.children]
    for child in owner.children:
        if child.tag == "loop_joint":
            child.fail("a closed loop is not supported in URDF; write the robot as MJCF, and the loop as <equality>")
        elif child.tag in UNREAD:
            notes.add(child, UNREAD[child.tag])
        elif child.tag not in CHILDREN[owner.tag]:
            if meant := _misspelt(child.tag, CHILDREN[owner.tag], present):
                child.fail(
                    f"the tag of this element is unknown in {owner.label or f'<{owner.tag}>'}; did you mean <{meant}>?"
                )
            notes.add(child, f"<{child.tag}> in <{owner.tag}> is not read")


def _check_content(owner: Element, child: Element, notes: Notes) -> None:
    """Refuse misplaced elements in an element that has none, and warn of others and of text."""
    for inner in child.children:
        if inner.tag in ATTRIBUTES:
            inner.label = f"{owner.label or f'<{owner.tag}>'}: <{inner.tag}>"
            inner.fail(f"this element is in <{child.tag}>, where it has no effect; move it to where it belongs")
        notes.add(inner, f"<{inner.tag}> in <{child.tag}> is not read")
    if child.content:
        notes.add(child, f"the text {short(child.content)} in <{child.tag}> is not read: URDF has values in attributes")


def _check_attributes(owner: Element, child: Element, notes: Notes) -> None:
    known = ATTRIBUTES[child.tag]
    for name in sorted(each for each in child.attributes.keys() - known if not each.startswith("xmlns")):
        if meant := _misspelt(name, known, child.attributes) or meant_by(name, known, child.attributes, FOREIGN):
            if child.tag not in ("robot", "link", "joint"):
                child.label = f"{owner.label or f'<{owner.tag}>'}: <{child.tag}>"
            child.fail(f"there is no attribute {name!r}; did you mean {meant!r}?")
        notes.add(child, f"attribute {name!r} of <{child.tag}> is not read")


def _misspelt(name: str, known: Iterable[str], present: Iterable[str]) -> str:
    """The known name that `name` probably misspells; "" if there is none.

    present  names that the element already has, which are therefore not meant by `name`
    """
    missing = sorted({*known} - {*present})
    same_letters = [each for each in missing if sorted(each) == sorted(name.lower())]
    return same_letters[0] if same_letters else nearest(name.lower(), missing, ALIKE)


def meant_by(name: str, known: Iterable[str], present: Iterable[str], foreign: Mapping[str, str]) -> str:
    """The known name of what another format calls `name`; "" if there is none, or if the element has it already.

    foreign  {name in the other format: name}
    """
    meant = foreign.get(name.lower(), "")
    return meant if meant in {*known} - {*present} else ""
