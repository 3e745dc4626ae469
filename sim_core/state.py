"""What a simulation is at an instant, and how it changed at an event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from sim_core.errors import InvalidRequest


@dataclass(frozen=True)
class State:
    """All there is: a run restarted from it goes on to the same bytes. Time is tick * step.

    turns   whole turns of the joints whose angle wraps
    peaks   largest |Phi|_1 and |Phidot|_1 since the reset
    """

    tick: int
    q: np.ndarray
    v: np.ndarray
    u: np.ndarray
    p: np.ndarray
    U: np.ndarray
    configuration: int
    turns: np.ndarray
    peaks: np.ndarray
    stepper_memory: np.ndarray
    stabilizer_memory: np.ndarray

    def to_plain(self) -> dict[str, Any]:
        """Numbers and lists only."""
        return {
            field.name: value.tolist() if isinstance(value := getattr(self, field.name), np.ndarray) else value
            for field in fields(self)
        }

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> State:
        """The state that `to_plain` wrote; InvalidRequest names what is missing."""
        missing = [field.name for field in fields(State) if field.name not in plain]
        if missing:
            raise InvalidRequest(f"a state needs {', '.join(missing)}; found {', '.join(plain)}")
        whole = {"tick", "configuration"}
        values: dict[str, Any] = {
            field.name: int(plain[field.name]) if field.name in whole else np.array(plain[field.name], dtype=float)
            for field in fields(State)
        }
        return State(**values)


@dataclass(frozen=True)
class Transition:
    """A change of configuration: (q, v) before and after, and the energy it took away, J.

    part            of the robot that it is about
    source, target  configurations before and after
    """

    kind: str
    time: float
    before: np.ndarray
    after: np.ndarray
    energy: float
    part: str = ""
    source: str = ""
    target: str = ""
