"""Verdict on a comparison: all findings as data, and the results for the plots."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec
import numpy as np

from nodes.hil.alignment.comparison import Comparison, JointComparison, compare, no_irregularity
from nodes.hil.alignment.missing import missing_states
from nodes.hil.alignment.streams import Gap, Stream, at_times
from nodes.hil.clocks.recorded import ClockNote
from nodes.hil.identification.causes import ModelErrorHypotheses
from nodes.hil.identification.diagnosis import Diagnosis, Excess, Finding, diagnose
from nodes.hil.identification.hypotheses import Explanation, explain
from nodes.hil.identification.model import Efforts, NoModelError, model_of
from nodes.hil.identification.motion import Applied
from nodes.hil.report.limits import Limits, excess_text
from nodes.hil.report.reading import Case, Source
from nodes.messages import Outcome

KIND = "armswing hil report"
UNITS = "rad (m where a joint slides), s, N m (N); a name that ends in _deg, _mm, _ms or _percent says its own"


class SourceNote(msgspec.Struct, frozen=True, kw_only=True):
    """Description of one of the two streams: its origin and the data missing in it. Times are stamps of the stream, s.

    clock   clock that stamped the stream, and its estimated offset and drift; None for stamps in simulation time
    driven  description of the commands with which the model was simulated again; "" if the states are the recorded ones
    """

    file: str
    topic: str
    samples: int
    start_s: float
    end_s: float
    period_s: float
    truncated: bool
    gaps: list[Gap]
    notes: list[str]
    clock: ClockNote | None = None
    driven: str = ""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The whole report as data, in rad, m, s and N m.

    outcome   "passed", "failed" or "not certain". It is "not certain" if irregular times of the measurement may explain
              every exceeded limit, if a clock jumped at an unknown instant, if the prediction may be wrong, if most
              instants have no partner, if measured states are missing for more than a second, or if a guard held the
              robot stopped at the end of the run. No finding is then certain
    reason    one line that gives the reason for the outcome; "" for "passed"
    passed    whether the outcome is "passed"
    delay_s   common delay of the measurement (s), which is corrected in the error measures of the joints; 0 if no delay
              is significant
    unpaired  number of instants of the stream with the lower rate that have no partner
    left_out  joints that only one of the two streams has
    run       notes on the run that affect the comparison, one line each
    """

    kind: str = KIND
    units: str = UNITS
    outcome: Outcome
    reason: str
    passed: bool
    findings: list[Finding]
    exceeded: list[Excess]
    delay_s: float
    joints: list[JointComparison]
    hints: ModelErrorHypotheses
    limits: Limits
    measured: SourceNote
    predicted: SourceNote
    paired: int
    unpaired: int
    left_out: list[str]
    run: list[str] = []


class Compared:
    """Comparison, diagnosis and verdict of a `Case` (see reading.py), as needed for the report and its plots."""

    def __init__(self, case: Case, limits: Limits) -> None:
        self.case = case
        sigma = math.hypot(*(each.clock.uncertainty_s for each in (case.measured, case.predicted) if each.clock))

        irregularities = case.measured.irregularities
        self.comparison: Comparison = compare(
            case.measured.stream,
            case.predicted.stream,
            irregular_s=no_irregularity if irregularities is None else irregularities.irregular_s,
        )
        self.explanation = _explanation(case, self.comparison)
        irregular = None if irregularities is None else irregularities.at(self.comparison.pairs.time)
        found: Diagnosis = diagnose(self.comparison, self.explanation.hints, limits, case.sliding, sigma, irregular)
        outcome, reason = _outcome(found, case, self.comparison)
        if outcome == "not certain":
            found = found.without_certainty()
        self.verdict = Verdict(
            outcome=outcome,
            reason=reason,
            passed=outcome == "passed",
            findings=found.findings,
            exceeded=found.exceeded,
            delay_s=self.comparison.delay_s,
            joints=self.comparison.joints,
            hints=self.explanation.hints,
            limits=limits,
            measured=_note(case.measured, self.comparison.measured_gaps),
            predicted=_note(case.predicted, self.comparison.predicted_gaps),
            paired=len(self.comparison.pairs.time),
            unpaired=self.comparison.unpaired,
            left_out=self.comparison.left_out,
            run=list(case.run),
        )


def excess_lines(exceeded: Iterable[Excess], sliding: Collection[str]) -> list[str]:
    """One line for each exceeded limit, in the same form as the node HilCompare prints.

    sliding  joints whose positions are in metres
    """
    return [excess_text(each.figure, each.joint, each.value, each.limit, each.joint in sliding) for each in exceeded]


def delay_lines(verdict: Verdict) -> list[str]:
    """One line for each joint whose delay exceeds its limit.

    A line begins with "beyond limits", "explained by another cause" or, for an outcome "not certain", "not judged".
    """
    most, lines = verdict.limits.delay_ms * 1e-3, []
    for joint in verdict.joints:
        if joint.delay_s is None or abs(joint.delay_s) <= most:
            continue
        found = [each for each in verdict.findings if each.kind == "delay" and each.of in ("", joint.name)]
        judged = "beyond limits" if any(each.failed for each in found) else "explained by another cause"
        judged = "not judged" if verdict.outcome == "not certain" else judged
        lines.append(f"{judged}: {excess_text('delay', joint.name, joint.delay_s, most, False)}")
    return lines


def _outcome(found: Diagnosis, case: Case, comparison: Comparison) -> tuple[Outcome, str]:
    missing = _missing(case, comparison)
    if found.passed and missing:
        return "not certain", f"{missing}, and that motion was not compared"
    if found.passed and case.held:
        return "not certain", f"the commanded motion was not compared to its end: {case.held}"
    if comparison.unpaired > len(comparison.pairs.time):
        return "not certain", f"{comparison.unpaired} instants have no partner, more than were compared"
    if found.passed:
        return "passed", ""
    if any(each.clock is not None and each.clock.unsure for each in (case.measured, case.predicted)):
        return "not certain", "the robot's clock jumped at an instant that the stamps do not show"
    if case.predicted.caveat:
        return "not certain", case.predicted.caveat
    if not found.is_certain:
        return "not certain", "the irregular times of the measurement may explain all values beyond their limits"
    texts = [each.text for each in found.findings if each.failed]
    texts += excess_lines(found.exceeded, case.sliding)
    return "failed", f"{texts[0]}; {missing}" if missing else texts[0]


def _missing(case: Case, comparison: Comparison) -> str:
    """Text about the gaps of the measured stream; "" if no gap is long.

    If both streams are from the same file, a gap at the end of the run counts, too.
    """
    measured, predicted = case.measured, case.predicted
    ends = [float(measured.stream.time[-1]), float(predicted.stream.time[-1])]
    last = [Gap(*ends)] if measured.file == predicted.file else []
    return missing_states([*comparison.measured_gaps, *last], measured.stream.period_s)


def _note(source: Source, found: list[Gap]) -> SourceNote:
    stream = source.stream
    lines = [] if source.clock is None else [f"{source.topic}: {source.clock.text}"]
    if source.driven:
        lines.append(f"{source.topic}: predicted by the model with the {source.driven}")
    return SourceNote(
        file=source.file,
        topic=source.topic,
        samples=len(stream.time),
        start_s=float(stream.time[0]),
        end_s=float(stream.time[-1]),
        period_s=stream.period_s,
        truncated=source.truncated,
        gaps=found,
        notes=[*stream.notes, *lines],
        clock=source.clock,
        driven=source.driven,
    )


def _explanation(case: Case, comparison: Comparison) -> Explanation:
    dead = [joint.name for joint in comparison.joints if joint.dead]
    if dead:
        return _silent(f"the encoder of {dead[0]} is dead, and the model needs the positions of all joints")
    if not case.robot:
        return _silent("the predicted recording holds no plan, so its model is not known")
    predicted = case.predicted.stream
    applied = Applied(case.hold_s, predicted if case.same_efforts else None, comparison.delay_s)
    try:
        model = Efforts(model_of(case.robot, case.parameters))
        found = _twin(case.measured.stream, predicted, comparison.delay_s) if case.predicted.driven else None
        measured, twin = found or (case.measured.stream, None)
        return explain(model, measured, applied, is_timed=case.is_timed, twin=twin)
    except NoModelError as error:
        return _silent(str(error))


def _twin(measured: Stream, predicted: Stream, delay_s: float) -> tuple[Stream, Stream] | None:
    """Return (part of the measurement that the model's states cover, the model's states at its stamps).

    None if the model's states have no velocities or efforts, or cover fewer than two stamps.

    predicted  states of the model at each time step, simulated with the commands that the robot applied
    delay_s    delay of the measurement (s)
    """
    time = predicted.time
    covered = measured.within(float(time[0]) + delay_s, float(time[-1]) + delay_s)
    if covered is None or predicted.velocity is None or predicted.effort is None:
        return None
    at = covered.time - delay_s
    step = np.searchsorted(time, at - 0.5 * predicted.period_s).clip(0, len(time) - 1)
    position, velocity = (at_times(at, time, each) for each in (predicted.position, predicted.velocity))
    return covered, Stream(covered.time, predicted.names, position, velocity, predicted.effort[step])


def _silent(why: str) -> Explanation:
    return Explanation(ModelErrorHypotheses(why_not=why))


def limits_of(case: Case, overrides: Mapping[str, Any]) -> Limits:
    """Limits of the launch file, some of them replaced by `overrides`.

    Raises ValueError for an invalid limit, with a message that names its key.
    """
    return msgspec.convert({**case.limits, **overrides}, Limits)
