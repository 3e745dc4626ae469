"""Constant inputs of a system's actuators during a motion: efforts, and positions that servos hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim_core.batch.lane_servos import LaneServo, lane_servos
from sim_core.errors import InvalidRequest
from sim_core.system import System

Array = np.ndarray


@dataclass(frozen=True)
class HeldInputs:
    """Constant inputs of the actuators.

    u       (n_u,) one number per actuator: the position (rad or m) that its servo holds, if `modes` names the actuator;
            otherwise the effort (N m or N)
    modes   {actuator: "position"} of the actuators whose servo holds a position, as for `Batch.peaks`
    servos  servos of the actuators that `modes` names
    """

    u: Array
    modes: Mapping[str, str]
    servos: tuple[LaneServo, ...]

    @classmethod
    def of(cls, system: System, u: Any = None, modes: Mapping[str, str] | None = None) -> HeldInputs:
        """HeldInputs with checked `u`, by default the start values of the actuators, and `modes`, by default no servo.

        Raises InvalidRequest with a one-line message for inputs of the wrong shape, for a position beyond the limits of
        the actuator's joint, and for a servo in the mode "velocity", with which a joint has no equilibrium.
        """
        mechanism = system.mechanism
        for name, mode in (modes or {}).items():
            if mode == "velocity":
                raise InvalidRequest(
                    f"actuator {name!r}: a stability measure needs an equilibrium, which a joint under a velocity "
                    'command does not have; use mode "position", or Batch.peaks for the ranges of the motions'
                )
        starts = [actuator.start for actuator in mechanism.actuators]
        held = np.array(starts if u is None else u, dtype=float)
        if held.shape != (system.n_u,) or not np.isfinite(held).all():
            raise InvalidRequest(
                f"u has shape {held.shape}; for {mechanism.name!r} give {system.n_u} finite numbers, one per actuator"
            )
        servos = lane_servos(mechanism, modes or {}, system.coordinate_names)
        for servo in servos:
            actuator, value = mechanism.actuators[servo.actuator], float(held[servo.actuator])
            if not servo.lower <= value <= servo.upper:
                side, limit = ("lower", servo.lower) if value < servo.lower else ("upper", servo.upper)
                unit = "m" if mechanism.joint(actuator.joint).is_length else "rad"
                raise InvalidRequest(
                    f"actuator {actuator.name!r}: the position {value:.9g} {unit} is beyond the {side} limit "
                    f"{limit:.9g} {unit} of joint {actuator.joint!r}; give a position from {servo.lower:.9g} to "
                    f"{servo.upper:.9g}"
                )
        return cls(held, dict(modes or {}), servos)

    def efforts(self, q: Array, v: Array) -> Array:
        """Efforts (n_u,) of the actuators at the state q, v (n_q,); those of servos follow from the held positions."""
        found = self.u.copy()
        for servo in self.servos:
            found[servo.actuator] = servo.effort_at(q, v, self.u[servo.actuator])
        return found
