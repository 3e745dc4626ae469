"""Beam elements with cubic (Hermite) shape functions: matrices, modes, static equilibrium, shapes along the beam.

The functions are plain numpy; the derivation compiles their results into kernels as constants. The deflection w is
positive along the beam's `direction`; the slope is dw/dx. [Lipinski2023, secs. 3, 6]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np

from sim_core.mechanism.beams import Beam
from sim_core.mechanism.quantities import Tunable, value_of

# columns: coefficients of 1, z, z^2, z^3 of the shapes of (w_i, l slope_i, w_j, l slope_j), z = x / l in the element
HERMITE = np.array([[1, 0, -3, 2], [0, 1, -2, 1], [0, 0, 3, -2], [0, 0, -1, 1]], dtype=float)


def element_mass(mass: float, l: float) -> np.ndarray:
    """Consistent mass matrix (4, 4) of an element of the given mass, kg, and length l, m. [Lipinski2023, eq. 33]"""
    return (mass / 420) * np.array(
        [
            [156, 22 * l, 54, -13 * l],
            [22 * l, 4 * l**2, 13 * l, -3 * l**2],
            [54, 13 * l, 156, -22 * l],
            [-13 * l, -3 * l**2, -22 * l, 4 * l**2],
        ]
    )


def element_stiffness(bending: float, tension: float, l: float) -> np.ndarray:
    """Elastic plus geometric stiffness matrix (4, 4) of an element of length l, m. [Lipinski2023, eq. 33]

    bending  bending stiffness EI, N m2
    tension  tension, N
    """
    bent = np.array(
        [
            [12, 6 * l, -12, 6 * l],
            [6 * l, 4 * l**2, -6 * l, 2 * l**2],
            [-12, -6 * l, 12, -6 * l],
            [6 * l, 2 * l**2, -6 * l, 4 * l**2],
        ]
    )
    taut = np.array(
        [
            [36, 3 * l, -36, 3 * l],
            [3 * l, 4 * l**2, -3 * l, -(l**2)],
            [-36, -3 * l, 36, -3 * l],
            [3 * l, -(l**2), -3 * l, 4 * l**2],
        ]
    )
    return bending / l**3 * bent + tension / (30 * l) * taut


@dataclass(frozen=True)
class BeamModel:
    """Matrices of a beam in the beam's coordinates: free displacements and slopes of the nodes, or modal amplitudes.

    M, C, K      (n, n) mass, damping, stiffness: M a + C v + K q = loads; for modes, M is the identity and
                 K = diag(frequencies^2)
    taut         (n, n) derivative dK/dT of the stiffness with respect to the tension T
    uniform      (n,) generalized forces of a load of 1 N/m along the whole beam
    basis        (2 elements + 2, n) matrix that maps the coordinates to displacement and slope of every node
    frequencies  natural frequencies of the modes, rad/s; empty for nodal coordinates
    """

    beam: Beam
    M: np.ndarray
    C: np.ndarray
    K: np.ndarray
    taut: np.ndarray
    uniform: np.ndarray
    basis: np.ndarray
    frequencies: np.ndarray

    @property
    def n(self) -> int:
        """Number of coordinates of the beam."""
        return int(self.basis.shape[1])

    @property
    def element_length(self) -> float:
        """Length of each element, m."""
        return self.beam.length / self.beam.elements

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        """Names of the coordinates: BEAM.mode1, ... for modes; BEAM.w1, BEAM.slope1, ... for free nodes."""
        name = self.beam.name
        if self.beam.modes:
            return tuple(f"{name}.mode{k + 1}" for k in range(self.n))
        kinds = ("w", "slope")
        return tuple(f"{name}.{kinds[i % 2]}{i // 2}" for i in free_entries(self.beam))

    @cached_property
    def coefficients(self) -> np.ndarray:
        """Coefficients (elements, 4, n) of the shape functions of the n coordinates.

        In element e the shape functions are sum_j coefficients[e, j] z^j, with z from 0 to 1 along the element.
        """
        lever = np.array([1.0, self.element_length, 1.0, self.element_length])
        ends = np.stack([self.basis[2 * e : 2 * e + 4] for e in range(self.beam.elements)])
        found: np.ndarray = np.einsum("kj,k,ekn->ejn", HERMITE, lever, ends)
        return found

    def shape(self, x: float, derivative: int = 0) -> np.ndarray:
        """Shape functions N (n,) at the position x, m, or their derivatives with respect to x; deflection w = N q.

        derivative  order of the derivative: 0, 1 or 2
        [Lipinski2023, eqs. 20, 32]
        """
        l = self.element_length
        e = int(min(max(x // l, 0), self.beam.elements - 1))
        z = x / l - e
        weights = np.array([math.perm(j, derivative) * z ** max(j - derivative, 0) for j in range(4)])
        row: np.ndarray = weights @ self.coefficients[e] / l**derivative
        return row

    def averaged(self, width: float) -> BeamModel:
        """The same beam, with each shape function replaced by its centred moving average over `width`, m.

        The shape functions count as 0 beyond the ends of the beam.
        """
        if not width:
            return self
        nodes = self.element_length * np.arange(self.beam.elements + 1)
        low, high = nodes - width / 2, nodes + width / 2
        (sums_low, at_low), (sums_high, at_high) = self._integrals(low), self._integrals(high)
        means, slopes = (sums_high - sums_low) / width, (at_high - at_low) / width
        basis = np.stack([means, slopes], axis=1).reshape(self.basis.shape)
        return replace(self, basis=basis)

    def _integrals(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Integrals (k, n) of the shape functions from 0 to each x (k,), and the shape functions (k, n) at x."""
        l, coefficients = self.element_length, self.coefficients
        weights = 1.0 / np.arange(1, 5)
        before = np.vstack([np.zeros(self.n), np.cumsum(l * np.einsum("j,ejn->en", weights, coefficients), axis=0)])
        place = np.clip(x, 0.0, self.beam.length) / l
        e = np.minimum(place.astype(int), self.beam.elements - 1)
        powers = (place - e)[:, None] ** np.arange(5)
        sums = before[e] + l * np.einsum("kj,kjn->kn", powers[:, 1:] * weights, coefficients[e])
        return sums, np.einsum("kj,kjn->kn", powers[:, :4], coefficients[e])

    def equilibrium(self, uniform: float, forces: Sequence[tuple[float, float]] = ()) -> np.ndarray:
        """Coordinates (n,) of the static equilibrium under a uniform load, N/m, and point forces.

        forces  (position x, m; force along the beam's direction, N) of each point force
        """
        load = uniform * self.uniform
        for x, force in forces:
            load = load + force * self.shape(x)
        return np.linalg.solve(self.K, load)


@cache
def contact_model(beam: Beam, width: float) -> BeamModel:
    """Model of a beam for a contact of the given width, m, with shape functions averaged over the width."""
    return beam_model(beam).averaged(width)


def free_entries(beam: Beam) -> list[int]:
    """Indices of the nodal displacements and slopes, alternating along the beam, that the supports leave free."""
    last = 2 * beam.elements
    held = {0, 1, last, last + 1} if beam.supports == "clamped" else {0, last}
    return [i for i in range(last + 2) if i not in held]


@cache
def beam_model(beam: Beam) -> BeamModel:
    """Model of a beam in the coordinates that its description selects; the description must be valid."""
    l, size = beam.length / beam.elements, 2 * beam.elements + 2
    M, bent, taut, uniform = np.zeros((size, size)), np.zeros((size, size)), np.zeros((size, size)), np.zeros(size)
    for e in range(beam.elements):
        block = slice(2 * e, 2 * e + 4)
        M[block, block] += element_mass(beam.mass_per_length * l, l)
        bent[block, block] += element_stiffness(beam.bending_stiffness, 0.0, l)
        taut[block, block] += element_stiffness(0.0, 1.0, l)
        uniform[block] += l * np.array([1 / 2, l / 12, 1 / 2, -l / 12])
    free = free_entries(beam)
    basis = np.eye(size)[:, free]
    M, bent, taut, uniform = *(A[np.ix_(free, free)] for A in (M, bent, taut)), uniform[free]
    tension, ratio = value_of(beam.tension), value_of(beam.damping_ratio)
    K = bent + tension * taut
    # modes that do not depend on tunable numbers
    frequencies, shapes = modes_of(M, bent if isinstance(beam.tension, Tunable) else K)
    C = beam.mass_damping * M + beam.stiffness_damping * K
    if ratio and not beam.modes:
        weighted = M @ shapes
        C = C + weighted @ np.diag(2 * ratio * frequencies) @ weighted.T
    if not beam.modes:
        return BeamModel(beam, M, C, K, taut, uniform, basis, np.zeros(0))
    shapes, frequencies = shapes[:, : beam.modes], frequencies[: beam.modes]
    taut = shapes.T @ taut @ shapes
    if isinstance(beam.tension, Tunable):
        taut = np.diag(np.diag(taut))  # sines of different wavelength are orthogonal
        frequencies = np.sqrt(frequencies**2 + tension * np.diag(taut))
    rates = beam.mass_damping + beam.stiffness_damping * frequencies**2 + 2 * ratio * frequencies
    squares, one = np.diag(frequencies**2), np.eye(beam.modes)
    return BeamModel(beam, one, np.diag(rates), squares, taut, shapes.T @ uniform, basis @ shapes, frequencies)


def modes_of(M: np.ndarray, K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Natural frequencies (n,), rad/s, ascending, and mode shapes X (n, n) by columns, scaled such that X' M X = 1.

    The sign of each shape is such that the deflection increases from the beam's start. The eigenvalue problem is solved
    for the inverse squares of the frequencies, so that the lowest modes are the most accurate.
    """
    L = np.linalg.cholesky(K)
    half = np.linalg.solve(L, M)
    A = np.linalg.solve(L, half.T)
    inverse_squares, vectors = np.linalg.eigh((A + A.T) / 2)
    shapes = np.linalg.solve(L.T, vectors) / np.sqrt(inverse_squares)
    shapes = shapes * np.where(shapes[0] < 0.0, -1.0, 1.0)
    return 1.0 / np.sqrt(inverse_squares[::-1]), np.ascontiguousarray(shapes[:, ::-1])
