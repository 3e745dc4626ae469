"""The report of a comparison: a verdict as JSON, and a folder with a page and pictures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from nodes.hil.comparison import Comparison, JointComparison, compare
from nodes.hil.diagnosis import Diagnosis, Excess, Finding, diagnose
from nodes.hil.hints import Applied, Explanation, Hints, explain
from nodes.hil.limits import Limits, angle_text
from nodes.hil.model import Efforts, NoModelError, model_of
from nodes.hil.reading import Case, Source
from nodes.hil.recorded_clock import ClockNote
from nodes.hil.streams import Gap

VERDICT = "verdict.json"
KIND = "armswing hil report"


class SourceNote(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two streams: where it was read, and what was missing in it. Seconds of its stamps.

    clock   that stamped it, and how its stamps became simulation time; None where they are that
    driven  which commands the model had that predicts anew, in words; "" for states as they were recorded
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
    """The whole report as data; rad, m, s, N m.

    delay_s   common delay of the measurement, taken out of the joints' figures; 0 where none is certain
    unpaired  instants of the slower stream without a partner
    left_out  joints that only one of the two has
    run       what bears on the comparison in how the run went, one line each
    """

    kind: str = KIND
    passed: bool
    findings: list[Finding]
    exceeded: list[Excess]
    delay_s: float
    joints: list[JointComparison]
    hints: Hints
    limits: Limits
    measured: SourceNote
    predicted: SourceNote
    paired: int
    unpaired: int
    left_out: list[str]
    run: list[str] = []


class Compared:
    """A case, computed: the verdict and what the pictures draw."""

    def __init__(self, case: Case, limits: Limits) -> None:
        self.case = case
        self.comparison: Comparison = compare(case.measured.stream, case.predicted.stream)
        self.explanation = _explanation(case, self.comparison)
        sigma = math.hypot(*(each.clock.uncertainty_s for each in (case.measured, case.predicted) if each.clock))
        found: Diagnosis = diagnose(self.comparison, self.explanation.hints, limits, case.sliding, sigma)
        self.verdict = Verdict(
            passed=found.passed,
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


def _note(source: Source, found: list[Gap]) -> SourceNote:
    stream = source.stream
    told = [] if source.clock is None else [f"{source.topic}: {source.clock.text}"]
    if source.driven:
        told.append(f"{source.topic}: by the model with the {source.driven}")
    return SourceNote(
        file=source.file,
        topic=source.topic,
        samples=len(stream.time),
        start_s=float(stream.time[0]),
        end_s=float(stream.time[-1]),
        period_s=stream.period_s,
        truncated=source.truncated,
        gaps=found,
        notes=[*stream.notes, *told],
        clock=source.clock,
        driven=source.driven,
    )


def _explanation(case: Case, comparison: Comparison) -> Explanation:
    dead = [joint.name for joint in comparison.joints if joint.dead]
    if dead:
        return _silent(f"the encoder of {dead[0]} is dead, and the model's efforts need every joint")
    if not case.robot:
        return _silent("the predicted recording holds no plan, so its model is not known")
    predicted = case.predicted.stream
    applied = Applied(case.hold_s, predicted if case.same_efforts else None, comparison.delay_s)
    try:
        return explain(Efforts(model_of(case.robot, case.parameters)), case.measured.stream, applied)
    except NoModelError as error:
        return _silent(str(error))


def _silent(why: str) -> Explanation:
    return Explanation(Hints(why_not=why))


def limits_of(case: Case, overrides: Mapping[str, Any]) -> Limits:
    """The launch file's limits with overrides; ValueError names what is wrong."""
    return msgspec.convert({**case.limits, **overrides}, Limits)


def foreign_file(folder: Path) -> str:
    """A file in the folder that keeps a report from being written there; "" for none."""
    if not folder.is_dir():
        return ""
    try:
        ours = msgspec.json.decode((folder / VERDICT).read_bytes()).get("kind") == KIND
    except (OSError, msgspec.DecodeError, AttributeError):
        ours = False
    names = sorted(path.name for path in folder.iterdir())
    return "" if ours or not names else names[0]


def write(compared: Compared, folder: Path) -> None:
    """Fill the folder: index.html, verdict.json, plots/."""
    from nodes.hil.pictures import draw_all, draw_efforts

    plots = folder / "plots"
    plots.mkdir(parents=True, exist_ok=True)
    (folder / VERDICT).write_bytes(as_json(compared.verdict))
    for old in plots.glob("*.png"):
        old.unlink()
    pictures, efforts = draw_all(compared, plots), draw_efforts(compared, plots)
    (folder / "index.html").write_text(page(compared, pictures, efforts), encoding="utf-8", newline="\n")


def as_json(verdict: Verdict) -> bytes:
    """The verdict as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(verdict), indent=1) + b"\n"


def page(compared: Compared, pictures: list[tuple[str, str]], efforts: list[tuple[str, str]]) -> str:
    """index.html; pictures of positions and of efforts are (file below plots/, caption)."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    here = Path(__file__).parent
    environment = Environment(
        loader=FileSystemLoader([here, here.parent / "studies"]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    sliding = compared.case.sliding

    def position(value: float, name: str) -> str:
        return angle_text(value, name in sliding)

    environment.filters.update({"position": position, "ms": _milliseconds, "share": _share})
    exceeded = {(each.joint, each.figure) for each in compared.verdict.exceeded}
    return environment.get_template("report.html.j2").render(
        verdict=compared.verdict,
        exceeded=exceeded,
        pictures=pictures,
        efforts=efforts,
        quantities=_quantities(compared.verdict.hints),
        limit_rows=[(name, getattr(compared.verdict.limits, name)) for name in Limits.__struct_fields__],
    )


def _quantities(found: Hints) -> list[tuple[str, str]]:
    return [(_amount(hint.value, hint.unit), _amount(hint.sigma, hint.unit).lstrip("+")) for hint in found.causes]


def _amount(value: float, unit: str) -> str:
    if unit == "relative":
        return f"{value:+.2%}"
    return f"{math.degrees(value):+.3g} deg" if unit == "rad" else f"{value:+.3g} {unit}"


def _milliseconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{round(1e3 * seconds, 2) + 0.0:.2f}"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100.0 * value:.3g} %"
