"""Contacts: compliant normal force and regularized friction between a sphere on a body and a plane or sphere."""

from __future__ import annotations

from dataclasses import dataclass

from sim_core.mechanism.frozen import Frozen
from sim_core.mechanism.joints import GROUND, ORIGIN, Z
from sim_core.mechanism.quantities import Number, Vector3


@dataclass(frozen=True, kw_only=True)
class SphereContact(Frozen):
    """Contact of a sphere on `body` with a plane or a sphere on `other`, which is a body or the ground.

    At a penetration depth x, m, the normal force is F_n = k x^n max(0, 1 + 3/2 c dx/dt), and the stored energy is
    k x^(n+1) / (n+1). Friction is -mu F_n v_t / sqrt(|v_t|^2 + v_s^2) with the sliding velocity v_t at the contact
    point: it is regularized, so that a tangential load below mu F_n makes the sphere creep at a speed of the order of
    v_s. The contact is a force in the equations of motion: neither the constraint mode nor v changes at an impact, and
    no event is published. `dissipation_for` gives c for a coefficient of restitution. [HuntCrossley1975, eq. 11]

    center, radius        centre of the sphere in the frame of `body` and its radius, m; radius 0 is a point
    other_point           a point of the plane, or the centre of the other sphere, in the frame of `other`
    normal                unit normal of the plane, in the frame of `other`, out of the plane
    other_radius          radius of the other sphere; None for a plane
    stiffness             k, N/m^n
    dissipation           c, s/m
    exponent              n: 1, 1.5 (Hertz: an elastic sphere) or 2
    friction              friction coefficient mu
    slip_velocity         v_s, m/s: sliding speed at which friction is 71 % of mu F_n
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
