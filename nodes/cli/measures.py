"""Measures of a message stream for `armswing topic hz`, `bw` and `delay`."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from nodes.framework.launching.summary import seconds_text
from nodes.framework.messages import Message, PeerClock
from nodes.framework.messages.codec import encode
from nodes.framework.transport.service import ServiceError
from nodes.hil.clocks.track import ClockTrack

WINDOW = 10_000


class Rate:
    """Message rate over the last WINDOW messages, from their arrival times."""

    def __init__(self) -> None:
        self._arrivals: deque[float] = deque(maxlen=WINDOW)

    def add(self, message: Message) -> None:
        """Record the arrival time of a message."""
        self._arrivals.append(time.perf_counter())

    def figures(self) -> dict[str, float | int | None]:
        """Return message count, rate (Hz), and minimum, maximum and standard deviation of the period (s)."""
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
        """The rate and the periods as one line."""
        found = self.figures()
        if found["rate_hz"] is None:
            return f"{found['messages']} message, no rate yet"
        low, high, std = (seconds_text(found[f"period_{key}_s"] or 0.0) for key in ("min", "max", "std"))
        spread = f"period min {low}, max {high}, std {std}"
        return f"{found['rate_hz']:.1f} Hz, {spread}, {found['messages']} messages"


class Bandwidth:
    """Encoded bytes per second over the last WINDOW messages."""

    def __init__(self) -> None:
        self._sizes: deque[tuple[float, int]] = deque(maxlen=WINDOW)

    def add(self, message: Message) -> None:
        """Record the arrival time and encoded size of a message."""
        self._sizes.append((time.perf_counter(), len(encode(message))))

    def figures(self) -> dict[str, float | int | None]:
        """Return the number of messages, their mean size (bytes) and the bandwidth (bytes/s)."""
        sizes = [size for _, size in self._sizes]
        elapsed = self._sizes[-1][0] - self._sizes[0][0] if sizes else 0.0
        return {
            "messages": len(sizes),
            "mean_bytes": float(np.mean(sizes)) if sizes else None,
            # The first message starts the interval, so its bytes are not counted.
            "bytes_per_s": sum(sizes[1:]) / elapsed if elapsed > 0.0 else None,
        }

    def text(self) -> str:
        """The bandwidth and the mean size of a message as one line."""
        found = self.figures()
        if found["bytes_per_s"] is None:
            return f"{found['messages']} message, no bandwidth yet"
        return f"{found['bytes_per_s'] / 1e3:.1f} kB/s, {found['mean_bytes']:.0f} B a message"


class RemoteClock:
    """Estimates the clock of a node on another host.

    The estimate uses round trips of the last minute, which are calls of the node's service `clock`.

    host  name of the host in the plan
    """

    def __init__(self, host: str) -> None:
        self.host = host
        self._track = ClockTrack()

    def measure(self, call: Callable[[], Mapping[str, int]]) -> None:
        """Make one more round trip to the node. A failed call is ignored.

        call  function that calls the node's service `clock` and returns {name: time (ns) on the node's clock}
        """
        requested_ns = time.time_ns()
        try:
            reply = call()
        except ServiceError:
            return
        reading = PeerClock(asked_ns=requested_ns, heard_ns=time.time_ns())
        reading.received_ns, reading.answered_ns = reply["received_ns"], reply["answered_ns"]
        self._track.add(reading)

    def offset_at(self, local_s: float) -> float:
        """Remote clock minus local clock (s) at a local time (s); NaN before three round trips have succeeded."""
        peer = self._track.to_peer(local_s)
        return math.nan if peer is None else peer - local_s

    @property
    def offset_s(self) -> float:
        """Remote clock minus local clock (s) at the latest round trip; NaN before three round trips have succeeded."""
        return self._track.latest_offset

    @property
    def uncertainty_s(self) -> float:
        """Standard deviation of `offset_s` (s).

        The estimate makes no assumption about how the round-trip time is split between the two directions.
        """
        return self._track.latest_uncertainty

    def figures(self) -> dict[str, Any]:
        """Return host, offset_s and uncertainty_s; the offset and its uncertainty are None while they are unknown."""
        known = math.isfinite(self.offset_s)
        offset_s, uncertainty_s = (self.offset_s, self.uncertainty_s) if known else (None, None)
        return {"host": self.host, "offset_s": offset_s, "uncertainty_s": uncertainty_s}

    def text(self) -> str:
        """One line with the offset of the clock, or the statement that the delays are not corrected for this offset."""
        if not math.isfinite(self.offset_s):
            return f"the clock of host {self.host!r} is not known, so that these figures include its offset"
        ahead, known = seconds_text(abs(self.offset_s)), seconds_text(self.uncertainty_s)
        way = "ahead" if self.offset_s > 0.0 else "behind"
        return f"corrected for the clock of host {self.host!r}, which is {ahead} {way}, known to {known}"


class Delay:
    """Delay from the sender's time stamp to reception, over the last WINDOW messages.

    remote_clock  clock of the sender's computer, with which the delays are corrected; None if the sender runs on this
                  computer
    """

    def __init__(self, remote_clock: RemoteClock | None = None) -> None:
        self._remote_clock = remote_clock
        self._delays: deque[tuple[float, float]] = deque(maxlen=WINDOW)  # (time of reception, delay by the stamp), s
        self._unstamped = 0

    def add(self, message: Message) -> None:
        """Record a message's delay.

        A message without a wall-clock stamp, as in lockstep, is counted but has no delay.
        """
        if message.sent_ns:
            now_ns = time.time_ns()
            self._delays.append((1e-9 * now_ns, 1e-9 * (now_ns - message.sent_ns)))
        else:
            self._unstamped += 1

    def figures(self) -> dict[str, Any]:
        """Return median, 99th percentile and maximum of the delay (s).

        For a sender on another computer, the result also has the estimated offset of that computer's clock.
        """
        if not self._delays:
            return {"messages": 0, "unstamped": self._unstamped, "p50_s": None}
        ahead = [
            0.0 if self._remote_clock is None else self._remote_clock.offset_at(arrived) for arrived, _ in self._delays
        ]
        p50, p99, worst = np.percentile(np.array(self._delays)[:, 1] + np.nan_to_num(ahead), (50, 99, 100))
        return {
            "messages": len(self._delays),
            "unstamped": self._unstamped,
            "clock": None if self._remote_clock is None else self._remote_clock.figures(),
            "p50_s": float(p50),
            "p99_s": float(p99),
            "max_s": float(worst),
        }

    def text(self) -> str:
        """The delays as one line."""
        found = self.figures()
        if found["p50_s"] is None:
            return f"{found['unstamped']} messages carry no wall-clock stamp (lockstep has none)"
        p50, p99, worst = (seconds_text(found[key] or 0.0) for key in ("p50_s", "p99_s", "max_s"))
        clock = "" if self._remote_clock is None else f"; {self._remote_clock.text()}"
        return f"p50 {p50}, p99 {p99}, max {worst}, {found['messages']} messages{clock}"
