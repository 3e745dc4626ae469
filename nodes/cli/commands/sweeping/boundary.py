"""`armswing sweep FOLDER --find-boundary`: finds where a result crosses a given value along one varied parameter."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import typer

from nodes.cli.commands.models.studies import Interrupted, interruptible
from nodes.cli.commands.sweeping.progress import SweepBar
from nodes.cli.terminal import say, say_json, say_table, warn


def find_in(
    folder: Path,
    target: str,
    along: str,
    workers: int | None,
    limit_s: float | None,
    as_json: bool,
    dask: str | None = None,
) -> None:
    """Find the boundary for each combination of the other axes, print the boundaries, and write them to `boundary.csv`.

    The axes are the varied parameters of the sweep. The boundary is the value of the axis `along` at which a result
    crosses a threshold.

    target  result and threshold, such as "pass_rate=0.9"
    dask    address of a Dask scheduler that distributes the runs; None for processes of this computer
    """
    from nodes.sweeps.boundary import PROBES, TABLE, axis_along, brackets, find, lines, parse_target
    from nodes.sweeps.design import SweepError, changed_files, default_limit_s, made_again
    from nodes.sweeps.engine import default_workers, local_runner, warm_up
    from nodes.sweeps.journal import Journal, read_sweep
    from nodes.sweeps.report.page import check_figures

    folder = folder.absolute()
    sweep = read_sweep(folder)
    if os.path.isdir(sweep.cwd):
        os.chdir(sweep.cwd)
    figure, threshold = parse_target(target)
    axis = axis_along(sweep, along)
    limit, count = limit_s or default_limit_s(sweep), workers or default_workers()
    with Journal(folder) as journal:  # no other process is at this sweep meanwhile
        check_figures(journal.rows, [figure], "--find-boundary")
        if changed := changed_files(sweep, made_again(sweep)):
            raise SweepError(
                f"{', '.join(changed)} changed since this sweep began, so the rows of the sweep are out of date; "
                "begin a new sweep"
            )
        found = brackets(sweep, journal.rows, figure, threshold, axis)
        try:
            with interruptible() as go_on, SweepBar() as bar:

                def show(done: int, of: int) -> None:
                    go_on()
                    bar.show(done, of)

                if dask is None:
                    warm_up(sweep)
                    runner = local_runner(sweep, count, limit)
                else:
                    from nodes.sweeps.cluster import dask_runner

                    runner = dask_runner(dask, count, sweep, limit)
                with runner as run:
                    find(sweep, folder, found, figure, threshold, axis, run, show)
        except Interrupted as end:
            warn(f"armswing: interrupted; finished runs are in {folder / PROBES}; repeat the command to continue")
            raise typer.Exit(128 + end.signal) from None
        header, table = lines(found, figure, axis)
        with (folder / TABLE).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([header, *table])
    if as_json:
        say_json([dict(zip(header, line, strict=True)) for line in table])
        return
    say_table(header, table)
    if not any(each.crosses for each in found):
        say(f"{figure} does not cross {threshold:g} along {along}")
    say(f"wrote {folder / TABLE}")
