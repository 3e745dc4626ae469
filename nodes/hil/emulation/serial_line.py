"""Timing of a serial line in simulation time: each byte takes ten bit times.

The module opens no serial port.
"""

from __future__ import annotations

from collections import deque

BITS = 10  # bits per byte in 8N1: start bit, eight data bits, stop bit


def line_time(n_bytes: int, baud: int) -> float:
    """Transmission time (s) of `n_bytes` bytes over a serial line of `baud` bits/s."""
    return n_bytes * BITS / baud


class Line:
    """One direction of a serial line, which delivers bytes one after the other at the line's bit rate."""

    def __init__(self, baud: int) -> None:
        self._byte_s = line_time(1, baud)
        self._busy_until = 0.0
        self._bytes: deque[tuple[float, int]] = deque()  # (delivery time, byte)

    def send(self, data: bytes, t: float) -> None:
        """Put bytes on the line at time t (s). Their transmission begins after that of all earlier bytes."""
        for byte in data:
            self._busy_until = max(self._busy_until, t) + self._byte_s
            self._bytes.append((self._busy_until, byte))

    def through(self, t: float) -> list[tuple[float, int]]:
        """Return (delivery time in s, byte) of each byte delivered after the previous call and up to time t (s)."""
        found = []
        while self._bytes and self._bytes[0][0] <= t + 1e-9:
            found.append(self._bytes.popleft())
        return found
