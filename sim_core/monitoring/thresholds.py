"""Thresholds for the pivots of constraint rows during a run.

A pivot below its threshold shows that the constraint rows almost lose rank, as near a change point.
"""

from __future__ import annotations

import numpy as np

from sim_core.integrators.workspace import Workspace
from sim_core.solve import least_pivots
from sim_core.system import System


class PivotThresholds:
    """Writes the thresholds for the pivots of the constraint rows to the workspace, where the stepping loop reads them.

    The thresholds depend on the tunables and on the constraints that hold. At the start, they are computed for all
    constraint modes. After a change of masses or lengths, they are computed again for each mode when it is entered. If
    the constraints that hold form no constraint mode, the thresholds are those for all constraints together.
    """

    def __init__(self, system: System, w: Workspace) -> None:
        self._system, self._w, self._has_pivots = system, w, len(system.pivot_rows) > 0
        mechanism = system.mechanism
        self._first = len(w.p) - len(mechanism.switched)
        sets = [np.array(rows.parameters[self._first :]) for rows in system.constraint_modes]
        self._sets = [*sets, np.ones(len(mechanism.switched))]
        held = [system.constraint_modes[0].row_names[row] for row in system.pivot_rows]
        self._flag_of = [mechanism.switched.index(name) if name in mechanism.switched else -1 for name in held]
        self._found: dict[int, np.ndarray] = {}
        self._p, self._terms = system.default_parameters(), tuple[np.ndarray, ...]()

    def tune(self, parameters: np.ndarray) -> None:
        """Discard thresholds that new values of the tunables make invalid; the first call computes all thresholds.

        The thresholds stay valid if the new values change neither the mass matrix nor the constraints.

        parameters  (n_tunables,) values of the tunables
        """
        if not self._has_pivots:
            return
        q, p, first = np.array(self._system.mechanism.initial_q, dtype=float), self._p, not self._terms
        p[: len(parameters)], p[self._first :] = parameters, 1.0
        M, _, J, _ = self._system.terms(0.0, q, np.zeros_like(q), None, p)
        terms = (M, J, self._system.residual(0.0, q, np.zeros_like(q), p)[0])
        if not first and all(map(np.array_equal, self._terms, terms)):
            return
        self._terms = terms
        self._found = {mode: self._of(mode) for mode in range(len(self._sets))} if first else {}

    def select(self, constraint_mode: int) -> None:
        """Write the thresholds for the constraints that hold now to the workspace.

        constraint_mode  index of the constraint mode; -1 if the constraints that hold form no constraint mode
        """
        if not self._has_pivots:
            return
        mode = constraint_mode % len(self._sets)
        if mode not in self._found:
            self._found[mode] = self._of(mode)
        flags = np.append(self._w.p[self._first :], 1.0)  # the last entry, for rows that always hold
        self._w.least_pivots[: len(self._flag_of)] = self._found[mode] * (flags[self._flag_of] > 0.0)

    def weak(self, states: np.ndarray) -> tuple[float, tuple[str, ...]]:
        """Find the first of several states in which constraints almost lose rank.

        Returns (time of this state in s, names of these constraints); (inf, ()) if there is no such state.

        states  (n, 1 + 2 n_q): t, q, v
        """
        w, system, names = self._w, self._system, self._system.constraint_modes[0].row_names
        least = w.least_pivots[: len(self._flag_of)]
        for state in states if self._has_pivots else ():
            q, v = np.split(state[1:], 2)
            factor = system.acceleration(state[0], q, v, w.u, w.p)[2]
            found = ~(np.abs(factor[slice(*system.pivots)]) * least <= 1.0)
            if found.any() and np.all(np.isfinite(state)):
                rows = [row for row, weak in zip(system.pivot_rows, found, strict=True) if weak]
                return float(state[0]), tuple(dict.fromkeys(names[row] for row in rows))
        return np.inf, ()

    def _of(self, mode: int) -> np.ndarray:
        self._p[self._first :] = self._sets[mode]
        return least_pivots(self._system, self._p)
