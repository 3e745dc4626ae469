"""Executes the runs of a study, in several processes if requested, and measures computing times one at a time.

With worker processes, the main process waits and calls the function `report` several times a second. To stop the study,
`report` raises an error; the worker processes are then ended.
"""

from __future__ import annotations

import math
import pickle
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from nodes.research.studies.framework.runs import Outcome, Run, execute, simulation_of
from nodes.research.studies.framework.study import Cost, Part, Results, Study
from nodes.research.workers import Loss, Pool

TRIALS = 3  # number of trials, of which the best counts
ADAPTIVE_TRIAL = 5.0  # simulated time of a trial with an adaptive solver, s

Report = Callable[[str, int, int], None]  # (kind of work, amount done, total amount); may raise to stop the study


class LostWorkerError(RuntimeError):
    """Raised when a worker process of a study ended before it returned the result of its task. The message is one
    line."""


class Call(NamedTuple):
    """A function call to execute: the function, its arguments, and the index `place` of the call in a list of calls."""

    place: int
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


# Makes calls, and yields (`Call.place`, result) of each in the order in which they end. The second argument is a
# function that is called after each call or, with worker processes, several times a second; it may raise to stop them.
Executor = Callable[[Sequence[Call], Callable[[], None]], Iterator[tuple[int, Any]]]


def in_this_process(calls: Sequence[Call], poll: Callable[[], None]) -> Iterator[tuple[int, Any]]:
    """Executor that makes the calls in this process, one after the other."""
    for call in calls:
        yield call.place, call.function(*call.arguments)
        poll()


class Raised(NamedTuple):
    """The error that a call raised in place of a result."""

    error: BaseException


class CallJob:
    """Job of a study's worker processes. Each task of the job is a function call (`Call`), encoded as bytes."""

    def encode(self, task: Call) -> bytes:
        """A call as bytes."""
        return pickle.dumps(task)

    def do(self, task: bytes) -> bytes:
        """Make the encoded call `task`. Returns the encoded result or, if the call raised an error, that error as
        `Raised`.
        """
        try:
            call = pickle.loads(task)
            return pickle.dumps(call.function(*call.arguments))
        except Exception as error:
            where = "".join(traceback.format_exception(error))
            error.add_note(f"In a worker process:\n{where}")
            try:
                return pickle.dumps(Raised(error))
            except Exception:  # an error that cannot be sent
                return pickle.dumps(Raised(RuntimeError(where)))

    def decode(self, result: bytes) -> Any:
        """Result of a call from its bytes."""
        return pickle.loads(result)

    def lost(self, task: Call, loss: Loss) -> Any:
        """The result of a call whose worker process ended: a LostWorkerError as `Raised`."""
        return Raised(LostWorkerError(f"a worker process of the study was lost: {loss.reason}"))


def carry_out(study: Study, workers: int, report: Report) -> Results:
    """Compute the results of a study: outcomes of its runs, computing times, and results of its other computations.

    Apart from measured times, the results do not depend on `workers`.

    workers  number of worker processes; with 0, this process computes everything
    """
    with make_executor(workers) as executor:
        warm(study.runs, executor, report)
        results = Results(run_all(study.runs, executor, report))
        held = [run for run in study.measured if results[run].held]
        costs = one_by_one([(cost_of, run, study.trial_s) for run in held], "measuring times", executor, report)
        results.costs.update(zip(held, costs, strict=True))
        results.parts = work_out(study.parts, executor, report)
    return results


def work_out(parts: Sequence[Part], executor: Executor, report: Report) -> dict[str, Any]:
    """{name of a part: its result} for the parts (computations) of a study, in the order of `parts`.

    The first part and all parts that are marked `alone` are computed before the other parts, one at a time. The first
    part stores compiled code on disk, which the later parts use.
    """
    first = [part for k, part in enumerate(parts) if part.alone or k == 0]
    made = one_by_one([(part.make,) for part in first], "working out", executor, report, len(parts))
    found = dict(zip((part.name for part in first), made, strict=True))
    left = [part for part in parts if part.name not in found]
    calls = [Call(k, part.make, ()) for k, part in enumerate(left)]
    for k, result in executor(calls, lambda: report("working out", len(found), len(parts))):
        found[left[k].name] = result
    report("working out", len(found), len(parts))
    return {part.name: found[part.name] for part in parts}


def one_by_one(
    calls: Sequence[tuple[Any, ...]], what: str, executor: Executor, report: Report, of: int | None = None
) -> list[Any]:
    """Make function calls one after the other, and return their results.

    calls  (function, first argument, second argument, ...) of each call
    what   name of the work, which the progress report shows
    of     total number of calls for the progress report; None: the length of `calls`
    """
    found: list[Any] = []
    of = len(calls) if of is None else of
    for call in calls:
        poll = partial(report, what, len(found), of)
        poll()
        found += [result for _, result in executor([Call(0, call[0], call[1:])], poll)]
    report(what, len(calls), of)
    return found


@contextmanager
def make_executor(workers: int) -> Iterator[Executor]:
    """Context manager for an executor. The executor's `workers` processes end when the context is left.

    If `workers` is 0, the executor makes the calls in this process. Otherwise it raises the error of a call that
    failed, and LostWorkerError if a worker process ended.
    """
    if workers == 0:
        yield in_this_process
        return
    with Pool(CallJob(), workers, math.inf) as pool:

        def in_pool(calls: Sequence[Call], poll: Callable[[], None]) -> Iterator[tuple[int, Any]]:
            for call, result in pool.results(calls, poll):
                if isinstance(result, Raised):
                    raise result.error
                yield call.place, result

        yield in_pool


def warm(runs: Sequence[Run], executor: Executor, report: Report) -> None:
    """Derive the equations of each robot and compile each stepper once.

    Equations and compiled code are stored on disk, and worker processes load both from there.
    """
    robots = {(run.robot, run.parameters): run for run in runs}
    steppers = {run.stepping.name: run for run in runs}
    of = len(robots) + len(steppers)
    done = 0

    def poll() -> None:
        report("compiling", done, of)

    poll()
    for firsts in (robots, steppers):  # robots before steppers, so that no two processes compile the same thing
        for _ in executor([Call(k, _first_step, (run,)) for k, run in enumerate(firsts.values())], poll):
            done += 1
    poll()


def _first_step(run: Run) -> None:
    simulation_of(run)[0].step()


def run_all(runs: Sequence[Run], executor: Executor, report: Report) -> dict[Run, Outcome]:
    """Execute all runs and return {run: its outcome}, in the order of `runs`."""
    report("simulating", 0, len(runs))
    ordered = sorted(runs, key=_size, reverse=True)
    calls = [Call(k, execute, (run,)) for k, run in enumerate(ordered)]
    outcomes: dict[Run, Outcome] = {}
    for k, outcome in executor(calls, lambda: report("simulating", len(outcomes), len(runs))):
        outcomes[ordered[k]] = outcome
    report("simulating", len(outcomes), len(runs))
    return {run: outcomes[run] for run in runs}


def _size(run: Run) -> float:
    """Number of time steps of a run, an estimate of its computing time by which the runs are ordered."""
    return run.seconds / run.step_s


def cost_of(run: Run, trial_s: float) -> Cost:
    """Measure the processor time of a run: the shortest time of TRIALS trials.

    Each trial simulates the beginning of the run. With a fixed step size, a trial lasts about `trial_s` seconds of
    processor time. With an adaptive solver, whose step size varies along the motion, a trial lasts ADAPTIVE_TRIAL
    simulated seconds.
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
