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
    Rolling,
    Slider,
    SpinRelation,
    Touching,
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
        Touching: lambda: [_height(c, frames)],
        Rolling: lambda: [],
        UnitNorm: lambda: [],
        SpinRelation: lambda: [],
    }
    return formulas[type(c)]()


def _height(c: Touching, frames: dict[str, MovingFrame]) -> Jet:
    """Height c_z - r sqrt(1 - a_z^2) of the lowest point of a wheel with the axle a, or c_z - r of a sphere."""
    assert (c.other, c.normal, c.other_point) == (GROUND, (0.0, 0.0, 1.0), (0.0, 0.0, 0.0))
    center = constant((0.0, 0.0, 1.0)) @ frames[c.body].point(c.center)
    if c.axis is None:
        return center - constant(c.radius)
    a = constant((0.0, 0.0, 1.0)) @ (frames[c.body].R @ constant(c.axis))
    root = np.sqrt(1.0 - a.x**2)
    rate = -a.x * a.d / root
    return center - Jet(root, rate, -(a.d**2 + a.x * a.dd + rate**2) / root).scaled(c.radius)


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
        if joint.spring is not None:
            stretch = q[mechanism.coordinate_names.index(joint.name)] - value_of(joint.spring.rest)
            pull = value_of(joint.spring.stiffness) * stretch + value_of(joint.spring.cubic) * stretch**3
            f += rate * (value_of(joint.spring.preload) - pull)
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
    relations = [c for c in mechanism.constraints if isinstance(c, SpinRelation | Rolling)]
    names = [c.name for c in relations for _ in _speeds(c, along)[0]]
    G = np.array([[x for c in relations for x in _speeds(c, frames)[0]] for frames in axes]).T.reshape(-1, len(q))
    gains = np.array([-x for c in relations for x in _speeds(c, along)[1]])
    rows = _row_mask(mechanism, [name for name, _ in _named_rows(mechanism, along)])[moving]
    spins = _row_mask(mechanism, names)
    J, gamma = rows[:, None] * J[moving], -rows * phi.dd[moving]
    return M, f, np.vstack([J, spins[:, None] * G]), np.concatenate([gamma, spins * gains]), rows * phi.x[moving]


def _speeds(c: SpinRelation | Rolling, frames: dict[str, MovingFrame]) -> tuple[list[float], list[float]]:
    """Values of the rows of a nonholonomic constraint, and their rates of change at constant dq/ds."""
    if isinstance(c, Rolling):
        return _slip(c, frames)
    turning = [(frames[body], axis, factor) for body, axis, factor in c.terms]
    value = sum(factor * (frame.angular_velocity() @ axis) for frame, axis, factor in turning)
    return [float(value)], [
        float(sum(factor * (frame.angular_acceleration() @ axis) for frame, axis, factor in turning))
    ]


def _slip(c: Rolling, frames: dict[str, MovingFrame]) -> tuple[list[float], list[float]]:
    """Slip on the ground along each direction that the constraint blocks, and its rate of change."""
    assert (c.other, c.normal) == (GROUND, (0.0, 0.0, 1.0))
    body, n = frames[c.body], np.array([0.0, 0.0, 1.0])
    if c.axis is None:
        e1, _ = perpendicular_axes(c.normal)
        t, dt, up, dup = np.array(e1), np.zeros(3), n, np.zeros(3)
    else:
        a = body.R @ constant(c.axis)
        across, change = np.cross(a.x, n), np.cross(a.d, n)
        t = across / np.linalg.norm(across)
        dt = (change - t * (t @ change)) / np.linalg.norm(across)
        up, dup = np.cross(t, a.x), np.cross(dt, a.x) + np.cross(t, a.d)
    center = body.point(c.center)
    w, dw = (body.R.x @ each for each in (body.angular_velocity(), body.angular_acceleration()))
    slip = center.d - c.radius * np.cross(w, up)
    rate = center.dd - c.radius * (np.cross(dw, up) + np.cross(w, dup))
    mixes = [(1.0, 0.0), (0.0, 1.0)] if c.rollers is None else [(np.cos(c.rollers), np.sin(c.rollers))]
    directions = [(x * t + y * np.cross(n, t), x * dt + y * np.cross(n, dt)) for x, y in mixes]
    return [float(e @ slip) for e, _ in directions], [float(e @ rate + de @ slip) for e, de in directions]


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
