"""Beams of a mechanism, and outputs of their deflections and contact forces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from sim_core.mechanism.frozen import Frozen
from sim_core.mechanism.quantities import NotNegative, Number, Positive, Vector3


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
    length: Annotated[float, Positive()]
    elements: Annotated[int, Positive()]
    mass_per_length: Annotated[float, Positive()]
    bending_stiffness: Annotated[float, Positive()]
    tension: Annotated[Number, NotNegative()] = 0.0
    supports: Literal["clamped", "simple"] = "clamped"
    modes: Annotated[int, NotNegative()] = 0
    mass_damping: Annotated[float, NotNegative()] = 0.0
    stiffness_damping: Annotated[float, NotNegative()] = 0.0
    damping_ratio: Annotated[Number, NotNegative()] = 0.0
    origin: Vector3 = (0.0, 0.0, 0.0)
    axis: Vector3 = (1.0, 0.0, 0.0)
    direction: Vector3 = (0.0, 0.0, -1.0)

    @property
    def n_coordinates(self) -> int:
        """Number of the beam's coordinates: the number of modes or, without modes, of free nodal coordinates.

        Each node has two coordinates, displacement and slope; those that the supports fix are not free.
        """
        return self.modes or 2 * self.elements - (2 if self.supports == "clamped" else 0)

    @property
    def coordinate_names(self) -> list[str]:
        """Names of the coordinates of all modes or, without modes, of all nodes, also of those that supports fix."""
        if self.modes:
            return [f"{self.name}.mode{k + 1}" for k in range(self.modes)]
        return [f"{self.name}.{kind}{node}" for node in range(self.elements + 1) for kind in ("w", "slope")]


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

    For a Touching, the force (N) of the plane on the wheel, along the plane's `normal`.
    This is the contact's Lagrange multiplier. Forces due to the constraint stabilization are not included.
    """

    name: str
    contact: str
