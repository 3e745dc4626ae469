"""Real mouse and keyboard events for tests of the window, and a window to send them to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nodes.framework.recording.reader import read_recording
from viewer.data.signals import Signals, from_recording

pytest.importorskip("pyqtgraph", exc_type=ImportError)
import pyqtgraph as pg
from pyqtgraph.Qt import QtCore, QtGui, QtWidgets

from tests.viewer.conftest import KEPT
from viewer.qt import theme
from viewer.source import Source
from viewer.window.film import write_picture
from viewer.window.main import MainWindow

BUTTONS, KEYS = QtCore.Qt.MouseButton, QtCore.Qt.KeyboardModifier


def drag(widget: Any, start: Any, end: Any, button: Any = BUTTONS.LeftButton, modifiers: Any = KEYS.NoModifier) -> None:
    """Press at `start`, move to `end` in steps, release."""

    def send(kind: Any, at: Any, pressed: Any, held: Any) -> None:
        event = QtGui.QMouseEvent(kind, QtCore.QPointF(at), pressed, held, modifiers)
        QtWidgets.QApplication.sendEvent(widget, event)

    kinds = QtCore.QEvent.Type
    send(kinds.MouseMove, start, BUTTONS.NoButton, BUTTONS.NoButton)
    send(kinds.MouseButtonPress, start, button, button)
    for part in range(1, 6):
        send(kinds.MouseMove, start + (end - start) * part / 5, BUTTONS.NoButton, button)
    send(kinds.MouseButtonRelease, end, button, BUTTONS.NoButton)


def double_click(widget: Any, at: Any) -> None:
    """Press, release, press again as a double click, release."""
    kinds = QtCore.QEvent.Type
    for kind in (kinds.MouseButtonPress, kinds.MouseButtonRelease, kinds.MouseButtonDblClick, kinds.MouseButtonRelease):
        held = BUTTONS.NoButton if kind == kinds.MouseButtonRelease else BUTTONS.LeftButton
        event = QtGui.QMouseEvent(kind, QtCore.QPointF(at), BUTTONS.LeftButton, held, KEYS.NoModifier)
        QtWidgets.QApplication.sendEvent(widget, event)


def wheel(widget: Any, at: Any, angle: int, modifiers: Any = KEYS.NoModifier) -> None:
    event = QtGui.QWheelEvent(
        QtCore.QPointF(at),
        QtCore.QPointF(widget.mapToGlobal(at)),
        QtCore.QPoint(0, 0),
        QtCore.QPoint(0, angle),
        BUTTONS.NoButton,
        modifiers,
        QtCore.Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QtWidgets.QApplication.sendEvent(widget, event)


@contextmanager
def opened_window(qtbot: Any, *paths: Path) -> Iterator[MainWindow]:
    """A window on recordings, shown and laid out, without a timer: frames come when a test asks for them."""
    theme.configure()
    pg.setConfigOptions(mouseRateLimit=0)  # a test moves the mouse faster than a hand
    sources = [Source(path.stem, from_recording(read_recording(path, warn=False)), path=str(path)) for path in paths]
    found = MainWindow(sources, paths[0].name, "nothing to show")
    KEPT.append(found)
    qtbot.addWidget(found)
    with qtbot.waitExposed(found):
        found.show()
    found.resize(1200, 800)
    QtWidgets.QApplication.processEvents()
    found._timer.stop()
    QtWidgets.QApplication.setActiveWindow(found)  # no window manager does it
    yield found
    found.close()
    pg.setConfigOptions(mouseRateLimit=100)


@contextmanager
def pictured(qtbot: Any, signals: Signals, path: Path, fields: Sequence[str] = ()) -> Iterator[MainWindow]:
    """A window of which a picture was written."""
    theme.configure()
    window = MainWindow([Source("run", signals)], "run", "nothing to show", fields=fields)
    KEPT.append(window)
    qtbot.addWidget(window)
    write_picture(window, str(path))
    yield window
    window.close()


class FeedOfTest:
    """A live feed of given messages."""

    domain, waiting = 200, "waiting ..."

    def __init__(self) -> None:
        self.coming: list[Any] = []

    def take(self) -> list[Any]:
        taken, self.coming = self.coming, []
        return taken

    def close(self) -> None:
        self.coming = []


def live(qtbot: Any) -> tuple[MainWindow, FeedOfTest]:
    feed = FeedOfTest()
    window = MainWindow([Source("live", Signals(), live=True)], "live", "", feed)  # type: ignore[arg-type]
    KEPT.append(window)
    qtbot.addWidget(window)
    window._timer.stop()
    window.docks._timer.stop()
    return window, feed


def hear(window: MainWindow, feed: FeedOfTest, *messages: Any) -> None:
    feed.coming = list(messages)
    window._on_frame()
