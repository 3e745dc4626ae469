"""Every benchmark runs, and runs again with what the first time left on disk."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

RUN = Path(__file__).with_name("benchmarks") / "run.py"
WITH_A_LOOP = """
import json, sys
from pathlib import Path
from sim_core.kernels.compiled import is_cached, loop

CALLS = 1000


@loop
def _sum(count: int) -> int:
    total = 0
    for k in range(count):
        total += k
    return total


def main(json_path=None):
    kept = is_cached(_sum)
    Path(json_path).write_text(json.dumps({"sum": _sum(CALLS), "kept": kept}))
"""


def load() -> ModuleType:
    """tests/benchmarks/run.py as a module."""
    spec = importlib.util.spec_from_file_location("benchmarks_run", RUN)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_benchmark_with_a_loop_of_its_own_runs_again_on_a_warm_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "with_a_loop.py").write_text(WITH_A_LOOP)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    run = load()
    monkeypatch.setattr(run, "FOLDER", tmp_path)
    assert run.measure("with_a_loop") == {"sum": 499500, "kept": False}
    assert run.measure("with_a_loop", quick=True) == {"sum": 10, "kept": True}


@pytest.mark.soak
@pytest.mark.parametrize("name", dict.fromkeys(load().BENCHMARKS + load().VIEWER))
def test_every_benchmark_runs_twice(name: str) -> None:
    run = load()
    for _ in range(2):
        assert run.measure(name, quick=True)
