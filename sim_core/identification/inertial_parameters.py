"""Inertial parameters of links: ten numbers per link, in which the joint efforts are linear.

The ten numbers pi of a link are its mass m, kg; its first moments of mass h = m c, kg m; and its moments and products
of inertia about the origin of its frame, Ixx, Iyy, Izz, Ixy, Ixz, Iyz, kg m2. A link is a body with all bodies that
fixed joints hold to it. Its pseudo-inertia is the matrix (4, 4) [[S, h], [h', m]] with the second moments of mass
S = tr(I) / 2 - I; a body of positive density can have pi if and only if the pseudo-inertia is positive definite.
[WensingEtAl2018]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim_core.mechanism.description import GROUND, Mechanism
from sim_core.mechanism.inertias import held_together, inertia_matrix, nearest_inertia
from sim_core.mechanism.quantities import value_of

Array = np.ndarray[Any, np.dtype[np.float64]]
PARAMETERS = ("m", "hx", "hy", "hz", "Ixx", "Iyy", "Izz", "Ixy", "Ixz", "Iyz")
ENTRIES = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))  # of the inertia matrix, in the order of PARAMETERS


def links_of(mechanism: Mechanism) -> tuple[str, ...]:
    """Names of the links: the children of the joints that move, in the order of the joints."""
    return tuple(joint.child for joint in mechanism.joints if not joint.is_fixed)


def inertial_parameters(mechanism: Mechanism, link: str) -> Array:
    """Parameters pi (10,) of a link in the frame of its body `link`."""
    poses = held_together(mechanism, link)
    if GROUND in poses:
        raise ValueError(f"{link!r} is fixed to the ground")
    total = np.zeros(10)
    for body in mechanism.bodies:
        if body.name not in poses:
            continue
        p, R = poses[body.name]
        m, c = value_of(body.mass), p + R @ np.array(body.center_of_mass)
        total += about_origin(m, c, R @ inertia_matrix(body) @ R.T)
    return total


def about_origin(m: float, c: Any, inertia: Any) -> Array:
    """Parameters pi (10,) of a body: mass m, centre of mass c (3,) and inertia (3, 3) about the centre of mass."""
    c = np.asarray(c, dtype=float)
    I = np.asarray(inertia) + m * (c @ c * np.eye(3) - np.outer(c, c))
    return np.array([m, *(m * c), *(I[entry] for entry in ENTRIES)])


def about_center(pi: Any) -> tuple[float, Array, Array]:
    """(mass, centre of mass (3,), inertia (3, 3) about it) of the parameters pi (10,); the inverse of `about_origin`.

    A mass of 0 has its centre at the origin.
    """
    pi = np.asarray(pi, dtype=float)
    m, h, I = float(pi[0]), pi[1:4], _matrix(pi[4:])
    c = h / m if m > 0.0 else np.zeros(3)
    return m, c, I - m * (c @ c * np.eye(3) - np.outer(c, c))


def pseudo_inertia(pi: Any) -> Array:
    """Pseudo-inertia (4, 4) of the parameters pi (10,)."""
    pi = np.asarray(pi, dtype=float)
    I = _matrix(pi[4:])
    P = np.zeros((4, 4))
    P[:3, :3] = np.trace(I) / 2.0 * np.eye(3) - I
    P[:3, 3] = P[3, :3] = pi[1:4]
    P[3, 3] = pi[0]
    return P


def parameters_of(pseudo: Any) -> Array:
    """Parameters pi (10,) of a pseudo-inertia (4, 4); the inverse of `pseudo_inertia`."""
    P = np.asarray(pseudo, dtype=float)
    S = P[:3, :3]
    I = np.trace(S) * np.eye(3) - S
    return np.array([P[3, 3], *P[:3, 3], *(I[entry] for entry in ENTRIES)])


def is_consistent(pi: Any) -> bool:
    """Whether a body of positive density can have the parameters pi (10,)."""
    return bool(np.linalg.eigvalsh(pseudo_inertia(pi))[0] > 0.0)


def nearest_consistent(pi: Any, least: float) -> Array:
    """The consistent parameters (10,) nearest to pi, by `nearest_inertia`, with the same mass and centre of mass.

    least  smallest second moment of mass per principal axis, as a share of the mass times a square metre
    """
    m, c, inertia = about_center(pi)
    m = max(m, least)
    return about_origin(m, c, nearest_inertia(inertia, least * m))


def metric(pi: Any) -> Array:
    """Matrix G (10, 10) of the squared distance d' G d of parameters pi + d from consistent parameters pi.

    The distance tr((P^-1 dP)^2) / 2, where P is the pseudo-inertia, depends neither on the units nor on the frame. It
    is the second-order part of the affine-invariant Riemannian distance. [LeeWensingPark2020]
    """
    scaled = np.linalg.solve(pseudo_inertia(pi), BASIS)
    return np.asarray(np.einsum("aij,bji->ab", scaled, scaled) / 2.0)


def _matrix(six: Array) -> Array:
    I = np.zeros((3, 3))
    for value, (i, j) in zip(six, ENTRIES, strict=True):
        I[i, j] = I[j, i] = value
    return I


BASIS = np.array([pseudo_inertia(row) for row in np.eye(10)])  # (10, 4, 4): pseudo-inertia per parameter
