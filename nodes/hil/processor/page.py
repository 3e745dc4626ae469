"""HTML page of a comparison of two processors: the result, and a histogram of the durations of the nodes' lockstep
steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path

import numpy as np

from nodes.hil.processor.comparison import CommandComparison, TurnTimes
from nodes.research.pages.style import BLUE, VERMILION

PAGE, PICTURE = "index.html", "turn_times.svg"
QUANTILES = (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("at most", 1.0))
BINS = 80


def rows_of(times: Mapping[str, TurnTimes]) -> list[tuple[str, ...]]:
    """Rows of a table, one per node: its name, its number of turns (lockstep steps), and quantiles of their durations.

    All entries are text, such as "12.3 us"; a quantile without turns is "-".
    """
    found = []
    for name, each in times.items():
        quantiles = (each.quantile_s(share) for _, share in QUANTILES)
        found.append((name, str(len(each.ns)), *("-" if at is None else f"{1e6 * at:.3g} us" for at in quantiles)))
    return found


def write_page(folder: Path, title: str, compared: CommandComparison, times: Mapping[str, TurnTimes]) -> Path:
    """Write the page and its picture to a folder; returns the path of the page."""
    drawn = draw(folder / PICTURE, times)
    head = "".join(f"<th>{escape(each)}</th>" for each in ("node", "turns", *(name for name, _ in QUANTILES)))
    body = "".join("<tr>" + "".join(f"<td>{escape(each)}</td>" for each in row) + "</tr>" for row in rows_of(times))
    picture = f'<img src="{PICTURE}" alt="histogram of the times per turn">' if drawn else ""
    page = folder / PAGE
    page.write_text(
        "<!doctype html><meta charset='utf-8'>"
        f"<title>{escape(title)}</title><style>body{{font:16px sans-serif;margin:2em auto;max-width:50em}}"
        "td,th{padding:.2em 1em;text-align:right}td:first-child,th:first-child{text-align:left}</style>"
        f"<h1>{escape(title)}</h1><p><b>{escape(compared.text)}</b></p>"
        "<p>Time per turn, by the node's own clock, from the arrival of the request to the reply. Under an emulator it"
        " is the emulator's time, not the processor's.</p>"
        f"<table><tr>{head}</tr>{body}</table>{picture}",
        encoding="utf-8",
    )
    return page


def draw(file: Path, times: Mapping[str, TurnTimes]) -> bool:
    """Draw a histogram of the durations of each node's turns (lockstep steps) to a file; returns False if there are no
    durations.
    """
    there = {name: each.ns[each.ns > 0] * 1e-3 for name, each in times.items() if (each.ns > 0).any()}
    if not there:
        return False
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    low, high = min(each.min() for each in there.values()), max(each.max() for each in there.values())
    bins = np.geomspace(low, max(high, 1.01 * low), BINS).tolist()
    figure, axes = pyplot.subplots(figsize=(8.0, 3.6), layout="constrained")
    for (name, each), color in zip(there.items(), (BLUE, VERMILION), strict=False):
        axes.hist(each, bins=bins, histtype="step", color=color, label=name, log=True)
    axes.set(xscale="log", xlabel="time per turn, us", ylabel="turns")
    axes.legend(frameon=False)
    figure.savefig(file)
    pyplot.close(figure)
    return True
