"""Runs a study's runs, in several processes where that helps, and measures times where nobody else computes.

With processes, all that computes is in them: the one that started them only waits, so that it can be interrupted at
any moment, and takes them along when it ends.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any

from nodes.runtime.process import die_with_parent
from nodes.studies.runs import Outcome, Run, execute, simulation_of
from nodes.studies.study import Cost, Part, Results, Study

TRIALS = 3  # of which the best counts
ADAPTIVE_TRIAL = 5.0  # simulated s
ENDING = {signal.SIGINT, signal.SIGTERM}  # what the one who asked for a study is told by, and its workers are not

Report = Callable[[str, int, int], None]  # what is being done, how much of it is done, of how much


class Here(Executor):
    """Calls at once, in this process."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """A future that is done."""
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def carry_out(study: Study, workers: int, report: Report) -> Results:
    """Every outcome and every cost; 0 workers: in this process. Outcomes do not depend on `workers`."""
    with crew_of(workers) as crew:
        warm(study.runs, crew, report)
        results = Results(run_all(study.runs, crew, report))
        held = [run for run in study.measured if results[run].held]
        for done, run in enumerate(held):
            report("measuring times", done, len(held))
            results.costs[run] = _submit(crew, cost_of, run, study.trial_s).result()
        report("measuring times", len(held), len(held))
        results.parts = work_out(study.parts, crew, report)
    return results


def work_out(parts: Sequence[Part], crew: Executor, report: Report) -> dict[str, Any]:
    """What a study works out besides runs, by name, one after the other, so that times are taken alone."""
    found = {}
    for done, part in enumerate(parts):
        report("working out", done, len(parts))
        found[part.name] = _submit(crew, part.make).result()
    report("working out", len(parts), len(parts))
    return found


@contextmanager
def crew_of(workers: int) -> Iterator[Executor]:
    """Processes that compute, or this one (0). When the block is left by an error they are ended at once."""
    if workers == 0:
        yield Here()
        return
    resource_tracker.ensure_running()  # it unblocks the signals that _submit blocks
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
    """A process that this starts inherits what is blocked: an interrupt from the terminal is for its parent alone."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING if isinstance(crew, ProcessPoolExecutor) else set())
    try:
        return crew.submit(fn, *args)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def warm(runs: Sequence[Run], crew: Executor, report: Report) -> None:
    """Derive each robot and compile each stepper once, so that the processes find them on disk."""
    robots = {(run.robot, run.parameters): run for run in runs}
    steppers = {run.stepping.name: run for run in runs}
    of = len(robots) + len(steppers)
    report("compiling", 0, of)
    done = 0
    for firsts in (robots, steppers):  # one after the other: no two processes compile the same
        for future in as_completed([_submit(crew, _first_step, run) for run in firsts.values()]):
            future.result()
            done += 1
            report("compiling", done, of)


def _first_step(run: Run) -> None:
    simulation_of(run)[0].step()


def run_all(runs: Sequence[Run], crew: Executor, report: Report) -> dict[Run, Outcome]:
    """Outcomes in the order of `runs`."""
    report("simulating", 0, len(runs))
    futures = {_submit(crew, execute, run): run for run in sorted(runs, key=_size, reverse=True)}
    outcomes = {}
    for done, future in enumerate(as_completed(futures)):
        outcomes[futures[future]] = future.result()
        report("simulating", done + 1, len(runs))
    return {run: outcomes[run] for run in runs}


def _size(run: Run) -> float:
    """How long a run may take, roughly: the long ones go first."""
    return run.seconds / run.step_s


def cost_of(run: Run, trial_s: float) -> Cost:
    """The best of some trials from the start, in time of the processor.

    A trial of a fixed step takes about trial_s; one of an adaptive solver, whose steps differ along the motion, takes
    the first ADAPTIVE_TRIAL of it, so that all are timed over the same.
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
