"""Constraints of a wheel, disk or sphere on a plane: it touches the plane, and rolls on it without slip."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from sim_core import spatial
from sim_core.mechanism.constraint_base import ConstraintBase, Expression, Frames
from sim_core.mechanism.frozen import Frozen
from sim_core.mechanism.joints import GROUND, ORIGIN, Z
from sim_core.mechanism.quantities import CapturedParameter, NotNegative, Number, Positive, Vector3
from sim_core.spatial import perpendicular_axes

FLAT = 1e-6  # sine of the angle between axle and normal, below which a wheel lies flat
ROUNDING = 1e-15  # of the cosine of a right angle


@dataclass(frozen=True, kw_only=True)
class OnPlane(ConstraintBase):
    """A wheel, disk or sphere on a plane.

    center, radius  centre in the frame of `body`, and radius, m; radius 0: the point `center` itself
    axis            unit vector along the wheel's axle, in the frame of `body`; None for a sphere. The wheel is thin: it
                    touches the plane with its circle of this radius
    other           body of the plane, or the ground
    other_point     a point of the plane, in the frame of `other`, m
    normal          unit normal of the plane, in the frame of `other`, towards the wheel
    """

    name: str
    body: str
    center: Vector3 = ORIGIN
    radius: Annotated[float, NotNegative("m")] = 0.0
    axis: Vector3 | None = None
    other: str = GROUND
    other_point: Vector3 = ORIGIN
    normal: Vector3 = Z

    has_length_rows = True

    @property
    def connected(self) -> tuple[str, str]:
        """The wheel's body and the body of the plane."""
        return self.body, self.other

    @property
    def place(self) -> tuple[object, ...]:
        """The fields that say which point touches which plane."""
        return self.body, self.center, self.radius, self.axis, self.other, self.other_point, self.normal

    def axes(self, frames: Frames) -> tuple[Expression, Expression, Expression]:
        """World unit vectors: the direction in which the wheel rolls, along the axle in the plane, and the normal.

        For a sphere, the first two are any directions that are fixed to the plane.
        """
        plane = frames[self.other]
        normal = plane.axis(self.normal)
        if self.axis is None:
            e1, e2 = perpendicular_axes(self.normal)
            return plane.axis(e1), plane.axis(e2), normal
        along = spatial.cross(frames[self.body].axis(self.axis), normal)
        along = along / spatial.dot(along, along) ** 0.5
        return along, spatial.cross(normal, along), normal

    def arm(self, frames: Frames) -> Expression:
        """World vector (3,) from the centre to the lowest point of the wheel, m."""
        along, _, normal = self.axes(frames)
        up = normal if self.axis is None else spatial.cross(along, frames[self.body].axis(self.axis))
        return -self.radius * up

    def height(self, frames: Frames) -> Expression:
        """Height of the lowest point of the wheel above the plane, m."""
        lowest = frames[self.body].point(self.center) + self.arm(frames)
        return spatial.dot(frames[self.other].axis(self.normal), lowest - frames[self.other].point(self.other_point))


@dataclass(frozen=True, kw_only=True)
class Touching(OnPlane):
    """Constraint: a wheel, disk or sphere touches a plane, which also holds it: the height of its lowest point is 0, m.

    A ContactForceOutput gives the load: the force, N, of the plane on the wheel along the normal, negative if the plane
    pulls. The fields are those of `OnPlane`.
    """

    def rows(self, frames: Frames, symbols: Any) -> Expression:
        return self.height(frames)


@dataclass(frozen=True, kw_only=True)
class Rolling(OnPlane):
    """Nonholonomic constraint: the point of a wheel, disk or sphere at the plane does not slip along the plane, m/s.

    Let t be the direction in which the wheel rolls, n the plane's normal and s = n x t, along the axle. Without
    rollers, the velocity of the contact point relative to the plane is zero along t and s. A wheel with rollers on its
    rim slides freely across their axes: the velocity is zero only along cos(rollers) t + sin(rollers) s, the direction
    of the axis of the roller on the plane. A skate is the case radius 0 and rollers pi/2: its point does not move along
    `axis`. A Touching with the same fields keeps the wheel on the plane, unless joints do.

    With `friction`, the wheel slips: the constraint holds while the force along the plane is at most friction times the
    load. An event releases it when the force becomes larger; then the force is friction times the load, against the
    slip. Another event engages it again when the slip has come to zero. A start with slip is a start in which the wheel
    slips. Events take effect at the end of a time step.

    rollers    angle of the axes of the rollers from t, rad: 0 for an omni wheel, +-pi/4 for a mecanum wheel; None for a
               wheel without rollers
    friction   friction coefficient between wheel and plane; None: the wheel never slips
    load       normal force on the wheel, N; None: that of the Touching with the same fields
    slip_angle  angle, rad, of the slip from t towards s at the last event; `with_slip` adds it
    """

    rollers: float | None = None
    friction: Annotated[Number, Positive()] | None = None
    load: Annotated[Number, Positive("N")] | None = None
    slip_angle: CapturedParameter | None = None

    @property
    def is_nonholonomic(self) -> bool:
        return True

    def directions(self, frames: Frames) -> list[Expression]:
        """World directions (3,) along which the contact point does not slip."""
        along, across, _ = self.axes(frames)
        if self.rollers is None:
            return [along, across]
        c, s = math.cos(self.rollers), math.sin(self.rollers)
        return [(c if abs(c) > ROUNDING else 0.0) * along + s * across]

    def rows(self, frames: Frames, symbols: Any) -> Expression:
        slip = self.slip(frames, symbols)
        return spatial.column([spatial.dot(direction, slip) for direction in self.directions(frames)])

    def slip(self, frames: Frames, symbols: Any) -> Expression:
        """World velocity (3,) of the lowest point of the wheel relative to the plane, m/s."""
        import casadi as ca  # only derivations need it

        wheel, plane = frames[self.body], frames[self.other]
        center, arm, origin = wheel.point(self.center), self.arm(frames), plane.p
        slip = ca.jtimes(center - origin, symbols.q, symbols.v) + spatial.cross(wheel.w_W, arm)
        return slip - spatial.cross(plane.w_W, center + arm - origin)

    def displaced(self, frames: Frames, moved: Frames) -> Expression:
        """Slip, m, along each of the `directions`, of small displacements of the bodies from `frames` to `moved`."""
        contact = frames[self.body].point(self.center) + self.arm(frames)
        ends = []
        for name in (self.body, self.other):
            here, there = frames[name], moved[name]
            ends.append(there.p + there.R @ (here.R.T @ (contact - here.p)))
        return spatial.column([spatial.dot(direction, ends[0] - ends[1]) for direction in self.directions(frames)])


@dataclass(frozen=True, kw_only=True)
class SlipOutput(Frozen):
    """Outputs `name`_along, `name`_across: velocity of the lowest point of a wheel relative to the plane, m/s.

    The first is along the direction in which the wheel rolls, the second along its axle. A wheel with rollers moves
    freely across the axes of the rollers without slip.

    constraint  name of a Rolling
    """

    name: str
    constraint: str


def touching_of(wheel: OnPlane, constraints: Iterable[object]) -> Touching | None:
    """The Touching with the same fields as `wheel`, or None."""
    same = [each for each in constraints if isinstance(each, Touching) and each.place == wheel.place]
    return same[0] if same else None


@dataclass(frozen=True)
class _Pose:
    """Position p (3,), m, and rotation R (3, 3) of a body, as numbers."""

    p: np.ndarray
    R: np.ndarray

    def point(self, point: Vector3) -> np.ndarray:
        return np.asarray(self.p + self.R @ np.array(point))

    def axis(self, axis: Vector3) -> np.ndarray:
        return np.asarray(self.R @ np.array(axis))


def lowest_points(
    wheels: Sequence[OnPlane], bodies: Sequence[str], positions: np.ndarray, rotations: np.ndarray
) -> list[float]:
    """Height, m, of each wheel's lowest point above its plane; nan for a wheel that lies flat.

    bodies                names of the bodies
    positions, rotations  of the bodies in the world, (n, 3), m, and (n, 3, 3)
    """
    poses = {GROUND: _Pose(np.zeros(3), np.eye(3))}
    poses |= {name: _Pose(p, R) for name, p, R in zip(bodies, positions, rotations, strict=True)}
    flat = [
        wheel.axis is not None
        and bool(
            np.linalg.norm(np.cross(poses[wheel.body].axis(wheel.axis), poses[wheel.other].axis(wheel.normal))) < FLAT
        )
        for wheel in wheels
    ]
    return [math.nan if lies else float(wheel.height(poses)) for wheel, lies in zip(wheels, flat, strict=True)]
