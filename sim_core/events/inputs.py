"""Jumps of the inputs that prescribe velocities: the velocities follow by impulses, whatever stabilizer there is."""

from __future__ import annotations

import numpy as np

from sim_core.events.transitions import impact
from sim_core.integrators.workspace import Workspace
from sim_core.mechanism.constraints import PrescribedMotion
from sim_core.system import System

UNREACHED = 1e-6  # share of the jump, and of the size of the velocity: a larger difference is no rounding


class VelocityInputs:
    """The PrescribedMotion constraints of a simulation whose velocity is the command of an actuator.

    are_there  whether the mechanism has such constraints
    """

    def __init__(self, system: System, w: Workspace) -> None:
        self._system, self._w = system, w
        mechanism, rows = system.mechanism, system.constraint_modes[0].row_names
        actuators = [actuator.name for actuator in mechanism.actuators]
        self._places = {
            each.name: (actuators.index(each.input), rows.index(each.name))
            for each in mechanism.constraints
            if isinstance(each, PrescribedMotion) and each.input
        }
        self.are_there = bool(self._places)
        self._read_residual = system.bind("residual", [w.t, w.q, w.v, w.u, w.p], [w.phi, w.phidot])

    def follow(self, before: np.ndarray) -> dict[str, tuple[float, float]]:
        """Change the velocities by the impulses of the constraints whose input has changed.

        The rates Phidot of the violations of all other constraints keep their values.

        before  (n_u,) inputs before the change
        Returns {name: (command, difference of the velocity from it)} of the constraints that others contradict.
        """
        w = self._w
        changed = {name: place for name, place in self._places.items() if w.u[place[0]] != before[place[0]]}
        if not changed:
            return {}
        U = w.U.copy()  # of the last time step, which `impact` deletes
        impact(self._system, w, changed)
        w.U[:] = U
        self._read_residual()
        missed = {}
        for name, (actuator, row) in changed.items():
            command, off = float(w.u[actuator]), float(w.phidot[row])
            if not abs(off) <= UNREACHED * max(abs(command), abs(command - before[actuator])):
                missed[name] = command, off
        return missed
