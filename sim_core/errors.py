"""The errors of sim_core. Each says what was asked, what was found, and what would be right."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any


class SimulationError(RuntimeError):
    """A computation could not be carried out."""


class InvalidRequest(ValueError):  # noqa: N818 - reads as what it is at the call site
    """The caller asked for something that does not exist or cannot be."""


class UnknownName(InvalidRequest):
    """A name that is not in its table: `name`, `kind` and `available` tell which; `more` ends the line."""

    def __init__(self, owner: str, kind: str, name: str, available: Iterable[str], more: str = "") -> None:
        self.kind, self.name, self.available = kind, name, tuple(available)
        plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
        there = ", ".join(self.available) or "(none)"
        super().__init__(
            f"{owner} has no {kind} {name!r}; its {plural} are {there}{did_you_mean(name, self.available)}{more}"
        )


class UnknownKey(UnknownName, KeyError):  # noqa: N818 - as above
    """A name asked of a mapping that does not have it."""

    __str__ = Exception.__str__  # a KeyError's own would quote the line


class InvalidMechanism(InvalidRequest):
    """A mechanism that cannot be assembled."""


class SimulationDiverged(SimulationError):  # noqa: N818 - as above
    """The state left the finite numbers, the stepper could not go on, or guards fire again and again in one step.

    time     seconds, the last finite state
    line     what happened, without the file
    reason   "not finite", "step went to zero", "solver did not converge" or "guards repeat"
    history  (n, 1 + 2 n_q): t, q, v of the last steps, oldest first
    file     where the history was written
    """

    def __init__(self, line: str, time: float, history: Any, file: Path, reason: str = "not finite") -> None:
        self.time, self.history, self.file, self.reason = time, history, file, reason
        self.line = line
        super().__init__(f"{line}; the last {len(history)} states are in {file}")


class SimulationWarning(UserWarning):
    """What is simulated as asked, though it is hardly meant so; one line."""


class StabilityWarning(SimulationWarning):
    """A stabilizer whose gains cannot be stable at the step asked for."""


class StepTooLargeWarning(StabilityWarning):
    """A step too large for the fastest mode of the mechanism, at the start or as it goes."""


class ParameterWarning(SimulationWarning):
    """A number far from the one that ships, as in another unit."""


class DescriptionWarning(SimulationWarning):
    """A part of a description that no real one is like, or that does nothing."""


class ResidualWarning(SimulationWarning):
    """Accelerations that do not keep the constraints: the rows contradict each other, or are too ill-conditioned."""


class StartWarning(SimulationWarning):
    """A start that violates the constraints."""


def require_finite(owner: str, name: str, values: Sequence[float]) -> None:
    """Raise InvalidRequest when one of `values` is not a finite number."""
    if math.isfinite(sum(values)):  # one that is not makes the sum so; summing costs less than asking each
        return
    for index, value in enumerate(values):
        if not abs(value) < float("inf"):
            raise InvalidRequest(f"{owner}: {name}[{index}] is {value}; it must be a finite number")


def did_you_mean(word: object, known: Iterable[object]) -> str:
    """ "; did you mean 'mass'?", or nothing where no known word is near, or has the word in it."""
    asked, names = str(word), [str(other) for other in known]
    within = [name for name in names if asked in name.split("_")]
    near = difflib.get_close_matches(asked, names, n=1) or within[:3]
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
