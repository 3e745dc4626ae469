"""First-order changes of the rotation coordinates of spherical and free joints within one step.

A step begins with the rotation coordinates s = 0, whose rates are then the angular velocity w in the child's axes (see
derivation/coordinates/orientations.py). A deviation of the start turns the joint by a small rotation vector d, in the
child's axes, before the rotation of s. To first order, the rotation from the undisturbed start then has the coordinates
s + E(s) d, with [SchaubJunkins1996]

    E(s) = (1 - s.s/16) 1 - [s x] / 2 + s s'/8

Before and after a step, the deviations of a linear model are the rotation vector d from the undisturbed orientation and
its rate. The rate is the deviation of w + d x w / 2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sim_core.spatial import conjugate, quaternion_product, rates_of_step, step_of_quaternion
from sim_core.state import State
from sim_core.system import System

Array = np.ndarray


class Turning(NamedTuple):
    """The rotation of a spherical or free joint.

    block  its three rotation coordinates in q
    first  index of its quaternion in p
    """

    block: slice
    first: int


def turnings_of(system: System) -> list[Turning]:
    """The rotations of all spherical and free joints."""
    names, parameters = system.coordinate_names, system.parameter_names
    firsts = [names.index(joint.coordinates[-3]) for joint in system.mechanism.oriented_joints]
    places = [parameters.index(joint.orientation_names[0]) for joint in system.mechanism.oriented_joints]
    return [Turning(slice(k, k + 3), place) for k, place in zip(firsts, places, strict=True)]


def within_step(turnings: list[Turning], before: State, after: State) -> tuple[Array, Array]:
    """(q, v) of the state `after` in the coordinates of the step that began at the state `before`."""
    q, v = after.q.copy(), after.v.copy()
    for block, first in turnings:
        old, new = before.p[first : first + 4], after.p[first : first + 4]
        q[block] = step_of_quaternion(quaternion_product(np.array(conjugate(old.tolist())), new))
        v[block] = rates_of_step(q[block], after.v[block])
    return q, v


def turned(s: Array) -> Array:
    """The matrix E(s) (3, 3)."""
    return np.asarray((1.0 - s @ s / 16.0) * np.eye(3) - 0.5 * crossing(s) + np.outer(s, s) / 8.0)


def turned_by_rate(s: Array, rate: Array) -> Array:
    """Derivative (3, 3) of E(s) along ds/dt = `rate`."""
    both = np.outer(rate, s) + np.outer(s, rate)
    return np.asarray(-(s @ rate) / 8.0 * np.eye(3) - 0.5 * crossing(rate) + both / 8.0)


def turned_twice(rate: Array) -> Array:
    """Second derivative (3, 3) of E(s) along ds/dt = `rate`."""
    return np.asarray(-(rate @ rate) / 8.0 * np.eye(3) + np.outer(rate, rate) / 4.0)


def started(turnings: list[Turning], v: Array) -> Array:
    """Derivatives (2 n_q, 2 n_q) of the coordinates and velocities with which a step begins by the deviations there.

    The rotation coordinates begin at 0, whatever the deviations.
    v  velocities (n_q,) at the start
    """
    n = len(v)
    begin = np.eye(2 * n)
    for block, _ in turnings:
        begin[block, block] = 0.0
        begin[n + block.start : n + block.stop, block] = 0.5 * crossing(v[block])
    return begin


def moved(turnings: list[Turning], q: Array, v: Array) -> Array:
    """Derivatives (2 n_q, 2 n_q), by the deviations of the start, of coordinates and velocities from the undisturbed
    start, at fixed coordinates q and velocities v (n_q,) of the step.
    """
    n = len(q)
    found = np.zeros((2 * n, 2 * n))
    for block, _ in turnings:
        found[block, block] = turned(q[block])
        found[n + block.start : n + block.stop, block] = turned_by_rate(q[block], v[block])
    return found


def moved_acceleration(turnings: list[Turning], q: Array, v: Array, a: Array) -> Array:
    """The same (n_q, 2 n_q) for accelerations, at fixed accelerations a (n_q,) of the step."""
    n = len(q)
    found = np.zeros((n, 2 * n))
    for block, _ in turnings:
        found[block, block] = turned_by_rate(q[block], a[block]) + turned_twice(v[block])
    return found


def ended(turnings: list[Turning], q: Array, v: Array, w: Array, by_x: Array) -> Array:
    """Derivatives (2 n_q, m) of the deviations at the end of a step.

    q, v  (n_q,) of the end, in the coordinates of the step
    w     velocities (n_q,) of the end
    by_x  derivatives (2 n_q, m) of q and v, from the undisturbed start
    """
    n, found = len(q), by_x.copy()
    for block, _ in turnings:
        own = slice(n + block.start, n + block.stop)
        s, rate = q[block], v[block]
        scale = 1.0 + s @ s / 16.0
        B = turned(s) / scale**2  # the angular velocity is B ds/dt
        by_s = 0.5 * crossing(rate) + ((s @ rate) * np.eye(3) - np.outer(rate, s) + np.outer(s, rate)) / 8.0
        by_s = by_s / scale**2 - np.outer(B @ rate, s) / (4.0 * scale)
        found[block] = B @ by_x[block]
        turn = B @ by_x[own] + by_s @ by_x[block]
        found[own] = turn - 0.5 * crossing(w[block]) @ found[block]
    return found


def crossing(a: Array) -> Array:
    """Matrix (3, 3) of the cross product a x b."""
    x, y, z = a
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
