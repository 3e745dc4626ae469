"""Diagnosis of a comparison as text: error measures that exceed their limits, and the faults that would explain
them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec
import numpy as np

from nodes.hil.alignment.comparison import FEWEST_REGULAR, REGULAR_S, Comparison, JointComparison
from nodes.hil.alignment.irregularities import SETTLING_S
from nodes.hil.alignment.streams import Floats, Pairs, at_times
from nodes.hil.identification.causes import KINDS, Hint, ModelErrorHypotheses
from nodes.hil.identification.channel_errors import ENCODER_FINDINGS, ChannelError, error_text, finding_kind
from nodes.hil.report.limits import Limits, angle_text

SMALLEST_DELAY_S = 0.5e-3  # shortest delay reported
EVEN = 0.5  # a bias explains a position error if the RMS around it is below this fraction of it
EXPLAINS = 0.5  # fraction of the effort residual's power from which on irregularities may explain it
LEAVE = 0.25  # largest fraction, of the RMS of the effort residual that follows the motion, that reported causes leave
LARGEST = 5.0  # standard deviations of white noise that hardly any sample exceeds
POSITIONS = ("position", "encoder", "joint")  # channels of which an error is one of positions
NO_CAUSE = "; no single cause explains it"
NO_CAUSES = "; no combination of known causes explains it"
SEVERAL = "several things differ, or a channel is wrong: `armswing hil fit` checks the log, and fits all at once"
MODEL = ("mass", "gain", "friction", "dry_friction", "armature", "backlash")


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

    kind     "dead_encoder", "delay", "bias", "mass", "gain", "friction", "dry_friction", "armature", "backlash",
             "encoder_zero", "efforts" (measured and model efforts differ without known causes), "position_error", or an
             error of channels, such as "joint_swapped", "effort_sign" or "encoder_play" (see channel_errors.py)
    of       joint, joints or body; "" if the result concerns the whole robot
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
    is_certain  False if inexact times may explain every exceeded limit
    """

    passed: bool
    findings: list[Finding]
    exceeded: list[Excess]
    is_certain: bool = True

    def without_certainty(self) -> Diagnosis:
        """Copy of the diagnosis in which all findings that exceed their limits are marked as not certain."""
        findings = [
            msgspec.structs.replace(each, failed=False, certain=False) if each.failed else each
            for each in self.findings
        ]
        return msgspec.structs.replace(self, findings=findings, is_certain=False)


def diagnose(
    comparison: Comparison,
    hints: ModelErrorHypotheses,
    limits: Limits,
    sliding: Iterable[str] = (),
    clock_sigma_s: float = 0.0,
    irregular_s: tuple[Floats, Floats] | None = None,
    errors: Sequence[ChannelError] = (),
) -> Diagnosis:
    """Diagnosis of a comparison.

    hints          model errors that would explain the effort residual
    sliding        joints whose positions are in metres
    clock_sigma_s  standard deviation of the stamps' simulation time (s); a delay of less than twice this value is not
                   reported
    irregular_s    (behind, paused), (n,) each in s for the n pairs of the comparison: time by which the simulation
                   fell behind real time shortly before the pair, and total excess length of the pauses of the samples
                   in the same interval; None if times are regular
    errors         errors of channels
    """
    slides = set(sliding)
    uncertainties = _Uncertainties(comparison, clock_sigma_s, irregular_s)
    exceeded = [each for joint in comparison.joints for each in _excess(joint, limits, joint.name in slides)]
    known = {name for error in errors if error.channel in POSITIONS for name in error.joints}
    findings = [*_dead(comparison, slides), *_channels(errors, comparison, exceeded, limits, slides)]
    findings += [*_delays(comparison, hints, limits, clock_sigma_s, known), *_causes(hints, limits)]
    findings += _biases(comparison, hints, findings, limits, slides, known)
    findings += _zeros(hints, findings, limits, slides)
    explained = {finding.of for finding in findings if finding.failed and finding.kind in ("dead_encoder", "bias")}
    explained |= known
    model = _has_model_fault(findings, hints)
    for name in dict.fromkeys(each.joint for each in exceeded):
        if name not in explained and not model:
            findings.append(_unexplained(name, exceeded, name in slides))
    findings = [uncertainties.weigh(finding, exceeded, limits) for finding in findings]
    is_certain = any(map(uncertainties.is_exceeded_certainly, exceeded)) or any(
        each.failed and each.certain for each in findings
    )
    passed = not exceeded and not any(each.failed for each in findings)
    settled = [each if each.certain else msgspec.structs.replace(each, failed=False) for each in findings]
    return Diagnosis(passed=passed, findings=settled, exceeded=exceeded, is_certain=is_certain or passed)


class _Uncertainties:
    """Sizes of the error measures and delays that the inexact times of a comparison may explain.

    An error measure is certain if it exceeds its limit by more than inexact times may explain, over all instants or
    over the regular ones. Arguments are those of `diagnose`.
    """

    def __init__(self, comparison: Comparison, clock_sigma_s: float, irregular_s: tuple[Floats, Floats] | None) -> None:
        pairs, self._clock_s = comparison.pairs, 2.0 * clock_sigma_s
        rates = np.abs(np.gradient(pairs.predicted, pairs.time, axis=0))
        behind, paused = irregular_s or (np.zeros(len(pairs.time)), np.zeros(len(pairs.time)))
        self._behind_s, self._paused_s = float(behind.max()), float(paused.max())
        self._delay_s = self._clock_s + comparison.delay_uncertainty_s
        # the joint may have moved, or not moved, at the rates that it had around that time
        off = (behind + paused)[:, None] * _largest_nearby(rates, pairs.time)
        self._least = self._least_sizes(comparison.names, pairs, behind + paused, off, rates)
        if (late := comparison.pairs_if_delayed) is not None:  # a delay that is not certain may explain positions, too
            irregular = np.interp(late.time, pairs.time, behind + paused)
            least = self._least_sizes(comparison.names, late, irregular, at_times(late.time, pairs.time, off), rates)
            self._least = {key: min(value, least[key]) for key, value in self._least.items()}

    def _least_sizes(
        self, names: Sequence[str], pairs: Pairs, irregular_s: Floats, off: Floats, rates: Floats
    ) -> dict[tuple[str, str], float]:
        """Return {(joint, figure): size of the error measure that inexact times cannot explain}, over all instants or
        over the regular ones.
        """
        is_regular = irregular_s <= REGULAR_S
        parts = [np.ones(len(pairs.time), dtype=bool), is_regular][: 1 + (int(is_regular.sum()) >= FEWEST_REGULAR)]
        clock, found = self._clock_s * rates.max(axis=0), dict[tuple[str, str], float]()
        for part in parts:
            for figure, values in _least_errors(pairs.residual[part], off[part]).items():
                for name, value in zip(names, (values - clock).tolist(), strict=True):
                    found[name, figure] = max(found.get((name, figure), 0.0), value)
        return found

    def is_exceeded_certainly(self, excess: Excess) -> bool:
        """Whether an error measure exceeds its limit by more than inexact times may explain."""
        return self._least[excess.joint, excess.figure] > excess.limit

    def weigh(self, finding: Finding, exceeded: Iterable[Excess], limits: Limits) -> Finding:
        """The finding, marked as not certain if inexact times may explain it; otherwise unchanged.

        If such a finding is about positions, the reason is added to its text.
        """
        if not finding.failed or not finding.certain:
            return finding
        if finding.kind == "delay":
            explained = (abs(finding.value) - self._delay_s) * 1e3 <= limits.delay_ms
            return msgspec.structs.replace(finding, certain=False) if explained else finding
        of = [each for each in exceeded if each.joint in finding.of.split(", ") or not finding.of]
        if finding.kind == "bias":
            of = [each for each in of if each.figure == "bias"]
        if finding.kind in ENCODER_FINDINGS and not of:  # a delay exceeds its limit
            return finding
        of_positions = finding.kind in ENCODER_FINDINGS or finding.kind in ("position_error", "bias")
        if not of_positions or any(map(self.is_exceeded_certainly, of)):
            return finding
        text = f"{finding.text.removesuffix(NO_CAUSE)}; {self._why}"
        return msgspec.structs.replace(finding, text=text, certain=False)

    @property
    def _why(self) -> str:
        if self._paused_s > max(self._behind_s, self._clock_s):
            paused = f"{self._paused_s * 1e3:.0f} ms within {SETTLING_S:g} s"
            return f"pauses of the measurement, up to {paused}, may explain it"
        if self._behind_s > self._clock_s:
            return f"the simulation, which fell behind the clock by up to {self._behind_s * 1e3:.0f} ms, may explain it"
        return f"the uncertainty of its clock, {self._clock_s / 2.0 * 1e3:.2g} ms, may explain it"


def _least_errors(residual: Floats, off: Floats) -> dict[str, Floats]:
    """Lower bounds {error measure: (k,)} of the error measures of k joints whose residuals are uncertain.

    residual  measured minus predicted positions (n, k)
    off       sizes (n, k) by which irregular times may change the residuals
    """
    rms = np.sqrt((residual * residual).mean(axis=0)) - np.sqrt((off * off).mean(axis=0))
    bias = np.abs(residual.mean(axis=0)) - off.mean(axis=0)
    return {"bias": bias, "rms": rms, "max": (np.abs(residual) - off).max(axis=0)}


def _largest_nearby(rates: Floats, time: Floats) -> Floats:
    """Largest of the rates (n, k) of each joint within SETTLING_S before and after each of the instants `time` (n,)."""
    first = np.searchsorted(time, time - SETTLING_S)
    after = np.searchsorted(time, time + SETTLING_S, side="right")
    return np.stack([rates[a:b].max(axis=0) for a, b in zip(first.tolist(), after.tolist(), strict=True)])


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
    # white noise is no error of the robot; the largest of its samples is about LARGEST standard deviations
    judged = {
        "bias": abs(joint.bias),
        "rms": math.sqrt(max(joint.rms**2 - joint.noise**2, 0.0)),
        "max": joint.max - LARGEST * joint.noise,
    }
    for figure, value in (("bias", joint.bias), ("rms", joint.rms), ("max", joint.max)):
        if judged[figure] > (limit := limits.of(figure, slides)):
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


def _channels(
    errors: Iterable[ChannelError],
    comparison: Comparison,
    exceeded: Sequence[Excess],
    limits: Limits,
    slides: set[str],
) -> Iterator[Finding]:
    """Yield a finding about each error of channels.

    An error of order or sign, a dead channel and another unit are failures. An error of an encoder is a failure if an
    error measure or the delay of one of its joints exceeds its limit; another error, if its own size does.
    """
    late = {each.name for each in comparison.joints if abs(each.delay_s or 0.0) > limits.delay_ms * 1e-3}
    beyond = late | {each.joint for each in exceeded}
    for error in errors:
        percent, limit = 100.0 * error.relative, f"{limits.parameter_percent:g} %"
        if error.kind in ("swapped", "sign", "dead"):
            failed, limit = True, ""
        elif error.kind == "late":
            failed, limit = abs(error.value) > limits.delay_ms * 1e-3, f"{limits.delay_ms:g} ms"
        elif error.channel in POSITIONS:
            failed, limit = bool(beyond & set(error.joints)), ""
        else:
            failed = percent > limits.parameter_percent
        yield Finding(
            kind=finding_kind(error),
            of="" if len(error.joints) == len(comparison.names) else ", ".join(error.joints),
            value=error.value,
            unit=error.unit,
            text=error_text(error, len(comparison.names), slides),
            failed=failed,
            limit=limit,
        )


def _delays(
    comparison: Comparison,
    hints: ModelErrorHypotheses,
    limits: Limits,
    clock_sigma_s: float,
    known: Collection[str] = (),
) -> Iterator[Finding]:
    """Yield findings about the common delay, and about delays of single joints that no friction, gain or backlash
    explains.

    hints          model errors that would explain the effort residual
    clock_sigma_s  standard deviation of the stamps' simulation time (s)
    known          joints with another error of their positions
    """
    limit, limit_text = limits.delay_ms * 1e-3, f"{limits.delay_ms:g} ms"
    lag = {hint.of for hint in hints.causes if hint.kind in MODEL and hint.kind != "mass"}
    common = comparison.delay_s
    if abs(common) >= max(SMALLEST_DELAY_S, 2.0 * clock_sigma_s):
        way = "late" if common > 0.0 else "early"
        known = f" (its clock is known to {clock_sigma_s * 1e3:.2g} ms)" if clock_sigma_s else ""
        text = f"the measurement is {abs(common) * 1e3:.2f} ms {way}{known}"
        yield Finding(
            kind="delay", of="", value=common, unit="s", text=text, failed=abs(common) > limit, limit=limit_text
        )
    for joint in comparison.joints:
        if joint.delay_s is None or joint.delay_sigma_s is None or joint.name in lag or joint.name in known:
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
            text = f"{text} (not certain: ± {_spread(hint)}, as the times of the samples are irregular)"
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
    if hints.following is None or hints.unexplained is None:
        return True
    return 100.0 * hints.unexplained <= limits.parameter_percent or hints.unexplained <= LEAVE * hints.following


def _unexplained_efforts(
    hints: ModelErrorHypotheses, causes: list[Hint], limits: Limits, limit_text: str
) -> Iterator[Finding]:
    """Yield a finding about measured efforts that differ from the model's, follow the motion and have no known causes.

    causes      causes that explain a part of the difference
    limit_text  the limit as text
    """
    size = hints.following or 0.0
    text = f"the efforts differ from the model's by {size:.2%} of them, following the motion"
    why = _may_explain(hints)
    removed = (hints.timing or 0.0) + (hints.sampling or 0.0)
    certain = not why and 100.0 * size * math.sqrt(max(1.0 - removed, 0.0)) > limits.parameter_percent
    if why:
        text += f", which {why} may explain"
    else:
        text += NO_CAUSES
        best = max(causes, key=lambda hint: hint.explains, default=None)
        text += f" (best: {KINDS[best.kind].format(of=best.of)}, {best.explains:.0%}); {SEVERAL}" if best else ""
    yield Finding(kind="efforts", of="", value=size, unit="", text=text, failed=True, limit=limit_text, certain=certain)


def _may_explain(hints: ModelErrorHypotheses) -> str:
    """Irregularities of the measurement that may explain the effort residual; "" if they are too small for this."""
    reasons = ((hints.timing, "uneven time stamps"), (hints.sampling, "changes of the efforts between the samples"))
    return " and ".join(text for share, text in reasons if share is not None and share > EXPLAINS)


def _spread(hint: Hint) -> str:
    return f"{hint.sigma:.2%}" if hint.unit == "relative" else f"{hint.sigma:.2g} {hint.unit}"


def _amount(hint: Hint) -> str:
    what = KINDS[hint.kind].format(of=hint.of)
    if hint.kind == "backlash":
        return f"{what}: the joint is free for {1e3 * hint.value:.0f} ms after each change of sign of its effort"
    if hint.unit == "relative":
        return f"{what} is {hint.value:+.2%} against the model"
    return f"{what} is {hint.value:+.4g} {hint.unit} against the model, {hint.share:.2%} of its efforts"


def _alike(hint: Hint) -> str:
    return f" (this motion does not distinguish it from {', '.join(hint.alike)})" if hint.alike else ""


def _biases(
    comparison: Comparison,
    hints: ModelErrorHypotheses,
    found: list[Finding],
    limits: Limits,
    slides: set[str],
    known: Collection[str],
) -> Iterator[Finding]:
    """Yield findings about constant position errors.

    A constant error above its limit is usually reported as an offset of the joint's encoder. If a model error that can
    cause position errors was found, the constant error is reported only if the efforts also show this offset.

    hints   model errors that would explain the effort residual
    found   findings so far
    slides  joints whose positions are in metres
    known   joints with another error of their positions
    """
    zeros = {hint.of for hint in hints.causes if hint.kind == "encoder_zero"}
    model = _has_model_fault(found, hints)
    for joint in comparison.joints:
        limit = limits.of("bias", joint.name in slides)
        even = joint.rms_around_bias < EVEN * abs(joint.bias)
        if (
            joint.dead
            or joint.name in known
            or not even
            or abs(joint.bias) <= limit
            or (model and joint.name not in zeros)
        ):
            continue
        text = f"the encoder of {joint.name} reads {angle_text(joint.bias, joint.name in slides)} too much"
        if joint.bias < 0.0:
            text = f"the encoder of {joint.name} reads {angle_text(-joint.bias, joint.name in slides)} too little"
        unit, limit_text = ("m", angle_text(limit, True)) if joint.name in slides else ("rad", angle_text(limit, False))
        yield Finding(kind="bias", of=joint.name, value=joint.bias, unit=unit, text=text, failed=True, limit=limit_text)


def _zeros(
    hints: ModelErrorHypotheses, found: Sequence[Finding], limits: Limits, slides: set[str]
) -> Iterator[Finding]:
    """Yield findings about encoder zeros that the efforts show and no finding about a bias names."""
    named = {each.of for each in found if each.kind == "bias"}
    for hint in hints.causes:
        if hint.kind == "encoder_zero" and hint.of not in named:
            limit = limits.of("bias", hint.of in slides)
            text = f"{KINDS[hint.kind].format(of=hint.of)} is {angle_text(hint.value, hint.of in slides)} off"
            yield Finding(
                kind=hint.kind,
                of=hint.of,
                value=hint.value,
                unit=hint.unit,
                text=f"{text}, by the efforts{_alike(hint)}",
                failed=abs(hint.value) > limit,
                limit=angle_text(limit, hint.of in slides),
                certain=hint.certain,
            )


def _unexplained(name: str, exceeded: list[Excess], slides: bool) -> Finding:
    worst = max((each for each in exceeded if each.joint == name), key=lambda each: abs(each.value) / each.limit)
    text = f"the position of {name} is off: {worst.figure} {angle_text(worst.value, slides)}{NO_CAUSE}"
    unit = "m" if slides else "rad"
    limit = angle_text(worst.limit, slides)
    return Finding(kind="position_error", of=name, value=worst.value, unit=unit, text=text, failed=True, limit=limit)
