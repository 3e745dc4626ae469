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

    A gear pair, a joint that follows another (URDF's mimic) or a tendon of fixed length over pulleys. With the
    multiplier lam, the effort on a joint is -factor * lam.

    terms  (joint, factor)
    """

    name: str
    terms: tuple[tuple[str, float], ...]
    offset: Number = 0.0


@dataclass(frozen=True, kw_only=True)
class PrescribedMotion(Frozen):
    """Constraint: a joint, or a body-fixed point along a world axis, follows a motion given over time or by an input.

    joint   name of the joint; or
    body, point, axis  a body-fixed point and a world unit vector: the coordinate axis . r, m
    motion  function of time t, s, a CasADi expression: the position, rad or m; twice differentiable; or
    input   name of an actuator without a joint, whose command is the velocity, rad/s or m/s, held over a step
    The start has to be on the motion. The constraint does work; a ReactionOutput gives its effort or force.
    """

    name: str
    joint: str = ""
    body: str = ""
    point: Vector3 = (0.0, 0.0, 0.0)
    axis: Vector3 = (0.0, 0.0, 1.0)
    motion: Callable[[Any], Any] | None = None
    input: str = ""
