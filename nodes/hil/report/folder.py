"""Report of a comparison: a folder with the verdict as JSON, an HTML page and plots."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec

from nodes.framework.recording.new_file import write_file
from nodes.hil.identification.causes import ModelErrorHypotheses
from nodes.hil.report.limits import Limits, angle_text
from nodes.hil.report.pictures import draw_all, draw_efforts
from nodes.hil.report.verdict import KIND, Compared, Verdict
from nodes.research.pages.templates import template

VERDICT = "verdict.json"


def foreign_file(folder: Path, kind: str = KIND) -> str:
    """Name of the first file in a folder to which no report may be written; "" if a report may be written there.

    A report replaces an earlier report or fills an empty or new folder, but never overwrites other files.

    kind  `kind` of the verdict of an earlier report
    """
    if not folder.is_dir():
        return ""
    try:
        ours = msgspec.json.decode((folder / VERDICT).read_bytes()).get("kind") == kind
    except (OSError, msgspec.DecodeError, AttributeError):
        ours = False
    names = sorted(path.name for path in folder.iterdir())
    return "" if ours or not names else names[0]


def write(compared: Compared, folder: Path) -> None:
    """Write the report to the folder: index.html, verdict.json and plots/."""
    plots = folder / "plots"
    plots.mkdir(parents=True, exist_ok=True)
    write_file(folder / VERDICT, as_json(compared.verdict))
    for old in plots.glob("*.png"):
        old.unlink()
    pictures, efforts = draw_all(compared, plots), draw_efforts(compared, plots)
    write_file(folder / "index.html", page(compared, pictures, efforts))


def as_json(verdict: Verdict) -> bytes:
    """The verdict as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(verdict), indent=1) + b"\n"


def page(compared: Compared, pictures: list[tuple[str, str]], efforts: list[tuple[str, str]]) -> str:
    """Text of index.html.

    pictures, efforts  (file below plots/, caption) of each plot of positions and of efforts
    """
    sliding = compared.case.sliding

    def position(value: float, name: str) -> str:
        return angle_text(value, name in sliding)

    exceeded = {(each.joint, each.figure) for each in compared.verdict.exceeded}
    report = template(Path(__file__).with_name("report.html.j2"), position=position, ms=_milliseconds, share=_share)
    return report.render(
        verdict=compared.verdict,
        exceeded=exceeded,
        pictures=pictures,
        efforts=efforts,
        quantities=_quantities(compared.verdict.hints),
        limit_rows=[(name, getattr(compared.verdict.limits, name)) for name in Limits.__struct_fields__],
    )


def _quantities(found: ModelErrorHypotheses) -> list[tuple[str, str]]:
    return [(_amount(hint.value, hint.unit), _amount(hint.sigma, hint.unit).lstrip("+")) for hint in found.causes]


def _amount(value: float, unit: str) -> str:
    if unit == "relative":
        return f"{value:+.2%}"
    return f"{math.degrees(value):+.3g} deg" if unit == "rad" else f"{value:+.3g} {unit}"


def _milliseconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{round(1e3 * seconds, 2) + 0.0:.2f}"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100.0 * value:.3g} %"
