"""Constraints between a point of a body and a chain of equal segments, wherever along the chain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

from sim_core.mechanism.constraint_base import ConstraintBase, Expression, Frames
from sim_core.mechanism.quantities import Number, Positive, Vector3

ON_SEGMENT = 1e-9  # share of a segment at its end that counts as the next segment
FAR = 1e300  # m2, larger than any square of a distance
Place = tuple[Expression, Expression, Expression]  # position and rotation of a segment, number of segments before it


@runtime_checkable
class SegmentFrames(Protocol):
    """Frames that have the frame of one of many segments without conditional expressions of all of them."""

    def held(self, contact: ChainContact) -> tuple[Expression, Expression]:
        """Position and rotation of the segment at a contact's position."""

    def nearest(self, contact: ChainContact) -> Place:
        """Position and rotation of the segment nearest to a contact's point, and the number of segments before it."""


@dataclass(frozen=True, kw_only=True)
class ChainContact(ConstraintBase):
    """Constraint: a body-fixed point stays at a place of one of the segments of a chain, unit m.

    The segments are equal bodies, each of which extends by `length` along its x axis, from its origin to that of the
    next one. The position of a point along the chain is `length` for each segment before its own, plus the x coordinate
    in the frame of its own segment.

    coordinate  "along": the position along the chain is `at`; "across": the z coordinate in the segment's frame is `at`
    at          value; a guard that captures it finds the nearest segment
    position    position along the chain that tells the segment; the same number as `at` for "along"
    """

    name: str
    body: str
    segments: tuple[str, ...]
    length: Annotated[float, Positive("m")]
    coordinate: Literal["along", "across"]
    at: Number
    position: Number
    point: Vector3 = (0.0, 0.0, 0.0)

    has_length_rows = acts_on_point = True

    @property
    def connected(self) -> tuple[str, str] | None:
        return self.body, self.segments[0]

    def rows(self, frames: Frames, symbols: Any) -> Expression:
        return self._coordinate(self._held(frames, symbols), frames) - symbols.number(self.at)

    def captured(self, frames: Frames, symbols: Any, own: Expression) -> Expression:
        import casadi as ca  # only derivations need it

        nearest = self._nearest(frames)
        here = self._coordinate(nearest, frames)
        if self.coordinate == "across":
            return here
        # at a bend, the point may be beside both segments; its position stays on the nearest one
        before = self.length * nearest[2]
        return ca.fmin(ca.fmax(here, before), before + self.length * (1.0 - ON_SEGMENT))

    def direction(self, frames: Frames, symbols: Any) -> Expression:
        R = self._held(frames, symbols)[1]
        return R[:, 0] if self.coordinate == "along" else R[:, 2]

    def number_of(self, position: Expression) -> Expression:
        """Number of segments before the one at a position along the chain."""
        import casadi as ca  # only derivations need it

        return ca.fmin(ca.fmax(ca.floor(position / self.length), 0.0), len(self.segments) - 1.0)

    def square_distance(self, p: Expression, R: Expression, point: Expression) -> Expression:
        """Square of the distance of a point from a segment, whose frame has the position p and the rotation R."""
        import casadi as ca  # only derivations need it

        local = R.T @ (point - p)
        beside = local[0] - ca.fmin(ca.fmax(local[0], 0.0), self.length)
        return beside * beside + local[1] * local[1] + local[2] * local[2]

    def _held(self, frames: Frames, symbols: Any) -> Place:
        """Position and rotation of the segment at the constraint's position, and the number of segments before it."""
        k = self.number_of(symbols.number(self.position))
        if isinstance(frames, SegmentFrames):
            return *frames.held(self), k
        return self._chosen(frames, k)

    def _nearest(self, frames: Frames) -> Place:
        """Position and rotation of the segment nearest to the point, and the number of segments before it."""
        import casadi as ca  # only derivations need it

        if isinstance(frames, SegmentFrames):
            return frames.nearest(self)
        point, nearest, least = frames[self.body].point(self.point), ca.SX(0), ca.SX(FAR)
        for k, segment in enumerate(self.segments):
            square = self.square_distance(frames[segment].p, frames[segment].R, point)
            is_nearer = square < least
            nearest = ca.if_else(is_nearer, float(k), nearest)
            least = ca.if_else(is_nearer, square, least)
        return self._chosen(frames, nearest)

    def _chosen(self, frames: Frames, k: Expression) -> Place:
        """Position and rotation of the segment with the index k, and k."""
        import casadi as ca  # only derivations need it

        p, R = ca.SX.zeros(3), ca.SX.zeros(3, 3)
        for index, segment in enumerate(self.segments):
            chosen = ca.if_else(ca.fabs(k - index) < 0.5, 1.0, 0.0)
            p, R = p + chosen * frames[segment].p, R + chosen * frames[segment].R
        return p, R, k

    def _coordinate(self, place: Place, frames: Frames) -> Expression:
        p, R, k = place
        local = R.T @ (frames[self.body].point(self.point) - p)
        return local[0] + self.length * k if self.coordinate == "along" else local[2]
