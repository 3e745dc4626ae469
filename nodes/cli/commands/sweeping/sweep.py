"""`armswing sweep`: runs a launch file over ranges of its keys, and writes a table with a row per run."""

from __future__ import annotations

import errno
import importlib.util
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nodes.cli.commands.sweeping.boundary import find_in
from nodes.cli.commands.sweeping.dry_run import all_repeats_equal, describe, first_repeats_equal
from nodes.cli.progress import Interrupted, RunsBar, interruptible
from nodes.cli.terminal import AsJson, InputError, UnavailableError, print_json, print_line, print_table, warn, working
from nodes.framework.plan.files.shipped import launch_file

if TYPE_CHECKING:
    # sweeps: 0.07 s of each help page
    from nodes.research.sweeps.design import Sweep
    from nodes.research.sweeps.folder import SweepJournal

LIBRARIES = ("matplotlib", "jinja2")
DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO}
EXAMPLE = (
    "armswing sweep rotary_pendulum_lockstep --over sim.parameters.torque_limit=0.03:0.06:7 "
    "--over swing_up.torque_limit=0.03,0.05 --seconds 5 -o torque"
)


def add_to(app: typer.Typer) -> None:
    """Add the command `sweep`."""
    app.command(epilog=f"Example: {EXAMPLE}")(sweep)


def sweep(
    target: Annotated[Path, typer.Argument(help="A launch file (TOML), or the folder of a sweep.", show_default=False)],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME=VALUE]...", help="Values of the file's arguments.", show_default=False),
    ] = None,
    over: Annotated[
        list[str] | None,
        typer.Option(
            "--over",
            help="An axis, which is a key to vary: key=FROM:TO:NUMBER, key=VALUE,VALUE,..., "
            "key=normal:MEAN:DEVIATION or key=uniform:LOW:HIGH. Write the key as in --set. Repeatable.",
            show_default=False,
        ),
    ] = None,
    repeat: Annotated[
        int, typer.Option("--repeat", min=1, help="Number of runs of each combination; each run has its own seed.")
    ] = 1,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", help="Simulated duration of every run (s).", show_default="the file's duration_s"),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Change the launch file for all runs: node.key=value or sim.key=value. Repeatable.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder of the sweep.", show_default="FILE_sweep")
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Number of processes.", show_default="one per core")
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(
            "--dask",
            help='Address of a Dask scheduler, such as tcp://10.0.0.5:8786, or "local" to use Dask on this computer.',
            show_default=False,
        ),
    ] = None,
    limit_s: Annotated[
        float | None,
        typer.Option(
            "--limit-s",
            help="Wall time (s) after which a run counts as hung and is ended.",
            show_default="20 times the simulated duration, at least 60",
        ),
    ] = None,
    retry_failed: Annotated[
        bool,
        typer.Option(
            "--retry-failed",
            help="Repeat the lost runs: those that diverged, crashed, hung, were refused or ended in an error.",
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Check everything, list axes and runs, and estimate time and disk space by half a second of the first "
            "run; write nothing.",
        ),
    ] = False,
    figure: Annotated[
        list[str] | None,
        typer.Option(
            "--figure",
            help="A result to plot on the page: a column of cells.csv, or pass_rate. Repeatable.",
            show_default="the first columns that differ",
        ),
    ] = None,
    page: Annotated[bool, typer.Option("--page/--no-page", help="Write the HTML page with its plots.")] = True,
    cell: Annotated[
        int | None,
        typer.Option(
            "--cell", min=0, help="Repeat only the run with this number, and print its row.", show_default=False
        ),
    ] = None,
    record: Annotated[
        bool, typer.Option("--record", help="With --cell K: record the run in FOLDER/cell_K.mcap.")
    ] = False,
    find_boundary: Annotated[
        str | None,
        typer.Option(
            "--find-boundary",
            help="RESULT=VALUE, such as pass_rate=0.9: find where the result crosses the value on the axis --along.",
            show_default=False,
        ),
    ] = None,
    along: Annotated[
        str | None, typer.Option("--along", help="With --find-boundary: key of the axis to search.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a launch file in lockstep for every combination of values, in one process per core.

    FOLDER/cells.csv gets one row per run; the same sweep always gives the same rows. To continue a stopped sweep,
    repeat the command or name the folder alone. Exit code 0 if every run has a result of its own, passed or failed;
    1 if runs were lost, because they diverged, crashed, hung, were refused or ended in an error; 2 for invalid input.
    """
    if limit_s is not None and not 0.0 < limit_s < float("inf"):
        raise InputError(f"--limit-s {limit_s:g}: expected a positive number of seconds")
    if dask is not None and importlib.util.find_spec("distributed") is None:
        raise UnavailableError("--dask needs the package distributed; install it: pip install 'armswing[dask]'")
    options = Options(workers, limit_s, retry_failed, as_json, page, tuple(figure or ()), dask)
    if record and cell is None:
        raise InputError("--record works only with --cell, as in armswing sweep FOLDER --cell 17 --record")
    if (find_boundary is None) != (along is None):
        raise InputError(
            "--find-boundary and --along must be given together, as in --find-boundary pass_rate=0.9 --along KEY"
        )
    if target.is_dir():
        given = {"--over": over, "--seconds": seconds, "--set": set_, "--output": output, "--repeat": repeat > 1}
        if extra := [*(arguments or []), *(name for name, value in given.items() if value)]:
            raise InputError(f"{str(target)!r} is the folder of a sweep that is already defined; leave out {extra[0]}")
        if find_boundary is not None and along is not None:
            find_in(target, find_boundary, along, workers, limit_s, as_json, dask)
        else:
            _sweep_folder(target, cell, record, dry_run, options)
        return
    if (find_boundary is not None or cell is not None) and not target.exists():
        raise InputError(f"there is no folder {str(target)!r}; name the folder of a sweep")
    if find_boundary is not None:
        raise InputError(f"--find-boundary {find_boundary}: name the folder of a sweep, not {str(target)!r}")
    if cell is not None:
        raise InputError(f"--cell {cell}: name the folder of the sweep, not {str(target)!r}")

    target = launch_file(target)
    if not over and repeat == 1 and not target.is_file():
        raise InputError(f"there is no launch file and no folder of a sweep {str(target)!r}; check the path")
    if not over and repeat == 1:
        raise InputError("name an axis with --over key=FROM:TO:NUMBER, or a number of runs with --repeat")
    found = _checked(target, arguments or [], over or [], repeat, seconds, set_ or [])
    from nodes.research.sweeps.engine import folder_of

    _start(found, output or folder_of(target), dry_run, options)


@dataclass(frozen=True)
class Options:
    """Options for carrying out the runs of a sweep. No option changes the results of a run."""

    workers: int | None
    limit_s: float | None
    retry: bool
    as_json: bool
    page: bool
    figures: tuple[str, ...]
    dask: str | None


def _checked(
    launch: Path, arguments: list[str], over: list[str], repeat: int, seconds: float | None, sets: list[str]
) -> Sweep:
    # sweeps: 0.07 s of each help page
    from nodes.research.sweeps.axes import parse_axis
    from nodes.research.sweeps.design import make_sweep  # 0.07 s of each help page

    axes = [parse_axis(text) for text in over]
    with working("checking the launch"):
        found, mode = make_sweep(launch, axes, repeat, seconds, arguments, sets)
    if mode != "lockstep":
        warn(f"{launch} has the mode {mode}, but the sweep runs it in lockstep")
    return found


def _sweep_folder(folder: Path, cell: int | None, record: bool, dry_run: bool, options: Options) -> None:
    """Continue the sweep in a folder, or run only the cell with the number `cell`. A cell is one run of the sweep."""
    # sweeps: 0.07 s of each help page
    from nodes.research.sweeps.design import made_again  # 0.07 s of each help page
    from nodes.research.sweeps.folder import read_sweep

    folder = folder.absolute()
    sweep = read_sweep(folder)
    if os.path.isdir(sweep.cwd):
        os.chdir(sweep.cwd)  # relative paths of the launch are of there
    if cell is None:
        _start(made_again(sweep), folder, dry_run, options)
        return
    if cell >= sweep.cells:
        raise InputError(f"--cell {cell}: there is no such cell; this sweep has the cells 0 .. {sweep.cells - 1}")
    _run_one(sweep, folder, cell, record, options)


def _start(sweep: Sweep, folder: Path, dry_run: bool, options: Options) -> None:
    from nodes.research.sweeps.folder import claim
    from nodes.research.sweeps.structures import structural

    if dry_run:
        describe(sweep, folder, options.workers, options.dask, options.retry, options.as_json)
        return
    notes = [
        f"{name} changed since this sweep began; finished rows are of its earlier content"
        for name in claim(folder, sweep, accept_changes=options.retry)
    ]
    notes += [
        f"{axis.key} changes what is compiled: every run compiles its own kernels, a second or more"
        for axis in structural(sweep)
        if axis.random
    ]
    for note in notes:
        warn(f"warning: {note}")
    _carry_out(sweep, folder, options, notes)


def _run_one(sweep: Sweep, folder: Path, cell: int, record: bool, options: Options) -> None:
    """Run one cell, which is one run of the sweep, and print its row.

    Exit code 1 if the run is lost, or if its row differs from the row in the journal of the sweep; otherwise 0.
    """
    from nodes.research.sweeps.cell_job import run_alone
    from nodes.research.sweeps.cells import LOST, values_text
    from nodes.research.sweeps.design import changed_files, default_limit_s, made_again  # 0.07 s of each help page
    from nodes.research.sweeps.engine import warm_up
    from nodes.research.sweeps.folder import read_rows
    from nodes.research.sweeps.report.tables import differing, figure_names, header, line_of

    for name in changed_files(sweep, made_again(sweep)):
        warn(f"warning: {name} changed since this sweep began, so the new row may differ from the row in cells.csv")
    recording = folder / f"cell_{cell}.mcap" if record else None
    if recording is not None and not os.access(folder, os.W_OK):
        raise InputError(
            f"--record: the folder {folder} is not writable; copy it to a place that is, or leave out --record"
        )
    with interruptible() as go_on, working(f"running cell {cell}, {values_text(sweep.cell(cell).values)}"):
        warm_up(sweep)
        row = run_alone(sweep, cell, options.limit_s or default_limit_s(sweep), go_on, recording)
    before = read_rows(folder).get(cell)
    names = figure_names([row] if before is None else [before, row])
    pairs = dict(zip(header(sweep, names), line_of(sweep, row, names), strict=True))
    if options.as_json:
        print_json(pairs)
    else:
        print_table(("column", "value"), [(name, "" if value is None else str(value)) for name, value in pairs.items()])
    if recording is not None and recording.exists():
        (print_line if not options.as_json else warn)(f"wrote {recording}")
    wrong = [] if before is None else differing(sweep, before, row)
    if wrong:
        warn(f"armswing: the repeated run of cell {cell} differs from row {cell} of cells.csv in {', '.join(wrong)}")
    elif before is not None and not options.as_json:
        print_line(f"the same as row {cell} of {folder / 'cells.csv'}")
    raise typer.Exit(1 if wrong or row.result in LOST else 0)


def _carry_out(sweep: Sweep, folder: Path, options: Options, notes: list[str]) -> None:
    from nodes.research.sweeps.folder import SweepJournal

    with SweepJournal(folder) as journal:
        try:
            pages = _complete(sweep, folder, journal, options, notes)
        except OSError as error:
            if error.errno not in DISK_ERRORS:
                raise
            raise UnavailableError(
                f"{folder} cannot be written: {error.strerror}; {len(journal.rows)} of {sweep.cells} runs are done and "
                "kept; repeat the command to continue"
            ) from error
        lost = _summarize(sweep, journal.rows, folder, options.as_json, pages)
    raise typer.Exit(1 if lost else 0)


def _complete(sweep: Sweep, folder: Path, journal: SweepJournal, options: Options, notes: list[str]) -> list[Path]:
    """Run what the journal has no row of, and write tables, JUnit file and page; returns the paths of the last two."""
    from nodes.research.sweeps.cells import LOST
    from nodes.research.sweeps.design import default_limit_s  # 0.07 s of each help page
    from nodes.research.sweeps.engine import carry_out, default_workers
    from nodes.research.sweeps.report.junit import write_junit
    from nodes.research.sweeps.report.statistics import repeats_change_nothing
    from nodes.research.sweeps.report.tables import write_tables

    if options.retry and not any(row.result in LOST for row in journal.rows.values()):
        warn("--retry-failed: no run is lost; runs with the result 'failed' are not repeated")
    stopped: Interrupted | None = None
    looked = sweep.repeat == 1
    try:
        with interruptible() as go_on, RunsBar(go_on) as bar:

            def show(done: int, of: int) -> None:
                nonlocal looked
                early = [row for row in map(journal.rows.get, range(sweep.repeat)) if row is not None]
                if not looked and len(early) == sweep.repeat:
                    looked = True
                    if done < of and repeats_change_nothing(sweep, early):
                        warn(f"warning: {first_repeats_equal(sweep)}; Ctrl-C stops the sweep")
                bar.count(done, of)

            limit = options.limit_s or default_limit_s(sweep)
            count = options.workers or default_workers()
            if options.dask is None:
                carry_out(sweep, journal, count, limit, show, retry=options.retry)
            else:
                from nodes.research.sweeps.dask_cluster import carry_out_on

                carry_out_on(options.dask, count, sweep, journal, limit, show, options.retry)
    except Interrupted as end:
        stopped = end
    write_tables(folder, sweep, journal.rows)
    rows = journal.rows
    if stopped is not None:
        if rows:
            _write_page(sweep, folder, rows, options, notes, stopped=True)
        warn(f"armswing: interrupted; {len(rows)} of {sweep.cells} runs are done; repeat the command to continue")
        raise typer.Exit(128 + stopped.signal)
    if sweep.repeat > 1 and repeats_change_nothing(sweep, rows.values()):
        notes.append(all_repeats_equal(sweep))
        warn(f"warning: {notes[-1]}")
    junit = write_junit(folder, sweep, rows)
    return [*([] if junit is None else [junit]), *_write_page(sweep, folder, rows, options, notes)]


def _write_page(
    sweep: Sweep, folder: Path, rows: Any, options: Options, notes: list[str], stopped: bool = False
) -> list[Path]:
    """Write the HTML report of the sweep, and return a list with its path; [] if no report is written.

    stopped  whether the sweep was interrupted. If so, the report leaves out a requested figure (numeric result) if no
             run has this figure yet
    """
    missing = [library for library in LIBRARIES if importlib.util.find_spec(library) is None]
    if options.page and missing:
        warn(
            f"the HTML report of the sweep is not written, because it needs {' and '.join(missing)}; "
            "run: pip install 'armswing[studies]'"
        )
    elif options.page:
        from nodes.research.sweeps.report.page import check_figures, known_figures, write_page

        figures = options.figures
        if stopped:
            known = known_figures(rows)
            figures = tuple(name for name in figures if name in known)
        check_figures(rows, figures)
        with working("drawing"):
            return [write_page(folder, sweep, rows, figures, notes)]
    return []


def _summarize(sweep: Sweep, rows: Any, folder: Path, as_json: bool, pages: list[Path]) -> int:
    """Print how many cells (runs) have each result, and list the first lost cells; returns the number of lost cells.

    A lost cell has no verdict, because its run diverged, crashed or was stopped, for example.
    """
    from nodes.research.sweeps.cells import LOST, values_text

    counts = Counter(row.result for row in rows.values())
    cpu = sum(row.cpu_s for row in rows.values())
    if as_json:
        print_json({"cells": len(rows), "results": counts, "cpu_s": cpu, "table": str(folder / "cells.csv")})
        return sum(count for result, count in counts.items() if result in LOST)
    from nodes.research.sweeps.report.statistics import failures, independent, pass_rate

    counted = independent(sweep, [rows[cell] for cell in sorted(rows)])
    once = "; the repeats of a combination are equal and count once" if len(counted) < len(rows) else ""
    print_line(f"{len(rows)} runs: {', '.join(f'{count} {result}' for result, count in counts.most_common())}")
    print_line(f"pass rate {pass_rate(counted).text()}, with its 95 % interval{once}")
    for reason, count in failures(rows.values()):
        print_line(f"  failed, {count} of them: {reason}")
    lost = [rows[cell] for cell in sorted(rows) if rows[cell].result in LOST]
    shown = lost[:10]
    print_table(
        ("cell", "values", "result", "reason"),
        [(str(row.cell), values_text(sweep.cell(row.cell).values), row.result, row.reason) for row in shown],
    )
    if len(lost) > len(shown):
        print_line(f"and {len(lost) - len(shown)} more")
    print_line(f"processor time of the runs: {cpu:.1f} s, {1e3 * cpu / max(len(rows), 1):.1f} ms each")
    print_line(f"wrote {', '.join(map(str, [folder / 'cells.csv', *pages]))}")
    return len(lost)
