"""What the viewer does with Qt: shows a window until it is closed, or writes a picture or a film of it."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pyqtgraph as pg
from pyqtgraph.Qt import QtGui, sip

from nodes.framework.transport import background_threads
from viewer import palette
from viewer.availability import ViewerUnavailable
from viewer.data.live import LiveFeed, gathered
from viewer.data.signals import Signals
from viewer.film import Film
from viewer.panels import choose_fields
from viewer.qt import theme
from viewer.request import Request
from viewer.scene.projection import check_plane
from viewer.source import Source, open_source, read_overlaid, read_source
from viewer.window import film as films
from viewer.window.main import MainWindow
from viewer.window.settings import remembered_theme

INTERRUPTED = 130  # exit code after Ctrl-C, as in every command


def start_qt() -> Any:
    """The Qt application. Raises ViewerUnavailable if Qt finds no font."""
    theme.silence_runtime_folder()
    application = pg.mkQApp("armswing")
    if not QtGui.QFontDatabase().families():
        raise ViewerUnavailable("the viewer finds no font; install one with apt-get install -y fonts-dejavu-core")
    application.setFont(theme.font(9.5))
    theme.use(palette.theme)
    return application


def show(application: Any, request: Request, colors: str | None) -> int:
    """Show a window until it is closed, and return the exit code.

    colors  theme; None for the one that the user chose last
    """
    theme.use(colors or remembered_theme())
    with interrupts(application) as interrupted, _destroyed(main_window(request)) as window:
        return _run(application, window, interrupted)


def _run(application: Any, window: MainWindow, interrupted: threading.Event) -> int:
    defer_threads()
    window.show()
    code = int(application.exec())
    return INTERRUPTED if interrupted.is_set() else code


def write_picture(application: Any, request: Request, png: str) -> int:
    """Write a picture of a window to the file `png`, and return the exit code: 1 if there is no state to show."""
    with interrupts(application) as interrupted:
        found = main_window(request, whole=True, is_stopped=interrupted.is_set)
        with _destroyed(found) as window:
            if interrupted.is_set():
                return INTERRUPTED
            try:
                films.write_picture(window, png)
            except OSError as error:
                print(f"armswing: {error}", file=sys.stderr)
                return 1
            if window.signals.states == 0:
                print(f"armswing: {png} shows no motion: {window.page.empty.text()}", file=sys.stderr)
                return 1
            return 0


def write_film(application: Any, request: Request, film: Film, drawn: Callable[[int, int], None] | None) -> int:
    """Write a film of a recording, and return the exit code.

    drawn  function that is called with (number of the film's frames drawn so far, number of all its frames)

    Raises ValueError for a recording without states.
    """
    with interrupts(application) as interrupted, _destroyed(main_window(request, whole=True)) as window:
        if window.signals.states == 0:
            raise ValueError(window.page.empty.text())
        try:
            done = films.write_film(window, film, drawn or (lambda _done, _of: None), interrupted.is_set)
        except OSError as error:
            print(f"armswing: {error}", file=sys.stderr)
            return 1
        return 0 if done else INTERRUPTED


def main_window(request: Request, whole: bool = False, is_stopped: Callable[[], bool] | None = None) -> MainWindow:
    """The main window with its layout; it is not shown yet.

    whole       whether to read a recording to its end before this function returns; otherwise, a single long recording
                is read further while the window shows its beginning. Of a live domain, some seconds are gathered
    is_stopped  function that ends the gathering early
    """
    check_plane(request.plane)
    window = _opened(request, whole, is_stopped or (lambda: False))
    if request.layout is not None:
        try:
            window.files.show_layout(request.layout)
        except ValueError:
            _destroy(window)
            raise
    return window


def _opened(request: Request, whole: bool, is_stopped: Callable[[], bool]) -> MainWindow:
    file, fields, plane, number = request.file, request.fields, request.plane, request.run_number
    if file is None:
        choose_fields(fields)
        if whole:
            signals, subtitle, waiting = gathered(request.domain, is_stopped)
            return MainWindow([Source("live", signals)], subtitle, waiting, None, fields, plane)
        feed = LiveFeed(request.domain)
        live = Source("live", Signals(), live=True)
        return MainWindow([live], f"live, domain {feed.domain}", feed.waiting, feed, fields, plane)
    if not (whole or request.others):
        part, reading = open_source(file, fields, number)
        return MainWindow([part.source], part.subtitle, part.waiting, None, fields, plane, reading)
    first, subtitle, waiting = read_source(file, fields, number)
    sources, subtitles = [first], [subtitle]
    for other in request.others:
        source, subtitle = read_overlaid(other, first)
        sources.append(source)
        subtitles.append(subtitle)
    if len({source.label for source in sources}) < len(sources):
        for source, path in zip(sources, (file, *request.others), strict=True):
            source.label = path
    return MainWindow(sources, "; ".join(subtitles), waiting, None, fields, plane)


def defer_threads() -> None:
    """Defer all threads of this process, so that drawing and receiving do not interrupt a simulation on this computer.

    Threads that are started later, such as those that render, are deferred too.
    """
    background_threads.defer_this()
    background_threads.defer_others()


@contextlib.contextmanager
def _destroyed(window: MainWindow) -> Iterator[MainWindow]:
    """Context manager that yields the window, and destroys it at the end."""
    try:
        yield window
    finally:
        _destroy(window)


def _destroy(window: MainWindow) -> None:
    """Close a window, and destroy it with all that it contains.

    Python's garbage collection would destroy it at any later time, also while Qt delivers an event to it. The process
    would then end with a segmentation fault.
    """
    window.close()
    sip.delete(window)


@contextlib.contextmanager
def interrupts(application: Any) -> Iterator[threading.Event]:
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
