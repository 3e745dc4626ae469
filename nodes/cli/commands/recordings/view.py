"""`armswing view`: opens the viewer on a live domain or a recording."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nodes.cli.terminal import Domain, InputError, require_recording, say, warn


def add_to(app: typer.Typer) -> None:
    """Add the command `view`."""
    app.command(epilog="Example: armswing view demo.mcap --png demo.png")(view)


def view(
    file: Annotated[
        Path | None, typer.Argument(help="A recording; without it, the live domain.", show_default=False)
    ] = None,
    png: Annotated[Path | None, typer.Option("--png", help="Write one picture and end.", show_default=False)] = None,
    plot: Annotated[
        list[str] | None,
        typer.Option(
            "--plot",
            help="A field to plot, e.g. outputs, or one curve of it, outputs.NAME. Repeatable.",
            show_default=False,
        ),
    ] = None,
    run: Annotated[
        int | None,
        typer.Option("--run", min=1, help="Number of the run; by default the last.", show_default=False),
    ] = None,
    plane: Annotated[str, typer.Option("--plane", help="Viewing plane: auto, xy, xz, yz or space.")] = "auto",
    domain: Domain = None,
) -> None:
    """Show plots and a picture of the bodies."""
    if file is not None:
        require_recording(file)
    if run is not None and file is None:
        raise InputError("--run picks a run of a recording; name its file")
    if png is not None and not png.absolute().parent.is_dir():
        raise InputError(f"--png {str(png)!r}: there is no folder {str(png.absolute().parent)!r}")
    if png is not None and png.suffix.lower() != ".png":
        raise InputError(f"--png {str(png)!r}: pictures are PNG; write {str(png.with_suffix('.png'))!r}")
    if png is not None and file is None:
        from nodes.client import Client

        Client(domain).close()  # raises NotLiveError: a window may wait for a launch, a picture may not
    try:
        from viewer import app  # here: PyQt5 and pyqtgraph load when a picture is wanted

        code = app.run(
            file=str(file) if file is not None else None,
            png=str(png) if png is not None else None,
            domain=domain,
            fields=plot or (),
            plane=plane,
            run_number=run,
        )
    except Exception as error:
        if type(error).__name__ in ("ValueError", "RecordingError"):
            raise InputError(str(error)) from error
        if type(error).__name__ != "ViewerUnavailable":
            raise
        warn(f"armswing: {error}")
        code = 3
    if code:
        raise typer.Exit(code)
    if png is not None:
        say(f"wrote {png}")
