"""Compiled function that takes many time steps of a loop, sets inputs before each step, and keeps states.

It calls the loop of any system for each time step, so that Python runs once for many steps.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

from sim_core.kernels.machine_code import native

SYMBOL = "follow"
# Offsets and sizes are in bytes. A state has two parts of a group's block, inputs go into two parts of it.
IR = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define void @follow(ptr %loop, ptr %block, i64 %groups, i64 %stride, double %h, i64 %steps, i64 %every,
                    ptr %states, i64 %from_0, i64 %size_0, i64 %from_1, i64 %size_1,
                    ptr %inputs, i64 %to_0, i64 %given_0, i64 %to_1, i64 %given_1) nounwind {
entry:
  br label %head
head:
  %step = phi i64 [0, %entry], [%step_next, %move]
  %state = phi ptr [%states, %entry], [%state_next, %move]
  %input = phi ptr [%inputs, %entry], [%input_next, %move]
  %rest = urem i64 %step, %every
  %is_kept = icmp eq i64 %rest, 0
  br i1 %is_kept, label %keep, label %kept
keep:
  %k = phi i64 [0, %head], [%k_next, %keep]
  %kept_at = phi ptr [%state, %head], [%kept_next, %keep]
  %k_bytes = mul i64 %k, %stride
  %k_group = getelementptr i8, ptr %block, i64 %k_bytes
  %part_0 = getelementptr i8, ptr %k_group, i64 %from_0
  call void @llvm.memcpy.p0.p0.i64(ptr %kept_at, ptr %part_0, i64 %size_0, i1 false)
  %kept_1 = getelementptr i8, ptr %kept_at, i64 %size_0
  %part_1 = getelementptr i8, ptr %k_group, i64 %from_1
  call void @llvm.memcpy.p0.p0.i64(ptr %kept_1, ptr %part_1, i64 %size_1, i1 false)
  %kept_next = getelementptr i8, ptr %kept_1, i64 %size_1
  %k_next = add i64 %k, 1
  %k_left = icmp slt i64 %k_next, %groups
  br i1 %k_left, label %keep, label %kept
kept:
  %state_next = phi ptr [%state, %head], [%kept_next, %keep]
  %is_left = icmp slt i64 %step, %steps
  br i1 %is_left, label %inputs_of_step, label %done
inputs_of_step:
  %given = add i64 %given_0, %given_1
  %changes = icmp sgt i64 %given, 0
  br i1 %changes, label %give, label %move
give:
  %g = phi i64 [0, %inputs_of_step], [%g_next, %give]
  %given_at = phi ptr [%input, %inputs_of_step], [%given_next, %give]
  %g_bytes = mul i64 %g, %stride
  %g_group = getelementptr i8, ptr %block, i64 %g_bytes
  %into_0 = getelementptr i8, ptr %g_group, i64 %to_0
  call void @llvm.memcpy.p0.p0.i64(ptr %into_0, ptr %given_at, i64 %given_0, i1 false)
  %given_at_1 = getelementptr i8, ptr %given_at, i64 %given_0
  %into_1 = getelementptr i8, ptr %g_group, i64 %to_1
  call void @llvm.memcpy.p0.p0.i64(ptr %into_1, ptr %given_at_1, i64 %given_1, i1 false)
  %given_next = getelementptr i8, ptr %given_at_1, i64 %given_1
  %g_next = add i64 %g, 1
  %g_left = icmp slt i64 %g_next, %groups
  br i1 %g_left, label %give, label %move
move:
  %input_next = phi ptr [%input, %inputs_of_step], [%given_next, %give]
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
    """The function, with the arguments in IR; it releases the GIL while it runs."""
    address, integer = ctypes.c_void_p, ctypes.c_int64
    block = (address, address, integer, integer, ctypes.c_double, integer, integer)
    kind = ctypes.CFUNCTYPE(None, *block, *[address, *[integer] * 4] * 2)
    call: Callable[..., None] = kind(_library().addresses[SYMBOL])
    return call
