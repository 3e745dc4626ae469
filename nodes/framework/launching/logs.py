"""Output of a child process: the file it appends to, the reader that follows the file, and the log of a run."""

from __future__ import annotations

import logging
import os
import re
from collections import deque
from logging.handlers import RotatingFileHandler
from pathlib import Path

WARNING = "warning: "  # beginning of the lines of the project's own warnings
KEPT_LINES = 200
LARGEST_LOG_BYTES = 4 * 1024 * 1024
LARGEST_READ_BYTES = 256 * 1024


LARGEST_RUN_LOG_BYTES = 4 * 1024 * 1024
RUN_LOGS = 3  # older files of a run's log that are kept: run.log.1 is the latest of them
_LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} [A-Z]+ \S+: ")  # of a run's log
_LEVEL = re.compile(
    r"(DEBUG|INFO|WARNING|ERROR|CRITICAL)(?: (?P<owner>[\w/]+):)? |(?P<word>error|warning): ", re.IGNORECASE
)


class RunLog:
    """Log file of a launch, in the folder of the recording: one line per line of output, with time, level and node.

    2026-01-31 12:00:00.123 WARNING left/hold: its commands are refused

    A line without a level gets the level of the node's previous line, so that the lines of a traceback have the level
    of the error. The file begins anew with each launch and is rotated at 4 MiB. Raises OSError if the file cannot be
    written, FileExistsError with a one-line message if it is something else than the log of an earlier launch.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.exists() and not _is_run_log(path):
            raise FileExistsError(f"{path} is not the log of an earlier run; move it, or record to another file name")
        path.write_bytes(b"")  # where files rotate, the handler appends whatever its mode
        self._handler = RotatingFileHandler(path, "a", LARGEST_RUN_LOG_BYTES, RUN_LOGS, encoding="utf-8")
        line = logging.Formatter("%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s", "%Y-%m-%d %H:%M:%S")
        self._handler.setFormatter(line)
        self._levels: dict[str, int] = {}

    def add(self, name: str, text: str) -> None:
        """Add a line of a node."""
        found = _LEVEL.match(text)
        if found:
            self._levels[name] = logging.getLevelNamesMapping()[(found["word"] or found[1]).upper()]
            text = text[found.end() :]
        level = self._levels.get(name, logging.INFO)
        self._handler.handle(logging.LogRecord(name, level, "", 0, text, None, None))

    def close(self) -> None:
        """Close the file."""
        self._handler.close()


def _is_run_log(path: Path) -> bool:
    """Whether a file was written by RunLog and is not the output of this process."""
    if any(os.path.samestat(path.stat(), os.fstat(stream)) for stream in (1, 2)):
        return False
    with path.open("rb") as file:
        first = file.readline(200)
    return not first or _LINE.match(first.decode(errors="replace")) is not None


class Log:
    """Output of one child process. The child writes to `descriptor()`; `new_lines()` returns the new complete lines.

    When the file is longer than 4 MiB and has been read to its end, it is emptied, because its file system may be in
    memory and must not fill up. This object keeps the last 200 lines that it has read, also when the file is emptied.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self._partial = b""
        self._new: list[str] = []
        self._last_lines: deque[str] = deque(maxlen=KEPT_LINES)
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
        """The last `count` lines that are not empty, including a line that is not complete yet."""
        while self._read():
            pass
        lines = [*self._last_lines, self._partial.decode(errors="replace")]
        return [line for line in lines if line.strip()][-count:]

    def forget(self) -> None:
        """Discard the last lines, which `last` returns, because another process writes to the file from now on."""
        while self._read():
            pass
        self._last_lines.clear()

    def _read(self) -> int:
        """Read the bytes appended since the last call; returns their number."""
        try:
            if os.stat(self.path).st_size == self._offset:  # as in most calls
                return 0
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
        self._last_lines.extend(lines)
        return len(chunk)
