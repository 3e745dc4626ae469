"""Contacts: compliant normal force and regularized friction between a sphere on a body and a plane or sphere."""

from __future__ import annotations

from dataclasses import dataclass

from sim_core.mechanism.frozen import Frozen
from sim_core.mechanism.joints import GROUND, ORIGIN, Z
from sim_core.mechanism.quantities import Number, Vector3


@dataclass(frozen=True, kw_only=True)
class SphereContact(Frozen):
    """Contact of a sphere on `body` with a plane or a sphere on `other`, a body or the ground.

    At a depth x the normal force is k x^n max(0, 1 + 3/2 c dx/dt); it stores k x^(n+1) / (n+1). Friction is
    -mu F_n v_t / sqrt(|v_t|^2 + v_s^2) with the sliding velocity v_t at the contact point: a load below mu F_n creeps,
    at most at v_s. A smooth force within the kernels: the state stays the same, and no event is emitted.
    `dissipation_for` gives c for a coefficient of restitution. [HuntCrossley1975, eq. 11]

    center, radius        of the sphere, in the body's frame, m; radius 0 is a point
    other_point           a point of the plane, or the centre of the other sphere, in the frame of `other`
    normal                unit normal of the plane, in the frame of `other`, out of the plane
    other_radius          radius of the other sphere; None for a plane
    stiffness             k, N/m^n
    dissipation           c, s/m
    exponent              n: 1, 1.5 (a sphere on a plane) or 2
    friction              mu
    slip_velocity         v_s, m/s
    """

    name: str
    body: str
    center: Vector3 = ORIGIN
    radius: float = 0.0
    other: str = GROUND
    other_point: Vector3 = ORIGIN
    normal: Vector3 = Z
    other_radius: float | None = None
    stiffness: Number
    dissipation: Number = 0.0
    exponent: float = 1.5
    friction: Number = 0.0
    slip_velocity: Number = 1e-2
