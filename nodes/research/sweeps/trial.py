"""Estimates of a sweep's time and disk space, from its finished runs or from a trial of its first run."""

from __future__ import annotations

import csv
import io
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from nodes.framework.simulation.compose import Composition
from nodes.research.journal import encode_line
from nodes.research.sweeps.axes import as_text
from nodes.research.sweeps.cells import ENDED, PASSED, Figure, Row, figures_of, values_text
from nodes.research.sweeps.design import Cell, Sweep
from nodes.research.sweeps.engine import default_workers
from nodes.research.sweeps.report.junit import MOST_CASES
from nodes.research.sweeps.report.statistics import repeats_change_nothing
from nodes.research.sweeps.report.tables import figure_names, line_of
from nodes.research.sweeps.structures import structural
from nodes.research.workers import Loss, Pool

COMMAND_S = 1.0  # start of the command and end of the sweep, with its tables and its page, s
START_S = 1.0  # start of the worker processes where it is not measured, s
TRIAL_S = 0.5  # wall time after which the trial stops, s
LIMIT_S = 120.0  # wall time after which a trial has failed; its kernels may have to be compiled, s
STEPS_AT_ONCE = 10
CASE = 150  # bytes of a test case in the JUnit file beside its names and values


class Trial(msgspec.Struct):
    """Result of a trial, which simulates only the first time steps of a run.

    wall_s  wall time of the whole run, extrapolated from the time steps of the trial, s
    row     results of the run after the time steps of the trial; None if there is no result
    error   reason why there is no result, in one line; "" if there is a result
    repeats_equal  whether the next run, which repeats the same values, has the same results after the same number of
                   time steps; False for a sweep without repeats
    """

    wall_s: float = 0.0
    row: Row | None = None
    error: str = ""
    repeats_equal: bool = False


@dataclass(frozen=True)
class Estimate:
    """Estimated wall time and disk space of one run of a sweep.

    wall_s       wall time on one processor, s
    disk_bytes   space for the rows of the run in all files of the sweep's folder
    source       origin of the estimate, such as "by 12 finished runs"
    start_s      measured time in which a worker process starts and loads its code, s; None if the estimate is from
                 finished runs
    compile_s    measured time in which the code of one more group of runs is compiled (or loaded, if it was compiled
                 before), s; 0 if no axis changes the robots' equations or the integration method, or if the estimate is
                 from finished runs
    repeats_equal  whether the repeats of a combination of values have equal results in the finished runs or the trial
    """

    wall_s: float
    disk_bytes: float
    source: str
    repeats_equal: bool = False
    start_s: float | None = None
    compile_s: float = 0.0

    def whole_s(self, runs: int, processes: int, groups: int = 0) -> float:
        """Estimated wall time of `runs` runs on a number of processes, s; 0 without runs.

        A run is not divided between processes. More processes than cores do not shorten the time.

        groups  number of groups of runs whose code is compiled
        """
        if not runs:
            return 0.0
        compiling_s = self.compile_s * groups / min(processes, default_workers())
        rounds = max(math.ceil(runs / processes), runs / min(processes, default_workers()))
        return COMMAND_S + (START_S if self.start_s is None else self.start_s) + self.wall_s * rounds + compiling_s


@dataclass(frozen=True)
class TrialJob:
    """Job for a worker process: the first time steps of a cell (run of the sweep).

    only_start  whether the process only starts and loads its code; the trial then has no row
    """

    sweep: Sweep
    only_start: bool = False

    def encode(self, task: Cell) -> bytes:
        """Encode a cell as bytes."""
        return msgspec.json.encode(task)

    def do(self, task: bytes) -> bytes:
        """Simulate the first time steps of an encoded cell, and return the encoded Trial."""
        cell = msgspec.json.decode(task, type=Cell)
        try:
            trial = _started(self.sweep, cell) if self.only_start else _tried(self.sweep, cell)
        except Exception as error:
            trial = Trial(error=" ".join(f"{type(error).__name__}: {error}".split()))
        return msgspec.json.encode(trial)

    def decode(self, result: bytes) -> Trial:
        """Decode a Trial from bytes."""
        return msgspec.json.decode(result, type=Trial)

    def lost(self, task: Cell, loss: Loss) -> Trial:
        """Trial without a result, whose `error` says why the process ended."""
        return Trial(error=loss.reason)


def estimate(sweep: Sweep, rows: Iterable[Row], poll: Callable[[], None]) -> Estimate | str:
    """Estimate of a run's time and disk space, from finished runs or, without finished runs, from a trial.

    If the estimate is not possible, the result is the reason, in one line.

    rows  rows of finished runs
    poll  function that is called several times per second; it may raise an exception to stop the trial
    """
    finished = [row for row in rows if row.result in ENDED and row.wall_s > 0.0]
    equal = sweep.repeat > 1 and repeats_change_nothing(sweep, finished)
    if finished:
        wall_s = sum(row.wall_s for row in finished) / len(finished)
        return Estimate(wall_s, _bytes_of(sweep, finished[0]), f"by {len(finished)} finished runs", equal)
    with Pool(TrialJob(sweep), 1, LIMIT_S) as pool:
        trial = next(result for _, result in pool.results([sweep.cell(0)], poll))
    if trial.row is None:
        return trial.error
    source = "by the beginning of the first run"
    start_s = _time_of_start(sweep, sweep.cell(0), poll)  # loads the compiled code, as the processes of the sweep do
    compile_s = 0.0
    if structural(sweep):
        compile_s = max(_time_of_start(sweep, sweep.cell(sweep.cells - 1), poll) - start_s, 0.0)
    return Estimate(trial.wall_s, _bytes_of(sweep, trial.row), source, trial.repeats_equal, start_s, compile_s)


def _time_of_start(sweep: Sweep, cell: Cell, poll: Callable[[], None]) -> float:
    """Time in which a new process starts and does the first steps of a cell, s."""
    began = time.perf_counter()
    with Pool(TrialJob(sweep, only_start=True), 1, LIMIT_S) as pool:
        next(pool.results([cell], poll))
        return time.perf_counter() - began


def _started(sweep: Sweep, cell: Cell) -> Trial:
    with Composition(sweep.plan_of(cell)) as composition:
        composition.step(min(STEPS_AT_ONCE, round(sweep.seconds / composition.plan.sim.step_s)))
    return Trial()


def _tried(sweep: Sweep, cell: Cell) -> Trial:
    with Composition(sweep.plan_of(cell)) as composition:  # compiles, and loads all that the first steps need
        steps = round(sweep.seconds / composition.plan.sim.step_s)
        composition.step(first := min(STEPS_AT_ONCE, steps))
    began = time.perf_counter()
    with Composition(sweep.plan_of(cell)) as composition:
        composition.step(first)
        stepping, taken = time.perf_counter(), first
        while taken < steps and time.perf_counter() - stepping < TRIAL_S:
            taken += (more := min(STEPS_AT_ONCE, steps - taken))
            composition.step(more)
        each_s = (time.perf_counter() - stepping) / max(taken - first, 1)
        row = Row(cell=cell.number, seed=cell.seed, result=PASSED, figures=dict(figures_of(composition)))
    equal = sweep.repeat > 1 and _figures_after(sweep, sweep.cell(cell.number + 1), taken) == row.figures
    return Trial(wall_s=stepping - began + each_s * (steps - first), row=row, repeats_equal=equal)


def _figures_after(sweep: Sweep, cell: Cell, steps: int) -> dict[str, Figure]:
    """Results of a cell (run of the sweep) after its first `steps` time steps."""
    with Composition(sweep.plan_of(cell)) as composition:
        for begin in range(0, steps, STEPS_AT_ONCE):
            composition.step(min(STEPS_AT_ONCE, steps - begin))
        return dict(figures_of(composition))


def _bytes_of(sweep: Sweep, row: Row) -> float:
    """Bytes of a row in the journal, the tables and the JUnit file."""
    table = io.StringIO()
    csv.writer(table).writerow(line_of(sweep, row, figure_names([row])))
    values = sweep.cell(row.cell).values
    case = CASE + len(values_text(values)) if sweep.cells <= MOST_CASES else 0
    return float(len(encode_line(row)) + len(table.getvalue()) + len(as_text(row.cell)) + 20 + case)


def time_text(seconds: float) -> str:
    """A time as text with two digits in a fitting unit, such as "45 s", "12 min" or "3.4 h"."""
    for unit, size, most in (("s", 1.0, 90.0), ("min", 60.0, 90.0), ("h", 3600.0, 48.0)):
        if seconds < most * size:
            return f"{_rounded(seconds / size)} {unit}"
    return f"{_rounded(seconds / 86400.0)} days"


def size_text(size: float) -> str:
    """A number of bytes as text with two digits, such as "14 kB"."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000.0:
            return f"{_rounded(size)} {unit}"
        size /= 1000.0
    return f"{_rounded(size)} TB"


def _rounded(x: float) -> str:
    return f"{float(f'{x:.2g}'):g}"
