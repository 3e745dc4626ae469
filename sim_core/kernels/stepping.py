"""Stepping loops of the integrators, bound to the arrays of a simulation and called without numba.

numba compiles a loop once. The machine code is cached as an object file, together with a small function `enter`, which
reads the arguments of the loop from one array of numbers and calls the loop. A call through `enter` needs neither numba
nor the conversion of arguments that numba generates for calls from Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sim_core.kernels.bound import BoundKernel
from sim_core.kernels.compiled import code_key, inner, loops_folder, needs_of, stored_library
from sim_core.kernels.machine_code import native
from sim_core.kernels.machine_code.interrupts import signals_after_callbacks
from sim_core.kernels.machine_code.native import Library

# numba's representation of an array with the runtime switched off: two pointers that are not used, number of elements,
# bytes of an element, address, shape and strides
_POINTER, _INTEGER, _REAL = "ptr", "i64", "double"
N_RESULTS = 3  # status, steps taken, index of the guard that fired
CODE = N_RESULTS  # place of numba's return code in the results


def words(arguments: Iterable[Any]) -> list[tuple[str, int | float]]:
    """(LLVM type, value) of the machine words by which numba passes arguments: numbers, arrays, and tuples of these.

    Raises ValueError for other arguments, and for arrays that are not C-contiguous arrays of float64 or int64.
    """
    found: list[tuple[str, int | float]] = []
    for value in arguments:
        if isinstance(value, tuple):
            found += words(value)
        elif isinstance(value, np.ndarray):
            if value.dtype not in (np.float64, np.int64) or not value.flags.carray or value.ndim == 0:
                raise ValueError("arrays of a stepping loop must be writable C-contiguous arrays of float64 or int64")
            found += [(_POINTER, 0), (_POINTER, 0), (_INTEGER, value.size), (_INTEGER, value.itemsize)]
            found += [(_POINTER, value.ctypes.data)]
            found += [(_INTEGER, number) for number in (*value.shape, *value.strides)]
        elif isinstance(value, float):
            found.append((_REAL, value))
        elif isinstance(value, int) and not isinstance(value, bool):
            found.append((_INTEGER, value))
        else:
            raise ValueError(f"a stepping loop takes numbers, arrays and tuples of these, not {value!r}")
    return found


def layout(arguments: Iterable[Any]) -> str:
    """Text that lists the types of the arguments of a loop. The machine code of the loop depends on these types."""
    found = []
    for value in arguments:
        if isinstance(value, tuple):
            found.append(f"({layout(value)})")
        elif isinstance(value, np.ndarray):
            found.append(f"{value.dtype}[{value.ndim}]")
        else:
            found.append("float64" if isinstance(value, float) else "int64")
    return ", ".join(found)


def compile_loop(loop: Any, arguments: tuple[Any, ...]) -> Library:
    """Machine code of a loop, loaded from the cache, or compiled for the types of the arguments and cached.

    The library's only symbol is `enter(block, results)`. A process loads the machine code once.
    """
    place = loops_folder(), loop.py_func, layout(arguments)
    if place not in _loaded:
        key = code_key(loop, place[2])
        made = partial(_compiled, loop, arguments, key)
        _loaded[place] = stored_library(key, made) if key else made()
    return _loaded[place]


_loaded: dict[tuple[Path, Callable[..., Any], str], Library] = {}  # by folder of the cache, function and layout


def is_loop_cached(loop: Any, arguments: tuple[Any, ...]) -> bool:
    """Whether the machine code of a loop is cached; True for plain Python functions, which need no compilation."""
    if not hasattr(loop, "py_func"):
        return True
    folder, types = loops_folder(), layout(arguments)
    if (folder, loop.py_func, types) in _loaded:
        return True
    key = code_key(loop, types)
    return bool(key) and (folder / f"{key}.json").exists()


def _compiled(loop: Any, arguments: tuple[Any, ...], key: str) -> Library:
    import numba  # not loaded if the cache has the code

    compiled = inner(loop.py_func)
    types = tuple(map(numba.typeof, arguments))
    with signals_after_callbacks():
        compiled.compile(types)
    made = compiled.overloads[types]
    returned = made.signature.return_type
    parts = [numba.types.unliteral(part) for part in getattr(returned, "types", ())]
    if parts != N_RESULTS * [numba.types.int64]:
        raise TypeError(f"loop {loop.__name__!r} returns {returned}; it must return three integers")
    if needs := needs_of(made.library):
        raise TypeError(f"loop {loop.__name__!r} calls {', '.join(needs)}; it must allocate and raise nothing")
    symbol = made.fndesc.llvm_func_name
    kinds = [kind for kind, _ in words(arguments)]
    takes = [str(argument.type) for argument in made.library.get_function(symbol).arguments]
    if [_POINTER if kind.endswith("*") else kind for kind in takes] != [_POINTER, _POINTER, *kinds]:
        raise TypeError(
            f"numba passes the arguments of loop {loop.__name__!r} as {takes}, but armswing calls it with {kinds}; "
            "install the version of numba that constraints.txt names"
        )
    objects = [made.library._get_compiled_object(), native.object_of(_enter(symbol, kinds))]
    if not key:
        return native.linked_objects(objects, ["enter"])
    return native.keep(objects, {"key": key, "symbols": ["enter"]}, str(loops_folder() / key))


def _enter(symbol: str, kinds: list[str]) -> str:
    """LLVM IR of `enter(block, results)`, which calls the compiled function `symbol`.

    `block` is an array of 64-bit words, one for each argument of `symbol`. `symbol` writes three integers to the array
    `results`, and `enter` writes the return code of `symbol` after them.

    kinds  LLVM types of the arguments
    """
    lines = [
        f'declare i32 @"{symbol}"({", ".join([_POINTER, _POINTER, *kinds])})',
        "define void @enter(ptr %block, ptr %results) nounwind {",
        "  %failure = alloca ptr",
        "  store ptr null, ptr %failure",
    ]
    for k, kind in enumerate(kinds):
        lines.append(f"  %p{k} = getelementptr i64, ptr %block, i64 {k}")
        lines.append(f"  %a{k} = load {kind}, ptr %p{k}")
    given = ", ".join(["ptr %results", "ptr %failure", *(f"{kind} %a{k}" for k, kind in enumerate(kinds))])
    lines += [
        f'  %code = call i32 @"{symbol}"({given})',
        "  %wide = sext i32 %code to i64",
        f"  %place = getelementptr i64, ptr %results, i64 {CODE}",
        "  store i64 %wide, ptr %place",
        "  ret void",
        "}",
    ]
    return "\n".join(lines) + "\n"


class BoundLoop:
    """A stepping loop with its arguments, compiled or loaded at its first call.

    loop       function (n_steps, h, tick, *given) -> (status, steps taken, index of the guard that fired or -1),
               compiled or plain Python
    h          step size, s
    given      arguments that are the same in every call; the loop reads and writes their arrays
    """

    def __init__(self, loop: Callable[..., Any], h: float, given: tuple[Any, ...]) -> None:
        self._function, self._h, self._given = loop, float(h), given
        self._call: BoundKernel | None = None
        self._is_plain = not hasattr(loop, "py_func")

    def loading(self, what: str) -> AbstractContextManager[object]:
        """Context for the first call; logs that `what`, the name of the loop, is compiled, unless it is cached."""
        if self._call is not None or is_loop_cached(self._function, self._arguments):
            return nullcontext()
        return native.compiling(what)

    @property
    def _arguments(self) -> tuple[Any, ...]:
        return (0, self._h, 0, *self._given)

    def load(self) -> None:
        """Compile the loop or load its machine code, unless that is done."""
        if self._is_plain or self._call is not None:
            return
        library = compile_loop(self._function, self._arguments)
        numbers = words(self._arguments)
        self._block, self._results = np.zeros(len(numbers), dtype=np.int64), np.zeros(N_RESULTS + 1, dtype=np.int64)
        reals = self._block.view(np.float64)
        for place, (kind, number) in enumerate(numbers):
            (reals if kind == _REAL else self._block)[place] = number
        keep = self._block, self._results, self._given, library
        self._call = BoundKernel.of_blocks(library.addresses["enter"], self._block, self._results, keep)

    def __call__(self, n_steps: int, tick: int) -> tuple[int, int, int]:
        """Take up to n_steps steps from `tick`; returns (status, steps taken, index of the guard that fired or -1)."""
        if self._is_plain:
            found: tuple[int, int, int] = self._function(n_steps, self._h, tick, *self._given)
            return found
        if self._call is None:
            self.load()
            assert self._call is not None
        block = self._block
        block[0], block[2] = n_steps, tick
        self._call()
        status, taken, guard, code = self._results.tolist()
        if code:
            raise RuntimeError(f"loop {self._function.__name__!r} failed with code {code} of numba")
        return status, taken, guard
