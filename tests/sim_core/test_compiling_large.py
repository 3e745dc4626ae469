"""Kernels of large systems are compiled as several modules side by side, and give the same numbers as one module."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
import pytest

from robots import build
from sim_core.derivation.equations import Derivation, derive
from sim_core.kernels import emit
from sim_core.kernels.machine_code import native, side_by_side
from sim_core.kernels.tables import module_with_tables, modules_with_tables

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
