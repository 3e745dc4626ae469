"""Same plan, same seed, same bytes: between launches under load, and in one process."""

from __future__ import annotations

import runpy
from pathlib import Path


def test_launches_under_load_and_the_composed_plan_record_the_same_bytes() -> None:
    """Three launches here; `python tests/benchmarks/determinism.py` makes twenty."""
    program = runpy.run_path(str(Path(__file__).resolve().parents[1] / "benchmarks" / "determinism.py"))
    found = program["hashes"](3, 0.5)
    assert len(found) == 4
    assert len(set(found.values())) == 1, found
