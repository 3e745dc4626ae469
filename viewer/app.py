"""Viewer entry point: opens a window on a live domain or a recording, or writes one PNG picture of it."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence

from viewer import palette
from viewer.availability import ViewerUnavailable, require_qt
from viewer.film import Film
from viewer.request import Request

__all__ = ["ViewerUnavailable", "main", "run"]


def run(
    file: str | None = None,
    png: str | None = None,
    domain: int | None = None,
    fields: Sequence[str] = (),
    plane: str = "auto",
    run_number: int | None = None,
    others: Sequence[str] = (),
    film: Film | None = None,
    drawn: Callable[[int, int], None] | None = None,
    colors: str | None = None,
    layout: str | None = None,
) -> int:
    """Show the recording `file` or a live domain, and return the exit code.

    file        path of the recording; None: a live domain is shown
    png         path of the picture to write instead of opening a window
    domain      number of the live domain; None: the number in ARMSWING_DOMAIN, or 0 if this is not set
    fields      fields to plot: position, velocity, effort, energy, phi, phidot, outputs, force or hold, or
                TOPIC.FIELD of another topic; empty for the default fields
    plane       viewing plane of the bodies: auto, xy, xz, yz or space
    run_number  number of the run in the file, from 1; None for the last
    others      further recordings, overlaid
    film        film to write instead of opening a window
    drawn       function that is called with (number of the film's frames drawn so far, number of all its frames)
    colors      theme, "light" or "dark"; None for light or, in a window, for the one that the user chose last
    layout      file of a layout to show

    If Qt cannot run, matplotlib draws a picture of one run without a layout, and a message on stderr says why. Raises
    ViewerUnavailable if a window cannot be opened or neither Qt nor matplotlib is available, and ValueError for a bad
    recording, field or plane.
    """
    _limit_threads()
    palette.use(colors or palette.DEFAULT)
    request = Request(file, domain, fields, plane, run_number, others, layout)
    try:
        require_qt(window=png is None and film is None)
        if film is not None and importlib.util.find_spec("imageio_ffmpeg") is None:
            raise ViewerUnavailable("a film needs imageio-ffmpeg; install it with pip install 'armswing[film]'")
        from viewer.window import session  # here: a process ends where Qt is loaded and cannot start

        application = session.start_qt()
    except ViewerUnavailable as error:
        if png is None or others or layout is not None:
            raise
        if importlib.util.find_spec("matplotlib") is None:
            raise ViewerUnavailable(f"{error}; or run pip install matplotlib to draw pictures without Qt") from None
        from viewer.still import write_picture  # here: matplotlib is not needed where Qt is

        return write_picture(request, png, str(error))
    if png is not None:
        return session.write_picture(application, request, png)
    if film is not None:
        return session.write_film(application, request, film, drawn)
    return session.show(application, request, colors)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line of `python -m viewer`; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m viewer", description=__doc__)
    parser.add_argument("file", nargs="?", help="a recording (.mcap); without one, the live domain is shown")
    parser.add_argument("--png", metavar="FILE", help="write one picture and end")
    parser.add_argument("--domain", type=int, help="number of the live domain (default: ARMSWING_DOMAIN, else 0)")
    parser.add_argument(
        "--plot", nargs="+", default=(), metavar="FIELD", help="fields to plot, such as position outputs"
    )
    parser.add_argument("--run", type=int, help="number of the run in the recording (default: the last)")
    parser.add_argument("--plane", default="auto", help="viewing plane: auto, xy, xz, yz or space")
    parser.add_argument("--theme", help="colours: light or dark (default: the last choice in a window)")
    given = parser.parse_args(arguments)
    try:
        return run(given.file, given.png, given.domain, given.plot, given.plane, given.run, colors=given.theme)
    except ViewerUnavailable as error:
        print(f"armswing: {error}", file=sys.stderr)
        return 3
    except ValueError as error:
        print(f"armswing: {error}", file=sys.stderr)
        return 2


def _limit_threads() -> None:
    """Keep numpy's linear algebra on one thread: the viewer's arrays are small, and idle threads would use a core."""
    if "numpy" not in sys.modules:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
