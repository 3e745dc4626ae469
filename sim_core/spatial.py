"""Rotations and frames, with functions that take numpy arrays or CasADi SX and return the same kind.

Rotations are R_AB: the columns are the axes of B expressed in A, so that v_A = R_AB @ v_B.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = Any  # numpy array or casadi SX
Triple = tuple[float, float, float]
SMALLEST = 1e-300  # added below a square root, so that its derivative at 0 is finite


def library_of(*values: Array) -> Any:
    """The module casadi if one of the values is a CasADi SX, otherwise the module numpy.

    casadi is imported only if needed.
    """
    for value in values:
        module = type(value).__module__
        if module.startswith("casadi"):
            import casadi  # only derivations need it

            return casadi
    return np


def matrix(rows: list[list[Array]]) -> Array:
    """Matrix from rows of scalars; a CasADi SX if an entry is symbolic, otherwise a numpy array."""
    library = library_of(*[entry for row in rows for entry in row])
    if library is np:
        return np.array(rows, dtype=float)
    return library.vertcat(*[library.horzcat(*row) for row in rows])


def vector(*entries: Array) -> Array:
    """Vector of scalars; a CasADi SX if an entry is symbolic, otherwise a numpy array."""
    library = library_of(*entries)
    return np.array(entries, dtype=float) if library is np else library.vertcat(*entries)


def cross(a: Array, b: Array) -> Array:
    """Cross product a x b of two 3-vectors."""
    return vector(a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


def dot(a: Array, b: Array) -> Array:
    """Scalar product of two vectors, of which one may be a sequence of numbers."""
    library = library_of(a, b)
    if library is np:
        return np.dot(a, b)
    return library.dot(*(x if library_of(x) is library else library.DM(x) for x in (a, b)))


def column(entries: Sequence[Array]) -> Array:
    """Column of scalars or columns."""
    library = library_of(*entries)
    return np.hstack(entries) if library is np else library.vertcat(*entries)


def rotation_about(axis: tuple[float, float, float], angle: Array) -> Array:
    """Rotation matrix (3, 3) of a right-handed rotation by `angle`, rad, about a unit `axis` (Rodrigues' formula)."""
    library = library_of(angle)
    c, s = library.cos(angle), library.sin(angle)
    x, y, z = axis
    if axis == (0.0, 0.0, 1.0):
        return matrix([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    if axis == (0.0, 1.0, 0.0):
        return matrix([[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]])
    if axis == (1.0, 0.0, 0.0):
        return matrix([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])
    d = 1.0 - c
    return matrix(
        [
            [c + d * x * x, d * x * y - s * z, d * x * z + s * y],
            [d * x * y + s * z, c + d * y * y, d * y * z - s * x],
            [d * x * z - s * y, d * y * z + s * x, c + d * z * z],
        ]
    )


def rotation_zxz(phi: Array, theta: Array, psi: Array) -> Array:
    """Rotation matrix of intrinsic ZXZ Euler angles, rad: precession phi, nutation theta, spin psi.

    [NadaBayoumi2024, eq. 23]
    """
    turn = rotation_about((0.0, 0.0, 1.0), phi), rotation_about((1.0, 0.0, 0.0), theta)
    spin = rotation_about((0.0, 0.0, 1.0), psi)
    return turn[0] @ turn[1] @ spin


def angular_velocity_zxz(theta: Array, psi: Array, rates: Array) -> Array:
    """Angular velocity w_WB_B (3,) from ZXZ Euler angles, rad, and their rates (phi', theta', psi'), rad/s.

    The z component is cos(theta) phi' + psi'.
    """
    library = library_of(theta, psi, rates)
    s, c = library.sin(psi), library.cos(psi)
    s_theta = library.sin(theta)
    return vector(
        rates[0] * s_theta * s + rates[1] * c,
        rates[0] * s_theta * c - rates[1] * s,
        rates[0] * library.cos(theta) + rates[2],
    )


def rotation_from_quaternion(e: Array) -> Array:
    """Rotation matrix (3, 3) of Euler parameters e = (e0, e1, e2, e3), scalar first.

    The entries are quadratic functions of e; e is not normalized first.
    """
    w, x, y, z = e[0], e[1], e[2], e[3]
    return matrix(
        [
            [w * w + x * x - y * y - z * z, 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), w * w - x * x + y * y - z * z, 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z],
        ]
    )


def angular_velocity_quaternion(e: Array, rates: Array) -> Array:
    """Angular velocity w_WB_B = 2 E(e) e' (3,) from Euler parameters e and their rates e'.

    The z component is -2 e3 e0' + 2 e2 e1' - 2 e1 e2' + 2 e0 e3'.
    """
    w, x, y, z = e[0], e[1], e[2], e[3]
    a, b, c, d = rates[0], rates[1], rates[2], rates[3]
    return vector(
        2 * (-x * a + w * b + z * c - y * d),
        2 * (-y * a - z * b + w * c + x * d),
        2 * (-z * a + y * b - x * c + w * d),
    )


def quaternion_product(a: Array, b: Array) -> Array:
    """Product a b (4,) of two quaternions, w x y z: the rotation b, and then a."""
    return vector(
        a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
        a[0] * b[1] + b[0] * a[1] + a[2] * b[3] - a[3] * b[2],
        a[0] * b[2] + b[0] * a[2] + a[3] * b[1] - a[1] * b[3],
        a[0] * b[3] + b[0] * a[3] + a[1] * b[2] - a[2] * b[1],
    )


def quaternion_of_step(s: Array) -> Array:
    """Unit quaternion (4,), w x y z, of the rotation with the coordinates s (3,) of a spherical or free joint.

    s is the vector of length 4 tan(angle / 4) along the axis of rotation.
    """
    square = (s[0] * s[0] + s[1] * s[1] + s[2] * s[2]) / 16.0
    scale = 0.5 / (1.0 + square)
    return vector((1.0 - square) / (1.0 + square), scale * s[0], scale * s[1], scale * s[2])


def angular_velocity_of_step(s: Array, rates: Array) -> Array:
    """Angular velocity (3,) of a spherical or free joint, in the child's axes.

    s      rotation coordinates (3,), or (3, n) of n joints: a vector of length 4 tan(angle / 4) along the axis of
           rotation
    rates  time derivatives of s, of the same shape
    """
    sigma, along = np.asarray(s) / 4.0, np.asarray(rates)
    square = (sigma * sigma).sum(axis=0)
    turned = (1.0 - square) * along - 2.0 * cross(sigma, along) + 2.0 * (sigma * along).sum(axis=0) * sigma
    return turned / (1.0 + square) ** 2


def rates_of_step(s: Array, angular_velocity: Array) -> Array:
    """Time derivatives of the rotation coordinates s of a joint: the inverse of `angular_velocity_of_step`.

    s                 rotation coordinates (3,), or (3, n) of n joints
    angular_velocity  angular velocity in the child's axes, of the same shape
    """
    sigma, turning = np.asarray(s) / 4.0, np.asarray(angular_velocity)
    square = (sigma * sigma).sum(axis=0)
    return (1.0 - square) * turning + 2.0 * cross(sigma, turning) + 2.0 * (sigma * turning).sum(axis=0) * sigma


def step_of_quaternion(e: Array) -> Array:
    """Rotation coordinates s (3,), of length 4 tan(angle / 4), of the rotation by a unit quaternion w x y z.

    The angle is at most pi, so that |s| is at most 4. Also for quaternions (4, n).
    """
    w, *vector_part = np.where(np.asarray(e)[0] < 0.0, -np.asarray(e), e)
    return np.asarray([4.0 * part / (1.0 + w) for part in vector_part])


def quaternion_of_rotation_vector(r: Array) -> Array:
    """Unit quaternion (4,), w x y z, of the rotation by a rotation vector r, axis times angle; also for r (3, n)."""
    half = np.sqrt((np.asarray(r) * r).sum(axis=0)) / 2.0
    scale = 0.5 * np.sinc(half / math.pi)
    return np.asarray([np.cos(half), *(scale * part for part in r)])


def conjugate(e: Sequence[float]) -> tuple[float, float, float, float]:
    """Unit quaternion, w x y z, of the inverse of the rotation by a nonzero quaternion e."""
    norm = math.hypot(*e)
    w, x, y, z = (part / norm for part in e)
    return w, -x, -y, -z


def axis_and_angle(e: Array) -> tuple[Array, Array]:
    """(unit vector (3,) along the axis, angle from 0 to pi, rad) of the rotation by a nonzero quaternion w x y z.

    The axis is zero at angle 0, and changes its sign where the angle passes pi. Derivatives exist at angle 0.
    """
    library = library_of(*[e[i] for i in range(4)])
    choose = np.where if library is np else library.if_else
    sign = choose(e[0] < 0.0, -1.0, 1.0)
    half_sine = library.sqrt(e[1] * e[1] + e[2] * e[2] + e[3] * e[3] + SMALLEST)
    angle = 2.0 * (np.arctan2 if library is np else library.atan2)(half_sine, sign * e[0])
    scale = sign / half_sine
    return vector(scale * e[1], scale * e[2], scale * e[3]), angle


def rotation_vector(e: Array) -> Array:
    """Rotation vector (3,), axis times angle, rad, of the rotation by a nonzero quaternion w x y z; at most pi long."""
    axis, angle = axis_and_angle(e)
    return axis * angle


def quaternions_from_rotations(R: np.ndarray) -> np.ndarray:
    """Unit quaternions (n, 4), w x y z, of rotation matrices (n, 3, 3).

    Of the quaternions q and -q, the result is the one whose entry of largest absolute value is positive.
    """
    R = np.asarray(R, dtype=float)
    trace = R[:, 0, 0] + R[:, 1, 1] + R[:, 2, 2]
    # 4 q q' written from R; its largest column is the best conditioned. [Shepperd1978]
    K = np.empty((len(R), 4, 4))
    K[:, 0, 0] = 1.0 + trace
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        K[:, i + 1, i + 1] = 1.0 + 2.0 * R[:, i, i] - trace
        K[:, 0, i + 1] = K[:, i + 1, 0] = R[:, k, j] - R[:, j, k]
        K[:, i + 1, j + 1] = K[:, j + 1, i + 1] = R[:, i, j] + R[:, j, i]
    best = np.argmax(np.einsum("nii->ni", K), axis=1)
    column = K[np.arange(len(R)), :, best]
    return np.asarray(column / np.linalg.norm(column, axis=1, keepdims=True))


def perpendicular_axes(axis: Triple) -> tuple[Triple, Triple]:
    """Two unit vectors (e1, e2) with e1 x e2 = axis: x and y for the axis z, y and z for x, z and x for y."""
    table = {
        (0.0, 0.0, 1.0): ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0)),
        (1.0, 0.0, 0.0): ((0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
        (0.0, 1.0, 0.0): ((0.0, 0.0, 1.0), (1.0, 0.0, 0.0)),
    }
    if axis in table:
        return table[axis]
    n = np.asarray(axis)
    helper = np.eye(3)[int(np.argmin(np.abs(n)))]
    e1 = np.cross(helper, n)
    e1 /= np.linalg.norm(e1)
    e2 = np.cross(n, e1)
    return (float(e1[0]), float(e1[1]), float(e1[2])), (float(e2[0]), float(e2[1]), float(e2[2]))
