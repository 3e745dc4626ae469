"""Checks of a simulation's start, and the nearest state that satisfies the constraints.

A start whose constraint violation is larger than rounding of numbers in files is refused, because the stabilizer would
close the gaps by forces that add an arbitrary amount of energy.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import numpy as np

from sim_core.compiled_system import CompiledSystem
from sim_core.errors import InvalidMechanism, InvalidRequest, StartWarning
from sim_core.mechanism.checks.angles import implausible_angles
from sim_core.mechanism.checks.inertias import singular_mass
from sim_core.mechanism.constraints import BeamContact, Rolling, Touching
from sim_core.mechanism.quantities import Vector3, holding, value_of
from sim_core.mechanism.rolling import OnPlane, lowest_points
from sim_core.mobility import effective_masses
from sim_core.start import ROUNDING, exceeds_rounding, start_line, violated_at

ITERATIONS = 100
HALVINGS = 30
RANK = 1e-10  # share of the largest singular value of J in the mass metric: rows below it are redundant
APART = 1e-12  # m: below it, the line between the ends of a spring has no direction
STANDS = 1e-6  # characteristic lengths: a wheel at most this high above its plane stands on it
THROWN = 0.5  # m/s: a contact whose stored energy is that of a higher speed starts too deep
SHOWN = 4  # pairs of bodies named in the warning about contacts that start too deep


def checked_start(
    system: CompiledSystem,
    q: np.ndarray,
    v: np.ndarray,
    p: np.ndarray,
    assemble_start: bool,
    share: float,
    stacklevel: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Check the start of a simulation; returns the coordinates q and velocities v (n_q,) with which to start.

    p               parameters (n_p,)
    assemble_start  whether to move the start to the nearest state that satisfies the constraints
    share           permitted relative violation of the constraints, see `sim_core.start.exceeds_rounding`
    stacklevel      stack level of the warnings
    Warns of any violation. Raises InvalidMechanism for a violation larger than permitted, unless the mechanism permits
    such a start by the field `open_start`.
    """
    mechanism = system.mechanism
    _check_contacts(system, q, p)
    _check_mass(system, q, v, p)
    if assemble_start:
        q, v = consistent_start(system, q, v, p)
    _check_wheels(system, q, p, share)
    p = with_slipping_wheels(system, q, v, p)
    rows = system.constraint_modes[0]
    phi, phidot = system.residual(0.0, q, v, p, u=system.start_inputs)
    if violated := violated_at(mechanism, rows.row_names, phi, phidot):
        line = start_line(mechanism, violated)
        J = system.terms(0.0, q, v, None, p)[2]
        if not mechanism.open_start and exceeds_rounding(system, phi, phidot, np.abs(J) @ np.abs(v), share):
            raise InvalidMechanism(
                f"{line}; violations this large are refused; pass assemble_start=True to Simulation (in a launch file, "
                "write assemble_start = true in [sim]) to start at the nearest state that satisfies the constraints, "
                "or set open_start=True in the mechanism to start here"
            )
        warnings.warn(line, StartWarning, stacklevel=stacklevel + 1)
    for line in implausible_angles(mechanism, q.tolist()):
        warnings.warn(line, StartWarning, stacklevel=stacklevel + 1)
    _check_springs(system, q, p)
    if line := _deep_contacts(system, q, p):
        warnings.warn(line, StartWarning, stacklevel=stacklevel + 1)
    return q, v


def with_slipping_wheels(system: CompiledSystem, q: np.ndarray, v: np.ndarray, p: np.ndarray) -> np.ndarray:
    """The parameters p (n_p,) with the wheels released that have friction and slip at q, v, and the angles of slip."""
    wheels = [c for c in system.mechanism.constraints if isinstance(c, Rolling) and c.slip_angle is not None]
    if not wheels:
        return p
    p, names, rows = p.copy(), system.parameter_names, system.constraint_modes[0].row_names
    flags = {wheel.name: names.index(holding(wheel.name)) for wheel in wheels}
    rolling = p.copy()
    rolling[[*flags.values()]] = 1.0
    phidot = system.residual(0.0, q, v, rolling, u=system.start_inputs)[1]
    for wheel in wheels:
        slip = [value for name, value in zip(rows, phidot, strict=True) if name == wheel.name]
        if math.hypot(*slip) > ROUNDING * max(1.0, system.mechanism.characteristic_length):
            assert wheel.slip_angle is not None
            p[flags[wheel.name]] = 0.0
            p[names.index(wheel.slip_angle.name)] = math.atan2(*[*slip, 0.0][1::-1])
    return p


def consistent_start(
    system: CompiledSystem, q: np.ndarray, v: np.ndarray, p: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """q (n_q,) and v (n_q,) that satisfy the constraints, near the given ones in the metric of the mass matrix M.

    p  parameters (n_p,), by default the values at the start of a simulation

    q results from Gauss-Newton steps dq with the least dq' M dq, so that heavy bodies move least. A step is halved
    until it reduces the constraint violation. v is the velocity nearest to the given one in the same metric.

    Raises InvalidRequest with the names of constraints that remain violated, InvalidMechanism if a contact point is
    beyond its beam.
    """
    q, v = np.array(q, dtype=float), np.array(v, dtype=float)
    p = system.default_parameters() if p is None else p
    _check_contacts(system, q, p)
    mechanism, rows = system.mechanism, system.constraint_modes[0]
    enough = ROUNDING * 1e-3 * max(1.0, mechanism.characteristic_length)
    phi = system.residual(0.0, q, v, p)[0]
    for _ in range(ITERATIONS):
        if not np.abs(phi).max(initial=0.0) > enough:
            break
        J = system.terms(0.0, q, v, None, p)[2][: rows.n_holonomic]
        dq = _least_motion(system, q, v, p, J, -phi)
        closer = _closer(system, q, v, p, dq, float(phi @ phi))
        if closer is None:
            break
        q, phi = closer
    for _ in range(2):  # Phidot is linear in v; the second pass removes rounding
        phidot = system.residual(0.0, q, v, p, u=system.start_inputs)[1]
        v = v + _least_motion(system, q, v, p, system.terms(0.0, q, v, None, p)[2], -phidot)
    phi, phidot = system.residual(0.0, q, v, p, u=system.start_inputs)
    if violated := violated_at(mechanism, rows.row_names, phi, phidot):
        raise InvalidRequest(
            f"found no initial state of {mechanism.name!r} near the given one that satisfies the constraints: "
            f"{violated} remain violated; the bodies may be too short to meet, or the constraints contradict each other"
        )
    return q, v


def _least_motion(
    system: CompiledSystem, q: np.ndarray, v: np.ndarray, p: np.ndarray, J: np.ndarray, desired: np.ndarray
) -> np.ndarray:
    """The vector x (n_q,) with J x = desired for which x' M x is smallest; M is the mass matrix.

    If the rows of J contradict each other, J x = desired is satisfied in the least-squares sense.
    """
    M, _, every, _ = system.terms(0.0, q, v, None, p)
    if not (np.isfinite(every).all() and np.isfinite(desired).all()):
        raise InvalidRequest(
            f"found no initial state of {system.mechanism.name!r} that satisfies the constraints: they have no finite "
            f"values at q = {q.tolist()}"
        )
    # J' J makes M regular along directions that only the rows restrain (Euler parameters); the least x is unchanged
    scale = np.trace(M) / max(np.sum(every * every), 1e-300)
    try:
        L = np.linalg.cholesky(M + scale * every.T @ every + 1e-14 * np.diag(np.diag(M)))
    except np.linalg.LinAlgError:
        raise InvalidRequest(
            f"found no initial state of {system.mechanism.name!r} that satisfies the constraints: the mass matrix is "
            f"singular at q = {q.tolist()}; give a mass and an inertia to every body that moves"
        ) from None
    y = np.linalg.lstsq(np.linalg.solve(L, J.T).T, desired, rcond=RANK)[0]
    return np.asarray(np.linalg.solve(L.T, y))


def _closer(
    system: CompiledSystem, q: np.ndarray, v: np.ndarray, p: np.ndarray, dq: np.ndarray, before: float
) -> tuple[np.ndarray, np.ndarray] | None:
    """(q, Phi) after the first of the steps dq, dq/2, dq/4, ... that reduces the violation; None if no step reduces it.

    dq      step of the coordinates (n_q,)
    before  sum of the squares of the violations Phi before the step
    """
    share = 1.0
    for _ in range(HALVINGS):
        tried = q + share * dq
        phi = system.residual(0.0, tried, v, p)[0]
        if float(phi @ phi) < before:  # false where it is not finite
            return tried, phi
        share /= 2
    return None


def _check_springs(system: CompiledSystem, q: np.ndarray, p: np.ndarray) -> None:
    """Raise InvalidMechanism if the two ends of a spring coincide at q, because the direction of its force is then
    undefined.

    Springs without rest length, pretension and damping are exempt.
    """
    mechanism = system.mechanism
    springs = [s for s in mechanism.springs if any(x != 0.0 for x in (s.rest_length, s.pretension, s.damping))]
    if not springs:
        return
    at = _points(system, q, p)
    for spring in springs:
        gap = at(spring.body_a, spring.point_a) - at(spring.body_b, spring.point_b)
        if not np.linalg.norm(gap) > APART * max(1.0, mechanism.characteristic_length):
            raise InvalidMechanism(
                f"mechanism {mechanism.name!r}: the ends of spring {spring.name!r} coincide at the start, so that its "
                "force has no direction; move one end, or set its rest_length, damping and pretension to 0"
            )


def _check_contacts(system: CompiledSystem, q: np.ndarray, p: np.ndarray) -> None:
    """Raise InvalidMechanism if a contact point on a beam is beyond the beam's ends at q."""
    mechanism = system.mechanism
    held = mechanism.constraint_modes[mechanism.start_constraint_mode].constraints
    contacts = [c for c in mechanism.constraints if isinstance(c, BeamContact) and (held is None or c.name in held)]
    beams = {beam.name: beam for beam in mechanism.beams}
    at = _points(system, q, p) if contacts else None
    for contact in contacts:
        assert at is not None
        beam = beams[contact.beam]
        along = float(np.dot(beam.axis, at(contact.body, contact.point) - np.array(beam.origin)))
        if not -ROUNDING <= along / beam.length <= 1.0 + ROUNDING:
            raise InvalidMechanism(
                f"mechanism {mechanism.name!r}: contact {contact.name!r} starts at {along:.6g} m along beam "
                f"{beam.name!r}, which is {beam.length:g} m long; it must start between the beam's ends"
            )


def _check_wheels(system: CompiledSystem, q: np.ndarray, p: np.ndarray, share: float) -> None:
    """Raise InvalidMechanism if a wheel that rolls is above or below its plane, or lies flat, at q.

    share  permitted height as a share of the characteristic length; without a Touching, nothing would correct a height,
           and the share is 1e-6
    """
    mechanism = system.mechanism
    wheels = [c for c in mechanism.constraints if isinstance(c, OnPlane)]
    if not wheels or mechanism.open_start:
        return
    held = mechanism.constraint_modes[mechanism.start_constraint_mode].constraints
    touching = {(c.body, c.center, c.other) for c in wheels if isinstance(c, Touching)}
    heights = lowest_points(
        wheels, [body.name for body in mechanism.bodies], *system.poses(0.0, q, np.zeros_like(q), p)
    )
    for wheel, height in zip(wheels, heights, strict=True):
        free = isinstance(wheel, Rolling) and (wheel.body, wheel.center, wheel.other) not in touching
        most = (STANDS if free else share) * mechanism.characteristic_length
        if abs(height) <= most or not (held is None or wheel.name in held):
            continue
        where = f"mechanism {mechanism.name!r}: wheel {wheel.name!r} of {wheel.body!r}"
        if math.isnan(height):
            raise InvalidMechanism(f"{where} lies flat at the start: its axis is along the normal; tilt it")
        raise InvalidMechanism(
            f"{where} is {abs(height):.3g} m {'above' if height > 0.0 else 'below'} its plane at the start, but must "
            "touch it; change the start, center, radius or other_point"
        )


def _deep_contacts(system: CompiledSystem, q: np.ndarray, p: np.ndarray) -> str:
    """One line with the sphere contacts that start too deep; "" without such contacts.

    A contact starts too deep if its elastic force exceeds the weight of all bodies, and its stored energy is the
    kinetic energy of the contact's effective mass at a speed above THROWN. If two bodies have several such contacts,
    only the deepest of these is named.
    """
    mechanism = system.mechanism
    if not mechanism.contacts:
        return ""
    names = [body.name for body in mechanism.bodies]
    rotations = dict(zip(names, system.poses(0.0, q, np.zeros_like(q), p)[1], strict=True))
    at = _points(system, q, p)
    weight = sum(value_of(body.mass) for body in mechanism.bodies) * math.hypot(*mechanism.gravity)
    masses: dict[str, float] = {}
    deepest: dict[tuple[str, str], tuple[float, str]] = {}
    for contact in mechanism.contacts:
        offset = at(contact.body, contact.center) - at(contact.other, contact.other_point)
        depth = contact.depth(rotations[contact.other].T @ offset if contact.other in rotations else offset)
        if not depth > 0.0 or contact.stiffness is None:
            continue
        force = value_of(contact.stiffness) * depth**contact.exponent
        masses = masses or effective_masses(mechanism, q)
        speed = math.sqrt(2.0 * force * depth / (contact.exponent + 1.0) / max(masses[contact.name], 1e-300))
        pair = (contact.body, contact.other)
        if force > weight and speed > THROWN and depth > deepest.get(pair, (0.0, ""))[0]:
            text = f"{contact.name!r} of {pair[0]!r} with {pair[1]!r} by {depth:.3g} m"
            deepest[pair] = depth, f"{text}, with a force of {force:.3g} N that throws them apart at {speed:.3g} m/s"
    if not deepest:
        return ""
    lines = [line for _, line in sorted(deepest.values(), reverse=True)]
    more = f"; and {len(lines) - SHOWN} more pairs of bodies" if len(lines) > SHOWN else ""
    return (
        f"mechanism {mechanism.name!r}: contacts penetrate each other at the start: {'; '.join(lines[:SHOWN])}{more}; "
        "move the bodies apart in the start"
    )


def _points(system: CompiledSystem, q: np.ndarray, p: np.ndarray) -> Callable[[str, Vector3], np.ndarray]:
    """Function (body, point fixed to the body) that returns the point's world position (3,), m, at q."""
    positions, rotations = system.poses(0.0, q, np.zeros_like(q), p)
    names = [body.name for body in system.mechanism.bodies]

    def at(body: str, point: Vector3) -> np.ndarray:
        if body not in names:
            return np.array(point)
        index = names.index(body)
        return np.asarray(positions[index] + rotations[index] @ np.array(point))

    return at


def _check_mass(system: CompiledSystem, q: np.ndarray, v: np.ndarray, p: np.ndarray) -> None:
    """Raise InvalidMechanism if the mass matrix is singular at q with the parameters p."""
    if line := singular_mass(system.mechanism, system.coordinate_names, system.terms(0.0, q, v, None, p)[0], q):
        raise InvalidMechanism(line)
