"""What `armswing topic hz`, `bw` and `delay` measure of a stream of messages."""

from __future__ import annotations

import time
from collections import deque

import numpy as np

from nodes.runtime.summary import seconds_text
from nodes.wire.codec import encode
from nodes.wire.messages import Message

WINDOW = 10_000


class Rate:
    """Messages per second over the last messages, from their arrival times."""

    def __init__(self) -> None:
        self._arrivals: deque[float] = deque(maxlen=WINDOW)

    def take(self, message: Message) -> None:
        """Note a message's arrival."""
        self._arrivals.append(time.perf_counter())

    def figures(self) -> dict[str, float | int | None]:
        """rate_hz and the periods' smallest, largest and standard deviation, seconds."""
        periods = np.diff(np.array(self._arrivals))
        if not len(periods):
            return {"messages": len(self._arrivals), "rate_hz": None}
        return {
            "messages": len(self._arrivals),
            "rate_hz": float(1.0 / periods.mean()),
            "period_min_s": float(periods.min()),
            "period_max_s": float(periods.max()),
            "period_std_s": float(periods.std()),
        }

    def text(self) -> str:
        """One line."""
        found = self.figures()
        if found["rate_hz"] is None:
            return f"{found['messages']} message, no rate yet"
        low, high, std = (seconds_text(found[f"period_{key}_s"] or 0.0) for key in ("min", "max", "std"))
        spread = f"period min {low}, max {high}, std {std}"
        return f"{found['rate_hz']:.1f} Hz, {spread}, {found['messages']} messages"


class Bandwidth:
    """Payload bytes per second over the last messages."""

    def __init__(self) -> None:
        self._sizes: deque[tuple[float, int]] = deque(maxlen=WINDOW)

    def take(self, message: Message) -> None:
        """Note a message's size on the wire."""
        self._sizes.append((time.perf_counter(), len(encode(message))))

    def figures(self) -> dict[str, float | int | None]:
        """bytes_per_s and the mean size, bytes."""
        sizes = [size for _, size in self._sizes]
        elapsed = self._sizes[-1][0] - self._sizes[0][0] if sizes else 0.0
        return {
            "messages": len(sizes),
            "mean_bytes": float(np.mean(sizes)) if sizes else None,
            # The first message opens the interval, it does not fill it.
            "bytes_per_s": sum(sizes[1:]) / elapsed if elapsed > 0.0 else None,
        }

    def text(self) -> str:
        """One line."""
        found = self.figures()
        if found["bytes_per_s"] is None:
            return f"{found['messages']} message, no bandwidth yet"
        return f"{found['bytes_per_s'] / 1e3:.1f} kB/s, {found['mean_bytes']:.0f} B a message"


class Delay:
    """Wall time from the sender's stamp to here, over the last messages."""

    def __init__(self) -> None:
        self._delays: deque[float] = deque(maxlen=WINDOW)
        self._unstamped = 0

    def take(self, message: Message) -> None:
        """Note a message's age; one without a wall-clock stamp (lockstep) has none."""
        if message.sent_ns:
            self._delays.append(1e-9 * (time.time_ns() - message.sent_ns))
        else:
            self._unstamped += 1

    def figures(self) -> dict[str, float | int | None]:
        """Median, 99th percentile and largest, seconds."""
        if not self._delays:
            return {"messages": 0, "unstamped": self._unstamped, "p50_s": None}
        p50, p99, worst = np.percentile(np.array(self._delays), (50, 99, 100))
        return {
            "messages": len(self._delays),
            "unstamped": self._unstamped,
            "p50_s": float(p50),
            "p99_s": float(p99),
            "max_s": float(worst),
        }

    def text(self) -> str:
        """One line."""
        found = self.figures()
        if found["p50_s"] is None:
            return f"{found['unstamped']} messages carry no wall-clock stamp (lockstep has none)"
        p50, p99, worst = (seconds_text(found[key] or 0.0) for key in ("p50_s", "p99_s", "max_s"))
        return f"p50 {p50}, p99 {p99}, max {worst}, {found['messages']} messages"
