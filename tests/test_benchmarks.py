"""Every benchmark runs, and runs again with what the first time left on disk."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

RUN = Path(__file__).with_name("benchmarks") / "run.py"
JUDGED = """
import json
from pathlib import Path

def main(json_path=None):
    second = Path("first").exists()
    Path("first").touch()
    rows = [("slow", 2.0, False), ("unsteady", 0.5 if second else 1.5, second), ("fast", 0.5, True)]
    bars = [{"what": what, "value": value, "bar": 1.0, "met": met} for what, value, met in rows]
    Path(json_path).write_text(json.dumps({"bars": bars}))
"""
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
    """tests/benchmarks/run.py as a module; it imports its neighbours."""
    if str(RUN.parent) not in sys.path:
        sys.path.append(str(RUN.parent))
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


def test_a_bar_that_is_missed_twice_ends_the_benchmarks_with_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "judged.py").write_text(JUDGED)
    run = load()
    monkeypatch.setattr(run, "FOLDER", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run.main(None, ["judged"]) == 1
    printed = capfd.readouterr().out
    assert "missed, and measured once more: slow; unsteady" in printed
    assert printed.endswith("MISSED judged: slow: 2, bar 1\n")
    (tmp_path / "judged.py").write_text("def main(json_path=None):\n    raise SystemExit(77)\n")
    assert run.main(None, ["judged"]) == 0


def test_the_interval_of_paired_ratios_holds_the_true_ratio() -> None:
    load()
    from bars import paired

    random = np.random.default_rng(1)
    modes = np.where(random.random((400, 40, 1)) < 0.5, 140.0, 200.0)  # of the computer, equal for both of a pair
    turns = modes * np.array([1.2, 1.0]) * random.lognormal(0.0, 0.05, (400, 40, 2))
    found = [paired([(float(a), float(b)) for a, b in run]) for run in turns]
    assert 0.92 <= np.mean([each.low <= 1.2 <= each.high for each in found]) <= 0.99


@pytest.mark.soak
@pytest.mark.parametrize("name", dict.fromkeys(load().BENCHMARKS + load().VIEWER))
def test_every_benchmark_runs_twice(name: str) -> None:
    run = load()
    for _ in range(2):
        assert run.measure(name, quick=True)


@pytest.mark.parametrize("name", [*load().BENCHMARKS, "output_error_coverage", "snapshots", "shortcuts"])
def test_every_benchmark_reads_its_options_from_a_parser(name: str) -> None:
    text = (RUN.parent / f"{name}.py").read_text()
    assert re.search(r"argparse|json_file(_and_parts)?\(__doc__", text)  # without one, `--help` is the name of a file


def test_the_help_of_a_benchmark_is_its_docstring_and_no_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    load()
    bars = importlib.import_module("bars")
    monkeypatch.setattr(sys, "argv", ["identification.py", "--help"])
    with pytest.raises(SystemExit, match="0"):
        bars.json_file("What it measures.")
    assert "What it measures." in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["identification.py", "--json", "figures.json"])
    assert bars.json_file("") == "figures.json"
