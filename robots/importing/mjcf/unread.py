"""Checks for parts of an MJCF file that the import does not support.

Parts that affect the motion are refused with InvalidMechanism; others get a warning.
"""

from __future__ import annotations

from collections.abc import Collection

from robots.importing.mjcf.document import Defaults
from robots.importing.notes import Notes
from robots.importing.xml_reader import Element

# parts that change the motion and can be left out on request: {name: what they are}
IGNORABLE = {
    "tendon": "tendons with stiffness, damping, friction or limits",
    "equality": "equality constraints",
    "fluid": "the forces of a fluid (density, viscosity and wind)",
}
ROOT = {"compiler", "option", "size", "visual", "statistic", "default", "asset", "worldbody", "actuator", "keyframe"}
ROOT |= {"contact", "custom", "tendon", "equality"}
NOTED = {
    "sensor": "<sensor> is not read: the robot has no such sensor",
}
BODY = {"inertial", "joint", "freejoint", "geom", "body"}
SEEN = {
    "site": "<site> is not read",
    "camera": "<camera> is not read",
    "light": "<light> is not read",
}
ACTING = ("stiffness", "damping", "frictionloss", "armature", "springlength")
FLUID = {"density": 1, "viscosity": 1, "wind": 3}
EXPANDED = ("frame", "replicate")  # elements that MuJoCo replaces by others when it reads a file
FLAGS = ("passive", "spring", "damper")  # flags of <option> that change the passive motion and are not supported
CONSTRAINTS = ("contact", "equality", "limit", "frictionloss")  # flags that the flag `constraint` includes
# {part: [(attributes that are not read, what holds in their place)]}
NOT_READ = {
    "option": [
        ("timestep integrator", "the launch file gives step and stepper"),
        ("cone impratio noslip_iterations", "contacts are forces, see the documentation of MJCF"),
    ],
    "limit": [("margin solreflimit solimplimit", "stops begin at the limits, with a stiffness of their own")],
    "friction": [("solreffriction solimpfriction", "friction is smooth near rest, or has bristles")],
    "actuator": [("delay timeconst", "commands act without delay")],
    "equality": [("solref solimp torquescale", "the constraint holds exactly")],
    "contact": [
        ("margin gap", "geoms touch where their surfaces meet"),
        ("adhesion surfacevel", "the surfaces of geoms neither adhere nor move"),
        ("solreffriction", "friction is smooth below a sliding speed"),
    ],
    "key": [
        ("ctrl act", "actuators start with the command 0"),
        ("mpos mquat", "mocap bodies stay where they are"),
    ],
}
BOUNDS = ("boundmass", "boundinertia")


def check_root(
    root: Element, defaults: Defaults, ignored: frozenset[str], tendons: Collection[str], notes: Notes
) -> None:
    """Check all elements of the file outside its bodies.

    Unsupported elements that affect the motion are refused; the others get a warning.

    ignored  names from IGNORABLE: parts that get a warning instead of being refused
    tendons  names of the fixed tendons that are read
    """
    for child in root.children:
        if child.tag in NOTED:
            notes.add(child, NOTED[child.tag])
        elif child.tag not in ROOT:
            child.fail("this element is not supported; remove it")
    for compiler in root.all("compiler"):
        for name in BOUNDS:
            if compiler.number(name, 0.0) > 0.0:
                compiler.fail(f"{name} is not supported; write the masses and inertias of the bodies instead")
        if compiler.attributes.get("coordinate", "local") != "local":
            compiler.fail(
                "coordinate is not local, the only value that MuJoCo reads since version 2.3.4; remove this attribute"
            )
    _check_options(root, ignored, notes)
    for holder in root.all("equality") if "equality" in ignored else ():
        for child in holder.children:
            _refuse(child, "equality", "", ignored, notes)
    for holder in root.all("tendon"):
        for child in holder.children:
            _check_tendon(defaults.applied(child), ignored, tendons, notes)


def _check_options(root: Element, ignored: frozenset[str], notes: Notes) -> None:
    for option in root.all("option"):
        for name, count in FLUID.items():
            if any(option.numbers(name, count, (0.0,) * count)):
                _refuse(option, "fluid", f"{name} is not 0, and forces of a fluid are not supported", ignored, notes)
        note_attributes(option, "option", notes)
        flag = option.optional("flag")  # MuJoCo refuses a second one
        if flag is not None and flag.attributes.get("override") == "enable":
            notes.add(flag, "override is not read: contacts have the parameters of their geoms")
    for name in FLAGS:
        if is_disabled(root, name):
            flags = [flag for option in root.all("option") for flag in option.all("flag") if name in flag.attributes]
            flags[-1].fail(f"{name} is disabled, which is not supported; enable it")


def is_disabled(root: Element, name: str) -> bool:
    """Whether a <flag> in <option> disables the part `name` of MuJoCo's dynamics."""
    merged: dict[str, str] = {}  # the last flag of a name counts
    for option in root.all("option"):
        for flag in option.all("flag"):
            merged |= flag.attributes
    return merged.get(name) == "disable" or (name in CONSTRAINTS and merged.get("constraint") == "disable")


def note_attributes(element: Element, part: str, notes: Notes) -> None:
    """Add a note for attributes of an element that the import does not read; attributes that are 0 get none.

    part  kind of the element, a key of NOT_READ, which lists these attributes
    """
    for names, instead in NOT_READ[part]:
        given = [name for name in names.split() if {*element.attributes.get(name, "").split()} - {"0", "0.0"}]
        if given:
            verb = "are" if len(given) > 1 else "is"
            notes.add(element, f"{' and '.join(given)} {verb} not read: {instead}")


def _check_tendon(tendon: Element, ignored: frozenset[str], read: Collection[str], notes: Notes) -> None:
    """Refuse a tendon with stiffness, damping, friction or limits; warn of any other tendon that is not read.

    ignored  parts that get a warning instead of being refused; "tendon" may be one of them
    read     names of the tendons that are read
    """
    limited = tendon.attributes.get("limited", "auto")
    forces = [name for name in ACTING if name in tendon.attributes]
    if limited == "true" or (limited == "auto" and "range" in tendon.attributes):
        forces.append("limits")
    name = f"tendon {tendon.attributes['name']!r}" if "name" in tendon.attributes else f"<{tendon.tag}>"
    tendon.label = name
    if forces:
        _refuse(tendon, "tendon", f"it has {', '.join(forces)}, and tendons are not supported", ignored, notes)
    elif tendon.attributes.get("name", "") not in read:
        notes.add(tendon, "the tendon is not read: it only carries the forces of actuators")


def _refuse(element: Element, kind: str, message: str, ignored: frozenset[str], notes: Notes) -> None:
    if kind not in ignored:
        element.fail(f"{message}; pass ignore={kind} to leave out {IGNORABLE[kind]}")
    notes.add(element, f"{IGNORABLE[kind]} are left out, as ignore={kind} asks")


def check_body(body: Element, sites: Collection[str], notes: Notes) -> None:
    """Refuse unsupported child elements of a body, and warn of child elements that are not read.

    sites  names of the sites that are read
    """
    for child in body.children:
        if child.tag == "site" and child.attributes.get("name", "") in sites:
            continue
        if child.tag in SEEN:
            notes.add(child, SEEN[child.tag])
        elif child.tag in EXPANDED:
            child.fail(
                f"<{child.tag}> in a body is not supported; save the model by MuJoCo, which writes its elements out"
            )
        elif child.tag not in BODY:
            child.fail(f"<{child.tag}> in a body is not supported; remove it")
    if body.number("gravcomp", 0.0) != 0.0:
        body.fail("gravcomp is not supported; remove it")
    if body.attributes.get("mocap") == "true":
        notes.add(body, "the mocap body stays where it is")


def check_joint(joint: Element, notes: Notes) -> None:
    """Refuse attributes of a joint that affect its motion and are not supported."""
    if any(joint.numbers("springdamper", 2, (0.0, 0.0))):
        joint.fail("springdamper is not supported; write stiffness and damping instead")
    if {*joint.attributes.get("springyield", "").split()} - {"0"}:
        joint.fail("springyield is not supported; remove it")
    if joint.attributes.get("limited", "auto") == "true" or "range" in joint.attributes:
        note_attributes(joint, "limit", notes)
    if joint.number("frictionloss", 0.0) > 0.0:
        note_attributes(joint, "friction", notes)
