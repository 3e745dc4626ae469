"""Checks of inertias: possible, and not missing for any coordinate; of the mass matrix: regular at the start."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from sim_core.errors import InvalidMechanism
from sim_core.mechanism.description import GROUND, Body, Mechanism
from sim_core.mechanism.inertias import common_inertia, inertia_matrix
from sim_core.mechanism.quantities import value_of

SINGULAR = 1e-13  # the smallest eigenvalue of the mass matrix scaled to a diagonal of ones
ROUNDING = 1e-9  # share of the largest principal moment: a smaller negative moment is a rounding error
SHORT = 1e-3  # share of the largest principal moment by which the sum of the others may fall short: files round


def check_inertias(mechanism: Mechanism, owner: str) -> None:
    """Raise InvalidMechanism if a moment of inertia or a principal moment of a body is negative.

    Of bodies that fixed joints hold together, only the common inertia is in the equations of motion. A negative moment
    of one of them is therefore refused only if a common moment is negative, too. Bodies that are fixed to the ground
    may have any inertia.
    """
    for body in mechanism.bodies:
        moments = principal_moments(body)
        if moments[0] >= -ROUNDING * moments[2]:
            continue
        common = common_inertia(mechanism, body.name)
        if common is None or (together := moments_of(common[1]))[0] >= -ROUNDING * together[2]:
            continue
        where = f"{owner}: body {body.name!r}"
        if any(value_of(moment) < 0.0 for moment in body.inertia[:3]):
            own = tuple(map(value_of, body.inertia[:3]))
            raise InvalidMechanism(f"{where}: the moments of inertia are {own} kg m2; none may be negative")
        raise InvalidMechanism(
            f"{where}: inertia has the principal moments {_listed(moments)} kg m2; none may be negative, so reduce the "
            "products of inertia Ixy, Ixz, Iyz"
        )


def moments_of(inertia: np.ndarray) -> tuple[float, float, float]:
    """Principal moments of an inertia matrix (3, 3), in ascending order."""
    low, middle, high = np.linalg.eigvalsh(inertia).tolist()
    return low, middle, high


def principal_moments(body: Body) -> tuple[float, float, float]:
    """Principal moments of inertia about the centre of mass, kg m2, in ascending order."""
    xx, yy, zz, xy, xz, yz = map(value_of, body.inertia)
    if xy == xz == yz == 0.0:
        low, middle, high = sorted((xx, yy, zz))
    else:
        low, middle, high = moments_of(inertia_matrix(body))
    return low, middle, high


def implausible_inertias(mechanism: Mechanism) -> list[str]:
    """One-line warnings, one for each body whose largest principal moment exceeds the sum of the other two.

    No real body has such an inertia. There is no warning for a body that rotates about one axis only and has a moment
    of inertia about this axis only.
    """
    found = []
    for body in mechanism.bodies:
        low, middle, high = principal_moments(body)
        if high - low - middle > SHORT * high and not (middle == 0.0 and _turns_about_its_only_moment(mechanism, body)):
            found.append(
                f"mechanism {mechanism.name!r}: body {body.name!r}: inertia has principal moments "
                f"{_listed((low, middle, high))} kg m2; in a real body the largest does not exceed the sum of the "
                "other two, so check the inertia"
            )
    return found


def _turns_about_its_only_moment(mechanism: Mechanism, body: Body) -> bool:
    own = np.array([1.0 if value_of(moment) else 0.0 for moment in body.inertia[:3]])
    if any(value_of(product) for product in body.inertia[3:]):
        return False
    if mechanism.has_body_coordinates:
        return body.is_planar and bool(own[2])
    # from the body towards the ground: the axes of the joints that turn it, in its own axes at joint positions 0
    joints = {joint.child: joint for joint in mechanism.joints}
    R, at = np.eye(3), body.name
    while at in joints:
        joint = joints.pop(at)
        R = np.array(joint.rotation) @ R  # R_PB of the joint's parent
        if joint.turns and abs(abs(R.T @ np.array(joint.axis) @ own) - 1.0) > ROUNDING:
            return False
        at = joint.parent
    return True


def _listed(moments: tuple[float, ...]) -> str:
    return f"({', '.join(f'{moment:.4g}' for moment in moments)})"


def check_inert(mechanism: Mechanism, owner: str) -> None:
    """Raise InvalidMechanism for a coordinate that moves no mass or inertia.

    The acceleration of such a coordinate would be undetermined.
    """
    if mechanism.has_body_coordinates:
        for body in mechanism.bodies:
            for name in body.free_coordinates:
                where, what = f"{owner}: body {body.name!r}", f"coordinate {name!r}"
                _require_inert(name in ("x", "y", "z"), _Moved(body, 2 if body.is_planar else 0), where, what)
        return
    for joint, moved in zip(mechanism.joints, _moved(mechanism), strict=True):
        if joint.is_fixed or (value_of(joint.armature) > 0.0 and not (joint.is_planar)):
            continue
        where, what = f"{owner}: body {joint.child!r}", f"joint {joint.name!r}, with all that hangs on it,"
        if joint.slides and not joint.turns:
            _require_inert(True, moved, where, what)
        if not joint.is_length:
            _require_inert(False, moved, where, what)


class _Moved:
    """Bodies that a coordinate moves: the sums of their masses and moments of inertia, and whether a mass has a lever.

    first  number of the first axis whose moments count
    """

    def __init__(self, body: Body, first: int = 0) -> None:
        self.mass = value_of(body.mass)
        self.inertia = sum(value_of(moment) for moment in body.inertia[first:3])
        self.has_lever = self.mass > 0.0 and any(body.center_of_mass)

    def add(self, other: _Moved) -> None:
        self.mass += other.mass
        self.inertia += other.inertia
        self.has_lever = self.mass > 0.0


def _moved(mechanism: Mechanism) -> list[_Moved]:
    """What each joint of a tree moves: its child with all that hangs on it."""
    found = {body.name: _Moved(body) for body in mechanism.bodies}
    for joint in reversed(mechanism.joints):  # children before parents
        if joint.parent != GROUND:
            found[joint.parent].add(found[joint.child])
    return [found[joint.child] for joint in mechanism.joints]


def _require_inert(translates: bool, moved: _Moved, where: str, what: str) -> None:
    if translates and moved.mass == 0.0:
        raise InvalidMechanism(f"{where}: mass is 0, and {what} moves no other mass; give the body a mass")
    if not translates and moved.inertia == 0.0 and not moved.has_lever:
        raise InvalidMechanism(f"{where}: inertia is 0, and {what} turns no other inertia; give the body an inertia")


def singular_mass(mechanism: Mechanism, names: Sequence[str], M: np.ndarray, q: Any) -> str:
    """Error message that names the coordinates along which the mass matrix M (n_q, n_q) is singular; "" if M is
    regular.

    names  names of the coordinates
    q      coordinates (n_q,) at which M was evaluated
    """
    if not np.all(np.isfinite(M)):
        return (
            f"mechanism {mechanism.name!r}: its mass matrix has entries that are not finite at the start; check its "
            "masses, inertias and initial_q"
        )
    empty = undetermined(mechanism, names, M, q)
    if not empty:
        return ""
    several = len(empty) > 1
    return (
        f"mechanism {mechanism.name!r}: its mass matrix is singular at the start: coordinate{'s' * several} "
        f"{', '.join(map(repr, empty))} {'move' if several else 'moves'} no mass and no inertia"
        f"{' independently' if several else ''}; a body moved by {'them' if several else 'it'} needs mass, or inertia "
        "about the axis of its rotation"
    )


def undetermined(mechanism: Mechanism, names: Sequence[str], M: np.ndarray, q: Any) -> list[str]:
    """Names of the coordinates along which a finite mass matrix M (n_q, n_q) is singular; [] if it is regular.

    names, q  as in `singular_mass`
    """
    M = M.copy()
    for body in mechanism.bodies:
        if mechanism.has_body_coordinates and body.has_euler_parameters:
            own = [names.index(f"{body.name}.{e}") for e in ("e0", "e1", "e2", "e3") if e in body.free_coordinates]
            e = np.array([q[index] for index in own])
            M[np.ix_(own, own)] += 4.0 * np.outer(e, e) * max(np.abs(M[np.ix_(own, own)]).max(initial=0.0), 1e-300)
    scale = np.sqrt(np.maximum(np.diag(M), 0.0))
    empty = [name for name, size in zip(names, scale, strict=True) if size == 0.0]
    if not empty:
        scaled = M / np.outer(scale, scale)
        with suppress(np.linalg.LinAlgError):
            np.linalg.cholesky(scaled - SINGULAR * np.eye(len(M)))  # takes a tenth of the time of the eigenvalues
            return []
        values, vectors = np.linalg.eigh(scaled)
        if values[0] > SINGULAR:
            return []
        share = np.abs(vectors[:, 0])
        empty = [name for name, size in zip(names, share, strict=True) if size > 0.3 * share.max()]
    return empty
