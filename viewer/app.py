"""Viewer entry point: opens a window on a live domain or a recording, or writes one PNG picture of it."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

from nodes.transport import background_threads
from viewer import palette
from viewer.availability import ViewerUnavailable, require_qt

if TYPE_CHECKING:
    from collections.abc import Callable

    from viewer.data.signals import Signals
    from viewer.film import Film
    from viewer.window.main import MainWindow

__all__ = ["ViewerUnavailable", "main", "run"]

FIRST_STATE_S = 10.0  # longest wait for the first state when a picture of a live domain is asked for
INTERRUPTED = 130  # exit code after Ctrl-C, as in every command
GATHER_S = 3.0  # time of motion that a picture of a live domain records after its first state


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
    png         path of the picture to write instead of opening a window; further recordings, a layout, and fields of
                other topics than the state are drawn as the window draws them
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

    If Qt cannot run, matplotlib draws the picture, and a message on stderr says why. Raises ViewerUnavailable if a
    window cannot be opened or neither Qt nor matplotlib is available, and ValueError for a bad recording, field or
    plane.
    """
    _limit_threads()
    palette.use(colors or palette.DEFAULT)
    by_window = png is not None and bool(others or layout is not None or any("/" in field for field in fields))
    if by_window and file is None:
        raise ValueError("a picture of a live launch shows fields of the state; record the launch to draw other topics")
    try:
        require_qt(window=png is None and film is None)
        if colors is None and png is None and film is None:
            from viewer.window.settings import remembered_theme

            palette.use(remembered_theme())
        if film is not None and importlib.util.find_spec("imageio_ffmpeg") is None:
            raise ViewerUnavailable("a film needs imageio-ffmpeg; install it with pip install 'armswing[film]'")
        application = _application()
    except ViewerUnavailable as error:
        if png is None or by_window:
            raise
        return _run_without_qt(file, png, domain, fields, plane, run_number, str(error))
    with _interrupts(application) as interrupted:
        if png is not None and not by_window:
            return _picture(png, file, domain, fields, plane, run_number, interrupted)
        window = _main_window(file, domain, fields, plane, run_number, others, whole=film is not None or by_window)
        try:
            if layout is not None:
                window.files.show_layout(layout)
            if png is not None:
                return _window_picture(window, png)
            if film is not None:
                return _film(window, film, drawn, interrupted)
            return _show(application, window, interrupted)
        finally:
            _destroy(window)


def _destroy(window: Any) -> None:
    """Close a window, and destroy it with all that it contains.

    Python's garbage collection would destroy it at any later time, also while Qt delivers an event to it. The process
    would then end with a segmentation fault.
    """
    from pyqtgraph.Qt import sip

    window.close()
    sip.delete(window)


def _defer() -> None:
    """Defer all threads of this process, so that drawing and receiving do not interrupt a simulation on this computer.

    Threads that are started later, such as those that render, are deferred too.
    """
    background_threads.defer_this()
    background_threads.defer_others()


def _show(application: Any, window: MainWindow, interrupted: threading.Event) -> int:
    """Show the window until it is closed, and return the exit code."""
    _defer()
    window.show()
    code = int(application.exec())
    return INTERRUPTED if interrupted.is_set() else code


def _picture(
    png: str,
    file: str | None,
    domain: int | None,
    fields: Sequence[str],
    plane: str,
    run_number: int | None,
    interrupted: threading.Event,
) -> int:
    """Write a picture to the file `png`, and return the exit code."""
    from viewer.panels import choose_fields
    from viewer.qt.window import StillWindow
    from viewer.recorded import read_signals
    from viewer.scene.projection import check_plane

    check_plane(plane)
    if file is None:
        choose_fields(fields)
        signals, subtitle, waiting = _listen(domain, interrupted.is_set)
    else:
        signals, subtitle, waiting = read_signals(file, fields, run_number)
    if interrupted.is_set():
        return INTERRUPTED
    window = StillWindow(signals, subtitle, waiting, fields, plane)
    try:
        window.save_picture(png)
    except OSError as error:
        print(f"armswing: {error}", file=sys.stderr)
        return 1
    finally:
        _destroy(window)
    if signals.states == 0:
        print(f"armswing: {png} shows no motion: {waiting}", file=sys.stderr)
        return 1
    return 0


def _window_picture(window: MainWindow, png: str) -> int:
    """Write a picture of what the window shows, and return the exit code."""
    from viewer.window.film import write_picture

    try:
        if window.signals.states == 0:
            raise ValueError(window.page.empty.text())
        write_picture(window, png)
    except OSError as error:
        print(f"armswing: {error}", file=sys.stderr)
        return 1
    return 0


def _film(
    window: MainWindow, film: Film, drawn: Callable[[int, int], None] | None, interrupted: threading.Event
) -> int:
    """Write a film and return the exit code."""
    from viewer.window.film import write_film

    try:
        if window.signals.states == 0:
            raise ValueError(window.page.empty.text())
        written = write_film(window, film, drawn or (lambda _done, _of: None), interrupted.is_set)
    except OSError as error:
        print(f"armswing: {error}", file=sys.stderr)
        return 1
    return 0 if written else INTERRUPTED


@contextlib.contextmanager
def _interrupts(application: Any) -> Iterator[threading.Event]:
    """Context manager that yields an event; Ctrl-C sets the event and quits the Qt application.

    A KeyboardInterrupt raised inside a Qt callback would end the process with a traceback. Here, Python runs the signal
    handler at the next tick of the window's timer, within one displayed frame.
    """
    interrupted = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        interrupted.set()
        application.quit()

    before = signal.signal(signal.SIGINT, on_signal)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


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


def _application() -> Any:
    import pyqtgraph as pg
    from pyqtgraph.Qt import QtGui

    from viewer.qt import theme

    theme.silence_runtime_folder()
    application = pg.mkQApp("armswing")
    if not QtGui.QFontDatabase().families():
        raise ViewerUnavailable("the viewer finds no font; install one with apt-get install -y fonts-dejavu-core")
    application.setFont(theme.font(9.5))
    theme.use(palette.theme)
    return application


def _main_window(
    file: str | None,
    domain: int | None,
    fields: Sequence[str],
    plane: str,
    run_number: int | None,
    others: Sequence[str] = (),
    whole: bool = False,
) -> MainWindow:
    """The main window; it is not shown yet.

    whole  whether to read a recording to its end before this function returns; otherwise, a single long recording is
           read further while the window shows its beginning
    """
    from viewer.data.live import LiveFeed
    from viewer.data.signals import Signals
    from viewer.data.topics import LiveStore
    from viewer.panels import choose_fields
    from viewer.scene.projection import check_plane
    from viewer.window.main import MainWindow
    from viewer.window.source import Source, open_source, read_overlaid, read_source

    check_plane(plane)
    if file is None:
        choose_fields(fields)
        feed = LiveFeed(domain)
        live = Source("live", Signals(), LiveStore())
        return MainWindow([live], f"live, domain {feed.domain}", feed.waiting, feed, fields, plane)
    if not (whole or others):
        part, reading = open_source(file, fields, run_number)
        return MainWindow([part.source], part.subtitle, part.waiting, None, fields, plane, reading)
    first, subtitle, waiting = read_source(file, fields, run_number)
    sources, subtitles = [first], [subtitle]
    for other in others:
        source, subtitle = read_overlaid(other, first)
        sources.append(source)
        subtitles.append(subtitle)
    if len({source.label for source in sources}) < len(sources):
        for source, path in zip(sources, (file, *others), strict=True):
            source.label = path
    return MainWindow(sources, "; ".join(subtitles), waiting, None, fields, plane)


def _run_without_qt(
    file: str | None,
    png: str,
    domain: int | None,
    fields: Sequence[str],
    plane: str,
    run_number: int | None,
    reason: str,
) -> int:
    """Write the picture with matplotlib, because Qt cannot run for the reason `reason`; return the exit code.

    Raises ViewerUnavailable if matplotlib is missing, too.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise ViewerUnavailable(f"{reason}; or run pip install matplotlib to draw pictures without Qt")
    from viewer.panels import choose_fields
    from viewer.recorded import read_signals
    from viewer.scene.projection import check_plane
    from viewer.still import save_still

    check_plane(plane)
    if file is None:
        choose_fields(fields)
        signals, subtitle, waiting = _listen(domain)
    else:
        signals, subtitle, waiting = read_signals(file, fields, run_number)
    print(f"armswing: {png} is drawn by matplotlib, without Qt: {reason}", file=sys.stderr)
    try:
        save_still(png, signals, subtitle, waiting, fields, plane)
    except OSError as error:
        print(f"armswing: {error}", file=sys.stderr)
        return 1
    if signals.states == 0:
        print(f"armswing: {png} shows no motion: {waiting}", file=sys.stderr)
        return 1
    return 0


def _listen(domain: int | None, is_stopped: Callable[[], bool] = lambda: False) -> tuple[Signals, str, str]:
    """Returns (signals, subtitle, text to show while no state has arrived) for a live domain.

    Messages are gathered for GATHER_S seconds after the first state.
    """
    from viewer.data.live import LiveFeed
    from viewer.data.signals import Signals, diverged_text

    feed, signals = LiveFeed(domain), Signals()
    deadline, first = time.monotonic() + FIRST_STATE_S, True
    try:
        while time.monotonic() < deadline and not is_stopped():
            for topic, message in feed.take():
                signals.take(topic, message)
            if first and signals.states:
                first, deadline = False, time.monotonic() + GATHER_S
            time.sleep(0.01)
        return signals, f"live, domain {feed.domain}{diverged_text(signals)}", feed.waiting
    finally:
        feed.close()
