"""The page on a run inside Python: classes of the page itself command, and arrays come back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_classes_of_a_notebook_command_and_arrays_come_back(
    blocks_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks_of(ROOT / "docs/guides/in_python.md"):
        exec(block.text, namespace)
    assert namespace["arm"][-1] == pytest.approx(60.0, abs=5.0)  # as the page says
    assert namespace["times"].shape == namespace["arm"].shape
    live = namespace["live"].recording
    assert len(live.runs) == 2  # before and after the reset
    assert np.all(np.isfinite(live["rotary_pendulum/state"]["position"]))
