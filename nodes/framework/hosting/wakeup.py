"""Event sources of a poll loop besides sockets: wake-up by a thread or a signal, and a periodic timer."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
import threading
from types import FrameType

TFD_NONBLOCK = os.O_NONBLOCK
TFD_CLOEXEC = os.O_CLOEXEC
CLOCK_MONOTONIC = 1

_libc = ctypes.CDLL(None, use_errno=True)


class WakeupPipe:
    """A file descriptor that becomes readable when any thread, or a signal handler, calls `set`."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def fileno(self) -> int:
        """File descriptor that becomes readable when `set` is called."""
        return self._read

    def set(self) -> None:
        """Make the descriptor readable."""
        with contextlib.suppress(BlockingIOError):  # the pipe is full, hence readable
            os.write(self._write, b"w")

    def clear(self) -> None:
        """Make the descriptor unreadable."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._read, 512):
                pass

    def close(self) -> None:
        """Close the descriptors."""
        os.close(self._read)
        os.close(self._write)


class StopSignals:
    """Context manager, for the main thread, in which SIGTERM and SIGINT request a stop and wake the loop."""

    def __init__(self, wake: WakeupPipe, stop: threading.Event) -> None:
        self._wake = wake
        self._stop = stop

    def __enter__(self) -> StopSignals:
        self._before = {number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
        return self

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._stop.set()
        self._wake.set()

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


class Timer:
    """A periodic timer of Linux (timerfd), whose descriptor becomes readable at the end of each period.

    Its resolution is better than a microsecond, whereas poll timeouts are whole milliseconds.
    """

    def __init__(self, period_s: float) -> None:
        self._fd = _libc.timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create failed")
        period = max(round(period_s * 1e9), 1)
        spec = struct.pack("qqqq", *divmod(period, 10**9), *divmod(period, 10**9))
        if _libc.timerfd_settime(self._fd, 0, spec, None) != 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime failed")

    def fileno(self) -> int:
        """File descriptor that becomes readable at the end of each period."""
        return int(self._fd)

    def expired(self) -> int:
        """Number of periods that ended since the previous call; more than one means that some were missed."""
        try:
            return int.from_bytes(os.read(self._fd, 8), "little")
        except BlockingIOError:
            return 0

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._fd)
