"""Bitwise comparison of the commands from two processors, and how long each node takes per lockstep step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class TurnTimes:
    """Times (ns) that a node took for each of its turns, in order; empty if the node recorded no times.

    A turn is one lockstep step of the node: it begins when the request for the step has arrived and ends when the reply
    is sent, by the clock of the node.
    """

    ns: NDArray[np.int64]

    def quantile_s(self, share: float) -> float | None:
        """Duration (s) that the fraction `share` of the turns (lockstep steps) did not exceed; None if there are no
        turns.
        """
        return 1e-9 * float(np.quantile(self.ns, share)) if len(self.ns) else None


def read_times(file: Path) -> TurnTimes:
    """Read the durations (ns) of a node's turns, which are lockstep steps, from a file that a program wrote.

    The file has one number per line.
    """
    return TurnTimes(np.array(file.read_text().split() if file.is_file() else [], dtype=np.int64))


@dataclass(frozen=True)
class CommandComparison:
    """Comparison of the commands from two processors in the same run.

    turns      number of commands compared, one per reply of the controller
    differing  number of commands that differ
    ulps       largest difference of two values, in units in the last place
    first      time of the first command that differs (s); None if all commands are equal
    largest    largest difference of two values, in the unit of the command
    reason     one line that says why the commands cannot be compared; "" if they can
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
        """The result as one line."""
        if self.reason:
            return self.reason
        if self.equal:
            return f"{self.turns} commands are equal, byte for byte"
        return (
            f"{self.differing} of {self.turns} commands differ, by {self.ulps} ULP at most ({self.largest:.3g}),"
            f" first at {self.first:g} s"
        )


def compare_commands(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> CommandComparison:
    """Compare the recorded commands of two processors.

    one, other  {field: column} of the commands of each processor; None if there are no commands
    """
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
    """Distance of each pair of numbers in units in the last place; 0.0 and -0.0 have the distance 1."""
    a, b = (_ordered(np.ascontiguousarray(each, dtype=np.float64).view(np.uint64)) for each in (one, other))
    return np.maximum(a, b) - np.minimum(a, b)


def _ordered(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Unsigned integers that have the same order as the doubles with the bits `bits`."""
    sign = np.uint64(1 << 63)
    return np.where(bits & sign, ~bits, bits | sign)
