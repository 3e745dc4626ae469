"""Import of MJCF, MuJoCo's model format: bodies, joints, springs, friction, geoms, contacts, motors, keyframes.

A body with several joints becomes a chain of bodies: a massless body `BODY.JOINT` for every joint except the last.
Joint positions are those of MuJoCo: at the joint position `ref`, a body has the pose that the file gives. Velocities
are also those of MuJoCo: a free joint's linear velocity is along the world's axes, and the angular velocity of a free
or ball joint is along the body's axes.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from robots.importing.inertials import repaired_inertia
from robots.importing.mjcf.actuators import Actuators
from robots.importing.mjcf.contacts import Contacts, Surface
from robots.importing.mjcf.document import ORIENTATIONS, Angles, Defaults, read_document
from robots.importing.mjcf.equalities import WORLD, WORLD_NAMES, Equalities, Pose, Site, names_in
from robots.importing.mjcf.exact_numbers import ExactNumbers
from robots.importing.mjcf.geoms import Geom, Lump, entries_of, geom_of, inertia_of, pose_of, together
from robots.importing.mjcf.joints import (
    axial_joint,
    ball_joint,
    check_free,
    check_order,
    free_joint,
    kind_of,
    largest_angle,
    limits_of,
    not_negative,
)
from robots.importing.mjcf.meshes import MeshAssets
from robots.importing.mjcf.names import check_names
from robots.importing.mjcf.unread import IGNORABLE, check_body, check_joint, check_root, is_disabled, note_attributes
from robots.importing.notes import Notes
from robots.importing.plausible import TURNS, note_units
from robots.importing.repairs import repairs_of, with_smallest_masses
from robots.importing.rotations import normalized, rows, vector
from robots.importing.trees import named
from robots.importing.visuals import hex_color
from robots.importing.xml_reader import Element, Errors
from robots.smoothing import with_bristles, with_resolved_friction
from robots.stops import with_stops
from sim_core.mechanism import GROUND, ORIGIN, Body, Joint, JointFriction, Mechanism, Shape
from sim_core.mechanism.joints import JointKind, Quaternion
from sim_core.support.suggestion import did_you_mean

Friction = Literal["bristles", "regularized", "ignore"]
Contact = Literal["compliant", "ground", "ignore"]
Limits = Literal["compliant", "none"]
Drawing = Literal["drawn", "boxes"]
Array = np.ndarray[Any, np.dtype[np.float64]]
KINDS: dict[str, JointKind] = {"hinge": "revolute", "slide": "prismatic", "ball": "spherical", "free": "free"}
START = "start"  # keyframe that gives the start unless another one is asked for; the export writes it
GROUPS = (0.0, 5.0)  # groups of geoms that have inertia
VISIBLE_GROUP = 2.0  # last group of geoms that MuJoCo's viewer shows by default


def read_mjcf(
    path: Path,
    owner: str,
    friction: Friction = "bristles",
    ignore: str = "",
    keyframe: str = "",
    contacts: Contact = "compliant",
    limits: Limits = "compliant",
    meshes: Drawing = "drawn",
    repair: str = "",
) -> Mechanism:
    """The mechanism of an MJCF file, in joint coordinates, at the file's positions or at a keyframe.

    owner     beginning of every error message and warning, such as "robot 'hopper.xml'"
    friction  "bristles": joints have the Coulomb friction of the file (frictionloss), with bristles, on which a loaded
              joint sticks (robots.smoothing); "regularized": this friction is smooth near rest, where a loaded joint
              creeps; "ignore": Coulomb friction is left out
    ignore    names from IGNORABLE, separated by spaces: parts that are left out with a warning instead of refused
    keyframe  name of the keyframe that gives the start; "" selects the keyframe named START or, if the file has no
              keyframe of this name, the file's positions
    contacts  "compliant": geoms touch as described in the module `contacts`; "ground": geoms touch only the ground,
              with a warning; "ignore": geoms do not touch, with a warning
    limits    "compliant": compliant stops at the joints' limits, see robots.stops; "none": the joints have no stops
    meshes    "drawn": meshes are read for drawings; "boxes": meshes are left out of drawings
    repair    names from `repairs.REPAIRS`, as in URDF
    Raises InvalidMechanism with a one-line message that names the line of the file; warns by DescriptionWarning.
    """
    folder = path.parent if meshes == "drawn" else None
    reader = Reader(
        read_document(path, owner), friction, frozenset(ignore.split()), contacts, folder, repairs_of(path, repair)
    )
    mechanism = reader.mechanism(path.stem, keyframe)
    mechanism = with_bristles(mechanism, owner) if friction == "bristles" else with_resolved_friction(mechanism, owner)
    return with_stops(mechanism) if limits == "compliant" else mechanism


class Reader:
    """Reads one MJCF file; bodies and joints are collected depth first, in MuJoCo's order.

    folder   folder of the file, where its meshes are searched for; None if meshes are not drawn
    repairs  names from `repairs.REPAIRS`
    """

    def __init__(
        self,
        root: Element,
        friction: Friction,
        ignored: frozenset[str],
        contacts: Contact,
        folder: Path | None,
        repairs: frozenset[str],
    ) -> None:
        self._root, self._friction, self._contacts, self._repairs = root, friction, contacts, repairs
        self.notes, self.errors = Notes(root.owner), Errors(root.owner)
        for name in sorted(ignored - {*IGNORABLE}):
            root.fail(f"ignore contains {name!r}; it may contain {', '.join(IGNORABLE)}")
        check_names(root, self.notes, self.errors)
        with self.errors.collected():
            self._defaults = Defaults(root)
        if not hasattr(self, "_defaults"):
            self.errors.check()
        self._reads_equalities = "equality" not in ignored and not is_disabled(root, "equality")
        read = root if self._reads_equalities else replace(root, children=[])
        with self.errors.collected():
            check_root(root, self._defaults, ignored, names_in(read, "tendon1", "tendon2"), self.notes)
        self._site_names = names_in(read, "site1", "site2")
        self._sites: dict[str, Site] = {}
        self._compiler = _merged(root, "compiler")
        where = (root.all("compiler") or [root])[0]
        self._angles = Angles(self._compiler, where)
        self._colors = {
            each.attributes["name"]: _rgba_of(each)
            for asset in root.all("asset")
            for each in asset.all("material")
            if "name" in each.attributes
        }
        self._meshes = None if folder is None else MeshAssets(root, self._defaults, self._compiler, folder, self.notes)
        self._bodies: list[Body] = []
        self._joints: list[Joint] = []
        self._refs: list[tuple[float, ...]] = []  # start of each moving joint's coordinates
        self._names: set[str] = {GROUND}
        self._lines: dict[str, Element] = {}
        self._poses: dict[str, Pose] = dict(WORLD)  # of the file's bodies, with all joints at `ref`
        self._in_mechanism: dict[str, str] = dict(WORLD_NAMES)  # {body in the file: body}
        self._joint_elements: dict[str, Element] = {}
        self._surfaces: list[Surface] = []
        self._numbers = ExactNumbers(root, self.notes)
        # {body: the body whose joints move it}, and {such a body: the one that carries its joints}
        self._weld, self._weld_parent = {GROUND: GROUND}, {GROUND: GROUND}

    def mechanism(self, name: str, keyframe: str) -> Mechanism:
        """Read the mechanism. Issues warnings for elements that were not read.

        name      name of the mechanism if the file gives no name
        keyframe  name of the keyframe that gives the start; "" selects the keyframe named START or, if the file has no
                  keyframe of this name, the file's positions
        """
        ground: list[Shape] = []
        for world in self._root.all("worldbody"):
            check_body(world, self._site_names, self.notes)
            for each in world.children:
                if each.tag in ("joint", "freejoint", "inertial"):
                    each.fail(f"<{each.tag}> is in <worldbody>, but the world does not move; put it in a <body>")
            self._read_sites(world, GROUND, "")
            geoms = self._geoms(world, "")
            self._add_surfaces(GROUND, geoms)
            ground += self._drawn(geoms)
            for element in world.all("body"):
                with self.errors.collected():
                    self._read_body(element, GROUND, "", WORLD[""])
        self.errors.check()
        self._scale()
        actuators = Actuators(self._root, self._defaults, self._compiler, self._joint_elements, self.notes)
        self._joints = actuators.carried_by(self._joints)
        if "massless" not in self._repairs:
            self._check_massless()
        if not self._refs:
            self._root.fail("no body has a joint, so nothing can move; add a joint")
        q, v = self._start(keyframe)
        constraints = self._equalities().constraints(self.notes) if self._reads_equalities else ()
        mechanism = Mechanism(
            name=self._root.attributes.get("model") or name,
            coordinates="joint",
            bodies=tuple(self._bodies),
            joints=tuple(self._joints),
            constraints=constraints,
            actuators=actuators.read(self._joints),
            gravity=self._gravity(),
            initial_q=q,
            initial_v=v,
            ground=tuple(ground),
        )
        if "massless" in self._repairs:
            mechanism = with_smallest_masses(mechanism, self._lines, self.notes)
        if self._contacts != "ignore":
            names, grounded = self._in_mechanism, self._contacts == "ground"
            contacts = Contacts(self._root, self._defaults, self._surfaces, names, self.notes, grounded)
            mechanism = contacts.added_to(mechanism, self._reference)
        elif self._surfaces:
            self.notes.add(self._root, "contacts are left out, as contacts=ignore asks: geoms do not touch one another")
        self._numbers.note_unread()
        note_units(self._bodies, self._joints, self._lines, self._joint_elements, self.notes)
        self.notes.warn()
        return mechanism

    def _add_surfaces(self, body: str, geoms: list[Geom]) -> None:
        """Collect the geoms of a body, for the contacts. Raises InvalidMechanism for a name that occurs twice."""
        for number, geom in enumerate(geoms, start=1):
            name = geom.element.attributes.get("name") or f"{body}.geom{number}"
            if name in [surface.name for surface in self._surfaces]:
                geom.element.fail(f"two geoms are named {name!r}; names must be unique")
            weld = self._weld[body]
            self._surfaces.append(Surface(name, geom, body, weld, self._weld_parent[weld]))

    def _equalities(self) -> Equalities:
        moving = [joint for joint in self._joints if joint.coordinates]
        positions = {
            joint.name: ref[0] for joint, ref in zip(moving, self._refs, strict=True) if not joint.orientation_names
        }
        return Equalities(
            self._root, self._defaults, self._numbers, self._sites, moving, self._poses, self._in_mechanism, positions
        )

    def _gravity(self) -> tuple[float, float, float]:
        gravity = (0.0, 0.0, -9.81)
        for option in self._root.all("option"):
            x, y, z = option.numbers("gravity", 3, gravity)
            gravity = (x, y, z)
        return (0.0, 0.0, 0.0) if is_disabled(self._root, "gravity") else gravity

    def _read_body(self, element: Element, parent: str, inherited: str, carried: Pose) -> None:
        """Append a body, its joints and, recursively, its child bodies.

        inherited  default class given by an enclosing body
        carried    pose of the parent body in the world with all joints at `ref`
        """
        name = self._name(element.attributes.get("name", ""), f"{parent}.body", element, "body")
        with self.errors.collected():
            check_body(element, self._site_names, self.notes)
        inherited = self._defaults.childclass(element, inherited)
        with self.errors.collected():
            self._read_sites(element, name, inherited)
        geoms, lump = self._geoms(element, inherited), together([])
        with self.errors.collected():
            lump = self._lump(element, geoms)
        p, R = np.array(element.numbers("pos", 3, ORIGIN)), self._angles.rotation_of(element)
        pose = carried[0] + carried[1] @ p, carried[1] @ R
        if given := element.attributes.get("name", ""):
            self._poses[given], self._in_mechanism[given] = pose, name
        joints = [self._defaults.applied(child, inherited) for child in element.all("joint")]
        joints = [*element.all("freejoint"), *joints]
        check_free(joints, name, parent, self._compiler.get("alignfree") == "true")
        check_order(joints, name)
        carrier = parent
        for index, joint in enumerate(joints):
            label = self._joint_name(joint, name, index)
            child = name if index == len(joints) - 1 else self._name(f"{name}.{label}", name, element, "body")
            bare = Joint(name=label, parent=carrier, child=child)
            with self.errors.collected():
                self._read_joint(joint, bare, p, R, self._angles.quaternion_of(element))
            if child != name:
                self._bodies.append(Body(name=child, mass=0.0, inertia=(0.0,) * 6))
            carrier, p, R = child, np.zeros(3), np.eye(3)
        if not joints:
            fixing = Joint(name=f"{name}.fixed", kind="fixed", parent=parent, child=name)
            self._joints.append(self._numbers.joint(replace(fixing, parent_point=vector(p), rotation=rows(R))))
        shapes = self._drawn(geoms)
        self._lines[name] = element
        self._weld[name] = name if joints else self._weld[parent]
        if joints:
            self._weld_parent[name] = self._weld[parent]
        self._add_surfaces(name, geoms)
        body = Body(name=name, mass=lump.mass, inertia=entries_of(lump.inertia), center_of_mass=vector(lump.center))
        self._bodies.append(self._numbers.body(replace(body, shapes=shapes)))
        for child_element in element.all("body"):
            with self.errors.collected():
                self._read_body(child_element, name, inherited, pose)

    def _read_sites(self, element: Element, body: str, inherited: str) -> None:
        """Collect the sites of a body that equality constraints name."""
        for child in element.all("site"):
            name = child.attributes.get("name", "")
            if name in self._site_names:
                child.label = f"site {name!r}"
                if name in self._sites:
                    child.fail(f"two sites are named {name!r}; names must be unique")
                self._sites[name] = Site(body, *pose_of(self._defaults.applied(child, inherited), self._angles))

    def _name(self, given: str, otherwise: str, element: Element, kind: str) -> str:
        """Unique name of a body: the name `given` in the file, or a name made from `otherwise` if the file gives no
        name.

        kind  kind of the element, for error messages
        Raises InvalidMechanism for a name that occurs twice.
        """
        element.label = f"{kind} {given!r}" if given else f"<{kind}>"
        if given and given in WORLD_NAMES:
            element.fail(f"{given!r} is the name of the world itself; give the body another name")
        if given == GROUND:
            self.notes.add(element, f"the body is named '{GROUND}_body', as {GROUND!r} is the name of the world")
            given = f"{GROUND}_body"
        if given in self._names:
            element.fail(f"two bodies are named {given!r}; names must be unique")
        number = 1
        name = given
        while not name or name in self._names:
            name, number = f"{otherwise}{number}", number + 1
        self._names.add(name)
        return name

    def _joint_name(self, joint: Element, body: str, index: int) -> str:
        name = joint.attributes.get("name") or f"{body}.joint{index + 1}"
        joint.label = f"joint {name!r}"
        if name in [each.name for each in self._joints]:
            joint.fail(f"two joints are named {name!r}; names must be unique")
        return name

    def _read_joint(self, joint: Element, bare: Joint, p: Array, R: Array, quaternion: Quaternion) -> None:
        """Complete one joint from its XML element, and append it to the joints read so far.

        joint       XML element of the joint
        bare        Joint that has only its name and bodies so far
        p, R        pose of the child body in the parent body at the joint position `ref`
        quaternion  rotation R as a quaternion w x y z with the sign in the file; used for a free joint
        """
        kind = kind_of(joint)
        if kind not in KINDS:
            joint.fail(f"type is {kind!r}; it must be one of {', '.join(KINDS)}")
        check_joint(joint, self.notes)
        self._joint_elements[bare.name] = joint
        bare, friction = replace(bare, kind=KINDS[kind]), self._friction_of(joint)
        if kind == "free":
            self._joints.append(free_joint(joint, bare, p, quaternion))
            self._refs.append((*vector(p), 0.0, 0.0, 0.0))
        elif kind == "ball":
            read = replace(ball_joint(joint, bare, p, R), upper=self._largest_angle(joint))
            self._joints.append(self._numbers.joint(read))
            self._refs.append((0.0, 0.0, 0.0))
        else:
            unit = self._angles.unit if kind == "hinge" else 1.0
            lower, upper = (None, None) if self._unlimited else limits_of(joint, unit, self._autolimits)
            if kind == "hinge" and lower is not None and upper is not None and upper - lower > TURNS * 2.0 * math.pi:
                self.notes.add(
                    joint, f"range is {lower:g} to {upper:g} rad, more than {TURNS} turns; <compiler angle> is the unit"
                )
            if kind == "hinge" and lower is not None and upper is not None and self._takes_radians(upper - lower):
                self.notes.add(
                    joint, f'range is {joint.attributes["range"]} degrees; with <compiler angle="radian"> it is in rad'
                )
            read = replace(axial_joint(joint, bare, p, R, unit), friction=friction, lower=lower, upper=upper)
            self._joints.append(self._numbers.joint(read))
            self._refs.append((joint.number("ref", 0.0) * unit,))

    def _takes_radians(self, width: float) -> bool:
        """Whether a range of this width, rad, is as narrow as if rad were given, in a file that gives no unit."""
        return "angle" not in self._compiler and 0.0 < width < math.radians(2.0 * math.pi)

    def _friction_of(self, joint: Element) -> JointFriction | None:
        """Dry friction of a hinge or slide joint; None if it has none, or if the file or the import leaves it out.

        Raises InvalidMechanism for a ball or free joint with dry friction, unless friction is left out.
        """
        loss, kind = not_negative(joint, "frictionloss"), kind_of(joint)
        if is_disabled(self._root, "frictionloss"):
            return None
        if loss > 0.0 and self._friction == "ignore":
            self.notes.add(joint, "frictionloss is left out, as friction=ignore asks")
            return None
        if loss > 0.0 and kind in ("ball", "free"):
            joint.fail(f"frictionloss of a {kind} joint is not supported; remove it, or pass friction=ignore")
        return JointFriction(coulomb=loss) if loss > 0.0 else None

    def _largest_angle(self, ball: Element) -> float | None:
        return None if self._unlimited else largest_angle(ball, self._angles.unit, self._autolimits, self.notes)

    @property
    def _unlimited(self) -> bool:
        return is_disabled(self._root, "limit")

    @property
    def _autolimits(self) -> bool:
        return self._compiler.get("autolimits", "true") == "true"

    def _geoms(self, element: Element, inherited: str) -> list[Geom]:
        found = []
        for child in element.all("geom"):
            child.label = f"geom {child.attributes['name']!r}" if "name" in child.attributes else "<geom>"
            with self.errors.collected():
                found.append(geom_of(self._defaults.applied(child, inherited), self._angles))
        return found

    def _lump(self, element: Element, geoms: list[Geom]) -> Lump:
        """Mass, centre of mass and inertia of a body, from its <inertial> or from its geoms.

        The attribute `inertiafromgeom` of <compiler> determines which: "true" means the geoms, "false" the <inertial>,
        "auto" the <inertial> if there is one, and otherwise the geoms. An <inertial> is used also with "true" if the
        geoms have no mass. A body with neither has no mass.
        """
        inertial, choice = element.optional("inertial"), self._compiler.get("inertiafromgeom", "auto")
        if choice == "true" or (inertial is None and choice != "false"):
            least, most = self._groups()
            whole = together([geom.lump() for geom in geoms if least <= geom.element.number("group", 0.0) <= most])
            if inertial is None or whole.mass > 0.0:
                return whole
        return Lump(0.0, np.zeros(3), np.zeros((3, 3))) if inertial is None else self._inertial(inertial, element.label)

    def _groups(self) -> tuple[float, ...]:
        given = [each for each in self._root.all("compiler") if "inertiagrouprange" in each.attributes]
        return given[-1].numbers("inertiagrouprange", 2) if given else GROUPS

    def _inertial(self, inertial: Element, label: str) -> Lump:
        inertial.label = f"{label}: <inertial>"
        mass, center = inertial.number("mass"), np.array(inertial.numbers("pos", 3))
        if mass < 0.0:
            inertial.fail(f"mass is {mass:g} kg; it must not be negative")
        rivals = [key for key in ("diaginertia", *ORIENTATIONS) if key in inertial.attributes]
        if "fullinertia" in inertial.attributes and rivals:
            inertial.fail(f"fullinertia and {rivals[0]} are both given; give only one")
        tensor = inertia_of(inertial, self._angles)
        low, middle, high = np.linalg.eigvalsh(tensor).tolist()
        printed = f"({low:.4g}, {middle:.4g}, {high:.4g}) kg m2"
        if "inertia" in self._repairs:
            return Lump(mass, center, repaired_inertia(inertial, tensor, self.notes))
        if low < -1e-9 * max(abs(low), abs(high)):
            inertial.fail(f"inertia has principal moments {printed}; none may be negative; pass repair=inertia")
        if high - low - middle > 1e-9 * high:
            if self._compiler.get("balanceinertia", "false") != "true":
                inertial.fail(
                    f"inertia has principal moments {printed}; the largest must not exceed the sum of the others; "
                    "pass repair=inertia"
                )
            tensor = (low + middle + high) / 3.0 * np.eye(3)  # as MuJoCo balances it
        return Lump(mass, center, tensor)

    def _scale(self) -> None:
        """Scale all masses and inertias to the total mass given by `settotalmass` of <compiler>, if there is one."""
        given = [each for each in self._root.all("compiler") if "settotalmass" in each.attributes]
        total = given[-1].number("settotalmass") if given else -1.0
        mass = sum(float(body.mass) for body in self._bodies if isinstance(body.mass, float))
        if total <= 0.0 or mass == 0.0:
            return
        factor = total / mass
        self._bodies = [_scaled(body, factor) for body in self._bodies]

    def _check_massless(self) -> None:
        """Raise InvalidMechanism for a joint without armature that moves no mass, because the joint's acceleration is
        undetermined.
        """
        mass = {body.name: float(body.mass) if isinstance(body.mass, float) else 0.0 for body in self._bodies}
        for joint in reversed(self._joints):  # children before parents
            if joint.kind != "fixed" and mass[joint.child] == 0.0 and joint.armature == 0.0:
                name = joint.child.partition(f".{joint.name}")[0]
                with self.errors.collected():
                    self._lines.get(name, self._root).fail(
                        f"joint {joint.name!r} moves this body, but the body and all bodies on it have no mass; "
                        "give the body a mass, or the joint an armature, or pass repair=massless"
                    )
            if joint.parent != GROUND:
                mass[joint.parent] += mass[joint.child]
        self.errors.check()

    @property
    def _reference(self) -> tuple[float, ...]:
        """Coordinates q with all joints at `ref`."""
        return tuple(number for ref in self._refs for number in ref)

    def _start(self, keyframe: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Coordinates and velocities (q, v) at the start, from a keyframe of the file.

        keyframe  name of the keyframe; "" selects the keyframe named START. If the file has no keyframe of this name,
                  all joints start at `ref`, at rest
        """
        start = self._reference
        keys = [key for holder in self._root.all("keyframe") for key in holder.all("key")]
        errors = Errors(self._root.owner)
        known = named([key for key in keys if key.attributes.get("name")], "keyframe", errors)
        errors.check()
        for key in keys:
            if "qpos" in key.attributes:
                key.numbers("qpos", self._qpos_size)
        if not keyframe and START not in known:
            return start, (0.0,) * len(start)
        keyframe = keyframe or START
        if keyframe not in known:
            names = ", ".join(known) or "(none)"
            self._root.fail(f"the model has no keyframe {keyframe!r}; its keyframes are {names}")
        key = known[keyframe]
        note_attributes(key, "key", self.notes)
        return self._positions_of(key, start), key.numbers("qvel", len(start), (0.0,) * len(start))

    @property
    def _qpos_size(self) -> int:
        """Number of positions in MuJoCo, where the orientation of a ball or free joint is a quaternion."""
        return len(self._reference) + sum(bool(joint.orientation_names) for joint in self._joints)

    def _positions_of(self, key: Element, start: tuple[float, ...]) -> tuple[float, ...]:
        """Coordinates q (n_q,) at a keyframe, from the attribute `qpos` of the element `key`.

        The method also sets the start orientation of every ball and free joint to the quaternion in `qpos`. The
        rotation coordinates of these joints in q are therefore 0.

        start  coordinates q with all joints at `ref`, the result if the keyframe has no `qpos`
        """
        moving = [index for index, joint in enumerate(self._joints) if joint.coordinates]
        if "qpos" not in key.attributes:
            return start
        given, q = [*key.numbers("qpos", self._qpos_size)], []
        for index, ref in zip(moving, self._refs, strict=True):
            if not self._joints[index].orientation_names:
                q.append(given.pop(0))
                continue
            place, given = given[: len(ref) - 3], given[len(ref) - 3 :]
            quaternion, given = given[:4], given[4:]
            if math.hypot(*quaternion) < 1e-12:
                key.fail(
                    f"qpos: the quaternion of joint {self._joints[index].name!r} is 0 0 0 0; "
                    "give one with a norm above 0"
                )
            w, x, y, z = normalized(quaternion).tolist()
            self._joints[index] = replace(self._joints[index], quaternion=(w, x, y, z))
            q += [*place, 0.0, 0.0, 0.0]
        return tuple(q)

    def _drawn(self, geoms: list[Geom]) -> tuple[Shape, ...]:
        """Shapes of a body's geoms of the groups 0 to 2, which MuJoCo shows; of all its geoms if these have no shape.

        Files keep geoms for collisions, which enclose the visible ones, in group 3.
        """
        visible = [geom for geom in geoms if geom.element.number("group", 0.0) <= VISIBLE_GROUP]
        shapes = tuple(shape for geom in visible for shape in self._shapes(geom))
        return shapes or tuple(shape for geom in geoms if geom not in visible for shape in self._shapes(geom))

    def _shapes(self, geom: Geom) -> tuple[Shape, ...]:
        """Shapes for drawings of a geom; none for a geom that is entirely transparent, which MuJoCo does not draw."""
        if self._rgba(geom)[3:4] == (0.0,):
            return ()
        if geom.kind == "mesh":
            return () if self._meshes is None else self._meshes.shapes(geom, self._color(geom))
        return geom.shapes(self._color(geom))

    def _color(self, geom: Geom) -> str:
        rgba = self._rgba(geom)
        return hex_color(list(rgba[:3])) if rgba else ""

    def _rgba(self, geom: Geom) -> tuple[float, ...]:
        """Red, green, blue and opacity of a geom, 0 to 1; () if the file gives the geom no colour."""
        name = geom.element.attributes.get("material", "")
        if name and name not in self._colors:
            geom.element.fail(f"there is no material {name!r}{did_you_mean(name, self._colors)}; define it in <asset>")
        return _rgba_of(geom.element) or self._colors.get(name, ())


def _rgba_of(element: Element) -> tuple[float, ...]:
    """Numbers of the attribute `rgba`; () if it is missing."""
    return element.numbers("rgba", len(element.attributes.get("rgba", "").split()), ())


def _merged(root: Element, tag: str) -> dict[str, str]:
    """Merged attributes of all child elements with a tag; later attributes replace earlier ones."""
    found: dict[str, str] = {}
    for element in root.all(tag):
        found |= element.attributes
    return found


def _scaled(body: Body, factor: float) -> Body:
    assert isinstance(body.mass, float)
    a, b, c, d, e, f = (float(number) * factor if isinstance(number, float) else number for number in body.inertia)
    return replace(body, mass=body.mass * factor, inertia=(a, b, c, d, e, f))
