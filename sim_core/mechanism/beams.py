"""What a description says about beams: the beam, a point that slides on it, and what is told about both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sim_core.mechanism.frozen import Frozen
from sim_core.mechanism.quantities import Number, Vector3


@dataclass(frozen=True, kw_only=True)
class Beam(Frozen):
    """A straight beam, or a cable under tension, that bends in one plane: cubic elements between fixed supports.

    mass_per_length kg/m, bending_stiffness N m2, tension N; one end may slide along the beam. A tension that can be
    tuned takes simple supports and modes, fewer than there are elements.
    modes             how many of its lowest modes are its coordinates; 0: displacement and slope of every free node
    mass_damping      1/s, and stiffness_damping, s: C = mass_damping M + stiffness_damping K
    damping_ratio     of every mode, beside them
    origin            of x = 0 in the world; `axis` and `direction` are unit vectors along the beam and along w > 0
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
        """How many coordinates it has."""
        return self.modes or 2 * self.elements - (2 if self.supports == "clamped" else 0)


@dataclass(frozen=True, kw_only=True)
class BeamContact(Frozen):
    """A body-fixed point slides on a beam without friction: w(x) - p - offset = 0, unit m.

    x is how far the point is along the beam, p how far along its direction, w the deflection there, averaged over
    `width`. The force acts across the deflected beam, spread over the width. `dependent` names the coordinate that a
    "partitioned" formulation eliminates. [Lipinski2023, eq. 20]
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
    """The deflection of a beam at `x` along it, m, as the output `name`: positive along the beam's direction."""

    name: str
    beam: str
    x: float


@dataclass(frozen=True, kw_only=True)
class ContactForceOutput(Frozen):
    """The multiplier of a contact, N, as the output `name`: positive when the point presses along the direction.

    It is the part of the force along the beam's direction. U does not count.
    """

    name: str
    contact: str
