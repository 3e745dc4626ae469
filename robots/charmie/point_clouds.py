"""The inventory of CHARMIE's 40 bodies and 47 joints, and the points of every body in the world.

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
    """Points of a body in the world, m.

    O its origin (3,), A towards its predecessor (3,), B towards its successors (n, 3), C its centre of mass (3,), shape
    (n, 3).
    """

    O: np.ndarray
    A: np.ndarray
    B: np.ndarray
    C: np.ndarray
    shape: np.ndarray


def connections(mechanism: Mechanism) -> tuple[Connection, ...]:
    """Every joint: those of the open tree, then those of the auxiliary bodies."""
    main = [
        Connection(joint.name, KINDS[joint.kind], joint.parent, joint.child, joint.axis)  # type: ignore[arg-type]
        for joint in mechanism.joints
    ]
    return (*main, *auxiliary_connections())


def point_clouds(p: Parameters, mechanism: Mechanism, q: Any) -> dict[str, PointCloud]:
    """The points of all 40 bodies at joint positions q (21,) of the open tree `mechanism`, built from p."""
    at = postures(mechanism, np.asarray(q, dtype=float))
    return main_clouds(mechanism, at) | auxiliary_clouds(p, mechanism, at, q)


def main_clouds(mechanism: Mechanism, at: Mapping[str, Posture]) -> dict[str, PointCloud]:
    """The points of the bodies of a tree at their postures."""
    return {name: _main_cloud(mechanism, posture) for name, posture in at.items()}


def auxiliary_clouds(p: Parameters, mechanism: Mechanism, at: Mapping[str, Posture], q: Any) -> dict[str, PointCloud]:
    """The points of CHARMIE's auxiliary bodies, the main ones being at their postures."""
    found: dict[str, PointCloud] = {}
    position = dict(zip((joint.name for joint in mechanism.moving_joints), q, strict=True))
    claws = {branch: position[f"{side}_claw"] for branch, side in SIDES.items()}
    for name, body in auxiliary_bodies(p, position["lift"], position["tilt"], claws).items():
        carrier = at[body.carrier]
        origin, R = carrier.p_WO + carrier.R_WB @ body.p, carrier.R_WB @ body.R
        ends = origin + np.array(body.ends) @ R.T
        found[name] = PointCloud(origin, ends[0], ends[1:], origin + R @ body.center, origin + body.shape @ R.T)
    return found


def _main_cloud(mechanism: Mechanism, at: Posture) -> PointCloud:
    def placed(points: Any) -> np.ndarray:
        return np.asarray(at.p_WO + np.array(points, dtype=float).reshape(-1, 3) @ at.R_WB.T)

    successors = [joint.parent_point for joint in mechanism.joints if joint.parent == at.body.name]
    center = placed(at.body.center_of_mass)[0]
    return PointCloud(at.p_WO, at.p_WA, placed(successors), center, placed(shape_points(at.body)))


def shape_points(body: Body) -> np.ndarray:
    """Corners of the boxes around a body's shapes and the points of its lines, (n, 3) in its axes."""
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
    """Half the sides of the box around a shape."""
    half: Mapping[str, tuple[float, ...]] = {
        "box": tuple(side / 2 for side in size),
        "sphere": 3 * size[:1],
        "cylinder": (size[0], size[0], size[-1] / 2),
    }
    return half[kind]
