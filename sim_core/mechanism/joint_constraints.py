"""Constraints on joint positions: linear relations between joints, and motions given over time or by an input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sim_core.mechanism.frozen import Frozen
from sim_core.mechanism.quantities import Number, Vector3


@dataclass(frozen=True, kw_only=True)
class JointRelation(Frozen):
    """Constraint: a linear relation of joint positions, the sum of factor * position over `terms` equals `offset`.

    Examples: a gear pair, a joint that follows another (URDF's mimic), a tendon of fixed length over pulleys; with a
    single term, a joint that is held at a position. The constraint exerts the effort -factor * lam on each joint, where
    lam is the constraint's Lagrange multiplier.

    terms  (name of a joint, factor) of each term
    """

    name: str
    terms: tuple[tuple[str, float], ...]
    offset: Number = 0.0


@dataclass(frozen=True, kw_only=True)
class PrescribedMotion(Frozen):
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
