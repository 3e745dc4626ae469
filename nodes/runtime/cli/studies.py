"""`armswing reproduce`: runs a paper's simulations again, and writes a page of what it claims and what came out."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any

import typer

from nodes.runtime.cli.terminal import AsJson, InputError, UnavailableError, nearest, say, say_json, say_table

PAPERS = ("charmie", "lipinski", "man", "nada")
LIBRARIES = ("matplotlib", "jinja2")


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: armswing reproduce nada --output nada_page")(reproduce)


def reproduce(
    paper: Annotated[str, typer.Argument(help=f"One of {', '.join(PAPERS)}.", show_default=False)],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for the page, its pictures and tables.", show_default="the paper"),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Shorter simulations: under a minute.")] = False,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Processes.", show_default="one per core")
    ] = None,
    as_json: AsJson = False,
    spans: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    """Run a paper's simulations again; a page with plots and tables says which of its claims come out."""
    import importlib
    import importlib.util

    if paper not in PAPERS:
        raise InputError(f"no study of {paper!r}; papers are {', '.join(PAPERS)}{nearest(paper, PAPERS)}")
    missing = [library for library in LIBRARIES if importlib.util.find_spec(library) is None]
    if missing:
        raise UnavailableError(f"a study draws with {' and '.join(missing)}: pip install 'armswing[studies]'")
    # By name: studies stand above the runtime, which may not import them.
    crew, report = (importlib.import_module(f"nodes.studies.{name}") for name in ("crew", "report"))
    study = importlib.import_module(f"nodes.studies.{paper}").study(quick=quick, spans=spans)
    folder = output if output is not None else Path(paper)
    _refuse_foreign(folder, report.foreign_files(folder, study))
    with Bar() as bar:
        results = crew.carry_out(study, workers or os.cpu_count() or 1, bar.show)
        report.write(study, results, folder, bar.show)
    rows = report.verdicts(study, results)
    if as_json:
        say_json(rows)
    else:
        _print(rows, folder)


def _refuse_foreign(folder: Path, foreign: list[str]) -> None:
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--output {str(folder)!r} is a file; expected a folder")
    if not folder.absolute().parent.is_dir():
        raise InputError(f"--output {str(folder)!r}: there is no folder {str(folder.absolute().parent)!r}")
    if foreign:
        more = f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""
        raise InputError(
            f"--output {str(folder)!r} holds files that no study wrote: {foreign[0]}{more}; "
            "name an empty or a new folder"
        )
    if not os.access(folder if folder.exists() else folder.absolute().parent, os.W_OK):
        raise InputError(f"--output {str(folder)!r} cannot be written")


def _print(rows: list[dict[str, Any]], folder: Path) -> None:
    say_table(
        ("claim", "reading", "verdict"),
        [(row["claim"], row["reading"], row["verdict"]) for row in rows],
    )
    say(f"\nwrote {folder / 'index.html'}")


class Bar:
    """A progress bar on a terminal; elsewhere a line for each new kind of work."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        console = Console(stderr=True, highlight=False)
        columns = (TextColumn("{task.description:<16}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=console) if console.is_terminal else None
        self._tasks: dict[str, Any] = {}
        self._began = time.monotonic()

    def __enter__(self) -> Bar:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def show(self, what: str, done: int, of: int) -> None:
        """How much of a kind of work is done."""
        if self._progress is None:
            if what not in self._tasks:
                self._tasks[what] = None
                print(f"{what}: {of} ({time.monotonic() - self._began:.0f} s)", file=sys.stderr, flush=True)
            return
        if what not in self._tasks:
            self._tasks[what] = self._progress.add_task(what, total=of)
        self._progress.update(self._tasks[what], completed=done, total=of)
