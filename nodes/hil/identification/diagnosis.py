"""Diagnosis of a comparison as text: error measures that exceed their limits, and the faults that would explain
them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import msgspec
import numpy as np

from nodes.hil.alignment.comparison import Comparison, JointComparison
from nodes.hil.identification.causes import KINDS, Hint, ModelErrorHypotheses
from nodes.hil.report.limits import Limits, angle_text

SMALLEST_DELAY_S = 0.5e-3  # shortest delay reported
EVEN = 0.5  # a bias explains a position error if the RMS around it is below this fraction of it
EXPLAINS = 0.5  # least fraction of the effort residual's power that reported causes explain together
MODEL = ("mass", "gain", "friction", "dry_friction", "backlash")


class Excess(msgspec.Struct, frozen=True, kw_only=True):
    """An error measure of a joint that exceeds its limit.

    figure        name of the error measure: "bias", "rms" or "max"
    value, limit  the error measure and its limit (rad or m)
    """

    joint: str
    figure: str
    value: float
    limit: float


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One result of the diagnosis: a fault of the robot or a difference from its model, described in one line by
    `text`.

    kind     "dead_encoder", "delay", "bias", "mass", "gain", "friction", "dry_friction", "backlash", "efforts"
             (measured and model efforts differ without a single known cause) or "position_error"
    of       joint or body; "" if the result concerns the whole robot
    value    size, in `unit`
    failed   whether the value exceeds its limit; False for an uncertain result
    limit    the limit as text, such as "3 %"; "" if the value has no limit
    certain  False if inexact time stamps may explain the result
    """

    kind: str
    of: str
    value: float
    unit: str
    text: str
    failed: bool
    limit: str = ""
    certain: bool = True

    @property
    def judged(self) -> str:
        """The result as text: "not judged" for an uncertain finding, "beyond" for a value above its limit, otherwise
        "within".
        """
        return "not judged" if not self.certain else "beyond" if self.failed else "within"


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """All findings and exceeded limits of a comparison.

    passed      whether no error measure and no finding exceeds its limit
    is_certain  False if the uncertainty of the clocks may explain every exceeded limit
    """

    passed: bool
    findings: list[Finding]
    exceeded: list[Excess]
    is_certain: bool = True


def diagnose(
    comparison: Comparison,
    hints: ModelErrorHypotheses,
    limits: Limits,
    sliding: Iterable[str] = (),
    clock_sigma_s: float = 0.0,
) -> Diagnosis:
    """Diagnosis of a comparison.

    hints          model errors that would explain the effort residual
    sliding        joints whose positions are in metres
    clock_sigma_s  standard deviation of the stamps' simulation time (s); a delay of less than twice this value is not
                   reported
    """
    slides = set(sliding)
    exceeded = [each for joint in comparison.joints for each in _excess(joint, limits, joint.name in slides)]
    findings = [*_dead(comparison, slides), *_delays(comparison, hints, limits, clock_sigma_s), *_causes(hints, limits)]
    findings += _biases(comparison, hints, findings, limits, slides)
    explained = {finding.of for finding in findings if finding.failed and finding.kind in ("dead_encoder", "bias")}
    model = _has_model_fault(findings, hints)
    late = _late_by(comparison, clock_sigma_s)
    for name in dict.fromkeys(each.joint for each in exceeded):
        if name not in explained and not model:
            findings.append(_unexplained(name, exceeded, name in slides, late.get(name, 0.0), clock_sigma_s))
    failed = bool(exceeded) or any(finding.failed for finding in findings)
    beyond = any(each.value - late.get(each.joint, 0.0) > each.limit for each in exceeded)
    for finding in findings:
        if finding.failed and finding.kind == "delay":
            beyond = beyond or (abs(finding.value) - 2.0 * clock_sigma_s) * 1e3 > limits.delay_ms
        elif finding.failed and finding.kind != "position_error":
            beyond = True
    return Diagnosis(passed=not failed, findings=findings, exceeded=exceeded, is_certain=beyond or not failed)


def _has_model_fault(findings: Iterable[Finding], hints: ModelErrorHypotheses) -> bool:
    """Whether a model error was found that can cause position errors.

    Backlash of a few milliseconds does not count, because it hardly affects positions.
    """
    small = {(hint.kind, hint.of) for hint in hints.causes if hint.alone}
    certain = [(finding.kind, finding.of) for finding in findings if finding.kind in MODEL and finding.certain]
    return any(each not in small for each in certain)


def _excess(joint: JointComparison, limits: Limits, slides: bool) -> Iterator[Excess]:
    if joint.dead:  # its position has no meaning, which another finding reports
        return
    for figure, value in (("bias", abs(joint.bias)), ("rms", joint.rms), ("max", joint.max)):
        if value > (limit := limits.of(figure, slides)):
            yield Excess(joint=joint.name, figure=figure, value=value, limit=limit)


def _dead(comparison: Comparison, slides: set[str]) -> Iterator[Finding]:
    for joint in comparison.joints:
        if joint.dead:
            total = sum(each.end_s - each.start_s for each in joint.dead)
            first = joint.dead[0]
            times = "" if len(joint.dead) == 1 else f", {len(joint.dead)} times"
            shown = angle_text(first.value, joint.name in slides)
            text = (
                f"the encoder of {joint.name} is dead: it reads {shown} from t = {first.start_s:.3f} s "
                f"to {first.end_s:.3f} s{times}"
            )
            yield Finding(kind="dead_encoder", of=joint.name, value=total, unit="s", text=text, failed=True)


def _delays(
    comparison: Comparison, hints: ModelErrorHypotheses, limits: Limits, clock_sigma_s: float
) -> Iterator[Finding]:
    """Yield findings about the common delay, and about delays of single joints that no friction, gain or backlash
    explains.

    hints          model errors that would explain the effort residual
    clock_sigma_s  standard deviation of the stamps' simulation time (s)
    """
    limit, limit_text = limits.delay_ms * 1e-3, f"{limits.delay_ms:g} ms"
    lag = {hint.of for hint in hints.causes if hint.kind in ("friction", "dry_friction", "gain", "backlash")}
    common = comparison.delay_s
    if abs(common) >= max(SMALLEST_DELAY_S, 2.0 * clock_sigma_s):
        way = "late" if common > 0.0 else "early"
        known = f" (its clock is known to {clock_sigma_s * 1e3:.2g} ms)" if clock_sigma_s else ""
        text = f"the measurement is {abs(common) * 1e3:.2f} ms {way}{known}"
        yield Finding(
            kind="delay", of="", value=common, unit="s", text=text, failed=abs(common) > limit, limit=limit_text
        )
    for joint in comparison.joints:
        if joint.delay_s is None or joint.delay_sigma_s is None or joint.name in lag:
            continue
        own = joint.delay_s - common
        if abs(own) > max(limit, 3.0 * joint.delay_sigma_s, 2.0 * clock_sigma_s):
            way = "later" if own > 0.0 else "earlier"
            text = f"the measurement of {joint.name} is {abs(own) * 1e3:.2f} ms {way} than the others"
            yield Finding(kind="delay", of=joint.name, value=own, unit="s", text=text, failed=True, limit=limit_text)


def _causes(hints: ModelErrorHypotheses, limits: Limits) -> Iterator[Finding]:
    limit_text = f"{limits.parameter_percent:g} %"
    causes = [hint for hint in hints.causes if hint.kind in MODEL]
    alone = [hint for hint in causes if hint.alone]
    if not _explains(hints, limits):
        yield from _unexplained_efforts(hints, [each for each in causes if not each.alone], limits, limit_text)
        causes = alone
    for hint in causes:
        size = abs(hint.value) if hint.unit == "relative" else hint.share
        text, limit = (
            f"{_amount(hint)}{_alike(hint)}",
            limit_text if hint.unit == "relative" else f"{limit_text} of its efforts",
        )
        failed = 100.0 * size > limits.parameter_percent
        if not hint.certain:
            text, failed = f"{text} (not certain: ± {_spread(hint)}, as the stamps are uneven in time)", False
        yield Finding(
            kind=hint.kind,
            of=hint.of,
            value=hint.value,
            unit=hint.unit,
            text=text,
            failed=failed,
            limit=limit,
            certain=hint.certain,
        )


def _explains(hints: ModelErrorHypotheses, limits: Limits) -> bool:
    """Whether the causes explain most of the effort residual, or the unexplained part is within its limit."""
    if hints.residual is None or hints.explained is None or hints.explained >= EXPLAINS:
        return True
    left = hints.residual * math.sqrt(1.0 - hints.explained)
    return 100.0 * left <= limits.parameter_percent


def _unexplained_efforts(
    hints: ModelErrorHypotheses, causes: list[Hint], limits: Limits, limit_text: str
) -> Iterator[Finding]:
    """Yield a finding if the measured efforts differ from the model's efforts and no single cause explains this.

    causes      causes that explain a part of the difference
    limit_text  the limit as text
    """
    residual = hints.residual or 0.0
    failed = 100.0 * residual > limits.parameter_percent
    text = f"the efforts differ from the model's by {residual:.2%} of them"
    if hints.timing is not None and hints.timing > EXPLAINS:
        if failed:
            text += ", which uneven time stamps may explain"
            yield Finding(
                kind="efforts", of="", value=residual, unit="", text=text, failed=False, limit=limit_text, certain=False
            )
    elif causes:
        best = max(causes, key=lambda hint: hint.explains)
        text += ", and no single cause explains it"
        text += f" (best: {KINDS[best.kind][1].format(of=best.of)}, {best.explains:.0%})"
        yield Finding(kind="efforts", of="", value=residual, unit="", text=text, failed=failed, limit=limit_text)


def _spread(hint: Hint) -> str:
    return f"{hint.sigma:.2%}" if hint.unit == "relative" else f"{hint.sigma:.2g} {hint.unit}"


def _amount(hint: Hint) -> str:
    what = KINDS[hint.kind][1].format(of=hint.of)
    if hint.kind == "backlash":
        return f"{what}: the joint is free for {1e3 * hint.value:.0f} ms after each change of sign of its effort"
    if hint.unit == "relative":
        return f"{what} is {hint.value:+.2%} against the model"
    return f"{what} is {hint.value:+.4g} {hint.unit} against the model, {hint.share:.2%} of its efforts"


def _alike(hint: Hint) -> str:
    return f" (this motion does not distinguish it from {', '.join(hint.alike)})" if hint.alike else ""


def _biases(
    comparison: Comparison, hints: ModelErrorHypotheses, found: list[Finding], limits: Limits, slides: set[str]
) -> Iterator[Finding]:
    """Yield findings about constant position errors.

    If a model error was found that explains position errors, a constant error of a joint is reported only if the
    efforts show an offset of this joint's encoder.

    hints   model errors that would explain the effort residual
    found   findings so far
    slides  joints whose positions are in metres
    """
    zeros = {hint.of for hint in hints.causes if hint.kind == "encoder_zero"}
    model = _has_model_fault(found, hints)
    for joint in comparison.joints:
        limit = limits.of("bias", joint.name in slides)
        even = joint.rms_around_bias < EVEN * abs(joint.bias)
        if joint.dead or not even or abs(joint.bias) <= limit or (model and joint.name not in zeros):
            continue
        text = f"the encoder of {joint.name} reads {angle_text(joint.bias, joint.name in slides)} too much"
        if joint.bias < 0.0:
            text = f"the encoder of {joint.name} reads {angle_text(-joint.bias, joint.name in slides)} too little"
        unit, limit_text = ("m", angle_text(limit, True)) if joint.name in slides else ("rad", angle_text(limit, False))
        yield Finding(kind="bias", of=joint.name, value=joint.bias, unit=unit, text=text, failed=True, limit=limit_text)


def _late_by(comparison: Comparison, clock_sigma_s: float) -> dict[str, float]:
    """Return {joint: largest position error (rad or m) due to stamps that are wrong by two standard deviations}."""
    pairs = comparison.pairs
    rates = np.abs(np.gradient(pairs.predicted, pairs.time, axis=0)).max(axis=0)
    return dict(zip(comparison.names, (2.0 * clock_sigma_s * rates).tolist(), strict=True))


def _unexplained(name: str, exceeded: list[Excess], slides: bool, late_by: float, clock_sigma_s: float) -> Finding:
    worst = max((each for each in exceeded if each.joint == name), key=lambda each: each.value / each.limit)
    why = "no single cause explains it"
    if worst.value <= late_by:
        why = f"the uncertainty of its clock, {clock_sigma_s * 1e3:.2g} ms, may explain it"
    text = f"the position of {name} is off: {worst.figure} {angle_text(worst.value, slides)}; {why}"
    unit = "m" if slides else "rad"
    limit = angle_text(worst.limit, slides)
    return Finding(kind="position_error", of=name, value=worst.value, unit=unit, text=text, failed=True, limit=limit)
