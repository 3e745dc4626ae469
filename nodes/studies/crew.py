"""Runs a study's runs, in several processes where that helps, and measures times where nobody else computes."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

from nodes.studies.runs import Outcome, Run, execute, simulation_of
from nodes.studies.study import Cost, Part, Results, Study

TRIALS = 3  # of which the best counts

Report = Callable[[str, int, int], None]  # what is being done, how much of it is done, of how much


def carry_out(study: Study, workers: int, report: Report) -> Results:
    """Every outcome and every cost. Outcomes do not depend on `workers`."""
    warm(study.runs, report)
    results = Results(run_all(study.runs, workers, report))
    held = [run for run in study.measured if results[run].held]
    for done, run in enumerate(held):
        report("measuring times", done, len(held))
        results.costs[run] = cost_of(run, study.trial_s)
    results.parts = work_out(study.parts, report)
    return results


def work_out(parts: Sequence[Part], report: Report) -> dict[str, Any]:
    """What a study works out besides runs, by name, one after the other."""
    found = {}
    for done, part in enumerate(parts):
        report("working out", done, len(parts))
        found[part.name] = part.make()
    if parts:
        report("working out", len(parts), len(parts))
    return found


def warm(runs: Sequence[Run], report: Report) -> None:
    """Derive and compile each robot and each stepper once, so that the processes find them on disk."""
    firsts = list({(run.robot, run.parameters, run.stepping.name): run for run in runs}.values())
    for done, run in enumerate(firsts):
        report("compiling", done, len(firsts))
        simulation_of(run)[0].step()


def run_all(runs: Sequence[Run], workers: int, report: Report) -> dict[Run, Outcome]:
    """Outcomes in the order of `runs`."""
    if workers <= 1:
        found = {}
        for done, run in enumerate(runs):
            report("simulating", done, len(runs))
            found[run] = execute(run)
        return found
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        futures = {pool.submit(execute, run): run for run in sorted(runs, key=_size, reverse=True)}
        outcomes = {}
        for done, future in enumerate(as_completed(futures)):
            outcomes[futures[future]] = future.result()
            report("simulating", done + 1, len(runs))
    return {run: outcomes[run] for run in runs}


def _size(run: Run) -> float:
    """How long a run may take, roughly: the long ones go first."""
    return run.seconds / run.step_s


def cost_of(run: Run, trial_s: float) -> Cost:
    """The best of some batches of steps from the start, each of about trial_s, in time of the processor."""
    sim, _ = simulation_of(run)
    n = max(1, round(run.seconds / run.step_s))
    sim.step()
    began = time.process_time()
    sim.step(min(50, n))
    steps = max(1, min(n, round(trial_s * min(50, n) / max(1e-9, time.process_time() - began))))
    best = float("inf")
    for _ in range(TRIALS):
        sim.reset(q=run.start or None)
        began = time.process_time()
        sim.step(steps)
        best = min(best, time.process_time() - began)
    return Cost(best / steps, best / steps / run.step_s)
