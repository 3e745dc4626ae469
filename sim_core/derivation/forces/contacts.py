"""Sphere contacts in the equations of motion: normal force, friction, stored energy, power."""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca
import numpy as np

from sim_core.derivation.symbols import Frame, Frames, Symbols
from sim_core.mechanism.contacts import SphereContact
from sim_core.mechanism.description import Mechanism
from sim_core.mechanism.joints import ORIGIN
from sim_core.spatial import perpendicular_axes, rotation_from_quaternion

LEAST = 1e-12  # m: below it, two centres have no direction between them
ELASTIC = 0.7  # share of the largest deflection of a bristle below which it does not slip
FASTEST = 1000.0  # 1/s: largest rate of a bristle; RK4 at 1 ms is stable up to 2785
RELEASE = 500.0  # 1/s: rate at which the bristle of a sphere in the air decays
DAMPING = 1e-3  # s: damping of a bristle divided by its stiffness


@dataclass(frozen=True)
class ContactForce:
    """The force of one sphere contact.

    force        world force (3,) on `body`, N; the opposite force acts on `other` at the same world position
    at           world position (3,) at which both forces act, m
    generalized  generalized forces (n_q,) of both forces together, by virtual power
    stored       stored energy, J
    power        rate at which the contact changes the total energy, `stored` included, W; never positive without
                 bristles, whose deflections store no energy
    rates        {first-order state: rate, m/s} of the bristles
    """

    force: ca.SX
    at: ca.SX
    generalized: ca.SX
    stored: ca.SX
    power: ca.SX
    rates: dict[str, ca.SX]


def contact_forces(mechanism: Mechanism, frames: Frames, symbols: Symbols) -> dict[str, ContactForce]:
    """{contact: ContactForce} of all sphere contacts. [HuntCrossley1975, eq. 11]"""
    return {contact.name: _force(contact, frames, symbols) for contact in mechanism.contacts}


def _force(contact: SphereContact, frames: Frames, symbols: Symbols) -> ContactForce:
    body, other = frames[contact.body], frames[contact.other]
    center, offset = body.point(contact.center), body.point(contact.center) - other.point(contact.other_point)
    if contact.other_half_sizes is not None:
        normal, depth = _against_box(contact, other, offset)
    elif contact.other_radius is None:
        normal = other.axis(contact.normal)
        depth = contact.radius - ca.dot(normal, offset)
    else:
        offset = _from_segment(contact, other, offset)
        apart = ca.norm_2(offset)
        normal = offset / ca.fmax(apart, LEAST)
        depth = contact.radius + contact.other_radius - apart
    at = center - contact.radius * normal
    sliding = _velocity(body, at, symbols) - _velocity(other, at, symbols)
    rising = ca.dot(normal, sliding)  # -d depth / dt
    tangential = sliding - rising * normal
    pressed = ca.fmax(depth, 0.0)
    powers = {1.0: pressed, 1.5: pressed * ca.sqrt(pressed), 2.0: pressed * pressed}
    assert contact.stiffness is not None  # `derive` has filled it in
    k, c = symbols.number(contact.stiffness), symbols.number(contact.dissipation)
    elastic = k * powers[contact.exponent]
    pushing = elastic if contact.dissipation == 0.0 else elastic * ca.fmax(1.0 - 1.5 * c * rising, 0.0)
    force, rates = pushing * normal, dict[str, ca.SX]()
    if contact.stick_deflection is not None:
        axes = ca.horzcat(*[other.axis(axis) for axis in perpendicular_axes(contact.normal)])
        share, rates = _bristles(contact, symbols, axes.T @ tangential, depth)
        force -= symbols.number(contact.friction) * pushing * (axes @ share)
    elif contact.friction != 0.0:
        least = symbols.number(contact.slip_velocity)
        speed = ca.sqrt(ca.dot(tangential, tangential) + least * least)
        force -= symbols.number(contact.friction) * pushing * tangential / speed
    generalized = ca.jacobian(sliding, symbols.v).T @ force
    power = ca.dot(force, sliding) - elastic * rising
    return ContactForce(force, at, generalized, elastic * pressed / (contact.exponent + 1.0), power, rates)


def _bristles(contact: SphereContact, symbols: Symbols, sliding: ca.SX, depth: ca.SX) -> tuple[ca.SX, dict[str, ca.SX]]:
    """(share (2,) of mu F_n by which the bristle opposes the sliding, {first-order state: rate}).

    [DupontEtAl2002, eqs. 8 to 10], of which z beyond `ELASTIC` loses its outward part, and the rate is bounded by
    `FASTEST`, so that fast sliding is not stiff.

    sliding  sliding velocity (2,) along the axes of the plane, m/s
    """
    most = symbols.number(contact.stick_deflection)  # type: ignore[arg-type]  # not None here
    z = ca.vertcat(*[symbols.states[name] for name in contact.bristles])
    length = ca.sqrt(ca.dot(z, z) + LEAST * LEAST)
    slipping = ca.fmin(ca.fmax((length / most - ELASTIC) / (1.0 - ELASTIC), 0.0), 1.0)
    outward = ca.fmax(ca.dot(z, sliding) / length, 0.0)
    speed = ca.sqrt(ca.dot(sliding, sliding) + LEAST * LEAST)
    rate = (sliding - slipping * outward * z / length) / ca.fmax(1.0, speed / (FASTEST * most))
    rate = ca.if_else(depth > 0.0, rate, -RELEASE * z)
    share = (z + DAMPING * rate) / most
    return share, dict(zip(contact.bristles, ca.vertsplit(rate), strict=True))


def _from_segment(contact: SphereContact, other: Frame, offset: ca.SX) -> ca.SX:
    """World vector (3,) from the nearest point on the axis of a capsule to the centre of the sphere that touches it.

    If the other surface is a second sphere instead of a capsule, the result is `offset`.

    other   frame of the body that has the capsule
    offset  world vector from the middle of the capsule's axis to the centre of the sphere
    """
    if contact.other_half_axis == ORIGIN:
        return offset
    axis = other.axis(contact.other_half_axis)
    along = ca.dot(axis, offset) / sum(c * c for c in contact.other_half_axis)
    return offset - ca.fmin(ca.fmax(along, -1.0), 1.0) * axis


def _against_box(contact: SphereContact, other: Frame, offset: ca.SX) -> tuple[ca.SX, ca.SX]:
    """World normal of a box's surface, pointing outward, and the depth, m, to which the sphere penetrates the box.

    The surface point is the one nearest to the sphere's centre; if the centre is inside the box, the nearest face is
    used.

    offset  world vector from the centre of the box to the centre of the sphere
    """
    assert contact.other_half_sizes is not None
    R = other.R @ ca.SX(rotation_from_quaternion(np.array(contact.other_quaternion, dtype=float)))
    local, half = R.T @ offset, ca.DM(contact.other_half_sizes)
    outside = local - ca.fmin(ca.fmax(local, -half), half)
    apart = ca.sqrt(ca.fmax(ca.dot(outside, outside), LEAST * LEAST))
    beyond = ca.fabs(local) - half  # all below 0 inside
    nearest = ca.fmax(ca.fmax(beyond[0], beyond[1]), beyond[2])
    first = ca.if_else(beyond[0] >= nearest, 1.0, 0.0)
    second = (1.0 - first) * ca.if_else(beyond[1] >= nearest, 1.0, 0.0)
    faces = ca.vertcat(first, second, 1.0 - first - second)
    is_inside = nearest <= LEAST
    normal = ca.if_else(is_inside, faces * ca.if_else(local < 0.0, -1.0, 1.0), outside / apart)
    return R @ normal, contact.radius - ca.if_else(is_inside, nearest, apart)


def _velocity(frame: Frame, at: ca.SX, symbols: Symbols) -> ca.SX:
    """World velocity (3,) of the body-fixed point at the world position `at`."""
    origin = ca.jtimes(frame.p, symbols.q, symbols.v)
    return origin + ca.cross(frame.w_W, at - frame.p)
