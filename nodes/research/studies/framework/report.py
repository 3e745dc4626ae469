"""Output folder of a study: one HTML page, its plots and its tables. All paths on the page are relative."""

from __future__ import annotations

import json
import os
import platform
import shutil
import tempfile
from collections import Counter
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from nodes.framework.recording.new_file import write_file
from nodes.research.pages.style import settings
from nodes.research.pages.templates import template
from nodes.research.studies.framework import tables
from nodes.research.studies.framework.claims import MEANINGS, Verdict, sci
from nodes.research.studies.framework.executors import Report
from nodes.research.studies.framework.study import Plot, Results, Study
from sim_core.analysis.comparison import limit_text

MARKER = "study.json"  # file that lists the files a study has written, with date and version
UNFINISHED = ".unfinished-"  # prefix of the folder in which files are collected until all are complete
TABLES = ("runs", "claims", "timing", "timing_claims")


def tables_of(study: Study) -> list[str]:
    """Names of the tables that a study writes. A study without runs has no tables about runs."""
    return [table for table in TABLES if study.runs or table not in ("runs", "timing")]


def files_of(study: Study) -> list[str]:
    """Paths of all files that a study writes, relative to its folder."""
    tabled = [*tables_of(study), *(table.file for section in study.sections for table in section.tables)]
    names = [f"tables/{table}.{ending}" for table in tabled for ending in ("csv", "json")]
    for section in study.sections:
        for plot in section.plots:
            names.append(f"plots/{plot.file}.png")
            if plot.curves:
                names.append(f"tables/curves_{plot.file}.csv")
    return sorted([*names, "index.html", MARKER])


def foreign_files(folder: Path, study: Study) -> list[str]:
    """Files in the folder that `study` would overwrite although no study wrote them.

    If the folder has no valid marker file, all its files are returned, except unfinished output of an interrupted
    study. Returns [] if the folder does not exist.
    """
    if not os.path.isdir(folder):  # also False for a name that no folder can have
        return []
    paths = [path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir()]
    there = sorted(str(path) for path in paths if not path.parts[0].startswith(UNFINISHED))
    marker = marker_of(folder)
    if marker is None:
        return there
    return [name for name in there if name not in marker["files"] and name in files_of(study)]


def marker_of(folder: Path) -> dict[str, Any] | None:
    """Content {"study", "files"} of the folder's marker file, which lists the files that a study wrote.

    Returns None if the folder has no valid marker file.
    """
    try:
        marker = json.loads((folder / MARKER).read_text())
        return {"study": str(marker["study"]), "files": list(marker["files"])}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write(study: Study, results: Results, folder: Path, report: Report) -> None:
    """Write the page, plots and tables of a study to a folder, and remove the files of an earlier study.

    All files are first written to a temporary folder, and moved when they are complete.
    """
    stage = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=folder))
    try:
        _write_all(study, results, stage, report)
        drawn = sum(len(section.plots) for section in study.sections)
        # the last report, which may still stop the study: from here on the folder changes
        report("drawing", drawn, drawn)
        earlier = marker_of(folder)
        for name in set(earlier["files"] if earlier else ()) - set(files_of(study)):
            path = folder / name
            if path.resolve().is_relative_to(folder.resolve()):
                path.unlink(missing_ok=True)
        for name in files_of(study):
            (folder / name).parent.mkdir(exist_ok=True)
            (stage / name).replace(folder / name)
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _write_all(study: Study, results: Results, folder: Path, report: Report) -> None:
    for part in ("plots", "tables"):
        (folder / part).mkdir()
    judged = results.judged(study)
    plots = [plot for section in study.sections for plot in section.plots]
    for done, plot in enumerate(plots):
        report("drawing", done, len(plots))
        draw(plot, results, folder / "plots" / f"{plot.file}.png", study.dpi)
        if plot.curves:
            curves = tables.curves_table(plot, results)
            _write(folder / "tables" / f"curves_{plot.file}.csv", tables.as_csv(curves))
    found = {
        "runs": tables.runs_table(study, results),
        "claims": tables.claims_table(judged, timed=False),
        "timing": tables.timing_table(study, results),
        "timing_claims": tables.claims_table(judged, timed=True),
    }
    found = {name: rows for name, rows in found.items() if name in tables_of(study)}
    found |= {table.file: table.rows(results) for section in study.sections for table in section.tables}
    for name, rows in found.items():
        _write(folder / "tables" / f"{name}.csv", tables.as_csv(rows))
        _write(folder / "tables" / f"{name}.json", tables.as_json(rows))
    _write(folder / "index.html", page(study, results))
    marker = {"study": study.name, **provenance(study), "files": files_of(study)}
    _write(folder / MARKER, json.dumps(marker, indent=1) + "\n")
    report("drawing", len(plots), len(plots))


def provenance(study: Study) -> dict[str, Any]:
    """Version and date of the run, for the page and the marker file.

    The tables contain neither version nor date, so that their bytes are the same on every run.
    """
    return {
        "quick": study.quick,
        "armswing": version("armswing"),
        "date": datetime.now().astimezone().isoformat(timespec="seconds"),
    }


def verdicts(study: Study, results: Results) -> tables.Rows:
    """Verdicts of all claims, one row per claim and interpretation of the paper."""
    judged = results.judged(study)
    return tables.plain([*tables.claims_table(judged, timed=False), *tables.claims_table(judged, timed=True)])  # type: ignore[no-any-return]


def _write(path: Path, text: str) -> None:
    write_file(path, text)


def draw(plot: Plot, results: Results, file: Path, dpi: int) -> None:
    """Draw one plot and write it as PNG."""
    from matplotlib.figure import Figure

    with settings():
        figure = Figure(figsize=plot.size, layout="constrained")
        plot.draw(results, figure)
        figure.savefig(file, dpi=dpi, metadata={"Software": None})


def page(study: Study, results: Results) -> str:
    """HTML text of the study's page, index.html."""
    judged = results.judged(study)
    counts = Counter(finding.verdict for entry in judged for finding in entry.findings)
    page_template = template(Path(__file__).with_name("page.html.j2"), sci=_shown, ms=_milliseconds, limit=limit_text)
    return page_template.render(
        study=study,
        results=results,
        judged=judged,
        spans={entry.claim.key: entry.span for entry in judged},
        counts=[(verdict, counts[verdict]) for verdict in Verdict if counts[verdict]],
        meanings=[(verdict, MEANINGS[verdict]) for verdict in MEANINGS if counts[verdict]],
        lengths=lengths(study, results),
        runs=tables.runs_table(study, results),
        timing=tables.timing_table(study, results),
        made=provenance(study),
        machine=f"{platform.machine()}, Python {platform.python_version()}",
    )


def lengths(study: Study, results: Results) -> dict[str, float]:
    """{name of a robot in the study's runs: characteristic length of this robot, m}."""
    return {run.robot: results[run].length for run in study.runs}


def _shown(value: float | None) -> str:
    return "–" if value is None else sci(value)


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:g}"
