"""Findings of the checks on a log, and the samples that are checked."""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class LogFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Something in a log that is not as a fit needs it.

    kind     what was found, such as "gap", "exchanged efforts" or "late effort"
    joint    the joint; "" for the whole log, "a, b" for two joints
    value    its size in the unit that `text` names
    text     one sentence
    refuses  whether the joint (or the log) must not be fitted as it is. A finding that other causes may explain is a
             hint, and does not refuse
    """

    kind: str
    joint: str
    value: float
    text: str
    refuses: bool = False


@dataclass(frozen=True)
class LogSamples:
    """Samples of k joints as recorded: n instants, NaN where unknown.

    time              (n,) s
    position          (n, k) rad or m
    velocity, effort  (n, k); all NaN if the log has none
    lower, upper      (k,) limits of the positions, infinite without one
    slides            (k,) whether each joint slides
    """

    names: tuple[str, ...]
    time: Floats
    position: Floats
    velocity: Floats
    effort: Floats
    lower: Floats
    upper: Floats
    slides: NDArray[np.bool_]

    def joint(self, name: str) -> int:
        """Index of a joint."""
        return self.names.index(name)

    def with_rising_times(self) -> LogSamples:
        """The samples without those that repeat an earlier time."""
        kept = np.r_[True, np.diff(np.maximum.accumulate(self.time)) > 0.0]
        return replace(
            self,
            time=self.time[kept],
            position=self.position[kept],
            velocity=self.velocity[kept],
            effort=self.effort[kept],
        )


def seconds(value: float) -> str:
    """A duration as text, such as "20 ms"."""
    return f"{1e3 * value:.3g} ms" if abs(value) < 1.0 else f"{value:.3g} s"
