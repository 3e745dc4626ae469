"""Errors and warnings of sim_core. Messages name the requested value, the problem, and permitted values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from sim_core.support.suggestion import did_you_mean


class SimulationError(RuntimeError):
    """Base class of errors in a running computation, as opposed to invalid requests."""

    exit_code = 1


class InvalidRequest(ValueError):  # noqa: N818 - reads as what it is at the call site
    """A request that is invalid or names something that does not exist."""

    exit_code = 2


class UnknownName(InvalidRequest):
    """A name that does not exist, such as that of a body or joint.

    name       the unknown name
    kind       kind of object that the name should denote, such as "joint"
    available  names that exist
    more       text appended to the message
    """

    def __init__(self, owner: str, kind: str, name: str, available: Iterable[str], more: str = "") -> None:
        self.kind, self.name, self.available = kind, name, tuple(available)
        plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
        there = ", ".join(self.available) or "(none)"
        super().__init__(
            f"{owner} has no {kind} {name!r}; its {plural} are {there}{did_you_mean(name, self.available)}{more}"
        )


class UnknownKey(UnknownName, KeyError):  # noqa: N818 - as above
    """An UnknownName that is also a KeyError: a mapping has no such key."""

    __str__ = Exception.__str__  # KeyError.__str__ would put the line in quotes


class InvalidMechanism(InvalidRequest):
    """A mechanism description that is invalid or cannot be assembled."""


class SimulationDiverged(SimulationError):  # noqa: N818 - as above
    """A run that ended because the state is not finite, the stepper failed, or guards fire repeatedly in one time step.

    line     error message without the file path
    time     simulation time of the last finite state, s
    history  (n, 1 + 2 n_q): t, q, v at the last time steps, oldest first
    file     path of the file to which the history was written
    reason   "not finite", "step went to zero", "solver did not converge" or "guards repeat"
    """

    def __init__(self, line: str, time: float, history: Any, file: Path, reason: str = "not finite") -> None:
        self.time, self.history, self.file, self.reason = time, history, file, reason
        self.line = line
        super().__init__(f"{line}; the last {len(history)} states are in {file}")


class SimulationWarning(UserWarning):
    """Base class of warnings about a simulation that runs as requested but probably not as intended; one line each."""


class StabilityWarning(SimulationWarning):
    """Warning: the stabilizer's gains cannot be stable at the requested step size."""


class StepTooLargeWarning(StabilityWarning):
    """Warning: the step size is too large for the fastest mode of the mechanism, at the start or later in the run."""


class ParameterWarning(SimulationWarning):
    """Warning: a parameter may be in another unit, because it is far from its default or too large for an angle."""


class DescriptionWarning(SimulationWarning):
    """Warning: a description is valid but physically implausible, or a part of it has no effect."""


class ResidualWarning(SimulationWarning):
    """Warning: the accelerations do not satisfy the constraint equations J a = gamma - U.

    J is the Jacobian of the constraint rows, and U is the constraint stabilization. The cause is that constraint rows
    contradict each other or are too ill-conditioned.
    """


class ConstraintGapWarning(SimulationWarning):
    """Warning: a constraint does not hold, and only forces of the stabilizer act against the violation.

    A guard has switched on a violated constraint, a changed parameter has shifted a constraint, the constraints
    contradict a commanded velocity, or a restored state violates them.
    """


class StartWarning(SimulationWarning):
    """Warning about the initial state.

    It violates constraints, is near singular angles, has contacts that penetrate deeply, or is beyond a guard's level.
    """


def require_finite(owner: str, name: str, values: Sequence[float]) -> None:
    """Raise InvalidRequest if one of `values` is not a finite number."""
    if math.isfinite(sum(values)):  # a non-finite entry makes the sum non-finite; one sum costs less than n tests
        return
    for index, value in enumerate(values):
        if not abs(value) < float("inf"):
            raise InvalidRequest(f"{owner}: {name}[{index}] is {value}; it must be a finite number")
