"""Reading of files from strangers, which may have any length."""

from __future__ import annotations

import errno
import os


def read_limited(path: str | os.PathLike[str], most: int) -> bytes:
    """Content of a file. Raises OSError if it cannot be read, or has more than `most` bytes, as a device may."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(most + 1) if size <= most else b""
    if max(size, len(content)) > most:
        many = f"{size}" if size > most else f"more than {most}"
        raise OSError(errno.E2BIG, f"the file has {many} bytes; shorten it to at most {most}", str(path))
    return content
