"""Stepping loops and native functions whose machine code is loaded without numba."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from robots.registry import build
from sim_core import Simulation, assemble
from sim_core.kernels import stepping
from sim_core.kernels.compiled import loops_folder
from sim_core.kernels.stepping import BoundLoop, compile_loop, layout, words
from sim_core.system import System

COMPARED = ("semi_implicit", "rk4")  # numba takes seconds to compile each
LOOPS = """
import math
from sim_core.kernels.compiled import loop, native_function

LAW = "void(CPointer(float64), CPointer(float64))"

@loop
def shift(n_steps, h, tick, pair, scale):
    for i in range(pair[0].size):
        pair[0][i] += scale * h * n_steps
    pair[1][0] += tick
    return 1, n_steps, -1

@loop
def two_results(n_steps, h, tick):
    return n_steps, tick

@loop
def printing(n_steps, h, tick):
    print(n_steps)
    return 0, 0, 0

@native_function(LAW)
def doubled(given, found):
    found[0] = 2.0 * math.sin(given[0])

@native_function(LAW)
def that_prints(given, found):
    print(given[0])
    found[0] = 3.0

@native_function(LAW)
def that_raises(given, found):
    found[0] = 4.0
    if given[0] > 0.0:
        raise ValueError("positive")
"""


def module_of(file: Path, text: str = LOOPS) -> ModuleType:
    """A fresh module of the functions in LOOPS."""
    file.write_text(text)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("ARMSWING_INSTALLED_LOOPS", "")
    return module_of(tmp_path / "own_loops.py")


@pytest.fixture(scope="module")
def system() -> System:
    return assemble(build("rotary_pendulum", coordinates="joint"))


@pytest.mark.parametrize("name", COMPARED)
def test_a_bound_loop_takes_the_steps_that_numba_takes(name: str, system: System) -> None:
    ours, numbas = (Simulation(system, stepper=name) for _ in range(2))
    for count in (1, 2, 40):
        tick = ours.tick
        ours.step(count)
        status, taken, _ = numbas.stepper.loop()(count, numbas.step_s, tick, *numbas._loop._given)
        assert (status, taken) == (0, count)
        for mine, other in zip(ours._w.memory, numbas._w.memory, strict=True):
            assert mine.tobytes() == other.tobytes()


def test_numbers_arrays_and_tuples_are_passed_and_all_results_come_back(own: ModuleType) -> None:
    pair, count = (np.arange(3.0), np.zeros(1, dtype=np.int64)), 7
    bound = BoundLoop(own.shift, 0.5, (pair, 2.0))
    assert bound(count, 5) == (1, count, -1)
    assert pair[0].tolist() == [7.0, 8.0, 9.0]
    assert pair[1].tolist() == [5]
    again = BoundLoop(own.shift, 0.5, (pair, 2.0))
    assert again.loading("the loop").__class__.__name__ == "nullcontext"
    assert again(1, 0) == (1, 1, -1)
    assert pair[0].tolist() == [8.0, 9.0, 10.0]


@pytest.mark.parametrize("value", [np.zeros((2, 3)).T, np.zeros(4)[::2], np.zeros(2, dtype=np.float32), "text", None])
def test_an_argument_that_a_loop_cannot_take_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="stepping loop"):
        words([1, (2.0, value)])


def test_the_layout_tells_arguments_of_different_types_apart() -> None:
    given = [1, 1.0, (1.0,), np.zeros(1), np.zeros(1, dtype=np.int64), np.zeros((1, 1))]
    assert len({layout([value]) for value in given}) == len(given)


def test_a_loop_that_does_not_return_three_integers_or_needs_numba_is_refused(own: ModuleType) -> None:
    with pytest.raises(TypeError, match=r"'two_results' returns .*; it must return three integers"):
        compile_loop(own.two_results, (0, 1.0, 0))
    with pytest.raises(TypeError, match="'printing' calls "):
        compile_loop(own.printing, (0, 1.0, 0))


def test_a_native_function_is_kept_unless_it_needs_numba(
    own: ModuleType, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given, found, raised = np.full(1, 0.5), np.zeros(1), []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: raised.append(str(unraisable.exc_value)))

    def call(function: Any) -> float:
        import ctypes

        ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(function.address)(given.ctypes.data, found.ctypes.data)
        return float(found[0])

    assert call(own.doubled) == pytest.approx(2.0 * np.sin(0.5), rel=1e-15)
    assert call(own.that_prints) == 3.0
    assert capfd.readouterr().out == "0.5\n"
    assert call(own.that_raises) == 4.0
    assert raised == ["positive"]
    names = {file.name.rpartition("-")[0] for file in loops_folder().glob("*.o")}
    assert names == {"doubled"}


PRINT_DOUBLED = """
import ctypes, sys, numpy, own_loops
given, found = numpy.full(1, 0.5), numpy.zeros(1)
call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(own_loops.doubled.address)
call(given.ctypes.data, found.ctypes.data)
print(float(found[0]), 'numba' in sys.modules)
"""


def doubled_in_a_process(folder: Path, before: str = "") -> tuple[float, bool]:
    """Result of `doubled` of own_loops.py, and whether it was compiled; `before` is code between import and use."""
    command = [sys.executable, "-c", "import own_loops\n" + before + PRINT_DOUBLED]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=True, timeout=100)
    value, compiled = done.stdout.split()
    return float(value), compiled == "True"


def test_an_edited_native_function_is_compiled_anew(own: ModuleType, tmp_path: Path) -> None:
    first, warm = doubled_in_a_process(tmp_path), doubled_in_a_process(tmp_path)
    assert (first[1], warm[1]) == (True, False)
    assert warm[0] == first[0]
    # a longer file: Python itself does not notice another text of the same length within a second
    (tmp_path / "own_loops.py").write_text(LOOPS.replace("2.0 * math.sin", "4.000 * math.sin"))
    assert doubled_in_a_process(tmp_path) == (2.0 * first[0], True)
    assert doubled_in_a_process(tmp_path) == (2.0 * first[0], False)


def test_a_function_of_a_file_that_was_edited_after_its_import_is_not_taken_for_the_edited_one(
    own: ModuleType, tmp_path: Path
) -> None:
    edited = LOOPS.replace("2.0 * math.sin", "4.000 * math.sin")
    edits = f"open('own_loops.py', 'w').write({edited!r})\n"
    before, _ = doubled_in_a_process(tmp_path, edits)
    assert before == pytest.approx(2.0 * np.sin(0.5), rel=1e-15)
    after, _ = doubled_in_a_process(tmp_path)
    assert after == pytest.approx(4.0 * np.sin(0.5), rel=1e-15)


LAWS = """
import math
from sim_core.kernels.compiled import inner
GAIN = 2.0

@inner
def law(x):
    return math.sin(x)
"""


@pytest.mark.parametrize(("text", "other"), [("GAIN = 2.0", "GAIN = 4.000"), ("math.sin(x)", "2.0 * math.sin(x)")])
@pytest.mark.parametrize("through", ["laws.", ""], ids=["by module", "by name"])
def test_an_edit_of_another_file_that_a_function_uses_is_seen(
    text: str, other: str, through: str, own: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "laws.py").write_text(LAWS)
    imports = "import laws\n" if through else "from laws import GAIN, law\n"
    body = f"found[0] = {through}GAIN * {through}law(given[0])"
    (tmp_path / "own_loops.py").write_text(imports + LOOPS.replace("found[0] = 2.0 * math.sin(given[0])", body))
    first = doubled_in_a_process(tmp_path)
    assert first == (pytest.approx(2.0 * np.sin(0.5), rel=1e-15), True)
    assert doubled_in_a_process(tmp_path) == (first[0], False)
    (tmp_path / "laws.py").write_text(LAWS.replace(text, other))
    assert doubled_in_a_process(tmp_path) == (2.0 * first[0], True)


def test_a_damaged_file_of_machine_code_is_compiled_anew(own: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = (0, 0.5, 0, (np.zeros(1), np.zeros(1, dtype=np.int64)), 2.0)

    def is_cached() -> bool:  # for another process
        monkeypatch.setattr(stepping, "_loaded", {})
        return compile_loop(own.shift, arguments).from_cache

    assert not is_cached()
    assert is_cached()
    assert compile_loop(own.shift, arguments) is compile_loop(own.shift, arguments)
    (file,) = loops_folder().glob("shift-*.o")
    file.write_bytes(file.read_bytes()[:-10])
    assert not is_cached()
