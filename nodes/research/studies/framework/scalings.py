"""Fuzzy controllers of the papers [NadaBayoumi2024] and [Man2025] by name: fuzzy sets and scalings.

The inputs and outputs of all controllers in this module lie in the universe [-1, 1]. In [Man2025], inputs and outputs
lie in [-2, 2]. This module therefore halves Man's inputs and doubles Man's outputs.
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

    permitted  (|Phi|_1, |Phidot|_1), 1-norms of the constraint violation and of its rate: the permitted values, or
               the values after the first time steps. The gains of the inputs are Kp = 1 / |Phi|_1 and
               Kd = 1 / |Phidot|_1, the gain of the output is Ku = 100 Kp, as in item 4 of the paper's outline. With
               None, the gains are those of the paper's examples: Kp = 1e2, Kd = 1e-2, Ku = 1e4

    The paper states neither the conjunction nor the width of the sets. [NadaBayoumi2024, secs. 3.3, 4]
    """
    if sets not in SETS:
        raise InvalidRequest(f"nada: the argument 'sets' is {sets!r}; it must be one of {', '.join(SETS)}")
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

    The controller's inputs are the constraint violation Phi and its rate Phidot. Its output U depends on the output FLC
    of the fuzzy rules:

    case 1 (start at rest)    U = 100 FLC(Phi, Phidot)
    case 2 (start in motion)  U = ku FLC(n kp Phi, n kd Phidot), with n = 2, kp = 1 / phi, kd = 1 / phidot and
                              ku = kp speed

    phi, phidot  for case 2 only: 1-norms of Phi and Phidot after the first time step, for example from
                 sim_core.analysis.comparison.first_violation
    speed        for case 2 only: 2-norm of the initial velocities
    sigma        width of the Gaussian sets on the interval [-1, 1]; the paper's interval is twice as wide
    """
    sets = FuzzySets("gaussian", conjunction, sigma)
    if case == 1:
        return FuzzyPaper(1 / UNIVERSE, 1 / UNIVERSE, 100 * UNIVERSE, sets)
    if case != 2:
        raise InvalidRequest(f"man: the argument 'case' is {case}; it must be 1 (start at rest) or 2 (start in motion)")
    if phi is None or phidot is None or speed is None:
        raise InvalidRequest(
            "man: case 2 requires phi and phidot (1-norms of Phi and Phidot after the first time step) and speed "
            "(2-norm of the initial velocities); pass all three arguments"
        )
    _require_positive("man", phi=phi, phidot=phidot, speed=speed)
    return FuzzyPaper(1 / phi, 1 / phidot, UNIVERSE * speed / phi, sets)


def _require_positive(owner: str, **values: float) -> None:
    for name, value in values.items():
        if not 0.0 < value < float("inf"):
            raise InvalidRequest(f"{owner}: the argument {name!r} is {value}; it must be positive and finite")


def man_case_1(conjunction: Literal["product", "minimum"] = "product", sigma: float = 0.2123) -> FuzzyPaper:
    """`man` with case 1, for starts at rest. [Man2025, sec. 4.4]

    sigma  width of the Gaussian sets on the interval [-1, 1]; the paper's interval is twice as wide
    """
    return man(1, conjunction=conjunction, sigma=sigma)


def man_case_2(
    phi: float,
    phidot: float,
    speed: float,
    conjunction: Literal["product", "minimum"] = "product",
    sigma: float = 0.2123,
) -> FuzzyPaper:
    """`man` with case 2, for starts in motion; the violation after the first time step sets the scaling.

    [Man2025, sec. 4.4]

    phi, phidot  1-norms of the constraint violation Phi and of its rate Phidot after the first time step
    speed        2-norm of the initial velocities
    sigma        width of the Gaussian sets on the interval [-1, 1]; the paper's interval is twice as wide
    """
    return man(2, phi, phidot, speed, conjunction, sigma)


# The makers that pyproject.toml registers as stabilizers, by the names used in launch files and comparisons.
nada_set_1: Callable[..., FuzzyPaper] = partial(nada, "I")
nada_set_2: Callable[..., FuzzyPaper] = partial(nada, "II")
nada_set_3: Callable[..., FuzzyPaper] = partial(nada, "III")
