"""State of a simulation at one time, notices of problems in a run, and changes of the constraint mode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from sim_core.errors import InvalidRequest


@dataclass(frozen=True)
class State:
    """The complete state of a simulation at the time tick * step size. A run restarted from it continues bit for bit.

    p              parameters, in the order of Mechanism.parameter_names: tunables; parameters that guards have set
                   (CapturedParameter); quaternions of joints; external forces; for each switched constraint 1 if it
                   holds, otherwise 0
    U              stabilization of the last time step, in 1/s^2 times the unit of the violation Phi
    constraint_mode  index of the constraint mode; -1 if the set of constraints that hold has no name
    turns          whole revolutions of the joints whose angle is wrapped to [-pi, pi]
    peaks          largest 1-norms |Phi|_1 and |Phidot|_1 of the violations and their rates since the reset
    guards         guard values at the start of the next time step, for finding crossings; if empty,
                   `Simulation.restore` computes them from the state
    ledger         energy ledger since the reset, see integrators/ledger.py; if empty, the ledger begins anew at this
                   state
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
        """The state as a dict of numbers and lists, for JSON."""
        return {
            item.name: value.tolist() if isinstance(value := getattr(self, item.name), np.ndarray) else value
            for item in fields(self)
        }

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> State:
        """The state from a dict that `to_plain` returned. Raises InvalidRequest if fields are missing."""
        missing = [item.name for item in fields(State) if item.name not in (*plain, "guards", "ledger")]
        if missing:
            raise InvalidRequest(f"the state lacks {', '.join(missing)}; it has {', '.join(plain)}")
        whole = {"tick", "constraint_mode"}
        values: dict[str, Any] = {
            item.name: int(plain[item.name]) if item.name in whole else np.array(plain[item.name], dtype=float)
            for item in fields(State)
            if item.name in plain
        }
        return State(**values)


@dataclass(frozen=True)
class Notice:
    """A problem found during a run: its kind ("step_too_large", ...), simulation time (s), and a one-line message."""

    kind: str
    time: float
    line: str


@dataclass(frozen=True)
class Transition:
    """A change of the constraint mode, with q and v before and after the change, and the energy lost, J.

    part            part of the robot that the change concerns
    source, target  names of the constraint modes before and after; for modes without a name, the names of the switched
                    constraints that hold
    One impact can cause several changes. Each of these changes then has the states before and after the whole impact,
    but constraint modes and an energy of its own: the energy that is lost by the impulses of the constraints that the
    change switches on, negative if these impulses add energy. The first change gets the rest of the energy lost in the
    impact, so that the energies of all changes add up to this loss.
    """

    kind: str
    time: float
    before: np.ndarray
    after: np.ndarray
    energy: float
    part: str = ""
    source: str = ""
    target: str = ""
