"""Kernels of large systems are compiled as several modules side by side, and give the same numbers as one module."""

from __future__ import annotations

import ctypes
import math
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from armswing import build
from sim_core.derivation.equations import Derivation, derive
from sim_core.kernels import emit
from sim_core.kernels.effort import CompilationTooLarge, effort_of, least_sizes
from sim_core.kernels.machine_code import native, side_by_side
from sim_core.kernels.tables import module_with_tables, modules_with_tables
from sim_core.mechanism import GROUND, Body, Joint, Mechanism, X, Y
from sim_core.system import assemble

ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
ROBOTS = ["rotary_pendulum", "triple_pendulum"]


@pytest.fixture(autouse=True)
def small_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules are divided from a few instructions on."""
    monkeypatch.setattr(emit, "TOGETHER", 1)
    monkeypatch.setattr(emit, "SEPARATE", 60)


def whole(derivation: Derivation) -> str:
    return module_with_tables(derivation.functions, derivation.twins, derivation.uses, derivation.tables)


def parts(derivation: Derivation) -> list[str]:
    return list(modules_with_tables(derivation.functions, derivation.twins, derivation.uses, derivation.tables))


def results(derivation: Derivation, objects: list[bytes]) -> dict[str, bytes]:
    """Results of each kernel for the same random inputs."""
    library = native.linked_objects(objects, [native.symbol_name(*name.split(".")) for name in derivation.functions])
    random, found = np.random.default_rng(3), {}
    for name, function in derivation.functions.items():
        given = [random.normal(size=function.size_in(k)).ravel() for k in range(function.n_in())]
        result = [np.zeros(max(function.nnz_out(k), 1)) for k in range(function.n_out())]
        pointers = [(ctypes.c_void_p * len(part))(*(array.ctypes.data for array in part)) for part in (given, result)]
        ENTRY(library.addresses[native.symbol_name(*name.split("."))])(*pointers)
        found[name] = b"".join(array.tobytes() for array in result)
    return found


@pytest.mark.parametrize("robot", ROBOTS)
def test_modules_compiled_side_by_side_give_the_numbers_of_one_module(robot: str) -> None:
    derivation = derive(build(robot))
    modules = parts(derivation)
    assert len(modules) > 3
    objects = side_by_side.objects_of(modules)
    expected = results(derivation, [native.object_of(whole(derivation))])
    assert results(derivation, objects) == expected
    assert len(set(expected.values())) > 5


def test_the_other_process_compiles_too(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = parts(derive(build("triple_pendulum")))
    received, compiled_there = side_by_side._received, threading.Event()

    def reception(stream: BinaryIO) -> bytes:
        data = received(stream)
        compiled_there.set()
        return data

    def object_of(ir: str) -> bytes:
        assert compiled_there.wait(60.0), "the other process sent nothing"
        return native.object_of(ir)

    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {0, 1})
    monkeypatch.setattr(side_by_side, "_received", reception)
    monkeypatch.setattr(side_by_side, "object_of", object_of)
    assert len(side_by_side.objects_of(modules)) == len(modules)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("raise SystemExit(1)", id="fails at the start"),
        pytest.param("import sys; sys.stdin.buffer.read(100)", id="fails while it reads"),
        pytest.param("import sys; sys.stdout.buffer.write(bytes(7) + b'\\x09' + b'few')", id="sends less than it says"),
    ],
)
def test_this_process_compiles_what_the_other_process_does_not(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    modules = parts(derive(build("rotary_pendulum")))
    expected = side_by_side.objects_of(modules)
    monkeypatch.setattr(side_by_side, "COMPILE", command)
    assert side_by_side.objects_of(modules) == expected


def test_the_objects_do_not_depend_on_the_number_of_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = parts(derive(build("rotary_pendulum")))
    expected = side_by_side.objects_of(modules)
    assert expected == [native.object_of(module) for module in modules]
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {0})
    assert side_by_side.objects_of(modules) == expected


def test_no_process_is_started_for_one_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side.subprocess, "Popen", lambda *_, **__: pytest.fail("a process was started"))
    monkeypatch.setattr(emit, "TOGETHER", 10**9)
    derivation = derive(build("rotary_pendulum"))
    assert side_by_side.objects_of(parts(derivation)) == [native.object_of(whole(derivation))]


def test_an_error_in_the_writing_of_a_module_ends_the_other_process() -> None:
    def modules() -> Iterator[str]:
        yield from parts(derive(build("rotary_pendulum")))[:2]
        raise ValueError("not supported")

    with pytest.raises(ValueError, match="not supported"):
        side_by_side.objects_of(modules())


def test_kernels_with_tables_stay_in_one_module() -> None:
    derivation = derive(build("lipinski_pendulum"))  # has tables of a beam
    assert parts(derivation) == [whole(derivation)]


def chain(n_links: int) -> Mechanism:
    """A chain of links with revolute joints."""
    names, rest = [f"link_{k}" for k in range(n_links)], (0.0,) * n_links
    bodies = tuple(Body(name=name, mass=1.0, inertia=(0.1, 0.1, 0.1, 0.0, 0.0, 0.0)) for name in names)
    joints = tuple(
        Joint(name=f"joint_{k}", parent=parent, child=child, parent_point=(0.0, 0.0, -0.2), axis=(X, Y)[k % 2])
        for k, (parent, child) in enumerate(zip([GROUND, *names], names, strict=False))
    )
    return Mechanism(name="chain", coordinates="joint", bodies=bodies, joints=joints, initial_q=rest, initial_v=rest)


def test_a_compilation_that_takes_too_long_is_refused_before_the_derivation() -> None:
    with pytest.raises(CompilationTooLarge, match=r"would take at least .* s and .* GB; .* compile_limit_s") as refused:
        assemble(chain(400), rolled=False)
    effort = refused.value.effort
    assert effort.seconds > 60.0
    assert effort.memory > 2e9


def test_a_limit_of_the_time_to_compile_is_compared_with_the_derived_instructions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    mechanism = chain(6)
    with pytest.raises(CompilationTooLarge, match=r"the limits are 0\.05 s and 2 GB") as refused:
        assemble(mechanism, compile_limit_s=0.05)
    sizes = [function.n_instructions() for function in derive(mechanism).functions.values()]
    assert refused.value.effort == effort_of(sizes)
    assert sum(least_sizes(mechanism)) < sum(sizes)
    assert assemble(mechanism, compile_limit_s=60.0).n_q == 6


def test_the_limit_of_the_time_to_compile_is_also_that_of_the_derivatives(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    rest = np.zeros(5)
    assemble(chain(5), rolled=True)  # its kernels are cached, so that the limit is that of the derivatives alone
    with pytest.raises(CompilationTooLarge, match=r"the limits are 0\.001 s and 2 GB; .* compile_limit_s"):
        assemble(chain(5), compile_limit_s=0.001, rolled=True).derivatives(0.0, rest, rest)
    assert assemble(chain(5), rolled=True).derivatives(0.0, rest, rest).a_q.shape == (5, 5)
    monkeypatch.setattr("sim_core.kernels.effort.LIMIT_BYTES", 1e6)
    with pytest.raises(CompilationTooLarge):
        assemble(chain(4), rolled=True).derivatives(0.0, rest[:4], rest[:4])
    permitted = assemble(chain(4), compile_limit_s=math.inf, rolled=True)
    assert permitted.derivatives(0.0, rest[:4], rest[:4]).a_q.shape == (4, 4)


def test_a_chain_of_60_links_is_assembled_without_permission() -> None:
    effort = effort_of([117_853, 116_083, 38_857, 38_122, 9_085, 5_636, 2_305])  # its kernels
    assert 20.0 < effort.seconds <= 60.0
    assert effort.memory < 2e9


@pytest.mark.soak
def test_a_chain_of_60_links_is_assembled_with_less_than_1_gb(tmp_path: Path) -> None:
    code = (
        "import resource; from tests.sim_core.test_compiling_large import chain; from sim_core import assemble;"
        "assemble(chain(60), rolled=False); print(sum(resource.getrusage(who).ru_maxrss for who in (0, -1)))"
    )
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2])}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert 1024 * int(run.stdout) < 1e9
