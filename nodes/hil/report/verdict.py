"""Verdict on a comparison: all findings as data, and the results for the plots."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from nodes.framework.messages import Outcome
from nodes.hil.alignment.comparison import MAX_DELAY_S, Comparison, JointComparison, compare, no_irregularity
from nodes.hil.alignment.irregularities import STARVED, STARVED_S
from nodes.hil.alignment.missing import missing_states
from nodes.hil.alignment.noise import white_noise
from nodes.hil.alignment.streams import Floats, Gap, Stream, aligned
from nodes.hil.clocks.recorded import ClockNote
from nodes.hil.identification.causes import KINDS, LeastShown, ModelErrorHypotheses
from nodes.hil.identification.channel_errors import ChannelError
from nodes.hil.identification.channel_order import straightened
from nodes.hil.identification.channels import single_errors
from nodes.hil.identification.diagnosis import Diagnosis, Excess, Finding, diagnose
from nodes.hil.identification.hypotheses import Explanation, explain
from nodes.hil.identification.model import Efforts, NoModelError, model_of
from nodes.hil.identification.motion import Applied
from nodes.hil.report.limits import Limits, angle_text, excess_text
from nodes.hil.report.reading import Case, Source

KIND = "armswing hil report"
SMALLEST_NOISE = 1e-9  # in the unit of the channel
UNITS = "rad (m where a joint slides), s, N m (N); a name that ends in _deg, _mm, _ms or _percent contains its own"


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


class JointNoise(msgspec.Struct, frozen=True, kw_only=True):
    """Standard deviations of the white noise in a joint's channels, in rad, rad/s and N m; m, m/s and N for a sliding
    joint. None if the channel is not published.
    """

    name: str
    position: float
    velocity: float | None
    effort: float | None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The whole report as data, in rad, m, s and N m.

    outcome   "passed", "failed" or "not certain". It is "not certain" if irregular times of the measurement may explain
              every exceeded limit, if the simulation fell behind the clock at most instants, if a clock jumped at an
              unknown instant, if the prediction may be wrong, if most instants have no partner, if measured states are
              missing for more than a second, or if a guard held the robot stopped at the end of the run. No finding is
              then certain
    reason    one line that gives the reason for the outcome; "" for "passed"
    passed    whether the outcome is "passed"
    delay_s   common delay of the measurement (s), which is corrected in the error measures of the joints; 0 if no delay
              is significant
    unpaired  number of instants of the stream with the lower rate that have no partner
    left_out  joints that only one of the two streams has
    run       notes on the run that affect the comparison, one line each
    noise     white noise of the measured channels
    unobservable  model errors that this motion shows only beyond the limit of the parameters, or at no size
    wrong_in_log  what the checks of an imported log refuse: causes that are found with such channels may be false
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
    noise: list[JointNoise] = []
    unobservable: list[LeastShown] = []
    wrong_in_log: list[str] = []


class Compared:
    """Comparison, diagnosis and verdict of a `Case` (see reading.py), as needed for the report and its plots.

    wrong_in_log  see `Verdict`
    """

    def __init__(self, case: Case, limits: Limits, wrong_in_log: Sequence[str] = ()) -> None:
        self.case = case
        sigma = math.hypot(*(each.clock.uncertainty_s for each in (case.measured, case.predicted) if each.clock))

        irregularities = case.measured.irregularities
        measured, predicted = case.measured.stream, case.predicted.stream
        gross, straight = ([], measured) if case.starts_measured else straightened(measured, predicted)
        self.comparison: Comparison = compare(
            measured,
            predicted,
            max_delay_s=0.0 if case.starts_measured else MAX_DELAY_S,
            finds_dead=not case.starts_measured,
            irregular_s=no_irregularity if irregularities is None else irregularities.irregular_s,
            straight=straight,
        )
        dead = [joint.name for joint in self.comparison.joints if joint.dead]
        delay_s, time_sigma_s = self.comparison.delay_s, math.hypot(sigma, self.comparison.delay_uncertainty_s)
        single, true = (
            ([], measured)
            if case.starts_measured
            else single_errors(straight, predicted, delay_s, case.stiffness, dead, time_sigma_s)
        )
        errors = [*gross, *single]
        self.explanation = _explanation(case, true, self.comparison, errors)
        irregular = None if irregularities is None else irregularities.at(self.comparison.pairs.time)
        found: Diagnosis = diagnose(
            self.comparison, self.explanation.hints, limits, case.sliding, sigma, irregular, errors
        )
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
            noise=_noise_of_measurement(true, case.differentiated)
            if case.starts_measured
            else _noise(true, predicted, delay_s),
            unobservable=[
                each
                for each in self.explanation.hints.least
                if each.size is None or 100.0 * each.size > limits.parameter_percent
            ],
            wrong_in_log=list(wrong_in_log),
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


def note_lines(verdict: Verdict, sliding: Collection[str]) -> list[str]:
    """One line each about causes that explain the efforts in part, model errors that the motion does not show, and the
    white noise of the channels.

    sliding  joints whose positions are in metres
    """
    named = {(each.kind, each.of) for each in verdict.findings}
    named |= {("encoder_zero", each.of) for each in verdict.findings if each.kind == "bias"}
    lines = [
        f"{KINDS[hint.kind].format(of=hint.of)} alone would explain {hint.explains:.0%} of the effort residual"
        for hint in verdict.hints.causes
        if (hint.kind, hint.of) not in named
    ]
    if verdict.unobservable:
        lines.append(f"not observable in this motion: {', '.join(each.text for each in verdict.unobservable)}")
    return lines + [line for line in [noise_line(verdict.noise, sliding)] if line]


def noise_line(noise: Sequence[JointNoise], sliding: Collection[str]) -> str:
    """One line about the largest white noise of positions, velocities and efforts; "" if there is none.

    sliding  joints whose positions are in metres
    """
    texts = []
    for field, unit in (("position", ""), ("velocity", "rad/s"), ("effort", "N m")):
        sizes = {each.name: getattr(each, field) or 0.0 for each in noise}
        name = max(sizes, key=lambda joint: sizes[joint], default="")
        if sizes.get(name, 0.0) > SMALLEST_NOISE:
            slides = name in sliding
            unit = {"rad/s": "m/s", "N m": "N"}.get(unit, unit) if slides else unit
            size = f"{sizes[name]:.2g} {unit}" if unit else angle_text(sizes[name], slides)
            texts.append(f"{field} {size} ({name})")
    return f"white noise, the largest: {', '.join(texts)}" if texts else ""


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
    irregularities = case.measured.irregularities
    if irregularities and np.median(irregularities.irregular_s(comparison.pairs.time)) > STARVED_S:
        return "not certain", f"{STARVED}; this may explain the values beyond their limits"
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


def _noise_of_measurement(measured: Stream, differentiated: bool) -> list[JointNoise]:
    """White noise of measured channels alone: predictions that start anew from measured states jump at each start."""
    velocity = None if differentiated else measured.velocity
    return [
        JointNoise(
            name=name,
            position=white_noise(measured.position[:, k]),
            velocity=None if velocity is None else white_noise(velocity[:, k]),
            effort=None if measured.effort is None else white_noise(measured.effort[:, k]),
        )
        for k, name in enumerate(measured.names)
    ]


def _noise(measured: Stream, predicted: Stream, delay_s: float) -> list[JointNoise]:
    names = [name for name in predicted.names if name in measured.names]
    pairs = aligned(measured.only(names), predicted.only(names), delay_s)
    if pairs is None:
        return []
    shown, model = pairs

    def of(x: Floats | None, r: Floats | None, index: int) -> float | None:
        return None if x is None or r is None else white_noise(x[:, index] - r[:, index])

    return [
        JointNoise(
            name=name,
            position=white_noise(shown.position[:, k] - model.position[:, k]),
            velocity=of(shown.velocity, model.velocity, k),
            effort=of(shown.effort, model.effort, k),
        )
        for k, name in enumerate(names)
    ]


def _explanation(case: Case, measured: Stream, comparison: Comparison, errors: Iterable[ChannelError]) -> Explanation:
    """Explanation of the effort residual of a measurement whose channels have had `errors`, which are removed."""
    dead = [joint.name for joint in comparison.joints if joint.dead]
    if dead:
        return _silent(f"the encoder of {dead[0]} is dead, and the model needs the positions of all joints")
    dead = [error.joints[0] for error in errors if (error.kind, error.channel) == ("dead", "effort")]
    if dead:
        return _silent(f"the efforts of {dead[0]} are dead, and the causes are found from the efforts of all joints")
    if not case.robot:
        return _silent("the predicted recording holds no plan, so its model is not known")
    predicted = case.predicted.stream
    applied = Applied(case.hold_s, predicted if case.same_efforts else None, comparison.delay_s)
    try:
        model = Efforts(model_of(case.robot, case.parameters))
        found = aligned(measured, predicted, comparison.delay_s) if case.predicted.driven else None
        measured, twin = found or (measured, None)
        return explain(model, measured, applied, is_timed=case.is_timed, twin=twin)
    except NoModelError as error:
        return _silent(str(error))


def _silent(why: str) -> Explanation:
    return Explanation(ModelErrorHypotheses(why_not=why))


def limits_of(case: Case, overrides: Mapping[str, Any]) -> Limits:
    """Limits of the launch file, some of them replaced by `overrides`.

    Raises ValueError for an invalid limit, with a message that names its key.
    """
    return msgspec.convert({**case.limits, **overrides}, Limits)
