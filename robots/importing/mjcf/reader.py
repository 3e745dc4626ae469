"""Import of MJCF, MuJoCo's model format, through the model that MuJoCo compiles from a file.

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

import mujoco
import numpy as np

from robots.importing.inertials import Inertia
from robots.importing.mjcf.actuators import Actuators
from robots.importing.mjcf.compiled import BOUND, Compiled, rotation
from robots.importing.mjcf.contacts import Contacts
from robots.importing.mjcf.equalities import Equalities
from robots.importing.mjcf.geoms import quaternion_of, shapes_of
from robots.importing.mjcf.sensors import sensors_of
from robots.importing.mjcf.softness import SOLIMP, SOLREF
from robots.importing.mjcf.tendons import Tendons, gravity_compensation
from robots.importing.mjcf.unread import IGNORABLE, check_options, refuse
from robots.importing.plausible import TURNS, note_units
from robots.importing.repairs import repairs_of, with_smallest_masses
from robots.importing.rotations import Array, normalized, rows, turned_axis, vector
from robots.importing.xml_reader import Element
from robots.smoothing import with_bristles, with_resolved_friction
from robots.stops import with_stops
from sim_core.mechanism import GROUND, Body, CustomForce, Joint, JointFriction, JointSpring, Mechanism, Spring
from sim_core.mechanism.joints import JointKind
from sim_core.spatial import rotation_about

Friction = Literal["bristles", "regularized", "ignore"]
Contact = Literal["compliant", "ground", "ignore"]
Limits = Literal["compliant", "none"]
Drawing = Literal["drawn", "boxes"]
START = "start"  # keyframe that gives the start unless another one is asked for; the export writes it
JOINTS = mujoco.mjtJoint
SAME, SAME_ROTATION = int(mujoco.mjtSameFrame.mjSAMEFRAME_BODY), int(mujoco.mjtSameFrame.mjSAMEFRAME_BODYROT)
KINDS: dict[int, JointKind] = {
    int(JOINTS.mjJNT_HINGE): "revolute",
    int(JOINTS.mjJNT_SLIDE): "prismatic",
    int(JOINTS.mjJNT_BALL): "spherical",
    int(JOINTS.mjJNT_FREE): "free",
}


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
    hull_points: int = 16,
) -> Mechanism:
    """The mechanism of an MJCF file, in joint coordinates, at the file's positions or at a keyframe.

    owner     beginning of every error message and warning, such as "robot 'hopper.xml'"
    friction  "bristles": joints have the Coulomb friction of the file (frictionloss), with bristles, on which a loaded
              joint sticks (robots.smoothing), except for ball and free joints; "regularized": this friction is smooth
              near rest, where a loaded joint creeps; "ignore": Coulomb friction is left out
    ignore    names from IGNORABLE, separated by spaces: parts that are left out with a warning instead of refused
    keyframe  name of the keyframe that gives the start; "" selects the keyframe named START or, if the file has no
              keyframe of this name, the file's positions
    contacts  "compliant": geoms touch as described in the module `contacts`; "ground": geoms touch only the ground,
              with a warning; "ignore": geoms do not touch, with a warning
    limits    "compliant": compliant stops at the limits of joints and tendons, see robots.stops; "none": no stops
    meshes    "drawn": meshes are read for drawings; "boxes": meshes are left out of drawings
    repair    names from `repairs.REPAIRS`, as in URDF
    hull_points  largest number of points with which a mesh touches planes
    Raises InvalidMechanism with a one-line message that names the line of the file; warns by DescriptionWarning.
    """
    ignored, repairs = frozenset(ignore.split()), repairs_of(path, repair)
    used = meshes == "drawn" or contacts != "ignore"
    compiled = Compiled(path, owner, repairs, limits == "none", used)
    for name in sorted(ignored - {*IGNORABLE}):
        compiled.fail(f"ignore contains {name!r}; it may contain {', '.join(IGNORABLE)}")
    reader = Reader(compiled, friction, ignored, contacts, limits == "compliant", meshes == "drawn", hull_points)
    mechanism = reader.mechanism(path.stem, keyframe)
    mechanism = with_bristles(mechanism, owner) if friction == "bristles" else with_resolved_friction(mechanism, owner)
    return with_stops(mechanism) if limits == "compliant" else mechanism


class Reader:
    """Reads a compiled model; bodies and joints are in MuJoCo's order, parents first.

    drawn        whether meshes are drawn
    hull_points  largest number of points with which a mesh touches planes
    """

    def __init__(
        self,
        compiled: Compiled,
        friction: Friction,
        ignored: frozenset[str],
        contacts: Contact,
        limited: bool,
        drawn: bool,
        hull_points: int,
    ) -> None:
        self._of, self._model, self._friction, self._ignored = compiled, compiled.model, friction, ignored
        self._contacts, self._limited, self._drawn = contacts, limited, drawn
        self._hull_points = hull_points
        self._bodies: list[Body] = []
        self._joints: list[Joint] = []
        self._forces: list[CustomForce] = []
        self._taken = {*compiled.bodies}
        self._elements: dict[str, Element] = {}
        self._joint_elements: dict[str, Element] = {}

    def mechanism(self, name: str, keyframe: str) -> Mechanism:
        """Read the mechanism. Issues warnings for elements that were not read.

        name      name of the mechanism if the file gives no name
        keyframe  name of the keyframe that gives the start; "" selects the keyframe named START or, if the file has no
                  keyframe of this name, the file's positions
        """
        of, m = self._of, self._model
        check_options(of, self._ignored)
        for body in range(1, m.nbody):
            self._read_body(body)
        tendons = Tendons(of, self._ignored, self._limited, self._friction != "ignore")
        actuators = Actuators(of, tendons)
        self._joints = actuators.carried_by(self._joints)
        constraints = () if "equality" in self._ignored else Equalities(of, tendons).constraints()
        for index in range(m.neq if "equality" in self._ignored else 0):
            refuse(of, of.element("equality", index), "equality", "", self._ignored)
        motors = actuators.read(self._joints)
        pulls = [*tendons.read(actuators.pulling)]
        forces = [*self._forces, *(each for each in pulls if isinstance(each, CustomForce))]
        forces += [force] if (force := gravity_compensation(of)) is not None else []
        if "massless" not in of.repairs:
            self._check_massless()
        of.errors.check()
        if not m.njnt:
            of.fail("no body has a joint, so nothing can move; add a joint")
        q, v = self._start(keyframe)
        mechanism = Mechanism(
            name=of.root.attributes.get("model") or name,
            coordinates="joint",
            bodies=tuple(self._bodies),
            joints=tuple(self._joints),
            constraints=constraints,
            springs=tuple(each for each in pulls if isinstance(each, Spring)),
            forces=tuple(forces),
            actuators=motors,
            outputs=tuple(sensors_of(of)),
            gravity=(0.0, 0.0, 0.0) if of.is_disabled("gravity") else vector(m.opt.gravity),
            initial_q=q,
            initial_v=v,
            ground=shapes_of(of, 0, self._drawn),
        )
        if "massless" in of.repairs:
            mechanism = with_smallest_masses(mechanism, self._elements, of.notes)
        if self._contacts != "ignore":
            mechanism = Contacts(of, self._contacts == "ground", self._hull_points).added_to(mechanism)
        elif m.ngeom:
            of.notes.add(of.root, "contacts are left out, as contacts=ignore asks: geoms do not touch one another")
        of.errors.check()
        note_units(self._bodies, self._joints, self._elements, self._joint_elements, of.notes)
        of.notes.warn()
        return mechanism

    def _read_body(self, body: int) -> None:
        """Append a body and its joints."""
        of, m = self._of, self._model
        name, parent = of.bodies[body], of.bodies[m.body_parentid[body]]
        p, R, carrier = m.body_pos[body], rotation(m.body_quat[body]), parent
        first, count = int(m.body_jntadr[body]), int(m.body_jntnum[body])
        for joint in range(first, first + count):
            label = of.joints[joint]
            child = name if joint == first + count - 1 else self._free(f"{name}.{label}")
            with of.errors.collected():
                self._read_joint(joint, Joint(name=label, parent=carrier, child=child), p, R)
            if child != name:
                self._bodies.append(Body(name=child, mass=0.0, inertia=(0.0,) * 6))
            carrier, p, R = child, np.zeros(3), np.eye(3)
        if not count:
            fixed = Joint(name=f"{name}.fixed", kind="fixed", parent=parent, child=name)
            self._joints.append(replace(fixed, parent_point=vector(p), rotation=rows(R)))
        self._elements[name] = of.element("body", body)
        if m.body_mocapid[body] >= 0:
            of.notes.add(self._elements[name], "the mocap body stays where it is")
        mass, center, inertia = self._inertia(body)
        shapes = shapes_of(of, body, self._drawn)
        self._bodies.append(Body(name=name, mass=mass, inertia=inertia, center_of_mass=vector(center), shapes=shapes))

    def _free(self, name: str) -> str:
        """The name of a body, with a number if it is taken."""
        number, free = 1, name
        while free in self._taken:
            free, number = f"{name}{number}", number + 1
        self._taken.add(free)
        return free

    def _inertia(self, body: int) -> tuple[float, Array, Inertia]:
        """(mass, kg; centre of mass, m; inertia about it, kg m2) of a body, without the bounds of `Compiled`.

        MuJoCo takes frames that differ by rounding for the same frame.
        """
        m = self._model
        mass, moments, same = float(m.body_mass[body]), m.body_inertia[body], int(m.body_sameframe[body])
        if mass == BOUND or (moments == BOUND).any():
            mass, moments = mass if mass > BOUND else 0.0, np.where(moments > BOUND, moments, 0.0)
        center = np.zeros(3) if same == SAME else m.body_ipos[body]
        R = np.eye(3) if same in (SAME, SAME_ROTATION) else rotation(m.body_iquat[body])
        tensor = R @ np.diag(moments) @ R.T
        a, b, c, d, e, f = (float(tensor[i, j]) + 0.0 for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)))
        return mass, center, (a, b, c, d, e, f)

    def _read_joint(self, index: int, joint: Joint, p: Array, R: Array) -> None:
        """Complete one joint, and append it to the joints read so far.

        index  number of the joint in the compiled model
        joint  Joint that has only its name and bodies so far
        p, R   pose of the child body in the parent body at the joint position `ref`
        """
        m, element = self._model, self._of.element("joint", index)
        element.label = f"joint {joint.name!r}"
        self._joint_elements[joint.name] = element
        dof, kind = int(m.jnt_dofadr[index]), KINDS[int(m.jnt_type[index])]
        joint = replace(
            joint,
            kind=kind,
            damping=0.0 if self._of.is_disabled("damper") else float(m.dof_damping[dof]),
            armature=float(m.dof_armature[dof]),
        )
        lower, upper = self._limits(index, element)
        if kind in ("revolute", "prismatic"):
            joint = self._axial(index, joint, p, R)
            joint = replace(joint, lower=lower, upper=upper)
        elif kind == "spherical":
            point = m.jnt_pos[index]
            joint = replace(
                joint, parent_point=vector(p + R @ point), child_point=vector(point), rotation=rows(R), upper=upper
            )
        else:
            qpos = m.qpos0[m.jnt_qposadr[index] :][:7]
            joint = replace(joint, quaternion=quaternion_of(qpos[3:]))
        numbers = {name: getattr(joint, name) for name in ("damping", "armature")}
        numbers |= {"stiffness": float(m.jnt_stiffness[index]), "frictionloss": float(m.dof_frictionloss[dof])}
        for name, number in numbers.items():
            if number < 0.0:
                element.fail(f"{name} is {number:g}; it must not be negative")
        spring = self._spring(index, kind, element)
        self._joints.append(replace(joint, spring=spring, friction=self._friction_of(index, kind, element)))
        if m.dof_dampingpoly[dof].any() and not self._of.is_disabled("damper"):
            element.fail("damping with more than one number is not supported; give one number")

    def _axial(self, index: int, joint: Joint, p: Array, R: Array) -> Joint:
        """A hinge or slide joint with its pose."""
        m = self._model
        axis, ref = turned_axis(R, m.jnt_axis[index]), float(m.qpos0[m.jnt_qposadr[index]])
        point = m.jnt_pos[index] if joint.turns else np.zeros(3)
        at = p + R @ point
        if ref != 0.0 and joint.turns:
            R = np.asarray(rotation_about(axis, -ref)) @ R
        elif ref != 0.0:
            at = at - ref * np.array(axis)
        return replace(joint, parent_point=vector(at), child_point=vector(point), axis=axis, rotation=rows(R))

    def _spring(self, index: int, kind: JointKind, element: Element) -> JointSpring | None:
        """Spring of a joint; None without stiffness. Raises InvalidMechanism for one that cannot be expressed."""
        m, place = self._model, int(self._model.jnt_qposadr[index])
        stiffness, (square, cubic) = float(m.jnt_stiffness[index]), m.jnt_stiffnesspoly[index].tolist()
        if self._of.is_disabled("spring") or not (stiffness or square or cubic):
            return None
        if m.jnt_springyield[index] != 0.0:
            element.fail("springyield is not supported; remove it")
        if square:
            element.fail("stiffness with a second number, of the square, is not supported; set it to 0")
        if kind in ("revolute", "prismatic"):
            return JointSpring(stiffness=stiffness, cubic=cubic, rest=float(m.qpos_spring[place]) + 0.0)
        if kind == "spherical":
            return JointSpring(stiffness=stiffness, cubic=cubic)
        rest = m.qpos_spring[place : place + 7]
        point, quaternion = vector(rest[:3]), quaternion_of(rest[3:])
        return JointSpring(stiffness=stiffness, cubic=cubic, rest_quaternion=quaternion, rest_point=point)

    def _limits(self, index: int, element: Element) -> tuple[float | None, float | None]:
        """(lower, upper) limits of a joint, rad or m; None for a limit that the joint does not have."""
        m = self._model
        if self._of.is_disabled("limit") or not m.jnt_limited[index]:
            return None, None
        lower, upper = m.jnt_range[index].tolist()
        kind = KINDS[int(m.jnt_type[index])]
        if not lower < upper:
            if self._limited:
                element.fail(f"range is {lower:g} to {upper:g}; its first number must be below the second")
            return None, None
        given = [
            name
            for name, values, default in (
                ("margin", m.jnt_margin, 0.0),
                ("solreflimit", m.jnt_solref, SOLREF),
                ("solimplimit", m.jnt_solimp, SOLIMP),
            )
            if np.any(values[index] != default)
        ]
        if given:
            verb = "are" if len(given) > 1 else "is"
            text = "stops begin at the limits, with a stiffness of their own"
            self._of.notes.add(element, f"{' and '.join(given)} {verb} not read: {text}")
        if kind == "spherical" and upper >= math.pi:
            self._of.notes.add(element, "the range of the ball joint reaches 180 degrees, and limits nothing")
            return None, None
        if kind == "revolute" and upper - lower > TURNS * 2.0 * math.pi:
            self._of.notes.add(
                element, f"range is {lower:g} to {upper:g} rad, more than {TURNS} turns; <compiler angle> is the unit"
            )
        if kind == "revolute" and self._has_no_unit and 0.0 < upper - lower < math.radians(2.0 * math.pi):
            ends = " ".join(f"{math.degrees(bound):g}" for bound in (lower, upper))
            self._of.notes.add(element, f'range is {ends} degrees; with <compiler angle="radian"> it is in rad')
        return (None if kind == "spherical" else lower), upper

    @property
    def _has_no_unit(self) -> bool:
        return not any("angle" in compiler.attributes for compiler in self._of.root.all("compiler"))

    def _friction_of(self, index: int, kind: JointKind, element: Element) -> JointFriction | None:
        """Dry friction of a joint; None if it has none, or if the file or the import leaves it out."""
        m, dof = self._model, int(self._model.jnt_dofadr[index])
        loss = float(m.dof_frictionloss[dof])
        if loss == 0.0 or self._of.is_disabled("frictionloss"):
            return None
        if self._friction == "ignore":
            self._of.notes.add(element, "frictionloss is left out, as friction=ignore asks")
            return None
        names = (("solreffriction", m.dof_solref, SOLREF), ("solimpfriction", m.dof_solimp, SOLIMP))
        given = [name for name, values, default in names if np.any(values[dof] != default)]
        if given:
            verb = "are" if len(given) > 1 else "is"
            text = "friction is smooth near rest, or has bristles"
            self._of.notes.add(element, f"{' and '.join(given)} {verb} not read: {text}")
        if kind in ("spherical", "free") and self._friction == "bristles":
            word = "ball" if kind == "spherical" else "free"
            self._of.notes.add(element, f"frictionloss of a {word} joint has no bristles: a loaded joint creeps")
        return JointFriction(coulomb=loss)

    def _check_massless(self) -> None:
        """Add an error for each joint without armature that moves no mass: its acceleration is undetermined."""
        mass = {body.name: float(body.mass) if isinstance(body.mass, float) else 0.0 for body in self._bodies}
        for joint in reversed(self._joints):  # children before parents
            if not joint.is_fixed and mass[joint.child] == 0.0 and joint.armature == 0.0:
                name = joint.child.removesuffix(f".{joint.name}")
                with self._of.errors.collected():
                    self._elements.get(name, self._of.root).fail(
                        f"joint {joint.name!r} moves this body, but the body and all bodies on it have no mass; "
                        "give the body a mass, or the joint an armature, or pass repair=massless"
                    )
            if joint.parent != GROUND:
                mass[joint.parent] += mass[joint.child]

    def _start(self, keyframe: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Coordinates and velocities (q, v) at the start, from a keyframe of the file.

        keyframe  name of the keyframe; "" selects the keyframe named START. If the file has no keyframe of this name,
                  all joints start at `ref`, at rest
        """
        m = self._model
        known = {m.key(index).name: index for index in range(m.nkey) if m.key(index).name}
        if keyframe and keyframe not in known:
            names = ", ".join(known) or "(none)"
            self._of.fail(f"the model has no keyframe {keyframe!r}; its keyframes are {names}")
        index = known.get(keyframe or START)
        if index is None:
            return self._coordinates(m.qpos0), (0.0,) * m.nv
        unread = [
            ("ctrl", m.key_ctrl, "actuators start with the command 0"),
            ("act", m.key_act, "actuators have no state"),
        ]
        for name, values, instead in unread:
            if values[index].any():
                self._of.notes.add(self._key(index), f"{name} is not read: {instead}")
        moved = m.nmocap and (
            np.any(m.key_mpos[index].reshape(-1, 3) != m.body_pos[m.body_mocapid >= 0])
            or np.any(m.key_mquat[index].reshape(-1, 4) != m.body_quat[m.body_mocapid >= 0])
        )
        if moved:
            self._of.notes.add(self._key(index), "mpos and mquat are not read: mocap bodies stay where they are")
        return self._coordinates(m.key_qpos[index]), tuple(m.key_qvel[index].tolist())

    def _key(self, index: int) -> Element:
        name = self._model.key(index).name
        keys = (key for holder in self._of.root.all("keyframe") for key in holder.all("key"))
        return next((key for key in keys if key.attributes.get("name") == name), self._of.root)

    def _coordinates(self, qpos: Any) -> tuple[float, ...]:
        """Coordinates q (n_q,) at MuJoCo's positions.

        Sets the start orientation of every ball and free joint to the quaternion in `qpos`; the rotation coordinates of
        these joints in q are therefore 0.
        """
        place, q = {joint.name: number for number, joint in enumerate(self._joints)}, list[float]()
        for index in range(self._model.njnt):
            at, kind = int(self._model.jnt_qposadr[index]), KINDS[int(self._model.jnt_type[index])]
            if kind in ("revolute", "prismatic"):
                q.append(float(qpos[at]))
                continue
            own = qpos[at + 3 : at + 7] if kind == "free" else qpos[at : at + 4]
            number = place[self._of.joints[index]]
            self._joints[number] = replace(self._joints[number], quaternion=quaternion_of(normalized(own)))
            q += [*(qpos[at : at + 3].tolist() if kind == "free" else ()), 0.0, 0.0, 0.0]
        return tuple(q)
