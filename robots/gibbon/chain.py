"""The cable as a chain of equal rigid segments with springs in their joints: bodies, joints, and its equilibrium.

The first segment is pinned to the world's origin. A spring without stiffness pulls at the end of the last segment with
a constant force along x, the tension; this end stays at height 0. The angle of the first joint is the pitch of the
first segment, about y: a positive pitch is downwards. The springs of the other joints are those of a beam whose bending
is gathered in the joints; the mass of a segment is gathered at its two ends.

A chain of short segments has vibrations much faster than any that the robot excites. The joints resist a change of
their rate, as the rotor of a gear does: the inertia is the stiffness times `slowing` squared. So the mass matrix grows
by a multiple of the stiffness matrix of bending, and a vibration whose bending alone has the angular frequency w_b
becomes slower by the factor 1 / sqrt(1 + (w_b slowing)^2): selective mass scaling [OlovssonEtAl2005]. The statics stay.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robots.gibbon.parameters import GRAVITY
from sim_core.mechanism import GROUND, Body, Coincidence, Joint, JointSpring, Shape, Spring, Tunable, Y, Z

SLOWING = 1e-3  # s
AWAY = 1.0  # m from the end of a straight chain to where the tension pulls it
ENOUGH = 50  # iterations of Newton's method, which converges in five


@dataclass(frozen=True)
class Chain:
    """A chain of segments.

    count            number of segments
    length           length of the chain, m
    mass_per_length  kg/m
    bending          bending stiffness EI, N m2
    damping_ratio    damping ratio of the fastest vibration, in which neighbouring segments turn in opposite senses
    slowing          period, s, divided by 2 pi, below which no vibration is; 0 for joints without inertia
    """

    count: int
    length: float
    mass_per_length: float
    bending: float
    damping_ratio: float
    slowing: float = SLOWING

    @property
    def segment(self) -> float:
        """Length of a segment, m."""
        return self.length / self.count

    @property
    def stiffness(self) -> float:
        """Stiffness of the joints' springs, N m/rad."""
        return self.bending / self.segment

    @property
    def fastest(self) -> float:
        """Angular frequency of the fastest vibration, rad/s, without tension."""
        bent = 4.0 * math.sqrt(self.bending / self.mass_per_length) / self.segment**2
        return bent / math.hypot(1.0, bent * self.slowing)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the segments and of their joints."""
        return tuple(f"segment_{k:03}" for k in range(self.count))

    def parts(self, tension: Tunable) -> dict[str, tuple[Any, ...]]:
        """Bodies, joints and the spring at the end, as keyword arguments of Mechanism."""
        h, names = self.segment, self.names
        mass = self.mass_per_length * h
        moment = mass * h**2 / 4
        line = Shape(kind="line", points=(0.0, 0.0, 0.0, h, 0.0, 0.0))
        bodies = tuple(
            Body(
                name=name,
                mass=mass,
                inertia=(0.0, moment, moment, 0.0, 0.0, 0.0),
                center_of_mass=(h / 2, 0.0, 0.0),
                shapes=(line,),
            )
            for name in names
        )
        inertia = self.stiffness * self.slowing**2
        spring = JointSpring(stiffness=self.stiffness)
        bends: dict[str, Any] = {"spring": spring, "damping": self._damping, "armature": inertia}
        joints = tuple(
            Joint(
                name=name,
                parent=names[k - 1] if k else GROUND,
                child=name,
                axis=Y,
                parent_point=(h if k else 0.0, 0.0, 0.0),
                **(bends if k else {}),
            )
            for k, name in enumerate(names)
        )
        tensioner = Spring(
            name="tensioner",
            body_a=names[-1],
            point_a=(h, 0.0, 0.0),
            body_b=GROUND,
            point_b=(self.length + AWAY, 0.0, 0.0),
            stiffness=0.0,
            pretension=tension,
        )
        return {"bodies": bodies, "joints": joints, "springs": (tensioner,)}

    def support(self) -> Coincidence:
        """Constraint that keeps the end of the chain at height 0."""
        end, at = (self.segment, 0.0, 0.0), (self.length, 0.0, 0.0)
        return Coincidence(
            name="support", body_a=self.names[-1], point_a=end, body_b=GROUND, point_b=at, directions=(Z,)
        )

    @property
    def _damping(self) -> float:
        return 2.0 * self.damping_ratio * self.stiffness / self.fastest

    def pitches(self, pulls: Sequence[tuple[float, float, float]], tension: float) -> np.ndarray:
        """Pitches (count,) of the segments in equilibrium, rad, by Newton's method.

        pulls    (position along the chain, m, force along x, N, force downwards, N) of the loads
        tension  force on the end along x, N
        """
        n, h, k = self.count, self.segment, self.stiffness
        beyond = np.arange(n - 1, -1, -1)
        down = self.mass_per_length * h * GRAVITY * (beyond + 0.5)
        along = np.full(n, tension)
        for place, x, z in pulls:
            share = np.clip(place / h - np.arange(n), 0.0, 1.0)
            along, down = along + x * share, down + z * share
        bend = k * (np.diag(np.r_[1.0, np.full(n - 2, 2.0), 1.0]) - np.eye(n, k=1) - np.eye(n, k=-1))
        pitch, up = np.zeros(n), 0.0
        for _ in range(ENOUGH):
            c, s = np.cos(pitch), np.sin(pitch)
            rest = np.append(bend @ pitch + h * (along * s - (down - up) * c), h * s.sum())
            row = h * c
            matrix = np.block([[bend + np.diag(h * (along * c + (down - up) * s)), row[:, None]], [row, 0.0]])
            change = np.linalg.solve(matrix, -rest)
            pitch, up = pitch + change[:n], up + change[n]
            if np.abs(change[:n]).max() <= 1e-14:
                break
        return pitch

    def point(self, pitches: np.ndarray, place: float) -> tuple[float, float]:
        """World x and z, m, of a point of the chain at a position along the chain, m."""
        share = self.segment * np.clip(place / self.segment - np.arange(self.count), 0.0, 1.0)
        return float(share @ np.cos(pitches)), -float(share @ np.sin(pitches))
