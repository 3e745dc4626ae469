"""`armswing reproduce`: repeats a paper's simulations, and compares its claims with the results on an HTML page."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Annotated, Any

import typer

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


class Interrupted(KeyboardInterrupt):
    """Raised after SIGINT or SIGTERM was received; `signal` is the number of that signal."""

    def __init__(self, number: int) -> None:
        self.signal = number
        super().__init__(number)


@contextmanager
def interruptible() -> Iterator[Callable[[], None]]:
    """Context manager that yields a function. This function raises Interrupted after SIGINT or SIGTERM was received.

    The signal handler itself raises nothing: an exception while a lock is being acquired would leave the lock locked,
    and an exception in a finalizer would be lost. Later signals do not change how the command ends.
    """
    signals: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        signals.append(number)

    def go_on() -> None:
        if signals:
            raise Interrupted(signals[0])

    before = {kind: signal.signal(kind, note) for kind in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield go_on
    except BaseException:
        if signals:  # the command is ending: ignore further signals
            before = dict.fromkeys(before, signal.SIG_IGN)
        raise
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


def _carry_out(
    paper: str, folder: Path, quick: bool, workers: int | None, spans: str, go_on: Callable[[], None]
) -> tuple[list[Any], Path]:
    missing = [library for library in LIBRARIES if importlib.util.find_spec(library) is None]
    if missing:
        raise UnavailableError(f"a study needs {' and '.join(missing)}; install with: pip install 'armswing[studies]'")
    from nodes.research.studies import papers
    from nodes.research.studies.framework import executors as crew
    from nodes.research.studies.framework import report

    study = papers.make_study(paper, quick=quick, spans=spans)
    _refuse_foreign(folder, report.marker_of(folder), report.foreign_files(folder, study), paper)
    with _folder(folder), Bar() as bar:

        def show(what: str, done: int, of: int) -> None:
            go_on()
            bar.show(what, done, of)

        try:
            results = crew.carry_out(study, workers or os.cpu_count() or 1, show)
        except crew.LostWorkerError as error:
            raise UnavailableError(f"{error}; nothing written") from None
        report.write(study, results, folder, show)
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


SAID_EVERY_S = 20.0  # period of progress lines without a terminal
DRAWN_EVERY_S = 0.1
COUNTED = {"simulating": "runs", "drawing": "plots", "compiling": "kernels and loops"}


class Bar:
    """Shows progress as a bar on a terminal, and as lines of text where the output is not a terminal.

    A line is printed when a new kind of work begins, and afterwards every SAID_EVERY_S seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        # for a terminal alone
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        console = Console(stderr=True, highlight=False)
        columns = (TextColumn("{task.description:<16}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        # no thread draws it, because worker processes are forked beside it
        self._progress = Progress(*columns, console=console, auto_refresh=False) if console.is_terminal else None
        self._tasks: dict[str, Any] = {}
        self._clock = clock
        self._began = self._printed_at = clock()

    def __enter__(self) -> Bar:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.refresh()
            self._progress.stop()

    def show(self, what: str, done: int, of: int) -> None:
        """Show that `done` of `of` pieces of the work `what` are done. Shows nothing if `of` is 0."""
        if of == 0:
            return
        if self._progress is None:
            self._print_progress(what, done, of)
            return
        if what not in self._tasks:
            self._tasks[what] = self._progress.add_task(what, total=of)
        self._progress.update(self._tasks[what], completed=done, total=of)
        now = self._clock()
        if done == of or now - self._printed_at >= DRAWN_EVERY_S:
            self._printed_at = now
            self._progress.refresh()

    def _print_progress(self, what: str, done: int, of: int) -> None:
        now = self._clock()
        after = f"{now - self._began:.0f} s"
        if what not in self._tasks:
            self._tasks[what] = None
            line = f"{what} {of} {COUNTED.get(what, 'pieces')} (begun after {after})"
        elif now - self._printed_at >= SAID_EVERY_S:
            line = f"{what}: {done} of {of} done ({after})"
        else:
            return
        self._printed_at = now
        print(line, file=sys.stderr, flush=True)
