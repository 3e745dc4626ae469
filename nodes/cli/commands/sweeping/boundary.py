"""`armswing sweep FOLDER --find-boundary`: finds where a result crosses a given value along one varied parameter."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from nodes.cli.progress import Interrupted, RunsBar, interruptible
from nodes.cli.terminal import print_json, print_line, print_table, warn


def find_in(
    folder: Path,
    target: str,
    along: str,
    workers: int | None,
    limit_s: float | None,
    as_json: bool,
    dask: str | None = None,
) -> None:
    """Find the boundaries in a sweep, print them, and write them to the file `boundary.csv`.

    The axes of a sweep are its varied parameters. A boundary is the value of the axis `along` at which a result crosses
    a threshold; there is one boundary for each combination of values of the other axes. The file keeps the boundaries
    that earlier searches found for other results, thresholds or axes.

    target  result and threshold, such as "pass_rate=0.9"
    dask    address of a Dask scheduler that distributes the runs; None for processes of this computer
    """
    from nodes.research.sweeps import boundary
    from nodes.research.sweeps.design import (  # 0.07 s of each help page
        SweepError,
        changed_files,
        default_limit_s,
        made_again,
    )
    from nodes.research.sweeps.engine import default_workers, local_runner, warm_up
    from nodes.research.sweeps.folder import SweepJournal, read_sweep
    from nodes.research.sweeps.report.page import check_figures

    folder = folder.absolute()
    sweep = read_sweep(folder)
    if os.path.isdir(sweep.cwd):
        os.chdir(sweep.cwd)
    figure, threshold = boundary.parse_target(target)
    axis = boundary.axis_along(sweep, along)
    search = boundary.Search(figure, threshold, axis)
    limit, count = limit_s or default_limit_s(sweep), workers or default_workers()
    with SweepJournal(folder) as journal:  # no other process is at this sweep meanwhile
        check_figures(journal.rows, [figure], "--find-boundary")
        if changed := changed_files(sweep, made_again(sweep)):
            raise SweepError(
                f"{', '.join(changed)} changed since this sweep began, so the rows of the sweep are out of date; "
                "begin a new sweep"
            )
        boundary.read_table(folder, sweep)  # so that a file of other columns is refused before the runs
        found = boundary.brackets(sweep, journal.rows, figure, threshold, axis)
        try:
            with interruptible() as go_on, RunsBar(go_on) as bar:
                if dask is None:
                    warm_up(sweep)
                    runner = local_runner(sweep, count, limit)
                else:
                    from nodes.research.sweeps.dask_cluster import dask_runner

                    runner = dask_runner(dask, count, sweep, limit)
                with runner as run:
                    boundary.find(sweep, folder, found, figure, threshold, axis, run, bar.count)
        except Interrupted as end:
            kept = folder / boundary.PROBES
            warn(f"armswing: interrupted; finished runs are in {kept}; repeat the command to continue")
            raise typer.Exit(128 + end.signal) from None
        others = boundary.add_to_table(folder, sweep, found, search)
    header, table = boundary.header_of(sweep), boundary.lines(sweep, found, search)
    if as_json:
        print_json([dict(zip(header, line, strict=True)) for line in table])
        return
    shown = [k for k, name in enumerate(header) if name == "from" or any(line[k] for line in table)]
    print_table([header[k] for k in shown], [[line[k] for k in shown] for line in table])
    if not any(each.crosses for each in found):
        print_line(f"{figure} does not cross {threshold:g} along {along}")
    beside = f", beside those of {'; '.join(others)}" if others else ""
    print_line(f"wrote {folder / boundary.TABLE}: the rows of {search}{beside}")
