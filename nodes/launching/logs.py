"""Output of a child process: the file it appends to, and the reader that follows the file."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path

KEPT_LINES = 200
LARGEST_LOG_BYTES = 4 * 1024 * 1024
LARGEST_READ_BYTES = 256 * 1024


class Log:
    """Output of one process: open `descriptor()` for the child, read `new_lines()` as they arrive.

    The file is emptied when it exceeds 4 MiB and has been read, so that a node with much output does not fill a file
    system in memory; the last 200 lines are kept.
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
        """New append-only file descriptor for a child's stdout and stderr; the caller closes it."""
        return os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def new_lines(self) -> list[str]:
        """Complete lines written since the last call."""
        self._read()
        lines, self._new = self._new, []
        return lines

    def last(self, count: int) -> list[str]:
        """The last `count` lines written, including an unfinished one, without empty ones."""
        while self._read():
            pass
        lines = [*self._kept, self._partial.decode(errors="replace")]
        return [line for line in lines if line.strip()][-count:]

    def forget(self) -> None:
        """Discard the lines so far, because another process writes to the file from now on."""
        while self._read():
            pass
        self._kept.clear()

    def _read(self) -> int:
        """Read what was appended to the file; returns the number of bytes."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                chunk = file.read(LARGEST_READ_BYTES)
        except OSError:  # the domain folder was cleared: there is nothing more to read, and the run loses nothing
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
