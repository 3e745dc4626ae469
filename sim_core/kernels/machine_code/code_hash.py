"""Hash of a function as it is in memory: its bytecode, the functions that it calls, and the global values that it uses.

Files of machine code are named by this hash. A hash of the source file would be wrong for a file that was edited after
it was imported, and would not notice an edit of another file that the function uses.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

# Attribute with the Python function: of Deferred and of numba's dispatcher, of NativeFunction, of Intrinsic.
_FUNCTION = ("py_func", "function", "_define")
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def code_hash(function: Callable[..., Any]) -> str:
    """Hash of a function, 64 hex digits; equal in all processes that would compile the function to the same code.

    Of functions of sim_core only the bytecode counts, without the functions that they call, because the name of the
    cache folder contains the hash of all sources of sim_core.

    function  a Python function, or an object of numba or of `sim_core.kernels.compiled` that holds one
    """
    digest = hashlib.sha256(sys.version.encode())
    for part in _parts(function, set()):
        digest.update(part + b"\0")
    return digest.hexdigest()


def _parts(value: Any, seen: set[int]) -> Iterator[bytes]:
    if (function := _function_of(value)) is not None:
        yield f"{function.__module__}.{function.__qualname__} {getattr(value, '_options', '')}".encode()
        if id(function) not in seen:
            seen.add(id(function))
            yield from _parts_of_function(function, seen)
    elif isinstance(value, tuple):
        for each in value:
            yield from _parts(each, seen)
        yield b"end of tuple"
    elif isinstance(value, np.ndarray):
        yield f"{value.dtype} {value.shape}".encode() + value.tobytes()
    else:
        yield repr(value if isinstance(value, _PLAIN) else type(value)).encode()


def _parts_of_function(function: FunctionType, seen: set[int]) -> Iterator[bytes]:
    yield from _parts_of_code(function.__code__)
    yield from _parts(function.__defaults__, seen)
    if function.__module__.partition(".")[0] == "sim_core":
        return
    names = sorted(_names(function.__code__))
    for cell in function.__closure__ or ():
        yield from _parts(cell.cell_contents, seen)
    for name in names:
        value = function.__globals__.get(name)
        if isinstance(value, ModuleType):
            for attribute in names:
                yield from _parts(getattr(value, attribute, None), seen)
        else:
            yield from _parts(value, seen)


def _parts_of_code(code: CodeType) -> Iterator[bytes]:
    yield code.co_code
    yield repr((code.co_name, code.co_names, code.co_varnames, code.co_argcount, code.co_flags)).encode()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _parts_of_code(constant)
        else:
            yield (repr(sorted(map(repr, constant))) if isinstance(constant, frozenset) else repr(constant)).encode()


def _names(code: CodeType) -> set[str]:
    """Names of globals and attributes in the code of a function and of its inner functions."""
    inner = (_names(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*inner)


def _function_of(value: Any) -> FunctionType | None:
    if isinstance(value, FunctionType):
        return value
    held = getattr(value, "__dict__", {})
    found = next((held[name] for name in _FUNCTION if name in held), None) if isinstance(held, dict) else None
    return found if isinstance(found, FunctionType) else None
