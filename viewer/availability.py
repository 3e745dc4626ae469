"""Checks that Qt can start on this computer.

The check runs before Qt is loaded, because Qt aborts the process if it cannot start.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Iterable

APT_LINE = (
    "apt-get install -y libgl1 libglib2.0-0 libfontconfig1 libdbus-1-3 libxkbcommon-x11-0 libxcb-icccm4"
    " libxcb-image0 libxcb-keysyms1 libxcb-randr0 libxcb-render-util0 libxcb-xinerama0 libxcb-shape0"
    " fonts-dejavu-core"
)
BASE_LIBRARIES = ("libGL.so.1", "libglib-2.0.so.0", "libfontconfig.so.1", "libdbus-1.so.3")
XCB_LIBRARIES = (
    "libxkbcommon-x11.so.0",
    "libxcb-icccm.so.4",
    "libxcb-image.so.0",
    "libxcb-keysyms.so.1",
    "libxcb-randr.so.0",
    "libxcb-render-util.so.0",
    "libxcb-xinerama.so.0",
    "libxcb-shape.so.0",
)


class ViewerUnavailable(RuntimeError):  # noqa: N818 - not a fault of the program
    """Raised if the viewer cannot run on this computer. The message is one line with the reason and the remedy."""


def require_qt(window: bool) -> None:
    """Choose Qt's platform plugin. Raises ViewerUnavailable if Qt would not start.

    window  true to open a window, which requires a display; false to draw a picture with the offscreen plugin
    """
    missing = [name for name in ("pyqtgraph", "PyQt5") if importlib.util.find_spec(name) is None]
    if missing and importlib.util.find_spec("PyQt6") is None:
        raise ViewerUnavailable(
            f"the viewer needs {' and '.join(missing)}; install them with pip install 'armswing[viewer]'"
        )
    display = "WAYLAND_DISPLAY" in os.environ or "DISPLAY" in os.environ
    if "QT_QPA_PLATFORM" not in os.environ:
        if window and not display:
            raise ViewerUnavailable(
                "there is no display to open a window on; pass --png FILE to write a picture instead"
            )
        if not window:
            os.environ["QT_QPA_PLATFORM"] = "offscreen"
            os.environ.setdefault("QT_FONT_DPI", "96")  # else a picture is not drawn pixel by pixel
    offscreen = os.environ.get("QT_QPA_PLATFORM", "").startswith(("offscreen", "minimal"))
    absent = absent_libraries(BASE_LIBRARIES if offscreen else BASE_LIBRARIES + XCB_LIBRARIES)
    if absent:
        raise ViewerUnavailable(f"the viewer lacks {', '.join(absent)}; install them with {APT_LINE}")


def absent_libraries(names: Iterable[str]) -> list[str]:
    """Names of the shared libraries that cannot be loaded."""
    absent = []
    for name in names:
        try:
            ctypes.CDLL(name)
        except OSError:
            absent.append(name)
    return absent
