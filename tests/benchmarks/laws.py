"""Cost of every stabilizing law per constraint row, beside scikit-fuzzy's own controller of the same 25 rules.

    python tests/benchmarks/laws.py [--json FILE]

A law is called on 1000 rows at once, pinned to one core: nanoseconds per row, minimum and median. "spread" rows lie all
over the universe, "settled" ones within 1 % of its middle, where a simulation spends its time.
"""

from __future__ import annotations

import ctypes
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
from bars import at_most, json_file

from sim_core.integrators.steppers import stepper_named
from sim_core.stabilization.membership import CENTERS, CONJUNCTIONS, KINDS, FuzzySets
from sim_core.stabilization.rules import RULES
from sim_core.stabilization.stabilizers import PID, Baumgarte, FuzzyPaper, SampledFuzzy, Stabilizer

ROWS, CALLS, REPEATS = 1000, 20, 15
BAR_NS = 50.0
STEP = 1e-3


def variants() -> dict[str, tuple[Stabilizer, int]]:
    """Every law and its number of holonomic rows: all of them, or none for the five rules of a single input."""
    found: dict[str, tuple[Stabilizer, int]] = {"baumgarte": (Baumgarte(), ROWS), "pid": (PID(), ROWS)}
    for kind in KINDS:
        for conjunction in CONJUNCTIONS:
            sets = FuzzySets(kind, conjunction)  # type: ignore[arg-type]
            found[f"fuzzy_paper, {kind}, {conjunction}"] = FuzzyPaper(1.0, 1.0, 1.0, sets), ROWS
            found[f"sampled_fuzzy, {kind}, {conjunction}"] = SampledFuzzy(saturation=1.0, sets=sets), ROWS
        found[f"fuzzy_paper, {kind}, single input"] = FuzzyPaper(1.0, 1.0, 1.0, FuzzySets(kind)), 0  # type: ignore[arg-type]
    return found


def cost(stabilizer: Stabilizer, n_holonomic: int, spread: float) -> dict[str, float]:
    """ns per row."""
    random = np.random.default_rng(1)
    phi, phidot = spread * random.uniform(-1.2, 1.2, (2, ROWS))
    gains = stabilizer.gains(STEP, stepper_named("rk4"), 1.0)
    arrays = [phi, phidot, gains, np.zeros(ROWS), np.zeros(ROWS)]
    double = ctypes.POINTER(ctypes.c_double)
    kind = ctypes.CFUNCTYPE(None, *[double] * 5, ctypes.c_double, ctypes.c_int64, ctypes.c_int64)
    law = kind(stabilizer.law_address())
    arguments = (*[a.ctypes.data_as(double) for a in arrays], STEP, n_holonomic, ROWS)
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        for _ in range(CALLS):
            law(*arguments)
        times.append((time.perf_counter() - start) / (CALLS * ROWS) * 1e9)
    return {"min_ns": min(times), "median_ns": statistics.median(times)}


def scikit_fuzzy() -> float:
    """ns for one input pair by skfuzzy.control, the same sets and rules; it defuzzifies areas, not single spikes."""
    from skfuzzy import control, membership

    universe = np.linspace(-1, 1, 201)
    x, y = control.Antecedent(universe, "x"), control.Antecedent(universe, "y")
    U = control.Consequent(universe, "U")
    for variable in (x, y, U):
        for center in CENTERS:
            variable[str(center)] = membership.trimf(universe, [center - 0.5, center, center + 0.5])
    rules = [
        control.Rule(x[str(a)] & y[str(b)], U[str(float(RULES[i, j]))])
        for i, a in enumerate(CENTERS)
        for j, b in enumerate(CENTERS)
    ]
    simulation = control.ControlSystemSimulation(control.ControlSystem(rules), cache=False)
    times = []
    for value in np.linspace(-0.9, 0.9, 7):
        start = time.perf_counter()
        simulation.input["x"], simulation.input["y"] = value, 0.3
        simulation.compute()
        times.append((time.perf_counter() - start) * 1e9)
    return statistics.median(times)


def main(json_path: str | None = None) -> dict[str, Any]:
    """Measure every law, print the table, write JSON where asked, and give the figures."""
    affinity = os.sched_getaffinity(0)
    core = min(affinity)
    os.sched_setaffinity(0, {core})
    try:
        costs = {
            name: {"spread": cost(law, holonomic, 1.0), "settled": cost(law, holonomic, 0.01)}
            for name, (law, holonomic) in variants().items()
        }
        peer = scikit_fuzzy()
    finally:
        os.sched_setaffinity(0, affinity)
    print(f"law, ns per constraint row (core {core}): spread minimum / median, settled minimum / median")
    for name, figures in costs.items():
        numbers = [figures[where][which] for where in ("spread", "settled") for which in ("min_ns", "median_ns")]
        print(f"  {name:38}" + "".join(f"{number:8.1f}" for number in numbers))
    worst = max(figures["spread"]["min_ns"] for figures in costs.values())
    print(f"  dearest law {worst:.1f} ns (minimum), bar {BAR_NS:.0f} ns: {'met' if worst <= BAR_NS else 'MISSED'}")
    print(f"  scikit-fuzzy's control system, triangles: {peer / 1e6:.2f} ms")
    result = {"core": core, "laws_ns": costs, "scikit_fuzzy_ns": peer}
    result["bars"] = [at_most("dearest law, ns", worst, BAR_NS)]
    if json_path:
        Path(json_path).write_text(json.dumps(result, indent=1))
    return result


if __name__ == "__main__":
    main(json_file(__doc__))
