"""CHARMIE's auxiliary bodies, outside the main chains: linear actuators, springs, balancing mechanism, second fingers.

The main chains and the auxiliary bodies together are 40 bodies with 34 revolute, 10 prismatic and 3 fixed joints, which
close 7 loops. The paper does not say whether the second fingers of the claws count among the 40 bodies; this model
counts them. Orientations are computed from directed angles, because eq. 21 gives only the cosines of the angles.
[GoncalvesEtAl2024, secs. 3.1, 4.3]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np

from robots.charmie.geometry import Motion, PlanarMotion, balance_motion, lift_actuator, tilt_actuator
from robots.charmie.links import SIDES
from robots.charmie.parameters import Parameters, Point
from sim_core.mechanism import Vector3, X, Y, Z
from sim_core.spatial import rotation_about

HALVES = {"l": -1.0, "r": 1.0}  # left and right half of the balancing mechanism: sign of its slider's x


@dataclass(frozen=True)
class Connection:
    """A joint in the list of CHARMIE's joints: two bodies, an axis, and a kind.

    kind  "P" (prismatic), "R" (revolute) or "F" (fixed)
    loop  whether the joint closes a loop
    """

    name: str
    kind: Literal["P", "R", "F"]
    body_a: str
    body_b: str
    axis: Vector3
    loop: bool = False


@dataclass(frozen=True)
class AuxiliaryBody:
    """Pose of an auxiliary body relative to its carrier, a body of the main chains, and points of the auxiliary body.

    The lengths are in m.

    ends   points in the auxiliary body's axes: first the point A of the joint to the preceding body, then the points B
           of the joints to the succeeding bodies
    shape  (n, 3) points of the body's shape, in the auxiliary body's axes
    """

    carrier: str
    p: np.ndarray
    R: np.ndarray
    ends: tuple[Vector3, ...]
    shape: np.ndarray

    @property
    def center(self) -> np.ndarray:
        """Nominal centre of mass C (3,), the mean of the points `ends`; auxiliary bodies have no mass."""
        return np.asarray(np.array(self.ends).mean(axis=0))


def mirrored(point: Point, side: float) -> Point:
    """Return a point of the robot's left half (side -1), or its mirror image with -x in place of x (side +1)."""
    return (-side * point[0] + 0.0, point[1], point[2])


def balance_points(p: Parameters, half: str, lift: float) -> dict[str, np.ndarray]:
    """Return {point: position (3,) in m} of one half of the balancing mechanism, in link 3's axes.

    [GoncalvesEtAl2024, eqs. 22 to 27]

    The points are F3, B4sla, B4slb and B4slc of the paper, and the anchor of the spring.

    half  "l" or "r"
    lift  joint position of the lift (m)
    """
    side, balance = HALVES[half], p.balance
    bar, slider = balance_motion(p, Motion(lift))
    pivot = np.array(mirrored(balance.pivot, side))
    tip = np.array([side * slider.x, pivot[1], pivot[2] + balance.bar_length * np.sin(bar.x)])
    return {
        "F3": pivot,
        "B4sla": tip,  # eqs. 23, 24
        "B4slb": pivot + balance.spring_at / balance.bar_length * (tip - pivot),  # eqs. 26, 27
        "B4slc": tip + np.array([0.0, 0.0, balance.slider_length]),  # eqs. 22, 25
        "anchor": np.array(mirrored(balance.spring_anchor, side)),
    }


def spring_5s(p: Parameters, tilt: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the two ends (3,) of the tilt spring 5s (m): one on link 4 and one on link 5, both in link 4's axes.

    tilt  joint position of the tilt (rad)
    """
    joint, R = np.array(p.lower_body.tilt_joint), rotation_about(X, tilt)
    return np.array(p.tilt_spring.base_point), np.asarray(joint + R @ np.array(p.tilt_spring.body_point))


def auxiliary_bodies(p: Parameters, lift: float, tilt: float, claws: Mapping[str, float]) -> dict[str, AuxiliaryBody]:
    """Return {name: AuxiliaryBody} for given joint positions. [GoncalvesEtAl2024, eqs. 20 to 27]

    lift   joint position of the lift (m)
    tilt   joint position of the tilt (rad)
    claws  {arm, "a" (left) or "b" (right): joint position of its claw (rad)}
    """
    found = _actuator(p, "4d", "link_3", p.lift.base_point, lift_actuator(p, Motion(lift)))
    found |= _actuator(p, "5d", "link_4", p.tilt.base_point, tilt_actuator(p, Motion(tilt)))
    base, body = spring_5s(p, tilt)
    across = PlanarMotion(Motion(body[1] - base[1]), Motion(body[2] - base[2]))
    found |= _halves_of("5s", "link_4", base, rotation_about(X, across.turn.x), across.length.x, p.auxiliary.width)
    for half in HALVES:
        found |= _balance(p, half, lift)
    for branch, claw in claws.items():
        found[f"finger_{branch}"] = _finger(p, branch, claw)
    return found


def _box(width: float, low: Point, high: Point) -> np.ndarray:
    """Corners (8, 3) of a box whose axis goes from the point `low` to the point `high`.

    width  side length of the box perpendicular to this axis
    """
    ends = np.array([low, high])
    across = np.ptp(ends, axis=0) == 0.0
    ends += width / 2 * across * [[-1.0], [1.0]]
    return np.array(list(product(*ends.T)))


def _actuator(p: Parameters, name: str, carrier: str, base: Point, line: PlanarMotion) -> dict[str, AuxiliaryBody]:
    """The two bodies of a linear actuator: a cylinder with its origin at the hinge, a rod with its origin at the tip.

    The z axes of both bodies point along the actuator.
    """
    R, reach = rotation_about(X, line.turn.x), 0.6 * (p.lift if name == "4d" else p.tilt).start_length
    tip = np.array(base) + R @ np.array([0.0, 0.0, line.length.x])
    top, back = (0.0, 0.0, reach), (0.0, 0.0, -reach)
    wide = p.auxiliary.width
    zero = (0.0, 0.0, 0.0)
    return {
        f"link_{name}_cylinder": AuxiliaryBody(carrier, np.array(base), R, (zero, top), _box(wide, zero, top)),
        f"link_{name}_rod": AuxiliaryBody(carrier, tip, R, (back, zero), _box(wide / 2, back, zero)),
    }


def _halves_of(
    name: str, carrier: str, base: np.ndarray, R: np.ndarray, length: float, width: float
) -> dict[str, AuxiliaryBody]:
    """Represent a spring by two auxiliary bodies, each from one end of the spring to its middle."""
    zero, up, down = (0.0, 0.0, 0.0), (0.0, 0.0, length / 2), (0.0, 0.0, -length / 2)
    end = base + R @ np.array([0.0, 0.0, length])
    return {
        f"link_{name}_lower": AuxiliaryBody(carrier, base, R, (zero, up), _box(width / 2, zero, up)),
        f"link_{name}_upper": AuxiliaryBody(carrier, end, R, (down, zero), _box(width / 2, down, zero)),
    }


def _balance(p: Parameters, half: str, lift: float) -> dict[str, AuxiliaryBody]:
    at, side, wide = balance_points(p, half, lift), HALVES[half], p.auxiliary.width
    bar = balance_motion(p, Motion(lift))[0].x
    held = (side * p.balance.spring_at, 0.0, 0.0)
    zero, tip = (0.0, 0.0, 0.0), (side * p.balance.bar_length, 0.0, 0.0)
    R_bar, hinge = rotation_about(Y, -side * bar), (0.0, 0.0, -p.balance.slider_length)
    up = at["anchor"] - at["B4slb"]
    R_spring = rotation_about(Y, float(np.arctan2(up[0], up[2])))
    name, length = f"4s{half}", float(np.linalg.norm(up))
    return {
        f"link_{name}a": AuxiliaryBody("link_3", at["F3"], R_bar, (zero, held, tip), _box(wide / 2, zero, tip)),
        f"link_{name}c": AuxiliaryBody("link_3", at["B4slc"], np.eye(3), (zero, hinge), _box(wide, zero, hinge)),
        **_halves_of(f"{name}b", "link_3", at["B4slb"], R_spring, length, wide),
    }


def _finger(p: Parameters, branch: str, claw: float) -> AuxiliaryBody:
    """The second finger of a claw: the mirror image of link 13 in the plane through the claw's hinge.

    branch  arm, "a" (left) or "b" (right)
    claw    joint position of the claw (rad)
    """
    x, y, z = p.arm.claw.hinge
    axis = {"x": X, "y": Y, "z": Z}[p.arm.claw.axis]
    end = (0.0, 0.0, p.arm.claw.length)
    zero = (0.0, 0.0, 0.0)
    R = rotation_about(axis, -claw)
    return AuxiliaryBody(
        f"link_12{branch}", np.array([-x + 0.0, -y + 0.0, z]), R, (zero, end), _box(p.arm.claw.width, zero, end)
    )


def auxiliary_connections() -> tuple[Connection, ...]:
    """Joints of the auxiliary bodies; in each loop, the joint that closes the loop comes last."""
    found = [
        *_line("4d", "link_3", "cylinder", "rod", "link_4", X),
        *_line("5d", "link_4", "cylinder", "rod", "link_5", X),
    ]
    found += _line("5s", "link_4", "lower", "upper", "link_5", X)
    for half in HALVES:
        name = f"4s{half}"
        found += [
            Connection(f"{name}a_link_3", "R", "link_3", f"link_{name}a", Y),
            Connection(f"{name}c_link_4", "P", "link_4", f"link_{name}c", X),
            Connection(f"{name}a_{name}c", "R", f"link_{name}a", f"link_{name}c", Y, loop=True),
            *_line(f"{name}b", f"link_{name}a", "lower", "upper", "link_3", Y),
        ]
    found += [Connection(f"finger_{b}", "R", f"link_12{b}", f"finger_{b}", X) for b in SIDES]
    return tuple(found)


def _line(name: str, base: str, first: str, second: str, end: str, axis: Vector3) -> list[Connection]:
    """Return the three connections of a link of variable length: a hinge, a slide between its two bodies, a hinge.

    first, second  the two bodies that form the link
    base, end      bodies to which the two hinges connect the link
    """
    one, two = f"link_{name}_{first}", f"link_{name}_{second}"
    return [
        Connection(f"{name}_base", "R", base, one, axis),
        Connection(f"{name}_slide", "P", one, two, Z),
        Connection(f"{name}_end", "R", two, end, axis, loop=True),
    ]
