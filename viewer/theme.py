"""Colours, pens and fonts: dark ink on white, colours that stay apart for colour-blind eyes and in print."""

from __future__ import annotations

import sys
from typing import Any

import pyqtgraph as pg
from pyqtgraph.Qt import QtCore, QtGui

INK = "#1c2430"
MUTED = "#5c6773"
FAINT = "#d5dae0"
PAPER = "#ffffff"
PANEL = "#f5f7f9"
ACCENT = "#0b62a8"
ALARM = "#c4161c"
GOLDEN = 0.6180339887498949  # of a turn between hues: the next always falls into a wide gap
CURVES = (
    *("#0072b2", "#d55e00", "#00845f", "#b0488a", "#a87400", "#3a9bd0", "#6b4fb3", "#4d4d4d"),
    *("#e6194b", "#7bb32e", "#00a6a6", "#f28ab2", "#8c4a1f", "#1f2f8f", "#d1b000", "#9aa3ad"),
    *("#7a0033", "#5c6b10", "#005468", "#d92fd0", "#ff9a5c", "#7fb5ff", "#b49be0", "#0b3d24"),
    *("#2222e0", "#00c000", "#ff1199", "#bb00ff", "#bbaa77", "#00cc77", "#cc0000", "#0055ff"),
)
# beyond as many curves as are told apart by hue alone, pictures dash them: mark of the legend, pattern in widths
HUES = 8
DASHES: tuple[tuple[str, list[float]], ...] = (
    ("━━", []),
    ("━\u2004━", [5.0, 2.5]),
    ("┉┉", [1.2, 1.8]),
    ("━┉", [7.0, 2.0, 1.2, 2.0]),
)
LINE, STILL, SPRING, OVERLAY, FORCE = "#37424e", "#8b95a1", "#7a4a12", "#1b7a3d", "#c4161c"  # beside the bodies
BODIES = ("#4f7cac", "#d9703a", "#3f9a78", "#b0689a", "#b08a30", "#5aa9cf", "#8573bd", "#7a7a7a")


def configure() -> None:
    """Set pyqtgraph's defaults. Antialiasing is for still pictures: live it costs half the frames."""
    pg.setConfigOptions(background=PAPER, foreground=INK, antialias=False)


def silence_runtime_folder() -> None:
    """Drop Qt's remark about XDG_RUNTIME_DIR, which a picture does not need; other messages are shown."""

    def show(_kind: Any, _context: Any, text: str) -> None:
        if "XDG_RUNTIME_DIR" not in text:
            print(text, file=sys.stderr)

    QtCore.qInstallMessageHandler(show)


def curve_color(index: int) -> str:
    """The colour of the index-th curve of a plot: no other has the same."""
    if index < len(CURVES):
        return CURVES[index]
    hue, light = (index * GOLDEN) % 1.0, 0.4 + 0.5 * ((index * GOLDEN**2) % 1.0)
    return str(QtGui.QColor.fromHsvF(hue, 0.85, light).name())


def curve_dash(index: int) -> tuple[str, list[float]]:
    """How the index-th curve of a picture is dashed: its mark in a legend, and the pattern, empty for none."""
    return DASHES[index // HUES % len(DASHES)]


def body_color(index: int, wanted: str = "") -> Any:
    """The QColor of a body: what its shape asks for, else one of ours by its place in the list."""
    color = QtGui.QColor(wanted) if wanted else QtGui.QColor()
    return color if color.isValid() else QtGui.QColor(BODIES[index % len(BODIES)])


def faded(color: Any, alpha: float) -> Any:
    """The same QColor with opacity `alpha` in 0 .. 1."""
    found = QtGui.QColor(color)
    found.setAlphaF(max(0.0, min(1.0, alpha)))
    return found


def font(points: float, bold: bool = False) -> Any:
    """The viewer's font."""
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
