"""`armswing graph`: prints the topics of a launch file or of the live launch, with their publishers and subscribers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nodes.cli.terminal import Domain, InputError, print_line
from nodes.framework.client import Client
from nodes.framework.launching.graph import Member, members_of, text
from nodes.framework.launching.graph import svg as picture
from nodes.framework.plan.files.file import load_plan
from nodes.framework.recording.new_file import write_file


def add_to(app: typer.Typer) -> None:
    """Add the command `graph`."""
    app.command(epilog="Example: armswing graph rotary_pendulum --svg graph.svg")(graph)


def graph(
    file: Annotated[Path | None, typer.Argument(help="A launch file (TOML).", show_default=False)] = None,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME=VALUE]...", help="Values of the file's arguments.", show_default=False),
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Draw the live launch instead of a file.")] = False,
    svg: Annotated[
        Path | None, typer.Option("--svg", help="Write the graph as a picture to this file, too.", show_default=False)
    ] = None,
    domain: Domain = None,
) -> None:
    """Print the topics with their publishers and subscribers, one line per topic."""
    if live == (file is not None):
        raise InputError("no launch file is named; name a launch file, or pass --live for the live launch")
    if svg is not None and not svg.absolute().parent.is_dir():
        raise InputError(f"--svg {str(svg)!r}: there is no folder {str(svg.absolute().parent)!r}; create it first")

    if file is not None:
        plan = load_plan(file, arguments=arguments or [])
        title, members = plan.name, members_of(plan)
    else:
        with Client(domain) as client:
            members = [Member(entry.name, entry.publishes, entry.subscribes) for entry in client.nodes()]
            title = f"live launch, domain {client.domain}"
    print_line(text(members))
    if svg is not None:
        write_file(svg, picture(members, title))
