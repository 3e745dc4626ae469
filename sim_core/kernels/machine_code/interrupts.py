"""Delivery of signals during compilation: a signal that arrives in LLVM is handled after LLVM has returned.

Python runs a signal's handler at the first Python code that follows the signal. If the signal arrives while LLVM
compiles, this code is the callback in which llvmlite takes over the machine code. ctypes ignores every exception that
leaves a callback. A KeyboardInterrupt would thus be lost together with the machine code, and numba would fail with "no
compiled object yet".
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

CALLBACKS = ("_raw_object_cache_notify", "_raw_object_cache_getbuffer")  # methods of llvmlite's ExecutionEngine


@contextmanager
def signals_after_callbacks() -> Iterator[None]:
    """Context for a compilation: a signal that arrives in LLVM is handled when the context is left.

    All other signals are handled at once. The context does nothing in threads other than the main thread, because
    Python handles signals in the main thread only.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[int] = []
    handlers = {int(number): signal.getsignal(number) for number in signal.valid_signals()}
    handlers = {number: handler for number, handler in handlers.items() if callable(handler)}
    for number, handler in handlers.items():
        signal.signal(number, partial(_handle, handler, waiting))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number in waiting:
            signal.raise_signal(number)


def _handle(handler: Any, waiting: list[int], number: int, frame: FrameType | None) -> None:
    above = frame
    while above is not None:
        if above.f_code.co_name in CALLBACKS:
            waiting.append(number)
            return
        above = above.f_back
    handler(number, frame)
