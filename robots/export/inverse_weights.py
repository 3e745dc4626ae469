"""MuJoCo's inverse weights of bodies, from which it computes the softness of its contacts."""

from __future__ import annotations

import numpy as np

from sim_core.mechanism import GROUND, Mechanism
from sim_core.mechanism.quantities import value_of
from sim_core.mobility import Array, inverse_of, mass_matrix_at, moving_bodies


def inverse_weights(mechanism: Mechanism, q: Array) -> dict[str, float]:
    """{body: inverse weight, 1/kg}, the first number of `body_invweight0` in MuJoCo's model; 0 for the ground.

    The inverse weight is the acceleration of the body's centre of mass per force on it, the mean of three perpendicular
    directions. The whole tree of joints moves along; constraints are neglected. It is 1 / mass for a free body, and 0
    for a body whose centre of mass cannot move.

    mechanism  a tree of joints in joint coordinates
    q          (n,) joint positions; in MuJoCo those at `ref`. Ball and free joints are taken at their initial
               orientation
    """
    bodies = moving_bodies(mechanism, q)
    mobility = inverse_of(mass_matrix_at(mechanism, bodies))
    found = {GROUND: 0.0}
    for body in mechanism.bodies:
        J = bodies[body.name].velocity(tuple(map(value_of, body.center_of_mass)))
        found[body.name] = float(np.trace(J @ mobility @ J.T)) / 3.0
    return found


def contact_masses(mechanism: Mechanism, q: Array) -> dict[str, float]:
    """{contact: mass, kg, whose weight a contact in MuJoCo bears at the depth that `Softness.depth` gives}.

    It is the reciprocal of the sum of the two inverse weights, but at most the total mass of all bodies: MuJoCo's
    contacts of two bodies whose centres of mass cannot move are rigid.

    The parameters are those of `inverse_weights`.
    """
    weights = inverse_weights(mechanism, q)
    total = sum(value_of(body.mass) for body in mechanism.bodies)
    sums = {contact.name: weights[contact.body] + weights[contact.other] for contact in mechanism.contacts}
    return {name: min(1.0 / weight, total) if weight > 0.0 else total for name, weight in sums.items()}
