"""Attitudes of spherical and free joints as rotation vectors from the attitudes of an equilibrium.

The module converts states between two forms, which differ only in the rotations of spherical and free joints:

    q, v     rotation coordinates relative to the joint's orientation at the start of the mechanism, and their time
             derivatives
    offsets  rotation vector (axis times angle, rad) from the attitude at the equilibrium, in the entries NAME.rx,
             NAME.ry, NAME.rz; angular velocity in the child's axes, rad/s, in NAME.rx.velocity to NAME.rz.velocity

All other entries of a state in offsets are those of q and v.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sim_core.batch.peaks import layout_of
from sim_core.spatial import (
    angular_velocity_of_step,
    conjugate,
    quaternion_of_rotation_vector,
    quaternion_of_step,
    quaternion_product,
    rates_of_step,
    rotation_vector,
    step_of_quaternion,
)
from sim_core.system import System

Array = np.ndarray
ROUNDING = 1e-15  # rad, up to which a rotation vector is rounding


def component_names(system: System) -> tuple[str, ...]:
    """Names (2 n_q,) of the components of a state in offsets: coordinates, then velocities named `NAME.velocity`."""
    names = system.coordinate_names
    return (*names, *[f"{name}.velocity" for name in names])


@dataclass(frozen=True)
class Attitudes:
    """Attitudes of the m spherical and free joints of a system at an equilibrium.

    about  coordinates (n_q,) of the equilibrium
    """

    system: System
    about: Array

    @cached_property
    def quaternions(self) -> Array:
        """Quaternions w x y z (m, 4) of the joints at the equilibrium."""
        found = [quaternion_product(Q, quaternion_of_step(self.about[turning])) for Q, turning in self._joints()]
        return np.array(found).reshape(-1, 4)

    @property
    def rotations(self) -> list[slice]:
        """For each joint the slice, in q and in v, of its rotation coordinates."""
        return [slice(each.rotation, each.rotation + 3) for each in layout_of(self.system).orientations]

    @property
    def parameters(self) -> Array:
        """Parameters (n_p,) of the system, with the quaternions of the equilibrium as reference quaternions.

        With these parameters, all rotation coordinates are 0 at the equilibrium.
        """
        p = self.system.default_parameters()
        for each, quaternion in zip(layout_of(self.system).orientations, self.quaternions, strict=True):
            p[each.quaternion : each.quaternion + 4] = quaternion
        return p

    def offsets(self, q: Array, v: Array) -> Array:
        """Convert n states from q, v (n, n_q) to offsets (n, 2 n_q)."""
        turned, turning = q.copy(), v.copy()
        for (start, place), reference in zip(self._joints(), self.quaternions, strict=True):
            s = q[:, place].T
            attitude = quaternion_product(start, quaternion_of_step(s))
            turned[:, place] = rotation_vector(quaternion_product(conjugate(reference.tolist()), attitude)).T
            turning[:, place] = angular_velocity_of_step(s, v[:, place].T).T
            turned[np.abs(turned[:, place]).max(axis=1) < ROUNDING, place] = 0.0
        return np.hstack([turned, turning])

    def states(self, offsets: Array) -> tuple[Array, Array]:
        """Convert n states from offsets (n, 2 n_q) to q, v (n, n_q)."""
        q, v = (part.copy() for part in np.hsplit(offsets, 2))
        for (start, place), reference in zip(self._joints(), self.quaternions, strict=True):
            attitude = quaternion_product(reference, quaternion_of_rotation_vector(q[:, place].T))
            s = step_of_quaternion(quaternion_product(conjugate(start.tolist()), attitude))
            v[:, place] = rates_of_step(s, v[:, place].T).T
            q[:, place] = s.T
        return q, v

    def _joints(self) -> Iterator[tuple[Array, slice]]:
        """Yield (quaternion at the mechanism's start, slice of the rotation coordinates in q) of each joint."""
        starts = np.array(self.system.mechanism.orientations).reshape(-1, 4)
        yield from zip(starts, self.rotations, strict=True)


def largest_angles(low: Array, high: Array, squared_sine: Array) -> Array:
    """Largest angle (n, ...), rad, of a rotation during each of n motions; pi if the angle reached pi.

    The rotation is described by a unit quaternion w x y z that is continuous in time. w is the cosine of half the
    angle, and changes its sign where the angle passes pi.

    low, high     (n, ...) smallest and largest value of w in each motion
    squared_sine  (n, ...) largest squared sine of half the angle in each motion; it is used for small angles, for which
                  it is more accurate than w
    """
    small = 2.0 * np.arcsin(np.sqrt(np.minimum(squared_sine, 0.5)))
    large = 2.0 * np.arccos(np.minimum(np.minimum(np.abs(low), np.abs(high)), 1.0))
    angle = np.where(squared_sine > 0.5, large, small)
    return np.where((low < 0.0) & (high > 0.0), np.pi, angle)


def tilt_angles(vector: Array, axis: int) -> Array:
    """Angles (n,), rad, by which rotations tilt an axis.

    vector  rotation vectors (3, n)
    axis    0, 1 or 2 for the axis x, y or z
    """
    x = quaternion_of_rotation_vector(vector)[1:]
    return np.asarray(2.0 * np.arcsin(np.minimum(np.hypot(x[(axis + 1) % 3], x[(axis + 2) % 3]), 1.0)))
