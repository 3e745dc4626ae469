"""Suffixes of files that the window writes: a dialog that offers only files with a suffix must find them again."""

from __future__ import annotations

import os


def with_suffix(path: str, suffix: str) -> str:
    """The path with the suffix appended, unless it ends with it.

    The path is not changed either if a file with the suffix exists, because the dialog did not ask whether to replace
    that file. An empty path, of a dialog that was cancelled, stays empty.
    """
    if not path or path.endswith(suffix) or os.path.exists(path + suffix):
        return path
    return path + suffix
