"""The stepping loop that another process compiles is the one that a simulation loads from the cache."""

from __future__ import annotations

from pathlib import Path

import numba
import pytest

from robots.registry import build
from sim_core import Simulation, assemble
from sim_core.integrators.ahead import argument_types, loop_compiled_ahead
from sim_core.integrators.steppers import STEPPERS, stepper_named
from sim_core.kernels import compiled
from sim_core.system import System


@pytest.fixture(scope="module")
def system() -> System:
    return assemble(build("rotary_pendulum", coordinates="joint"))


COMPILED = [name for name in STEPPERS if hasattr(stepper_named(name).loop(), "py_func")]  # others are plain Python


@pytest.mark.parametrize("name", COMPILED)
def test_the_types_are_those_of_a_simulations_arguments(name: str, system: System) -> None:
    sim = Simulation(system, stepper=name)
    given = 0, sim.step_s, sim._tick, *sim._given
    assert argument_types(sim.stepper) == tuple(map(numba.typeof, given))


@pytest.mark.timeout(400)  # compiling takes 5 s on an idle computer
def test_the_loop_is_compiled_in_another_process_and_only_loaded_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("ARMSWING_INSTALLED_LOOPS", "")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr("os.getloadavg", lambda: (2.0, 0.0, 0.0))
    loop = STEPPERS["semi_implicit"].loop()
    with loop_compiled_ahead("semi_implicit"):
        pass
    assert not compiled.is_kept(loop)  # both cores are busy
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))
    with loop_compiled_ahead("semi_implicit"):
        pass
    assert compiled.is_kept(loop)
    kept = sorted(compiled._loops_folder().rglob("*.nb?"))
    with loop_compiled_ahead({"name": "semi_implicit"}):
        pass
    assert sorted(compiled._loops_folder().rglob("*.nb?")) == kept
