"""Fields for text and numbers that have the keyboard only after a click, and leave it to the shortcuts afterwards."""

from __future__ import annotations

from typing import Any

from pyqtgraph.Qt import QtCore

_KINDS, _KEYS = QtCore.QEvent.Type, QtCore.Qt.Key
RETURN = (_KEYS.Key_Return, _KEYS.Key_Enter)


def only_when_clicked(widget: Any) -> None:
    """Let a field take keyboard and wheel only after a click on it; Return, Enter and Esc end that.

    Without this Qt moves the keyboard to a field when the window opens, or when the widget that had it is disabled; a
    wheel that scrolls the panel would change the value under the pointer.
    """
    widget.setFocusPolicy(QtCore.Qt.FocusPolicy.ClickFocus)
    widget.installEventFilter(_Filter(widget))


class _Filter(QtCore.QObject):
    """Event filter of one field, which is its parent."""

    def eventFilter(self, watched: Any, event: Any) -> bool:
        """Qt override."""
        kind = event.type()
        if kind == _KINDS.Wheel and not watched.hasFocus():
            event.ignore()
            return True
        if kind == _KINDS.ShortcutOverride and event.key() == _KEYS.Key_Escape:
            event.accept()  # the key is the field's, not a shortcut
        elif kind == _KINDS.KeyPress and event.key() == _KEYS.Key_Escape:
            watched.clearFocus()
            return True
        elif kind == _KINDS.KeyPress and event.key() in RETURN:
            QtCore.QTimer.singleShot(0, watched.clearFocus)  # after the field has taken the key
        return False
