"""What a simulation is at an instant, and how it changed at an event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from sim_core.errors import InvalidRequest


@dataclass(frozen=True)
class State:
    """All there is: a run restarted from it goes on to the same bytes. Time is tick * step.

    p              tunables, captured numbers, then 1 or 0 for each switched constraint: whether it holds
    constraint_mode  index of the named constraint mode, -1 where the set of constraints that hold has no name
    turns          whole turns of the joints whose angle wraps
    peaks          largest |Phi|_1 and |Phidot|_1 since the reset
    guards         values of the guards from which the next step's crossings are found; empty: those of the state
    ledger         of the energy since the reset, see integrators/ledger.py; empty: it begins here
    """

    tick: int
    q: np.ndarray
    v: np.ndarray
    u: np.ndarray
    p: np.ndarray
    U: np.ndarray
    constraint_mode: int
    turns: np.ndarray
    peaks: np.ndarray
    stepper_memory: np.ndarray
    stabilizer_memory: np.ndarray
    guards: np.ndarray = field(default_factory=lambda: np.zeros(0))
    ledger: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def to_plain(self) -> dict[str, Any]:
        """Numbers and lists only."""
        return {
            item.name: value.tolist() if isinstance(value := getattr(self, item.name), np.ndarray) else value
            for item in fields(self)
        }

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> State:
        """The state that `to_plain` wrote; InvalidRequest names what is missing."""
        missing = [item.name for item in fields(State) if item.name not in (*plain, "guards", "ledger")]
        if missing:
            raise InvalidRequest(f"a state needs {', '.join(missing)}; found {', '.join(plain)}")
        whole = {"tick", "constraint_mode"}
        values: dict[str, Any] = {
            item.name: int(plain[item.name]) if item.name in whole else np.array(plain[item.name], dtype=float)
            for item in fields(State)
            if item.name in plain
        }
        return State(**values)


@dataclass(frozen=True)
class Notice:
    """Something about the run that its reader has to know: "step_too_large", ... and one line for a person."""

    kind: str
    time: float
    line: str


@dataclass(frozen=True)
class Transition:
    """A change of constraint mode: (q, v) before and after, and the energy it took away, J.

    part            of the robot that it is about
    source, target  constraint modes before and after: their names, or those of the switched constraints that hold
    Events of one impact have the same states before and after, each its own modes and energy: the work of the
    constraints that it switched on, less than zero where they pull. Together they took what the impact took.
    """

    kind: str
    time: float
    before: np.ndarray
    after: np.ndarray
    energy: float
    part: str = ""
    source: str = ""
    target: str = ""
