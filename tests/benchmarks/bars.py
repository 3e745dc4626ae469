"""Bars of the benchmarks, and ratios of turns that alternate.

A benchmark lists its bars in its figures: {"bars": [at_most(...), at_least(...)]}. `run.py` measures a benchmark that
misses one once more, and ends with exit code 1 if the same bar is missed again.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NOT_MEASURED = 77  # exit code of a benchmark that cannot be measured here, after it printed the reason


def json_file(about: str | None) -> str | None:
    """FILE of a benchmark's command line `[--json FILE]`; `--help` prints the docstring `about`, and ends."""
    return json_file_and_parts(about, [])[0]


def json_file_and_parts(about: str | None, parts: Collection[str]) -> tuple[str | None, list[str]]:
    """(FILE, chosen parts, by default all of them) of a command line such as `chains planar --json FILE`.

    The program is started anew with one thread of BLAS, as `armswing` has: idle threads count as processor time.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", help="write all figures to FILE")
    if parts:
        parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(parts)}; all if none is named")
    given = parser.parse_args()
    chosen = getattr(given, "parts", [])
    if unknown := [part for part in chosen if part not in parts]:
        parser.error(f"no such part: {', '.join(unknown)}; choose of {', '.join(parts)}")
    if "OPENBLAS_NUM_THREADS" not in os.environ:
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"OPENBLAS_NUM_THREADS": "1"})
    return given.json, [part for part in parts if part in chosen] or list(parts)


def at_most(what: str, value: float, bar: float) -> dict[str, Any]:
    """A figure `what` that is to be at most `bar`."""
    return {"what": what, "value": value, "bar": bar, "met": value <= bar}


def at_least(what: str, value: float, bar: float) -> dict[str, Any]:
    """A figure `what` that is to be at least `bar`."""
    return {"what": what, "value": value, "bar": bar, "met": value >= bar}


def reported(figures: dict[str, Any], bars: list[dict[str, Any]], json_path: str | None) -> dict[str, Any]:
    """The figures with their bars, which are printed; all are written as JSON where a path is given."""
    figures["bars"] = bars
    for row in bars:
        print(f"  {row['what']:58s} {row['value']:9.3f}   bar {row['bar']:g}", flush=True)
    if json_path is not None:
        Path(json_path).write_text(json.dumps(figures, indent=2) + "\n")
    return figures


def missed(figures: dict[str, Any] | None) -> dict[str, str]:
    """{what: "value, bar"} of the bars that the figures of a benchmark miss."""
    rows = (figures or {}).get("bars", [])
    return {row["what"]: f"{row['value']:.4g}, bar {row['bar']:g}" for row in rows if not row["met"]}


@dataclass(frozen=True)
class Paired:
    """Median of the ratios of turns that alternate.

    ratio      median of ours / theirs over the pairs
    low, high  95 % interval of this median
    ours, theirs  medians of the turns
    fast, slow  10 % and 90 % quantiles of their turns: the modes of the computer, if the two differ much
    """

    ratio: float
    low: float
    high: float
    ours: float
    theirs: float
    fast: float
    slow: float
    pairs: int

    def text(self) -> str:
        """The ratio with its interval, and the range of their turns, in units of their median."""
        return (
            f"{self.ratio:5.2f} ({self.low:.2f} .. {self.high:.2f}, {self.pairs} pairs; "
            f"their turns {self.fast / self.theirs:.2f} .. {self.slow / self.theirs:.2f} of their median)"
        )


def alternate(ours: Callable[[], float], theirs: Callable[[], float], pairs: int) -> Paired:
    """Measure ours and theirs by turns, in the order ours, theirs, theirs, ours, ... Any figure > 0 will do."""
    found = []
    for pair in range(pairs):
        if pair % 2:
            second, first = theirs(), ours()
        else:
            first, second = ours(), theirs()
        found.append((first, second))
    return paired(found)


def paired(found: Sequence[tuple[float, float]]) -> Paired:
    """`Paired` of measured (ours, theirs).

    The interval of the median lies between two of the sorted ratios (binomial distribution of the number of ratios
    below the median, normal approximation).
    """
    ratios, n = sorted(a / b for a, b in found), len(found)
    rank = max(math.floor(0.5 * n - 0.98 * math.sqrt(n)), 0)
    theirs = sorted(b for _, b in found)
    return Paired(
        ratio=statistics.median(ratios),
        low=ratios[rank],
        high=ratios[n - 1 - rank],
        ours=statistics.median(a for a, _ in found),
        theirs=statistics.median(theirs),
        fast=theirs[n // 10],
        slow=theirs[n - 1 - n // 10],
        pairs=n,
    )
