"""State of a simulation at one time, notices of problems in a run, and changes of the constraint mode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from sim_core.errors import InvalidRequest


@dataclass(frozen=True)
class State:
    """The complete state of a simulation after `tick` steps. A run that restarts from a State continues bit for bit.

    tick           number of time steps since the reset
    q, v, u        coordinates (n_q,), velocities (n_q,) and actuator efforts (n_u,)
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
    """A change of the constraint mode by a guard, at a given simulation time, s.

    kind            kind of the guard or, if it has none, the guard's name
    before, after   (2 n_q,) state q, v before and after the change
    energy          lost energy, J; negative if the change adds energy
    part            part of the robot that the change concerns; "" if the guard names none
    source, target  names of the constraint modes before and after; for modes without a name, the names of the switched
                    constraints that hold

    One impact can cause several changes. Then `before` and `after` of each change are the states before and after the
    whole impact. The energy of a change is the loss due to the constraints that it switches on. The first change gets
    the rest of the loss, so that the energies of all changes add up to the loss in the impact.
    """

    kind: str
    time: float
    before: np.ndarray
    after: np.ndarray
    energy: float
    part: str = ""
    source: str = ""
    target: str = ""
