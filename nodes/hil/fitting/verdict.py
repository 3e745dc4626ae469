"""Verdict of a fit, as data for verdict.json and for the page."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec
import numpy as np

from nodes.hil.fitting.checking import Findings
from nodes.hil.fitting.output_error_verdict import OutputErrorVerdict
from nodes.hil.fitting.reading import FitCase
from nodes.hil.logs.findings import LogFinding
from sim_core.identification.estimates import surely_changed
from sim_core.identification.friction import FRICTION, WRITTEN
from sim_core.identification.result import BETTER, FitResult
from sim_core.identification.signals import sampled

SAME_MASS = 1e-4  # relative change of a mass that is none
KIND = "armswing hil fit"
LEAST_STILL_S, MOST_SPANS = 1.0, 3  # of a standstill that is named, and number of those that are named one by one
IMPOSSIBLE = 0.05  # difference of held-out errors, from which on inertias of no body explain efforts better
MORE_FRICTION = {
    "stribeck": "friction that decreases with speed",
    "gear": "friction in proportion to the effort of the gear",
    "asymmetry": "viscous friction that depends on the direction",
    "previous": "friction of motors that move it together with the joint before it",
    "next": "friction of motors that move it together with the joint after it",
}


class JointVerdict(msgspec.Struct, kw_only=True):
    """A joint: errors of the held-out efforts relative to their standard deviation, and its friction.

    how        "fitted", "apart", "refused" or "no efforts"
    why        reason for "apart" and "refused"
    before     error of the model as it was; with fitted friction alone; of the corrected model
    change     "better", "worse" or "no certain change" from before to after, beyond chance among all joints
    friction_before, friction_after  {name: value}, N m s/rad, N m or kg m2, or N s/m, N or kg
    """

    name: str
    how: str
    why: str = ""
    cutoff_hz: float
    before: float | None = None
    friction_alone: float | None = None
    after: float | None = None
    change: str = ""
    unconstrained: float | None = None
    friction_before: dict[str, float] = {}
    friction_after: dict[str, float] = {}


class ParameterVerdict(msgspec.Struct, kw_only=True):
    """A combination of parameters that the motion determines: estimate by the data, and its interval of 95 %.

    has_changed  whether it differs from the model before, beyond chance among all parameters and errors
    """

    name: str
    value: float
    low: float
    high: float
    before: float
    after: float
    has_changed: bool = False


class ErrorVerdict(msgspec.Struct, kw_only=True):
    """An error of the measurement: of a zero, rad or m; of a motor constant, relative; a delay of efforts, s.

    is_found  whether it differs from 0, beyond chance among all parameters and errors
    """

    name: str
    kind: str
    value: float
    low: float
    high: float
    is_found: bool


class RefusalVerdict(msgspec.Struct, kw_only=True):
    """What cannot be known, why, and what would tell it."""

    what: str
    why: str
    remedy: str


class FitVerdict(msgspec.Struct, kw_only=True):
    """Result of a fit.

    outcome          "better", "not better" or "not certain"
    inertias_fitted  whether inertias were changed; they are kept if they gain nothing beyond friction
    masses           one line about the masses that moved; "" if none did
    more_friction    one line for each kind of friction that would improve the prediction, but is not in the model
    findings         {file: findings of the checks that were made before the fit}
    output_error     the fit by output error, if one was made
    second_report    one line about the report of the corrected model on the held-out part; "" if none was asked for
    """

    kind: str = KIND
    recordings: dict[str, str]
    robot: str
    outcome: str
    reason: str
    inertias_fitted: bool
    prior_weight: float
    joints: list[JointVerdict]
    parameters: list[ParameterVerdict]
    errors: list[ErrorVerdict]
    refusals: list[RefusalVerdict]
    more_friction: list[str]
    notes: list[str]
    findings: dict[str, list[LogFinding]] = {}
    output_error: OutputErrorVerdict | None = None
    second_report: str = ""
    masses: str = ""


def verdict_of(case: FitCase, result: FitResult, findings: Findings) -> FitVerdict:
    """The verdict of a fit of the recordings in `case`."""
    changed = {each.name for each in surely_changed(result.estimates)}
    return FitVerdict(
        recordings=dict(case.topics),
        robot=case.robot,
        outcome=result.outcome,
        reason=result.reason + _already_right(result),
        inertias_fitted=result.inertias_fitted,
        prior_weight=result.prior_weight,
        joints=[_joint(result, row) for row in range(len(result.joints))],
        parameters=[
            ParameterVerdict(
                name=each.name,
                value=each.value,
                low=each.low,
                high=each.high,
                before=each.before,
                after=each.after,
                has_changed=each.name in changed,
            )
            for each in result.estimates
            if each.kind == "model"
        ],
        errors=_errors(result, changed),
        refusals=[RefusalVerdict(what=each.what, why=each.why, remedy=each.remedy) for each in result.refusals],
        more_friction=[
            f"{joint}: {MORE_FRICTION[kind]} reduces the mean squared error by {100.0 * share:.0f} %"
            + ("" if kind in WRITTEN else "; the corrected robot cannot have it")
            for (joint, kind), share in result.extra.items()
        ],
        notes=[*case.notes, *_standstill(case), *_outside(result), *_impossible(result)],
        findings={path: list(each) for path, each in findings.items()},
        masses=_masses(result),
    )


def _already_right(result: FitResult) -> str:
    """Addition to the reason if the model before has every combination within its interval."""
    inside = [each.low <= each.before <= each.high for each in result.estimates if each.kind == "model"]
    if result.outcome == "better" or not inside or not all(inside):
        return ""
    return "; the model's inertias and friction are already right: none differs beyond its interval"


def _masses(result: FitResult) -> str:
    """One line about the masses of links before and after, if inertias are fitted."""
    if not result.inertias_fitted or result.outcome != BETTER:
        return ""
    pairs = list(zip(result.links, result.pi_before[::10], result.pi[::10], strict=True))
    moved = ", ".join(f"{name} {b:.4g} -> {a:.4g} kg" for name, b, a in pairs if abs(a - b) > SAME_MASS * b)
    whole = [sum(float(pair[side]) for pair in pairs) for side in (1, 2)]
    return (
        f"masses that moved: {moved or 'none'}; all links together {whole[0]:.4g} -> {whole[1]:.4g} kg; a mass that "
        "the efforts do not determine moves only with the sums that have it, and for a positive density"
    )


def _outside(result: FitResult) -> Iterator[str]:
    """Note about combinations of the corrected model beyond their intervals, if its inertias are fitted."""
    outside = [x for x in result.estimates if x.kind == "model" and not x.low <= x.after <= x.high]
    if outside and result.inertias_fitted:
        each = "; ".join(f"{x.name} is {x.after:.3g}, interval {x.low:.3g} to {x.high:.3g}" for x in outside)
        yield (
            f"{len(outside)} combinations of the corrected model are outside their intervals, because of the model "
            f"before and because a body's density is positive: {each}"
        )


def _standstill(case: FitCase) -> Iterator[str]:
    """Note per recording about times without motion, which are neither fitted nor predicted."""
    for path, recorded in zip(case.topics, case.recordings, strict=True):
        still, total = list[tuple[float, float]](), 0.0
        for part in sampled(recorded):
            edges = np.flatnonzero(np.diff(np.r_[False, ~part.moving, False])).reshape(-1, 2)
            still += [(float(part.time[begin]), float(part.time[end - 1])) for begin, end in edges.tolist()]
            total += float(part.time[-1] - part.time[0])
        long = [(begin, end) for begin, end in still if end - begin > LEAST_STILL_S]
        if long:
            spans = ", ".join(f"{begin:.3g} to {end:.3g} s" for begin, end in long[:MOST_SPANS])
            more = f" and {len(long) - MOST_SPANS} more times" if len(long) > MOST_SPANS else ""
            rest = sum(end - begin for begin, end in still)
            yield (
                f"{Path(path).name}: the joints stand still for {rest:.3g} s of {total:.3g} s, which are left out: "
                f"{spans}{more}"
            )


def _impossible(result: FitResult) -> Iterator[str]:
    """Note about efforts that only inertias explain which no body can have."""
    scores = {name: result.scores[name] for name in result.fitted}
    worse = [name for name, score in scores.items() if score.after - score.free > IMPOSSIBLE]
    if worse and result.inertias_fitted:
        pairs = ", ".join(f"{name} {scores[name].free:.3g} in place of {scores[name].after:.3g}" for name in worse)
        is_asked = any(each.kind != "model" for each in result.estimates)
        remedy = "" if is_asked else "; --params inertia,friction,gain,delay searches for errors of the measurement"
        yield f"inertias that no body can have would predict better: {pairs}; the efforts contradict the model{remedy}"


def _errors(result: FitResult, changed: Collection[str]) -> list[ErrorVerdict]:
    return [
        ErrorVerdict(
            name=each.name,
            kind=each.kind,
            value=each.value,
            low=each.low,
            high=each.high,
            is_found=each.name in changed,
        )
        for each in result.estimates
        if each.kind != "model"
    ]


def _joint(result: FitResult, row: int) -> JointVerdict:
    name = result.joints[row]
    score = result.scores.get(name)
    how = (
        "fitted"
        if name in result.fitted
        else "apart"
        if name in result.apart
        else "refused"
        if name in result.refused
        else "no efforts"
    )
    before, after = (
        {column: float(value) for column, value in zip(FRICTION, each[row], strict=False) if value}
        for each in (result.friction_before, result.friction)
    )
    return JointVerdict(
        name=name,
        how=how,
        why=result.apart.get(name, "") or result.refused.get(name, ""),
        cutoff_hz=float(result.cutoffs_hz[row]),
        before=score.before if score else None,
        friction_alone=score.friction if score else None,
        after=score.after if score else None,
        change=score.change if score else "",
        unconstrained=score.free if score else None,
        friction_before=before,
        friction_after=after,
    )


def units_of_efforts(case: FitCase) -> dict[str, str]:
    """{joint: unit of its efforts}."""
    units = {joint.name: "N" if joint.is_length else "N m" for joint in case.mechanism.joints}
    return units | dict.fromkeys(case.unit_unknown, "unknown unit")
