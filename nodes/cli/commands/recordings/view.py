"""`armswing view`: opens the viewer on a live domain or a recording, or writes a picture or a film."""

from __future__ import annotations

import contextlib
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from nodes.cli.progress import ProgressBar
from nodes.cli.terminal import Domain, InputError, print_line, require_recording, until_stopped, warn
from nodes.framework.client import Client
from viewer.film import Film, parse_size
from viewer.request import Request

HOST, PORT = "127.0.0.1", 8000  # of the browser view
FILMING = ("--from", "--to", "--speed", "--fps", "--size")


def add_to(app: typer.Typer) -> None:
    """Add the command `view`."""
    app.command(epilog="Example: armswing view demo.mcap --png demo.png")(view)


def view(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="One recording, or several to overlay; without a file, the live launch is shown.",
            show_default=False,
        ),
    ] = None,
    png: Annotated[Path | None, typer.Option("--png", help="Write one picture and end.", show_default=False)] = None,
    plot: Annotated[
        list[str] | None,
        typer.Option(
            "--plot",
            help="What to plot: a field, such as outputs, one of its curves, as outputs.NAME, or a field of another "
            "topic, as lqr/plot.values.error. Repeatable.",
            show_default=False,
        ),
    ] = None,
    run: Annotated[
        int | None,
        typer.Option("--run", min=1, help="Number of the run; by default the last.", show_default=False),
    ] = None,
    mp4: Annotated[Path | None, typer.Option("--mp4", help="Write a film and end.", show_default=False)] = None,
    gif: Annotated[Path | None, typer.Option("--gif", help="Write a film as GIF and end.", show_default=False)] = None,
    start: Annotated[
        float | None,
        typer.Option("--from", help="Recorded time at which the film begins (s).", show_default="the start"),
    ] = None,
    end: Annotated[
        float | None, typer.Option("--to", help="Recorded time at which the film ends (s).", show_default="the end")
    ] = None,
    speed: Annotated[
        float | None, typer.Option("--speed", help="Seconds of the recording per second of film.", show_default="1")
    ] = None,
    fps: Annotated[
        float | None, typer.Option("--fps", help="Frames per second of the film.", show_default="30; 15 for a GIF")
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            "--size", help="Width and height of the film in pixels.", show_default="1280x720; 960x540 for a GIF"
        ),
    ] = None,
    colors: Annotated[
        str | None,
        typer.Option("--theme", help="Colours: light or dark.", show_default="light; for a window the last choice"),
    ] = None,
    layout: Annotated[Path | None, typer.Option("--layout", help="A saved layout to show.", show_default=False)] = None,
    plane: Annotated[str, typer.Option("--plane", help="Viewing plane: auto, xy, xz, yz or space.")] = "auto",
    web: Annotated[bool, typer.Option("--web", help="Serve a page to browsers until Ctrl-C.")] = False,
    host: Annotated[
        str | None,
        typer.Option("--host", help="Address on which browsers connect to --web.", show_default=HOST),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65535, help="Port of --web; 0 for a free one.", show_default=str(PORT)),
    ] = None,
    page: Annotated[
        Path | None, typer.Option("--html", help="Write one page of a recording and end.", show_default=False)
    ] = None,
    domain: Domain = None,
) -> None:
    """Show plots and a picture of the bodies, live or from recordings; or write a picture, a film or a page."""
    if page is not None:
        refused: dict[str, object] = {"--web": web, "--png": png, "--mp4": mp4, "--gif": gif, "--layout": layout}
        if given := [name for name, value in refused.items() if value]:
            raise InputError(f"--html writes one file, without {given[0]}; leave one of the two out")
        return _write_page(page, files or [], run, plot, plane, colors)
    if web:
        refused = {
            "--png": png,
            "--mp4": mp4,
            "--gif": gif,
            "--layout": layout,
            "a second file": bool((files or [])[1:]),
        }
        if given := [name for name, value in refused.items() if value]:
            raise InputError(f"--web shows one run in browsers, without {given[0]}; leave one of the two out")
        return _serve(
            files[0] if files else None, host or HOST, PORT if port is None else port, run, plot, plane, colors, domain
        )
    if host is not None or port is not None:
        raise InputError(f"{'--host' if host is not None else '--port'} is an option of --web; add --web")
    film = _film(mp4, gif, files or [], png, dict(zip(FILMING, (start, end, speed, fps, size), strict=True)))
    file, others = (files[0], files[1:]) if files else (None, [])
    for each in files or ():
        require_recording(each)
    if others and run is not None:
        raise InputError(
            f"--run selects a run of one recording, but {len(others) + 1} are named; name only one, or leave out --run "
            "to overlay all recordings"
        )
    if run is not None and file is None:
        raise InputError("--run selects a run of a recording; name the file of the recording")
    if png is not None and not png.absolute().parent.is_dir():
        raise InputError(f"--png {str(png)!r}: there is no folder {str(png.absolute().parent)!r}; create it first")
    if png is not None and png.suffix.lower() != ".png":
        raise InputError(f"--png {str(png)!r}: pictures are PNG; name the file {str(png.with_suffix('.png'))!r}")
    if png is not None and file is None:
        Client(domain).close()  # raises NotLiveError: a window may wait for a launch, a picture may not
    try:
        from viewer import app  # here: PyQt5 and pyqtgraph load when a picture is wanted

        with ProgressBar() if film is not None else contextlib.nullcontext() as bar:
            code = app.run(
                file=str(file) if file is not None else None,
                png=str(png) if png is not None else None,
                domain=domain,
                fields=plot or (),
                plane=plane,
                run_number=run,
                others=[str(each) for each in others],
                film=film,
                colors=colors,
                layout=None if layout is None else str(layout),
                drawn=None if bar is None else lambda done, of: bar.show("drawing frames", done, of),
            )
    except Exception as error:
        if type(error).__name__ in ("ValueError", "RecordingError", "FilmError", "LayoutError"):
            raise InputError(str(error)) from error
        if type(error).__name__ != "ViewerUnavailable":
            raise
        warn(f"armswing: {error}")
        code = 3
    if code:
        raise typer.Exit(code)
    if png is not None or film is not None:
        print_line(f"wrote {png or (film and film.path)}")


def _write_page(
    path: Path, files: list[Path], run: int | None, plot: list[str] | None, plane: str, colors: str | None
) -> None:
    """Write one page of a recording."""
    if len(files) != 1:
        raise InputError(f"--html makes a page of one recording, and {len(files)} are named; name one")
    require_recording(files[0])
    if path.suffix.lower() != ".html":
        raise InputError(
            f"--html {str(path)!r}: the file name must end in .html; write {str(path.with_suffix('.html'))!r}"
        )
    if not path.absolute().parent.is_dir():
        raise InputError(f"--html {str(path)!r}: there is no folder {str(path.absolute().parent)!r}; create it first")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # arrays are small, and idle threads would use a core
    from viewer.page.export import write_page

    try:
        write_page(Request(str(files[0]), None, plot or (), plane, run), str(path), colors)
    except (ValueError, OSError) as error:
        raise InputError(str(error)) from error
    print_line(f"wrote {path} ({1e-6 * path.stat().st_size:.1f} MB)")


def _serve(
    file: Path | None,
    host: str,
    port: int,
    run: int | None,
    plot: list[str] | None,
    plane: str,
    colors: str | None,
    domain: int | None,
) -> None:
    """Serve the browser view until Ctrl-C."""
    if file is not None:
        require_recording(file)
    if find_spec("viser") is None:
        raise InputError("--web needs viser; install it with pip install 'armswing[web]'")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # arrays are small, and idle threads would use a core
    from viewer.web.view import serve

    request = Request(None if file is None else str(file), domain, plot or (), plane, run)
    try:
        with until_stopped() as stop:
            serve(request, host, port, colors, stop, lambda address: print_line(f"open {address}"), warn)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or error
        raise InputError(f"--host {host} --port {port}: {reason}; choose another address or port") from None
    except ValueError as error:
        raise InputError(str(error)) from error


def _film(
    mp4: Path | None, gif: Path | None, files: list[Path], png: Path | None, options: dict[str, Any]
) -> Film | None:
    """Return the settings of the film that the options request, or None if they request no film.

    Raises InputError for invalid options.
    """
    chosen = [(option, path) for option, path in (("--mp4", mp4), ("--gif", gif)) if path is not None]
    if not chosen:
        if given := [name for name, value in options.items() if value is not None]:
            raise InputError(f"{given[0]} is an option of a film; name the film's file with --mp4 or --gif")
        return None
    if len(chosen) > 1 or png is not None:
        raise InputError("--png, --mp4 and --gif write one file each; pass only one of them")
    ((option, path),) = chosen
    suffix = f".{option[2:]}"
    if path.suffix.lower() != suffix:
        raise InputError(
            f"{option} {str(path)!r}: the file name must end in {suffix}; write {str(path.with_suffix(suffix))!r}"
        )
    if not files:
        raise InputError(f"{option} makes a film of a recording; name the recording's file")
    if not path.absolute().parent.is_dir():
        raise InputError(f"{option} {str(path)!r}: there is no folder {str(path.absolute().parent)!r}; create it first")

    defaults = (15.0, "960x540") if option == "--gif" else (30.0, "1280x720")
    fps, size = options["--fps"], options["--size"]
    try:
        return Film(
            str(path),
            options["--from"],
            options["--to"],
            1.0 if options["--speed"] is None else options["--speed"],
            defaults[0] if fps is None else fps,
            parse_size(defaults[1] if size is None else size),
        )
    except ValueError as error:
        raise InputError(str(error)) from error
