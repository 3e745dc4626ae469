"""Menus and shortcuts of the window, made from the table of commands."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from pyqtgraph.Qt import QtCore, QtGui, QtWidgets

from viewer.window.menus.commands import COMMANDS, LIVE, RECORDING, Command


class Menus(QtCore.QObject):
    """Menus of a window and the actions in them.

    menus    {title: menu}
    actions  {key of a command: its action}
    """

    def __init__(self, window: QtWidgets.QMainWindow, live: bool) -> None:
        super().__init__(window)
        self._window = window
        self.menus: dict[str, Any] = {}
        self.actions: dict[str, Any] = {}
        for command in COMMANDS:
            if command.when == (RECORDING if live else LIVE):
                continue
            menu = self.menus.get(command.menu)
            if menu is None:
                menu = self.menus[command.menu] = window.menuBar().addMenu(command.menu)
            if command.separated:
                menu.addSeparator()
            menu.addAction(self._action(command))
        self._follow(window.history.stack)

    def insert(self, title: str, before: str) -> Any:
        """Insert a new, empty menu before the menu with the title `before`, and return the new menu."""
        menu = self.menus[title] = QtWidgets.QMenu(title, self._window)
        self._window.menuBar().insertMenu(self.menus[before].menuAction(), menu)
        return menu

    def _action(self, command: Command) -> Any:
        action = QtWidgets.QAction(command.text, self._window)
        action.setShortcuts([QtGui.QKeySequence(keys) for keys in command.keys])
        action.triggered.connect(lambda _=False: attrgetter(command.name)(self._window)(*command.arguments))
        self.actions[command.key] = action
        return action

    def _follow(self, stack: Any) -> None:
        """Enable the menu entries undo and redo as the undo stack permits, with the names of the changes in their
        texts."""
        stack.undoTextChanged.connect(self._name_undo)
        stack.redoTextChanged.connect(self._name_redo)
        for name, changed in (("undo", stack.canUndoChanged), ("redo", stack.canRedoChanged)):
            action = self.actions[f"history.stack.{name}"]
            action.setEnabled(False)
            changed.connect(action.setEnabled)

    # bound methods of a QObject: Qt disconnects them when the window is destroyed, before its undo stack
    def _name_undo(self, text: str) -> None:
        self.actions["history.stack.undo"].setText(f"Undo {text or 'change of the view'}")

    def _name_redo(self, text: str) -> None:
        self.actions["history.stack.redo"].setText(f"Redo {text or 'change of the view'}")
