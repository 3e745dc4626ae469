"""The last states of a run that diverged, written to a file; the files of the last few runs are kept."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

PREFIX, SUFFIX = "armswing-diverged-", ".npz"
KEPT = 5


def write_history(history: np.ndarray, coordinates: Sequence[str]) -> Path:
    """Write the rows t, q, v as `t_q_v` beside the names of the coordinates; older files go, but for the last few."""
    with tempfile.NamedTemporaryFile(prefix=PREFIX, suffix=SUFFIX, delete=False) as stream:
        np.savez(stream, t_q_v=history, coordinates=np.array(coordinates))
    written = Path(stream.name)
    _prune(written)
    return written


def _prune(newest: Path) -> None:
    """Another process may prune at the same time, and other users' files are theirs."""
    found = []
    for file in newest.parent.glob(f"{PREFIX}*{SUFFIX}"):
        with contextlib.suppress(OSError):
            if (status := file.stat()).st_uid == os.getuid() and file != newest:
                found.append((status.st_mtime_ns, file))
    for _, file in sorted(found)[: -(KEPT - 1)]:
        with contextlib.suppress(OSError):
            file.unlink()
