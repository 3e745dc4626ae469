"""Beams of a mechanism: the beam, the constraint that keeps a point on it, outputs of deflection and contact force."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sim_core.mechanism.frozen import Frozen
from sim_core.mechanism.quantities import Number, Vector3


@dataclass(frozen=True, kw_only=True)
class Beam(Frozen):
    """A straight beam, or a cable under tension, that bends in one plane: cubic elements between fixed supports.

    mass_per_length kg/m, bending_stiffness N m2, tension N. One of the beam's supports may slide along x. A tunable
    tension requires simple supports and fewer modes than elements.
    modes             number of lowest modes used as coordinates; 0: displacement and slope of every free node instead
    mass_damping, stiffness_damping  1/s and s: C = mass_damping M + stiffness_damping K
    damping_ratio     modal damping ratio, the same for every mode, added to C
    origin            world position of x = 0
    axis, direction   unit vectors along the beam and along positive deflection w
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
        """Number of the beam's coordinates: its modes, or two per node less the supported ones."""
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
    """Output `name`: deflection of a beam, m, at the distance `x`, m, along it; positive along the beam's direction."""

    name: str
    beam: str
    x: float


@dataclass(frozen=True, kw_only=True)
class ContactForceOutput(Frozen):
    """Output `name`: component of a beam contact's force along the beam's direction, N; above 0 if the body pushes so.

    This is the contact's Lagrange multiplier. Forces due to the constraint stabilization are not included.
    """

    name: str
    contact: str
