"""Files that commands write: under a temporary name first, so that a failure leaves an earlier file unchanged."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

PROBE_BYTES = 1 << 16


class NotWrittenError(OSError):
    """A file could not be written completely, and was therefore not put in its place."""

    left = "this file was not written"


@contextlib.contextmanager
def new_file(path: str | os.PathLike[str], is_complete: Callable[[Path], bool] | None = None) -> Iterator[Path]:
    """Context manager that yields a temporary path beside `path`, and renames this file to `path` at the end.

    After an error the temporary file is removed, and an earlier file at `path` is unchanged. A device or a pipe is
    written directly.

    is_complete  function that returns whether the file at a path is complete; needed if a library writes the file and
                 reports no error when the disk is full

    Raises NotWrittenError, with the path and the reason, if the file cannot be written.
    """
    target = Path(os.path.realpath(path))  # of a symbolic link the target is replaced, not the link
    is_special = target.exists() and not target.is_file()
    part = target if is_special else target.with_name(f".{target.stem}.part{target.suffix}")
    try:
        yield part
        if is_complete is not None and not is_special and not is_complete(part):
            raise _refusal(part) or OSError(errno.EIO, os.strerror(errno.EIO))
        if not is_special:
            part.replace(target)
    except OSError as error:
        found = error if error.errno or is_special else _refusal(part) or error
        raise NotWrittenError(found.errno or errno.EIO, found.strerror or str(found), os.fspath(path)) from error
    except RuntimeError as error:  # of a library, which does not always name the disk's error
        refusal = None if is_special else _refusal(part)
        if refusal is None:
            raise
        raise NotWrittenError(refusal.errno, refusal.strerror, os.fspath(path)) from error
    finally:
        if not is_special:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)


def write_file(path: str | os.PathLike[str], content: bytes | str) -> None:
    """Write a whole file, text as UTF-8. Raises NotWrittenError if the file cannot be written."""
    with new_file(path) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)


def _refusal(part: Path) -> OSError | None:
    """The OSError raised when more bytes are written to a file, for example on a full disk; None if none is raised."""
    try:
        with part.open("ab", buffering=0) as file:
            rest = PROBE_BYTES
            while rest:
                rest -= file.write(bytes(rest))
    except OSError as error:
        return error
    return None
