"""Fuzzy sets of a fuzzy controller's inputs, with scikit-fuzzy's membership functions. [NadaBayoumi2024, figs. 7-9]"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sim_core.errors import InvalidRequest

CENTERS = (-1.0, -0.5, 0.0, 0.5, 1.0)
KINDS = ("triangle", "trapezoid", "gaussian")
CONJUNCTIONS = ("product", "minimum")
SMALLEST_SIGMA = 0.05


@dataclass(frozen=True)
class FuzzySets:
    """Five fuzzy sets on [-1, 1], and the operator AND (conjunction) that combines two memberships.

    kind         "triangle", "trapezoid" or "gaussian": sets I, II and III of [NadaBayoumi2024]
    conjunction  "product" or "minimum"
    width        width of a trapezoid's plateau (0 to 1/2), or sigma of a Gaussian (0.05 to 1/2; with a smaller sigma,
                 hardly any rule fires between two centres). The paper states neither width; with sigma 0.2123,
                 neighbouring Gaussians intersect at 1/2
    """

    kind: Literal["triangle", "trapezoid", "gaussian"] = "triangle"
    conjunction: Literal["product", "minimum"] = "product"
    width: float = 0.2123

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("kind", self.kind, KINDS),
            ("conjunction", self.conjunction, CONJUNCTIONS),
        ):
            if value not in choices:
                raise InvalidRequest(f"fuzzy sets: {name} is {value!r}; it must be one of {', '.join(choices)}")
        least = SMALLEST_SIGMA if self.kind == "gaussian" else 0.0
        if not (0.0 < self.width < 0.5 and self.width >= least):
            raise InvalidRequest(f"fuzzy sets: width is {self.width}; it must lie between {least} and 0.5")

    def degrees(self, x: np.ndarray) -> np.ndarray:
        """Membership degrees (n, 5) of inputs x (n,) in the five sets."""
        from skfuzzy import membership  # only other sets than the default need it

        columns = []
        for center in CENTERS:
            if self.kind == "gaussian":
                columns.append(membership.gaussmf(x, center, self.width))
            elif self.kind == "triangle":
                columns.append(membership.trimf(x, [center - 0.5, center, center + 0.5]))
            else:
                flat = self.width / 2
                corners = [center - 0.5 + flat, center - flat, center + flat, center + 0.5 - flat]
                columns.append(membership.trapmf(x, corners))
        return np.stack(columns, axis=1)

    def code(self) -> tuple[float, float, float, float]:
        """(kind, conjunction, width, neighbour) as numbers for the compiled law, see `inference.fuzzy_output`."""
        kind, conjunction = KINDS.index(self.kind), CONJUNCTIONS.index(self.conjunction)
        neighbour = math.exp(-0.125 / self.width**2) if self.kind == "gaussian" else 0.0
        return float(kind), float(conjunction), self.width, neighbour
