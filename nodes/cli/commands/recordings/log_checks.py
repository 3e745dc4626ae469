"""`armswing hil fit --check`: checks recordings before anything is fitted to them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from nodes.cli.terminal import InputError, print_json, print_line, print_table, working

REFUSED = 2


def check_recordings(recordings: Sequence[Path], robot: str, as_json: bool) -> None:
    """Print the findings about each recording; exit code 2 if one of them refuses a joint or the log, otherwise 0.

    robot  a robot in place of that of the recordings; "" for none
    """
    from nodes.hil.alignment.streams import StreamError
    from nodes.hil.fitting.checking import check_case
    from nodes.hil.fitting.reading import read_fit_case

    found: dict[str, Any] = {}
    try:
        for path in recordings:
            with working(f"checking {path.name}"):
                found |= check_case(read_fit_case([path], robot))
    except StreamError as error:
        raise InputError(str(error)) from None
    if as_json:
        print_json(found)
    else:
        for file, findings in found.items():
            print_table((file, "found"), [("refused" if each.refuses else "hint", each.text) for each in findings])
            if not findings:
                print_line(f"{file}: nothing was found")
    raise typer.Exit(REFUSED if any(each.refuses for findings in found.values() for each in findings) else 0)
