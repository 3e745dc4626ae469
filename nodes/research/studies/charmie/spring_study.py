"""Finds the stiffness and pretension of the balancing springs that minimize the forces of the linear actuators.

Actuator forces are linear in stiffness and pretension, so the least sum of squares within bounds is found exactly.
[GoncalvesEtAl2024, sec. 7] mentions such a study, but states no numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from nodes.research.studies.charmie.actuator_loads import Efforts, Posed, Times, efforts_over
from robots.charmie.parameters import ExtensionSpring, Parameters
from sim_core.mechanism import Mechanism

MOST_STIFFNESS, MOST_PRETENSION = 20e3, 500.0  # N/m, N: largest values of springs of this size (assumed)
ACTUATORS = {"balance": "lift_rod", "tilt_spring": "tilt_rod"}


@dataclass(frozen=True)
class Tuned:
    """A spring before and after tuning, and the RMS force (N) of the actuator that the spring relieves.

    at_bound  spring parameters ("stiffness", "pretension") whose optimal value equals one of their bounds
    """

    spring: str
    actuator: str
    before: ExtensionSpring
    after: ExtensionSpring
    rms_before: float
    rms_after: float
    at_bound: tuple[str, ...]


@dataclass(frozen=True)
class SpringStudy:
    """Springs of CHARMIE that minimize the forces of the linear actuators, and efforts before and after this tuning.

    parameters     CHARMIE's parameters with the tuned springs
    tuned          one entry per spring, with its parameters before and after tuning
    before, after  efforts of all actuators before and after tuning
    """

    parameters: Parameters
    tuned: tuple[Tuned, ...]
    before: Efforts
    after: Efforts


def spring_of(p: Parameters, name: str) -> ExtensionSpring:
    """The spring with this name in the parameters `p`.

    name  "balance" for the two equal springs 4slb and 4srb, or "tilt_spring" for spring 5s
    """
    return p.balance.spring if name == "balance" else p.tilt_spring


def with_spring(p: Parameters, name: str, stiffness: float, pretension: float) -> Parameters:
    """Copy of the parameters `p`, with new values of stiffness (N/m) and pretension (N) for the spring `name`."""
    spring = msgspec.structs.replace(spring_of(p, name), stiffness=stiffness, pretension=pretension)
    if name == "balance":
        return msgspec.structs.replace(p, balance=msgspec.structs.replace(p.balance, spring=spring))
    return msgspec.structs.replace(p, tilt_spring=spring)


def tune_springs(p: Parameters, mechanism: Mechanism, instants: Sequence[Posed], times: Times) -> SpringStudy:
    """Find the spring parameters that minimize the RMS force of the lift and tilt actuators over the instants of a
    motion."""
    from scipy.optimize import lsq_linear

    def forces(trial: Parameters, actuator: str) -> np.ndarray:
        return efforts_over(trial, mechanism, instants, times).of(actuator)

    best, before = p, efforts_over(p, mechanism, instants, times)
    bound: dict[str, tuple[str, ...]] = {}
    for name, actuator in ACTUATORS.items():
        bare = forces(with_spring(p, name, 0.0, 0.0), actuator)
        columns = [forces(with_spring(p, name, *unit), actuator) - bare for unit in ((1e3, 0.0), (0.0, 1.0))]
        found: Any = lsq_linear(
            np.stack(columns, axis=1),
            -bare,
            bounds=([0, 0], [MOST_STIFFNESS / 1e3, MOST_PRETENSION]),
            method="bvls",  # an active-set method: a value at a bound is exactly the bound
        )
        best = with_spring(best, name, 1e3 * float(found.x[0]), float(found.x[1]))
        bound[name] = tuple(np.array(["stiffness", "pretension"])[found.active_mask != 0].tolist())
    after = efforts_over(best, mechanism, instants, times)
    tuned = tuple(
        Tuned(name, actuator, spring_of(p, name), spring_of(best, name), *rms, bound[name])
        for name, actuator in ACTUATORS.items()
        for rms in [(_rms(before, actuator), _rms(after, actuator))]
    )
    return SpringStudy(best, tuned, before, after)


def _rms(found: Efforts, actuator: str) -> float:
    return float(np.sqrt(np.mean(found.of(actuator) ** 2)))
