"""Import of URDF: links become bodies and joints become joints, with the names in the file.

The frame of a body is the frame of its link. Fixed joints are kept; `sim_core.derivation` adds the inertia of a body on
a fixed joint to the body that carries it, without rounding. The root link is fixed to the ground or free. A joint of
one coordinate gets an actuator with the joint's name, unless its effort limit is 0 or it mimics another joint.

An element that a Mechanism cannot represent causes an error if it affects the motion, otherwise a warning. The error
and the warning name the line in the file.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from robots.importing.collisions import LinkCollisions, collisions_of
from robots.importing.feet import AS_BY_DEFAULT, Contacts, Touch, with_contacts
from robots.importing.hulls import Hulls
from robots.importing.inertials import NOTHING, check_negative, inertial_of, origin_of
from robots.importing.meshes import Meshes
from robots.importing.mimics import check_limits, mimics_of, satisfied
from robots.importing.notes import Notes
from robots.importing.planar_chains import joined
from robots.importing.plausible import TURNS, note_units
from robots.importing.repairs import check_masses, repairs_of, with_smallest_masses
from robots.importing.rotations import rows, turned_axis, vector
from robots.importing.trees import NO_LIMIT, Edge, edges_of, in_tree_order, named, root_of
from robots.importing.unread import note_unread
from robots.importing.visuals import Visuals
from robots.importing.xml_reader import Element, Errors, read_xml
from robots.smoothing import with_bristles, with_resolved_friction
from robots.stops import with_stops
from sim_core.errors import InvalidRequest
from sim_core.mechanism import GROUND, ORIGIN, Actuator, Body, Joint, JointFriction, JointSpring, Mechanism, X
from sim_core.mechanism.joints import JointKind
from sim_core.mechanism.quantities import value_of
from sim_core.spatial import perpendicular_axes
from sim_core.support.suggestion import did_you_mean

Friction = Literal["bristles", "regularized", "ignore"]
Mimicking = Literal["coupled", "free"]
Base = Literal["fixed", "free"]
Limits = Literal["compliant", "none"]
Drawing = Literal["drawn", "boxes"]

UNIT = 1e-6  # difference of an axis's length from 1 that rounding in the file may cause
KINDS: dict[str, JointKind] = {
    "revolute": "revolute",
    "continuous": "revolute",
    "prismatic": "prismatic",
    "planar": "planar",
    "floating": "free",
    "fixed": "fixed",
}


def read_urdf(
    path: Path,
    owner: str,
    friction: Friction = "bristles",
    mimic: Mimicking = "coupled",
    base: Base = "fixed",
    limits: Limits = "compliant",
    meshes: Drawing = "drawn",
    repair: str = "",
    contacts: Contacts = "none",
    touch: Touch = AS_BY_DEFAULT,
    start: Mapping[str, float] | None = None,
) -> Mechanism:
    """The mechanism of a URDF file, in joint coordinates, at rest. Each joint is at the position nearest to 0 within
    its limits.

    owner     beginning of every error message and warning, such as "robot 'panda.urdf'"
    friction  "bristles": joints have the Coulomb friction of the file, with bristles, on which a loaded joint sticks
              (robots.smoothing); "regularized": this friction is smooth near rest, where a loaded joint creeps;
              "ignore": Coulomb friction is left out, with a warning
    mimic     "coupled": a joint that mimics another joint follows it, by a JointRelation; "free": such a joint moves
              freely, with a warning
    base      "fixed": the root link is fixed to the ground; "free": a free joint `ground_to_ROOT` moves the root link
    limits    "compliant": compliant stops at the joints' limits, see robots.stops; "none": the joints have no stops
    meshes    "drawn": meshes are read for drawings; "boxes": a box with the inertia of the link replaces its meshes
    repair    names from `repairs.REPAIRS`, separated by spaces: "massless": links that move without mass get a small
              one; "inertia": the nearest consistent inertia replaces one that no body has; both with a warning
    contacts  "none": <collision> is not read; "ground", "all": see robots.importing.feet
    touch     friction coefficient of the contacts, and largest number of points of a mesh's hull
    start     {pattern of joint names: position at the start, rad or m} instead of the position nearest to 0
    Raises InvalidMechanism with a one-line message that names the line of the file; warns by DescriptionWarning.
    """
    folder = path.parent if meshes == "drawn" else None
    reader = Reader(read_xml(path, owner), friction, mimic, base, limits, folder, repairs_of(path, repair))
    hulls = None if contacts == "none" else Hulls(path.parent, reader.notes, touch.hull_points)
    mechanism = reader.mechanism(path.stem, hulls, start or {})
    mechanism = with_bristles(mechanism, owner) if friction == "bristles" else with_resolved_friction(mechanism, owner)
    mechanism = with_stops(mechanism) if limits == "compliant" else mechanism
    if contacts != "none":
        mechanism = with_contacts(mechanism, reader.collisions, contacts, touch.friction, reader.notes)
    reader.notes.warn()
    return mechanism


class Reader:
    """Reads the elements of one URDF file; elements that are ignored are collected in `notes`, errors in `errors`.

    folder   folder of the file, where its meshes are searched for; None if meshes are not read
    repairs  names from `repairs.REPAIRS`
    """

    def __init__(
        self,
        robot: Element,
        friction: Friction,
        mimic: Mimicking,
        base: Base,
        limits: Limits,
        folder: Path | None,
        repairs: frozenset[str],
    ) -> None:
        self._robot, self._friction, self._mimic, self._base, self._folder = robot, friction, mimic, base, folder
        self._limited, self._repairs = limits != "none", repairs
        self.notes, self.errors = Notes(robot.owner), Errors(robot.owner)
        self.collisions = dict[str, LinkCollisions]()
        if robot.tag != "robot":
            robot.fail("this is not a URDF file; its root element must be <robot>")
        for element in robot.walk():
            if element.tag.startswith("xacro:"):
                element.fail("this file is a xacro macro file; expand it first: xacro FILE > robot.urdf")

    def mechanism(self, name: str, hulls: Hulls | None, start: Mapping[str, float]) -> Mechanism:
        """Read the mechanism. Raises InvalidMechanism that names all errors of the file.

        name   name of the mechanism if the <robot> element gives no name
        hulls  reader of the meshes of collision shapes; None if these are not read
        start  {pattern of joint names: position at the start, rad or m}
        """
        links = named(self._robot.all("link"), "link", self.errors)
        joints = named(self._robot.all("joint"), "joint", self.errors)
        if not self._robot.all("link"):
            self._robot.fail("the file has no <link>; add one")
        note_unread(self._robot, self.notes, self.errors, () if hulls is None else ("collision",))
        root, edges, links = self._tree(joints, links)
        meshes = None if self._folder is None else Meshes(self._folder, self.notes)
        visuals = Visuals(self._robot, self.notes, meshes)
        bodies = [self._body(link, links[link], visuals) for link in (root, *(edge.child for edge in edges))]
        read = [self._joint(edge) for edge in edges]
        if hulls is not None:
            self._collide(links, hulls)
        actuators = [
            actuator for edge, joint in zip(edges, read, strict=True) for actuator in self._driven(edge, joint)
        ]
        mimics = mimics_of(edges, self._mimic == "free", self.notes, self.errors)
        elements = {edge.name: edge.element for edge in edges}
        if self._limited:
            check_limits(mimics, {joint.name: joint for joint in read}, elements, self.notes, self.errors)
        self.errors.check()
        ground = self._fixed_to_ground(bodies, read, root, links)
        starts = {name: at for joint in read for name, at in start_of(joint).items()}
        positions = satisfied(starts | chosen_starts(read, start, self._robot.owner), mimics)
        inertials = {name: link.optional("inertial") or link for name, link in links.items()}
        note_units(bodies, read, inertials, elements, self.notes)
        mechanism = Mechanism(
            name=self._robot.attributes.get("name") or name,
            coordinates="joint",
            bodies=tuple(bodies),
            joints=tuple(read),
            constraints=tuple(mimic.relation for mimic in mimics),
            actuators=tuple(actuators),
            initial_q=tuple(positions.values()),
            initial_v=(0.0,) * len(positions),
            ground=() if ground is None else ground.shapes,
        )
        check_negative(mechanism, links, self.notes, self.errors)
        if "massless" in self._repairs:
            mechanism = with_smallest_masses(mechanism, links, self.notes)
        else:
            check_masses(mechanism, links, elements, self.notes, self.errors)
        self.errors.check()
        return mechanism

    def _collide(self, links: dict[str, Element], hulls: Hulls) -> None:
        """Read the collision shapes of the links."""
        for name, link in links.items():
            with self.errors.collected():
                self.collisions[name] = collisions_of(link, hulls, self.notes)

    def _tree(
        self, joints: dict[str, Element], links: dict[str, Element]
    ) -> tuple[str, list[Edge], dict[str, Element]]:
        """(root link, joints with parents first, {name: link}) of the file; raises InvalidMechanism if there is no
        tree.
        """
        edges = edges_of(joints, links, self.notes, self.errors)
        if len(edges) == len(self._robot.all("joint")) and len(links) >= len(self._robot.all("link")):
            with self.errors.collected():
                root = root_of(links, edges)
                edges = joined(in_tree_order(root, edges), links, self.notes)
        if self.errors.lines:  # the errors in the numbers of links and joints are found all the same
            for name, link in links.items():
                self._body(name, link, None)
            for joint in self._robot.all("joint"):
                with self.errors.collected():
                    edge = Edge(joint.name(), "", "", joint)
                    self._driven(edge, self._joint(edge))
            self.errors.check()
        if GROUND in links and root != GROUND:  # the world has this name
            renamed = _free_name(f"{GROUND}_link", links)
            self.notes.add(links[GROUND], f"the body is named {renamed!r}, as {GROUND!r} is the name of the world")
            links = {renamed if link == GROUND else link: element for link, element in links.items()}
            edges = [edge.with_link(GROUND, renamed) for edge in edges]
        return root, edges, links

    def _fixed_to_ground(
        self, bodies: list[Body], read: list[Joint], root: str, links: dict[str, Element]
    ) -> Body | None:
        """Insert the joint that carries the root link. If the root link is the ground, remove it from `bodies` and
        return it.
        """
        ground = bodies.pop(0) if root == GROUND else None
        if ground is None:
            fixing = _free_name(f"{GROUND}_to_{root}", [joint.name for joint in read])
            read.insert(0, Joint(name=fixing, kind=self._base, parent=GROUND, child=root))
        elif self._base == "free":
            links[GROUND].fail(
                "base is 'free', but the root link is the ground, because it is named 'ground'; rename the link"
            )
        elif value_of(ground.mass) > 0.0:
            self.notes.add(links[GROUND], "the root link's mass has no effect: it is the ground")
        if all(joint.is_fixed for joint in read):
            self._robot.fail(
                "no joint moves and the root link is fixed to the ground, so nothing can move; pass base=free to let "
                "the root link move"
            )
        massive = "massless" in self._repairs or sum(value_of(body.mass) for body in bodies) > 0.0
        if read[0].is_free and ground is None and not massive:
            self._robot.fail(
                "base is 'free', but no link has a mass; give the links masses, or pass repair=massless or base=fixed"
            )
        return ground

    def _body(self, name: str, link: Element, visuals: Visuals | None) -> Body:
        mass, center, inertia = 0.0, ORIGIN, NOTHING
        with self.errors.collected():
            mass, center, inertia = inertial_of(link, self.notes, self.errors, "inertia" in self._repairs)
        shapes = () if visuals is None else visuals.shapes_of(link, (mass, center, inertia))
        return Body(name=name, mass=mass, inertia=inertia, center_of_mass=center, shapes=shapes)

    def _joint(self, edge: Edge) -> Joint:
        element = edge.element
        kind, p, R = "continuous", np.zeros(3), np.eye(3)  # of an unknown type the other errors are found, too
        with self.errors.collected():
            given = element.text("type")
            if given not in KINDS:
                element.fail(f"type is {given!r}; it must be one of {', '.join(KINDS)}{did_you_mean(given, KINDS)}")
            kind = given
        with self.errors.collected():
            p, R = origin_of(edge.slide or element)
        common: dict[str, Any] = {
            "name": edge.name,
            "parent": edge.parent,
            "child": edge.child,
            "parent_point": vector(p),
            "rotation": rows(R),
        }
        if KINDS[kind] == "fixed":
            return Joint(kind="fixed", **common)
        damping, friction, spring, axis = 0.0, None, None, X
        limits: tuple[float | None, float | None] = None, None
        if kind == "floating":
            self._note_directions(element, np.eye(3), R)
            with self.errors.collected():
                damping, friction = self._floating_dynamics(element)
            return Joint(kind=KINDS[kind], damping=damping, friction=friction, **common)
        with self.errors.collected():
            axis = turned_axis(R, self._axis(element))
        if kind == "planar":
            with self.errors.collected():
                self._note_planar(element)
            self._note_directions(element, np.transpose(perpendicular_axes(axis)), R[:, :2])
        with self.errors.collected():
            limits = self._limits(element, kind)
        with self.errors.collected():
            damping, friction, spring = self._dynamics(element)
        return Joint(
            kind=KINDS[kind] if edge.slide is None else "planar",
            axis=axis,
            damping=damping,
            friction=friction,
            spring=spring,
            lower=limits[0],
            upper=limits[1],
            **common,
        )

    def _note_planar(self, joint: Element) -> None:
        """Note which attributes of a planar joint are not read, or concern its rotation alone."""
        for tag, name, what in (
            ("limit", "effort", "is not read: a planar joint has no actuator"),
            ("limit", "velocity", "is not read: a planar joint has no actuator"),
            ("dynamics", "damping", "acts on the rotation alone, not on x and y"),
            ("dynamics", "friction", "acts on the rotation alone, not on x and y"),
        ):
            element = self._dynamics_of(joint) if tag == "dynamics" else joint.optional(tag)
            if element is not None and element.number(name, 0.0) != 0.0:
                self.notes.add(element, f"{name} of a planar joint {what}")

    def _note_directions(self, joint: Element, found: np.ndarray, own: np.ndarray) -> None:
        """Note if x and y of a planar joint, or x, y and z of a floating one, are no axes of the joint's frame.

        found  (3, n) directions in which the joint moves, in the parent's frame
        own    (3, n) first axes of the joint's frame, in the parent's frame
        """
        if np.abs(found - own).max() > UNIT:
            along = ["(" + ", ".join(f"{part:.3g}" for part in each) + ")" for each in np.transpose(found)]
            what = f"{('x and y', 'x, y and z')[len(along) - 2]} of this {joint.text('type')} joint"
            where = f"{', '.join(along[:-1])} and {along[-1]} of the parent"
            self.notes.add(joint, f"{what} lie along {where}, not of its own frame")

    def _axis(self, joint: Element) -> tuple[float, ...]:
        """Axis (3,) of a joint in the child's frame, of any length; the x axis if the joint has no <axis>."""
        element = joint.optional("axis")
        if element is None:
            self.notes.add(joint, "it has no <axis>, and turns about or slides along x, as URDF says")
            return X
        element.label = f"{joint.label}: <axis>"
        axis = element.numbers("xyz", 3)
        length = math.hypot(*axis)
        if length == 0.0:
            element.fail("xyz is 0 0 0; give a vector that is not zero")
        if abs(length - 1.0) > UNIT:
            self.notes.add(element, f"the axis has length {length:g}, and is read as a direction of length 1")
        return axis

    def _limits(self, joint: Element, kind: str) -> tuple[float | None, float | None]:
        limit = joint.optional("limit")
        if kind not in ("revolute", "prismatic"):
            if limit is not None and limit.number("lower", 0.0) < limit.number("upper", 0.0):
                self.notes.add(limit, f"lower and upper of a {kind} joint are not read: it moves without limits")
            return None, None
        if limit is None and not self._limited:
            self.notes.add(joint, "it has no <limit>: effort and velocity have no limit either")
            return None, None
        if limit is None:
            joint.fail(
                f"a {kind} joint must have a <limit>; add it, use type continuous to rotate without limits, or pass "
                "limits=none"
            )
        limit.label = f"{joint.label}: <limit>"
        lower, upper = limit.number("lower", 0.0), limit.number("upper", 0.0)
        if lower > upper and not self._limited:
            self.notes.add(limit, f"lower is {lower:g} and upper is {upper:g}, and neither is read")
            return None, None
        if lower > upper:
            limit.fail(
                f"lower is {lower:g} and upper is {upper:g}; lower must not exceed upper; exchange them, or "
                "pass limits=none"
            )
        if lower == upper and self._limited:
            self.notes.add(
                limit,
                f"lower and upper are both {lower:g}: the limits leave the joint no range; limits=none lets it move",
            )
        if kind == "revolute" and TURNS * 2.0 * math.pi < upper - lower < NO_LIMIT:
            self.notes.add(
                limit,
                f"lower and upper are {lower:g} and {upper:g}, more than {TURNS} turns apart: URDF has angles in rad",
            )
        for name in ("effort", "velocity"):
            if name not in limit.attributes:
                self.notes.add(limit, f"it has no {name}: the joint's {name} has no limit")
        return None if lower <= -NO_LIMIT else lower, None if upper >= NO_LIMIT else upper

    def _dynamics_of(self, joint: Element) -> Element | None:
        """The element <dynamics> of a joint, or <joint_properties>, its name in older files; None without both."""
        dynamics, older = joint.optional("dynamics"), joint.optional("joint_properties")
        if older is not None and dynamics is not None:
            older.fail(f"the joint has <dynamics> at line {dynamics.line}, too; remove <joint_properties>")
        if older is not None:
            self.notes.add(older, "<joint_properties> is read as <dynamics>")
        found = dynamics if older is None else older
        if found is not None:
            found.label = f"{joint.label}: <{found.tag}>"
        return found

    def _dynamics(self, joint: Element) -> tuple[float, JointFriction | None, JointSpring | None]:
        """(viscous damping, dry friction, spring) of a joint; the friction or spring that it does not have is None."""
        dynamics = self._dynamics_of(joint)
        if dynamics is None:
            return 0.0, None, None
        names = ("damping", "friction", "spring_stiffness")
        damping, friction, stiffness = values = [dynamics.number(name, 0.0) for name in names]
        for name, value in zip(names, values, strict=True):
            if value < 0.0:
                dynamics.fail(f"{name} is {value:g}; it must not be negative")
        if stiffness > 0.0 and joint.attributes.get("type") in ("planar", "floating"):
            dynamics.fail(f"spring_stiffness of a {joint.attributes['type']} joint is not supported; remove it")
        if friction > 0.0 and self._friction == "ignore":
            self.notes.add(dynamics, "Coulomb friction is left out, as friction=ignore asks")
        rest = dynamics.number("spring_reference", 0.0)
        return (
            damping,
            JointFriction(coulomb=friction) if friction > 0.0 and self._friction != "ignore" else None,
            JointSpring(stiffness=stiffness, rest=rest) if stiffness > 0.0 else None,
        )

    def _floating_dynamics(self, joint: Element) -> tuple[float, JointFriction | None]:
        """(viscous damping, dry friction) of a floating joint.

        Limits of the joint are not read, with a warning.
        """
        damping, friction, _ = self._dynamics(joint)
        dynamics = self._dynamics_of(joint) or joint
        if damping != 0.0:
            units = "N s/m for its translation and in N m s/rad for its rotation"
            self.notes.add(dynamics, f"damping of a floating joint is read in {units}")
        if friction is not None:
            bristles = "has no bristles: a loaded joint creeps; it " * (self._friction == "bristles")
            self.notes.add(
                dynamics,
                f"friction of a floating joint {bristles}is read in N along x, y and z, and in N m about them",
            )
        if joint.optional("limit") is not None:
            self.notes.add(joint.child("limit"), "<limit> of a floating joint is not read: URDF has none")
        return damping, friction

    def _driven(self, edge: Edge, joint: Joint) -> list[Actuator]:
        """List with the actuator of a joint.

        The list is empty if the joint has an effort limit of 0, has several coordinates, or mimics another joint.
        """
        turns = joint.coordinates == (joint.name,) or edge.slide is not None
        if not turns or edge.element.optional("mimic") is not None:
            return []
        effort = velocity = NO_LIMIT
        limit = None
        with self.errors.collected():
            limit = edge.element.optional("limit")
            effort = NO_LIMIT if limit is None else limit.number("effort", NO_LIMIT)
            velocity = NO_LIMIT if limit is None else limit.number("velocity", NO_LIMIT)
            for name, value in (("effort", effort), ("velocity", velocity)):
                if limit is not None and value < 0.0:
                    limit.fail(f"{name} is {value:g}; it must not be negative")
        if limit is not None and effort == 0.0:
            self.notes.add(limit, "the effort limit is 0: the joint has no actuator")
            return []
        if limit is not None and velocity == 0.0:
            self.notes.add(limit, "the velocity limit is 0 and is not read: the actuator has none")
        return [
            Actuator(
                name=joint.name,
                joint=joint.name,
                effort_limit=None if effort >= NO_LIMIT else effort,
                velocity_limit=None if velocity >= NO_LIMIT or velocity == 0.0 else velocity,
            )
        ]


def start_of(joint: Joint) -> dict[str, float]:
    """{coordinate: start, rad or m} of a joint; the start nearest to 0 within the joint's limits.

    The limits of a planar joint concern its angle.
    """
    above = 0.0 if joint.lower is None else max(0.0, joint.lower)
    nearest = above if joint.upper is None else min(above, joint.upper)
    return {name: nearest if name in (joint.name, f"{joint.name}.theta") else 0.0 for name in joint.coordinates}


def chosen_starts(joints: Sequence[Joint], start: Mapping[str, float], owner: str) -> dict[str, float]:
    """{joint: position} of the joints of one coordinate whose names match the patterns of `start`, the last one wins.

    Raises InvalidRequest for a pattern that matches no such joint, and for a position beyond the joint's limits.
    """
    found, moving = dict[str, float](), {joint.name: joint for joint in joints if joint.coordinates == (joint.name,)}
    for pattern, at in start.items():
        names = fnmatch.filter(moving, pattern)
        if not names:
            raise InvalidRequest(f"{owner}: start: no joint is named {pattern!r}; its joints are {', '.join(moving)}")
        for name in names:
            lower, upper = moving[name].lower, moving[name].upper
            if (lower is not None and at < lower) or (upper is not None and at > upper):
                raise InvalidRequest(
                    f"{owner}: start: {name} is {at:g}; it must be within its limits, {lower:g} to {upper:g}"
                )
            found[name] = at
    return found


def _free_name(name: str, used: Collection[str]) -> str:
    while name in used:
        name += "_"
    return name
