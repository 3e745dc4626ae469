"""Texts about constraints that do not hold during a run, so that only forces of the stabilizer act on the violation."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from sim_core.integrators.workspace import Workspace
from sim_core.start import FAR, ROUNDING
from sim_core.system import System


class ConstraintGaps:
    """Looks for constraints that a guard, a changed parameter or a command violates. Each is named once per run."""

    def __init__(self, system: System, w: Workspace) -> None:
        self._system, self._w, self._names = system, w, set[str]()
        self._row_names = system.constraint_modes[0].row_names
        self._sizes = np.where(system.lengths, system.mechanism.characteristic_length, 1.0)
        self._robot = repr(system.mechanism.name)

    def begin(self) -> None:
        """Forget which constraints were named, for a new run."""
        self._names.clear()

    def of_guards(self, engaged: Collection[str], v: np.ndarray, h: float) -> str:
        """Line about constraints that were switched on in this time step although they are violated; "" without any.

        A violation is permitted up to the fraction FAR of the characteristic length (of 1 for rows that are no
        lengths), and up to the change of the row within two time steps. The rate of a violation is permitted up to the
        same fraction per second.

        engaged  names of the constraints that were switched on
        v        velocities before this step's events
        h        step size, s
        """
        if self._names.issuperset(engaged):
            return ""
        w, time = self._w, float(self._w.t[0])
        phi, phidot = self._system.residual(time, w.q, w.v, w.p, u=w.u)
        within = 2.0 * h * np.abs(self._system.terms(time, w.q, v, w.u, w.p)[2] @ v)
        if gaps := self._found(phi, np.maximum(FAR * self._sizes, within), engaged):
            return (
                f"a guard of {self._robot} switched on {_listed(gaps, ' violated by ')} at t = {time:.6g} s; the "
                "stabilizer closes such gaps by forces that change the energy; switch a constraint on where it is "
                "satisfied, or let the guard capture its position"
            )
        if gaps := self._found(phidot, FAR * self._sizes, engaged, "/s"):
            return (
                f"a guard of {self._robot} switched on {_listed(gaps, ' violated by ')} at t = {time:.6g} s; the guard "
                "has no impact, and the stabilizer ends such motions by forces that change the energy; give the guard "
                "the impact 'inelastic'"
            )
        return ""

    def of_parameters(self, before: np.ndarray) -> str:
        """Line about constraints that new parameters shift; "" without any.

        before  (n_h,) violations with the parameters before
        """
        w, time = self._w, float(self._w.t[0])
        shift = self._system.residual(time, w.q, w.v, w.p)[0] - before
        if gaps := self._found(shift, ROUNDING * self._sizes, self._row_names):
            return (
                f"new parameters of {self._robot} shift {_listed(gaps, ' by ')} at t = {time:.6g} s; the stabilizer "
                "closes such gaps by forces that change the energy, and without a stabilizer they remain"
            )
        return ""

    def of_state(self, phi: float) -> str:
        """Line about a restored state that violates the constraints more than its run did; "" for any other state.

        phi  |Phi|_1 of the restored state; up to the fraction FAR of the characteristic length is permitted
        """
        most = max(FAR * self._system.mechanism.characteristic_length, 2.0 * float(self._w.peaks[0]))
        if phi <= most:
            return ""
        return (
            f"the restored state of {self._robot} violates its constraints, with |Phi|_1 = {phi:.3g} at t = "
            f"{self._w.t[0]:.6g} s, and its run had at most {self._w.peaks[0]:.3g}; the stabilizer closes such gaps "
            "by forces that change the energy, and without a stabilizer they remain; restore a state of a run"
        )

    def of_commands(self, missed: Mapping[str, tuple[float, float]]) -> str:
        """Line about commanded velocities that the other constraints do not permit; "" without any.

        missed  {constraint: (command, difference of the velocity from it)}
        """
        new = {name: f"{abs(off):.3g} of {command:.6g}" for name, (command, off) in missed.items()}
        new = {name: text for name, text in new.items() if name not in self._names}
        if not new:
            return ""
        self._names.update(new)
        return (
            f"the constraints of {self._robot} do not permit the commanded velocity of {_listed(new, ', missed by ')} "
            f"at t = {self._w.t[0]:.6g} s"
        )

    def _found(
        self, values: np.ndarray, allowed: np.ndarray, names: Collection[str], per_second: str = ""
    ) -> dict[str, str]:
        """{constraint: size and unit} of those of `names` that have a row with |value| > allowed and are not yet named.

        values      violations Phi of the holonomic rows, or rates Phidot of all rows
        allowed     (n_r,) permitted value of each row
        per_second  "" for the unit of Phi, "/s" for that of Phidot
        """
        found = {}
        for name, value, most, is_length in zip(self._row_names, values, allowed, self._system.lengths, strict=False):
            if name in names and name not in self._names and not abs(value) <= most:
                found[name] = f"{abs(value):.3g}{f' m{per_second}' if is_length else ' per s' if per_second else ''}"
        self._names.update(found)
        return found


def _listed(gaps: Mapping[str, str], between: str) -> str:
    return ", ".join(f"{name!r}{between}{gap}" for name, gap in gaps.items())
