"""Deflected shapes of a mechanism's beams for drawings: points along each beam in the world."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sim_core.flexible.elements import beam_model
from sim_core.mechanism.beams import Beam
from sim_core.mechanism.description import Mechanism

POINTS = 100  # segments of a beam, at least; every element has the same number of equal segments


class BeamLines:
    """Computes points along all deflected beams from the coordinates of a system.

    names   names of the beams
    counts  number of points of each beam
    """

    def __init__(self, mechanism: Mechanism, coordinate_names: Sequence[str]) -> None:
        self.names = [beam.name for beam in mechanism.beams]
        self._beams = [_line(beam, coordinate_names) for beam in mechanism.beams]
        self.counts = [len(straight) for straight, _, _ in self._beams]

    def points(self, q: np.ndarray) -> np.ndarray:
        """World positions (sum of counts, 3), m, of all points, beam after beam, at the coordinates q (n_q,)."""
        lines = [straight + (across @ q[place]).reshape(-1, 3) for straight, across, place in self._beams]
        return np.concatenate(lines) if lines else np.zeros((0, 3))


def _line(beam: Beam, coordinate_names: Sequence[str]) -> tuple[np.ndarray, np.ndarray, slice]:
    """Points along a beam, and how the coordinates of the beam displace them.

    Returns (points (k, 3) of the undeflected beam, matrix (3 k, n) that maps the n coordinates of the beam to the
    displacements of the points, slice of the beam's coordinates in q).

    coordinate_names  names of all entries of q
    """
    model = beam_model(beam)
    first = list(coordinate_names).index(model.coordinate_names[0])
    pieces = -(-POINTS // beam.elements)
    x = np.linspace(0.0, beam.length, beam.elements * pieces + 1)
    shapes = np.stack([model.shape(place) for place in x])
    across = np.array(beam.direction)[None, :, None] * shapes[:, None, :]
    return (
        np.array(beam.origin) + x[:, None] * np.array(beam.axis),
        across.reshape(-1, model.n),
        slice(first, first + model.n),
    )
