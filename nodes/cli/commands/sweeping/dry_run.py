"""`armswing sweep --dry-run`: the axes and runs of a sweep, the code that it compiles, its time and its disk space."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodes.cli.progress import interruptible
from nodes.cli.terminal import print_json, print_line, print_table, warn, working
from sim_core.support.shown import printable

if TYPE_CHECKING:
    from nodes.research.sweeps.design import Sweep
    from nodes.research.sweeps.trial import Estimate

SHOWN_VALUES, SHOWN_RUNS, LISTED_RUNS = 12, 24, 100_000  # of an axis; in the table; in JSON


def describe(
    sweep: Sweep, folder: Path, workers: int | None, dask: str | None, accept_changes: bool, as_json: bool
) -> None:
    """Print what the sweep would do in its folder.

    Raises SweepError with a one-line message if the folder has other content. Nothing is written.

    workers         number of processes; None for one per core
    dask            address of a Dask scheduler; None for processes of this computer
    accept_changes  whether the sweep may continue although its files changed
    """
    from nodes.research.sweeps.engine import default_workers
    from nodes.research.sweeps.folder import check_folder, read_rows
    from nodes.research.sweeps.structures import groups, structural
    from nodes.research.sweeps.trial import estimate

    check_folder(folder, sweep, accept_changes)
    rows = read_rows(folder) if folder.is_dir() else {}
    left = sweep.cells - len(rows)
    changing, (robots, _) = structural(sweep), groups(sweep)
    with interruptible() as go_on, working("estimating, by the beginning of the first run"):
        found = estimate(sweep, rows.values(), go_on)
    compiled = left if any(axis.random for axis in changing) else min(robots, left) if changing else 0
    count = min(workers or default_workers(), max(left, 1)) if dask in (None, "local") else None
    if as_json:
        print_json(_plain(sweep, folder, len(rows), found, count, robots, compiled, [axis.key for axis in changing]))
        return
    print_line(f"{sweep.cells} runs of {sweep.seconds:g} s each{_product(sweep)}, into {folder}")
    if rows:
        print_line(f"{len(rows)} of them are done, {left} are left")
    table = [(axis.key, str(len(axis.values) or "random"), axis.values_text(SHOWN_VALUES)) for axis in sweep.axes]
    print_table(("axis", "number", "values"), table)
    for axis in changing:
        if axis.random:
            print_line(f"{axis.key} changes what is compiled: every run compiles its own kernels, a second or more")
    keys = [axis.key for axis in changing if not axis.random]
    if keys:
        verb = "changes" if len(keys) == 1 else "change"
        print_line(
            f"{' and '.join(keys)} {verb} what is compiled: {robots} groups of runs, each of which compiles once"
        )
    _print_estimate(found, left, sweep.cells, count, compiled)
    if not isinstance(found, str) and found.repeats_equal:
        warn(f"warning: {first_repeats_equal(sweep)}")
    _print_runs(sweep)


def first_repeats_equal(sweep: Sweep) -> str:
    """Message that two repeats, which a dry run computed of one grid point, have equal results."""
    if drawn := _drawn(sweep):
        return f"the values drawn for {drawn} seem to change nothing: the results of the first repeats are equal"
    return (
        f"--repeat {sweep.repeat} seems to change nothing: the first repeats are equal; leave --repeat out if no run "
        "is random"
    )


def all_repeats_equal(sweep: Sweep) -> str:
    """Message that the repeats of each combination of values have equal results."""
    if drawn := _drawn(sweep):
        return f"the values drawn for {drawn} change nothing: all repeats have equal results"
    return f"--repeat {sweep.repeat} changes nothing: no run depends on its seed; leave --repeat out"


def _drawn(sweep: Sweep) -> str:
    return " and ".join(axis.key for axis in sweep.axes if axis.random)


def _product(sweep: Sweep) -> str:
    """Factors of the number of runs as text, such as ": 3 x 2 combinations, each 5 times"; "" for a single factor."""
    sizes = [str(len(axis.values)) for axis in sweep.axes if not axis.random]
    combinations = f": {' x '.join(sizes)} combinations" if len(sizes) > 1 else ""
    if sweep.repeat == 1:
        return combinations
    return f"{combinations}, each {sweep.repeat} times" if sizes else ""


def _print_estimate(found: Estimate | str, left: int, cells: int, count: int | None, compiled: int) -> None:
    from nodes.research.sweeps.trial import size_text, time_text

    if isinstance(found, str):
        warn(f"warning: no estimate of the time, because the first run ended early: {found}")
        return
    whole = found.wall_s * left if count is None else found.whole_s(left, count, compiled)
    where = "of processor time, on any number of workers" if count is None else f"on {count} processes"
    besides = ""
    if compiled:
        each_s = f"about {time_text(found.compile_s)} for each of {compiled} groups, if they are not compiled yet"
        besides = f"; compiling: {each_s}" if found.compile_s else "; compiling comes on top"
    each = f"{1e3 * found.wall_s:.3g} ms per run {found.source}"
    print_line(f"estimated time: about {time_text(whole)} {where}, {each}{besides}")
    print_line(f"estimated disk space: {size_text(found.disk_bytes * cells)}, and the page")


def _print_runs(sweep: Sweep) -> None:
    numbers: Sequence[int | None] = range(sweep.cells)
    if sweep.cells > SHOWN_RUNS:
        half = SHOWN_RUNS // 2
        numbers = [*range(half), None, *range(sweep.cells - half, sweep.cells)]
    header = ["cell", *(axis.key for axis in sweep.axes), *(["repeat"] if sweep.repeat > 1 else []), "seed"]
    lines = [[""] * len(header) if number is None else _line(sweep, number) for number in numbers]
    for line in lines:
        if not any(line):
            line[0] = "..."
    print_table(header, lines)
    if left_out := sweep.cells - sum(number is not None for number in numbers):
        print_line(
            f"{left_out} runs are left out here; --json lists {'them' if sweep.cells <= LISTED_RUNS else 'more'}"
        )


def _line(sweep: Sweep, number: int) -> list[str]:
    cell = sweep.cell(number)
    values = [f"{value:.6g}" if isinstance(value, float) else printable(str(value)) for value in cell.values.values()]
    return [str(number), *values, *([str(cell.repeat)] if sweep.repeat > 1 else []), str(cell.seed)]


def _plain(
    sweep: Sweep,
    folder: Path,
    done: int,
    found: Estimate | str,
    count: int | None,
    robots: int,
    compiled: int,
    changing: list[str],
) -> dict[str, Any]:
    """The description of a sweep as plain data, for scripts. Times are in s, the disk space is in bytes."""
    axes = [
        {"key": axis.key, "random": axis.random, "ends": axis.ends}
        if axis.random
        else {"key": axis.key, "values": axis.values}
        for axis in sweep.axes
    ]
    data = {"cells": sweep.cells, "done": done, "seconds": sweep.seconds, "repeat": sweep.repeat, "folder": str(folder)}
    data |= {"axes": axes, "compiling_axes": changing, "compiling_groups": robots}
    if isinstance(found, str):
        data |= {"estimate": None, "reason": found}
    else:
        each = {"wall_s_per_run": found.wall_s, "disk_bytes": found.disk_bytes * sweep.cells, "source": found.source}
        each |= {"start_s": found.start_s, "compile_s": found.compile_s}
        whole = None if count is None else found.whole_s(sweep.cells - done, count, compiled)
        data |= {"estimate": {**each, "processes": count, "wall_s": whole}, "repeats_equal": found.repeats_equal}
    listed = [sweep.cell(number) for number in range(min(sweep.cells, LISTED_RUNS))]
    runs = [{"cell": cell.number, **cell.values, "repeat": cell.repeat, "seed": cell.seed} for cell in listed]
    return data | {"runs": runs, "runs_left_out": sweep.cells - len(runs)}
