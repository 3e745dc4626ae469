"""Functions that numba compiles, and their machine code, which is loaded from a cache without importing numba.

Importing numba takes longer than everything else in the start of a simulation from a warm cache. The decorators here
therefore return a `Deferred` function, which imports numba when it is first compiled or called. The machine code of a
`NativeFunction` and of a stepping loop (see stepping.py) is kept as an object file, like the machine code of kernels.

The name of the cache folder contains the hash of all sources of sim_core, so that edits of called functions are
detected too. If the cache folder does not exist, the code that was compiled with the installation, if any, is copied to
it (see installed.py).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from types import FunctionType
from typing import Any

from sim_core.kernels.machine_code import native
from sim_core.kernels.machine_code.code_hash import code_hash
from sim_core.kernels.machine_code.installed import copy_installed_loops
from sim_core.kernels.machine_code.interrupts import signals_after_callbacks
from sim_core.kernels.machine_code.native import Library, cache_subfolder, source_hash

# Without numba's runtime ("nrt") no references to arrays are counted. With it, each call between these functions would
# count the references of all arrays of a Memory by atomic instructions, which took most of the time of a step.
_OPTIONS = {"_nrt": False, "error_model": "numpy", "no_cfunc_wrapper": True}
NATIVE = "native"  # symbol of a native function in its object files
# functions of libc and libm, which every process contains, and LLVM's intrinsics, which become such functions
_ANYWHERE = re.compile(
    r"llvm\..*|mem(cpy|set|move)|(sqrt|cbrt|exp|exp2|expm1|log|log2|log10|log1p|pow|fmod|sin|cos|tan|asin|acos|atan"
    r"|atan2|sinh|cosh|tanh|hypot|floor|ceil|trunc|round|rint|nearbyint|fabs|fmin|fmax|copysign|ldexp)"
)


def loops_folder() -> Path:
    """Folder of the machine code that is cached for the present sources of sim_core.

    If the folder does not exist and there is installed code (see installed.py), a copy of this code is made. Raises
    UntrustedFile if another user could have written a file in the folder.
    """
    folder = cache_subfolder("loops") / source_hash()[:16]
    copy_installed_loops(folder)
    _require_loops(folder)
    return folder


@cache
def _require_loops(folder: Path) -> None:
    """Raise UntrustedFile if another user could have written a file in the folder, from which numba loads code."""
    for each in (folder, *folder.rglob("*")):
        with suppress(FileNotFoundError):  # another process makes and replaces files
            native.require_cached(each)


@contextmanager
def _own_cache() -> Iterator[None]:
    import numba  # not loaded if the cache has the code

    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(loops_folder())
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before


class Deferred:
    """A function that numba compiles when it is first called; other compiled functions may call it.

    Every attribute of numba's dispatcher is an attribute of this object too.

    py_func  the Python function
    """

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        functools.update_wrapper(self, function)
        self.py_func, self._options = function, options

    @cached_property
    def dispatcher(self) -> Any:
        """numba's dispatcher of the function."""
        import numba  # not loaded if the cache has the code

        make_intrinsics()
        with _own_cache():
            return numba.njit(**self._options)(self.py_func)

    @property
    def _numba_type_(self) -> Any:
        return self.dispatcher._numba_type_

    def __call__(self, *arguments: Any) -> Any:
        return self.dispatcher(*arguments)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.dispatcher, name)


def loop(function: Callable[..., Any]) -> Deferred:
    """Decorator of a function that numba compiles at the first call and caches on disk, such as a stepping loop.

    The function must take arrays and numbers, allocate no arrays, and raise no exceptions.
    """
    return Deferred(function, cache=True, **_OPTIONS)


def loop_that_allocates(function: Callable[..., Any]) -> Deferred:
    """Decorator like `loop`, for a function that may allocate arrays.

    An array allocated in the function overlaps no argument, so that the compiler vectorizes inner loops over this array
    without checks at run time. References to arrays are counted, which costs a little time per call.
    """
    return Deferred(function, cache=True, **{**_OPTIONS, "_nrt": True})


def inner(function: Callable[..., Any]) -> Deferred:
    """Decorator of a function that only compiled functions call: no entry point from Python is generated."""
    return Deferred(function, no_cpython_wrapper=True, **_OPTIONS)


def inlined(function: Callable[..., Any]) -> Deferred:
    """Decorator of a function that only compiled functions call, and that is inlined into these functions."""
    return Deferred(function, no_cpython_wrapper=True, forceinline=True, **_OPTIONS)


class Intrinsic:
    """A numba intrinsic: a function whose LLVM code is generated by Python. It is made when numba is first needed.

    define  function of numba's typing context and the types of the arguments, as `numba.extending.intrinsic` takes it
    """

    def __init__(self, define: Callable[..., Any]) -> None:
        self._define = define
        _intrinsics.append(self)

    @cached_property
    def made(self) -> Any:
        """The function that numba's compiler recognizes, made by `numba.extending.intrinsic` at the first use."""
        from numba.extending import intrinsic  # not loaded if the cache has the code

        return intrinsic(self._define)

    @property
    def _numba_type_(self) -> Any:
        from numba.core.registry import cpu_target  # not loaded if the cache has the code

        return cpu_target.typing_context.resolve_value_type(self.made)

    def __call__(self, *arguments: Any) -> Any:
        """Raise NotImplementedError: an intrinsic is called by compiled functions only."""
        raise NotImplementedError(f"{self._define.__name__} can be called by compiled functions only")


_intrinsics: list[Intrinsic] = []


def make_intrinsics() -> None:
    """Make all intrinsics, because numba registers them at the start of a compilation."""
    for each in _intrinsics:
        _ = each.made


def is_cached(compiled: Any) -> bool:
    """Whether a loop is in numba's cache on disk; True for plain Python functions, which need no compilation."""
    function = getattr(compiled, "py_func", None)
    if function is None:
        return True
    files = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}-*.nbi"
    return any(loops_folder().rglob(files))


@dataclass(frozen=True)
class NativeFunction:
    """A function with a C address, compiled or loaded from the cache when the address is first read.

    signature  C signature: a text with the names of numba's types, such as "void(CPointer(float64), int64)", or an
               object of numba
    """

    function: Callable[..., Any]
    signature: Any

    @cached_property
    def _library(self) -> Any:
        """Object that owns the machine code and has the attribute `addresses`."""
        key = code_key(self.function, str(self.signature))
        return stored_library(key, lambda: self._compiled(key)) if key else self._compiled("")

    def _compiled(self, key: str) -> Library:
        """The newly compiled machine code.

        The code is cached under `key` if the function returns nothing, raises no exception, and needs no function of
        numba at run time. Otherwise, or if `key` is "", the code is not cached.
        """
        import numba  # not loaded if the cache has the code
        from numba.core.sigutils import normalize_signature

        types, returned = normalize_signature(self.signature)
        direct = Deferred(self.function, no_cpython_wrapper=True, no_cfunc_wrapper=True, error_model="numpy")
        with signals_after_callbacks():
            direct.compile(types)
        made = direct.overloads[types]
        symbol = made.fndesc.llvm_func_name
        if not key or returned != numba.types.void or needs_of(made.library) or _may_raise(made.library):
            # not numba.cfunc: its functions lack numba's environment, and one that prints never releases Python's lock
            called = Deferred(self.function, no_cpython_wrapper=True, error_model="numpy")
            with signals_after_callbacks():
                called.compile(types)
            library, name = called.overloads[types].library, called.overloads[types].fndesc.llvm_cfunc_wrapper_name
            return Library({}, {NATIVE: library.get_pointer_to_function(name)}, False, called)
        kinds = [str(argument.type) for argument in made.library.get_function(symbol).arguments][2:]
        objects = [made.library._get_compiled_object(), native.object_of(_with_c_arguments(symbol, kinds))]
        return native.keep(objects, {"key": key, "symbols": [NATIVE]}, str(loops_folder() / key))

    @property
    def address(self) -> int:
        """Address of the machine code of the function."""
        return int(self._library.addresses[NATIVE])


def native_function(signature: Any) -> Callable[[Callable[..., Any]], NativeFunction]:
    """Decorator that makes a function a NativeFunction with this C signature."""
    return lambda function: NativeFunction(function, signature)


def code_key(function: Any, *parts: str) -> str:
    """File name, without suffix, of a function's machine code in `loops_folder`.

    Returns "" for a function without a source file, and for a function that uses variables of an enclosing function.

    function  the Python function, or the Deferred function that holds it
    parts     further texts on which the machine code depends
    """
    code = function.__code__ if isinstance(function, FunctionType) else function.py_func.__code__
    if code.co_freevars or not Path(code.co_filename).is_file():
        return ""
    return f"{code.co_name}-{native.short_hash(native.machine_key(), _numba_version(), code_hash(function), *parts)}"


@cache
def _numba_version() -> str:
    return version("numba")


def stored_library(key: str, compiled: Callable[[], Library]) -> Library:
    """The machine code cached under `key`; if there is none, the result of calling `compiled`.

    Only one process at a time calls `compiled` for a key.
    """
    place = str(loops_folder() / key)
    found = native.load(place)
    if found is None:
        with native.sole_compiler(place):
            found = native.load(place) or compiled()
    return found


def _may_raise(library: Any) -> bool:
    """Whether the functions of a numba library raise exceptions; numba stores exceptions as pickled objects."""
    return any("picklebuf" in variable.name for variable in library._final_module.global_variables)


def _with_c_arguments(symbol: str, kinds: list[str]) -> str:
    """LLVM IR of a C function that calls the function `symbol`, which numba compiled.

    numba's function takes two pointers, for its result and for an exception, before the arguments of the C function.

    kinds  LLVM types of the arguments
    """
    parameters = ", ".join(f"{kind} %a{k}" for k, kind in enumerate(kinds))
    given = ", ".join(["ptr %result", "ptr %failure", *(f"{kind} %a{k}" for k, kind in enumerate(kinds))])
    return f"""
declare i32 @"{symbol}"({", ".join(["ptr", "ptr", *kinds])})

define void @{NATIVE}({parameters}) nounwind {{
  %result = alloca ptr
  %failure = alloca ptr
  %code = call i32 @"{symbol}"({given})
  ret void
}}
"""


def needs_of(library: Any) -> list[str]:
    """Names of the functions that the code of a numba library calls and that exist only if numba is imported."""
    module = library._final_module
    names = [f.name for f in module.functions if f.is_declaration and not _ANYWHERE.fullmatch(f.name)]
    text = str(module) if names else ""
    return [name for name in names if text.count(f"@{name}(") + text.count(f'@"{name}"(') > 1]


@Intrinsic
def call_kernel(typing_context: Any, address: Any, inputs: Any, outputs: Any) -> Any:
    """numba intrinsic: call kernel(inputs, outputs), given the addresses of the kernel and its two pointer tables."""
    from llvmlite import ir  # only where machine code is made or loaded
    from numba.core import types

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, pointer])
        function = builder.inttoptr(arguments[0], kind.as_pointer())
        builder.call(function, [builder.inttoptr(argument, pointer) for argument in arguments[1:]])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@Intrinsic
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
    from llvmlite import ir  # only where machine code is made or loaded
    from numba.core import types

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer, double, integer = ir.IntType(8).as_pointer(), ir.DoubleType(), ir.IntType(64)
        kind = ir.FunctionType(ir.VoidType(), [pointer] * 5 + [double, integer, integer])
        function = builder.inttoptr(arguments[0], kind.as_pointer())
        pointers = [builder.inttoptr(argument, pointer) for argument in arguments[1:6]]
        builder.call(function, [*pointers, *arguments[6:]])
        return context.get_dummy_value()

    integer = types.int64
    return types.void(integer, integer, integer, integer, integer, integer, types.float64, integer, integer), generate
