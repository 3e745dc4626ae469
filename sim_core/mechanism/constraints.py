"""Constraints of a mechanism: a class for each kind, with its fields and its rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from sim_core import spatial
from sim_core.errors import InvalidMechanism
from sim_core.mechanism.chains import ChainContact as ChainContact
from sim_core.mechanism.constraint_base import ConstraintBase, Expression, Frames
from sim_core.mechanism.joints import X, Y, Z
from sim_core.mechanism.quantities import NotNegative, Number, Positive, Vector3
from sim_core.mechanism.rolling import Rolling as Rolling
from sim_core.mechanism.rolling import Touching as Touching


@dataclass(frozen=True, kw_only=True)
class Coincidence(ConstraintBase):
    """Constraint: two points coincide along each of the world directions e in `directions`, e . (r_a - r_b) = 0."""

    name: str
    body_a: str
    point_a: Vector3
    body_b: str
    point_b: Vector3
    directions: tuple[Vector3, ...] = (X, Y, Z)

    has_length_rows = True

    def rows(self, frames: Frames, symbols: Any) -> Expression:
        gap = frames[self.body_a].point(self.point_a) - frames[self.body_b].point(self.point_b)
        return spatial.column([spatial.dot(direction, gap) for direction in self.directions])


@dataclass(frozen=True, kw_only=True)
class Perpendicular(ConstraintBase):
    """Constraint: two body-fixed axes stay at right angles, axis_a . axis_b = 0."""

    name: str
    body_a: str
    axis_a: Vector3
    body_b: str
    axis_b: Vector3

    def rows(self, frames: Frames, symbols: Any) -> Expression:
        return spatial.dot(frames[self.body_a].axis(self.axis_a), frames[self.body_b].axis(self.axis_b))


@dataclass(frozen=True, kw_only=True)
class Slider(ConstraintBase):
    """Constraint: a point of body b stays in a plane through a point of body a, axis_a . (r_b - r_a) = 0.

    The plane's normal axis_a is fixed to body a.
    """

    name: str
    body_a: str
    point_a: Vector3
    axis_a: Vector3
    body_b: str
    point_b: Vector3

    has_length_rows = True

    def rows(self, frames: Frames, symbols: Any) -> Expression:
        a, b = frames[self.body_a], frames[self.body_b]
        return spatial.dot(a.axis(self.axis_a), b.point(self.point_b) - a.point(self.point_a))


@dataclass(frozen=True, kw_only=True)
class Distance(ConstraintBase):
    """Constraint: two points keep their distance, (|r_a - r_b|^2 - length^2) / (2 length) = 0, unit m."""

    name: str
    body_a: str
    point_a: Vector3
    body_b: str
    point_b: Vector3
    length: Annotated[float, Positive("m", remedy="for points that coincide use Coincidence")]

    has_length_rows = True

    def rows(self, frames: Frames, symbols: Any) -> Expression:
        gap = frames[self.body_a].point(self.point_a) - frames[self.body_b].point(self.point_b)
        return (spatial.dot(gap, gap) - self.length**2) / (2 * self.length)


@dataclass(frozen=True, kw_only=True)
class UnitNorm(ConstraintBase):
    """Constraint: the Euler parameters e of a body have norm 1, e'e - 1 = 0.

    `sim_core.derivation` adds this constraint to the equations; a description does not need to contain it.
    """

    name: str
    body: str

    def rows(self, frames: Frames, symbols: Any) -> Expression:
        e = frames[self.body].e
        if e is None:
            raise InvalidMechanism(
                f"body {self.body!r} has no Euler parameters; remove the UnitNorm constraint of this body"
            )
        return spatial.dot(e, e) - 1


@dataclass(frozen=True, kw_only=True)
class SpinRelation(ConstraintBase):
    """Nonholonomic constraint, as in a gear mesh: the sum of factor * (w . axis) over `terms` is zero.

    w is the angular velocity of the term's body, in the frame of this body.

    terms  (body, axis in the body's frame, factor) of each term
    """

    name: str
    terms: tuple[tuple[str, Vector3, float], ...]

    @property
    def is_nonholonomic(self) -> bool:
        return True

    def rows(self, frames: Frames, symbols: Any) -> Expression:
        return sum(factor * spatial.dot(axis, frames[body].w) for body, axis, factor in self.terms)


@dataclass(frozen=True, kw_only=True)
class Anchored(ConstraintBase):
    """Constraint: the coordinate of a body-fixed point r along a world axis stays at `at`, m: axis . r - at = 0."""

    name: str
    body: str
    point: Vector3
    axis: Vector3
    at: Number

    has_length_rows = acts_on_point = True

    def rows(self, frames: Frames, symbols: Any) -> Expression:
        return spatial.dot(self.axis, frames[self.body].point(self.point)) - symbols.number(self.at)

    def direction(self, frames: Frames, symbols: Any) -> Expression:
        import casadi as ca  # only derivations need it

        return ca.SX(ca.DM(self.axis))


@dataclass(frozen=True, kw_only=True)
class JointRelation(ConstraintBase):
    """Constraint: a linear relation of joint positions, the sum of factor * position over `terms` equals `offset`.

    Examples: a gear pair, a joint that follows another (URDF's mimic), a tendon of fixed length over pulleys; with a
    single term, a joint that is held at a position. The constraint exerts the effort -factor * lam on each joint, where
    lam is the constraint's Lagrange multiplier.

    terms  (name of a joint, factor) of each term
    """

    name: str
    terms: tuple[tuple[str, float], ...]
    offset: Number = 0.0

    relates_joints = True

    def rows(self, frames: Frames, symbols: Any) -> Expression:
        terms = [factor * symbols.joints[joint].position for joint, factor in self.terms]
        return sum(terms, -symbols.number(self.offset))

    def rows_are_lengths(self, symbols: Any) -> bool:
        return all(symbols.joints[joint].is_length for joint, _ in self.terms)


@dataclass(frozen=True, kw_only=True)
class PrescribedMotion(ConstraintBase):
    """Constraint: a joint, or a body-fixed point along a world axis, follows a motion given over time or by an input.

    Give either `joint` or `body`, and either `motion` or `input`.

    joint              name of the joint
    body, point, axis  body-fixed point and world unit vector: the coordinate of the point along the axis, in m, follows
                       the motion
    motion             function that takes time t, s, and returns the position, rad or m, as a CasADi expression, twice
                       differentiable
    input              name of an actuator without a joint; its command is the velocity, rad/s or m/s, constant over a
                       time step. When the command changes, an impulse changes the velocity
    The initial position and velocity must agree with the motion, or the velocity with the `start` of the actuator. The
    constraint does work; a ReactionOutput gives the effort or force that the constraint exerts, without the impulses.
    """

    name: str
    joint: str = ""
    body: str = ""
    point: Vector3 = (0.0, 0.0, 0.0)
    axis: Vector3 = (0.0, 0.0, 1.0)
    motion: Callable[[Any], Any] | None = None
    input: str = ""

    relates_joints = True

    @property
    def is_nonholonomic(self) -> bool:
        return self.motion is None

    def rows(self, frames: Frames, symbols: Any) -> Expression:
        import casadi as ca  # only derivations need it

        if self.joint:
            joint = symbols.joints[self.joint]
            position, rate, wraps = joint.position, joint.rate, joint.wraps
        else:
            position = spatial.dot(self.axis, frames[self.body].point(self.point))
            rate, wraps = ca.jtimes(position, symbols.q, symbols.v), False
        if self.motion is None:
            return rate - symbols.inputs[self.input]
        gap = position - ca.SX(self.motion(symbols.t))
        return ca.atan2(ca.sin(gap), ca.cos(gap)) if wraps else gap

    def rows_are_lengths(self, symbols: Any) -> bool:
        return not self.joint or symbols.joints[self.joint].is_length


@dataclass(frozen=True, kw_only=True)
class BeamContact(ConstraintBase):
    """Constraint: a body-fixed point slides on a beam without friction, w(x) - p - offset = 0, unit m.

    x and p are the point's coordinates along the beam's `axis` and `direction`, w is the deflection at x averaged over
    `width`. The force acts perpendicular to the deflected beam, spread over the width. `dependent` names the coordinate
    that a "partitioned" formulation eliminates. [Lipinski2023, eq. 20]
    """

    name: str
    beam: str
    body: str
    point: Vector3 = (0.0, 0.0, 0.0)
    dependent: str = ""
    width: Annotated[float, NotNegative("m")] = 0.0
    offset: Number = 0.0

    has_length_rows = acts_on_point = True

    def rows(self, frames: Frames, symbols: Any) -> Expression:
        contact, _ = symbols.contacts[self.name]
        return contact.deflection - contact.across - symbols.number(self.offset)

    def direction(self, frames: Frames, symbols: Any) -> Expression:
        import casadi as ca  # only derivations need it

        contact, _ = symbols.contacts[self.name]
        return contact.slope * ca.DM(contact.axis) - ca.DM(contact.direction)


Constraint = (
    Coincidence
    | Perpendicular
    | Slider
    | Distance
    | UnitNorm
    | SpinRelation
    | Anchored
    | JointRelation
    | PrescribedMotion
    | BeamContact
    | ChainContact
    | Touching
    | Rolling
)
