"""Input fields that take the keyboard only after a click, so that the window's shortcuts work at all other times."""

from __future__ import annotations

from typing import Any

from pyqtgraph.Qt import QtCore

_KINDS, _KEYS = QtCore.QEvent.Type, QtCore.Qt.Key
RETURN = (_KEYS.Key_Return, _KEYS.Key_Enter)


def only_when_clicked(widget: Any) -> None:
    """Let a field have the keyboard focus only from a click on it until Return, Enter or Esc is pressed.

    Without the focus, the field also ignores the mouse wheel, so that scrolling a panel does not change values. By
    default, Qt gives a field the focus when a window opens, or when the widget that had the focus is disabled.
    """
    widget.setFocusPolicy(QtCore.Qt.FocusPolicy.ClickFocus)
    widget.installEventFilter(_Filter(widget))


class _Filter(QtCore.QObject):
    """Qt event filter of one input field. The field is the parent object of the filter."""

    def eventFilter(self, watched: Any, event: Any) -> bool:
        """Qt override: process an event of the field. Returns whether the field does not get the event.

        A field without focus does not get the wheel. Return, Enter and Esc take the focus away from the field.
        """
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
