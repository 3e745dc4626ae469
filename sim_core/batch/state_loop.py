"""Compiled function that takes many time steps of a loop, sets inputs before each step, and keeps states.

It calls the loop of any system for each time step, so that Python runs once for many steps.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from sim_core.kernels.machine_code import native

SYMBOL = "follow"
# Offsets and sizes are in bytes. A state is one part of a group's block, the inputs of a step go into another.
IR = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define internal void @copy(ptr %to, i64 %to_stride, ptr %from, i64 %from_stride, i64 %size, i64 %groups) nounwind {
entry:
  br label %group
group:
  %g = phi i64 [0, %entry], [%g_next, %group]
  %to_group = phi ptr [%to, %entry], [%to_next, %group]
  %from_group = phi ptr [%from, %entry], [%from_next, %group]
  call void @llvm.memcpy.p0.p0.i64(ptr %to_group, ptr %from_group, i64 %size, i1 false)
  %to_next = getelementptr i8, ptr %to_group, i64 %to_stride
  %from_next = getelementptr i8, ptr %from_group, i64 %from_stride
  %g_next = add i64 %g, 1
  %g_left = icmp slt i64 %g_next, %groups
  br i1 %g_left, label %group, label %done
done:
  ret void
}

define void @follow(ptr %loop, ptr %block, i64 %groups, i64 %stride, double %h, i64 %steps, i64 %every,
                    ptr %states, i64 %from, i64 %kept, ptr %inputs, i64 %to, i64 %given) nounwind {
entry:
  %state_part = getelementptr i8, ptr %block, i64 %from
  %input_part = getelementptr i8, ptr %block, i64 %to
  %state_size = mul i64 %kept, %groups
  %input_size = mul i64 %given, %groups
  %changes = icmp sgt i64 %given, 0
  br label %head
head:
  %step = phi i64 [0, %entry], [%step_next, %move]
  %state = phi ptr [%states, %entry], [%state_next, %move]
  %rest = urem i64 %step, %every
  %is_kept = icmp eq i64 %rest, 0
  br i1 %is_kept, label %keep, label %check
keep:
  call void @copy(ptr %state, i64 %kept, ptr %state_part, i64 %stride, i64 %kept, i64 %groups)
  %after = getelementptr i8, ptr %state, i64 %state_size
  br label %check
check:
  %state_next = phi ptr [%state, %head], [%after, %keep]
  %is_left = icmp slt i64 %step, %steps
  br i1 %is_left, label %begin, label %done
begin:
  br i1 %changes, label %give, label %move
give:
  %offset = mul i64 %step, %input_size
  %input = getelementptr i8, ptr %inputs, i64 %offset
  call void @copy(ptr %input_part, i64 %stride, ptr %input, i64 %given, i64 %given, i64 %groups)
  br label %move
move:
  call void %loop(ptr %block, i64 %groups, i64 0, i64 1, i64 1, double %h)
  %step_next = add i64 %step, 1
  br label %head
done:
  ret void
}
"""


@cache
def _library() -> native.Library:
    """The machine code, compiled or loaded from the cache, and kept while the process lives."""
    key = f"{SYMBOL}-{native.short_hash(IR)}"
    return native.load_shared(key) or native.compile_module(IR, {"key": key, "symbols": [SYMBOL]}, key)


def follow() -> Callable[..., None]:
    """The function, with the arguments in IR; it releases the GIL while it runs.

    Raises ctypes.ArgumentError unless `block`, `states` and `inputs` are C-contiguous float64 arrays.
    """
    address, integer = ctypes.c_void_p, ctypes.c_int64
    array: Any = np.ctypeslib.ndpointer(np.float64, flags="C_CONTIGUOUS")
    block = (address, array, integer, integer, ctypes.c_double, integer, integer)
    kind = ctypes.CFUNCTYPE(None, *block, *[array, integer, integer] * 2)
    call: Callable[..., None] = kind(_library().addresses[SYMBOL])
    return call
