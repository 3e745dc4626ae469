"""Frame of a panel beside the scene and the plots, with buttons in the colours of the theme."""

from __future__ import annotations

from typing import Any

from pyqtgraph.Qt import QtCore, QtGui, QtWidgets

from viewer.qt import theme

_KINDS = QtCore.QEvent.Type
# events at which Qt draws the buttons again with the icons of its style, which are dark
REDRAWN = (_KINDS.StyleChange, _KINDS.LayoutDirectionChange, _KINDS.ParentChange)
BUTTONS = {"qt_dockwidget_closebutton": "close", "qt_dockwidget_floatbutton": "float"}
SIZE, INSET = 16, 4  # pixels


class Panel(QtWidgets.QDockWidget):
    """Panel with a title, a button that closes it, and a button that makes it a window."""

    def __init__(self, name: str, widget: Any, window: Any) -> None:
        super().__init__(name, window)
        self.setObjectName(name)
        self.setWidget(widget)
        self.topLevelChanged.connect(lambda _: self.draw_buttons())
        self.draw_buttons()

    def event(self, event: Any) -> bool:
        """Qt override: draw the buttons in the colours of the theme after Qt has drawn them."""
        done = super().event(event)
        if event.type() in REDRAWN:
            self.draw_buttons()
        return bool(done)

    def draw_buttons(self) -> None:
        """Draw the buttons in the colours of the present theme."""
        for button in self.findChildren(QtWidgets.QAbstractButton):
            if (kind := BUTTONS.get(button.objectName())) is not None:
                button.setIcon(_icon(kind))


def _icon(kind: str) -> Any:
    """Icon of a button: a cross for "close", a square for "float"."""
    picture = QtGui.QPixmap(SIZE, SIZE)
    picture.fill(QtCore.Qt.GlobalColor.transparent)
    painter = QtGui.QPainter(picture)
    painter.setRenderHint(QtGui.QPainter.RenderHint.Antialiasing, kind == "close")
    painter.setPen(QtGui.QPen(QtGui.QColor(theme.INK), 1.6 if kind == "close" else 1.0))
    far = SIZE - INSET
    if kind == "close":
        painter.drawLine(INSET, INSET, far, far)
        painter.drawLine(INSET, far, far, INSET)
    else:
        painter.drawRect(INSET, INSET, far - INSET - 1, far - INSET - 1)
    painter.end()
    return QtGui.QIcon(picture)
