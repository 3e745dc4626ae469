"""Reads a long recording in a process of its own, while the window shows what was read so far."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

from nodes.framework.recording.growing import GrowingRecording, Piece
from nodes.framework.recording.reader import Recording, RecordingError

PIECE_BYTES = 4 << 20
GROWTH = 1.5  # the window gets a new part of the recording when the part read so far has grown by this factor
END_S = 5.0  # longest wait for the thread

Shown = TypeVar("Shown")


class BackgroundReading(Generic[Shown]):
    """Reads a recording from its beginning to its end.

    file      path of the recording
    run       number of the run, from 1; -1 for the last
    prepare   function that converts the recording read so far to the data that the window shows; called in a thread
    share     share of the file that was read so far
    failure   one line that says why the reading ended early; "" otherwise
    finished  whether the reading has ended
    """

    def __init__(
        self, file: str, run: int, shown_bytes: int, prepare: Callable[[GrowingRecording, Recording], Shown]
    ) -> None:
        """Start to read.

        shown_bytes  length of the part of the file that the window shows already
        """
        self.file = file
        self._shown_share = shown_bytes / max(1, os.path.getsize(file))
        self.share, self.failure, self.finished = self._shown_share, "", False
        self._growing = GrowingRecording(Path(file), run)
        self._prepare, self._due = prepare, GROWTH * shown_bytes
        self._latest: deque[Shown] = deque(maxlen=1)
        self._is_closed = False
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the thread
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "nodes.framework.recording.piece_stream", file, str(PIECE_BYTES)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,  # Ctrl-C in the terminal closes the window, which ends the process
        )
        self._thread = threading.Thread(target=self._read, name="viewer-reading", daemon=True)
        self._thread.start()

    def take(self) -> Shown | None:
        """The latest result of `prepare` that was not taken yet; None if there is none."""
        try:
            return self._latest.pop()
        except IndexError:
            return None

    def close(self) -> None:
        """End the process and the thread."""
        self._is_closed = True
        self._process.kill()
        self._thread.join(timeout=END_S)

    def _read(self) -> None:
        try:
            for piece in self._pieces():
                self._growing.add(piece)
                self.share = max(self._shown_share, piece.read / max(1, piece.size))
                if piece.whole or piece.read >= self._due:
                    self._due = GROWTH * piece.read
                    self._latest.append(self._prepare(self._growing, self._growing.recording()))
        except (RecordingError, ValueError) as error:
            self.failure = str(error)
        except MemoryError:
            self.failure = f"{self.file}: the memory is full"
        finally:
            self._process.kill()
            self._process.wait()
            self._errors.close()
            self.finished = True

    def _pieces(self) -> Iterator[Piece]:
        """Yield the pieces that the process sends. Raises RecordingError if the process ends before the last piece."""
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            while not self._is_closed:
                try:
                    found = pickle.load(stream)
                except (EOFError, pickle.UnpicklingError):
                    raise RecordingError(f"{self.file}: {self._end()}") from None
                if isinstance(found, str):
                    raise RecordingError(found)
                yield found
                if found.whole:
                    return

    def _end(self) -> str:
        """Why the process ended, as one line."""
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return f"the process that reads it ended with exit code {code}{f': {lines[-1]}' if lines else ''}"
