"""List of CHARMIE's 40 bodies and 47 joints, and the world positions of points of every body.

[GoncalvesEtAl2024, secs. 3.1, 3.2 and 4]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from robots.charmie.auxiliary import Connection, auxiliary_bodies, auxiliary_connections
from robots.charmie.links import SIDES
from robots.charmie.parameters import Parameters
from sim_core.joint_loads import Posture, postures
from sim_core.mechanism import Body, Mechanism
from sim_core.spatial import rotation_from_quaternion

KINDS = {"prismatic": "P", "revolute": "R", "fixed": "F"}


@dataclass(frozen=True)
class PointCloud:
    """World positions of a body's points (m).

    O      origin (3,)
    A      point (3,) of the joint to the preceding body
    B      points (n, 3) of the joints to the succeeding bodies
    C      centre of mass (3,)
    shape  points (n, 3) of the body's shape
    """

    O: np.ndarray
    A: np.ndarray
    B: np.ndarray
    C: np.ndarray
    shape: np.ndarray


def connections(mechanism: Mechanism) -> tuple[Connection, ...]:
    """All 47 joints of CHARMIE: first the joints of the open tree, then the joints of the auxiliary bodies."""
    main = [
        Connection(joint.name, KINDS[joint.kind], joint.parent, joint.child, joint.axis)  # type: ignore[arg-type]
        for joint in mechanism.joints
    ]
    return (*main, *auxiliary_connections())


@dataclass(frozen=True)
class LocalPoints:
    """Points of a body of the main chains in the body's axes (m).

    points  (n, 3): first the origin O, then the centre of mass C, then the points B of the joints to the succeeding
            bodies, then the points of the shape
    n_B     number of points B
    """

    points: np.ndarray
    n_B: int


def local_points(mechanism: Mechanism) -> dict[str, LocalPoints]:
    """Return {body: LocalPoints} of the bodies of the open tree, which `main_clouds` transforms to world positions.

    The points do not depend on joint positions. [GoncalvesEtAl2024, secs. 3.2 and 4.2, first step]
    """
    found = {}
    for body in mechanism.bodies:
        B = [joint.parent_point for joint in mechanism.joints if joint.parent == body.name]
        rows = [(0.0, 0.0, 0.0), body.center_of_mass, *B, *shape_points(body)]
        found[body.name] = LocalPoints(np.array(rows, dtype=float), len(B))
    return found


def point_clouds(p: Parameters, mechanism: Mechanism, q: Any) -> dict[str, PointCloud]:
    """Return {body: PointCloud} of all 40 bodies at joint positions q (21,).

    mechanism  the open tree, built from the parameters p
    """
    at = postures(mechanism, np.asarray(q, dtype=float))
    return main_clouds(local_points(mechanism), at) | auxiliary_clouds(p, mechanism, at, q)


def main_clouds(local: Mapping[str, LocalPoints], at: Mapping[str, Posture]) -> dict[str, PointCloud]:
    """Return {body: PointCloud} of the bodies of the open tree. [GoncalvesEtAl2024, eqs. 15 and 19]

    local  {body: points in the body's axes}
    at     {body: pose of the body in the world}
    """
    found = {}
    for name, body in local.items():
        posture = at[name]
        points = posture.p_WO + body.points @ posture.R_WB.T
        ends = 2 + body.n_B
        found[name] = PointCloud(points[0], posture.p_WA, points[2:ends], points[1], points[ends:])
    return found


def auxiliary_clouds(p: Parameters, mechanism: Mechanism, at: Mapping[str, Posture], q: Any) -> dict[str, PointCloud]:
    """Return {body: PointCloud} of CHARMIE's auxiliary bodies at joint positions q (21,).

    p          parameters of the robot
    mechanism  the open tree, built from these parameters
    at         {body of the main chains: pose of the body in the world}
    """
    found: dict[str, PointCloud] = {}
    position = dict(zip((joint.name for joint in mechanism.moving_joints), q, strict=True))
    claws = {branch: position[f"{side}_claw"] for branch, side in SIDES.items()}
    for name, body in auxiliary_bodies(p, position["lift"], position["tilt"], claws).items():
        carrier = at[body.carrier]
        origin, R = carrier.p_WO + carrier.R_WB @ body.p, carrier.R_WB @ body.R
        ends = origin + np.array(body.ends) @ R.T
        found[name] = PointCloud(origin, ends[0], ends[1:], origin + R @ body.center, origin + body.shape @ R.T)
    return found


def shape_points(body: Body) -> np.ndarray:
    """Points (n, 3) of a body's shapes in the body's axes (m).

    They are the corners of the shapes' bounding boxes, and the points of lines.
    """
    found = []
    for shape in body.shapes:
        if shape.kind == "line":
            points = np.array(shape.points).reshape(-1, 3)
        else:
            reach = np.array(_extent(shape.kind, shape.size))
            points = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * reach
        found.append(np.array(shape.position) + points @ rotation_from_quaternion(np.array(shape.quaternion)).T)
    return np.vstack(found)


def _extent(kind: str, size: tuple[float, ...]) -> tuple[float, ...]:
    """Half the side lengths of the bounding box of a shape of this kind and size."""
    half: Mapping[str, tuple[float, ...]] = {
        "box": tuple(side / 2 for side in size),
        "sphere": 3 * size[:1],
        "cylinder": (size[0], size[0], size[-1] / 2),
    }
    return half[kind]
