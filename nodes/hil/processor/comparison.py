"""Comparison of the commands of two processors, bit by bit, and the distribution of their times per turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class TurnTimes:
    """Times of a node's turns, ns, in their order; empty where the node wrote none.

    A turn begins when its request has arrived and ends when its reply is sent, by the clock of the node.
    """

    ns: NDArray[np.int64]

    def quantile_s(self, share: float) -> float | None:
        """Time below which a share of the turns stayed, s; None without turns."""
        return 1e-9 * float(np.quantile(self.ns, share)) if len(self.ns) else None


def read_times(file: Path) -> TurnTimes:
    """Times that a program wrote to a file, one number per line."""
    return TurnTimes(np.array(file.read_text().split() if file.is_file() else [], dtype=np.int64))


@dataclass(frozen=True)
class CommandComparison:
    """Commands of two processors in the same run.

    turns     commands compared
    differing commands that differ
    ulps      largest distance of two values in units in the last place
    first     time of the first command that differs, s; None where all are equal
    largest   largest difference of two values, in the unit of the command
    reason    why the commands cannot be compared, one line; "" where they can
    """

    turns: int
    differing: int = 0
    ulps: int = 0
    first: float | None = None
    largest: float = 0.0
    reason: str = ""

    @property
    def equal(self) -> bool:
        """Whether all commands are equal, byte for byte."""
        return not self.reason and not self.differing

    @property
    def text(self) -> str:
        """The result in one line."""
        if self.reason:
            return self.reason
        if self.equal:
            return f"{self.turns} commands are equal, byte for byte"
        return (
            f"{self.differing} of {self.turns} commands differ, by {self.ulps} ULP at most ({self.largest:.3g}),"
            f" first at {self.first:g} s"
        )


def compare_commands(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> CommandComparison:
    """Compare the recorded commands, {field: column}, of two processors; None where there are none."""
    if one is None or other is None or not len(one["seq"]) or not len(other["seq"]):
        return CommandComparison(0, reason="one of the two published no command")
    if len(one["seq"]) != len(other["seq"]):
        return CommandComparison(0, reason=f"one published {len(one['seq'])} commands, the other {len(other['seq'])}")
    values, others = (np.asarray(each["value"], dtype=float) for each in (one, other))
    fields = [key for key in one if key not in ("value", "seq", "sent_ns")]
    if unequal := [key for key in fields if np.asarray(one[key]).tolist() != np.asarray(other[key]).tolist()]:
        return CommandComparison(len(values), reason=f"the commands differ in {', '.join(unequal)}")
    if values.shape != others.shape:
        return CommandComparison(len(values), reason="the commands have different numbers of values")
    distance = ulps(values, others).reshape(len(values), -1)
    rows = np.flatnonzero(distance.any(axis=1))
    return CommandComparison(
        turns=len(values),
        differing=len(rows),
        ulps=int(distance.max(initial=0)),
        first=float(one["timestamp"][rows[0]]) if len(rows) else None,
        largest=float(np.abs(values - others).max(initial=0.0)),
    )


def ulps(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Number of doubles between each pair of numbers, as the numbers are ordered; 1 between 0.0 and -0.0."""
    a, b = (_ordered(np.ascontiguousarray(each, dtype=np.float64).view(np.uint64)) for each in (one, other))
    return np.maximum(a, b) - np.minimum(a, b)


def _ordered(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Unsigned integers in the order of the doubles with these bits."""
    sign = np.uint64(1 << 63)
    return np.where(bits & sign, ~bits, bits | sign)
