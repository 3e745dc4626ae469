"""Contributions of joint parts and contacts to a vibration mode, for the message about a step that is too large."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from sim_core.mechanism.contacts import SphereContact
from sim_core.mechanism.description import Joint
from sim_core.mechanism.quantities import Number

Value = Callable[[Number], float]


def joint_shares(joint: Joint, position: float, slope: float, rate: float, value: Value) -> Iterator[tuple[str, float]]:
    """Yield (name of the part, its contribution to |lambda|^2 x' M x) for the parts of one joint.

    lambda is the eigenvalue and x the shape (n_q,) of the mode.
    position  joint position
    slope     joint velocity for coordinate velocities x
    rate      |lambda|, 1/s
    value     function that returns the value of a number of the description
    """
    square, name = slope**2, f"joint {joint.name!r}"
    if (spring := joint.spring) is not None:
        stiffness = value(spring.stiffness) + 3.0 * value(spring.cubic) * (position - value(spring.rest)) ** 2
        yield f"the spring of {name}", stiffness * square
    if (friction := joint.friction) is not None:
        most = value(friction.coulomb if friction.static is None else friction.static)
        if friction.bristle_stiffness is None:
            yield f"the friction of {name}", most / value(friction.smoothing_velocity) * square * rate
        else:
            stiffness = value(friction.bristle_stiffness) + value(friction.bristle_damping) * rate
            yield f"the friction of {name}", stiffness * square
    if (stops := joint.stops) is not None:
        depth = abs(position - limited(joint, position))
        stiffness = stops.exponent * value(stops.stiffness) * depth ** (stops.exponent - 1.0) if depth > 0.0 else 0.0
        yield f"the stop of {name}", stiffness * square


def contact_shares(
    contact: SphereContact, apart: list[np.ndarray], curve: float, rate: float, value: Value
) -> Iterator[tuple[str, float]]:
    """Yield (name of the contact or of its friction, its contribution to |lambda|^2 x' M x) for one contact.

    lambda is the eigenvalue and x the shape (n_q,) of the mode.
    apart  [vector from the other body's point to the sphere's centre, in the other body's frame] at q - curve x, q and
           q + curve x
    curve  increment along the mode's shape
    rate   |lambda|, 1/s
    value  function that returns the value of a number of the description
    """
    assert contact.stiffness is not None  # `assemble` has filled it in
    k, n = value(contact.stiffness), contact.exponent
    depths = [contact.depth(at) for at in apart]
    stored = [k * max(depth, 0.0) ** (n + 1.0) / (n + 1.0) for depth in depths]
    yield f"contact {contact.name!r}", abs(stored[0] - 2.0 * stored[1] + stored[2]) / curve**2
    pressed, slide = k * max(depths[1], 0.0) ** n, float(np.linalg.norm(apart[2] - apart[0])) / (2.0 * curve)
    slope = value(contact.friction) * pressed / value(contact.slip_velocity)
    yield f"the friction of contact {contact.name!r}", slope * slide**2 * rate


def limited(joint: Joint, position: float) -> float:
    """The position within the joint's limits that is nearest to the given position."""
    above = position if joint.lower is None else max(position, joint.lower)
    return above if joint.upper is None else min(above, joint.upper)
