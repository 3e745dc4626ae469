"""Beams of a mechanism: the beam, the constraint that keeps a point on it, outputs of deflection and contact force."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sim_core.mechanism.frozen import Frozen
from sim_core.mechanism.quantities import Number, Vector3


@dataclass(frozen=True, kw_only=True)
class Beam(Frozen):
    """A straight beam, or a cable under tension, that bends in one plane: cubic finite elements between two supports.

    Both supports are at rest; one of the two may slide along the beam, the direction x. A tunable tension requires
    simple supports, and 1 or more modes, but fewer than elements.

    mass_per_length    mass per length, kg/m
    bending_stiffness  bending stiffness, N m2
    tension            tension, N
    modes              number of lowest modes used as coordinates; 0: the coordinates are the free displacements and
                       slopes of the nodes
    mass_damping       coefficient of M in the damping matrix C, 1/s
    stiffness_damping  coefficient of K in the damping matrix C, s
    damping_ratio      modal damping ratio, the same for every mode; the modal damping is added to C
    origin             world position of x = 0
    axis, direction    unit vectors along the beam and along positive deflection w
    """

    name: str
    length: float
    elements: int
    mass_per_length: float
    bending_stiffness: float
    tension: Number = 0.0
    supports: Literal["clamped", "simple"] = "clamped"
    modes: int = 0
    mass_damping: float = 0.0
    stiffness_damping: float = 0.0
    damping_ratio: Number = 0.0
    origin: Vector3 = (0.0, 0.0, 0.0)
    axis: Vector3 = (1.0, 0.0, 0.0)
    direction: Vector3 = (0.0, 0.0, -1.0)

    @property
    def n_coordinates(self) -> int:
        """Number of the beam's coordinates: the number of modes or, without modes, of free nodal coordinates.

        Each node has two coordinates, displacement and slope; those that the supports fix are not free.
        """
        return self.modes or 2 * self.elements - (2 if self.supports == "clamped" else 0)


@dataclass(frozen=True, kw_only=True)
class BeamContact(Frozen):
    """Constraint: a body-fixed point slides on a beam without friction, w(x) - p - offset = 0, unit m.

    x and p are the point's coordinates along the beam's `axis` and `direction`, w is the deflection at x averaged over
    `width`. The force acts perpendicular to the deflected beam, spread over the width. `dependent` names the coordinate
    that a "partitioned" formulation eliminates. [Lipinski2023, eq. 20]
    """

    name: str
    beam: str
    body: str
    point: Vector3 = (0.0, 0.0, 0.0)
    dependent: str = ""
    width: float = 0.0
    offset: Number = 0.0


@dataclass(frozen=True, kw_only=True)
class DeflectionOutput(Frozen):
    """Output `name`: deflection of a beam (m) at the distance `x` (m) from the beam's start.

    The deflection is positive along the beam's `direction`.
    """

    name: str
    beam: str
    x: float


@dataclass(frozen=True, kw_only=True)
class ContactForceOutput(Frozen):
    """Output `name`: force (N) with which the body of a BeamContact pushes on the beam, along the beam's `direction`.

    This is the contact's Lagrange multiplier. Forces due to the constraint stabilization are not included.
    """

    name: str
    contact: str
