"""A serial line's own time: each byte takes ten bits of it. No port, no clock."""

from __future__ import annotations

from collections import deque

BITS = 10  # of a byte in 8N1: start, eight, stop


def line_time(n_bytes: int, baud: int) -> float:
    """How long bytes are on the line, s."""
    return n_bytes * BITS / baud


class Line:
    """One direction of a line. What is sent comes out byte by byte, in order, as fast as the line is."""

    def __init__(self, baud: int) -> None:
        self._byte_s = line_time(1, baud)
        self._busy_until = 0.0
        self._bytes: deque[tuple[float, int]] = deque()  # each with the time at which it is through

    def send(self, data: bytes, t: float) -> None:
        """Put bytes on the line at time t, s, behind those that are on it."""
        for byte in data:
            self._busy_until = max(self._busy_until, t) + self._byte_s
            self._bytes.append((self._busy_until, byte))

    def through(self, t: float) -> list[tuple[float, int]]:
        """The bytes that are through by time t, each with its time."""
        found = []
        while self._bytes and self._bytes[0][0] <= t + 1e-9:
            found.append(self._bytes.popleft())
        return found
