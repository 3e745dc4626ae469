"""Contacts of a sphere on a body with a plane, sphere, capsule or box: compliant normal force, dry friction.

A capsule touches a plane with the spheres at its two ends: `capsule_contacts` returns contacts of these spheres. A box
touches with its corners, which are spheres of radius 0: `box_contacts` returns their contacts.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from sim_core.mechanism.frozen import Frozen
from sim_core.mechanism.joints import GROUND, IDENTITY_QUATERNION, ORIGIN, Quaternion, Z
from sim_core.mechanism.quantities import NotNegative, Number, Positive, Vector3


@dataclass(frozen=True, kw_only=True)
class SphereContact(Frozen):
    """Contact of a sphere on `body` with a plane, sphere, capsule or box on `other`, which is a body or the ground.

    At a penetration depth x, m, the normal force is F_n = k x^n max(0, 1 + 3/2 c dx/dt), and the stored energy is
    k x^(n+1) / (n+1). The friction force is -mu F_n v_t / sqrt(|v_t|^2 + v_s^2), with the sliding velocity v_t at the
    contact point. This friction is regularized unless `stick_deflection` is given: under a tangential load below
    mu F_n the sphere does not stick, but creeps at a speed of the order of v_s. The contact is a force, not a
    constraint: at an impact, the velocities change continuously, and no event is published. A sphere whose centre is
    inside a box is pushed out through the nearest face. `dissipation_for` gives c for a coefficient of restitution.
    [HuntCrossley1975, eq. 11]

    center, radius        centre of the sphere, in the frame of `body`, and radius of the sphere, m; radius 0 makes the
                          sphere a point, such as the corner of a box
    other_point           a point of the plane, or the centre of the other sphere, capsule or box, in the frame of
                          `other`
    normal                unit normal of the plane, in the frame of `other`, out of the plane
    other_radius          radius of the other sphere or capsule; None for a plane or box
    other_half_axis       vector from the centre of the other capsule to the centre of the sphere at one of its ends, m;
                          zero for a sphere
    other_half_sizes      half the edge lengths of the other box, m; None without a box
    other_quaternion      orientation w x y z of the other box in the frame of `other`
    stiffness             k, N/m^n; None: `stiffness_for` computes k, rounded to three digits, from the contact's
                          effective mass at the start, in the direction in which this mass is smallest
    dissipation           c, s/m
    exponent              n: 1, 1.5 (Hertz: an elastic sphere) or 2
    friction              friction coefficient mu
    slip_velocity         v_s, m/s: sliding speed at which friction is 71 % of mu F_n; not used with a stick_deflection
    stick_deflection      d, m; None for regularized friction
    With `stick_deflection`, which a contact with a plane can have, the sphere sticks: a bristle deflects by z (2,), the
    first-order states `NAME.bristle_x` and `NAME.bristle_y`, in the plane, and the friction force is
    -mu F_n (z + s dz/dt) / d. z follows the sliding up to 70 % of d without loss, and |z| is at most d, where the
    sphere slides. z decays while the sphere does not touch. [DupontEtAl2002, eqs. 8 to 10] in two dimensions; the
    stiffness of the bristle, mu F_n / d, follows the normal force, so that no rate grows when the sphere lifts off.
    """

    name: str
    body: str
    center: Vector3 = ORIGIN
    radius: Annotated[float, NotNegative()] = 0.0
    other: str = GROUND
    other_point: Vector3 = ORIGIN
    normal: Vector3 = Z
    other_radius: Annotated[float, Positive()] | None = None
    other_half_axis: Vector3 = ORIGIN
    other_half_sizes: Vector3 | None = None
    other_quaternion: Quaternion = IDENTITY_QUATERNION
    stiffness: Annotated[Number, Positive()] | None = None
    dissipation: Annotated[Number, NotNegative()] = 0.0
    exponent: float = 1.5
    friction: Annotated[Number, NotNegative()] = 0.0
    slip_velocity: Annotated[Number, Positive()] = 1e-2
    stick_deflection: Annotated[Number, Positive()] | None = None

    @property
    def bristles(self) -> tuple[str, ...]:
        """Names of the first-order states of the contact's sticking friction; empty for regularized friction."""
        return () if self.stick_deflection is None else (f"{self.name}.bristle_x", f"{self.name}.bristle_y")

    @property
    def is_plane(self) -> bool:
        """Whether the sphere touches a plane, and not a sphere, capsule or box."""
        return self.other_radius is None and self.other_half_sizes is None

    def depth(self, offset: np.ndarray) -> float:
        """Penetration depth of the sphere, m; negative if the sphere does not touch the other surface.

        offset  (3,) vector from `other_point` to the centre of the sphere, in the frame of `other`, m
        """
        if self.other_half_sizes is not None:
            w, x, y, z = self.other_quaternion
            local = _turned((w, -x, -y, -z), offset)
            beyond = np.abs(local) - np.array(self.other_half_sizes)
            return self.radius - float(np.linalg.norm(np.maximum(beyond, 0.0)) + min(beyond.max(), 0.0))
        if self.other_radius is None:
            return self.radius - float(np.array(self.normal) @ offset)
        axis = np.array(self.other_half_axis)
        along = float(np.clip(axis @ offset / (axis @ axis), -1.0, 1.0)) if axis.any() else 0.0
        return self.radius + self.other_radius - float(np.linalg.norm(offset - along * axis))


# fields of SphereContact that leave the canonical hash as it is while they have their defaults
LATER_CONTACT_FIELDS = {
    "other_half_axis": ORIGIN,
    "other_half_sizes": None,
    "other_quaternion": IDENTITY_QUATERNION,
    "stick_deflection": None,
}


def capsule_contacts(
    name: str, *, half_axis: Vector3, radius: float, center: Vector3 = ORIGIN, **contact: Any
) -> tuple[SphereContact, ...]:
    """Contacts NAME_0 and NAME_1 of the spheres at the ends of a capsule, each with its own force.

    On a plane, the two contacts are equivalent to a contact of the whole capsule. For a contact between the capsule and
    a sphere, use instead one SphereContact of the sphere, with the capsule as `other`.

    half_axis  vector from the centre of the capsule to the centre of the sphere at one of its ends, in the body's
               frame, m
    center     centre of the capsule, in the body's frame, m
    contact    further fields of both SphereContacts
    """
    ends = [tuple(c + sign * a for c, a in zip(center, half_axis, strict=True)) for sign in (1.0, -1.0)]
    return tuple(
        SphereContact(name=f"{name}_{k}", center=end, radius=radius, **contact)  # type: ignore[arg-type]
        for k, end in enumerate(ends)
    )


def box_contacts(
    name: str,
    *,
    half_sizes: Vector3,
    center: Vector3 = ORIGIN,
    quaternion: Quaternion = IDENTITY_QUATERNION,
    **contact: Any,
) -> tuple[SphereContact, ...]:
    """Contacts NAME_0 to NAME_7 of the corners of a box, each with its own force.

    half_sizes          half the edge lengths of the box, m
    center, quaternion  centre (m) and orientation (w x y z) of the box in the body's frame
    contact             further fields of each SphereContact; `radius` rounds the corners outwards
    """
    corners = [np.array(signs) * half_sizes for signs in itertools.product((1.0, -1.0), repeat=3)]
    return tuple(
        SphereContact(
            name=f"{name}_{k}", center=tuple((np.array(center) + _turned(quaternion, corner)).tolist()), **contact
        )
        for k, corner in enumerate(corners)
    )


def _turned(quaternion: Quaternion, vector: np.ndarray) -> np.ndarray:
    """A vector (3,) turned by a unit quaternion w x y z."""
    axis = np.array(quaternion[1:], dtype=float)
    across = np.cross(axis, vector)
    turned: np.ndarray = vector + 2.0 * (quaternion[0] * across + np.cross(axis, across))
    return turned
