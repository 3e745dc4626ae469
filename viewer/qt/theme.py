"""Qt colours, pens, fonts and the window's style sheet, from `viewer.palette`."""

from __future__ import annotations

import sys
from typing import Any

import pyqtgraph as pg
from pyqtgraph.Qt import QtCore, QtGui

from viewer.palette import (
    ACCENT,
    ALARM,
    BODIES,
    CHANGES,
    CURVES,
    FAINT,
    FORCE,
    INK,
    LINE,
    MUTED,
    OTHER_CHANGES,
    OVERLAY,
    PANEL,
    PAPER,
    SPRING,
    STILL,
    change_colors,
    curve_color,
    curve_dash,
)

__all__ = [
    "ACCENT",
    "ALARM",
    "BODIES",
    "CHANGES",
    "CURVES",
    "FAINT",
    "FORCE",
    "INK",
    "LINE",
    "MUTED",
    "OTHER_CHANGES",
    "OVERLAY",
    "PANEL",
    "PAPER",
    "SPRING",
    "STILL",
    "STYLE",
    "body_color",
    "change_colors",
    "configure",
    "curve_color",
    "curve_dash",
    "faded",
    "font",
    "silence_runtime_folder",
]


def configure() -> None:
    """Set pyqtgraph's defaults. Antialiasing is left to still pictures: live it halves the frame rate."""
    pg.setConfigOptions(background=PAPER, foreground=INK, antialias=False)


def silence_runtime_folder() -> None:
    """Suppress Qt's warning about XDG_RUNTIME_DIR, which a picture does not need; other Qt messages go to stderr."""

    def show(_kind: Any, _context: Any, text: str) -> None:
        if "XDG_RUNTIME_DIR" not in text:
            print(text, file=sys.stderr)

    QtCore.qInstallMessageHandler(show)


def body_color(index: int, wanted: str = "") -> Any:
    """QColor of a body: `wanted` where it is a valid colour, else the palette colour of the body's `index`."""
    color = QtGui.QColor(wanted) if wanted else QtGui.QColor()
    return color if color.isValid() else QtGui.QColor(BODIES[index % len(BODIES)])


def faded(color: Any, alpha: float) -> Any:
    """QColor equal to `color` with opacity `alpha` in 0 .. 1."""
    found = QtGui.QColor(color)
    found.setAlphaF(max(0.0, min(1.0, alpha)))
    return found


def font(points: float, bold: bool = False) -> Any:
    """The viewer's font in the given size, points."""
    found = QtGui.QFont("DejaVu Sans")
    found.setPointSizeF(points)
    found.setBold(bold)
    return found


STYLE = f"""
QMainWindow, QWidget#page {{ background: {PAPER}; }}
QLabel {{ color: {INK}; }}
QLabel#title {{ font-size: 20px; font-weight: bold; }}
QLabel#subtitle {{ color: {MUTED}; font-size: 12px; }}
QLabel#section {{ font-size: 13px; font-weight: bold; }}
QLabel#key {{ font-size: 12px; padding-left: 62px; }}
QLabel#caption {{ color: {MUTED}; font-size: 11px; }}
QLabel#empty {{ color: {MUTED}; font-size: 20px; background: {PAPER}; }}
QPushButton {{ padding: 4px 14px; border: 1px solid {FAINT}; border-radius: 4px; }}
QPushButton {{ background: {PANEL}; color: {INK}; }}
QPushButton:hover {{ border-color: {ACCENT}; }}
QSlider::groove:horizontal {{ height: 4px; background: {FAINT}; border-radius: 2px; }}
QSlider::sub-page:horizontal {{ background: {ACCENT}; border-radius: 2px; }}
QSlider::handle:horizontal {{ width: 14px; margin: -6px 0; border-radius: 7px; background: {ACCENT}; }}
"""
