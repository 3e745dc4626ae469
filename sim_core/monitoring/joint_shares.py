"""Contributions of joints and contacts to the stiffness of a vibration mode, for warnings of too large a step size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from sim_core.mechanism.contacts import SphereContact
from sim_core.mechanism.description import Joint, JointFriction
from sim_core.mechanism.quantities import Number
from sim_core.spatial import axis_and_angle, conjugate, quaternion_product, rotation_vector

Value = Callable[[Number], float]


class Share(NamedTuple):
    """Contribution of an element of the mechanism to a mode, see `joint_shares`.

    stores     whether the contribution is a stiffness; otherwise it is a damping, or an effect of the motion
    is_impact  whether the element is a stop or contact, which the next impact may load more
    is_beam    whether the element is a beam
    """

    element: str
    size: float
    stores: bool = False
    is_impact: bool = False
    is_beam: bool = False


def joint_shares(joint: Joint, position: float, slope: float, rate: float, value: Value) -> Iterator[Share]:
    """Yield the contribution to a mode of the spring, friction and stop of one joint.

    The element with the largest contribution is the one that makes the mode fast. For a mode with the eigenvalue lambda
    and the shape x (n_q,), |lambda|^2 x' M x is a sum of stiffness and damping terms, where M is the mass matrix. The
    contribution of an element is its term in this sum.

    position  joint position, rad or m
    slope     joint velocity for the coordinate velocities x
    rate      |lambda|, 1/s
    value     function that returns the value of a number of the description
    """
    square, name = slope**2, f"joint {joint.name!r}"
    if (spring := joint.spring) is not None:
        stiffness = value(spring.stiffness) + 3.0 * value(spring.cubic) * (position - value(spring.rest)) ** 2
        yield Share(f"the spring of {name}", stiffness * square, stores=True)
    if (friction := joint.friction) is not None:
        if friction.bristle_stiffness is None:
            yield Share(f"the friction of {name}", _regularized(friction, value) * square * rate)
        else:
            stiffness = value(friction.bristle_stiffness) + value(friction.bristle_damping) * rate
            yield Share(f"the friction of {name}", stiffness * square)
    if (stops := joint.stops) is not None:
        depth = abs(position - limited(joint, position))
        stiffness = stops.exponent * value(stops.stiffness) * depth ** (stops.exponent - 1.0) if depth > 0.0 else 0.0
        yield Share(f"the stop of {name}", stiffness * square, stores=True, is_impact=True)


def _regularized(friction: JointFriction, value: Value) -> float:
    """Damping coefficient, N m s/rad or N s/m, of friction without bristles near rest."""
    most = value(friction.coulomb if friction.static is None else friction.static)
    return most / value(friction.smoothing_velocity)


def oriented_shares(
    joint: Joint, poses: list[np.ndarray], rates: np.ndarray, curve: float, rate: float, value: Value
) -> Iterator[Share]:
    """Yield the contribution to a mode of the spring, stop, damping and friction of a spherical or free joint.

    A mode has the eigenvalue lambda and the shape x (n_q,). The contributions are those defined in `joint_shares`. They
    are computed by central differences with the coordinates q - curve x, q and q + curve x.

    poses  poses (7,) of the joint at these three coordinates, as from `Simulation.frames`, but with the orientation
           relative to joint position 0
    rates  entries of x that belong to the joint, (3,) or (6,)
    curve  factor of x in these coordinates
    rate   |lambda|, 1/s
    value  function that returns the value of a number of the description
    """
    name = f"joint {joint.name!r}"

    def curvature(energies: list[float]) -> float:
        return (energies[0] - 2.0 * energies[1] + energies[2]) / curve**2

    if (spring := joint.spring) is not None:
        k, cubic, back = value(spring.stiffness), value(spring.cubic), conjugate(spring.rest_quaternion)
        squares = [
            [float(part @ part) for part in (rotation_vector(quaternion_product(back, pose[3:])), pose[:3] - point)]
            for pose in poses
            for point in (np.array(spring.rest_point) if joint.slides else pose[:3],)
        ]
        energies = [sum(0.5 * k * d + 0.25 * cubic * d * d for d in both) for both in squares]
        yield Share(f"the spring of {name}", curvature(energies), stores=True)
    if (stops := joint.stops) is not None and joint.upper is not None:
        depths = [max(float(axis_and_angle(pose[3:])[1]) - joint.upper, 0.0) for pose in poses]
        k, n = value(stops.stiffness), stops.exponent
        energies = [k * depth ** (n + 1.0) / (n + 1.0) for depth in depths]
        yield Share(f"the stop of {name}", curvature(energies), stores=True, is_impact=True)
    square = float(rates @ rates)
    yield Share(f"the damping of {name}", value(joint.damping) * square * rate)
    if joint.friction is not None:
        yield Share(f"the friction of {name}", _regularized(joint.friction, value) * square * rate)


def contact_shares(
    contact: SphereContact, apart: list[np.ndarray], curve: float, rate: float, value: Value
) -> Iterator[Share]:
    """Yield the contribution to a mode of the normal force and the friction of one sphere contact.

    A mode has the eigenvalue lambda and the shape x (n_q,). The contributions are those defined in `joint_shares`. They
    are computed by central differences between the coordinates q - curve x, q and q + curve x.

    apart  vectors (3,) from the contact's `other_point` to the centre of the sphere, in the frame of its body `other`,
           at these three coordinates
    curve  factor of x in these coordinates
    rate   |lambda|, 1/s
    value  function that returns the present value of a field such as `contact.stiffness`, which may be a Tunable
    """
    assert contact.stiffness is not None  # `assemble` has filled it in
    k, n = value(contact.stiffness), contact.exponent
    depths = [contact.depth(at) for at in apart]
    stored = [k * max(depth, 0.0) ** (n + 1.0) / (n + 1.0) for depth in depths]
    stiffness = abs(stored[0] - 2.0 * stored[1] + stored[2]) / curve**2
    yield Share(f"contact {contact.name!r}", stiffness, stores=True, is_impact=True)
    pressed, slide = k * max(depths[1], 0.0) ** n, float(np.linalg.norm(apart[2] - apart[0])) / (2.0 * curve)
    slope = value(contact.friction) * pressed / value(contact.slip_velocity)
    yield Share(f"the friction of contact {contact.name!r}", slope * slide**2 * rate, is_impact=True)


def limited(joint: Joint, position: float) -> float:
    """The joint position, limited to the range between the joint's limits."""
    above = position if joint.lower is None else max(position, joint.lower)
    return above if joint.upper is None else min(above, joint.upper)
