"""File lock of a recording's writer. The operating system releases the lock when the writer's process ends."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import struct
from pathlib import Path

_FLOCK = struct.Struct("hhqqi0q")  # type, whence, start, length, process


class FileInUseError(OSError):
    """Another recorder is writing the file."""

    def __init__(self, path: Path, process: int) -> None:
        super().__init__(errno.EBUSY, f"another recorder writes it, process {process}", str(path))


def lock(descriptor: int, path: Path) -> None:
    """Lock an open file for this process. Raises FileInUseError if another process holds the lock.

    Does nothing for files that are not regular, and on file systems without locks.
    """
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        return
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            raise FileInUseError(path, _holder(descriptor)) from None
        # otherwise the file system has no locks, so no other process holds one


def require_unlocked(path: Path) -> None:
    """Raise FileInUseError if another process is writing the recording at `path`."""
    with contextlib.suppress(FileNotFoundError, PermissionError, IsADirectoryError):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            if stat.S_ISREG(os.fstat(descriptor).st_mode) and (process := _holder(descriptor)):
                raise FileInUseError(path, process)
        finally:
            os.close(descriptor)


def _holder(descriptor: int) -> int:
    """Id of the process that holds the file's lock; 0 if no process holds the lock."""
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    try:
        kind, _, _, _, process = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    except OSError:
        return 0
    return 0 if kind == fcntl.F_UNLCK else int(process)
