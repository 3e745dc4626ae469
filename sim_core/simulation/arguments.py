"""Checks of the arguments of a simulation: step size, methods, and a state to continue from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sim_core.arguments import as_count, as_number, as_numbers, as_state
from sim_core.errors import InvalidRequest
from sim_core.integrators.steppers import STEPPERS, Stepper
from sim_core.integrators.workspace import Workspace
from sim_core.mechanism.description import Mechanism
from sim_core.mechanism.validation import check_tunables
from sim_core.stabilization.stabilizers import Stabilizer
from sim_core.state import State
from sim_core.support.shown import shown
from sim_core.system import System

LAST_TICK = 2**53  # largest tick that a float64 holds exactly
LEAST_STEP, LARGEST_STEP = 1e-12, 1e6  # permitted step sizes, s
OWN = ("q", "v", "u", "p", "U", "turns", "peaks", "stepper_memory", "stabilizer_memory")


def checked_step(owner: str, step_s: Any) -> float:
    """The step size `step_s`, s, as a float. Raises InvalidRequest unless it is from LEAST_STEP to LARGEST_STEP."""
    h = as_number(owner, "step_s", step_s)
    if not LEAST_STEP <= h <= LARGEST_STEP:
        raise InvalidRequest(
            f"step_s is {shown(step_s)}; it must be a positive number of seconds, from {LEAST_STEP:g} to "
            f"{LARGEST_STEP:g}"
        )
    return h


def check_methods(system: System, stepper: Any, stabilizer: Any) -> None:
    """Raise InvalidRequest unless the stepper and the stabilizer are such, and the stepper suits the system."""
    for name, part, kind in (("stepper", stepper, Stepper), ("stabilizer", stabilizer, Stabilizer)):
        if not isinstance(part, kind):
            raise InvalidRequest(f"{name} is {shown(part)}; it must be a name or a {kind.__name__}")
    if system.mechanism.oriented_joints and stepper.spans_steps:
        names = ", ".join(each.name for each in STEPPERS.values() if not each.spans_steps)
        joint = system.mechanism.oriented_joints[0]
        raise InvalidRequest(
            f"stepper {stepper.name!r} uses data of earlier time steps, but the coordinates of joint {joint.name!r} "
            f"({joint.kind}) are redefined after each time step; use one of {names}"
        )


@dataclass(frozen=True)
class GivenState:
    """A checked State from which a simulation continues.

    arrays        {name: array of the workspace that takes the values}
    values        {name: values of this array}
    knows_guards  whether the state has the values of the guards
    has_ledger    whether the state has the energy ledger
    """

    arrays: dict[str, np.ndarray]
    values: dict[str, np.ndarray]
    tick: int
    constraint_mode: int
    knows_guards: bool
    has_ledger: bool


def checked_state(state: Any, w: Workspace, mechanism: Mechanism, effort_limit: np.ndarray) -> GivenState:
    """The parts of a State, checked. Raises InvalidRequest for wrong sizes or values.

    effort_limit  (n_u,) largest absolute efforts
    """
    if not isinstance(state, State):
        raise InvalidRequest(f"state is {shown(state)}; it must be a State, such as that of snapshot()")
    arrays = {name: getattr(w, name) for name in OWN} | {"guards": w.guards_before, "ledger": w.ledger}
    values = {name: as_numbers("state", name, getattr(state, name)) for name in arrays}
    knows_guards, has_ledger = values["guards"].size > 0 or not w.guards_before.size, values["ledger"].size > 0
    for name in ("stepper_memory", "guards", "ledger"):  # a stepper without memory and earlier versions save none
        values[name] = values[name] if values[name].size else np.zeros_like(arrays[name])
    for name, array in arrays.items():
        if values[name].shape != array.shape:
            raise InvalidRequest(
                f"state has {values[name].size} entries in {name}; {mechanism.name!r} has {array.size}"
            )
    for name in ("q", "v"):
        as_state("state", name, values[name])
    for actuator, limit, effort in zip(mechanism.actuators, effort_limit, values["u"].tolist(), strict=True):
        if abs(effort) > limit:
            raise InvalidRequest(
                f"state: the effort of actuator {actuator.name!r} is {effort:g}; its effort_limit is {limit:g}"
            )
    check_tunables(mechanism, values["p"])
    tick = as_count("state", "tick", state.tick, LAST_TICK)
    constraint_mode = int(as_number("state", "constraint_mode", state.constraint_mode))
    return GivenState(arrays, values, tick, constraint_mode, knows_guards, has_ledger)
