"""Joints of a mechanism, and the elements of a joint that exert an effort: spring, dry friction, stops."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

from sim_core.mechanism.frozen import Frozen
from sim_core.mechanism.quantities import NotNegative, Number, Positive, Vector3
from sim_core.spatial import perpendicular_axes

Matrix3 = tuple[Vector3, Vector3, Vector3]

GROUND = "ground"
X: Vector3 = (1.0, 0.0, 0.0)
Y: Vector3 = (0.0, 1.0, 0.0)
Z: Vector3 = (0.0, 0.0, 1.0)
ORIGIN: Vector3 = (0.0, 0.0, 0.0)
IDENTITY: Matrix3 = (X, Y, Z)
Quaternion = tuple[float, float, float, float]
IDENTITY_QUATERNION: Quaternion = (1.0, 0.0, 0.0, 0.0)

JointKind = Literal["revolute", "prismatic", "planar", "fixed", "spherical", "free"]


@dataclass(frozen=True, kw_only=True)
class Freedom:
    """Degrees of freedom of a kind of joint, from the parent to the child: translations, then a rotation.

    slides       function of the joint's axis that returns the directions of the translations, in the parent's axes
    turns        whether the joint rotates about its axis, by one coordinate
    is_oriented  whether the joint has every rotation: its orientation is a quaternion
    endings      endings of the names of the coordinates; a joint with the ending "" gives the coordinate its own name
    without      names of the fields of Joint that a joint of the kind cannot have
    instead      remedy for a joint with such a field, for the error message
    """

    slides: Callable[[Vector3], tuple[Vector3, ...]] = lambda axis: ()
    turns: bool = False
    is_oriented: bool = False
    endings: tuple[str, ...] = ("",)
    without: tuple[str, ...] = ()
    instead: str = "use a CustomForce instead"


FREEDOMS: dict[JointKind, Freedom] = {
    "revolute": Freedom(turns=True),
    "prismatic": Freedom(slides=lambda axis: (axis,)),
    "planar": Freedom(slides=perpendicular_axes, turns=True, endings=("x", "y", "theta")),
    "fixed": Freedom(endings=(), without=("spring", "friction", "stops", "armature"), instead="remove these parts"),
    "spherical": Freedom(is_oriented=True, endings=("rx", "ry", "rz"), without=("load", "lower")),
    "free": Freedom(
        slides=lambda axis: IDENTITY,
        is_oriented=True,
        endings=("x", "y", "z", "rx", "ry", "rz"),
        without=("load", "stops", "lower", "upper"),
    ),
}
UNKNOWN = Freedom()  # of a kind that `validate` refuses


@dataclass(frozen=True, kw_only=True)
class JointSpring(Frozen):
    """A torsional or linear spring between the parent and the child of a joint.

    At joint position q, the spring exerts the effort F0 - k (q - q0) - k3 (q - q0)^3, N m or N, and stores the energy
    k (q - q0)^2 / 2 + k3 (q - q0)^4 / 4 - F0 (q - q0), J.

    stiffness        k, N m/rad or N/m
    cubic            k3, N m/rad^3 or N/m^3; with k3 above 0 the spring stiffens with its deflection
    rest             q0, rad or m; 0 in a spherical or free joint
    preload          F0, effort at the rest position, N m or N; 0 in a spherical or free joint
    rest_quaternion  rest orientation w x y z of a spherical or free joint, in the sense of the joint's `quaternion`
    rest_point       rest position of a free joint, m, in the sense of its coordinates .x .y .z

    In a spherical or free joint, the spring exerts the moment -(k + k3 r.r) r on the child, where r is the rotation
    vector, rad, from the rest orientation, at most pi long; the energy is k r.r / 2 + k3 (r.r)^2 / 4. In a free joint
    it also exerts the force -(k + k3 d.d) d, where d is the displacement, m, from the rest position, with the same
    numbers k and k3 in N/m and N/m^3. This is the `stiffness` of ball and free joints in MuJoCo.
    """

    stiffness: Annotated[Number, NotNegative()] = 0.0
    cubic: Annotated[Number, NotNegative()] = 0.0
    rest: Number = 0.0
    preload: Number = 0.0
    rest_quaternion: Quaternion = IDENTITY_QUATERNION
    rest_point: Vector3 = ORIGIN


@dataclass(frozen=True, kw_only=True)
class JointFriction(Frozen):
    """Dry friction of a joint: Coulomb friction with the Stribeck effect; viscous friction is the joint's `damping`.

    In steady sliding at speed v the effort is g(v) = Fc + (Fs - Fc) exp(-(v / v_S)^2), against the motion.
    Without `bristle_stiffness`, the effort is regularized: it is -g(v) tanh(v / v_0). A joint under a load below Fs
    then creeps, at most at the speed v_0 artanh(load / Fs).
    With `bristle_stiffness`, the deflection z of a bristle is a first-order state `NAME.bristle`, rad or m, and the
    effort is -(s0 z + s1 dz/dt), with |z| at most g(v) / s0. A joint under a load below Fs sticks: z follows the
    joint's displacement elastically while |z| is below `elastic_share` times g(v) / s0. [DupontEtAl2002]
    A spherical or free joint can have only regularized friction. It acts on each component of the child's angular
    velocity, in the child's axes, separately from the others, and in a free joint also on the velocity along each of
    the parent's axes, with the same numbers in N and m/s. This is the `frictionloss` of ball and free joints in MuJoCo.

    coulomb             Coulomb friction Fc, N m or N
    static              static friction Fs, N m or N, at least Fc; by default Fc
    stribeck_velocity   v_S, rad/s or m/s
    smoothing_velocity  v_0, rad/s or m/s; not used with bristles
    bristle_stiffness   s0, N m/rad or N/m; None for friction without bristles
    bristle_damping     s1, N m s/rad or N s/m
    elastic_share       share of the largest deflection below which a bristle does not slip, above 0 and below 1
    relaxation_rate     r, 1/s: upper bound of the rate s0 |v| / g(v) at which z approaches its value in steady sliding,
                        so that step sizes up to 1 / r remain possible in fast sliding; [DupontEtAl2002] has no such
                        bound
    """

    coulomb: Annotated[Number, NotNegative()]
    static: Number | None = None
    stribeck_velocity: Annotated[Number, Positive()] = 0.01
    smoothing_velocity: Annotated[Number, Positive()] = 1e-3
    bristle_stiffness: Annotated[Number, Positive()] | None = None
    bristle_damping: Annotated[Number, NotNegative()] = 0.0
    elastic_share: float = 0.7
    relaxation_rate: Annotated[Number, Positive()] = 500.0


@dataclass(frozen=True, kw_only=True)
class JointStops(Frozen):
    """Compliant stops at a joint's `lower` and `upper` limits, unilateral: they push back and never pull.

    At a depth x beyond a limit, the stop exerts the effort k x^n max(0, 1 + 3/2 c dx/dt) back towards the limit, and
    stores the energy k x^(n+1) / (n+1).
    `dissipation_for` gives c for a coefficient of restitution. [HuntCrossley1975, eq. 11]
    The stop of a spherical joint acts where the rotation angle exceeds `upper`, as a moment about the axis of the
    rotation. x is then the excess of the angle, rad.

    stiffness    k, N m/rad^n or N/m^n
    dissipation  c, s/rad or s/m
    exponent     n: 1, 1.5 (Hertz: an elastic sphere), 2 or 3; the larger, the smoother the onset
    """

    stiffness: Annotated[Number, Positive()]
    dissipation: Annotated[Number, NotNegative()] = 0.0
    exponent: float = 1.5


@dataclass(frozen=True, kw_only=True)
class Joint(Frozen):
    """A joint between the bodies `parent` and `child`.

    kind                       "revolute": rotation about the axis; "prismatic": translation along the axis; "planar":
                               two translations perpendicular to the axis and a rotation about the axis; "fixed": no
                               motion; "spherical": every rotation about the joint's point; "free": every rotation, and
                               translations along the parent's axes
    parent_point, child_point  the joint's point in the parent's and in the child's frame, m
    axis                       unit vector in the parent's frame
    rotation                   R_PC, from the child's axes to the parent's, at joint position 0
    quaternion                 orientation w x y z of a spherical or free joint at the start, with
                               R_PC = rotation R(quaternion); the velocities of its three rotational coordinates are the
                               child's angular velocity relative to the parent, in the child's axes (NOTATION.md)
    lower, upper               limits for commands and displays, rad or m; with `stops` they also stop the joint. A
                               spherical joint can have only `upper`, below pi: the largest angle, rad, of the single
                               rotation that leads from the quaternion 1 0 0 0 to the joint's orientation
    damping                    viscous damping, N m s/rad or N s/m; in a free joint, the same number counts for rotation
                               (N m s/rad) and translation (N s/m)
    load                       constant effort along the joint, N m or N
    armature                   inertia of a rotor behind a gear as seen at the joint, kg m2 or kg, that is, the gear
                               ratio squared times the rotor's inertia; it adds armature * (joint velocity)^2 / 2 to the
                               kinetic energy. In a spherical joint it is kg m2 about every axis, in a free joint the
                               same number also counts as kg

    In a planar joint, limits, damping, load and armature concern the rotation alone.
    """

    name: str
    kind: JointKind = "revolute"
    parent: str = GROUND
    child: str = ""
    parent_point: Vector3 = ORIGIN
    child_point: Vector3 = ORIGIN
    axis: Vector3 = Z
    rotation: Matrix3 = IDENTITY
    damping: Annotated[Number, NotNegative("N m s", of_length="N s/m")] = 0.0
    load: Number = 0.0
    lower: float | None = None
    upper: float | None = None
    armature: Annotated[Number, NotNegative("kg m2", of_length="kg")] = 0.0
    spring: JointSpring | None = None
    friction: JointFriction | None = None
    stops: JointStops | None = None
    quaternion: Quaternion = IDENTITY_QUATERNION

    @property
    def freedom(self) -> Freedom:
        """Degrees of freedom of the joint's kind."""
        return FREEDOMS.get(self.kind, UNKNOWN)

    @property
    def is_fixed(self) -> bool:
        """Whether the joint permits no motion."""
        return not self.freedom.endings

    @property
    def turns(self) -> bool:
        """Whether the joint rotates about its axis: a revolute or planar joint."""
        return self.freedom.turns

    @property
    def is_oriented(self) -> bool:
        """Whether the joint's orientation is a quaternion: a spherical or free joint."""
        return self.freedom.is_oriented

    @property
    def is_free(self) -> bool:
        """Whether the joint permits every rotation and translation: a free joint."""
        return self.is_oriented and bool(self.slides)

    @property
    def is_planar(self) -> bool:
        """Whether the joint rotates about its axis and translates along two directions: a planar joint."""
        return self.turns and len(self.slides) == 2

    @property
    def slides(self) -> tuple[Vector3, ...]:
        """Directions of the joint's translations, in the parent's axes, in the order of its coordinates."""
        return self.freedom.slides(self.axis)

    @property
    def is_length(self) -> bool:
        """Whether the joint's position is a length: a prismatic joint."""
        return bool(self.slides) and not self.turns and not self.is_oriented

    @property
    def coordinates(self) -> tuple[str, ...]:
        """Names of the joint's coordinates.

        The coordinate of a joint with one coordinate has the joint's name. The coordinates of a planar joint end in .x
        .y .theta, the orientation of a spherical or free joint in .rx .ry .rz. A fixed joint has no coordinates.
        """
        return tuple(f"{self.name}.{end}" if end else self.name for end in self.freedom.endings)

    @property
    def orientation_names(self) -> tuple[str, ...]:
        """Names of the parameters with the quaternion w x y z of a spherical or free joint; empty for other joints."""
        return tuple(f"{self.name}.q{part}" for part in "wxyz") if self.is_oriented else ()

    @property
    def unit(self) -> str:
        """Unit of the joint's position: "m" for a prismatic joint, otherwise "rad"."""
        return "m" if self.is_length else "rad"

    @property
    def bristle(self) -> str:
        """Name of the first-order state of the joint's friction with bristles; "" if the joint has no such friction."""
        sticks = self.friction is not None and self.friction.bristle_stiffness is not None
        return f"{self.name}.bristle" if sticks else ""


# fields of Joint that leave the canonical hash as it is while they have their defaults
LATER_FIELDS = {"armature": 0.0, "spring": None, "friction": None, "stops": None}
# the same for fields of JointSpring
LATER_SPRING_FIELDS = {"rest_quaternion": IDENTITY_QUATERNION, "rest_point": ORIGIN}


def stiffness_for(inertia: float, exponent: float = 1.5, rate: float = 400.0, speed: float = 1.0) -> float:
    """Stiffness k, N/m^n or N m/rad^n, for which an impact has a given circular frequency.

    inertia   effective mass, kg, or inertia, kg m2, of the body that hits the stop or contact
    exponent  n of the contact force k x^n
    rate      circular frequency, rad/s, at which the body vibrates on the contact force, linearized at the largest
              depth of the impact. RK4 with a step size of 1 ms is stable for rate^2 up to 8e6 1/s2; with the default,
              rate^2 is 1.6e5 1/s2, a fiftieth of this limit
    speed     speed of the impact, m/s or rad/s
    """
    # rate^2 = n k x^(n-1) / m at the depth x of m speed^2 / 2 = k x^(n+1) / (n+1), solved for k
    half = (exponent + 1.0) / 2.0
    return float(inertia * (rate**2 / exponent) ** half / (half * speed**2) ** (half - 1.0))


def dissipation_for(restitution: float, speed: float) -> float:
    """Dissipation c, s/m or s/rad, that gives a coefficient of restitution e at an impact speed, m/s or rad/s.

    Valid for a contact force k x^n (1 + 3/2 c dx/dt) between free bodies. With d = 3/2 c speed, c is the solution of
    1 + d = (1 - e d) exp(d (1 + e)), which follows from integrating v dv / (1 + 3/2 c v) over the impact. Raises
    ValueError unless 0 < e <= 1 and speed > 0.
    """
    if not (0.0 < restitution <= 1.0 and speed > 0.0):
        raise ValueError(
            f"restitution is {restitution} and speed is {speed}; restitution must be above 0 and at most 1, and speed "
            "must be above 0"
        )
    if restitution == 1.0:
        return 0.0
    # the root lies below 1 / e, where 1 - e d = 0, and above 0, which is the trivial root
    low, high = 0.0, 1.0 / restitution
    while low < (d := 0.5 * (low + high)) < high:
        left = 1.0 - restitution * d
        excess = -1.0 if left <= 0.0 else math.log(left) + d * (1.0 + restitution) - math.log1p(d)
        low, high = (d, high) if excess > 0.0 else (low, d)
    return 0.5 * (low + high) / (1.5 * speed)
