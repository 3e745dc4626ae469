"""Slow numpy form of a mechanism's equations, independent of the symbolic derivation: the reference for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sim_core.flexible.elements import beam_model, contact_model
from sim_core.mechanism.constraints import (
    Anchored,
    BeamContact,
    Coincidence,
    Distance,
    Perpendicular,
    Slider,
    SpinRelation,
    UnitNorm,
)
from sim_core.mechanism.description import COORDINATES, GROUND, Body, Joint, Mechanism, Spring
from sim_core.mechanism.quantities import value_of
from sim_core.reference import Jet, MovingFrame, constant, quaternion_product, stack, tree_frames, turn
from sim_core.spatial import perpendicular_axes


def frames_along(mechanism: Mechanism, q: np.ndarray, direction: np.ndarray) -> dict[str, MovingFrame]:
    """{body: MovingFrame} at q, with its derivatives with respect to s along the line q + s * direction, at s = 0.

    Each beam has an entry too: a MovingFrame with the beam's coordinates in place of the position.
    """
    line = [Jet(x, d, 0.0) for x, d in zip(q, direction, strict=True)]
    build = _absolute_frames if mechanism.has_body_coordinates else tree_frames
    first = len(line) - sum(beam.n_coordinates for beam in mechanism.beams)
    beams, start = {}, first
    for beam in mechanism.beams:
        beams[beam.name] = MovingFrame(stack(line[start : start + beam.n_coordinates]), constant(np.eye(3)))
        start += beam.n_coordinates
    if mechanism.is_partitioned:
        _add_dependent(mechanism, line, beams)
    return build(mechanism, line) | beams


def _add_dependent(mechanism: Mechanism, line: list[Jet], beams: dict[str, MovingFrame]) -> None:
    """Insert the jet of the dependent coordinate into `line`, the jets of the other coordinates.

    A partitioned formulation eliminates this coordinate. Its value follows from the constraint row w - p = 0 of the
    beam contact, see `_contact_rows`.
    """
    contact = next(c for c in mechanism.constraints if isinstance(c, BeamContact))
    place = [joint.name for joint in mechanism.moving_joints].index(contact.dependent)
    line.insert(place, constant(0.0))
    (zero,) = _contact_rows(mechanism, contact, tree_frames(mechanism, line) | beams)
    line[place] = constant(1.0)
    (one,) = _contact_rows(mechanism, contact, tree_frames(mechanism, line) | beams)
    line[place] = zero.scaled(1.0 / (zero.x - one.x))


def _contact_rows(mechanism: Mechanism, contact: BeamContact, frames: dict[str, MovingFrame]) -> list[Jet]:
    """Row w - p of a beam contact: deflection w of the beam minus transverse position p of the contact point."""
    beam = next(beam for beam in mechanism.beams if beam.name == contact.beam)
    offset = frames[contact.body].point(contact.point) - constant(beam.origin)
    x, p, q = constant(beam.axis) @ offset, constant(beam.direction) @ offset, frames[beam.name].p
    N, slope, bend = (contact_model(beam, contact.width).shape(float(x.x), k) for k in range(3))
    row = Jet(N, slope * x.d, bend * x.d**2 + slope * x.dd)
    return [row @ q - p - constant(value_of(contact.offset))]


def _absolute_frames(mechanism: Mechanism, line: list[Jet]) -> dict[str, MovingFrame]:
    frames = {GROUND: MovingFrame(constant(np.zeros(3)), constant(np.eye(3)))}
    moving = iter(line)
    for body in mechanism.bodies:
        names = COORDINATES[body.orientation]
        fixed = body.placement or (0.0,) * len(names)
        value = {
            name: next(moving) if name in body.free_coordinates else constant(placed)
            for name, placed in zip(names, fixed, strict=True)
        }
        p = stack([value["x"], value["y"], value.get("z", constant(0.0))])
        frames[body.name] = _oriented(body, p, [value[name] for name in names if name not in "xyz"])
    return frames


def _oriented(body: Body, p: Jet, angles: list[Jet]) -> MovingFrame:
    if body.is_planar:
        return MovingFrame(p, turn((0, 0, 1), angles[0]))
    if body.orientation == "zxz":
        return MovingFrame(p, turn((0, 0, 1), angles[0]) @ turn((1, 0, 0), angles[1]) @ turn((0, 0, 1), angles[2]))
    e = stack(angles)
    x, d, dd = (quaternion_product(*pair) for pair in ((e.x, e.x), (e.x, e.d), (e.d, e.d)))
    return MovingFrame(p, Jet(x, 2 * d, 2 * dd), e)


def rows_along(mechanism: Mechanism, frames: dict[str, MovingFrame]) -> Jet:
    """Jet Phi, dPhi/ds, d2Phi/ds2 of all constraint rows, including rows that do not depend on any coordinate."""
    jets = [jet for _, jet in _named_rows(mechanism, frames)]
    return stack(jets) if jets else constant(np.zeros(0))


def _named_rows(mechanism: Mechanism, frames: dict[str, MovingFrame]) -> list[tuple[str, Jet]]:
    """(name of the joint or constraint, jet of the row) of every constraint row."""
    named: list[tuple[str, Jet]] = []
    if mechanism.has_body_coordinates:
        for joint in mechanism.joints:
            named += [(joint.name, row) for row in _joint_rows(mechanism, joint, frames)]
        named += [
            (f"{b.name}.norm", frames[b.name].e @ frames[b.name].e - constant(1.0))  # type: ignore[operator]
            for b in mechanism.bodies
            if b.has_euler_parameters
        ]
    for constraint in mechanism.constraints:
        if not isinstance(constraint, BeamContact):
            named += [(constraint.name, row) for row in _rows(constraint, frames)]
        elif not mechanism.is_partitioned:
            named += [(constraint.name, row) for row in _contact_rows(mechanism, constraint, frames)]
    return named


def _row_mask(mechanism: Mechanism, names: list[str]) -> np.ndarray:
    """Flags (n_r,) of constraint rows: 1 if the row's constraint holds at the start, otherwise 0.

    names  name of the constraint of each row
    """
    kept = mechanism.constraint_modes[mechanism.start_constraint_mode].constraints
    return np.array([kept is None or name in kept or name not in mechanism.switched for name in names], dtype=float)


def _gap(c: Any, frames: dict[str, MovingFrame]) -> Jet:
    return frames[c.body_a].point(c.point_a) - frames[c.body_b].point(c.point_b)


def _rows(c: Any, frames: dict[str, MovingFrame]) -> list[Jet]:
    formulas: dict[type, Callable[[], list[Jet]]] = {
        Coincidence: lambda: [constant(direction) @ _gap(c, frames) for direction in c.directions],
        Perpendicular: lambda: [(frames[c.body_a].R @ constant(c.axis_a)) @ (frames[c.body_b].R @ constant(c.axis_b))],
        Slider: lambda: [((frames[c.body_a].R @ constant(c.axis_a)) @ _gap(c, frames)).scaled(-1.0)],
        Distance: lambda: [
            (_gap(c, frames) @ _gap(c, frames) - constant(c.length**2)).scaled(1 / (2 * c.length)),
        ],
        Anchored: lambda: [
            constant(c.axis) @ frames[c.body].point(c.point) - constant(value_of(c.at)),
        ],
        UnitNorm: lambda: [],
        SpinRelation: lambda: [],
    }
    return formulas[type(c)]()


def _joint_rows(mechanism: Mechanism, joint: Joint, frames: dict[str, MovingFrame]) -> list[Jet]:
    """Constraint rows of a joint from the joint's definition: points coincide, axes are aligned."""
    parent, child = frames[joint.parent], frames[joint.child]
    gap = parent.point(joint.parent_point) - child.point(joint.child_point)
    e1, e2 = (np.array(e) for e in perpendicular_axes(joint.axis))
    R = np.array(joint.rotation)
    ends = [mechanism.body(name) for name in (joint.parent, joint.child) if name != GROUND]
    planar = all(body.is_planar for body in ends)

    def dot(in_child: np.ndarray, in_parent: np.ndarray) -> Jet:
        return (child.R @ constant(R.T @ in_child)) @ (parent.R @ constant(in_parent))

    def offset(axis: np.ndarray) -> Jet:
        return ((parent.R @ constant(axis)) @ gap).scaled(-1.0)

    axis = np.array(joint.axis)
    if joint.is_fixed:
        square = [dot(e1, e2)] if planar else [dot(axis, e1), dot(axis, e2), dot(e1, e2)]
        return [*(constant(e) @ gap for e in np.eye(3)[: 2 if planar else 3]), *square]
    if not joint.slides:
        meet = [constant(e) @ gap for e in np.eye(3)[: 2 if planar else 3]]
        return meet if planar else [*meet, dot(axis, e1), dot(axis, e2)]
    if joint.is_length:
        if planar:
            across = e2 if abs(e1[2]) > 0.5 else e1
            return [offset(across), dot(across, axis)]
        return [offset(e1), offset(e2), dot(axis, e1), dot(axis, e2), dot(e1, e2)]
    return [] if planar else [offset(axis), dot(axis, e1), dot(axis, e2)]


def terms(mechanism: Mechanism, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, ...]:
    """(M, f, J, gamma, Phi) at q and v, with the initial values of tunables.

    f does not include actuator efforts, and Phi has the holonomic rows only.

    Rows that do not depend on any coordinate are left out, as in the derivation. Rows of constraints that do not hold
    in the initial constraint mode are zero.
    """
    axes = [frames_along(mechanism, q, e) for e in np.eye(len(q))]
    along = frames_along(mechanism, q, v)
    M, f = np.zeros((len(q), len(q))), np.zeros(len(q))
    for body in mechanism.bodies:
        mass, inertia = value_of(body.mass), _inertia(body)
        Jv = np.array([frames[body.name].point(body.center_of_mass).d for frames in axes]).T
        G = np.array([frames[body.name].angular_velocity() for frames in axes]).T
        here = along[body.name]
        w, drift = here.angular_velocity(), here.point(body.center_of_mass).dd
        M += mass * Jv.T @ Jv + G.T @ inertia @ G
        f += mass * Jv.T @ (np.array(mechanism.gravity) - drift)
        f -= G.T @ (inertia @ here.angular_acceleration() + np.cross(w, inertia @ w))
    for joint in mechanism.moving_joints:
        rate = np.array([_joint_rate(joint, frames) for frames in axes])
        f += rate * (value_of(joint.load) - value_of(joint.damping) * (rate @ v))
    for spring in mechanism.springs:
        f += _spring_force(spring, axes, along)
    start = len(q) - sum(beam.n_coordinates for beam in mechanism.beams)
    for model in map(beam_model, mechanism.beams):
        block = slice(start, start + model.n)
        M[block, block] += model.M
        weight = model.beam.mass_per_length * np.dot(mechanism.gravity, model.beam.direction)
        f[block] += weight * model.uniform - model.K @ q[block] - model.C @ v[block]
        start += model.n
    phi = rows_along(mechanism, along)
    J = np.array([rows_along(mechanism, frames).d for frames in axes]).T.reshape(len(phi.x), len(q))
    moving = np.array([row for row in range(len(J)) if np.abs(J[row]).max() > 0], dtype=int)
    relations = [c for c in mechanism.constraints if isinstance(c, SpinRelation)]
    G = np.array([[_spin(c, frames) for frames in axes] for c in relations]).reshape(len(relations), len(q))
    gains = np.array([-_spin_change(c, along) for c in relations])
    rows = _row_mask(mechanism, [name for name, _ in _named_rows(mechanism, along)])[moving]
    spins = _row_mask(mechanism, [c.name for c in relations])
    J, gamma = rows[:, None] * J[moving], -rows * phi.dd[moving]
    return M, f, np.vstack([J, spins[:, None] * G]), np.concatenate([gamma, spins * gains]), rows * phi.x[moving]


def _spin(c: SpinRelation, frames: dict[str, MovingFrame]) -> float:
    return float(sum(factor * (frames[body].angular_velocity() @ axis) for body, axis, factor in c.terms))


def _spin_change(c: SpinRelation, frames: dict[str, MovingFrame]) -> float:
    return float(sum(factor * (frames[body].angular_acceleration() @ axis) for body, axis, factor in c.terms))


def _joint_rate(joint: Joint, frames: dict[str, MovingFrame]) -> float:
    parent, child = frames[joint.parent], frames[joint.child]
    axis = parent.R.x @ np.array(joint.axis)
    if joint.is_length:
        gap = child.point(joint.child_point) - parent.point(joint.parent_point)
        return float(((parent.R @ constant(joint.axis)) @ gap).d)
    return float(axis @ (child.R.x @ child.angular_velocity() - parent.R.x @ parent.angular_velocity()))


def _spring_force(spring: Spring, axes: list[dict[str, MovingFrame]], along: dict[str, MovingFrame]) -> np.ndarray:
    """Generalized force (n_q,) of a spring: minus the spring's tension times d(length)/dq."""
    apart = _gap(spring, along)
    length = np.linalg.norm(apart.x)
    line = apart.x / length
    pull = value_of(spring.pretension) + value_of(spring.stiffness) * (length - value_of(spring.rest_length))
    pull += value_of(spring.damping) * line @ apart.d
    return np.array([-pull * line @ _gap(spring, frames).d for frames in axes])


def _inertia(body: Body) -> np.ndarray:
    xx, yy, zz, xy, xz, yz = (value_of(value) for value in body.inertia)
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
