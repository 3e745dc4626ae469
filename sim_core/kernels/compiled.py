"""Compilation by numba with a cache that every edit of sim_core invalidates, and calls of kernels by address.

numba's own cache checks only the file of the cached function. Here the name of the cache folder contains the hash of
all sources of sim_core, so that edits of called functions are detected too. An empty cache folder starts with the
stepping loops that were compiled with the installation, if there are any (see installed.py).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numba
from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from sim_core.kernels.installed import copy_installed_loops
from sim_core.kernels.interrupts import signals_after_callbacks
from sim_core.kernels.native import cache_folder, source_hash

# Without numba's runtime ("nrt") no references to arrays are counted. With it, each call between these functions would
# count the references of all arrays of a Memory by atomic instructions, which took most of the time of a step.
_OPTIONS = {"_nrt": False, "error_model": "numpy", "no_cfunc_wrapper": True}


def _loops_folder() -> Path:
    return cache_folder() / "loops" / source_hash()[:16]


@contextmanager
def _own_cache() -> Any:
    before = numba.config.CACHE_DIR
    folder = _loops_folder()
    copy_installed_loops(folder)
    numba.config.CACHE_DIR = str(folder)
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before


def loop(function: Callable[..., Any]) -> Any:
    """Decorator that compiles a stepping loop and caches it on disk.

    The loop must take arrays and numbers, allocate no arrays, and raise no exceptions.
    """
    with _own_cache():
        return numba.njit(cache=True, **_OPTIONS)(function)


def loop_that_allocates(function: Callable[..., Any]) -> Any:
    """Decorator that compiles and caches a loop, as `loop` does, but permits the loop to allocate arrays.

    The compiler knows that an array allocated in the loop overlaps no argument, so it vectorizes inner loops over this
    array without checks at run time. References to arrays are counted, which costs a little time per call.
    """
    with _own_cache():
        return numba.njit(cache=True, **{**_OPTIONS, "_nrt": True})(function)


def is_kept(compiled: Any) -> bool:
    """Whether a compiled loop is in the cache on disk; True for plain Python functions, which need no compilation."""
    function = getattr(compiled, "py_func", None)
    if function is None:
        return True
    files = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}-*.nbi"
    return any(_loops_folder().rglob(files))


def was_kept(compiled: Any) -> bool:
    """`is_kept`, but a loop that was once found in the cache is not searched for again."""
    key = _loops_folder(), getattr(compiled, "py_func", None)
    if key not in _found and is_kept(compiled):
        _found.add(key)
    return key in _found


_found: set[tuple[Path, Any]] = set()  # (folder of the cache, function) of loops that were found there


def entry(compiled: Any, *arguments: Any) -> Any:
    """Callable machine code of a compiled loop for the types of `arguments`, without numba's type dispatch.

    The loop must have been called with arguments of these types before. A plain Python function is returned unchanged.
    """
    if not hasattr(compiled, "get_overload"):
        return compiled
    return compiled.get_overload(tuple(numba.typeof(argument) for argument in arguments))


# decorators of functions that only compiled loops call, so that no entry point from Python is generated
inner = numba.njit(no_cpython_wrapper=True, **_OPTIONS)
inlined = numba.njit(no_cpython_wrapper=True, forceinline=True, **_OPTIONS)


@dataclass(frozen=True)
class NativeFunction:
    """A function with a C address, compiled or loaded from the cache when the address is first read."""

    function: Callable[..., Any]
    signature: Signature

    @cached_property
    def _compiled(self) -> Any:
        with _own_cache(), signals_after_callbacks():
            return numba.cfunc(self.signature, cache=True, error_model="numpy")(self.function)

    @property
    def address(self) -> int:
        """Address of the machine code of the function."""
        return int(self._compiled.address)


def native_function(signature: Signature) -> Callable[[Callable[..., Any]], NativeFunction]:
    """Decorator that makes a function a NativeFunction with this C signature."""
    return lambda function: NativeFunction(function, signature)


@intrinsic
def call_kernel(typing_context: Any, address: Any, inputs: Any, outputs: Any) -> Any:
    """numba intrinsic: call kernel(inputs, outputs), given the addresses of the kernel and its two pointer tables."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, pointer])
        function = builder.inttoptr(arguments[0], kind.as_pointer())
        builder.call(function, [builder.inttoptr(argument, pointer) for argument in arguments[1:]])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def call_law(
    typing_context: Any,
    address: Any,
    phi: Any,
    phidot: Any,
    gains: Any,
    memory: Any,
    U: Any,
    h: Any,
    n_holonomic: Any,
    n_rows: Any,
) -> Any:
    """numba intrinsic: call a stabilizer's law(phi, phidot, gains, memory, U, h, n_holonomic, n_rows).

    The law and the arrays phi, phidot, gains, memory and U are given by their addresses.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer, double, integer = ir.IntType(8).as_pointer(), ir.DoubleType(), ir.IntType(64)
        kind = ir.FunctionType(ir.VoidType(), [pointer] * 5 + [double, integer, integer])
        function = builder.inttoptr(arguments[0], kind.as_pointer())
        pointers = [builder.inttoptr(argument, pointer) for argument in arguments[1:6]]
        builder.call(function, [*pointers, *arguments[6:]])
        return context.get_dummy_value()

    integer = types.int64
    return types.void(integer, integer, integer, integer, integer, integer, types.float64, integer, integer), generate
