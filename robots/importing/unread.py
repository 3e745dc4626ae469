"""Checks for elements and attributes of a URDF file that the import does not read.

Names that are probably misspelt are refused with InvalidMechanism; others get a warning.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping

from robots.importing.notes import Notes
from robots.importing.xml_reader import Element, Errors, short
from sim_core.mechanism.joints import ORIGIN
from sim_core.support.suggestion import nearest

# names that shape the motion, by the tag of the element that has them
CHILDREN = {
    "robot": {"link", "joint", "material"},
    "link": {"inertial", "visual", "collision"},
    "inertial": {"origin", "mass", "inertia"},
    "joint": {"origin", "parent", "child", "axis", "limit", "dynamics", "mimic", "safety_controller", "calibration"}
    | {"joint_properties"},
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
    "dynamics": {"damping", "friction", "spring_stiffness", "spring_reference"},
    "joint_properties": {"damping", "friction"},
    "limit": {"lower", "upper", "effort", "velocity"},
    "mimic": {"joint", "multiplier", "offset"},
    "mass": {"value"},
}
# attributes of MJCF and other formats, and what they are in URDF
FOREIGN = {"pos": "xyz", "position": "xyz", "x": "xyz", "y": "xyz", "z": "xyz", "quat": "rpy", "euler": "rpy"}
FOREIGN |= {"roll": "rpy", "pitch": "rpy", "yaw": "rpy", "range": "lower"}
LEAVES = {"origin", "axis", "limit", "dynamics", "joint_properties", "mimic", "mass", "inertia", "parent", "child"}
# elements and attributes of other formats that change the motion
FORCES = re.compile(r"spring|damp|friction|stiffness|cable|rope|tendon|force_element|bushing|loop_joint|constraint")
PROPELLOR = "propellor"  # of <force_element> in Drake: its thrust is 0 until it is commanded
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


def note_unread(robot: Element, notes: Notes, errors: Errors, read: Collection[str] = ()) -> None:
    """Warn of elements and attributes that are not read.

    Misspelt ones are added to `errors`, because the import would use defaults instead, and so are those that change the
    motion.

    read  tags of UNREAD that are read all the same
    """
    owners = [robot, *robot.all("link"), *robot.all("joint")]
    _check_attributes(robot, robot, notes, errors)
    for link in robot.all("link"):
        for inertial in link.all("inertial"):
            inertial.label = f"{link.label}: <inertial>"
            owners.append(inertial)
    for owner in owners:
        for child in owner.children:
            with errors.collected():
                if child.tag not in read:
                    _check_child(owner, child, notes)
            if child.tag in ATTRIBUTES and child.tag in CHILDREN[owner.tag]:
                _check_attributes(owner, child, notes, errors)
            if child.tag in LEAVES and child.tag in CHILDREN[owner.tag]:
                child.label = child.label or (f"{owner.label}: <{child.tag}>" if owner.label else "")
                with errors.collected():
                    _check_content(owner, child, notes)
            if child.tag == "origin":
                with errors.collected():
                    if (most := max(map(abs, child.numbers("rpy", 3, ORIGIN)))) > 2.0 * math.pi:
                        notes.add(
                            child, f"rpy has an angle of {most:g} rad, more than a turn: angles in URDF are in rad"
                        )


def _check_child(owner: Element, child: Element, notes: Notes) -> None:
    place = owner.label or f"<{owner.tag}>"
    if child.tag == "loop_joint":
        child.fail("a closed loop is not supported in URDF; write the robot as MJCF, and the loop as <equality>")
    elif child.tag in UNREAD:
        notes.add(child, UNREAD[child.tag])
    elif child.tag not in CHILDREN[owner.tag]:
        present = [] if owner.tag == "robot" else [each.tag for each in owner.children]  # a robot has many of each
        if meant := _misspelt(child.tag, CHILDREN[owner.tag], present):
            child.fail(f"the tag of this element is unknown in {place}; did you mean <{meant}>?")
        if child.children and {each.tag for each in child.children} == {PROPELLOR}:
            notes.add(child, f"<{PROPELLOR}> is not read: the robot has no such actuator")
        elif FORCES.search(child.tag.lower()):
            child.fail(
                f"this element in {place} changes the motion, but is not part of URDF and not supported; write the "
                "robot as MJCF or in Python, or remove the element"
            )
        else:
            notes.add(child, f"<{child.tag}> in <{owner.tag}> is not read")


def _check_content(owner: Element, child: Element, notes: Notes) -> None:
    """Refuse misplaced elements in an element that has none, and warn of others and of text."""
    for inner in child.children:
        if inner.tag in ATTRIBUTES[child.tag]:
            inner.label = f"{owner.label or f'<{owner.tag}>'}: <{inner.tag}>"
            inner.fail(f'this is an element in <{child.tag}>, which has it as an attribute: {inner.tag}="..."')
        if inner.tag in ATTRIBUTES:
            inner.label = f"{owner.label or f'<{owner.tag}>'}: <{inner.tag}>"
            inner.fail(f"this element is in <{child.tag}>, where it has no effect; move it to where it belongs")
        notes.add(inner, f"<{inner.tag}> in <{child.tag}> is not read")
    if child.content:
        notes.add(child, f"the text {short(child.content)} in <{child.tag}> is not read: URDF has values in attributes")


def _check_attributes(owner: Element, child: Element, notes: Notes, errors: Errors) -> None:
    known = ATTRIBUTES[child.tag]
    for name in sorted(each for each in child.attributes.keys() - known if not each.startswith("xmlns")):
        with errors.collected():
            meant = _misspelt(name, known, child.attributes) or meant_by(name, known, child.attributes, FOREIGN)
            if (meant or FORCES.search(name.lower())) and child.tag not in ("robot", "link", "joint"):
                child.label = f"{owner.label or f'<{owner.tag}>'}: <{child.tag}>"
            if meant:
                child.fail(f"there is no attribute {name!r}; did you mean {meant!r}?")
            if FORCES.search(name.lower()):
                child.fail(
                    f"attribute {name!r} of <{child.tag}> would change the motion, but URDF does not have it; write it "
                    "in <dynamics>, or remove it"
                )
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
