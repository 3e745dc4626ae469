"""Kernels as Python callables without arguments, bound to fixed input and output arrays.

A foreign call from Python spends most of its time on the conversion of arguments. A bound kernel takes no arguments. It
is one of a set of small native functions ("slots"). Slot k reads entry k of a table, which holds the address of a
kernel and of the kernel's input and output tables, and calls this kernel. For the rotary pendulum, a call of the kernel
of joint positions takes 0.09 us this way and 0.18 us by ctypes with two addresses; for CHARMIE 0.04 and 0.12 us
(tests/benchmarks/shortcuts.py).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from sim_core.kernels.machine_code import native

ROW = 64  # slots created at a time

# no arguments, no result, GIL held: a kernel takes a microsecond, less than releasing the GIL
_WithoutArguments: Any = ctypes.PYFUNCTYPE(None)


def pointer_table(arrays: list[np.ndarray]) -> np.ndarray:
    """Addresses (n,) of the first elements of n arrays, as the kernels' calling convention requires."""
    return np.array([array.ctypes.data for array in arrays] or [0], dtype=np.int64)


# (address of the function, its three numbers: kernel, inputs, outputs)
_free: list[tuple[int, np.ndarray]] = []


class BoundKernel(_WithoutArguments):  # type: ignore[misc]
    """A kernel bound to arrays of the caller: `kernel()` reads the inputs and writes the outputs in place.

    inputs, outputs  C-contiguous (or, for matrices, Fortran-ordered) float64 arrays; the bound kernel keeps them alive
    code             object that owns the machine code; also kept alive
    addresses        addresses of the kernel, of its table of inputs, and of its table of outputs
    """

    addresses: tuple[int, int, int]

    _flags_, _restype_, _argtypes_ = _WithoutArguments._flags_, None, ()
    _slot: tuple[int, np.ndarray] | None = None
    _keep: object

    def __new__(
        cls, address: int, inputs: list[np.ndarray], outputs: list[np.ndarray], code: object = None
    ) -> BoundKernel:
        """Bind the kernel at `address` to the arrays. Raises ValueError for arrays that are not contiguous float64."""
        for array in [*inputs, *outputs]:
            if array.dtype != np.float64 or not (array.flags.c_contiguous or array.flags.f_contiguous):
                raise ValueError("inputs and outputs of a kernel must be contiguous float64 arrays")
        tables = pointer_table(inputs), pointer_table(outputs)
        return cls._of((address, tables[0].ctypes.data, tables[1].ctypes.data), (inputs, outputs, tables, code))

    @classmethod
    def of_blocks(cls, address: int, given: np.ndarray, results: np.ndarray, keep: object) -> BoundKernel:
        """A bound kernel that calls the function at `address` with the addresses of two arrays of numbers.

        keep  object that the bound kernel keeps alive, with the arrays and the machine code
        """
        return cls._of((address, given.ctypes.data, results.ctypes.data), keep)

    @classmethod
    def in_turn(cls, kernels: Sequence[BoundKernel]) -> BoundKernel:
        """A bound kernel that calls several bound kernels in the given order."""
        count = np.array([len(kernels)], dtype=np.int64)
        calls = np.array([kernel.addresses for kernel in kernels], dtype=np.int64)
        if not _free:
            _add_row()
        address = _rows[0].addresses["in_turn"]
        return cls._of((address, count.ctypes.data, calls.ctypes.data), (count, calls, tuple(kernels)))

    @classmethod
    def _of(cls, addresses: tuple[int, int, int], keep: object) -> BoundKernel:
        """A bound kernel that uses a free slot, a small native function without arguments (see the module's docstring).

        addresses  those of the kernel, of its input table, and of its output table, which the slot reads at each call
        keep       object that the bound kernel keeps alive
        """
        if not _free:
            _add_row()
        slot = _free.pop()
        bound: BoundKernel = super().__new__(cls, slot[0])
        bound._slot, bound.addresses, bound._keep = slot, addresses, keep
        slot[1][:] = addresses
        return bound

    def __init__(self, address: int, inputs: list[np.ndarray], outputs: list[np.ndarray], code: object = None) -> None:
        """Do nothing, because `__new__` has initialized the object."""

    def __del__(self) -> None:
        # at interpreter exit, the module's names may be deleted before the kernels
        if self._slot is not None and _free is not None:
            _free.append(self._slot)


_rows: list[native.Library] = []


def _add_row() -> None:
    """Add ROW free slots, the native functions that bound kernels use (see the module's docstring).

    The machine code of the slots is compiled once per computer and then loaded from the cache.
    """
    symbols = ["slots", "in_turn", *[f"slot_{k}" for k in range(ROW)]]
    key = f"slots/{native.short_hash(native.source_hash(), native.machine_key())}"
    library = native.load(key) or native.compile_module(_module(), {"key": key, "symbols": symbols}, key)
    _rows.append(library)
    table = np.ctypeslib.as_array((ctypes.c_int64 * (3 * ROW)).from_address(library.addresses["slots"]))
    _free.extend((library.addresses[f"slot_{k}"], table[3 * k : 3 * k + 3]) for k in reversed(range(ROW)))


# in_turn(count, calls): count holds one number; calls holds (kernel, inputs, outputs) of each
IN_TURN = """
define void @in_turn(ptr %count, ptr %calls) nounwind {
start:
  %n = load i64, ptr %count
  br label %next
next:
  %k = phi i64 [0, %start], [%following, %call]
  %left = icmp slt i64 %k, %n
  br i1 %left, label %call, label %done
call:
  %first = mul i64 %k, 3
  %kernelp = getelementptr ptr, ptr %calls, i64 %first
  %inp = getelementptr ptr, ptr %kernelp, i64 1
  %outp = getelementptr ptr, ptr %kernelp, i64 2
  %kernel = load ptr, ptr %kernelp
  %in = load ptr, ptr %inp
  %out = load ptr, ptr %outp
  call void %kernel(ptr %in, ptr %out)
  %following = add i64 %k, 1
  br label %next
done:
  ret void
}
"""


def _module() -> str:
    lines = [f"@slots = global [{3 * ROW} x ptr] zeroinitializer", IN_TURN]
    for k in range(ROW):
        lines.append(f"define void @slot_{k}() nounwind {{")
        for n, name in enumerate(("kernel", "in", "out")):
            lines.append(f"  %{name}p = getelementptr ptr, ptr @slots, i64 {3 * k + n}")
            lines.append(f"  %{name} = load ptr, ptr %{name}p")
        lines += ["  tail call void %kernel(ptr %in, ptr %out)", "  ret void", "}"]
    return "\n".join(lines) + "\n"
