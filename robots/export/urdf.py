"""Export to URDF: links, joints, inertias and shapes of a tree of joints.

The frame of a link is parallel to the frame of the body, and its origin is on the axis of the link's joint. If the
origin of the body's frame is elsewhere, a massless link `<body>.origin` marks it. A planar joint becomes two prismatic
joints and a revolute joint, which mean the same in every program; the import reads them as the planar joint.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from robots.export.attributes import (
    Array,
    boxed,
    boxed_meshes,
    comment,
    document,
    line_radius,
    numbers,
    pieces_of,
    rgba_of,
    rotation_of,
    rotation_to,
    title,
)
from robots.export.closures import Mimic, mimics_of
from robots.export.exact import exact_axis, exact_rpy, short_rpy
from robots.export.joint_parts import left_out, servos_left_out
from robots.export.tree import (
    NO_LIMIT,
    Branch,
    Export,
    Motion,
    branches_of,
    closing,
    effort_limit_of,
    impossible_inertia,
    is_massless,
    mass_of,
    require_unique,
    tensor_of,
    value,
    velocity_limit_of,
)
from robots.importing.urdf import start_of
from sim_core.errors import InvalidRequest
from sim_core.mechanism import GROUND, IDENTITY_QUATERNION, Body, Joint, Mechanism, Shape

SHOWN = 6  # joints whose start a note names


def export(mechanism: Mechanism, open_tree: bool = False) -> Export:
    """Export a mechanism as URDF, with notes on what URDF cannot express, such as gravity, loads, springs and loops.

    A note also lists moving links without mass: URDF permits them, but some programs that read URDF do not.

    open_tree  whether constraints that close loops, beams, contacts and custom forces are left out, with a note
    Raises InvalidRequest for spherical joints, and if `open_tree` is false for a mechanism with parts of these kinds.
    """
    branches = branches_of(mechanism)
    for each in mechanism.oriented_joints:
        if not each.is_free:
            raise InvalidRequest(
                f"robot {mechanism.name!r}: joint {each.name!r} is spherical, which URDF cannot express; use mjcf"
            )
    mimics = _first_of_each(mimics_of(mechanism))
    relations = [mimic.relation for mimic in mimics.values()]
    notes = [*closing(mechanism, relations, open_tree, "URDF"), *_inexpressible(mechanism)]
    notes += [line for branch in branches if (line := impossible_inertia(branch.body))]
    notes += _without_mass(branches)
    robot = Element("robot", name=mechanism.name)
    for line in (
        title(mechanism),
        f"gravity {numbers(mechanism.gravity)} m/s^2",
        f"no limit is written as {NO_LIMIT:g}",
        *notes,
    ):
        robot.append(comment(line))
    SubElement(robot, "link", name=GROUND)
    shifts = {GROUND: np.zeros(3)}
    for branch in branches:
        shifts[branch.body.name] = branch.motions[-1].point if branch.motions else np.zeros(3)
        _write(robot, branch, shifts, mechanism)
    for joint in robot.iter("joint"):
        if (mimic := mimics.get(joint.attrib["name"])) is not None:
            law = {"multiplier": numbers([mimic.multiplier]), "offset": numbers([mimic.offset])}
            SubElement(joint, "mimic", {"joint": mimic.leader, **law})
    owner = f"robot {mechanism.name!r}"
    for kind in ("link", "joint"):
        require_unique(owner, kind, [element.attrib["name"] for element in robot.iter(kind)])
    return Export(document(robot), tuple(notes))


def _first_of_each(mimics: Sequence[Mimic]) -> dict[str, Mimic]:
    """{follower: first relation with this follower}.

    Further relations are left out, because a URDF joint can follow only one other joint.
    """
    found: dict[str, Mimic] = {}
    for mimic in mimics:
        found.setdefault(mimic.follower, mimic)
    return found


def _without_mass(branches: Sequence[Branch]) -> Iterator[str]:
    links = [motion.name for branch in branches for motion in branch.motions[:-1]]
    links += [branch.body.name for branch in branches if branch.motions and is_massless(branch.body)]
    if links:
        names = ", ".join(map(repr, links))
        yield f"moving links without mass: {names}; pinocchio takes them, MuJoCo does not; export as mjcf for MuJoCo"


def _inexpressible(mechanism: Mechanism) -> Iterator[str]:
    if mechanism.gravity[:2] != (0.0, 0.0) or abs(mechanism.gravity[2] + 9.81) > 1e-9:
        gravity = numbers(mechanism.gravity)
        yield f"gravity is {gravity} m/s^2; URDF has no gravity, set it in the program that reads the file"
    loads = [joint.name for joint in mechanism.joints if value(joint.load) != 0.0]
    if loads:
        yield f"URDF has no constant loads; left out are those of the joints {', '.join(map(repr, loads))}"
    if mechanism.springs:
        yield f"URDF has no springs; left out are {', '.join(repr(spring.name) for spring in mechanism.springs)}"
    yield from _start_left_out(mechanism)
    yield from boxed_meshes(mechanism)
    yield from left_out(mechanism, {"Coulomb friction"}, "URDF")
    yield from servos_left_out(mechanism, "URDF")


def _start_left_out(mechanism: Mechanism) -> Iterator[str]:
    """Note that the start is left out, if it is not the one that an import of the file gives the robot.

    Mimic joints start where the joints that they mimic place them.
    """
    followers = {mimic.follower for mimic in mimics_of(mechanism)}
    names = [name for joint in mechanism.joints for name in joint.coordinates]
    starts = [at for joint in mechanism.joints for at in start_of(joint).values()]
    values = zip(names, mechanism.initial_q, starts, strict=False)  # initial_q also has first-order states
    moved = [f"{name} = {at:.6g}" for name, at, start in values if at != start and name not in followers]
    moved += [f"{name} moves" for name, v in zip(names, mechanism.initial_v, strict=False) if v != 0.0]
    moved += [
        f"{joint.name} is turned" for joint in mechanism.oriented_joints if joint.quaternion != IDENTITY_QUATERNION
    ]
    if moved:
        more = f" and {len(moved) - SHOWN} more" if len(moved) > SHOWN else ""
        yield f"URDF has no start; left out is that of this robot: {', '.join(moved[:SHOWN])}{more}"


def _write(robot: Element, branch: Branch, shifts: dict[str, Array], mechanism: Mechanism) -> None:
    """Write the links and joints of a branch.

    Each motion (degree of freedom) of the branch becomes a URDF joint. The last of these joints carries the body's
    link, the others carry massless links.

    shifts  {body: position of the link's frame in the body's frame}
    """
    body, shift = branch.body, shifts[branch.body.name]
    parent, p, R = branch.parent, branch.p - shifts[branch.parent], branch.R
    names = [motion.name for motion in branch.motions[:-1]] + [body.name]
    for name, motion in zip(names, branch.motions or (None,), strict=True):
        link = SubElement(robot, "link", name=name)
        if name == body.name:
            _fill(link, body, shift, line_radius(mechanism))
        at = p if motion is None else p + R @ motion.point
        joint = _joint(robot, branch.joint.name if motion is None else motion.name, parent, name, at, R)
        _move(joint, motion, branch.R, mechanism)
        # the next motion of this branch starts at the end of this one
        parent, p, R = name, np.zeros(3) if motion is None else -motion.point, np.eye(3)
    if shift.any():
        SubElement(robot, "link", name=f"{body.name}.origin")
        origin = _joint(robot, f"{body.name}.origin", body.name, f"{body.name}.origin", -shift, np.eye(3))
        origin.set("type", "fixed")


def _joint(robot: Element, name: str, parent: str, child: str, p: Array, R: Array) -> Element:
    joint = SubElement(robot, "joint", name=name)
    _origin(joint, p, R)
    SubElement(joint, "parent", link=parent)
    SubElement(joint, "child", link=child)
    return joint


def _origin(owner: Element, p: Array, R: Array) -> None:
    SubElement(owner, "origin", xyz=numbers(p), rpy=numbers(exact_rpy(R)))


def _move(element: Element, motion: Motion | None, R: Array, mechanism: Mechanism) -> None:
    """Write type, axis, limits and damping of a joint element. Without a motion, the joint is fixed.

    R  rotation of the child's frame in the parent's, in which the axis of the mechanism's joint is

    A joint without actuator gets the effort limit 0.
    """
    if motion is None:
        element.set("type", "fixed")
        return
    if motion.kind == "free":
        element.set("type", "floating")
        _write_dynamics(element, motion.joint)
        return
    joint = motion.joint
    along = motion.axis if joint is None else exact_axis(R, joint.axis)
    SubElement(element, "axis", xyz=numbers(along))
    limited = joint is not None and (joint.lower is not None or joint.upper is not None)
    element.set("type", "continuous" if motion.kind == "revolute" and not limited else motion.kind)
    limit = SubElement(element, "limit")
    driven = joint is not None and any(actuator.joint == joint.name for actuator in mechanism.actuators)
    for name, limit_of in (("effort", effort_limit_of), ("velocity", velocity_limit_of)):
        largest = None if joint is None else limit_of(mechanism, joint)
        unlimited = 0.0 if name == "effort" and not driven else NO_LIMIT
        limit.set(name, numbers([unlimited if largest is None else largest]))
    if element.get("type") != "continuous":
        for name, bound in _bounds(joint).items():
            limit.set(name, numbers([bound]))
    _write_dynamics(element, joint)


def _write_dynamics(element: Element, joint: Joint | None) -> None:
    """Write damping and Coulomb friction of a joint."""
    friction = 0.0 if joint is None or joint.friction is None else value(joint.friction.coulomb)
    damping = 0.0 if joint is None else value(joint.damping)
    if damping != 0.0 or friction != 0.0:
        SubElement(element, "dynamics", damping=numbers([damping]), friction=numbers([friction]))


def _bounds(joint: Joint | None) -> dict[str, float]:
    lower, upper = (None, None) if joint is None else (joint.lower, joint.upper)
    return {"lower": -NO_LIMIT if lower is None else lower, "upper": NO_LIMIT if upper is None else upper}


def _fill(link: Element, body: Body, shift: Array, thickness: float) -> None:
    """Write inertia and shapes of a body to a link. The origin of the link's frame is at `shift`, m, in the body's
    frame.
    """
    if not is_massless(body):
        inertial = SubElement(link, "inertial")
        _origin(inertial, np.array(body.center_of_mass) - shift, np.eye(3))
        SubElement(inertial, "mass", value=numbers([mass_of(body)]))
        tensor = tensor_of(body)
        moments = {f"i{'xyz'[i]}{'xyz'[j]}": numbers([tensor[i, j]]) for i in range(3) for j in range(i, 3)}
        SubElement(inertial, "inertia", moments)
    for shape in body.shapes:
        for p, R, geometry in _geometries(shape, thickness):
            visual = SubElement(link, "visual")
            SubElement(visual, "origin", xyz=numbers(p - shift), rpy=numbers(short_rpy(R)))
            SubElement(visual, "geometry").append(geometry)
            rgba = rgba_of(shape.color)
            if rgba is not None:
                material = SubElement(visual, "material", name=shape.color)
                SubElement(material, "color", rgba=rgba)


def _geometries(shape: Shape, thickness: float) -> Iterator[tuple[Array, Array, Element]]:
    """Yield (position, rotation, geometry element) in the body's frame; a line becomes one cylinder per segment."""
    shape = boxed(shape)
    p, R = np.array(shape.position, dtype=float), rotation_of(shape.quaternion)
    if shape.kind == "box":
        yield p, R, Element("box", size=numbers(shape.size))
    elif shape.kind == "sphere":
        yield p, R, Element("sphere", radius=numbers(shape.size[:1]))
    elif shape.kind == "cylinder":
        yield p, R, Element("cylinder", radius=numbers(shape.size[:1]), length=numbers(shape.size[1:2]))
    elif shape.kind == "line":
        for start, end in pieces_of(shape):
            length = float(np.linalg.norm(end - start))
            rod = Element("cylinder", radius=numbers([thickness]), length=numbers([length]))
            yield (start + end) / 2, rotation_to((end - start) / length), rod
