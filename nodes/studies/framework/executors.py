"""Executes a study's runs, in several processes if requested, and measures computing times one at a time.

With worker processes, the main process only waits and reports several times a second, so that it can be stopped at any
report; the workers end with it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from multiprocessing import resource_tracker
from typing import Any

from nodes.launching.process import die_with_parent
from nodes.studies.framework.runs import Outcome, Run, execute, simulation_of
from nodes.studies.framework.study import Cost, Part, Results, Study

TRIALS = 3  # number of trials, of which the best counts
ADAPTIVE_TRIAL = 5.0  # simulated time of a trial with an adaptive solver, s
ENDING = {signal.SIGINT, signal.SIGTERM}  # signals for the main process only, blocked in its workers

LOOK_S = 0.1  # wall time between two reports while nothing is completed, s

Report = Callable[[str, int, int], None]  # (kind of work, amount done, total amount); may raise to stop the study


class InlineExecutor(Executor):
    """Executor that runs each call at once, in this process."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call the function and return a completed future."""
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def carry_out(study: Study, workers: int, report: Report) -> Results:
    """Results of a study: outcomes, costs and parts. They do not depend on `workers`, except for measured times.

    workers  number of worker processes; 0: computed in this process
    """
    with make_executor(workers) as crew:
        warm(study.runs, crew, report)
        results = Results(run_all(study.runs, crew, report))
        held = [run for run in study.measured if results[run].held]
        costs = one_by_one([(cost_of, run, study.trial_s) for run in held], "measuring times", crew, report)
        results.costs.update(zip(held, costs, strict=True))
        results.parts = work_out(study.parts, crew, report)
    return results


def work_out(parts: Sequence[Part], crew: Executor, report: Report) -> dict[str, Any]:
    """{part: result} of a study's parts, in the order of `parts`.

    Parts marked `alone` are computed first, one at a time. The very first part is also computed alone, so that the
    others find the code that it compiled on disk.
    """
    first = [part for k, part in enumerate(parts) if part.alone or k == 0]
    made = one_by_one([(part.make,) for part in first], "working out", crew, report, len(parts))
    found = dict(zip((part.name for part in first), made, strict=True))
    futures = {_submit(crew, part.make): part.name for part in parts if part.name not in found}
    for future in as_done(futures, lambda: report("working out", len(found), len(parts))):
        found[futures[future]] = future.result()
    report("working out", len(found), len(parts))
    return {part.name: found[part.name] for part in parts}


def one_by_one(
    calls: Sequence[tuple[Any, ...]], what: str, crew: Executor, report: Report, of: int | None = None
) -> list[Any]:
    """Results of calls (function, arguments ...), each started when the previous one has ended.

    what  kind of work, for the progress report
    of    total number to report, where more work follows; None: the number of calls
    """
    found: list[Any] = []
    of = len(calls) if of is None else of
    for call in calls:
        look = partial(report, what, len(found), of)
        look()
        found += [future.result() for future in as_done([_submit(crew, *call)], look)]
    report(what, len(calls), of)
    return found


def as_done(futures: Iterable[Future[Any]], look: Callable[[], None]) -> Iterator[Future[Any]]:
    """Yield futures as they complete; while waiting, call `look` every LOOK_S."""
    waiting = set(futures)
    while waiting:
        done, waiting = wait(waiting, LOOK_S, return_when=FIRST_COMPLETED)
        look()
        yield from done


@contextmanager
def make_executor(workers: int) -> Iterator[Executor]:
    """Context manager for an executor with `workers` processes, or an InlineExecutor for 0. An error ends the processes
    at once."""
    if workers == 0:
        yield InlineExecutor()
        return
    resource_tracker.ensure_running()  # started here, because starting it unblocks the signals that _submit blocks
    earlier = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=die_with_parent, initargs=(os.getpid(),))
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - earlier:
            process.kill()
        raise
    pool.shutdown()


def _submit(crew: Executor, fn: Callable[..., Any], *args: Any) -> Future[Any]:
    """Submit a call while SIGINT and SIGTERM are blocked, so that a worker started by the call leaves them to its
    parent."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING if isinstance(crew, ProcessPoolExecutor) else set())
    try:
        return crew.submit(fn, *args)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def warm(runs: Sequence[Run], crew: Executor, report: Report) -> None:
    """Derive each robot and compile each stepper once, so that the worker processes find the results on disk."""
    robots = {(run.robot, run.parameters): run for run in runs}
    steppers = {run.stepping.name: run for run in runs}
    of = len(robots) + len(steppers)
    done = 0

    def look() -> None:
        report("compiling", done, of)

    look()
    for firsts in (robots, steppers):  # robots before steppers, so that no two processes compile the same thing
        for future in as_done([_submit(crew, _first_step, run) for run in firsts.values()], look):
            future.result()
            done += 1
    look()


def _first_step(run: Run) -> None:
    simulation_of(run)[0].step()


def run_all(runs: Sequence[Run], crew: Executor, report: Report) -> dict[Run, Outcome]:
    """{run: its outcome}, in the order of `runs`."""
    report("simulating", 0, len(runs))
    futures = {_submit(crew, execute, run): run for run in sorted(runs, key=_size, reverse=True)}
    outcomes: dict[Run, Outcome] = {}
    for future in as_done(futures, lambda: report("simulating", len(outcomes), len(runs))):
        outcomes[futures[future]] = future.result()
    report("simulating", len(outcomes), len(runs))
    return {run: outcomes[run] for run in runs}


def _size(run: Run) -> float:
    """Rough duration of a run, to start long ones first."""
    return run.seconds / run.step_s


def cost_of(run: Run, trial_s: float) -> Cost:
    """Processor time of a run from its start, the best of TRIALS trials.

    A trial with a fixed step takes about `trial_s`; one with an adaptive solver, whose steps differ along the motion,
    covers the first ADAPTIVE_TRIAL simulated seconds, so that all cover the same motion.
    """
    sim, _ = simulation_of(run)
    n = max(1, round(run.seconds / run.step_s))
    sim.step()
    began = time.process_time()
    sim.step(min(50, n))
    steps = max(1, min(n, round(trial_s * min(50, n) / max(1e-9, time.process_time() - began))))
    if run.stepping.adaptive:
        steps = min(n, max(1, round(ADAPTIVE_TRIAL / run.step_s)))
    best = float("inf")
    for _ in range(TRIALS):
        sim.reset(q=run.start or None)
        began = time.process_time()
        sim.step(steps)
        best = min(best, time.process_time() - began)
    return Cost(best / steps, best / steps / run.step_s)
