"""Checks that every body's inertia is physically possible."""

from __future__ import annotations

import numpy as np

from sim_core.errors import InvalidMechanism
from sim_core.mechanism.description import Body, Mechanism
from sim_core.mechanism.inertias import common_inertia, inertia_matrix
from sim_core.mechanism.quantities import value_of

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
    if mechanism.coordinates == "absolute":
        return body.orientation == "planar" and bool(own[2])
    # from the body towards the ground: the axes of the joints that turn it, in its own axes at joint positions 0
    joints = {joint.child: joint for joint in mechanism.joints}
    R, at = np.eye(3), body.name
    while at in joints:
        joint = joints.pop(at)
        R = np.array(joint.rotation) @ R  # R_PB of the joint's parent
        if joint.kind in ("revolute", "planar") and abs(abs(R.T @ np.array(joint.axis) @ own) - 1.0) > ROUNDING:
            return False
        at = joint.parent
    return True


def _listed(moments: tuple[float, ...]) -> str:
    return f"({', '.join(f'{moment:.4g}' for moment in moments)})"
