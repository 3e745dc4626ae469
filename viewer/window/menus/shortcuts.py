"""Page of keys and mouse gestures, made from the tables of commands and gestures that the window uses."""

from __future__ import annotations

import html

from pyqtgraph.Qt import QtWidgets

from viewer.qt import theme
from viewer.window.menus.commands import COMMANDS, GESTURES, OTHER_GESTURES, gesture_keys


def shortcuts_html(live: bool) -> str:
    """Rich text that lists all commands with shortcuts and all gestures, for a live run or for a recording."""
    other = "recording" if live else "live"
    keys = _table(
        [(each.menu, ", ".join(each.keys), each.text) for each in COMMANDS if each.keys and each.when != other]
    )
    mouse = [
        (row.area, f"{gesture_keys(row)} {row.text.partition(': ')[0]}", row.text.partition(": ")[2])
        for row in GESTURES
    ]
    mouse += [row for row in OTHER_GESTURES if not (live and row[0] == "time slider")]
    areas = [row[0] for row in mouse]
    mouse = sorted(mouse, key=lambda row: areas.index(row[0]))
    return f"<h3>Keys</h3>{keys}<h3>Mouse</h3>{_table(mouse)}"


def _table(rows: list[tuple[str, str, str]]) -> str:
    text, before = "", ""
    for group, keys, effect in rows:
        first = group if group != before else ""
        before = group
        text += (
            f"<tr><td style='color:{theme.MUTED};padding-right:18px'>{html.escape(first)}</td>"
            f"<td style='padding-right:18px'><b>{html.escape(keys)}</b></td><td>{html.escape(effect)}</td></tr>"
        )
    return f"<table cellspacing='0' cellpadding='2'>{text}</table>"


class ShortcutPage(QtWidgets.QDialog):
    """Window with all keys and gestures."""

    def __init__(self, live: bool, parent: QtWidgets.QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle("Keys and mouse")
        self.page = QtWidgets.QTextBrowser()
        self.page.setHtml(shortcuts_html(live))
        buttons = QtWidgets.QDialogButtonBox(QtWidgets.QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.close)
        column = QtWidgets.QVBoxLayout(self)
        column.addWidget(self.page)
        column.addWidget(buttons)
        room = parent.screen().availableGeometry()
        self.resize(min(760, room.width() - 40), min(820, room.height() - 60))
