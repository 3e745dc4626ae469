"""Results of a sweep as JUnit XML, which CI systems read: a test case per run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from nodes.framework.recording.new_file import new_file
from nodes.research.sweeps.cells import ENDED, LOST, PASSED, Row, values_text
from nodes.research.sweeps.design import Sweep
from nodes.research.sweeps.report.tables import in_order

JUNIT = "junit.xml"
MOST_CASES = 100_000  # a larger file serves no CI system
FORBIDDEN = re.compile(r"[^\t\n\r -\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]")  # characters that XML lacks


def write_junit(folder: Path, sweep: Sweep, rows: Mapping[int, Row]) -> Path | None:
    """Write the results as JUnit XML and return the path; for more than MOST_CASES runs, write nothing and return None.

    Runs that did not pass are failures; lost runs are errors.
    """
    if len(rows) > MOST_CASES:
        return None
    ordered, name = in_order(rows), Path(sweep.launch).stem
    failed = sum(row.result in ENDED and row.result != PASSED for row in ordered)
    suite = ElementTree.Element(
        "testsuite",
        name=f"sweep of {name}",
        tests=str(len(ordered)),
        failures=str(failed),
        errors=str(sum(row.result in LOST for row in ordered)),
        time=f"{sum(row.wall_s for row in ordered):.3f}",
    )
    for row in ordered:
        cell = sweep.cell(row.cell)
        repeat = f", repeat {cell.repeat}" if sweep.repeat > 1 else ""
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=f"sweep.{name}",
            name=_plain(f"cell {row.cell}: {values_text(cell.values)}{repeat}"),
            time=f"{row.wall_s:.3f}",
        )
        if row.result != PASSED:
            kind = "error" if row.result in LOST else "failure"
            ElementTree.SubElement(case, kind, type=row.result, message=_plain(row.reason))
    tree = ElementTree.Element("testsuites")
    tree.append(suite)
    ElementTree.indent(tree)
    with new_file(folder / JUNIT) as part:
        ElementTree.ElementTree(tree).write(part, encoding="utf-8", xml_declaration=True)
    return folder / JUNIT


def _plain(text: str) -> str:
    return FORBIDDEN.sub("?", text)
