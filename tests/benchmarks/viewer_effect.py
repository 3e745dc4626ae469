"""Effect of the viewer on the simulation server: step times of runs with and without a window, in interleaved pairs.

    python tests/benchmarks/viewer_effect.py [--pairs 10] [--seconds 20] [--json FILE]

Each run is a launch of CHARMIE of its own, with states at 250 Hz; the window has 40 curves. The step times begin anew
(reset) when run and window have settled. Which of a pair comes first alternates. Bars: the median over the pairs of
the ratio of the p50 is at most 1.1, and each p99 with a window lies inside the spread of those without. The figures
mean nothing on a busy computer.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

from bars import at_most, reported
from live_window import Window, launched

RATIO_BAR = 1.1
RATE_HZ = 250.0
PAIRS = 10
SECONDS, SETTLE_S = 20.0, 5.0


def run(with_window: bool, seconds: float) -> tuple[float, float]:
    """(p50, p99) of the step time of one run, s."""
    from nodes.framework.client import Client

    with launched(RATE_HZ) as folder:
        window = Window(folder, SETTLE_S, seconds + SETTLE_S) if with_window else None
        time.sleep(SETTLE_S)
        with Client() as client:
            client.call("sim", "reset")
            time.sleep(seconds)
            status = client.sim_status()
        if window is not None:
            window.close()
    return status["step_p50_s"], status["step_p99_s"]


def main(json_path: str | None = None, pairs: int | None = None, seconds: float | None = None) -> dict[str, Any]:
    """Measure, print a row per pair and the bars, and write them as JSON where asked to."""
    length_s = SECONDS if seconds is None else seconds
    found: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    print("step of the server, us      without window        with window     p50 with / without")
    for number in range(PAIRS if pairs is None else pairs):
        for with_window in (number % 2 == 0, number % 2 == 1):
            found[with_window].append(run(with_window, length_s))
        (p50, p99), (p50_with, p99_with) = (found[kind][-1] for kind in (False, True))
        row = f"p50 {1e6 * p50:6.1f}  p99 {1e6 * p99:6.1f}   p50 {1e6 * p50_with:6.1f}  p99 {1e6 * p99_with:6.1f}"
        print(f"  pair {number + 1:2d}   {row}   {p50_with / p50:6.3f}", flush=True)
    ratio = statistics.median(w[0] / a[0] for a, w in zip(found[False], found[True], strict=True))
    low, high = (1e6 * limit(row[1] for row in found[False]) for limit in (min, max))
    above = sum(1e6 * row[1] > high for row in found[True])
    print(f"  p99 without a window {low:.1f} .. {high:.1f} us")
    figures = {"without": found[False], "with": found[True], "ratio": ratio, "above": above}
    bars = [at_most("ratio of p50", ratio, RATIO_BAR), at_most("p99 above those without a window", above, 0)]
    return reported(figures, bars, json_path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="number of pairs of runs (10)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="time that is measured in each run (20)")
    arguments = parser.parse_args()
    main(arguments.json, arguments.pairs, arguments.seconds)
