"""Who writes a recording: a lock of the file, which the system takes back from a process that ends."""

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
    """Another recorder writes the file."""

    def __init__(self, path: Path, process: int) -> None:
        super().__init__(errno.EBUSY, f"another recorder writes it, process {process}", str(path))


def lock(descriptor: int, path: Path) -> None:
    """Lock an open file for this process. FileInUseError where another has it; nothing for what is no regular file."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        return
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            raise FileInUseError(path, _holder(descriptor)) from None
        # a file system without locks: nobody else can have one either


def require_unlocked(path: Path) -> None:
    """FileInUseError where another process writes the recording at `path`."""
    with contextlib.suppress(FileNotFoundError, PermissionError, IsADirectoryError):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            if stat.S_ISREG(os.fstat(descriptor).st_mode) and (process := _holder(descriptor)):
                raise FileInUseError(path, process)
        finally:
            os.close(descriptor)


def _holder(descriptor: int) -> int:
    """The process that has the file locked; 0 for none."""
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    try:
        kind, _, _, _, process = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    except OSError:
        return 0
    return 0 if kind == fcntl.F_UNLCK else int(process)
