"""Folder of a fit: the verdict as JSON, the corrections as TOML, an HTML page and plots."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from nodes.framework.recording.new_file import write_file
from nodes.hil.fitting.output_error_verdict import ActuationVerdict
from nodes.hil.fitting.pictures import draw_all
from nodes.hil.fitting.verdict import FitVerdict
from nodes.research.pages.templates import template
from robots.corrections import Corrections, corrections_text, with_corrections
from robots.export import export
from sim_core.errors import InvalidRequest
from sim_core.identification.result import BETTER, FitResult
from sim_core.mechanism import Mechanism

VERDICT, CORRECTED, REPORT, PLOTS = "verdict.json", "corrections.toml", "report", "plots"
FORMATS = (".toml", ".urdf")
MOST_DIGITS = 6  # after the point
EFFORTS = ("N m", "N")  # of a turning and of a sliding joint
UNITS = {  # of the same
    "zero": ("rad", "m"),
    "backlash": ("rad", "m"),
    "delay": ("s", "s"),
    "viscous": ("N m s/rad", "N s/m"),
    "coulomb": ("N m", "N"),
    "offset": ("N m", "N"),
    "armature": ("kg m²", "kg"),
}


class Interval(Protocol):
    """An estimate with its interval."""

    value: float
    low: float
    high: float


def begin(verdict: FitVerdict, corrections: Corrections, folder: Path) -> None:
    """Remove what an earlier fit wrote into the folder, and write corrections.toml if the fit is better."""
    plots = folder / PLOTS
    plots.mkdir(parents=True, exist_ok=True)
    for old in plots.glob("*.png"):
        old.unlink()
    shutil.rmtree(folder / REPORT, ignore_errors=True)
    (folder / CORRECTED).unlink(missing_ok=True)
    if verdict.outcome == BETTER:
        write_file(folder / CORRECTED, written_toml(corrections, verdict))


def write(verdict: FitVerdict, result: FitResult, units: Mapping[str, str], folder: Path) -> None:
    """Write index.html, verdict.json and plots/ into a folder that was begun.

    units  {joint: unit of its efforts}
    """
    write_file(folder / VERDICT, msgspec.json.format(msgspec.json.encode(verdict), indent=1) + b"\n")
    pictures = draw_all(result, units, folder / PLOTS)
    page = template(Path(__file__).with_name("fit.html.j2"), number=_number, interval=interval, unit=unit_of(units))
    report = f"{REPORT}/index.html" if (folder / REPORT / "index.html").exists() else ""
    corrected = CORRECTED if verdict.outcome == BETTER else ""
    text = page.render(verdict=verdict, pictures=pictures, corrected=corrected, report=report)
    write_file(folder / "index.html", text)


def written_toml(corrections: Corrections, verdict: FitVerdict) -> str:
    """The corrections as TOML, with a comment about their origin."""
    files = ", ".join(Path(file).name for file in verdict.recordings)
    lines = [f"armswing hil fit of {files}: {verdict.outcome}, {verdict.reason}", verdict.masses]
    return corrections_text(corrections, "\n".join(line for line in lines if line))


def corrected_file(
    path: Path, corrections: Corrections, mechanism: Mechanism, verdict: FitVerdict
) -> tuple[str, list[str]]:
    """(text of the corrected robot for a .toml or .urdf file, notes on what the format cannot express).

    Raises InvalidRequest for another ending.
    """
    if path.suffix not in FORMATS:
        raise InvalidRequest(f"--write {str(path)!r}: the ending must be {' or '.join(FORMATS)}")
    if path.suffix == ".toml":
        return written_toml(corrections, verdict), []
    exported = export(with_corrections(mechanism, corrections), "urdf", open_tree=True)
    return exported.text, list(exported.notes)


def interval(estimate: Interval) -> list[str]:
    """Value and ends of an interval, with the digits that it tells."""
    half = 0.5 * (estimate.high - estimate.low)
    values = estimate.value, estimate.low, estimate.high
    digits = 1 - math.floor(math.log10(half)) if half > 0.0 else MOST_DIGITS + 1
    if not 0 <= digits <= MOST_DIGITS:
        return [_number(value) for value in values]
    return [f"{round(value, digits) + 0.0:.{digits}f}" for value in values]


def unit_of(units: Mapping[str, str]) -> Callable[[ActuationVerdict], str]:
    """Function that returns the unit of an unknown of an output-error fit; "" for a share, and if it is unknown.

    units  {joint: unit of its efforts}
    """

    def unit(each: ActuationVerdict) -> str:
        effort = units.get(each.name.partition("/")[0], "")
        return UNITS[each.kind][EFFORTS.index(effort)] if each.kind in UNITS and effort in EFFORTS else ""

    return unit


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"
