"""Inputs of a running simulation: efforts, tunables and external forces, and the impulses of their jumps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sim_core.arguments import as_mapping, as_number, as_numbers, as_state
from sim_core.errors import InvalidRequest, UnknownName
from sim_core.events.inputs import VelocityInputs
from sim_core.integrators.steppers import Stepper
from sim_core.integrators.workspace import Workspace
from sim_core.mechanism.quantities import push_names
from sim_core.mechanism.validation import check_bounds, tuned, validate
from sim_core.monitoring.constraint_gaps import ConstraintGaps
from sim_core.monitoring.energy_ledger import EnergyLedger
from sim_core.simulation.readout import Readout

NOT_PUSHABLE = "; a body that can be pushed is listed in the mechanism's `pushable`"


class Inputs:
    """Sets the inputs of a simulation.

    effort_limit  (n_u,) largest absolute efforts
    tunables      (n,) values of the tunables
    must_follow   whether a jump of inputs changes more than the inputs: velocities or the memory of the stepper

    Methods that change inputs return a line about commanded velocities that the constraints do not permit, or "".
    """

    def __init__(
        self, run: Readout, w: Workspace, stepper: Stepper, ledger: EnergyLedger, gaps: ConstraintGaps
    ) -> None:
        self._run, self._w, self._stepper, self._ledger, self._gaps = run, w, stepper, ledger, gaps
        self._system, self._mechanism = run.system, run.system.mechanism
        self._owner = f"robot {self._mechanism.name!r}"
        limits = [np.inf if a.effort_limit is None else a.effort_limit for a in self._mechanism.actuators]
        self.effort_limit = np.array(limits, dtype=float)
        self.tunables = np.array([tunable.value for tunable in self._mechanism.tunables], dtype=float)
        self._velocities = VelocityInputs(self._system, w)
        keeps = stepper.restarts or stepper.acceleration is not None
        self.must_follow = self._velocities.are_there or keeps

    def effort(self, effort: Any) -> np.ndarray:
        """Efforts (n_u,), checked and clipped, from an array (n_u,) or {actuator: effort}; others keep their values."""
        if isinstance(effort, Mapping):
            values = self._w.u.copy()
            names = [actuator.name for actuator in self._mechanism.actuators]
            for name, value in effort.items():
                if name not in names:
                    raise UnknownName(self._owner, "actuator", name, names)
                values[names.index(name)] = as_number(self._owner, f"effort of {name}", value)
        else:
            values = as_numbers(self._mechanism.name, "effort", effort)
            if values.size != (n_u := self._system.n_u):
                raise InvalidRequest(
                    f"effort has {values.size} entries; give one for each of the {n_u} actuators of "
                    f"{self._mechanism.name!r}"
                )
        return np.asarray(np.minimum(np.maximum(values, -self.effort_limit), self.effort_limit))

    def drive(self, effort: np.ndarray) -> str:
        """Set the efforts (n_u,), which are finite and within the limits."""
        return self._change(self._w.u, effort)

    def tune(self, tunables: np.ndarray) -> str:
        """Set the values (n,) of the tunables, which `tuned` returned."""
        self.tunables = tunables
        return self._change(self._w.p[: len(tunables)], tunables)

    def tuned(self, parameters: Mapping[str, float]) -> np.ndarray:
        """Values (n,) of the tunables with the changes {name: value}, checked."""
        names, values = self._system.tunable_names, self.tunables.copy()
        for name, given in as_mapping(self._owner, "parameters", parameters).items():
            if name not in names:
                raise UnknownName(self._owner, "tunable parameter", name, names)
            value, place = as_number(self._owner, name, given), names.index(name)
            check_bounds(self._owner, self._mechanism.tunables[place], value)
            values[place] = value
        if parameters:  # `assemble` has checked the mechanism with its own values
            validate(tuned(self._mechanism, dict(zip(names, values.tolist(), strict=True))))
        return values

    def parameters(self) -> np.ndarray:
        """Parameters p (n_p,) at the start, with the present values of the tunables."""
        p = self._system.default_parameters()
        p[: len(self.tunables)] = self.tunables
        return p

    def push(self, body: str, force: Any, point: Any) -> str:
        """Set the external force on a body, and the body-fixed point at which it acts; see `Simulation.push`."""
        if body not in self._mechanism.pushable:
            raise UnknownName(self._owner, "pushable body", body, self._mechanism.pushable, NOT_PUSHABLE)
        values = np.zeros(0)
        for name, vector in (("force", force), ("point", point)):
            array = as_state(self._mechanism.name, f"{name} of the push on {body}", vector)
            if array.size != 3:
                raise InvalidRequest(f"{name} of a push has {array.size} entries; it must have 3")
            values = np.concatenate([values, array])
        first = self._system.parameter_names.index(push_names(body)[0])
        return self._change(self._w.p[first : first + len(values)], values)

    def pushes(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """{body: (force (3,) in N, point (3,) in m)} of the external forces that are not zero."""
        found = {}
        for body in self._mechanism.pushable:
            first = self._system.parameter_names.index(push_names(body)[0])
            force, point = self._w.p[first : first + 3].copy(), self._w.p[first + 3 : first + 6].copy()
            if force.any():
                found[body] = force, point
        return found

    def _change(self, array: np.ndarray, values: np.ndarray) -> str:
        """Write new values to an input array; prescribed velocities and the memory of the stepper follow a jump."""
        missed = ""
        if not self.must_follow:
            array[:] = values
        elif not np.array_equal(array, values):
            w, first = self._w, self._stepper.acceleration
            inputs = w.u.copy()
            before = self._acceleration() if first is not None else w.a
            array[:] = values
            missed = self._follow(inputs)
            if first is not None:
                w.stepper_memory[first : first + w.a.size] += self._acceleration() - before
            elif self._stepper.restarts:
                w.stepper_memory[:] = 0.0
        return missed

    def _acceleration(self) -> np.ndarray:
        w = self._w
        return self._system.acceleration(self._run.time, w.q, w.v, w.u, w.p, w.U)[0]

    def _follow(self, before: np.ndarray) -> str:
        """Change the velocities by the impulses of changed inputs, and record the work of these impulses.

        before  (n_u,) inputs before the change
        """
        if np.array_equal(before, self._w.u) or not self._velocities.are_there:
            return ""
        energy = self._run.energy()
        missed = self._velocities.follow(before)
        self._ledger.add_work(self._run.energy() - energy)
        return self._gaps.of_commands(missed)
