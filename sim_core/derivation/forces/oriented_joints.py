"""Springs, dry friction and stops of spherical and free joints: generalized forces, stored energy, power.

A spring or stop depends on the axis and the angle of the joint's rotation from a reference orientation. The unit vector
n along the axis has the same components in the parent's and in the child's axes. The rate of the angle is n.w with the
angular velocity w of the child.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import casadi as ca

from sim_core.derivation.coordinates.orientations import (
    angular_velocity,
    quaternion_of,
    rotation_block,
    translation_block,
)
from sim_core.derivation.forces.joint_parts import regularized_friction
from sim_core.derivation.symbols import Symbols
from sim_core.mechanism.description import Joint, JointFriction, JointSpring, JointStops, Mechanism
from sim_core.spatial import axis_and_angle, conjugate, quaternion_product


@dataclass(frozen=True)
class OrientedForce:
    """Force of a spring, dry friction or stop of a spherical or free joint.

    generalized  generalized force (n_q,)
    stored       stored energy, J
    power        rate at which the force changes the total energy, `stored` included, W; at most 0
    """

    generalized: ca.SX
    stored: ca.SX
    power: ca.SX


def oriented_forces(mechanism: Mechanism, symbols: Symbols) -> Iterator[OrientedForce]:
    """Yield the force of every spring, dry friction and stop of a spherical or free joint."""
    for joint in mechanism.oriented_joints:
        if joint.spring is not None:
            yield _spring(mechanism, joint, joint.spring, symbols)
        if joint.friction is not None:
            yield _friction(mechanism, joint, joint.friction, symbols)
        if joint.stops is not None:
            yield _stop(mechanism, joint, joint.stops, symbols)


def _spring(mechanism: Mechanism, joint: Joint, spring: JointSpring, symbols: Symbols) -> OrientedForce:
    k, cubic = symbols.number(spring.stiffness), symbols.number(spring.cubic)
    turning = rotation_block(mechanism, joint)
    back = conjugate(spring.rest_quaternion)
    axis, angle = axis_and_angle(quaternion_product(back, quaternion_of(joint, symbols, turning.start)))
    per_rate = ca.jacobian(angular_velocity(mechanism, joint, symbols), symbols.v)
    force, stored = _pull(axis * angle, k, cubic)
    generalized = per_rate.T @ force
    if joint.slides:
        slides = translation_block(mechanism, joint)
        force, along = _pull(symbols.q[slides] - ca.DM(spring.rest_point), k, cubic)
        generalized[slides] += force
        stored = stored + along
    return OrientedForce(generalized, stored, ca.SX(0))


def _pull(deflection: ca.SX, k: float | ca.SX, cubic: float | ca.SX) -> tuple[ca.SX, ca.SX]:
    """(force or moment (3,), stored energy) of a spring of stiffness k + cubic d.d for the deflection d (3,)."""
    square = ca.dot(deflection, deflection)
    return -(k + cubic * square) * deflection, 0.5 * k * square + 0.25 * cubic * square * square


def _friction(mechanism: Mechanism, joint: Joint, friction: JointFriction, symbols: Symbols) -> OrientedForce:
    """Dry friction on each component of the angular velocity, in the child's axes, and on each translation."""
    slides = symbols.v[translation_block(mechanism, joint)]
    velocities = ca.vertcat(slides, angular_velocity(mechanism, joint, symbols))
    efforts = ca.vertcat(*(regularized_friction(friction, symbols, v) for v in ca.vertsplit(velocities)))
    generalized = ca.jacobian(velocities, symbols.v).T @ efforts
    return OrientedForce(generalized, ca.SX(0), ca.dot(efforts, velocities))


def _stop(mechanism: Mechanism, joint: Joint, stops: JointStops, symbols: Symbols) -> OrientedForce:
    """Force of the stop of a spherical joint at the limit `upper` of the rotation angle.

    The moment acts about the axis of the rotation, and is zero for angles below the limit.
    """
    assert joint.upper is not None  # `validate` requires a limit
    turning = rotation_block(mechanism, joint)
    axis, angle = axis_and_angle(quaternion_of(joint, symbols, turning.start))
    w = angular_velocity(mechanism, joint, symbols)
    depth, k, c = ca.fmax(angle - joint.upper, 0.0), symbols.number(stops.stiffness), symbols.number(stops.dissipation)
    elastic = k * {1.0: depth, 1.5: depth * ca.sqrt(depth), 2.0: depth * depth, 3.0: depth**3}[stops.exponent]
    rate = ca.dot(axis, w)
    pushing = elastic if stops.dissipation == 0.0 else elastic * ca.fmax(1.0 + 1.5 * c * rate, 0.0)
    generalized = -ca.jacobian(w, symbols.v).T @ (pushing * axis)
    return OrientedForce(generalized, elastic * depth / (stops.exponent + 1.0), (elastic - pushing) * rate)
