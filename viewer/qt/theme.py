"""Qt colours, pens, fonts and the window's style sheet, from `viewer.palette`."""

from __future__ import annotations

import sys
from typing import Any

import pyqtgraph as pg
from pyqtgraph.Qt import QtCore, QtGui, QtWidgets

from viewer import palette
from viewer.palette import change_colors, curve_color, curve_dash

__all__ = [
    "body_color",
    "change_colors",
    "configure",
    "curve_color",
    "curve_dash",
    "faded",
    "font",
    "silence_runtime_folder",
    "style",
    "use",
]


def __getattr__(name: str) -> Any:
    """A colour of the present palette, such as `theme.INK`."""
    if name.isupper() and hasattr(palette, name):
        return getattr(palette, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def use(name: str) -> None:
    """Use the colours of one of palette.THEMES from now on. Items that are already drawn keep their colours."""
    palette.use(name)
    configure()
    application = QtWidgets.QApplication.instance()
    if application is not None:
        application.setPalette(_qt_palette(application))


def _qt_palette(application: Any) -> Any:
    """Colours of Qt's own widgets."""
    found = application.style().standardPalette()
    if palette.theme == "light":
        return found
    roles = QtGui.QPalette.ColorRole
    for role, color in (
        *((role, palette.INK) for role in (roles.WindowText, roles.Text, roles.ButtonText, roles.ToolTipText)),
        *((role, palette.PANEL) for role in (roles.Base, roles.Window, roles.Button, roles.AlternateBase)),
        (roles.ToolTipBase, palette.PAPER),
        *((role, palette.FAINT) for role in (roles.Light, roles.Midlight, roles.Mid)),
        *((role, "#0c0f13") for role in (roles.Dark, roles.Shadow)),
        (roles.Highlight, palette.ACCENT),
        (roles.HighlightedText, palette.PAPER),
        (roles.Link, palette.ACCENT),
        (roles.PlaceholderText, palette.MUTED),
    ):
        found.setColor(role, QtGui.QColor(color))
    for role in (roles.WindowText, roles.Text, roles.ButtonText):
        found.setColor(QtGui.QPalette.ColorGroup.Disabled, role, QtGui.QColor(palette.MUTED))
    return found


def configure() -> None:
    """Set pyqtgraph's defaults, without antialiasing, which would halve the frame rate of a live window."""
    pg.setConfigOptions(background=palette.PAPER, foreground=palette.INK, antialias=False)


def silence_runtime_folder() -> None:
    """Suppress two of Qt's warnings; other Qt messages go to stderr.

    One is about XDG_RUNTIME_DIR, which a picture does not need, and one about size hints, which the offscreen plugin
    lacks.
    """

    def show(_kind: Any, _context: Any, text: str) -> None:
        if "XDG_RUNTIME_DIR" not in text and "propagateSizeHints" not in text:
            print(text, file=sys.stderr)

    QtCore.qInstallMessageHandler(show)


def body_color(index: int, requested: str = "") -> Any:
    """QColor of a body.

    index   index of the body, for the colour from the palette
    requested  name or hexadecimal value of a colour, which is used instead of the palette's if it is valid
    """
    color = QtGui.QColor(requested) if requested else QtGui.QColor()
    return QtGui.QColor(
        palette.visible(color.name() if color.isValid() else palette.BODIES[index % len(palette.BODIES)])
    )


def faded(color: Any, alpha: float) -> Any:
    """QColor equal to `color` with opacity `alpha` in 0 .. 1."""
    found = QtGui.QColor(color)
    found.setAlphaF(max(0.0, min(1.0, alpha)))
    return found


def hatched() -> Any:
    """QBrush for the part of a recording that was not read yet."""
    return QtGui.QBrush(faded(palette.MUTED, 0.35), QtCore.Qt.BrushStyle.BDiagPattern)


def font(points: float, bold: bool = False) -> Any:
    """The viewer's font in the given size, points."""
    found = QtGui.QFont("DejaVu Sans")
    found.setPointSizeF(points)
    found.setBold(bold)
    return found


def style() -> str:
    """Style sheet of the window."""
    return f"""
QMainWindow, QWidget#page {{ background: {palette.PAPER}; }}
QLabel {{ color: {palette.INK}; }}
QLabel#title {{ font-size: 20px; font-weight: bold; }}
QLabel#subtitle {{ color: {palette.MUTED}; font-size: 12px; }}
QLabel#section {{ font-size: 13px; font-weight: bold; }}
QLabel#key {{ font-size: 12px; padding-left: 62px; }}
QScrollArea, QWidget#qt_scrollarea_viewport > QWidget {{ background: {palette.PAPER}; }}
QScrollArea#names, QScrollArea#names QLabel {{ background: {palette.PAPER}; }}
QLabel#caption {{ color: {palette.MUTED}; font-size: 11px; }}
QLabel#empty {{ color: {palette.MUTED}; font-size: 20px; background: {palette.PAPER}; }}
QLabel#readout {{ background: {palette.PAPER}; border: 1px solid {palette.FAINT}; padding: 3px; }}
QPushButton {{ padding: 4px 14px; border: 1px solid {palette.FAINT}; border-radius: 4px; }}
QPushButton {{ background: {palette.PANEL}; color: {palette.INK}; }}
QPushButton:disabled {{ background: {palette.PAPER}; color: {palette.MUTED}; border-style: dashed; }}
QPushButton#stop:enabled, QPushButton#released:enabled {{ background: {palette.ALARM}; color: {palette.PAPER}; }}
QPushButton#stop:enabled, QPushButton#released:enabled {{ font-weight: bold; }}
QPushButton:hover {{ border-color: {palette.ACCENT}; }}
QSlider::groove:horizontal {{ height: 4px; background: {palette.FAINT}; border-radius: 2px; }}
QSlider::sub-page:horizontal {{ background: {palette.ACCENT}; border-radius: 2px; }}
QSlider::handle:horizontal {{ width: 14px; margin: -6px 0; border-radius: 7px; background: {palette.ACCENT}; }}
QToolTip {{ background: {palette.PANEL}; color: {palette.INK}; border: 1px solid {palette.FAINT}; }}
"""
