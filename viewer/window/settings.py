"""The user's choices that outlast a window, in a file of the user's configuration folder."""

from __future__ import annotations

from typing import Any

from pyqtgraph.Qt import QtCore

from viewer import palette

THEME = "theme"


def remembered_theme() -> str:
    """The colours that the user chose last in a window; "light" before any choice."""
    found = str(_settings().value(THEME, palette.DEFAULT))
    return found if found in palette.THEMES else palette.DEFAULT


def remember_theme(name: str) -> None:
    """Store the name of a theme, one of palette.THEMES, for later windows.

    If the file cannot be written, no error is raised, and later windows have the earlier theme.
    """
    _settings().setValue(THEME, name)


def _settings() -> Any:
    folder = QtCore.QStandardPaths.writableLocation(QtCore.QStandardPaths.StandardLocation.GenericConfigLocation)
    return QtCore.QSettings(f"{folder}/armswing/viewer.ini", QtCore.QSettings.Format.IniFormat)
