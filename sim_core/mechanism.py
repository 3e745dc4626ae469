"""Frozen description of a mechanism: bodies, joints, constraints, springs, actuators. Names and SI numbers alone.

One description serves both coordinate families: in "absolute" coordinates every body has its own coordinates and the
joints become constraints; in "joint" coordinates the joints of a tree are the coordinates and what closes loops is a
constraint.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from sim_core.errors import InvalidMechanism, UnknownName
from sim_core.flexible.description import Beam, BeamContact, ContactForceOutput, DeflectionOutput

Vector3 = tuple[float, float, float]
Matrix3 = tuple[Vector3, Vector3, Vector3]

GROUND = "ground"
X: Vector3 = (1.0, 0.0, 0.0)
Y: Vector3 = (0.0, 1.0, 0.0)
Z: Vector3 = (0.0, 0.0, 1.0)
ORIGIN: Vector3 = (0.0, 0.0, 0.0)
IDENTITY: Matrix3 = (X, Y, Z)
IDENTITY_QUATERNION = (1.0, 0.0, 0.0, 0.0)

COORDINATES = {
    "planar": ("x", "y", "theta"),
    "zxz": ("x", "y", "z", "phi", "theta", "psi"),
    "euler_parameters": ("x", "y", "z", "e0", "e1", "e2", "e3"),
}


@dataclass(frozen=True)
class Tunable:
    """A number that stays an input of the kernels, so that it can change while a simulation runs."""

    name: str
    value: float


Number = float | Tunable


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A drawable part of a body: "line" by points (3n,), "box" by size, "sphere" (radius,), "cylinder" (radius, l)."""

    kind: str
    points: tuple[float, ...] = ()
    size: tuple[float, ...] = ()
    position: Vector3 = ORIGIN
    quaternion: tuple[float, float, float, float] = IDENTITY_QUATERNION
    color: str = ""


@dataclass(frozen=True, kw_only=True)
class Body:
    """A rigid body. `inertia` is Ixx, Iyy, Izz, Ixy, Ixz, Iyz about the centre of mass, in the body's axes, kg m2.

    orientation  how absolute coordinates write it; unused in joint coordinates
    free         which of its absolute coordinates vary; the others stay at `placement` (same order as COORDINATES)
    """

    name: str
    mass: Number
    inertia: tuple[Number, Number, Number, Number, Number, Number]
    center_of_mass: Vector3 = ORIGIN
    orientation: Literal["planar", "zxz", "euler_parameters"] = "planar"
    free: tuple[str, ...] | None = None
    placement: tuple[float, ...] = ()
    shapes: tuple[Shape, ...] = ()

    @property
    def free_coordinates(self) -> tuple[str, ...]:
        """The coordinate names of this body that vary, in the order of COORDINATES."""
        return COORDINATES[self.orientation] if self.free is None else self.free


@dataclass(frozen=True, kw_only=True)
class Joint:
    """A joint between `parent` and `child`.

    Its point is `parent_point` in the parent's frame and `child_point` in the child's; `axis` is a unit vector in the
    parent's frame; at joint position 0 the child's axes are `rotation` = R_PC. Revolute: R_PC = turn(axis, q) rotation.
    "planar" moves along e1, e2 perpendicular to the axis and turns about it; "fixed" does not move.
    `damping` brakes it, N m s or N s/m; `load` is a constant effort along it, N m or N.
    """

    name: str
    kind: Literal["revolute", "prismatic", "planar", "fixed"] = "revolute"
    parent: str = GROUND
    child: str = ""
    parent_point: Vector3 = ORIGIN
    child_point: Vector3 = ORIGIN
    axis: Vector3 = Z
    rotation: Matrix3 = IDENTITY
    damping: Number = 0.0
    load: Number = 0.0
    lower: float | None = None
    upper: float | None = None

    @property
    def unit(self) -> str:
        """Unit of the joint's position."""
        return "m" if self.kind == "prismatic" else "rad"


@dataclass(frozen=True, kw_only=True)
class Coincidence:
    """Two points meet: r_a - r_b = 0 along the world `directions`."""

    name: str
    body_a: str
    point_a: Vector3
    body_b: str
    point_b: Vector3
    directions: tuple[Vector3, ...] = (X, Y, Z)


@dataclass(frozen=True, kw_only=True)
class Perpendicular:
    """Two body-fixed axes stay at right angles: axis_a . axis_b = 0."""

    name: str
    body_a: str
    axis_a: Vector3
    body_b: str
    axis_b: Vector3


@dataclass(frozen=True, kw_only=True)
class Slider:
    """A point of body b stays where it is along a body-fixed axis of a: axis_a . (r_b - r_a) = 0."""

    name: str
    body_a: str
    point_a: Vector3
    axis_a: Vector3
    body_b: str
    point_b: Vector3


@dataclass(frozen=True, kw_only=True)
class Distance:
    """Two points keep their distance: (|r_a - r_b|^2 - length^2) / (2 length) = 0, unit m."""

    name: str
    body_a: str
    point_a: Vector3
    body_b: str
    point_b: Vector3
    length: float


@dataclass(frozen=True, kw_only=True)
class UnitNorm:
    """The Euler parameters of a body keep their norm: e'e - 1 = 0. Added by the derivation."""

    name: str
    body: str


@dataclass(frozen=True, kw_only=True)
class SpinRelation:
    """Nonholonomic: sum of factor * (w_WB_B . axis) over (body, axis, factor) is zero, as in a gear mesh."""

    name: str
    terms: tuple[tuple[str, Vector3, float], ...]


Constraint = Coincidence | Perpendicular | Slider | Distance | UnitNorm | SpinRelation | BeamContact


@dataclass(frozen=True, kw_only=True)
class Servo:
    """The gains of an actuator's own loop: `stiffness` N m/rad or N/m, `damping` N m s/rad or N s/m."""

    stiffness: float
    damping: float


@dataclass(frozen=True, kw_only=True)
class Actuator:
    """An effort (N or N m) along a declared joint; positive effort speeds the joint up in its positive sense.

    With a `servo` it takes velocities and positions too, see `sim_core.servo`. Positions are limited by its joint.
    """

    name: str
    joint: str
    effort_limit: float | None = None
    unit: str = "N m"
    velocity_limit: float | None = None
    servo: Servo | None = None

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes of command that it takes."""
        return ("effort",) if self.servo is None else ("effort", "velocity", "position")


@dataclass(frozen=True, kw_only=True)
class Spring:
    """A linear spring and damper on the line between a point of a and a point of b (bodies or ground).

    `stiffness` N/m, `rest_length` m, `damping` N s/m. With l their distance it pulls with k (l - l0) + c dl/dt and
    stores k (l - l0)^2 / 2. Where the points meet the line has no direction: they may only with l0 and c zero.
    """

    name: str
    body_a: str
    point_a: Vector3
    body_b: str
    point_b: Vector3
    stiffness: Number
    rest_length: Number = 0.0
    damping: Number = 0.0


@dataclass(frozen=True, kw_only=True)
class PointOutput:
    """World coordinates of a body-fixed point as outputs `name`_x, `name`_y, `name`_z (those of `axes`)."""

    name: str
    body: str
    point: Vector3 = ORIGIN
    axes: str = "xyz"


@dataclass(frozen=True, kw_only=True)
class JointOutput:
    """The position of a declared joint as the output `name`: relative to its parent, unwrapped by a simulation."""

    name: str
    joint: str


@dataclass(frozen=True, kw_only=True)
class ForceArrow:
    """For pictures: the force, N, that acts on `body` at `point`, from outputs: each along its world unit vector."""

    name: str
    body: str
    outputs: tuple[str, ...]
    axes: tuple[Vector3, ...]
    point: Vector3 = ORIGIN


Output = PointOutput | JointOutput | DeflectionOutput | ContactForceOutput


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """Which constraints hold: all when `constraints` is None. Joint constraints carry their joint's name."""

    name: str = "default"
    constraints: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """A guard: a point's world coordinate along `axis` crosses `level` (direction +1 rising, -1 falling, 0 both).

    It is watched in configuration `source` and leads to `target`; `impact` says what happens to the velocities:
    "inelastic" projects them on the target's constraints by impulses, "none" leaves them.
    """

    name: str
    source: str
    target: str
    body: str
    point: Vector3 = ORIGIN
    axis: Vector3 = Y
    level: float = 0.0
    direction: int = 0
    impact: Literal["inelastic", "none"] = "inelastic"


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """A whole mechanism and the state it starts from.

    formulation           how the constrained equations are solved: "schur" eliminates a, then solves for lam;
                          "augmented" solves for both at once; "partitioned" eliminates lam and the dependent coordinate
                          of a beam contact in closed form, "partitioned_as_printed" with the force of the paper
    initial_q, initial_v  in the order of the coordinates of the derivation: bodies in order for "absolute", joints in
                          order for "joint"; then those of the beams
    parameters            the numbers it was built from, for people and recordings
    ground, arrows        for pictures alone: what stands still, and forces beside those of contacts
    """

    name: str
    coordinates: Literal["absolute", "joint"]
    bodies: tuple[Body, ...]
    joints: tuple[Joint, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    springs: tuple[Spring, ...] = ()
    beams: tuple[Beam, ...] = ()
    actuators: tuple[Actuator, ...] = ()
    outputs: tuple[Output, ...] = ()
    configurations: tuple[Configuration, ...] = (Configuration(),)
    guards: tuple[Crossing, ...] = ()
    gravity: Vector3 = (0.0, 0.0, -9.81)
    formulation: Literal["schur", "augmented", "partitioned", "partitioned_as_printed"] = "schur"
    initial_q: tuple[float, ...] = ()
    initial_v: tuple[float, ...] = ()
    parameters: dict[str, float] = field(default_factory=dict, hash=False)
    ground: tuple[Shape, ...] = ()
    arrows: tuple[ForceArrow, ...] = ()

    def body(self, name: str) -> Body:
        """The body of that name; UnknownName otherwise."""
        for body in self.bodies:
            if body.name == name:
                return body
        raise UnknownName(f"mechanism {self.name!r}", "body", name, [body.name for body in self.bodies])

    def joint(self, name: str) -> Joint:
        """The joint of that name; UnknownName otherwise."""
        for joint in self.joints:
            if joint.name == name:
                return joint
        raise UnknownName(f"robot {self.name!r}", "joint", name, [joint.name for joint in self.joints])

    @property
    def moving_joints(self) -> tuple[Joint, ...]:
        """The joints that have a position: all but the fixed ones. Their names are a robot's joint names."""
        return tuple(joint for joint in self.joints if joint.kind != "fixed")

    @cached_property
    def tunables(self) -> tuple[Tunable, ...]:
        """Every tunable number, each once, sorted by name."""
        found: dict[str, Tunable] = {}
        for item in _walk((self.bodies, self.joints, self.springs)):
            if found.setdefault(item.name, item) != item:
                raise InvalidMechanism(f"mechanism {self.name!r} gives tunable {item.name!r} two values")
        return tuple(found[name] for name in sorted(found))

    @cached_property
    def characteristic_length(self) -> float:
        """The largest lever in the description, m: the scale on which a constraint violation is large."""
        points = [p for joint in self.joints for p in (joint.parent_point, joint.child_point)]
        for constraint in self.constraints:
            points += [getattr(constraint, name) for name in ("point_a", "point_b") if hasattr(constraint, name)]
        levers = [sum(c * c for c in point) ** 0.5 for point in points]
        levers += [c.length for c in self.constraints if isinstance(c, Distance)]
        return max(levers, default=0.0) or 1.0

    @cached_property
    def canonical_hash(self) -> str:
        """A hash of what shapes the equations: names, numbers, order (not shapes, start or tunables' values)."""
        drop = {"shapes", "ground", "arrows", "initial_q", "initial_v", "parameters", "lower", "upper", "effort_limit"}
        drop |= {"velocity_limit", "servo"}
        return hashlib.sha256(json.dumps(_plain(self, drop), sort_keys=True).encode()).hexdigest()


def _walk(value: object) -> list[Tunable]:
    if isinstance(value, Tunable):
        return [value]
    if isinstance(value, tuple):
        return [found for item in value for found in _walk(item)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _walk(tuple(getattr(value, f.name) for f in dataclasses.fields(value)))
    return []


def _plain(value: object, drop: set[str]) -> object:
    if isinstance(value, Tunable):
        return {"tunable": value.name}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [f.name for f in dataclasses.fields(value) if f.name not in drop]
        return {"kind": type(value).__name__, **{n: _plain(getattr(value, n), drop) for n in names}}
    if isinstance(value, tuple):
        return [_plain(item, drop) for item in value]
    return float(value).hex() if isinstance(value, int | float) and not isinstance(value, bool) else value
