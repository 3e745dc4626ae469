"""Folder of a fit: the verdict as JSON, the corrections as TOML, an HTML page and plots."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec

from nodes.framework.recording.new_file import write_file
from nodes.hil.fitting.pictures import draw_all
from nodes.hil.fitting.verdict import FitVerdict
from nodes.research.pages.templates import template
from robots.corrections import Corrections, corrections_text, with_corrections
from robots.export import export
from sim_core.errors import InvalidRequest
from sim_core.identification.result import FitResult
from sim_core.mechanism import Mechanism

VERDICT, CORRECTED, REPORT, PLOTS = "verdict.json", "corrections.toml", "report", "plots"
FORMATS = (".toml", ".urdf")


def begin(verdict: FitVerdict, corrections: Corrections, folder: Path) -> None:
    """Remove what an earlier fit wrote into the folder, and write corrections.toml."""
    plots = folder / PLOTS
    plots.mkdir(parents=True, exist_ok=True)
    for old in plots.glob("*.png"):
        old.unlink()
    shutil.rmtree(folder / REPORT, ignore_errors=True)
    write_file(folder / CORRECTED, written_toml(corrections, verdict))


def write(verdict: FitVerdict, result: FitResult, units: Mapping[str, str], folder: Path) -> None:
    """Write index.html, verdict.json and plots/ into a folder that was begun.

    units  {joint: unit of its efforts}
    """
    write_file(folder / VERDICT, msgspec.json.format(msgspec.json.encode(verdict), indent=1) + b"\n")
    pictures = draw_all(result, units, folder / PLOTS)
    page = template(Path(__file__).with_name("fit.html.j2"), number=_number)
    report = f"{REPORT}/index.html" if (folder / REPORT / "index.html").exists() else ""
    text = page.render(verdict=verdict, pictures=pictures, corrected=CORRECTED, report=report)
    write_file(folder / "index.html", text)


def written_toml(corrections: Corrections, verdict: FitVerdict) -> str:
    """The corrections as TOML, with a comment about their origin."""
    files = ", ".join(Path(file).name for file in verdict.recordings)
    return corrections_text(corrections, f"armswing hil fit of {files}: {verdict.outcome}, {verdict.reason}")


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


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"
