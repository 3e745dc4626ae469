"""The stepping loop that another process compiles is the one that a simulation loads from the cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from robots.registry import build
from sim_core import Simulation, assemble
from sim_core.integrators.ahead import example_arguments, loop_compiled_ahead
from sim_core.integrators.steppers import STEPPERS, stepper_named
from sim_core.kernels.compiled import loops_folder
from sim_core.kernels.stepping import is_loop_cached, layout
from sim_core.system import System


@pytest.fixture(scope="module")
def system() -> System:
    return assemble(build("rotary_pendulum", coordinates="joint"))


COMPILED = [name for name in STEPPERS if hasattr(stepper_named(name).loop(), "py_func")]  # others are plain Python


@pytest.mark.parametrize("name", COMPILED)
def test_the_types_are_those_of_a_simulations_arguments(name: str, system: System) -> None:
    sim = Simulation(system, stepper=name)
    assert layout(example_arguments(sim.stepper)) == layout(sim._loop._arguments)


def test_the_loop_is_compiled_in_another_process_and_only_loaded_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("ARMSWING_INSTALLED_LOOPS", "")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr("os.getloadavg", lambda: (2.0, 0.0, 0.0))
    loop = STEPPERS["semi_implicit"].loop(), example_arguments(STEPPERS["semi_implicit"])
    with loop_compiled_ahead("semi_implicit"):
        pass
    assert not is_loop_cached(*loop)  # both cores are busy
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))
    with loop_compiled_ahead("semi_implicit"):
        pass
    assert is_loop_cached(*loop)
    kept = {file: file.stat().st_mtime_ns for file in loops_folder().rglob("*.o")}
    with loop_compiled_ahead({"name": "semi_implicit"}):
        pass
    assert {file: file.stat().st_mtime_ns for file in loops_folder().rglob("*.o")} == kept
