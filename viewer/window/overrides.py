"""Dialog that lists the recorded values of a run that differ from the values in a launch file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyqtgraph.Qt import QtCore, QtWidgets

WIDTH = 520  # pixels
CHECKED = QtCore.Qt.CheckState.Checked


class OverrideDialog(QtWidgets.QDialog):
    """Dialog in which the user chooses among overrides of a launch file. At first, all overrides are chosen.

    launch_file  path of the launch file
    overrides    overrides such as "sim.mode=lockstep"
    """

    def __init__(self, launch_file: str, overrides: Sequence[str], parent: Any = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Go on from here")
        self.setMinimumWidth(WIDTH)
        text = (
            f"The run was recorded with values that {Path(launch_file).name} does not have. The launch takes those "
            "that are chosen here. A node with another parameter than the recorded one starts anew."
        )
        self.text = QtWidgets.QLabel(text)
        self.text.setWordWrap(True)
        self.list = QtWidgets.QListWidget()
        for each in overrides:
            item = QtWidgets.QListWidgetItem(f"--set {each}")
            item.setFlags(item.flags() | QtCore.Qt.ItemFlag.ItemIsUserCheckable)
            item.setCheckState(CHECKED)
            self.list.addItem(item)
        buttons = QtWidgets.QDialogButtonBox()
        buttons.addButton("Go on", QtWidgets.QDialogButtonBox.ButtonRole.AcceptRole)
        buttons.addButton("Cancel", QtWidgets.QDialogButtonBox.ButtonRole.RejectRole)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        column = QtWidgets.QVBoxLayout(self)
        for widget in (self.text, self.list, buttons):
            column.addWidget(widget)

    @property
    def chosen(self) -> list[str]:
        """Overrides that are chosen."""
        items = [self.list.item(row) for row in range(self.list.count())]
        return [item.text().removeprefix("--set ") for item in items if item.checkState() == CHECKED]
