"""Schiehlen's stability measures beside their reference values, and the share of starts that tumble in figure 9.

    python tests/benchmarks/stability.py [--json FILE]

IS1_T   of the double pendulum's motion of figures 5 and 6, for five times T
IS2     of the single pendulum at five distances of the start, beside the closed form
double  IS2 of the double pendulum at r = 0.5 and 0.7, and whether a search finds tumbling below and above the distance
        from which the energy suffices
share   of a map of figure 9, and of random starts by scipy's DOP853 and by this project's kernels

All motions have T = 100 where no other time is given, and the paper's unit of time, 1 s. [Schiehlen1993]
"""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

from bars import json_file

from nodes.research.studies.schiehlen import schiehlen_runs as runs
from sim_core.analysis.stability import measure, worst

IS1 = {1.0: 2.9741, 5.0: 3.5930, 20.0: 3.6620, 50.0: 3.6843, 100.0: 3.6913}
RADII = (0.5, 1.0, 1.3, 1.45, 1.47)
CELLS, CHECKED, SEARCHES = 600, 3000, 1.0  # per axis of the map; random starts; share of the searches' motions


def line(name: str, found: float, bar: str) -> float:
    """Print a figure beside its bar, and return it."""
    print(f"  {name:<46} {found:12.6g}   {bar}")
    return found


def main(json_path: str | None = None) -> dict[str, Any]:
    """Print the figures beside their bars, and return them."""
    share, cells, checked = SEARCHES, int(CELLS), int(CHECKED)
    found: dict[str, Any] = {}
    single, double = runs.single(), runs.double()
    began = time.perf_counter()
    print("stability measures                                       found   bar")
    ours = {T: float(measure(double, [runs.EXAMPLE], seconds=T, time_unit_s=1.0).is1[0]) for T in IS1}
    away = max(abs(ours[T] - is1) for T, is1 in IS1.items())
    found["IS1_T, largest difference"] = line("five IS1_T, largest difference", away, "1e-4")
    tops = [worst(single, r, seconds=100.0, time_unit_s=1.0, runs=400).value for r in RADII]
    away = max(abs(top - runs.is2_of_single(r)) for r, top in zip(RADII, tops, strict=True))
    found["IS2 of the single pendulum, largest difference"] = line("five IS2, single pendulum", away, "1e-6")
    for r, most, bar in (
        (0.5, 7000, "3.6913 +- 1e-4"),
        (0.7, 7000, "3.955 at least, in 7,000 runs"),
        (0.7126, 13_000, "no tumbling, in 13,000 runs"),
        (0.713, 13_000, "tumbling, in 13,000 runs"),
    ):
        step_s = None if r == 0.5 else runs.STEP
        top = worst(double, r, seconds=100.0, time_unit_s=1.0, step_s=step_s, runs=round(share * most))
        over = bool(top.distances[:2].max() > math.pi)
        said = f"double pendulum, IS2({r:g}), {'tumbling' if over else 'no tumbling'}"
        found[f"IS2({r:g})"] = line(f"{said}, {top.runs} runs", top.value, bar)
        found[f"tumbling at {r:g}"] = over
    spans = runs.Spans(cells, cells, 1, 1, 1, checked)
    found["share"] = line(
        f"figure 9, share of {cells} x {cells} cells", runs.double_map(spans)["share"], "0.726 +- 0.003"
    )
    other = runs.check(spans)
    found["share by DOP853"] = line(f"share of {checked} random starts by DOP853", other["share"], "beside the next")
    found["share of the same starts"] = line("share of the same starts by our kernels", other["ours"], "")
    found["standard error"] = line("standard error of the two", other["error"], "")
    found["wall_s"] = line("wall time (s)", time.perf_counter() - began, "")
    if json_path is not None:
        Path(json_path).write_text(json.dumps(found, indent=2) + "\n")
    return found


if __name__ == "__main__":
    main(json_file(__doc__))
