"""Processes of the command armswing that the window starts: for recordings, and for launches that continue a run."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from pyqtgraph.Qt import QtCore

from nodes.framework.transport import background_threads

POLL_MS = 200
END_S = 20.0  # longest wait for a process that is asked to end


class ArmswingProcess(QtCore.QObject):
    """A process of the command `armswing` in a session of its own.

    Ctrl-C in the viewer's terminal therefore does not reach the process.

    ended  Qt signal with the exit code and the last line of the process's output
    """

    ended = QtCore.pyqtSignal(int, str)

    def __init__(self, arguments: Sequence[str], parent: QtCore.QObject | None = None) -> None:
        super().__init__(parent)
        self._output: Any = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the process has ended
        with background_threads.not_deferred():  # a simulation does not inherit the window's scheduling
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "nodes.cli", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._timer = QtCore.QTimer(self)
        self._timer.timeout.connect(self._poll)
        self._timer.start(POLL_MS)

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def interrupt(self) -> None:
        """Request the process to end, as Ctrl-C does."""
        if self.is_running:
            self._process.send_signal(signal.SIGINT)

    def close(self) -> None:
        """Request the process to end, and wait for its end."""
        self._timer.stop()
        self.interrupt()
        try:
            self._process.wait(timeout=END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._output.close()

    def leave(self) -> None:
        """Stop watching the process, which keeps running without the window."""
        self._timer.stop()

    def _poll(self) -> None:
        code = self._process.poll()
        if code is None:
            return
        self._timer.stop()
        self._output.seek(0)
        lines = self._output.read().decode(errors="replace").strip().splitlines()
        self._output.close()
        self.ended.emit(code, lines[-1] if lines else "")
