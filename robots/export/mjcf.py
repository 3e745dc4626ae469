"""Export to MJCF, MuJoCo's model format: bodies, joints, inertias, shapes, contacts, springs, loop closures, motors,
start.

MuJoCo refuses moving bodies without mass. A massless body with one child is merged with its child, and the child gets
the joints of both bodies. A planar joint becomes three joints of one body. Inertias are written as principal moments
and axes, because MuJoCo's own diagonalization of a full matrix leaves products of inertia of up to 1e-12 kg m2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from robots.export.attributes import (
    boxed,
    boxed_meshes,
    comment,
    document,
    line_radius,
    numbers,
    pieces_of,
    quaternion_of,
    rgba_of,
    rotation_of,
    title,
)
from robots.export.closures import constraints_of, point_closures
from robots.export.joint_parts import left_out, servos_left_out, velocity_limits_left_out
from robots.export.mjcf_contacts import add_contacts, pairs_of
from robots.export.mjcf_equalities import add_equalities, add_line, add_sites, welds_of
from robots.export.orientations import at_reference, quaternion_in_file, starts_of
from robots.export.renaming import without_world
from robots.export.tree import (
    NO_LIMIT,
    Branch,
    Export,
    Motion,
    branches_of,
    closing,
    impossible_inertia,
    is_massless,
    mass_of,
    poses_at,
    principal_moments,
    require_unique,
    triangle_excess,
    value,
)
from sim_core.errors import InvalidRequest
from sim_core.mechanism import (
    GROUND,
    Body,
    Distance,
    Joint,
    JointRelation,
    Mechanism,
    Shape,
    Spring,
)
from sim_core.mobility import with_contact_stiffness
from sim_core.spatial import rotation_about

NEARLY = 1e-12  # m, and of entries of a rotation: rounding
DEEPEST = 496  # bodies one inside the other: MuJoCo's reader takes elements that are nested 499 deep
SMALLEST = 1e-15  # kg and kg m2: least mass and moments of a moving body in MuJoCo
EXPRESSIBLE = {"armature", "spring", "Coulomb friction"}  # parts of joints
KINDS = {"revolute": "hinge", "prismatic": "slide", "spherical": "ball", "free": "free"}
SEEN = {"contype": "0", "conaffinity": "0", "group": "1"}  # shapes are visible and do not collide
AS_WRITTEN = {
    "angle": "radian",
    "autolimits": "false",
    "balanceinertia": "false",
    "boundmass": "0.0",
    "boundinertia": "0.0",
    "inertiafromgeom": "false",
}


def export(mechanism: Mechanism, open_tree: bool = False) -> Export:
    """Export a mechanism as MJCF.

    The notes of the result list loops that are left open or closed only softly, merged bodies, and principal moments of
    inertia that were lowered to remove a rounding error.

    open_tree  whether parts that MJCF cannot express are left out; loops that it can express stay closed
    Raises InvalidRequest for bodies that MuJoCo refuses, and for parts that MJCF cannot express unless `open_tree` is
    true.
    """
    owner = f"robot {mechanism.name!r}"
    _check_depth(mechanism, owner)
    mechanism, renamed = without_world(mechanism)
    whole = [at_reference(branch, mechanism, owner) for branch in branches_of(mechanism)]
    mechanism = with_contact_stiffness(mechanism)
    welds = welds_of(mechanism)
    welded = [part for weld in welds for part in weld.parts]
    met = [meeting for meeting in point_closures(mechanism, whole) if meeting.parts[0] not in welded]
    held = [c for c in mechanism.constraints if isinstance(c, Distance)]
    relations = [c for c in mechanism.constraints if isinstance(c, JointRelation)]
    merged, branches = _merge(whole, owner)
    pairs = pairs_of(mechanism, {GROUND, *[branch.body.name for branch in branches]}, _fixed_of(branches))
    touching = {contact.name for pair in pairs for contact in pair.contacts}
    notes = [
        *renamed,
        *closing(mechanism, [*constraints_of(met), *welded, *held, *relations], open_tree, "MJCF", touching),
    ]
    soft = [*[each.name for each in met], *[weld.together.name for weld in welds]]
    soft += [*[rod.name for rod in held], *[each.name for each in relations]]
    if soft:
        closed = ", ".join(map(repr, soft))
        notes.append(f"MuJoCo closes loops by soft constraints; small gaps may open at {closed}")
    notes += boxed_meshes(mechanism)
    notes += left_out(mechanism, EXPRESSIBLE, "MJCF")
    notes += velocity_limits_left_out(mechanism, "MJCF")
    notes += servos_left_out(mechanism, "MJCF")
    for name, into in merged.items():
        shapes = ", and its shapes are left out" if mechanism.body(name).shapes else ""
        notes.append(f"MuJoCo refuses moving bodies without mass; body {name!r} is merged with body {into!r}{shapes}")
    root = Element("mujoco", model=mechanism.name)
    SubElement(root, "compiler", AS_WRITTEN)
    SubElement(root, "option", gravity=numbers(mechanism.gravity))
    SubElement(SubElement(root, "visual"), "headlight", ambient="0.4 0.4 0.4", diffuse="0.5 0.5 0.5")
    SubElement(SubElement(root, "default"), "geom", SEEN)
    elements = {GROUND: SubElement(root, "worldbody")}
    for branch in branches:
        notes += _check_inertia(branch, branches, owner)
        elements[branch.body.name] = _write(elements[branch.parent], branch, mechanism)
    refs = {motion.name: motion.ref for branch in branches for motion in branch.motions}
    notes += add_contacts(root, elements, mechanism, pairs, refs)
    _add_springs(root, elements, mechanism)
    add_equalities(root, elements, mechanism, [*met, *welds, *held], refs, poses_at(whole, refs))
    _add_actuators(root, mechanism)
    _add_start(root, whole, elements[GROUND], mechanism)
    for kind in ("body", "joint", "site"):
        require_unique(owner, kind, [e.attrib["name"] for e in elements[GROUND].iter(kind) if "name" in e.attrib])
    for kind, sections in (("tendon", "tendon"), ("constraint", "equality"), ("pair", "contact")):
        require_unique(owner, kind, [e.attrib["name"] for section in root.findall(sections) for e in section])
    for place, line in enumerate([title(mechanism), *notes]):
        root.insert(place, comment(line))
    return Export(document(root), tuple(notes))


def _check_depth(mechanism: Mechanism, owner: str) -> None:
    """Raise InvalidRequest if the bodies of a file would be nested deeper than MuJoCo reads."""
    depths = {GROUND: 0}
    for joint in mechanism.joints:
        depths[joint.child] = depths.get(joint.parent, 0) + 1
    last = max(depths, key=depths.__getitem__)
    if depths[last] > DEEPEST:
        raise InvalidRequest(
            f"{owner}: body {last!r} follows {depths[last] - 1:,} other bodies, each on the one before; MuJoCo reads "
            f"at most {DEEPEST} nested bodies, so export a shorter chain, or write URDF, which is not nested"
        )


def _merge(branches: Sequence[Branch], owner: str) -> tuple[dict[str, str], list[Branch]]:
    """Merge each massless moving body with its only child body, because MuJoCo refuses moving bodies without mass.

    A massless body to which a body with mass is fixed is not merged, because MuJoCo accepts it.

    Returns ({massless body: body with which it is merged}, the remaining branches). A branch is a body with its
    connection to its parent body. Raises InvalidRequest for a massless moving body that cannot be merged.
    """
    merged: dict[str, str] = {}
    kept: list[Branch] = []
    waiting: dict[str, Branch] = {}  # the massless bodies by name
    for branch in branches:
        if branch.parent in waiting:
            before = waiting.pop(branch.parent)
            merged = {a: branch.body.name if b == branch.parent else b for a, b in merged.items()}
            merged[branch.parent] = branch.body.name
            branch = _joined(before, branch, owner)
        if is_massless(branch.body) and branch.motions and not _carries_mass(branch.body, branches):
            behind = [other.body.name for other in branches if other.parent == branch.body.name]
            if len(behind) != 1:
                carried = ", ".join(map(repr, behind)) or "nothing"
                raise InvalidRequest(
                    f"{owner}: body {branch.body.name!r} moves, has no mass and carries {carried}; "
                    "give it a mass, or let it carry exactly one body, with which it can be merged for MuJoCo"
                )
            waiting[branch.body.name] = branch
        else:
            kept.append(branch)
    return merged, kept


def _carries_mass(body: Body, branches: Sequence[Branch]) -> bool:
    """Whether a body with mass is fixed to `body`, directly or through other bodies without mass."""
    fixed = [other.body for other in branches if other.parent == body.name and not other.motions]
    return any(not is_massless(each) or _carries_mass(each, branches) for each in fixed)


def _fixed_of(branches: Sequence[Branch]) -> set[str]:
    """Names of the ground and of the bodies that are fixed to it."""
    fixed = {GROUND}
    for branch in branches:
        if branch.parent in fixed and not branch.motions:
            fixed.add(branch.body.name)
    return fixed


def _joined(first: Branch, second: Branch, owner: str) -> Branch:
    """Merge the branch of a massless body with the branch of its only child, and return the result.

    A branch is a body with its connection to its parent body. The result has the child as its body, and the degrees of
    freedom of the massless body followed by those of the child. Raises InvalidRequest if the massless body has a free
    joint. A spherical joint is permitted only if the frames of both bodies are parallel at joint position 0 and the
    child has no rotational degree of freedom.
    """
    follows = not np.array_equal(second.R, np.eye(3)) or any(each.kind != "prismatic" for each in second.motions)
    for motion in first.motions:
        if motion.kind == "free" or (motion.kind == "spherical" and follows):
            raise InvalidRequest(
                f"{owner}: body {first.body.name!r} on the {motion.kind} joint {motion.name!r} has no mass and cannot "
                f"be merged with {second.body.name!r} for MuJoCo; give it a mass"
            )
    shifted = _with_reference(second)
    if shifted is not None:
        return replace(shifted, parent=first.parent, p=first.p, R=first.R, motions=first.motions + shifted.motions)
    early = tuple(motion.expressed_in(second.p, second.R) for motion in first.motions)
    return replace(
        second,
        parent=first.parent,
        p=first.p + first.R @ second.p,
        R=first.R @ second.R,
        motions=early + second.motions,
    )


def _with_reference(branch: Branch) -> Branch | None:
    """Rewrite a branch so that the frame of its body coincides with the parent's frame at the joint position `ref`.

    A branch is a body with its connection to its parent body. The result describes the same connection by the pose
    p = 0, R = 1 and one motion with this `ref`, so that an import reads the same joint. Returns None if the frames
    coincide already at position 0, if they coincide at no position, or if the connection is not one rotation or one
    translation.
    """
    if len(branch.motions) != 1 or (np.array_equal(branch.R, np.eye(3)) and not branch.p.any()):
        return None
    (motion,) = branch.motions
    x, y, z = motion.axis.tolist()
    if motion.kind == "prismatic":
        ref, turn = -float(branch.p @ motion.axis), np.eye(3)
        p = -ref * motion.axis
    elif motion.kind == "revolute":
        turned = np.array([branch.R[2, 1], branch.R[0, 2], branch.R[1, 0]])
        turned = turned - np.array([branch.R[1, 2], branch.R[2, 0], branch.R[0, 1]])
        ref = -math.atan2(float(turned @ motion.axis), float(np.trace(branch.R)) - 1.0)
        turn = np.asarray(rotation_about((x, y, z), -ref))
        p = motion.point - turn @ motion.point
    else:
        return None
    near = np.abs(p - branch.p).max() < NEARLY and np.abs(turn - branch.R).max() < NEARLY
    return replace(branch, p=np.zeros(3), R=np.eye(3), motions=(replace(motion, ref=ref),)) if near else None


def _check_inertia(branch: Branch, branches: Sequence[Branch], owner: str) -> list[str]:
    """Check whether MuJoCo accepts a body's inertia.

    MuJoCo refuses a largest principal moment above the sum of the other two, even if the excess is a rounding error.
    Such a moment is lowered on export, and a list with a note about this is returned; otherwise [] is returned. Raises
    InvalidRequest for an inertia that MuJoCo refuses for other reasons.

    branches  the branches of all bodies of the file
    """
    wrong = impossible_inertia(branch.body)
    if wrong:
        raise InvalidRequest(f"{owner}: {wrong}; correct the inertia, because MuJoCo refuses this body")
    moments = principal_moments(branch.body)[0]
    alone = branch.motions and not _carries_mass(branch.body, branches)
    if alone and min(mass_of(branch.body), *moments) < SMALLEST:
        raise InvalidRequest(
            f"{owner}: body {branch.body.name!r} has mass {mass_of(branch.body):g} kg and the principal moments of "
            f"inertia {numbers(moments)} kg m2; each must be at least {SMALLEST:g}, because MuJoCo refuses lighter "
            "moving bodies"
        )
    excess = triangle_excess(moments)
    name = branch.body.name
    return [
        f"body {name!r}: the largest moment of inertia is lowered by the fraction {excess:.1e}, a rounding error"
    ] * (excess > 0)


def _write(parent: Element, branch: Branch, mechanism: Mechanism) -> Element:
    pose = {"pos": numbers(branch.p), "quat": numbers(quaternion_in_file(branch, mechanism))}
    element = SubElement(parent, "body", {"name": branch.body.name, **pose})
    for motion in branch.motions:
        _write_motion(element, motion)
    if not is_massless(branch.body):
        _write_inertia(element, branch.body)
    for shape in branch.body.shapes:
        for geometry in _geometries(shape, line_radius(mechanism)):
            SubElement(element, "geom", geometry)
    return element


def _write_motion(body: Element, motion: Motion) -> None:
    element = SubElement(body, "joint", name=motion.name, type=KINDS[motion.kind])
    if motion.kind != "free":
        element.set("pos", numbers(motion.point))
    if motion.axis.any():
        element.set("axis", numbers(motion.axis))
    if motion.ref != 0.0:
        element.set("ref", numbers([motion.ref]))
    joint = motion.joint
    if joint is not None and value(joint.damping) != 0.0:
        element.set("damping", numbers([value(joint.damping)]))
    if joint is not None:
        _write_parts(element, joint)
    if joint is not None and _is_limited(joint):
        none = 0.0 if joint.is_oriented else -NO_LIMIT
        lower = none if joint.lower is None else joint.lower
        upper = NO_LIMIT if joint.upper is None else joint.upper
        element.set("limited", "true")
        element.set("range", numbers([lower, upper]))


def _is_limited(joint: Joint) -> bool:
    return joint.lower is not None or joint.upper is not None


def _write_parts(element: Element, joint: Joint) -> None:
    """Write armature, spring and Coulomb friction of a joint.

    The preload of a spring is written as a shift of the spring's reference position.
    """
    if value(joint.armature) != 0.0:
        element.set("armature", numbers([value(joint.armature)]))
    if joint.friction is not None:
        element.set("frictionloss", numbers([value(joint.friction.coulomb)]))
    if joint.spring is not None and value(joint.spring.stiffness) != 0.0:
        stiffness = value(joint.spring.stiffness)
        element.set("stiffness", numbers([stiffness]))
        if joint.is_oriented:
            return  # MuJoCo takes the body's pose in the file as the rest pose
        element.set("springref", numbers([value(joint.spring.rest) + value(joint.spring.preload) / stiffness]))


def _write_inertia(element: Element, body: Body) -> None:
    moments, R = principal_moments(body)
    largest = int(np.argmax(moments))
    moments[largest] = min(moments[largest], np.delete(moments, largest).sum())  # corrects rounding
    SubElement(
        element,
        "inertial",
        pos=numbers(body.center_of_mass),
        quat=numbers(quaternion_of(R)),
        mass=numbers([mass_of(body)]),
        diaginertia=numbers(moments),
    )


def _geometries(shape: Shape, thickness: float) -> Iterator[dict[str, str]]:
    """Yield the attributes of each geom of a shape; a line becomes one thin capsule per segment."""
    shape, rgba = boxed(shape), rgba_of(shape.color)
    look = {} if rgba is None else {"rgba": rgba}
    pose = {"pos": numbers(shape.position), "quat": numbers(quaternion_of(rotation_of(shape.quaternion)))}
    size = np.array(shape.size, dtype=float)
    if shape.kind == "box":
        yield {"type": "box", "size": numbers(size / 2), **pose, **look}
    elif shape.kind == "sphere":
        yield {"type": "sphere", "size": numbers(size[:1]), **pose, **look}
    elif shape.kind == "cylinder":
        yield {"type": "cylinder", "size": numbers([size[0], size[1] / 2]), **pose, **look}
    elif shape.kind == "line":
        for start, end in pieces_of(shape):
            yield {"type": "capsule", "size": numbers([thickness]), "fromto": numbers([*start, *end]), **look}


def _add_springs(root: Element, elements: dict[str, Element], mechanism: Mechanism) -> None:
    for spring in mechanism.springs:
        line = add_line(root, spring.name, add_sites(elements, spring))
        length = _zero_length(spring)
        line.set("springlength", numbers([value(spring.rest_length) if length is None else length]))
        line.set("stiffness", numbers([value(spring.stiffness)]))
        line.set("damping", numbers([value(spring.damping)]))


def _zero_length(spring: Spring) -> float | None:
    """Length, m, at which a spring with pretension exerts no force.

    None for a spring that pulls at every length, which MuJoCo's springs cannot express.
    """
    stiffness, pull, length = value(spring.stiffness), value(spring.pretension), value(spring.rest_length)
    return length if pull == 0.0 else length - pull / stiffness if pull <= stiffness * length else None


def _add_actuators(root: Element, mechanism: Mechanism) -> None:
    """Add motors with their limits. Constant loads and constant spring forces become actuators without control
    input.
    """
    pulls = [spring for spring in mechanism.springs if _zero_length(spring) is None]
    loads = [joint for joint in mechanism.joints if _constant_effort(joint) != 0.0]
    motors = [actuator for actuator in mechanism.actuators if actuator.joint]  # a switch drives nothing
    if not motors and not loads and not pulls:
        return
    section = SubElement(root, "actuator")
    for actuator in motors:
        motor = SubElement(section, "motor", name=actuator.name, joint=_acted_on(mechanism.joint(actuator.joint)))
        if actuator.effort_limit is not None:
            motor.set("ctrllimited", "true")
            motor.set("ctrlrange", numbers([-actuator.effort_limit, actuator.effort_limit]))
    constant: list[tuple[str, dict[str, str], float]]
    constant = [(f"{joint.name}.load", {"joint": _acted_on(joint)}, _constant_effort(joint)) for joint in loads]
    constant += [(f"{spring.name}.pull", {"tendon": spring.name}, -value(spring.pretension)) for spring in pulls]
    for name, on, effort in constant:
        general = SubElement(section, "general", {"name": name, **on, "gainprm": "0.0"})
        general.set("biastype", "affine")
        general.set("biasprm", numbers([effort, 0.0, 0.0]))


def _constant_effort(joint: Joint) -> float:
    """Constant effort on a joint, N m or N: its load, plus the preload of a spring without stiffness.

    MuJoCo's springs cannot express a preload without stiffness.
    """
    alone = joint.spring is not None and value(joint.spring.stiffness) == 0.0
    return value(joint.load) + (value(joint.spring.preload) if alone and joint.spring is not None else 0.0)


def _acted_on(joint: Joint) -> str:
    """Name of the MJCF joint on which the efforts of a joint act.

    For a planar joint, which becomes three MJCF joints, this is the name of the rotational one.
    """
    return f"{joint.name}.theta" if joint.is_planar else joint.name


def _add_start(root: Element, branches: Sequence[Branch], world: Element, mechanism: Mechanism) -> None:
    """Add a keyframe with the start state to the MJCF document `root`; an import of the file starts from it.

    The joints in the keyframe have MuJoCo's order, depth first.

    branches  bodies with their connections to the parent bodies, before massless bodies are merged
    """
    starts = {name: start for branch in branches for name, start in starts_of(branch, mechanism).items()}
    order = [joint.attrib["name"] for joint in world.iter("joint")]
    if order:
        q, v = ([number for name in order for number in starts[name][part]] for part in (0, 1))
        SubElement(SubElement(root, "keyframe"), "key", name="start", qpos=numbers(q), qvel=numbers(v))
