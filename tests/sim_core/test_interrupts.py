"""A signal that arrives while LLVM compiles neither is lost nor costs the machine code."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sim_core.kernels.machine_code.interrupts import signals_after_callbacks

ROOT = Path(__file__).parents[2]

SCRIPT = """
import contextlib
import signal

import llvmlite.binding

set_object_cache = llvmlite.binding.ExecutionEngine.set_object_cache
armed = []


def set_object_cache_under_alarm(engine, notify, getbuffer):
    def notify_under_alarm(module, code):  # LLVM hands over machine code, and Python learns of signals
        if armed:
            signal.raise_signal(signal.SIGALRM)
        notify(module, code)

    set_object_cache(engine, notify_under_alarm, getbuffer)


llvmlite.binding.ExecutionEngine.set_object_cache = set_object_cache_under_alarm  # before numba takes it over

import numba
import numpy as np

from sim_core.kernels.machine_code.interrupts import signals_after_callbacks


class Alarm(Exception):
    pass


def alarm(number, frame):
    raise Alarm


@numba.njit(cache=True)
def function(x):
    return np.sort(x).sum()


signal.signal(signal.SIGALRM, alarm)
try:
    with CONTEXT:
        armed.append(True)
        function.compile((numba.float64[::1],))
except BaseException as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(
    ("context", "ends"), [("signals_after_callbacks()", "Alarm"), ("contextlib.nullcontext()", "RuntimeError")]
)
def test_an_exception_of_a_signal_handler_leaves_the_compilation(tmp_path: Path, context: str, ends: str) -> None:
    """Without the context, numba loses the machine code; with a numba that does not, the context is needed no more."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("CONTEXT", context))
    done = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "NUMBA_CACHE_DIR": str(tmp_path)},
        timeout=60,
    )
    assert done.stdout.split()[:1] == [ends], done.stderr


def test_outside_llvm_signals_are_handled_at_once_and_handlers_are_restored() -> None:
    before = signal.getsignal(signal.SIGINT)
    with signals_after_callbacks(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
