"""Checks before a run whether the step size is small enough for impacts on joint stops and sphere contacts, and for the
friction of contacts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np

from sim_core.integrators.steppers import Stepper
from sim_core.mechanism.description import GROUND
from sim_core.mechanism.quantities import value_of
from sim_core.mobility import effective_masses
from sim_core.monitoring.modes import departure, rounded_down
from sim_core.stabilization.stabilizers import largest_step
from sim_core.system import System

SPEED = 1.0  # rad/s or m/s: impact speed at which a stop or contact is judged


def impact_rate(stiffness: float, exponent: float, inertia: float, speed: float = SPEED) -> float:
    """Circular frequency, rad/s, at which a mass or inertia vibrates on a contact force k x^n.

    The force is linearized at the largest depth x that an impact with the given speed reaches.

    stiffness, exponent  k and n
    inertia              mass, kg, or moment of inertia, kg m2
    speed                speed of the impact, m/s or rad/s
    """
    depth = ((exponent + 1.0) * inertia * speed**2 / (2.0 * stiffness)) ** (1.0 / (exponent + 1.0))
    return math.sqrt(exponent * stiffness * depth ** (exponent - 1.0) / inertia)


def damping_rate(stiffness: float, exponent: float, inertia: float, dissipation: float, speed: float = SPEED) -> float:
    """Rate, 1/s, at which the damping of a contact force k x^n (1 + 3/2 c dx/dt) slows down a mass or inertia.

    The rate grows with the depth x. It is evaluated at a depth that an impact with the given speed does not exceed. Two
    depths are computed, one with the elastic part of the force alone, one with the damping part alone; the smaller one
    is used.

    dissipation  c, s/m or s/rad
    The other parameters are those of `impact_rate`.
    """
    if not (dissipation > 0.0 and stiffness > 0.0):
        return 0.0
    elastic = (exponent + 1.0) * inertia * speed**2 / (2.0 * stiffness)
    damped = (exponent + 1.0) * inertia * speed / (1.5 * dissipation * stiffness)
    depth = min(elastic, damped) ** (1.0 / (exponent + 1.0))
    return float(1.5 * dissipation * stiffness * depth**exponent / inertia)


def too_fast_impacts(system: System, stepper: Stepper, step_s: float, q: np.ndarray) -> Iterator[str]:
    """Yield one-line warnings about stops and contacts for which the step size is too large to resolve an impact.

    There is at most one warning about stops and one about contacts. Each names the stop or contact that requires the
    smallest step size, this step size, and the number of others that `step_s` does not resolve.

    q  coordinates at which the inertias are computed
    """
    if stepper.adaptive:
        return
    found: dict[bool, list[tuple[float, str]]] = {}  # {whether it is a contact: [(largest step, ms, warning)]}
    for what, is_contact, unit, rate, damping in _rates(system, q):
        steps = []
        for pole, does in (
            (complex(0.0, rate), f"swings at {rate:.4g} rad/s"),
            (complex(-damping, 0.0), f"is damped at a rate of {damping:.4g} 1/s"),
        ):
            departs = partial(departure, stepper, pole)
            if departs(step_s) > 1.0:
                most = 1e3 * rounded_down(largest_step(departs))
                line = (
                    f"an impact at {SPEED:g} {unit} on {what} of {system.mechanism.name!r} {does}, which "
                    f"{stepper.name} does not resolve at {1e3 * step_s:.4g} ms; use a step of at most {most:.2g} ms"
                )
                steps.append((most, line))
        if steps:
            found.setdefault(is_contact, []).append(min(steps))
    for is_contact, each in found.items():
        more, of = len(each) - 1, "contact" if is_contact else "stop"
        others = f"; {more} more {of}{'s are' if more > 1 else ' is'} not resolved either" if more else ""
        yield min(each)[1] + others
    yield from _too_fast_friction(system, stepper, step_s, q)


def _too_fast_friction(system: System, stepper: Stepper, step_s: float, q: np.ndarray) -> Iterator[str]:
    """Yield a one-line warning if the step is too large for the friction of a contact on which the mechanism stands.

    Near rest, regularized friction is a damper of the coefficient friction * load / slip_velocity. The load is
    estimated: each contact with the ground that has friction carries an equal share of the weight. The damper slows
    down the effective mass at the contact. The warning names the contact with the fastest damper.
    """
    mechanism = system.mechanism
    standing = [c for c in mechanism.contacts if c.other == GROUND and value_of(c.friction) > 0.0]
    weight = sum(value_of(body.mass) for body in mechanism.bodies) * math.hypot(*mechanism.gravity)
    if not standing or weight == 0.0:
        return
    load, masses = weight / len(standing), effective_masses(mechanism, q)
    rates = {c.name: value_of(c.friction) * load / (value_of(c.slip_velocity) * masses[c.name]) for c in standing}
    contact = max(standing, key=lambda each: rates[each.name])
    rate, slip = rates[contact.name], value_of(contact.slip_velocity)
    departs = partial(departure, stepper, complex(-rate, 0.0))
    if departs(step_s) > 1.0:
        most = 1e3 * rounded_down(largest_step(departs))
        yield (
            f"the friction of contact {contact.name!r} of {mechanism.name!r}, under an equal share of the weight "
            f"({load:.3g} N), slows down {masses[contact.name]:.3g} kg at a rate of {rate:.4g} 1/s, which "
            f"{stepper.name} does not resolve at {1e3 * step_s:.4g} ms; use a step of at most {most:.2g} ms, or a "
            f"slip_velocity of at least {1.05e3 * slip * step_s / most:.2g} m/s"
        )


def _rates(system: System, q: np.ndarray) -> Iterator[tuple[str, bool, str, float, float]]:
    """Yield (name, unit of the impact speed, circular frequency in rad/s, damping rate in 1/s) for each joint stop and
    sphere contact.

    Frequency and damping rate are those of `impact_rate` and `damping_rate`.

    q  coordinates (n_q,) at which the inertias are computed
    """
    mechanism = system.mechanism
    stopped = [joint for joint in mechanism.moving_joints if joint.stops is not None]
    if stopped:
        M = system.terms(0.0, q, np.zeros(system.n_q))[0]
        A = np.array([system.joints(0.0, q, e)[1] for e in np.eye(system.n_q)]).T
        mobility = A @ np.linalg.pinv(M) @ A.T
    for joint in stopped:
        assert joint.stops is not None
        inertia = 1.0 / mobility[(index := system.joint_names.index(joint.name)), index]
        law = value_of(joint.stops.stiffness), joint.stops.exponent, inertia
        damping = damping_rate(*law, value_of(joint.stops.dissipation))
        yield f"the stop of joint {joint.name!r}", False, f"{joint.unit}/s", impact_rate(*law), damping
    for name, inertia in least_inertias_of_rotation(system, q).items():
        stops = mechanism.joint(name).stops
        if stops is not None:
            law = value_of(stops.stiffness), stops.exponent, inertia
            damping = damping_rate(*law, value_of(stops.dissipation))
            yield f"the stop of joint {name!r}", False, "rad/s", impact_rate(*law), damping
    masses = effective_masses(mechanism, q) if mechanism.contacts else {}
    for contact in mechanism.contacts:
        if np.isfinite(mass := masses[contact.name]) and contact.stiffness is not None:
            law = value_of(contact.stiffness), contact.exponent, mass
            damping = damping_rate(*law, value_of(contact.dissipation))
            yield f"contact {contact.name!r}", True, "m/s", impact_rate(*law), damping


def least_inertias_of_rotation(system: System, q: np.ndarray) -> dict[str, float]:
    """{spherical joint: least effective inertia, kg m2, about any axis} at q, while all other joints move freely."""
    found, at = dict[str, float](), 0
    stopped = [joint for joint in system.mechanism.oriented_joints if joint.stops is not None]
    if not stopped:
        return found
    mobility = np.linalg.pinv(system.terms(0.0, q, np.zeros(system.n_q))[0])
    for joint in system.mechanism.joints:
        at += len(joint.coordinates)
        if joint in stopped:
            found[joint.name] = 1.0 / float(np.linalg.eigvalsh(mobility[at - 3 : at, at - 3 : at])[-1])
    return found
