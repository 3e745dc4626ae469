"""`armswing compare`: compares two recordings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nodes.cli.terminal import AsJson, print_json, print_line, print_table, require_recording

DIFFERENT = 1
First = Annotated[Path, typer.Argument(help="A recording (.mcap).", show_default=False)]
Second = Annotated[Path, typer.Argument(help="Another recording (.mcap).", show_default=False)]


def add_to(app: typer.Typer) -> None:
    """Add the command `compare`."""
    app.command(epilog="Example: armswing compare before.mcap after.mcap")(compare)


def compare(
    first: First,
    second: Second,
    run: Annotated[
        int | None,
        typer.Option(
            "--run",
            min=1,
            help="Number of the run to compare in both recordings; by default the last run.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare two recordings: the differences of their launch plans, and each joint's largest deviation of position.

    States are aligned by their timestamps. Exit code 0 if plans and positions are the same, 1 if they differ.
    """
    from nodes.framework.recording.compare import compare as compared

    for file in (first, second):
        require_recording(file)
    found = compared(first, second, run)
    found["same"] = is_same(found)
    if as_json:
        print_json(found)
    else:
        _print(found)
    raise typer.Exit(0 if found["same"] else DIFFERENT)


def is_same(found: dict[str, Any]) -> bool:
    """Whether two recordings are equal.

    They are equal if their files have the same bytes. They are also equal if the comparison `found` shows the same
    launch plans, the same instants and joints, and the same joint positions.
    """
    differs = found["plan"] or found["only_first"] or found["only_second"] or found["joints_of_one"]
    return found["same_bytes"] or not (differs or any(row["largest"] for row in found["joints"]))


def _print(found: dict[str, Any]) -> None:
    print_line("the same bytes" if found["same_bytes"] else "not the same bytes")
    if found["same_bytes"]:
        return
    if found["plan"]:
        print_line("\nplans")
        rows = [(f"  {row['key']}", str(row["first"]), str(row["second"])) for row in found["plan"]]
        print_table(("  key", "first", "second"), rows)
    else:
        print_line("the same plan")
    one, two = found["runs"]
    alone = [f"{found[key]} in the {key.removeprefix('only_')} alone" for key in ("only_first", "only_second")]
    print_line(f"\npositions, run {one} and run {two}: {found['instants']} instants in both, {', '.join(alone)}")
    print_table(
        ("  joint", "largest deviation", "at", "begins at"),
        [(f"  {row['joint']}", *_deviation(row)) for row in found["joints"]],
    )
    for file in found["cut_off"]:
        print_line(f"{file} was cut off: instants that it lacks do not count as differences")
    if found["joints_of_one"]:
        print_line(f"only one of the recordings has the joints {', '.join(found['joints_of_one'])}")


def _deviation(row: dict[str, Any]) -> tuple[str, str, str]:
    if row["at_s"] is None:
        return "none", "-", "-"
    return f"{row['largest']:.3g} {row['unit']}", f"{row['at_s']:.3f} s", f"{row['begins_s']:.3f} s"
