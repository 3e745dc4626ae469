"""Large modules are compiled in two halves side by side, and give the same numbers as one compiled whole."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import numpy as np
import pytest

from robots import build
from sim_core.derivation.equations import derive
from sim_core.kernels import native
from sim_core.kernels.tables import module_with_tables

ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


def module(robot: str) -> tuple[str, list[str]]:
    """LLVM IR of a robot's kernels, and the names of the kernels."""
    derivation = derive(build(robot))
    ir = module_with_tables(derivation.functions, derivation.twins, derivation.uses, derivation.tables)
    return ir, [native.symbol_name(*name.split(".")) for name in derivation.functions]


def results(robot: str, library: native.Library) -> dict[str, bytes]:
    """Results of each kernel of a library for the same random inputs."""
    random, found = np.random.default_rng(3), {}
    functions = derive(build(robot)).functions
    for name, function in functions.items():
        given = [random.normal(size=function.size_in(k)).ravel() for k in range(function.n_in())]
        result = [np.zeros(max(function.nnz_out(k), 1)) for k in range(function.n_out())]
        pointers = [(ctypes.c_void_p * len(part))(*(array.ctypes.data for array in part)) for part in (given, result)]
        ENTRY(library.addresses[native.symbol_name(*name.split("."))])(*pointers)
        found[name] = b"".join(array.tobytes() for array in result)
    return found


@pytest.mark.parametrize(
    "compile_command", [native.COMPILE, "raise SystemExit(1)"], ids=["side by side", "process fails"]
)
@pytest.mark.parametrize("robot", ["rotary_pendulum", "triple_pendulum"])
def test_halves_of_a_module_give_the_numbers_of_the_whole(
    robot: str, compile_command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ir, symbols = module(robot)
    (whole,) = native._objects_of(ir)
    monkeypatch.setattr(native, "LARGE", 1)
    monkeypatch.setattr(native, "COMPILE", compile_command)
    halves = native._objects_of(ir)
    assert len(halves) == 2
    assert max(map(len, halves)) < len(whole)
    expected = results(robot, native.linked_objects([whole], symbols))
    assert results(robot, native.linked_objects(halves, symbols)) == expected
    assert len(set(expected.values())) > 5


def test_the_objects_do_not_depend_on_the_number_of_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    ir, _ = module("rotary_pendulum")
    monkeypatch.setattr(native, "LARGE", 1)
    halves = native._objects_of(ir)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {0})
    assert native._objects_of(ir) == halves


def test_a_module_whose_functions_call_each_other_is_not_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    ir, _ = module("lipinski_pendulum")  # has tables of a beam
    monkeypatch.setattr(native, "LARGE", 1)
    assert len(native._objects_of(ir)) == 1


def test_a_module_with_one_function_is_not_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "LARGE", 1)
    text: Any = "define void @one(ptr %in, ptr %out) {\n  ret void\n}\n"
    assert len(native._objects_of(text)) == 1
