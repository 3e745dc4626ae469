"""numba with a cache that notices every edit, and the call of a kernel by its address.

numba's own cache watches only the file of the function it stores; ours lives in a folder named by the hash of all
sim_core sources, so that an edited callee is seen too.
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

from sim_core.kernels.native import cache_folder, source_hash


def _loops_folder() -> Path:
    return cache_folder() / "loops" / source_hash()[:16]


@contextmanager
def _own_cache() -> Any:
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(_loops_folder())
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before


def loop(function: Callable[..., Any]) -> Any:
    """Compile a stepping loop, kept on disk. Arguments are arrays and numbers; no exceptions come out."""
    with _own_cache():
        return numba.njit(cache=True, error_model="numpy", no_cfunc_wrapper=True)(function)


def is_kept(compiled: Any) -> bool:
    """Whether a loop was compiled before, so that its first call only loads it; one in plain Python needs nothing."""
    function = getattr(compiled, "py_func", None)
    if function is None:
        return True
    files = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}-*.nbi"
    return any(_loops_folder().rglob(files))


def entry(compiled: Any, *arguments: Any) -> Any:
    """The machine code of a loop for arguments of these types, once it was called with them; it looks at no types.

    A loop in plain Python is given back as it is.
    """
    if not hasattr(compiled, "get_overload"):
        return compiled
    return compiled.get_overload(tuple(numba.typeof(argument) for argument in arguments))


# a function that loops call, compiled into them; nothing else calls it, so it needs no entry from Python or C
inner = numba.njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)


@dataclass(frozen=True)
class NativeFunction:
    """A function with a C address. It is compiled, or loaded from disk, when the address is first asked for."""

    function: Callable[..., Any]
    signature: Signature

    @cached_property
    def _compiled(self) -> Any:
        with _own_cache():
            return numba.cfunc(self.signature, cache=True, error_model="numpy")(self.function)

    @property
    def address(self) -> int:
        """Where its machine code begins."""
        return int(self._compiled.address)


def native_function(signature: Signature) -> Callable[[Callable[..., Any]], NativeFunction]:
    """Make a function of that C signature a native one."""
    return lambda function: NativeFunction(function, signature)


@intrinsic
def call_kernel(typing_context: Any, address: Any, inputs: Any, outputs: Any) -> Any:
    """kernel(inputs, outputs) by addresses: the kernel's, and those of its two pointer tables."""

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
    """law(phi, phidot, gains, memory, U, h, n_holonomic, n_rows) by the law's address; the five arrays by theirs."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer, double, integer = ir.IntType(8).as_pointer(), ir.DoubleType(), ir.IntType(64)
        kind = ir.FunctionType(ir.VoidType(), [pointer] * 5 + [double, integer, integer])
        function = builder.inttoptr(arguments[0], kind.as_pointer())
        pointers = [builder.inttoptr(argument, pointer) for argument in arguments[1:6]]
        builder.call(function, [*pointers, *arguments[6:]])
        return context.get_dummy_value()

    integer = types.int64
    return types.void(integer, integer, integer, integer, integer, integer, types.float64, integer, integer), generate
