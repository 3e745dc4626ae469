"""Notices about bodies that pass through a box, sphere or capsule, or that go beyond its middle, during a run.

Beyond the middle, a contact pushes out through the far side. Every LOOK ticks, states since the last look are taken
from the history of the simulation: so many that a body moves by a small part of the thickness from one to the next, and
only the last one for bodies that are far away or slow. A plane has no far side, and is not looked at. The orientations
of spherical and free joints are those of the last state.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from sim_core.integrators.workspace import HISTORY, Workspace
from sim_core.mechanism.contacts import SphereContact
from sim_core.mechanism.description import GROUND
from sim_core.mechanism.quantities import value_of
from sim_core.mobility import effective_masses
from sim_core.monitoring.modes import rounded_down
from sim_core.spatial import rotation_from_quaternion
from sim_core.system import System

LOOK = 20  # ticks between two looks
SAFETY = 2.0  # ratio of the permitted path between two looks to the distance of its ends
FINE = 4.0  # evaluations while a body moves by the thickness
STEPS = 20.0  # steps in which a body that is stopped in time moves by the thickness

assert LOOK < HISTORY


class Passages:
    """Looks for passages of the contacts of one running simulation. Each contact is named once per run."""

    def __init__(self, system: System, w: Workspace, step_s: float) -> None:
        self._system, self._w, self._step_s = system, w, step_s
        self._contacts = [each for each in system.mechanism.contacts if not each.is_plane]
        self.are_there = bool(self._contacts)
        names = [body.name for body in system.mechanism.bodies]
        self._bodies = np.array([names.index(each.body) for each in self._contacts], dtype=int)
        self._others = np.array([-1 if c.other == GROUND else names.index(c.other) for c in self._contacts], dtype=int)
        self._centers = np.array([c.center for c in self._contacts], dtype=float).reshape(-1, 3)
        self._points = np.array([c.other_point for c in self._contacts], dtype=float).reshape(-1, 3)
        self._turned = [np.array(rotation_from_quaternion(np.array(c.other_quaternion))) for c in self._contacts]
        self._thickness = np.array([thickness(c) for c in self._contacts])
        self._least = self._thickness / (SAFETY * FINE)
        n = len(names)
        self._q, self._t = np.zeros(system.n_q), np.zeros(1)
        self._p, self._R = np.zeros((n + 1, 3)), np.tile(np.eye(3), (n + 1, 1, 1))  # the last one is the ground
        inputs = [self._t, self._q, np.zeros(system.n_q), w.u, w.p]
        self._place = system.bind("poses", inputs, [self._p[:n], self._R[:n]]) if self.are_there else None
        self.begin(0)

    def begin(self, tick: int) -> None:
        """Restart at the present state, which is that of this tick."""
        self._named, self._tick = set[str](), tick
        if self.are_there:
            self._before = self._offsets(self._w.t[0], self._w.q)

    def look(self, tick: int) -> Iterator[str]:
        """Yield a one-line warning for each contact with a passage since the last look; `tick` is the present tick."""
        first, before, now = self._tick, self._before.copy(), self._offsets(self._w.t[0], self._w.q)
        self._tick = tick
        moved = np.sqrt(np.square(now - before).sum(axis=1))
        far = moved > self._least  # false where not finite
        if not far.any():  # a contact that has hardly moved is looked at when it has
            return
        self._before[far] = now[far]
        paths = SAFETY * moved
        near = [
            k
            for k in np.flatnonzero(far).tolist()
            if self._contacts[k].name not in self._named
            and -max(self._contacts[k].depth(before[k]), self._contacts[k].depth(now[k])) < paths[k]
        ]
        if not near:
            return
        count = min(tick - first, math.ceil(FINE * float((paths / self._thickness)[near].max())))
        ticks = [first + round((tick - first) * k / count) for k in range(1, count)]
        places = [before, *(self._offsets(*self._at(tick)) for tick in ticks), now]
        times = [first, *ticks, tick]
        for k in near:
            for place, a, b in zip(range(len(places)), places, places[1:], strict=False):
                if passes(self._contacts[k], self._turned[k], a[k], b[k]):
                    span = (times[place + 1] - times[place]) * self._step_s
                    self._named.add(self._contacts[k].name)
                    yield self._line(self._contacts[k], k, float(np.linalg.norm(b[k] - a[k])) / span, times[place])
                    break

    def _at(self, tick: int) -> tuple[float, np.ndarray]:
        row = self._w.history[tick % HISTORY]
        return float(row[0]), row[1 : 1 + self._system.n_q]

    def _offsets(self, t: float, q: np.ndarray) -> np.ndarray:
        """Vectors (n, 3) from each contact's `other_point` to the centre of its sphere, in the frame of `other`."""
        assert self._place is not None
        self._t[0], self._q[:] = t, q
        self._place()
        p, R = self._p, self._R
        centers = p[self._bodies] + np.einsum("kij,kj->ki", R[self._bodies], self._centers)
        offsets: np.ndarray = np.einsum("kji,kj->ki", R[self._others], centers - p[self._others]) - self._points
        return offsets

    def _line(self, contact: SphereContact, k: int, speed: float, tick: int) -> str:
        thick, step_ms, deepest = self._thickness[k], 1e3 * self._step_s, self._thickness[k] / 2.0
        mass = effective_masses(self._system.mechanism, self._w.q)[contact.name]
        n = contact.exponent
        assert contact.stiffness is not None
        stopped = math.sqrt(2.0 * value_of(contact.stiffness) * deepest ** (n + 1.0) / ((n + 1.0) * mass))
        step = rounded_down(thick / (STEPS * speed))
        fewer = f"use a step of at most {1e3 * step:.2g} ms" if step < self._step_s else ""
        harder = f"its stiffness stops at most {stopped:.3g} m/s there: use a larger one" if stopped < speed else ""
        return (
            f"body {contact.body!r} of {self._system.mechanism.name!r} passes the middle of contact {contact.name!r} "
            f"with {contact.other!r} at t = {tick * self._step_s:.6g} s, at {speed:.3g} m/s, which is "
            f"{1e3 * speed * self._step_s:.3g} mm per step of {step_ms:.4g} ms through a thickness of "
            f"{1e3 * thick:.3g} mm; {' and '.join(filter(None, (fewer, harder))) or 'use a larger stiffness'}"
        )


def thickness(contact: SphereContact) -> float:
    """Distance, m, that the centre of a contact's sphere travels through the other shape along its shortest way."""
    if contact.other_half_sizes is not None:
        return 2.0 * (min(contact.other_half_sizes) + contact.radius)
    return 2.0 * (contact.radius + (contact.other_radius or 0.0))


def passes(contact: SphereContact, turned: np.ndarray, a: np.ndarray, b: np.ndarray) -> bool:
    """Whether the centre of a contact's sphere passes the middle of the other shape on the straight way from a to b.

    a, b    (3,) vectors from `other_point` to the centre of the sphere, in the frame of `other`, m
    turned  rotation matrix (3, 3) from the axes of a box to those of `other`
    """
    if contact.other_half_sizes is not None:
        half, a, b = np.array(contact.other_half_sizes), turned.T @ a, turned.T @ b
        for k in range(3):
            if a[k] * b[k] < 0.0:
                at = a + a[k] / (a[k] - b[k]) * (b - a)
                if all(half[j] - abs(at[j]) >= half[k] / 2.0 for j in range(3) if j != k):  # not along another face
                    return True
        return False
    axis = np.array(contact.other_half_axis)
    if axis.any():  # across the axis of the capsule
        long = axis / np.linalg.norm(axis)
        middle = (a + b) / 2.0 @ long
        if abs(middle) <= np.linalg.norm(axis):
            a, b = a - (a @ long) * long, b - (b @ long) * long
        else:
            a, b = a - math.copysign(1.0, middle) * axis, b - math.copysign(1.0, middle) * axis
    length = float((b - a) @ (b - a))
    if a @ b >= 0.0 or length == 0.0:
        return False
    nearest = a - ((b - a) @ a) / length * (b - a)
    return bool(np.linalg.norm(nearest) < thickness(contact) / 4.0)
