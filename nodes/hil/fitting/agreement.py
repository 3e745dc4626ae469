"""Errors of the measurement that both efforts and output error tell: one estimate each, and contradictions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nodes.hil.fitting.verdict import ErrorVerdict, FitVerdict
from sim_core.identification.estimates import Estimate
from sim_core.identification.output_error.fitting import OutputErrorResult

NOT_CERTAIN = "not certain"


def reconcile(verdict: FitVerdict, found: OutputErrorResult) -> None:
    """Replace estimates by efforts with those of a better output-error fit; after a contradiction nothing is certain.

    A delay of efforts is another quantity than that of commands, so that these cannot contradict each other.
    """
    if found.outcome == NOT_CERTAIN and verdict.outcome == "better":
        verdict.notes.append("output error does not surely predict better: nothing of it counts as found")
    if not found.is_better:
        return
    told = {each.name: each for each in found.estimates if not found.relative_gains or each.kind != "gain"}
    clashes = list(_clashes(verdict.errors, told))
    verdict.errors = [each for each in verdict.errors if each.name.split()[0] not in told]
    if clashes:
        verdict.outcome = NOT_CERTAIN
        verdict.reason += "; efforts and output error contradict each other"
        verdict.notes += clashes
    elif verdict.outcome != "better":
        verdict.outcome = "better"
        verdict.reason += "; output error predicts the positions better"


def _clashes(errors: list[ErrorVerdict], told: Mapping[str, Estimate]) -> Iterator[str]:
    for each in errors:
        other = told.get(each.name)
        if other is None or each.kind not in ("zero", "gain"):
            continue
        low, high = each.low, each.high
        if each.kind == "gain":  # of the measured effort over that at the joint, and of this over the commanded one
            if low <= -1.0:
                continue
            low, high = 1.0 / (1.0 + high) - 1.0, 1.0 / (1.0 + low) - 1.0
        if low > other.high or high < other.low:
            yield (
                f"contradiction: {each.name} is between {low:.3g} and {high:.3g} by the efforts, "
                f"between {other.low:.3g} and {other.high:.3g} by output error"
            )
