"""Output error of the recordings of a fit, as a part of its verdict."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from nodes.hil.alignment.streams import StreamError
from nodes.hil.fitting.agreement import reconcile
from nodes.hil.fitting.commands import drive_of
from nodes.hil.fitting.output_error_verdict import ActuationVerdict, JointError, OutputErrorVerdict
from nodes.hil.fitting.reading import FitCase
from nodes.hil.fitting.verdict import FitVerdict, RefusalVerdict
from sim_core.identification.estimates import surely_changed
from sim_core.identification.output_error.fitting import (
    Commanded,
    NoShotsError,
    OutputErrorResult,
    fit_output_error,
)

ACTUATION_ONLY = ("backlash", "stiffness")  # kinds that no other method sees


def output_error_of(case: FitCase, kinds: Collection[str], inertia: bool, holdout: float) -> OutputErrorResult:
    """Fit of the recordings in `case` by output error.

    Raises StreamError, with a one-line reason, if commands were not recorded or the robot is not a tree.
    """
    files = zip(case.topics.items(), case.recordings, strict=True)
    try:
        commanded = [
            Commanded(recorded, drive_of(Path(path), topic, case.mechanism, case.names, recorded))
            for (path, topic), recorded in files
        ]
        return fit_output_error(case.mechanism, case.names, commanded, kinds, inertia=inertia, holdout=holdout)
    except NoShotsError as error:
        raise StreamError(str(error)) from None


def output_error_verdict(result: OutputErrorResult) -> OutputErrorVerdict:
    """The verdict of a result."""
    tables = []
    for estimates in (result.estimates, result.friction):
        found = {each.name for each in surely_changed(estimates)}
        tables.append(
            [
                ActuationVerdict(
                    name=each.name,
                    kind=each.kind,
                    value=each.value,
                    low=each.low,
                    high=each.high,
                    is_found=result.is_better and each.name in found,
                )
                for each in estimates
            ]
        )
    errors = zip(result.joints, result.before.tolist(), result.after.tolist(), strict=True)
    return OutputErrorVerdict(
        segment_s=result.seconds,
        segments=result.shots,
        outcome=result.outcome,
        joints=[JointError(name=name, before=before, after=after) for name, before, after in errors],
        actuation=tables[0],
        friction=tables[1],
    )


def add_output_error(
    verdict: FitVerdict, case: FitCase, kinds: Collection[str], inertia: bool, holdout: float, is_required: bool
) -> OutputErrorResult | None:
    """Add the fit by output error to a verdict, or a note on why there is none; the fit.

    Raises StreamError, with this reason, if it is required.
    """
    try:
        result = output_error_of(case, kinds, inertia, holdout)
    except StreamError as error:
        if is_required:
            raise StreamError(f"output error is not possible: {error}") from None
        verdict.notes.append(f"no output error: {error}")
        verdict.refusals += [
            RefusalVerdict(what=kind, why=f"only output error sees it: {error}", remedy="a recording with commands")
            for kind in kinds
            if kind in ACTUATION_ONLY
        ]
        return None
    verdict.output_error = output_error_verdict(result)
    verdict.refusals += [RefusalVerdict(what=each.what, why=each.why, remedy=each.remedy) for each in result.refusals]
    reconcile(verdict, result)
    return result
