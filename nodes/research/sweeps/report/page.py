"""HTML page of a sweep: pass rates with their confidence intervals, heat maps of numeric results, and the lost runs."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

from nodes.framework.recording.new_file import write_file
from nodes.research.pages.templates import template
from nodes.research.sweeps.axes import Axis
from nodes.research.sweeps.cells import LOST, Row, values_text
from nodes.research.sweeps.design import Sweep, SweepError
from nodes.research.sweeps.report.heat_maps import draw_map, draw_points
from nodes.research.sweeps.report.statistics import PASS_RATE, by_value, failures, grid, independent, pass_rate, varying
from nodes.research.sweeps.report.tables import figure_names, in_order
from nodes.research.sweeps.report.units import units_of, with_unit
from sim_core.support.suggestion import did_you_mean

PAGE, PICTURES = "index.html", "pictures"
SHOWN_FIGURES, SHOWN_PAIRS, SHOWN_LOST, SHOWN_VALUES = 7, 3, 50, 60


def write_page(
    folder: Path, sweep: Sweep, rows: Mapping[int, Row], figures: Sequence[str] = (), notes: Sequence[str] = ()
) -> Path:
    """Write the HTML page and its pictures, and return the path of the page.

    Raises SweepError with a one-line message if `figures` contains a name that is not a figure of any run.

    figures  names of the figures (numeric results) to draw; by default the pass rate and the first figures that differ
             between runs
    """
    ordered = in_order(rows)
    counted = independent(sweep, ordered)
    units = units_of(sweep)
    pictures, others = _pictures(folder, sweep, ordered, figures, units)
    lost = [row for row in ordered if row.result in LOST]
    text = template(Path(__file__).with_name("sweep.html.j2")).render(
        name=Path(sweep.launch).stem,
        folder=_folder_in_commands(sweep, folder),
        sweep=sweep,
        rows=len(ordered),
        total=pass_rate(counted),
        equal_repeats=len(counted) < len(ordered),
        counts=Counter(row.result for row in ordered).most_common(),
        failures=failures(ordered),
        rates=[
            (
                with_unit(axis.key, units),
                [(value.strip('"'), rate) for value, rate in by_value(sweep, axis, counted)],
            )
            for axis in _listed(sweep)
            if len(axis.values) <= SHOWN_VALUES
        ],
        pictures=pictures,
        has_maps=len(_listed(sweep)) > 1,
        has_points=len(_listed(sweep)) == 1 or any(axis.random for axis in sweep.axes),
        others=", ".join(others),
        lost=[(row, values_text(sweep.cell(row.cell).values)) for row in lost[:SHOWN_LOST]],
        more_lost=len(lost) - len(lost[:SHOWN_LOST]),
        cpu_s=sum(row.cpu_s for row in ordered),
        notes=notes,
    )
    write_file(folder / PAGE, text)
    return folder / PAGE


def _folder_in_commands(sweep: Sweep, folder: Path) -> str:
    """The folder as it is written in a command: below the directory in which the sweep was started, or absolute."""
    absolute = folder.absolute()
    inside = absolute.is_relative_to(sweep.cwd) and absolute != Path(sweep.cwd) and sweep.cwd != "/"
    return shlex.quote(str(absolute.relative_to(sweep.cwd) if inside else absolute))


def known_figures(rows: Mapping[int, Row]) -> list[str]:
    """Names of the figures: "pass_rate", and the names of all results of the runs."""
    return [PASS_RATE, *figure_names(in_order(rows))]


def check_figures(rows: Mapping[int, Row], figures: Sequence[str], option: str = "--figure") -> None:
    """Raise SweepError with a one-line message if `figures` contains a name that is not in `known_figures`.

    option  command-line option that gave the names, for the message
    """
    known = known_figures(rows)
    for name in figures:
        if name not in known:
            raise SweepError(f"{option} {name!r}: cells.csv has no such column{did_you_mean(name, known)}")


def _pictures(
    folder: Path, sweep: Sweep, rows: Sequence[Row], figures: Sequence[str], units: dict[str, str]
) -> tuple[list[tuple[str, str]], list[str]]:
    """Draw the pictures of the figures (numeric results).

    Returns ([(file, caption) of each picture], names of the figures that differ between runs and have no picture).
    """
    every = varying(rows)
    chosen = list(figures) or [PASS_RATE, *every[:SHOWN_FIGURES]]
    stage = Path(tempfile.mkdtemp(prefix=".pictures-", dir=folder))
    drawn: list[tuple[str, str]] = []
    try:
        listed, random = _listed(sweep), [axis for axis in sweep.axes if axis.random]
        for name in chosen:
            kept = combinations(listed, 2)
            for across, up in list(kept)[:SHOWN_PAIRS]:
                file = stage / f"{len(drawn):02d}_{_plain(name)}.png"
                draw_map(file, grid(sweep, rows, name, across, up), units)
                drawn.append((f"{PICTURES}/{file.name}", _caption(sweep, name, (across, up))))
            for axis in [*(listed if len(listed) == 1 else ()), *random][:SHOWN_PAIRS]:
                if axis.random and name == PASS_RATE:
                    continue
                file = stage / f"{len(drawn):02d}_{_plain(name)}.png"
                draw_points(file, sweep, independent(sweep, rows) if name == PASS_RATE else rows, name, axis, units)
                drawn.append((f"{PICTURES}/{file.name}", f"{_title(name)} over {axis.key}"))
        shutil.rmtree(folder / PICTURES, ignore_errors=True)
        if drawn:
            os.chmod(stage, 0o755)
            os.replace(stage, folder / PICTURES)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    return drawn, [name for name in every if name not in chosen]


def _listed(sweep: Sweep) -> list[Axis]:
    return [axis for axis in sweep.axes if not axis.random]


def _caption(sweep: Sweep, figure: str, over: Sequence[Axis]) -> str:
    """Caption of a heat map. The caption names means over other axes or over repeats."""
    rest = [axis.key for axis in sweep.axes if axis not in over] + (["repeats"] if sweep.repeat > 1 else [])
    mean = f", mean over {' and '.join(rest)}" if rest else ""
    return f"{_title(figure)} over {over[0].key} and {over[1].key}{mean}"


def _title(figure: str) -> str:
    return "pass rate" if figure == PASS_RATE else figure


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]+", "_", name)
