"""Processor time of the longest work of the nodes of a launch file, for `armswing doctor`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from nodes.cli.terminal import InputError
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.key_checks import PlanError, convert
from nodes.framework.plan.node_classes import load_class

CALLS, WARM_CALLS = 300, 20


def rehearsals(launch: str) -> Iterator[tuple[str, float, Callable[[], Any]]]:
    """(name, solve_ms, rehearsal) of the nodes of a launch file that have one, in this process."""
    try:
        plan = load_plan(launch)
        for node in plan.nodes:
            cls = load_class(node.run, plan.folder)
            params: Any = convert(node.params, cls.Params, node.name)
            if (work := cls.rehearsal(params, plan)) is not None:
                yield node.name, params.solve_ms, work
    except PlanError as error:
        raise InputError(str(error)) from error


def processor_times_ms(work: Callable[[], Any]) -> tuple[float, float]:
    """Median and 99th percentile of the processor time of a call, ms."""
    for _ in range(WARM_CALLS):
        work()
    times = []
    for _ in range(CALLS):
        before = time.process_time()
        work()
        times.append(time.process_time() - before)
    p50, p99 = 1e3 * np.percentile(times, [50, 99])
    return float(p50), float(p99)
