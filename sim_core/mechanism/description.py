"""Mechanism description: frozen dataclasses for bodies, joints, constraints, springs and actuators, in SI units.

The field `coordinates` of a description selects the coordinates. In "absolute" coordinates, every body has coordinates
of its own, and joints become constraints. In "joint" coordinates, the positions of the joints of a tree are the
coordinates, and constraints close loops.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Literal

from sim_core.errors import InvalidMechanism, UnknownName
from sim_core.mechanism.beams import Beam
from sim_core.mechanism.constraints import Anchored as Anchored
from sim_core.mechanism.constraints import ChainContact as ChainContact
from sim_core.mechanism.constraints import Coincidence as Coincidence
from sim_core.mechanism.constraints import Constraint as Constraint
from sim_core.mechanism.constraints import Distance as Distance
from sim_core.mechanism.constraints import JointRelation as JointRelation
from sim_core.mechanism.constraints import Perpendicular as Perpendicular
from sim_core.mechanism.constraints import PrescribedMotion as PrescribedMotion
from sim_core.mechanism.constraints import Slider as Slider
from sim_core.mechanism.constraints import SpinRelation as SpinRelation
from sim_core.mechanism.constraints import UnitNorm as UnitNorm
from sim_core.mechanism.contacts import LATER_CONTACT_FIELDS
from sim_core.mechanism.contacts import SphereContact as SphereContact
from sim_core.mechanism.custom_forces import CustomForce as CustomForce
from sim_core.mechanism.custom_forces import law_key, motion_key
from sim_core.mechanism.frozen import Frozen
from sim_core.mechanism.guards import SWITCHING_FIELDS, Guard
from sim_core.mechanism.guards import Crossing as Crossing
from sim_core.mechanism.joints import GROUND as GROUND
from sim_core.mechanism.joints import IDENTITY as IDENTITY
from sim_core.mechanism.joints import IDENTITY_QUATERNION as IDENTITY_QUATERNION
from sim_core.mechanism.joints import LATER_FIELDS, LATER_SPRING_FIELDS, Quaternion
from sim_core.mechanism.joints import ORIGIN as ORIGIN
from sim_core.mechanism.joints import Joint as Joint
from sim_core.mechanism.joints import JointFriction as JointFriction
from sim_core.mechanism.joints import JointSpring as JointSpring
from sim_core.mechanism.joints import JointStops as JointStops
from sim_core.mechanism.joints import Matrix3 as Matrix3
from sim_core.mechanism.joints import X as X
from sim_core.mechanism.joints import Y as Y
from sim_core.mechanism.joints import Z as Z
from sim_core.mechanism.outputs import ForceArrow as ForceArrow
from sim_core.mechanism.outputs import JointOutput as JointOutput
from sim_core.mechanism.outputs import Output
from sim_core.mechanism.outputs import PointOutput as PointOutput
from sim_core.mechanism.quantities import (
    PUSH_NUMBERS,
    CapturedParameter,
    FirstOrderState,
    NotNegative,
    Positive,
    holding,
    push_names,
    value_of,
)
from sim_core.mechanism.quantities import Number as Number
from sim_core.mechanism.quantities import Tunable as Tunable
from sim_core.mechanism.quantities import Vector3 as Vector3
from sim_core.mechanism.rolling import Rolling
from sim_core.support.notebook import counted, page

COORDINATES = {
    "planar": ("x", "y", "theta"),
    "zxz": ("x", "y", "z", "phi", "theta", "psi"),
    "euler_parameters": ("x", "y", "z", "e0", "e1", "e2", "e3"),
}


@dataclass(frozen=True, kw_only=True)
class Shape(Frozen):
    """A shape for drawings of a body, without effect on the motion.

    kind    "line" with `points` (3n,), x y z of each, m; "mesh" with `points` and `faces`; or a solid with `size`, m:
            "box" (x, y, z), "sphere" (radius,) or "cylinder" (radius, length)
    faces   (3m,) indices of points for the corners of each triangle of a mesh, counterclockwise as seen from outside
    """

    kind: str
    points: tuple[float, ...] = ()
    size: tuple[float, ...] = ()
    position: Vector3 = ORIGIN
    quaternion: Quaternion = IDENTITY_QUATERNION
    color: str = ""
    faces: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Body(Frozen):
    """A rigid body. `inertia` is Ixx, Iyy, Izz, Ixy, Ixz, Iyz about the centre of mass, in the body's axes, kg m2.

    orientation  parametrization of the body's pose in absolute coordinates; unused in joint coordinates
    free         names of the absolute coordinates that vary, by default all; the other coordinates keep their
                 values in `placement`, which has the order of COORDINATES
    """

    name: str
    mass: Annotated[Number, NotNegative("kg")]
    inertia: tuple[Number, Number, Number, Number, Number, Number]
    center_of_mass: Vector3 = ORIGIN
    orientation: Literal["planar", "zxz", "euler_parameters"] = "planar"
    free: tuple[str, ...] | None = None
    placement: tuple[float, ...] = ()
    shapes: tuple[Shape, ...] = ()

    @property
    def free_coordinates(self) -> tuple[str, ...]:
        """Names of this body's coordinates that vary, in the order of COORDINATES."""
        return COORDINATES[self.orientation] if self.free is None else self.free

    @property
    def is_planar(self) -> bool:
        """Whether the body's coordinates are those of a motion in the x, y plane."""
        return self.orientation == "planar"

    @property
    def has_euler_parameters(self) -> bool:
        """Whether the body's coordinates contain Euler parameters."""
        return self.orientation == "euler_parameters"


@dataclass(frozen=True, kw_only=True)
class Servo(Frozen):
    """Gains of the position controller inside an actuator: `stiffness` N m/rad or N/m, `damping` N m s/rad or N s/m."""

    stiffness: Annotated[float, Positive()]
    damping: Annotated[float, NotNegative()]


@dataclass(frozen=True, kw_only=True)
class Actuator(Frozen):
    """An actuator: an effort (N or N m) along a declared joint, positive in the joint's positive direction.

    An actuator with a `servo` also accepts velocity and position commands, see `sim_core.servos.loops`; position
    commands are limited by the joint's limits. An actuator without a joint exerts no effort. Its command is an input of
    guards, which read it as a switch (1 for on, 0 for off), or of a PrescribedMotion. `start` is the initial effort or
    command. A mechanism gives an actuator without a `unit` that of an effort along its joint: N or N m. `gain` is the
    effort at the joint over that which the actuator's own sensor shows; all other numbers are of efforts at the joint.
    """

    name: str
    joint: str = ""
    start: float = 0.0
    effort_limit: Annotated[float, Positive(remedy="give None for no limit")] | None = None
    unit: str = ""
    velocity_limit: Annotated[float, Positive(remedy="give None for no limit")] | None = None
    servo: Servo | None = None
    gain: Annotated[float, Positive()] = 1.0

    @property
    def modes(self) -> tuple[str, ...]:
        """Command modes that the actuator accepts: "effort", and with a servo "velocity" and "position"."""
        return ("effort",) if self.servo is None else ("effort", "velocity", "position")


@dataclass(frozen=True, kw_only=True)
class Spring(Frozen):
    """A linear spring and damper on the line between a point of body a and a point of body b, or the ground.

    `stiffness` k N/m, `rest_length` l0 m, `damping` c N s/m, `pretension` F0 N. At length l the spring pulls with
    F0 + k (l - l0) + c dl/dt and stores F0 l + k (l - l0)^2 / 2. The two points may coincide only if F0, l0 and c are
    zero.
    """

    name: str
    body_a: str
    point_a: Vector3
    body_b: str
    point_b: Vector3
    stiffness: Annotated[Number, NotNegative()]
    rest_length: Annotated[Number, NotNegative()] = 0.0
    damping: Annotated[Number, NotNegative("N s/m")] = 0.0
    pretension: Annotated[Number, NotNegative()] = 0.0


@dataclass(frozen=True, kw_only=True)
class ConstraintMode(Frozen):
    """A named set of constraints that hold at the same time; `constraints` None means all.

    In absolute coordinates, joints are constraints too, and are listed by name. A guard that fires changes the
    mechanism from one mode to another, or switches single constraints on and off. After such a switch, the set of
    constraints that hold need not be one of the named modes.
    """

    name: str = "default"
    constraints: tuple[str, ...] | None = None


@dataclass(frozen=True)
class CoordinateFamily:
    """A choice of the coordinates of a mechanism.

    called     text for messages
    names      function of the bodies and joints that returns the names of the coordinates
    of_bodies  whether the coordinates are those of the bodies, so that joints are constraints
    of_joints  whether the coordinates are the positions of the joints
    """

    called: str
    names: Callable[[Sequence[Body], Sequence[Joint]], list[str]]
    of_bodies: bool = False
    of_joints: bool = False


FAMILIES = {
    "absolute": CoordinateFamily(
        "absolute coordinates",
        lambda bodies, joints: [f"{body.name}.{name}" for body in bodies for name in body.free_coordinates],
        of_bodies=True,
    ),
    "joint": CoordinateFamily(
        "joint coordinates",
        lambda bodies, joints: [name for joint in joints for name in joint.coordinates],
        of_joints=True,
    ),
    "absolute_angle": CoordinateFamily(
        "absolute angles", lambda bodies, joints: [f"{joint.child}.angle" for joint in joints if not joint.is_fixed]
    ),
}


def _with_unit(actuator: Actuator, along: set[str]) -> Actuator:
    """The actuator, with a unit; `along` has the names of the joints that are translations."""
    if not isinstance(actuator, Actuator) or actuator.unit:
        return actuator
    return replace(actuator, unit="N" if actuator.joint in along else "N m")


@dataclass(frozen=True, kw_only=True)
class Mechanism(Frozen):
    """A complete mechanism and its start state.

    formulation           how the constrained equations are solved for the accelerations a and the Lagrange multipliers
                          lam: "schur" eliminates a, then solves for lam; "augmented" solves for both at once;
                          "partitioned" eliminates lam and the dependent coordinate of a beam contact in closed form,
                          "partitioned_as_printed" does the same with the contact force as printed in [Lipinski2023]
    start                 name of the constraint mode at the start; by default the first
    coordinates           "absolute": coordinates of every body; "joint": joint positions; "absolute_angle": for a tree
                          of revolute joints about one axis, the angle `BODY.angle` of each joint's child relative to
                          the ground (commands and joint states remain angles relative to the parent)
    initial_q, initial_v  coordinates and velocities at the start, in this order: coordinates of bodies ("absolute") or
                          joints ("joint", "absolute_angle"), first-order states (which may be left out), coordinates of
                          beams
    open_start            whether the start state may violate the constraints; a simulation then warns of the violation
                          instead of raising an error
    reference_q           coordinates at which assembly chooses the pivots of the elimination, by default those at the
                          start; with `reference_q`, the kernels do not depend on the start and need no recompilation
                          when the start changes
    parameters            parameters with which the robot's builder function made the mechanism, for displays and
                          recordings
    pushable              bodies on which an external force can act during a run, see `Simulation.push`
    ground, arrows        for drawings only: shapes of the ground, and force arrows in addition to those of contacts
    """

    name: str
    coordinates: Literal["absolute", "joint", "absolute_angle"]
    bodies: tuple[Body, ...]
    joints: tuple[Joint, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    springs: tuple[Spring, ...] = ()
    beams: tuple[Beam, ...] = ()
    contacts: tuple[SphereContact, ...] = ()
    forces: tuple[CustomForce, ...] = ()
    actuators: tuple[Actuator, ...] = ()
    outputs: tuple[Output, ...] = ()
    constraint_modes: tuple[ConstraintMode, ...] = (ConstraintMode(),)
    start: str = ""
    guards: tuple[Crossing | Guard, ...] = ()
    gravity: Vector3 = (0.0, 0.0, -9.81)
    formulation: Literal["schur", "augmented", "partitioned", "partitioned_as_printed"] = "schur"
    initial_q: tuple[float, ...] = ()
    initial_v: tuple[float, ...] = ()
    reference_q: tuple[float, ...] = ()
    open_start: bool = False
    parameters: dict[str, float] = field(default_factory=dict, hash=False)
    ground: tuple[Shape, ...] = ()
    arrows: tuple[ForceArrow, ...] = ()
    pushable: tuple[str, ...] = ()

    is_valid = False  # set by `validate`; a changed copy is not valid before its own check

    def __post_init__(self) -> None:
        super().__post_init__()
        has_parts = all(isinstance(each, tuple) for each in (self.joints, self.contacts, self.forces))
        states = self.first_order_states if has_parts else ()  # `validate` refuses others
        if states and len(self.initial_v) == len(self.initial_q) == self.coordinate_count - len(states):
            object.__setattr__(self, "initial_q", (*self.initial_q, *[0.0 for _ in states]))
            object.__setattr__(self, "initial_v", (*self.initial_v, *[state.start for state in states]))
        if isinstance(self.actuators, tuple) and isinstance(self.joints, tuple):
            along = {each.name for each in self.joints if isinstance(each, Joint) and each.kind == "prismatic"}
            actuators = (_with_unit(each, along) for each in self.actuators)
            object.__setattr__(self, "actuators", tuple(actuators))

    def __repr__(self) -> str:
        kinds = ("bodies", "moving_joints", "constraints", "springs", "beams", "contacts", "forces", "actuators")
        counts = [f"{kind.removeprefix('moving_')} {len(parts)}" for kind in kinds if (parts := getattr(self, kind))]
        return f"<Mechanism {self.name!r} in {self.coordinates} coordinates: {', '.join(counts)}>"

    def _repr_html_(self) -> str:
        """HTML that a notebook displays: counts, mass, and a table of the joints or, without joints, the bodies."""
        kinds = (("body", "bodies"), ("joint", "moving_joints"), ("constraint", ""), ("spring", ""), ("beam", ""))
        counts = [
            counted(len(getattr(self, kind or f"{noun}s")), noun, "bodies" if noun == "body" else "")
            for noun, kind in (*kinds, ("actuator", ""))
        ]
        mass = sum(value_of(body.mass) for body in self.bodies)
        facts = [*counts, f"{mass:.4g} kg", f"{self.coordinates.replace('_', ' ')} coordinates"]
        title = f"Mechanism {self.name}"
        if not self.joints:
            return page(title, facts, ("body", "mass, kg"), [(b.name, value_of(b.mass)) for b in self.bodies])
        drives = {actuator.joint: actuator.name for actuator in self.actuators}
        rows = [(j.name, j.kind, j.parent, j.child, _limits(j), drives.get(j.name, "")) for j in self.joints]
        return page(title, facts, ("joint", "kind", "parent", "child", "range", "actuator"), rows)

    def with_stiffness(self, contacts: tuple[SphereContact, ...]) -> Mechanism:
        """A copy with contacts that differ in their stiffness alone, as valid as this mechanism."""
        changed = dataclasses.replace(self, contacts=contacts)
        object.__setattr__(changed, "is_valid", self.is_valid)
        return changed

    def body(self, name: str) -> Body:
        """Return the body with this name; raise UnknownName if there is none."""
        if name not in self.body_names:
            raise UnknownName(f"mechanism {self.name!r}", "body", name, self.body_names)
        return self.bodies[self.body_names[name]]

    def joint(self, name: str) -> Joint:
        """Return the joint with this name; raise UnknownName if there is none."""
        if name not in self.joint_names:
            raise UnknownName(f"robot {self.name!r}", "joint", name, self.joint_names)
        return self.joints[self.joint_names[name]]

    def gains(self, joints: Sequence[str]) -> list[float]:
        """Effort at each of these joints over that which its actuator's sensor shows; 1 without an actuator."""
        known = {actuator.joint: actuator.gain for actuator in self.actuators}
        return [known.get(joint, 1.0) for joint in joints]

    @cached_property
    def body_names(self) -> dict[str, int]:
        """{name of a body: its index in `bodies`}."""
        return {body.name: index for index, body in enumerate(self.bodies)}

    @cached_property
    def joint_names(self) -> dict[str, int]:
        """{name of a joint: its index in `joints`}."""
        return {joint.name: index for index, joint in enumerate(self.joints)}

    @cached_property
    def moving_joint_names(self) -> dict[str, int]:
        """{name of a moving joint: its index in `moving_joints`}."""
        return {joint.name: index for index, joint in enumerate(self.moving_joints)}

    @cached_property
    def actuator_names(self) -> dict[str, int]:
        """{name of an actuator: its index in `actuators`}."""
        return {actuator.name: index for index, actuator in enumerate(self.actuators)}

    @cached_property
    def joints_at(self) -> dict[str, tuple[Joint, ...]]:
        """{body, or the ground: the joints of which it is the parent or the child}, in the order of the description."""
        found: dict[str, list[Joint]] = {}
        for joint in self.joints:
            for body in {joint.parent: None, joint.child: None}:
                found.setdefault(body, []).append(joint)
        return {body: tuple(joints) for body, joints in found.items()}

    @cached_property
    def moving_joints(self) -> tuple[Joint, ...]:
        """All joints except fixed, spherical and free ones.

        Each of these joints has one joint position; for a planar joint, this is the angle. Joint states and joint
        commands list these joints, in this order.
        """
        return tuple(joint for joint in self.joints if not joint.is_fixed and not joint.is_oriented)

    @cached_property
    def oriented_joints(self) -> tuple[Joint, ...]:
        """The spherical and free joints, whose orientation is a quaternion."""
        return tuple(joint for joint in self.joints if joint.is_oriented)

    @property
    def posed_joints(self) -> tuple[Joint, ...]:
        """The joints whose pose has more than one number: spherical and free joints, and planar joints of a mechanism
        in joint coordinates.
        """
        slides = self.has_joint_coordinates
        return tuple(each for each in self.joints if each.is_oriented or (slides and each.is_planar))

    @property
    def has_single_coordinates(self) -> bool:
        """Whether every joint has at most one coordinate.

        In joint coordinates, q then begins with the joint positions.
        """
        return all(len(joint.coordinates) <= 1 for joint in self.joints)

    @property
    def first_order_states(self) -> tuple[FirstOrderState, ...]:
        """First-order states of joint friction, contacts and custom forces, in this order.

        Their entries in q follow the coordinates of bodies or joints.
        """
        own = [(f"{force.name}.{name}", start) for force in self.forces for name, start in force.states]
        bristles = [(joint.bristle, 0.0) for joint in self.moving_joints if joint.bristle]
        bristles += [(name, 0.0) for contact in self.contacts for name in contact.bristles]
        return tuple(FirstOrderState(name, float(start)) for name, start in (*bristles, *own))

    @property
    def coordinate_count(self) -> int:
        """Number n_q of coordinates in the equations of motion, including first-order states."""
        rest = len(self.first_order_states) + sum(beam.n_coordinates for beam in self.beams)
        return rest - int(self.is_partitioned) + len(self.family.names(self.bodies, self.joints))

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        """Names of the coordinates, in order.

        The names include coordinates that are not free: those of beam nodes that the supports fix, and the coordinate
        that a "partitioned" formulation eliminates.
        """
        own = self.family.names(self.bodies, self.joints)
        beams = [name for beam in self.beams for name in beam.coordinate_names]
        return (*own, *[state.name for state in self.first_order_states], *beams)

    @property
    def family(self) -> CoordinateFamily:
        """The choice of the coordinates."""
        return FAMILIES.get(self.coordinates, FAMILIES["joint"])  # `validate` refuses an unknown choice

    @property
    def has_body_coordinates(self) -> bool:
        """Whether the coordinates are those of the bodies (absolute coordinates), so that joints are constraints."""
        return self.family.of_bodies

    @property
    def has_joint_coordinates(self) -> bool:
        """Whether the coordinates are the positions of the joints."""
        return self.family.of_joints

    @property
    def is_partitioned(self) -> bool:
        """Whether the formulation eliminates a coordinate of a beam contact."""
        return "partitioned" in self.formulation

    @cached_property
    def tunables(self) -> tuple[Tunable, ...]:
        """The tunable numbers of the description, each once, sorted by name."""
        return tuple(item for item in self._inputs if isinstance(item, Tunable))

    @cached_property
    def checked_values(self) -> dict[str, list[float]]:
        """{name of a tunable: smallest and largest value}, which `validation.check_range` extends."""
        return {}

    @cached_property
    def captured(self) -> tuple[CapturedParameter, ...]:
        """The CapturedParameters of the description, which guards set during a run; each once, sorted by name."""
        return tuple(item for item in self._inputs if isinstance(item, CapturedParameter))

    @cached_property
    def switched(self) -> tuple[str, ...]:
        """Names of the constraints that do not always hold.

        These are the constraints that some constraint mode leaves out, and those that some guard switches. In absolute
        coordinates, joints are constraints too.
        """
        lists = [{*c.constraints} for c in self.constraint_modes if c.constraints is not None]
        by_guards = {name for guard in self.guards for name in (*guard.engages, *guard.releases)}
        names = dict.fromkeys(self.switchable)
        return tuple(name for name in names if name in by_guards or any(name not in kept for kept in lists))

    @property
    def switchable(self) -> list[str]:
        """Names that a constraint mode may list: names of constraints and, in absolute coordinates, of joints."""
        joints = self.joints if self.has_body_coordinates else ()
        return [item.name for item in (*joints, *self.constraints)]

    @property
    def changes(self) -> bool:
        """Whether the set of constraints that hold can change during a run."""
        return len(self.constraint_modes) > 1 or bool(self.switched)

    @cached_property
    def captured_constraints(self) -> tuple[str, ...]:
        """Names of the constraints that have a CapturedParameter, in the order of the description."""
        return tuple(self._captured_by)

    @cached_property
    def _captured_by(self) -> dict[str, CapturedParameter]:
        """{constraint: its first CapturedParameter} of the constraints that have one."""
        found: dict[str, CapturedParameter] = {}
        for constraint in self.constraints:
            for number in _walk(constraint):
                if isinstance(number, CapturedParameter):
                    found.setdefault(constraint.name, number)
        return found

    def captured_by(self, constraint: str) -> CapturedParameter:
        """Return the CapturedParameter of the constraint with this name.

        Raises InvalidMechanism if the constraint has no CapturedParameter.
        """
        if constraint in self._captured_by:
            return self._captured_by[constraint]
        raise InvalidMechanism(
            f"mechanism {self.name!r}: constraint {constraint!r} has no CapturedParameter, so that no "
            "guard can capture a value for it; make one of its numbers a CapturedParameter"
        )

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names of the entries of the parameter vector p, an input of every kernel.

        p holds the tunables, the captured parameters, the quaternions of spherical and free joints, the external force
        on each pushable body with its point of action, then one flag per switched constraint (1 if the constraint
        holds, otherwise 0).
        """
        orientations = [name for joint in self.oriented_joints for name in joint.orientation_names]
        own = [*[i.name for i in self.tunables], *[i.name for i in self.captured]]
        pushes = [name for body in self.pushable for name in push_names(body)]
        return (*own, *orientations, *pushes, *map(holding, self.switched))

    def parameter_values(self, constraint_mode: int) -> tuple[float, ...]:
        """Initial values of the parameter vector p, in the order of `parameter_names`.

        constraint_mode  index of the constraint mode that determines the flags of the switched constraints
        """
        kept = self.constraint_modes[constraint_mode].constraints
        holds = [1.0 if kept is None or name in kept else 0.0 for name in self.switched]
        own = [*[item.value for item in self.tunables], *[item.value for item in self.captured]]
        return (*own, *self.orientations, *[0.0] * (PUSH_NUMBERS * len(self.pushable)), *holds)

    @property
    def orientations(self) -> tuple[float, ...]:
        """Quaternions w x y z of the spherical and free joints at the start, normalized and concatenated."""
        found: list[float] = []
        for joint in self.oriented_joints:
            norm = math.hypot(*joint.quaternion)
            found += [part / norm for part in joint.quaternion]
        return tuple(found)

    @property
    def start_constraint_mode(self) -> int:
        """Index of the constraint mode that holds at the start."""
        return [each.name for each in self.constraint_modes].index(self.start) if self.start else 0

    @cached_property
    def _inputs(self) -> tuple[Tunable | CapturedParameter, ...]:
        found: dict[str, Tunable | CapturedParameter] = {}
        groups = (self.bodies, self.joints, self.springs, self.beams, self.contacts, self.forces)
        for item in _walk((*groups, self.constraints, self.guards)):
            if found.setdefault(item.name, item) != item:
                raise InvalidMechanism(
                    f"mechanism {self.name!r}: two tunables are named {item.name!r} and differ; rename one"
                )
        return tuple(found[name] for name in sorted(found))

    @cached_property
    def characteristic_length(self) -> float:
        """Length, m, that scales constraint violations: the largest lever arm of a joint or constraint.

        The lever arm is the distance of an attachment point from the origin of its body, or the length of a Distance
        constraint. If all lever arms are zero, the characteristic length is 1 m.
        """
        points = [p for joint in self.joints for p in (joint.parent_point, joint.child_point)]
        for constraint in self.constraints:
            points += [getattr(constraint, name) for name in ("point_a", "point_b") if hasattr(constraint, name)]
        levers = [sum(c * c for c in point) ** 0.5 for point in points]
        levers += [c.length for c in self.constraints if isinstance(c, Distance)]
        return max(levers, default=0.0) or 1.0

    def law_key(self, force: CustomForce) -> str:
        """Hash that identifies the law of a force in this mechanism; raises InvalidMechanism for an invalid law."""
        return law_key(force, f"mechanism {self.name!r}", self.moving_joint_names, self.actuator_names)

    @cached_property
    def canonical_hash(self) -> str:
        """Hash of all that determines the equations of motion: names, order and numerical values of all parts.

        The hash does not depend on shapes for drawings, on the start state, on servos, on the values of tunables, or on
        limits; only the limits of joints with stops count.
        """
        drop = {"shapes", "ground", "arrows", "initial_q", "initial_v", "parameters", "lower", "upper", "effort_limit"}
        drop |= {"quaternion", "velocity_limit", "servo", "start", "open_start", "law", "motion", "states"}
        plain = _plain(self, drop)
        laws: list[object] = [
            [self.law_key(force), _plain(force.parameters, drop), [name for name, _ in force.states]]
            for force in self.forces
        ]
        laws += [motion_key(c.motion) for c in self.constraints if isinstance(c, PrescribedMotion) and c.motion]
        whole = [plain, laws] if laws else plain
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


def _limits(joint: Joint) -> str:
    if joint.lower is None and joint.upper is None:
        return ""
    low, high = ("" if each is None else f"{each:.4g}" for each in (joint.lower, joint.upper))
    return f"{low} .. {high} {joint.unit}"


PLAIN = {float, int, str}  # types that contain no parameters


def _walk(value: object) -> list[Tunable | CapturedParameter]:
    if isinstance(value, Tunable | CapturedParameter):
        return [value]
    if isinstance(value, tuple):
        if {*map(type, value)} <= PLAIN:
            return []
        return [found for item in value for found in _walk(item)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _walk(tuple(getattr(value, f.name) for f in dataclasses.fields(value)))
    return []


OPTIONAL_FIELDS = {*SWITCHING_FIELDS, "contacts", "forces", "pushable"}
# {class: fields that are left out of the hash while they have these defaults}
LATER: dict[type, Mapping[str, object]] = {
    Joint: LATER_FIELDS,
    JointSpring: LATER_SPRING_FIELDS,
    SphereContact: LATER_CONTACT_FIELDS,
    Rolling: {"friction": None, "load": None, "slip_angle": None},
}


def _plain(value: object, drop: set[str]) -> object:
    if isinstance(value, Tunable | CapturedParameter):
        return {type(value).__name__.lower(): value.name}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [f.name for f in dataclasses.fields(value) if f.name not in drop]
        later = next((fields for kind, fields in LATER.items() if isinstance(value, kind)), {})
        names = [name for name in names if name not in later or getattr(value, name) != later[name]]
        if isinstance(value, Joint):
            names += ["lower", "upper"] if value.stops is not None else []
        # empty optional fields are left out of the hash, so that kernels cached before the fields existed stay valid
        names = [name for name in names if name not in OPTIONAL_FIELDS or getattr(value, name)]
        return {"kind": type(value).__name__, **{n: _plain(getattr(value, n), drop) for n in names}}
    if isinstance(value, tuple):
        return [_plain(item, drop) for item in value]
    return float(value).hex() if isinstance(value, int | float) and not isinstance(value, bool) else value
