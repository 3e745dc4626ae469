"""A study's folder: one page, its pictures, its tables. All paths on the page are relative."""

from __future__ import annotations

import json
import platform
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nodes.studies import tables
from nodes.studies.claims import Verdict, sci
from nodes.studies.crew import Report
from nodes.studies.study import Plot, Results, Study
from nodes.studies.style import settings

MARKER = "study.json"  # names the files that a study has written
TABLES = ("runs", "claims", "timing", "timing_claims")


def tables_of(study: Study) -> list[str]:
    """The tables that every study has; those of runs where there are runs."""
    return [table for table in TABLES if study.runs or table not in ("runs", "timing")]


def files_of(study: Study) -> list[str]:
    """Every file that the study writes, relative to its folder."""
    tabled = [*tables_of(study), *(table.file for section in study.sections for table in section.tables)]
    names = [f"tables/{table}.{ending}" for table in tabled for ending in ("csv", "json")]
    for section in study.sections:
        for plot in section.plots:
            names.append(f"plots/{plot.file}.png")
            if plot.curves:
                names.append(f"tables/curves_{plot.file}.csv")
    return sorted([*names, "index.html", MARKER])


def foreign_files(folder: Path, study: Study) -> list[str]:
    """Files in the folder that no study wrote and that stand in the way: all of them where there is no marker."""
    if not folder.is_dir():
        return []
    there = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())
    try:
        ours = json.loads((folder / MARKER).read_text())["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return there
    return [name for name in there if name not in ours and name in files_of(study)]


def write(study: Study, results: Results, folder: Path, report: Report) -> None:
    """Fill the folder. What an earlier study left and this one does not write is removed."""
    _remove_earlier(folder, files_of(study))
    for part in ("plots", "tables"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    # first, so that a folder left half-way is known as ours
    _write(folder / MARKER, json.dumps({"study": study.name, "files": files_of(study)}, indent=1) + "\n")
    judged = results.judged(study.claims)
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
    report("drawing", len(plots), len(plots))


def verdicts(study: Study, results: Results) -> tables.Rows:
    """Every claim's verdicts, one row per reading."""
    judged = results.judged(study.claims)
    return tables.plain([*tables.claims_table(judged, timed=False), *tables.claims_table(judged, timed=True)])  # type: ignore[no-any-return]


def _remove_earlier(folder: Path, names: list[str]) -> None:
    try:
        earlier = json.loads((folder / MARKER).read_text())["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    for name in set(earlier) - set(names):
        path = folder / name
        if path.resolve().is_relative_to(folder.resolve()):
            path.unlink(missing_ok=True)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")


def draw(plot: Plot, results: Results, file: Path, dpi: int) -> None:
    """One picture as PNG."""
    from matplotlib.figure import Figure

    with settings():
        figure = Figure(figsize=plot.size, layout="constrained")
        plot.draw(results, figure)
        figure.savefig(file, dpi=dpi, metadata={"Software": None})


def page(study: Study, results: Results) -> str:
    """index.html."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    judged = results.judged(study.claims)
    counts = Counter(finding.verdict for _, findings in judged for finding in findings)
    filters: dict[str, Callable[..., Any]] = {"sci": _shown, "ms": _milliseconds}
    environment.filters.update(filters)
    return environment.get_template("page.html.j2").render(
        study=study,
        results=results,
        judged=judged,
        counts=[(verdict, counts[verdict]) for verdict in Verdict],
        runs=tables.runs_table(study, results),
        timing=tables.timing_table(study, results),
        machine=f"{platform.machine()}, Python {platform.python_version()}",
    )


def _shown(value: float | None) -> str:
    return "–" if value is None else sci(value)


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:g}"
