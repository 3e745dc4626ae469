"""Output error of the recordings of a fit, as a part of its verdict."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from nodes.hil.alignment.streams import StreamError
from nodes.hil.fitting.commands import drive_of
from nodes.hil.fitting.output_error_verdict import ActuationVerdict, JointError, OutputErrorVerdict
from nodes.hil.fitting.reading import FitCase
from nodes.hil.fitting.verdict import ErrorVerdict, FitVerdict, RefusalVerdict
from sim_core.identification.estimates import Estimate, surely_changed
from sim_core.identification.output_error.fitting import (
    Commanded,
    NoShotsError,
    OutputErrorResult,
    fit_output_error,
)
from sim_core.identification.result import NOT_CERTAIN, unsure

NOT_POSSIBLE = "output error is not possible"
ACTUATION_ONLY = ("backlash", "stiffness")  # kinds that no other method sees


def commanded_of(case: FitCase) -> list[Commanded]:
    """The recordings in `case` with their commands.

    Raises StreamError, with a one-line reason, if commands were not recorded.
    """
    files = zip(case.topics.items(), case.recordings, strict=True)
    return [
        Commanded(recorded, drive_of(Path(path), topic, case.mechanism, case.names, recorded))
        for (path, topic), recorded in files
    ]


def require_commands(case: FitCase) -> list[Commanded]:
    """`commanded_of`, for a fit that is only made with commands."""
    try:
        return commanded_of(case)
    except StreamError as error:
        raise StreamError(f"{NOT_POSSIBLE}: {error}") from None


def output_error_of(
    case: FitCase, commanded: Sequence[Commanded], kinds: Collection[str], inertia: bool, holdout: float
) -> OutputErrorResult:
    """Fit of the recordings in `case` by output error.

    Raises StreamError, with a one-line reason, if there is too little motion.
    """
    try:
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
    verdict: FitVerdict,
    case: FitCase,
    commanded: Sequence[Commanded] | None,
    kinds: Collection[str],
    inertia: bool,
    holdout: float,
) -> OutputErrorResult | None:
    """Add the fit by output error to a verdict, or a note on why there is none; the fit.

    commanded  of `require_commands`, if output error is required; None: there is none if it is not possible
    Raises StreamError, with the reason, if it is required and not possible.
    """
    try:
        result = output_error_of(case, commanded or commanded_of(case), kinds, inertia, holdout)
    except StreamError as error:
        if commanded:
            raise StreamError(f"{NOT_POSSIBLE}: {error}") from None
        verdict.notes.append(f"no output error: {error}")
        verdict.refusals += [
            RefusalVerdict(what=kind, why=f"only output error sees it: {error}", remedy="a recording with commands")
            for kind in kinds
            if kind in ACTUATION_ONLY
        ]
        return None
    verdict.output_error = output_error_verdict(result)
    if result.behind:
        verdict.notes.append(
            f"output error leaves out the segments in which the limits of {', '.join(result.behind)} hold back the "
            "targets of the servos: these depend on the motion before"
        )
    verdict.refusals += [RefusalVerdict(what=each.what, why=each.why, remedy=each.remedy) for each in result.refusals]
    reconcile(verdict, result)
    return result


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
        for joint in verdict.joints:
            joint.change = unsure(joint.change)
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
