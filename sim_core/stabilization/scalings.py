"""The fuzzy controllers of the two papers by their own names: sets, and the scalings of each case.

All are on the universe [-1, 1]; Man's is [-2, 2] on both sides of the rules, so inputs are halved, outputs doubled.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

from sim_core.errors import InvalidRequest
from sim_core.stabilization.membership import FuzzySets
from sim_core.stabilization.stabilizers import FuzzyPaper

SETS: dict[str, Literal["triangle", "trapezoid", "gaussian"]] = {"I": "triangle", "II": "trapezoid", "III": "gaussian"}
UNIVERSE = 2.0  # upper end of Man's


def nada(
    sets: Literal["I", "II", "III"] = "III",
    conjunction: Literal["product", "minimum"] = "product",
    width: float = 0.2123,
    permitted: tuple[float, float] | None = None,
) -> FuzzyPaper:
    """Nada's controller with set I (triangles), II (trapezoids) or III (Gaussians). [NadaBayoumi2024, secs. 3.3, 4]

    permitted  None: the scaling of the examples, 1e2, 1e-2, 1e4. Or the |Phi|_1 and |Phidot|_1 that are permitted, or
               that the first steps leave: Kp = 1 / |Phi|, Kd = 1 / |Phidot|, Ku = 100 Kp (the outline, step 4)
    Neither AND nor width are stated in the paper.
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
    """Man's controller, Gaussian sets; sigma is for [-1, 1], half of that on its own universe. [Man2025, sec. 4.4]

    case 1  starts at rest: U = 100 FLC(Phi, Phidot)
    case 2  starts in motion: U = ku FLC(n kp Phi, n kd Phidot), kp = 1 / |Phi|, kd = 1 / |Phidot| of the first step,
            n = 2, ku = kp |v|: `phi`, `phidot` (1-norms) and `speed` (2-norm of the initial v) must be given, e.g. by
            sim_core.analysis.comparison.first_violation
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
    """`man` for starts at rest. [Man2025, sec. 4.4]"""
    return man(1, conjunction=conjunction, sigma=sigma)


def man_case_2(
    phi: float,
    phidot: float,
    speed: float,
    conjunction: Literal["product", "minimum"] = "product",
    sigma: float = 0.2123,
) -> FuzzyPaper:
    """`man` for starts in motion, from what the first step leaves. [Man2025, sec. 4.4]"""
    return man(2, phi, phidot, speed, conjunction, sigma)


# The papers' controllers by the names that launch files and comparisons know.
PAPERS: dict[str, Callable[..., FuzzyPaper]] = {
    "nada_set_1": partial(nada, "I"),
    "nada_set_2": partial(nada, "II"),
    "nada_set_3": partial(nada, "III"),
    "man_case_1": man_case_1,
    "man_case_2": man_case_2,
}
