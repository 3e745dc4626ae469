"""What a diverged run leaves behind: its last states, and no more files than of the last few runs."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from sim_core.monitoring import divergence


def test_only_the_files_of_the_last_few_runs_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(divergence.tempfile, "tempdir", str(tmp_path))
    other = tmp_path / "armswing-diverged-notes.txt"
    other.write_text("mine")
    written = []
    for run in range(divergence.KEPT + 3):
        written.append(divergence.write_history(np.full((2, 3), float(run)), ["x"]))
        os.utime(written[-1], ns=(run, run))  # a file system's clock may be too coarse to order them
    kept = sorted(tmp_path.glob("*.npz"))
    assert kept == sorted(written[-divergence.KEPT :])
    assert [np.load(file)["t_q_v"][0, 0] for file in written[-2:]] == [divergence.KEPT + 1.0, divergence.KEPT + 2.0]
    assert other.exists()
