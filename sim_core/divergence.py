"""How a run ends that diverged: its last states are written to a file, and those of the last few runs are kept."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sim_core.errors import SimulationDiverged
from sim_core.integrators.workspace import DIVERGED, NOT_CONVERGED, STEP_TOO_SMALL

PREFIX, SUFFIX = "armswing-diverged-", ".npz"
KEPT = 5
WHAT_ENDED = {  # the reason, and the same in words
    DIVERGED: ("not finite", "a state is no longer finite"),
    STEP_TOO_SMALL: ("step went to zero", "its adaptive step went to zero"),
    NOT_CONVERGED: ("solver did not converge", "its implicit stage equations did not converge, a shorter step may do"),
}


def divergence(
    status: int, time: float, history: np.ndarray, name: str, coordinates: Sequence[str], how: str
) -> SimulationDiverged:
    """The error of a run whose loop ended with that status; its history, rows t, q, v, is written."""
    reason, words = WHAT_ENDED[status]
    file = write_history(history, coordinates)
    line = f"{name!r} diverged at t = {time:.6g} s with {how}: {words}"
    return SimulationDiverged(line, time, history, file, reason)


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
