"""Same plan, same seed, same bytes: between launches under load, and in one process."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest


@pytest.mark.parametrize(("plan", "runs"), [("controlled", 3), ("touching", 2)])
def test_launches_under_load_and_the_composed_plan_record_the_same_bytes(plan: str, runs: int) -> None:
    """Few launches here; `python tests/benchmarks/determinism.py` makes twenty of each plan."""
    program = runpy.run_path(str(Path(__file__).resolve().parents[1] / "benchmarks" / "determinism.py"))
    found = program["hashes"](plan, runs, 0.5)
    assert len(found) == runs + 1
    assert len(set(found.values())) == 1, found
