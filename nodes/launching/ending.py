"""The end of a process that frees no objects first, as an interpreter does.

Freeing objects takes a fifth of the time of a short command. A copy of the fork server would also copy most of the
memory that it shares with the other nodes.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import sys
import threading
from contextlib import suppress
from typing import NoReturn

from nodes.hosting.garbage import buffered_files


def end_process(exit_code: int) -> NoReturn:
    """End this process with an exit code, after its threads and its exit functions (`atexit`) have ended.

    Files that are still open are flushed, and objects that only reference cycles keep are freed, unless they are frozen
    (`gc.freeze`). The remaining objects are not freed, so that their method `__del__` is not called.

    Raises SystemExit with the exit code if a standard stream cannot be flushed, so that the interpreter reports it.
    """
    with suppress(KeyboardInterrupt):  # who does not wait for threads
        threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for file in buffered_files():
        with suppress(OSError, ValueError):  # ValueError: closed or detached
            file.flush()
    gc.collect()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):
        raise SystemExit(exit_code) from None
    ctypes.CDLL(None).fflush(None)  # what compiled code has written
    os._exit(exit_code)
