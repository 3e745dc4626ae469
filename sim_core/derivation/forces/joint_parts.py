"""Springs, dry friction, stops and armatures of joints in the equations of motion: effort, stored energy, power."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import casadi as ca

from sim_core.derivation.coordinates.orientations import angular_velocity, translation_block
from sim_core.derivation.symbols import Motion, Symbols
from sim_core.errors import InvalidMechanism
from sim_core.mechanism.description import Joint, JointFriction, JointRelation, Mechanism


@dataclass
class Effort:
    """Effort of one part (spring, friction, stop) along a joint.

    effort  effort along the joint, N m or N
    stored  energy stored in the part, J
    power   rate at which the part changes the total energy, `stored` included, W; 0 for springs, at most 0 for friction
    rates   {first-order state: rate}
    """

    effort: ca.SX
    stored: ca.SX = field(default_factory=lambda: ca.SX(0))
    power: ca.SX = field(default_factory=lambda: ca.SX(0))
    rates: dict[str, ca.SX] = field(default_factory=dict)


def with_armatures(mechanism: Mechanism, symbols: Symbols, motion: Motion, rates: ca.SX) -> Motion:
    """Equations of motion M a = f with the joints' armatures.

    The armature I of a joint is an inertia that moves at the joint's velocity A v, where v are the coordinate
    velocities and A is a row. I A' A is added to the mass matrix M, and -I A' (dA/dt) v to the forces f.

    rates  velocities (n_joints,) of the declared joints
    """
    M, f, changed = motion.M, motion.f, list[tuple[ca.SX, ca.SX, ca.SX]]()
    moving = [*zip(mechanism.moving_joints, ca.vertsplit(rates), strict=True)]
    for joint in mechanism.oriented_joints:
        slides = symbols.v[translation_block(mechanism, joint)]
        turns = angular_velocity(mechanism, joint, symbols)
        moving += [(joint, rate) for rate in ca.vertsplit(ca.vertcat(slides, turns))]
    for joint, rate in moving:
        if joint.armature == 0.0:
            continue
        A, inertia = ca.jacobian(rate, symbols.v), ca.SX(symbols.number(joint.armature))
        drift = ca.jtimes(rate, symbols.q, symbols.v)
        M, f = M + inertia * (A.T @ A), f - inertia * drift * A.T
        changed.append((inertia, A, drift))
    if not changed:
        return motion

    def inertial(a: ca.SX) -> ca.SX:
        return motion.inertial(a) + sum((I * (A @ a + drift) * A.T for I, A, drift in changed), ca.SX(a.shape[0], 1))

    return replace(motion, M=M, f=f, inertial=inertial)


def efforts_of(mechanism: Mechanism, symbols: Symbols, positions: ca.SX, rates: ca.SX) -> list[tuple[int, Effort]]:
    """(index of the joint, Effort) of every joint spring, dry friction and stop.

    positions, rates  positions and velocities (n_joints,) of the declared joints
    """
    found = list[tuple[int, Effort]]()
    for index, joint in enumerate(mechanism.moving_joints):
        q, v = positions[index], rates[index]
        if joint.spring is not None:
            found.append((index, _spring(joint, symbols, q)))
        if joint.friction is not None:
            found.append((index, _friction(joint, joint.friction, symbols, v)))
        if joint.stops is not None:
            found.append((index, _stop(joint, symbols, q, v)))
    return found


def check_measured(mechanism: Mechanism, wraps: list[int]) -> None:
    """Raise InvalidMechanism for a joint that has a spring, stops or a JointRelation and whose angle may jump at +-pi.

    wraps  indices of the joints whose angle comes from an arctangent and jumps by 2 pi at +-pi
    """
    related = {name for c in mechanism.constraints if isinstance(c, JointRelation) for name, _ in c.terms}
    for index in wraps:
        joint = mechanism.moving_joints[index]
        parts = ["a relation to other joints"] if joint.name in related else []
        parts += [name for name in ("spring", "stops") if getattr(joint, name) is not None]
        inside = joint.stops is not None and None not in (joint.lower, joint.upper)
        inside = inside and -math.pi < (joint.lower or 0.0) and (joint.upper or 0.0) < math.pi
        if parts and not inside:
            raise InvalidMechanism(
                f"mechanism {mechanism.name!r}: joint {joint.name!r} has {' and '.join(parts)}, but in absolute "
                "coordinates its angle jumps by 2 pi at +-pi; use coordinates='joint', planar bodies, or stops at a "
                "lower and an upper limit between -pi and pi"
            )


def _spring(joint: Joint, symbols: Symbols, q: ca.SX) -> Effort:
    spring = joint.spring
    assert spring is not None
    stretch = q - symbols.number(spring.rest)
    k, cubic, preload = (symbols.number(n) for n in (spring.stiffness, spring.cubic, spring.preload))
    effort, stored = preload - k * stretch, 0.5 * k * stretch**2 - preload * stretch
    if spring.cubic != 0.0:
        square = stretch * stretch
        effort, stored = effort - cubic * square * stretch, stored + 0.25 * cubic * square * square
    return Effort(ca.SX(effort), ca.SX(stored))


def regularized_friction(friction: JointFriction, symbols: Symbols, v: ca.SX) -> ca.SX:
    """Effort, N m or N, of dry friction without bristles at the velocity v, rad/s or m/s."""
    return -_sliding_friction(friction, symbols, v) * ca.tanh(v / symbols.number(friction.smoothing_velocity))


def _sliding_friction(friction: JointFriction, symbols: Symbols, v: ca.SX) -> ca.SX:
    """Size g(v), N m or N, of dry friction in steady sliding at the velocity v, rad/s or m/s."""
    coulomb = symbols.number(friction.coulomb)
    if friction.static is None:
        return ca.SX(coulomb)
    drop = symbols.number(friction.static) - coulomb
    return coulomb + drop * ca.exp(-((v / symbols.number(friction.stribeck_velocity)) ** 2))


def _friction(joint: Joint, friction: JointFriction, symbols: Symbols, v: ca.SX) -> Effort:
    """Effort of a joint's dry friction: by the elasto-plastic bristle model if the friction has a bristle stiffness,
    otherwise by a smooth function of the velocity. [DupontEtAl2002, eqs. 8 to 10]
    """
    if friction.bristle_stiffness is None:
        effort = regularized_friction(friction, symbols, v)
        return Effort(effort, power=effort * v)
    sliding = _sliding_friction(friction, symbols, v)
    z, s0 = symbols.states[joint.bristle], symbols.number(friction.bristle_stiffness)
    share = s0 * ca.fabs(z) / sliding  # of the largest deflection; the paper's z_ba is `elastic_share` of it
    begin = friction.elastic_share
    slipped = ca.fmin(ca.fmax((share - begin) / (1.0 - begin), 0.0), 1.0)
    slipping = 0.5 - 0.5 * ca.cos(math.pi * slipped)
    # unlike the paper's, the bristle's own rate s0 |v| / g is bounded, so that fast sliding is not stiff; while a fast
    # motion unloads it, its effort is scaled by the same factor, so that it gives back what it stores and no more
    bound = ca.fmin(1.0, symbols.number(friction.relaxation_rate) * sliding / (s0 * ca.fmax(ca.fabs(v), 1e-12)))
    rate = bound * v * (1.0 - ca.if_else(z * v > 0.0, slipping * share, 0.0))
    effort = -(s0 * z * ca.if_else(z * v < 0.0, bound, 1.0) + symbols.number(friction.bristle_damping) * rate)
    return Effort(effort, 0.5 * s0 * z * z, effort * v + s0 * z * rate, {joint.bristle: rate})


def _stop(joint: Joint, symbols: Symbols, q: ca.SX, v: ca.SX) -> Effort:
    stops = joint.stops
    assert stops is not None
    inside = q if joint.lower is None else ca.fmax(q, joint.lower)
    inside = inside if joint.upper is None else ca.fmin(inside, joint.upper)
    signed = q - inside  # above 0 beyond the upper limit, below 0 beyond the lower one
    depth, k, c = ca.fabs(signed), symbols.number(stops.stiffness), symbols.number(stops.dissipation)
    powers = {1.0: ca.SX(1), 1.5: ca.sqrt(depth), 2.0: depth, 3.0: depth * depth}
    elastic = -k * powers[stops.exponent] * signed
    stored = k * powers[stops.exponent] * signed * signed / (stops.exponent + 1.0)
    if stops.dissipation == 0.0:
        return Effort(elastic, stored)
    effort = elastic * ca.fmax(1.0 + 1.5 * c * v * ca.sign(signed), 0.0)
    return Effort(effort, stored, (effort - elastic) * v)
