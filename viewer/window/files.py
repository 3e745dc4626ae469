"""Commands that ask for a file: layouts, pictures, films, further recordings, launches that continue a recorded run."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
from pyqtgraph.Qt import QtCore, QtWidgets

from nodes.framework.recording.places import before_path
from nodes.framework.recording.sidecar import folders_of
from viewer import palette
from viewer.film import Film
from viewer.layout import SUFFIX, LayoutError, load_layout, save_layout
from viewer.source import read_overlaid
from viewer.window.docks.docks import Docks
from viewer.window.processes import ArmswingProcess
from viewer.window.run_window import RunWindow
from viewer.window.suffixes import with_suffix

DIALOG_WIDTH = 520  # pixels
CHECKED = QtCore.Qt.CheckState.Checked
GO_ON_S = 10.0  # simulated time for which a launch goes on at least, where the recorded plan has an end


class FileMenu:
    """Commands of one window that ask for a file. A dialog shows a failure as one line."""

    def __init__(self, window: RunWindow, docks: Docks) -> None:
        self._window, self._docks = window, docks
        self.launch: ArmswingProcess | None = None
        self.film: ArmswingProcess | None = None
        self.comparison: ArmswingProcess | None = None
        self.opened: list[ArmswingProcess] = []  # windows on other recordings
        self._launch_path = ""
        self._film_path, self._from_s = "", 0.0
        self._inode: int | None = None  # of the first recording, when a launch went on from it

    def save_layout_as(self) -> None:
        """Ask for a file, and write the layout to it."""
        window, kinds = self._window, f"Layouts (*{SUFFIX} *.json)"
        path, _ = QtWidgets.QFileDialog.getSaveFileName(window, "Save layout", f"viewer{SUFFIX}", kinds)
        if not path:
            return
        path = path if path.endswith(".json") else with_suffix(path, SUFFIX)
        plots, panels = window.plots.specs, self._docks.visible()
        layout = msgspec.structs.replace(window.history.layout, plots=plots, panels=panels, theme=palette.theme)
        try:
            save_layout(layout, path)
        except OSError as error:
            self.warn(f"cannot write {path}: {error.strerror or error}")
            return
        self._show_message(f"saved the layout {path}")

    def open_layout(self) -> None:
        """Ask for a file, and show the window with the layout in this file."""
        window, kinds = self._window, f"Layouts (*{SUFFIX});;JSON files (*.json)"
        path, _ = QtWidgets.QFileDialog.getOpenFileName(window, "Load layout", "", kinds)
        if not path:
            return
        try:
            self.show_layout(path)
        except LayoutError as error:
            self.warn(str(error))

    def show_layout(self, path: str) -> None:
        """Show the layout in a file. Raises LayoutError with a one-line message."""
        layout, window = load_layout(path), self._window
        if layout.panels is not None:
            self._docks.show_only(layout.panels)
        window.history.change(msgspec.structs.replace(layout, panels=None), "loaded layout")

    def open_recording(self) -> None:
        """Ask for a recording, and open it in a window of its own."""
        path, _ = QtWidgets.QFileDialog.getOpenFileName(self._window, "Open recording", "", "Recordings (*.mcap)")
        if path:
            self.open(path)

    def open(self, path: str) -> None:
        """Open the recording in a file in a window of its own. A dialog shows a failure as one line."""
        process = ArmswingProcess(["view", path, "--theme", palette.theme], self._window)
        self.opened.append(process)
        process.ended.connect(lambda code, line: self._on_view_ended(process, code, line))
        self._show_message(f"opening {path} in a window of its own ...")

    def _on_view_ended(self, process: ArmswingProcess, code: int, line: str) -> None:
        self.opened.remove(process)
        if code not in (0, 130):
            self.warn(line.removeprefix("armswing: ") or f"the window ended with exit code {code}")

    def overlay_recording(self) -> None:
        """Ask for a recording of the same robot, and overlay it on the recordings that are shown."""
        window = self._window
        path, _ = QtWidgets.QFileDialog.getOpenFileName(window, "Overlay recording", "", "Recordings (*.mcap)")
        if path:
            self.overlay(path)

    def overlay(self, path: str) -> None:
        """Overlay the recording in a file on the recordings that are shown. A refusal is shown as one line."""
        window = self._window
        QtWidgets.QApplication.setOverrideCursor(QtCore.Qt.CursorShape.WaitCursor)
        try:
            source, subtitle = read_overlaid(path, window.sources[0])
        except (ValueError, OSError) as error:
            self.warn(str(error))
            return
        finally:
            QtWidgets.QApplication.restoreOverrideCursor()
        window.overlay(source, subtitle)

    def save_film(self) -> None:
        """Ask for a file, and write a film of the recordings, as they are shown, to it."""
        width, height = Film("film.mp4").size
        path, kind = QtWidgets.QFileDialog.getSaveFileName(
            self._window,
            f"Save film: {self._film_text()}, {width}x{height}",
            "film.mp4",
            "Films (*.mp4);;Animated pictures (*.gif)",
        )
        if not Path(path).suffix:
            path = with_suffix(path, ".gif" if ".gif" in kind else ".mp4")
        if path:
            self.save_film_to(path)

    def save_film_to(self, path: str) -> None:
        """Start a separate process that writes a film with the present layout to a file.

        The film shows the selected interval or, if none is selected, the whole recording. Its speed is the one chosen
        beside the time slider.
        """
        window = self._window
        if self.film is not None:
            self.warn(f"the film {self._film_path} is still being written; wait until it is complete")
            return
        if window.reading is not None:
            self.warn(f"{window.sources[0].label} is still being read; save the film when it has been read")
            return
        kind = Path(path).suffix.lower()
        if kind not in (".mp4", ".gif"):
            self.warn(f"{path!r}: the name of a film must end in .mp4 or .gif")
            return
        self._folder = tempfile.TemporaryDirectory(prefix="armswing")
        layout = f"{self._folder.name}/film{SUFFIX}"
        save_layout(msgspec.structs.replace(window.history.layout, plots=window.plots.specs), layout)
        files = [source.path for source in window.sources]
        start, end = self._film_span()
        options = ["--from", repr(start), "--to", repr(end), "--speed", f"{window.timeline.factor:g}"]
        options += ["--theme", palette.theme, "--layout", layout]
        if len(files) == 1:
            options += ["--run", str(window.sources[0].run)]
        self._film_path = path
        self.film = ArmswingProcess(["view", *files, f"--{kind[1:]}", path, *options], window)
        self.film.ended.connect(self._on_filmed)
        window.page.show_subtitle(f"writing the film {path} ({self._film_text()}) ...")

    def _film_span(self) -> tuple[float, float]:
        """First and last time of a film, s: the selected interval or, if none is selected, the whole recording."""
        low, high = self._window.playback.span
        start, end = self._window.plots.interval or (low, high)
        return max(start, low), min(end, high)

    def _film_text(self) -> str:
        start, end = self._film_span()
        return f"t = {start:.4g} .. {end:.4g} s at {self._window.timeline.factor:g} times the speed"

    def _on_filmed(self, code: int, line: str) -> None:
        self.film = None
        self._folder.cleanup()
        done = code == 0
        self._window.page.show_subtitle(f"wrote the film {self._film_path}" if done else self._window.subtitle)
        if not done:
            self.warn(line.removeprefix("armswing: ") or f"the film ended with exit code {code}")

    def save_picture(self) -> None:
        """Ask for a file, and write a picture of the window to it."""
        path, _ = QtWidgets.QFileDialog.getSaveFileName(self._window, "Save picture", "viewer.png", "Pictures (*.png)")
        if path and not self._window.grab().save(path, "PNG"):
            self.warn(f"cannot write {path}")

    def go_on(self) -> None:
        """Ask for a launch file, and start a launch that continues the recorded run from the time in the window.

        The launch opens a second window.
        """
        path, _ = QtWidgets.QFileDialog.getOpenFileName(
            self._window, "Launch file of the recorded run", self._launch_file(), "Launch files (*.toml)"
        )
        if path:
            self.compare_with(path)

    def compare_with(self, launch_file: str) -> None:
        """Compare a launch file with the plan of the recorded run, and then start a launch that continues this run.

        The comparison runs in a separate process. If values differ, a dialog lists the recorded values before the
        launch starts.
        """
        self._launch_path = launch_file
        options = ["--from", self._recording(), "--differences"]
        self.comparison = ArmswingProcess(["launch", launch_file, *options], self._window)
        self.comparison.ended.connect(self._on_compared)
        self._window.page.show_subtitle(f"comparing {launch_file} with the recorded plan ...")

    def _on_compared(self, code: int, line: str) -> None:
        self.comparison = None
        self._window.page.show_subtitle(self._window.subtitle)
        if code != 0:
            self.warn(line.removeprefix("armswing: ") or f"the comparison ended with exit code {code}")
            return
        overrides = shlex.split(line)[1::2] if line.startswith("--set ") else []
        if overrides:
            dialog = OverrideDialog(self._launch_path, overrides, self._window)
            if dialog.exec_() != QtWidgets.QDialog.DialogCode.Accepted:
                return
            overrides = dialog.chosen
        self.go_on_with(self._launch_path, overrides)

    def _launch_file(self) -> str:
        """Path of the launch file that the recording names; if there is no such file, the folder "launch"."""
        source = self._window.sources[0]
        for folder in folders_of(source.path):
            for name in (f"{source.plan}.toml", f"launch/{source.plan}.toml"):
                if source.plan and (folder / name).is_file():
                    return str(folder / name)
        return "launch"

    def go_on_with(self, launch_file: str, overrides: Sequence[str] = ()) -> None:
        """Start a launch that continues the recorded run from the time in the window.

        If the launch is refused, a dialog shows the reason as one line.

        overrides  changes of the launch file, such as "sim.mode=lockstep"
        """
        window = self._window
        source = window.sources[0]
        self._from_s = at_s = window.playback.now - source.offset
        options = [part for each in overrides for part in ("--set", each)]
        recording = self._recording()
        if os.path.isfile(recording):
            self._inode = os.stat(recording).st_ino
        options += ["--from", recording, "--at", f"{at_s:.6f}", "--view"]
        if source.duration_s is not None:
            options += ["--duration", f"{max(source.duration_s, at_s + GO_ON_S):.6g}"]
        self.launch = ArmswingProcess(["launch", launch_file, *options], window)
        self.launch.ended.connect(self._on_ended)
        window.page.show_subtitle(f"a launch continues from t = {at_s:.6g} s, in a window of its own ...")

    def _recording(self) -> str:
        """Path of the first recording, also after a launch that records to the same path kept it under another name."""
        path = self._window.sources[0].path
        before = before_path(path)
        moved = self._inode is not None and before.is_file() and before.stat().st_ino == self._inode
        return str(before) if moved else path

    def _on_ended(self, code: int, line: str) -> None:
        ended = f"the run that went on from t = {self._from_s:.6g} s has ended: {' '.join(line.split())}"
        self._window.page.show_subtitle(ended if code == 0 and line else self._window.subtitle)
        self.launch = None
        if code not in (0, 1, 130):
            self.warn(line.removeprefix("armswing: ") or f"the launch ended with exit code {code}")

    def close(self) -> None:
        """End a comparison and the writing of a film; let the launch and the windows that were opened continue."""
        for process in self.opened:
            process.leave()
        if self.launch is not None:
            self.launch.leave()
        if self.comparison is not None:
            self.comparison.close()
        if self.film is not None:
            self.film.close()
            self._folder.cleanup()

    def _show_message(self, text: str) -> None:
        """Show one line about a command that succeeded: below the title or, for a live run, in the panel Simulation."""
        (self._window.page.show_subtitle if self._docks.steering is None else self._docks.steering.show_message)(text)

    def warn(self, text: str) -> None:
        """Show one line of text in a dialog that the user has to confirm."""
        QtWidgets.QMessageBox.warning(self._window, "armswing", text)


class OverrideDialog(QtWidgets.QDialog):
    """Dialog in which the user chooses among overrides of a launch file. At first, all overrides are chosen.

    launch_file  path of the launch file
    overrides    overrides such as "sim.mode=lockstep"
    """

    def __init__(self, launch_file: str, overrides: Sequence[str], parent: QtWidgets.QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Go on from here")
        self.setMinimumWidth(DIALOG_WIDTH)
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
        items = [self.list.item(row) for row in range(self.list.count())]
        return [item.text().removeprefix("--set ") for item in items if item.checkState() == CHECKED]
