"""Functions that several checks of Nada's claims use: they return results as text and as numbers. [NadaBayoumi2024]"""

from __future__ import annotations

from collections.abc import Iterable

from nodes.research.studies.framework.claims import ENOUGH, growth, loss_text, sci, violation_text
from nodes.research.studies.framework.methods import FIXED, ONE_CALL
from nodes.research.studies.framework.runs import Run
from nodes.research.studies.framework.study import Results

READINGS = (FIXED, ONE_CALL)
TENFOLD, BELOW_TENFOLD = "10 needed", "below 10 needed"
UNIVERSE_PHI, UNIVERSE_PHIDOT = 1e-2, 1e2  # 1/Kp and 1/Kd of the paper's scaling, at which its controller saturates


def texts(results: Results, named: Iterable[tuple[str, Run]]) -> str:
    return "; ".join(f"{name}: {violation_text(results[run])}" for name, run in named)


def peaks(results: Results, named: Iterable[tuple[str, Run]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, run in named:
        found[f"{name}: peak |Φ|"] = results[run].peak_phi
        found[f"{name}: peak |dΦ/dt|"] = results[run].peak_phidot
    return found


def growths(results: Results, named: Iterable[tuple[str, Run]], needed: str) -> str:
    """Text with the growth factor of the constraint violation |Phi| in each run.

    For a run that failed, the text has the time of the failure instead.

    needed  condition of the claim's rule, which is added to the text in brackets
    """
    each = []
    for name, run in named:
        found = results[run]
        each.append(f"{name} {f'{sci(growth(found.phi))}-fold' if found.held else loss_text(found)}")
    return f"|Φ| grows ({needed}): {'; '.join(each)}"


def stable(results: Results, run: Run) -> bool:
    """Whether a run did not fail, and the growth factor of its constraint violation |Phi| is less than ten."""
    found = results[run]
    return found.held and growth(found.phi) < ENOUGH
