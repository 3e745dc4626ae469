"""Corrected robot of a fit: corrections as TOML, and the mechanism with them for a URDF."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from robots.corrections import BodyCorrection, Corrections, JointCorrection
from sim_core.identification.friction import COLUMNS, SMOOTHING, STRIBECK
from sim_core.identification.inertial_parameters import ENTRIES, about_center, about_origin, is_consistent
from sim_core.identification.result import FitResult
from sim_core.mechanism import Mechanism
from sim_core.mechanism.inertias import held_together, inertia_matrix
from sim_core.mechanism.quantities import value_of

HALF_LOADED = float(np.arctanh(0.5))  # speed under half the friction, over the smoothing velocity


def corrections_of(result: FitResult, mechanism: Mechanism, robot: str) -> Corrections:
    """Corrections of the links' inertias, if these were fitted, and of the friction of the joints fitted together.

    None if the fit is not better for certain.
    """
    if result.outcome != "better":
        return Corrections(robot=robot)
    bodies: dict[str, BodyCorrection] = {}
    if result.inertias_fitted:
        for link, pi in zip(result.links, result.pi.reshape(-1, 10), strict=True):
            bodies |= _bodies(mechanism, link, pi)
    joints = {name: _joint(result, result.joints.index(name)) for name in result.fitted}
    return Corrections(robot=robot, bodies=bodies, joints=joints)


def creep_notes(corrections: Corrections, sticking: Collection[str]) -> Iterator[str]:
    """Note about joints of the corrected robot that creep under a load.

    sticking  joints whose dry friction has bristles, which they keep
    """
    smooth = {
        name: joint.smoothing_velocity
        for name, joint in corrections.joints.items()
        if (joint.coulomb or joint.static) and name not in sticking
    }
    if smooth:
        yield (
            f"{', '.join(smooth)}: the corrected dry friction is smooth near rest: under a load of half of it, a joint "
            f"creeps at {HALF_LOADED * min(smooth.values()):.2g} to {HALF_LOADED * max(smooth.values()):.2g} rad/s or "
            "m/s; a joint whose friction in the model before has bristles sticks"
        )


def _bodies(mechanism: Mechanism, link: str, pi: np.ndarray) -> dict[str, BodyCorrection]:
    """Inertias of a link's bodies that have the parameters pi (10,) together.

    The body `link` gets the difference from the other bodies. If no body can have this inertia, it gets all of pi, and
    the others become massless.
    """
    poses = held_together(mechanism, link)
    root = next(iter(poses))
    p, R = poses[link]
    others = np.zeros(10)
    names = [body.name for body in mechanism.bodies if body.name in poses and body.name != link]
    for body in mechanism.bodies:
        if body.name in names:
            p_B, R_B = R.T @ (poses[body.name][0] - p), R.T @ poses[body.name][1]
            center = p_B + R_B @ np.array(body.center_of_mass)
            others += about_origin(value_of(body.mass), center, R_B @ inertia_matrix(body) @ R_B.T)
    if root == link and is_consistent(pi - others):
        return {link: _body(pi - others)}
    nothing = BodyCorrection(mass=0.0, center_of_mass=(0.0, 0.0, 0.0), inertia=(0.0,) * 6)
    return {link: _body(pi)} | dict.fromkeys(names, nothing)


def _body(pi: np.ndarray) -> BodyCorrection:
    mass, center, inertia = about_center(pi)
    xx, yy, zz, xy, xz, yz = (float(inertia[entry]) for entry in ENTRIES)
    x, y, z = (float(value) for value in center)
    return BodyCorrection(mass=mass, center_of_mass=(x, y, z), inertia=(xx, yy, zz, xy, xz, yz))


def _joint(result: FitResult, row: int) -> JointCorrection:
    values = {name: float(value) for name, value in zip(COLUMNS, result.friction[row], strict=True)}
    scale = float(result.speed_scales[row])
    falling = values["stribeck"]
    return JointCorrection(
        damping=max(values["viscous"], 0.0),
        load=values["load"] + 0.0,
        armature=max(values["armature"], 0.0),
        coulomb=max(values["coulomb"], 0.0),
        static=max(values["coulomb"], 0.0) + falling if falling > 0.0 else None,
        stribeck_velocity=STRIBECK * scale,
        smoothing_velocity=SMOOTHING * scale,
    )
