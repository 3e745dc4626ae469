"""Verdict of a fit by output error, as data for verdict.json and for the page."""

from __future__ import annotations

import msgspec


class ActuationVerdict(msgspec.Struct, kw_only=True):
    """An unknown of the actuation or of a joint, with its interval of 95 %.

    kind      "zero", "backlash" (rad or m), "gain", "stiffness" (relative), "delay" (s), or a kind of friction
    is_found  whether it differs from 0, beyond chance among all of its table
    """

    name: str
    kind: str
    value: float
    low: float
    high: float
    is_found: bool


class JointError(msgspec.Struct, kw_only=True):
    """Rms error, rad or m, of a joint's positions in the held-out part, predicted from the start of each segment."""

    name: str
    before: float
    after: float


class OutputErrorVerdict(msgspec.Struct, kw_only=True):
    """Result of a fit by output error.

    segment_s   length of a segment; each has a fitted start
    segments    number of fitted segments
    outcome     "better", "not better" or "not certain": prediction of the held-out part; if it is not better for
                certain, nothing counts as found
    actuation   zeros, gains, delays, backlashes and stiffnesses that can be known
    friction    viscous (N m s/rad), Coulomb (N m), constant (N m) and rotor (kg m2), or the units of a sliding joint
    """

    segment_s: float
    segments: int
    outcome: str
    joints: list[JointError]
    actuation: list[ActuationVerdict]
    friction: list[ActuationVerdict]
