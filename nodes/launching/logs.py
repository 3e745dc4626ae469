"""What a child process wrote: a file it appends to, and the reader that follows it."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path

KEPT_LINES = 200
LARGEST_LOG_BYTES = 4 * 1024 * 1024
LARGEST_READ_BYTES = 256 * 1024


class Log:
    """The output of one process: open `descriptor()` for the child, read `new_lines()` as they come.

    The file is emptied when it has grown past 4 MiB and all of it was read, so a chatty node fills no memory
    file system; the last 200 lines are kept.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self._partial = b""
        self._new: list[str] = []
        self._kept: deque[str] = deque(maxlen=KEPT_LINES)
        path.write_bytes(b"")
        path.chmod(0o600)

    def descriptor(self) -> int:
        """A new file descriptor for a child's stdout and stderr, appending; the caller closes it."""
        return os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def new_lines(self) -> list[str]:
        """The whole lines written since the last call."""
        self._read()
        lines, self._new = self._new, []
        return lines

    def last(self, count: int) -> list[str]:
        """The last `count` lines written, an unfinished one included, empty ones not."""
        while self._read():
            pass
        lines = [*self._kept, self._partial.decode(errors="replace")]
        return [line for line in lines if line.strip()][-count:]

    def forget(self) -> None:
        """Another process writes from here on: `last` leaves out what stands there by now."""
        while self._read():
            pass
        self._kept.clear()

    def _read(self) -> int:
        """Take in what was written; how many bytes it was."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                chunk = file.read(LARGEST_READ_BYTES)
        except OSError:  # somebody cleared the domain folder: nothing more to read, nothing lost for the run
            return 0
        self._offset += len(chunk)
        if self._offset > LARGEST_LOG_BYTES and len(chunk) < LARGEST_READ_BYTES:
            os.truncate(self.path, 0)
            self._offset = 0
        *whole, self._partial = (self._partial + chunk).split(b"\n")
        lines = [line.decode(errors="replace").rstrip() for line in whole]
        self._new.extend(lines)
        self._kept.extend(lines)
        return len(chunk)
