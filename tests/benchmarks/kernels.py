"""What CHARMIE's kernels are made of, what each means of speed gives, and how soon they are ready.

    python tests/benchmarks/kernels.py [--json FILE]

Calls go from a native loop, pinned to one core, the ways of one kernel in turn; microseconds of processor time per
system, minimum and median. Ready: `assemble` in processes of their own, with an empty cache and with a full one.
Beside other engines: engines.py.
"""

from __future__ import annotations

import collections
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from bars import at_most, json_file

from robots.registry import build
from sim_core.derivation.equations import derive, derive_batch
from sim_core.kernels.bound import pointer_table
from sim_core.kernels.compiled import call_kernel, loop
from sim_core.kernels.emit import module_of
from sim_core.kernels.machine_code import native
from sim_core.kernels.pairing import paired
from sim_core.kernels.program import program_of

ROBOT = "charmie"
KERNELS = ("inverse_dynamics", "forward_dynamics")
CALLS, TURNS, STARTS = 2000, 60, 5
COLD_BAR_S, WARM_BAR_S = 3.0, 0.1
READY = """
import json, sys, time
from robots.registry import build
mechanism = build("charmie")
wall, cpu = time.perf_counter(), time.process_time()
from sim_core.system import assemble
system = assemble(mechanism)
figures = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
print(json.dumps({**figures, "from_cache": system.from_cache, "casadi": "casadi" in sys.modules}))
"""


@loop
def _repeat(address: int, inputs: int, outputs: int, calls: int) -> None:
    for _ in range(calls):
        call_kernel(address, inputs, outputs)


class Way:
    """One way to compile a kernel, called on one state (every lane the same)."""

    def __init__(self, function: Any, twins: Mapping[str, Any] | None, lanes: int) -> None:
        self.lanes = lanes
        self._library = native.linked(module_of({"kernel": function}, twins, lanes), ["kernel"])
        random = np.random.default_rng(7)
        sizes = [function.numel_in(k) for k in range(function.n_in())]
        numbers = [random.normal(size=size) for size in sizes]
        inputs = [np.ascontiguousarray(np.repeat(value[:, None], lanes, axis=1)) for value in numbers]
        outputs = [np.zeros((function.numel_out(k), lanes)) for k in range(function.n_out())]
        self._keep = inputs, outputs, pointer_table(inputs), pointer_table(outputs)
        self._arguments = self._library.addresses["kernel"], *[table.ctypes.data for table in self._keep[2:]]
        self.us: list[float] = []

    def turn(self) -> None:
        """One turn of CALLS calls."""
        start = time.thread_time_ns()
        _repeat(*self._arguments, CALLS)
        self.us.append((time.thread_time_ns() - start) / CALLS / self.lanes * 1e-3)


def speeds(functions: dict[str, Any], twins: Mapping[str, Any]) -> dict[str, dict[str, dict[str, float]]]:
    """us per call and system of every kernel and way."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name in KERNELS:
        ways = {"one by one": Way(functions[name], None, 1), "arms in pairs": Way(functions[name], twins, 1)}
        ways |= {f"{lanes} systems": Way(functions[name], None, lanes) for lanes in (2, 4, 8)}
        for _ in range(TURNS):
            for way in ways.values():
                way.turn()
        found[name] = {
            label: {"min_us": min(way.us), "median_us": statistics.median(way.us)} for label, way in ways.items()
        }
    return found


def contents(functions: dict[str, Any], twins: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Operations of every kernel, after cleaning; `in pairs` those that are made two by two."""
    found = {}
    for name in KERNELS:
        program, pairs = paired(program_of(functions[name]), twins)
        counts = collections.Counter(node.op for node in program.nodes)
        arithmetic = ("fadd", "fsub", "fmul", "fdiv")
        doubled = 2 * sum(program.nodes[left].op in arithmetic for left, _ in pairs)
        angles = len({node.args for node in program.nodes if node.op in ("sin", "cos")})
        found[name] = {**{op: counts[op] for op in arithmetic}, "angles": angles, "in pairs": doubled}
    return found


def ready(cache: str) -> dict[str, Any]:
    """Wall and processor time of `assemble` in a fresh process."""
    here = [sys.executable, "-P", "-c", READY]
    done = subprocess.run(here, env=os.environ | {"XDG_CACHE_HOME": cache}, capture_output=True, text=True, check=True)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def main(json_path: str | None = None) -> dict[str, Any]:
    """Measure, print the tables, write JSON where asked, and give the figures."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    mechanism = build(ROBOT)
    twins, functions = derive(mechanism).twins, derive_batch(mechanism)
    result: dict[str, Any] = {"robot": ROBOT, "contents": contents(functions, twins)}
    result["us"] = speeds(functions, twins)
    with tempfile.TemporaryDirectory() as cache:
        cold = ready(cache)
        warm = min((ready(cache) for _ in range(STARTS)), key=lambda figures: float(figures["wall_s"]))
    result["ready"] = {"cold": cold, "warm": warm}
    result["bars"] = [
        at_most(f"ready {label}, s", min(figures["wall_s"], figures["cpu_s"]), bar)
        for label, figures, bar in (("cold", cold, COLD_BAR_S), ("warm", warm, WARM_BAR_S))
    ]
    for name in KERNELS:
        print(f"{ROBOT}, {name}: {', '.join(f'{count} {what}' for what, count in result['contents'][name].items())}")
        for label, cost in result["us"][name].items():
            print(f"  {label:14} {cost['min_us']:7.4f} {cost['median_us']:7.4f} us per system")
    for label, figures, bar in (("cold", cold, COLD_BAR_S), ("warm", warm, WARM_BAR_S)):
        verdict = "met" if min(figures["wall_s"], figures["cpu_s"]) <= bar else "MISSED"
        seconds = f"{figures['wall_s']:.3f} s, {figures['cpu_s']:.3f} s of processor time"
        print(f"  ready {label}: {seconds}; bar {bar} s: {verdict}")
    if json_path:
        Path(json_path).write_text(json.dumps(result, indent=1))
    return result


if __name__ == "__main__":
    main(json_file(__doc__))
