"""Commands that ask for a file: layouts, the window's picture, and a launch that continues a recorded run."""

from __future__ import annotations

from typing import Any

import msgspec
from pyqtgraph.Qt import QtWidgets

from viewer.window.layout import SUFFIX, LayoutError, load_layout, save_layout
from viewer.window.processes import ArmswingProcess


class FileMenu:
    """Commands of one window that ask for a file. A failure is shown as one line."""

    def __init__(self, window: Any) -> None:
        self._window = window
        self.launch: ArmswingProcess | None = None

    def save_layout_as(self) -> None:
        """Ask for a file, and write the layout to it."""
        window, kinds = self._window, f"Layouts (*{SUFFIX})"
        path, _ = QtWidgets.QFileDialog.getSaveFileName(window, "Save layout", f"viewer{SUFFIX}", kinds)
        if not path:
            return
        layout, plots, panels = window.history.layout, window.plots.specs, window.docks.visible()
        try:
            save_layout(msgspec.structs.replace(layout, plots=plots, panels=panels), path)
        except OSError as error:
            self.warn(f"cannot write {path}: {error.strerror or error}")

    def open_layout(self) -> None:
        """Ask for a file, and show the layout in it."""
        window, kinds = self._window, f"Layouts (*{SUFFIX} *.json)"
        path, _ = QtWidgets.QFileDialog.getOpenFileName(window, "Load layout", "", kinds)
        if not path:
            return
        try:
            layout = load_layout(path)
        except LayoutError as error:
            self.warn(str(error))
            return
        if layout.panels is not None:
            window.docks.show_only(layout.panels)
        window.history.change(msgspec.structs.replace(layout, panels=None), "loaded layout")

    def save_picture(self) -> None:
        """Ask for a file, and write a picture of the window to it."""
        path, _ = QtWidgets.QFileDialog.getSaveFileName(self._window, "Save picture", "viewer.png", "Pictures (*.png)")
        if path and not self._window.grab().save(path, "PNG"):
            self.warn(f"cannot write {path}")

    def go_on(self) -> None:
        """Ask for a launch file, and start a launch that continues the recorded run at the present time, in a window of
        its own."""
        path, _ = QtWidgets.QFileDialog.getOpenFileName(
            self._window, "Launch file of the recorded run", "launch", "Launch files (*.toml)"
        )
        if path:
            self.go_on_with(path)

    def go_on_with(self, launch_file: str) -> None:
        """Start a launch that continues the recorded run at the present time. A refusal is shown as one line."""
        window = self._window
        source = window.sources[0]
        at = f"{window.playback.now - source.offset:.6f}"
        self.launch = ArmswingProcess(["launch", launch_file, "--from", source.path, "--at", at, "--view"], window)
        self.launch.ended.connect(self._on_ended)
        window.page.show_subtitle(f"a launch continues from t = {float(at):g} s, in a window of its own ...")

    def _on_ended(self, code: int, line: str) -> None:
        self._window.page.show_subtitle(self._window.subtitle)
        self.launch = None
        if code not in (0, 1, 130):
            self.warn(line.removeprefix("armswing: ") or f"the launch ended with exit code {code}")

    def close(self) -> None:
        """Stop watching a launch that was started, which keeps running."""
        if self.launch is not None:
            self.launch.leave()

    def warn(self, text: str) -> None:
        """Show one line in a dialog that has to be confirmed."""
        QtWidgets.QMessageBox.warning(self._window, "armswing", text)
