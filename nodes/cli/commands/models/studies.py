"""`armswing reproduce`: repeats a paper's simulations, and compares its claims with the results on an HTML page."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from nodes.cli.progress import Interrupted, ProgressBar, interruptible
from nodes.cli.terminal import AsJson, InputError, UnavailableError, print_json, print_line, print_table, warn
from sim_core.support.suggestion import did_you_mean

PAPERS = ("charmie", "gibbon", "lipinski", "man", "nada", "schiehlen")
LIBRARIES = ("matplotlib", "jinja2")


def add_to(app: typer.Typer) -> None:
    """Add the command `reproduce`."""
    app.command(epilog="Example: armswing reproduce nada --output nada_page")(reproduce)


def reproduce(
    paper: Annotated[str, typer.Argument(help=f"One of {', '.join(PAPERS)}.", show_default=False)],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for the page, its pictures and tables.", show_default="the paper"),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Shorten the simulations, so that the command takes less than a minute.")
    ] = False,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Number of processes.", show_default="one per core")
    ] = None,
    as_json: AsJson = False,
    spans: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    """Repeat a paper's simulations, and write an HTML page with plots, tables and a verdict on each claim."""
    if paper not in PAPERS:
        raise InputError(f"no study of {paper!r}; papers are {', '.join(PAPERS)}{did_you_mean(paper, PAPERS)}")
    try:
        with interruptible() as go_on:
            rows, folder = _carry_out(paper, output or Path(paper), quick, workers, spans, go_on)
    except Interrupted as end:
        warn("armswing: interrupted; nothing written")
        raise typer.Exit(128 + end.signal) from None
    if as_json:
        print_json(rows)
    else:
        _print(rows, folder)


def _carry_out(
    paper: str, folder: Path, quick: bool, workers: int | None, spans: str, go_on: Callable[[], None]
) -> tuple[list[Any], Path]:
    missing = [library for library in LIBRARIES if importlib.util.find_spec(library) is None]
    if missing:
        raise UnavailableError(f"a study needs {' and '.join(missing)}; install with: pip install 'armswing[studies]'")
    from nodes.research.studies import papers
    from nodes.research.studies.framework import executors, report

    study = papers.make_study(paper, quick=quick, spans=spans)
    _refuse_foreign(folder, report.marker_of(folder), report.foreign_files(folder, study), paper)
    with _folder(folder), ProgressBar(go_on) as bar:
        try:
            results = executors.carry_out(study, workers or os.cpu_count() or 1, bar.show)
        except executors.LostWorkerError as error:
            raise UnavailableError(f"{error}; nothing written") from None
        report.write(study, results, folder, bar.show)
    return report.verdicts(study, results), folder


@contextmanager
def _folder(folder: Path) -> Iterator[None]:
    """Context manager for an output folder.

    It creates the folder, checks that files can be written in it, and removes a folder that it created and that is
    still empty at the end.
    """
    existed = os.path.isdir(folder)
    try:
        folder.mkdir(exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        yield
    except OSError as error:
        why = f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}"
        raise InputError(f"--output {str(folder)!r} cannot be written: {why}") from None
    finally:
        if not existed:
            with suppress(OSError):
                folder.rmdir()


def _refuse_foreign(folder: Path, marker: dict[str, Any] | None, foreign: list[str], paper: str) -> None:
    for path in (folder, *folder.absolute().parents):
        if os.path.exists(path) and not os.path.isdir(path):
            raise InputError(f"--output {str(folder)!r}: {str(path)!r} is a file; expected a folder")
    if not os.path.isdir(folder.absolute().parent):
        raise InputError(
            f"--output {str(folder)!r}: there is no folder {str(folder.absolute().parent)!r}; create it first"
        )
    if marker is not None and marker["study"] != paper:
        raise InputError(f"--output {str(folder)!r} holds the results of {marker['study']!r}; name another folder")
    if foreign:
        more = f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""
        raise InputError(
            f"--output {str(folder)!r} holds files that no study wrote: {foreign[0]}{more}; "
            "name an empty or a new folder"
        )


def _print(rows: list[dict[str, Any]], folder: Path) -> None:
    counts = Counter(row["verdict"] for row in rows)
    claims = len({row["claim"] for row in rows})
    parts = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    print_line(f"{len(rows)} readings of {claims} claims: {parts}\n")
    notes = {note: str(n) for n, note in enumerate(dict.fromkeys(row["notes"] for row in rows if row["notes"]), 1)}
    lines = [(row["claim"], row["reading"], row["verdict"], notes.get(row["notes"], "")) for row in rows]
    print_table(("claim", "reading", "verdict", "note"), lines)
    for note, number in notes.items():
        print_line(f"note {number}: {note}")
    print_line()
    print_line(f"wrote {folder / 'index.html'}")
