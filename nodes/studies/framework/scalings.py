"""Fuzzy controllers of the papers [NadaBayoumi2024] and [Man2025] by name: fuzzy sets and scalings.

All use the universe [-1, 1]. The second paper has [-2, 2] for inputs and outputs, so its inputs are halved and its
outputs doubled.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

from sim_core.errors import InvalidRequest
from sim_core.stabilization.membership import FuzzySets
from sim_core.stabilization.stabilizers import FuzzyPaper

SETS: dict[str, Literal["triangle", "trapezoid", "gaussian"]] = {"I": "triangle", "II": "trapezoid", "III": "gaussian"}
UNIVERSE = 2.0  # upper end of Man's universe


def nada(
    sets: Literal["I", "II", "III"] = "III",
    conjunction: Literal["product", "minimum"] = "product",
    width: float = 0.2123,
    permitted: tuple[float, float] | None = None,
) -> FuzzyPaper:
    """Nada's fuzzy controller with set I (triangles), II (trapezoids) or III (Gaussians).

    permitted  None: the scaling of the paper's examples, Kp = 1e2, Kd = 1e-2, Ku = 1e4. Or (|Phi|_1, |Phidot|_1), the
               violation that is permitted or that the first steps leave: Kp = 1 / |Phi|, Kd = 1 / |Phidot|, Ku = 100 Kp
               (the paper's outline, step 4)
    The paper states neither conjunction nor width. [NadaBayoumi2024, secs. 3.3, 4]
    """
    if sets not in SETS:
        raise InvalidRequest(f"nada has no sets {sets!r}; they are one of {', '.join(SETS)}")
    made = FuzzySets(SETS[sets], conjunction, width)
    if permitted is None:
        return FuzzyPaper(1e2, 1e-2, 1e4, made)
    _require_positive("nada", phi=permitted[0], phidot=permitted[1])
    return FuzzyPaper(1 / permitted[0], 1 / permitted[1], 100 / permitted[0], made)


def man(
    case: Literal[1, 2] = 1,
    phi: float | None = None,
    phidot: float | None = None,
    speed: float | None = None,
    conjunction: Literal["product", "minimum"] = "product",
    sigma: float = 0.2123,
) -> FuzzyPaper:
    """Man's fuzzy controller with Gaussian sets. [Man2025, sec. 4.4]

    case    1, for a start at rest: U = 100 FLC(Phi, Phidot). 2, for a start in motion: U = ku FLC(n kp Phi, n kd
            Phidot) with kp = 1 / |Phi|, kd = 1 / |Phidot| of the first step, n = 2, ku = kp |v|
    phi, phidot, speed  case 2 only: 1-norms of Phi and Phidot after the first step, 2-norm of the initial v, e.g. from
                        sim_core.analysis.comparison.first_violation
    sigma   width of the Gaussian sets on [-1, 1]; the paper's universe is twice as wide
    """
    sets = FuzzySets("gaussian", conjunction, sigma)
    if case == 1:
        return FuzzyPaper(1 / UNIVERSE, 1 / UNIVERSE, 100 * UNIVERSE, sets)
    if case != 2:
        raise InvalidRequest(f"man has no case {case}; it is 1 (starts at rest) or 2 (starts in motion)")
    if phi is None or phidot is None or speed is None:
        raise InvalidRequest(
            "man's case 2 needs phi, phidot and speed: the violation that the first step leaves, and |v|"
        )
    _require_positive("man", phi=phi, phidot=phidot, speed=speed)
    return FuzzyPaper(1 / phi, 1 / phidot, UNIVERSE * speed / phi, sets)


def _require_positive(owner: str, **values: float) -> None:
    for name, value in values.items():
        if not 0.0 < value < float("inf"):
            raise InvalidRequest(f"{owner}: {name} is {value}; it must be positive")


def man_case_1(conjunction: Literal["product", "minimum"] = "product", sigma: float = 0.2123) -> FuzzyPaper:
    """`man` with case 1, for starts at rest. [Man2025, sec. 4.4]"""
    return man(1, conjunction=conjunction, sigma=sigma)


def man_case_2(
    phi: float,
    phidot: float,
    speed: float,
    conjunction: Literal["product", "minimum"] = "product",
    sigma: float = 0.2123,
) -> FuzzyPaper:
    """`man` with case 2, for starts in motion, scaled by the violation after the first step. [Man2025, sec. 4.4]"""
    return man(2, phi, phidot, speed, conjunction, sigma)


# The makers that pyproject.toml registers as stabilizers, by the names used in launch files and comparisons.
nada_set_1: Callable[..., FuzzyPaper] = partial(nada, "I")
nada_set_2: Callable[..., FuzzyPaper] = partial(nada, "II")
nada_set_3: Callable[..., FuzzyPaper] = partial(nada, "III")
