"""Watchdog of the commanding nodes, and the age of the states from which their commands were computed."""

from __future__ import annotations

import math


class Watchdog:
    """Watchdog of one commanding node: trips after a silence longer than `limit_s`, on a clock that the caller reads.

    commanded_at  time of the node's latest command, s
    """

    def __init__(self, limit_s: float, now: float) -> None:
        self._limit_s = limit_s
        self.commanded_at = now

    def trips(self, now: float) -> bool:
        """Whether the node's silence exceeds the limit at the time `now` (s)."""
        return now - self.commanded_at > self._limit_s


def too_old(age_s: float, limit_s: float, speed: float) -> str:
    """Reason to refuse a command that was computed from a state of too great an age; "" if the age is permitted.

    The watchdog does not notice a node that lags behind but still sends commands; this function does.

    age_s    age of the state in simulation time, s
    limit_s  limit of the watchdog, s
    speed    simulated seconds per wall-clock second
    """
    if age_s <= limit_s * max(speed, 1.0):  # the limit is a wall time
        return ""
    return f"replies to a state {age_s * 1e3:.0f} ms old; watchdog_ms = {limit_s * 1e3:g} is the largest age"


def fresh_states(limit_s: float | None, every_s: float) -> float:
    """Largest lag of a command that is certainly not too old. For a command with a larger lag, call `too_old`.

    The lag is the number of states that were published after the state from which the command was computed.

    limit_s  limit of the watchdog, s; None if there is no watchdog; the result is then infinite
    every_s  time between two published states, s
    """
    return math.inf if limit_s is None else int(limit_s / every_s) - 1
