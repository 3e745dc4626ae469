"""Switched constraints of a simulation: which of them hold, the current constraint mode, and which guards are active.

A constraint mode is a named set of constraints that hold at the same time.
"""

from __future__ import annotations

import numpy as np

from sim_core.errors import InvalidRequest
from sim_core.integrators.workspace import CONDITIONS, NOT_WATCHED, Workspace
from sim_core.mechanism.guards import Crossing
from sim_core.start import ROUNDING
from sim_core.system import System

UNNAMED = -1  # index of the constraint mode when the set of constraints that hold has no name
NOTHING = "none"  # name of that set if no switched constraint holds
AT_LEVEL = 1e-300  # magnitude of the guard value of a crossing at its level; the sign gives the side


class Switching:
    """The guards of a simulation, and its switched constraints.

    Each switched constraint has a flag among the parameters p, which is 1 while the constraint holds and 0 otherwise.

    constraint_mode     index of the constraint mode, a named set of constraints that hold at the same time; UNNAMED if
                        the set of constraints that hold now has no name
    engages             (n_guards, n_switched) masks of the constraints that each guard switches on
    releases            (n_guards, n_switched) masks of the constraints that each guard switches off
    is_crossing         (n_guards,) mask of the guards that are Crossings
    inelastic           (n_guards,) mask of the guards with an inelastic impact
    changes_something   (n_guards,) mask of the guards that can change the constraint mode
    """

    def __init__(self, system: System, w: Workspace) -> None:
        self.system, self._w, self.guards = system, w, system.mechanism.guards
        self._switched = system.mechanism.switched
        first = len(w.p) - len(self._switched)
        self._first, self._flags = first, w.p[first:]
        self._sets = np.array([rows.parameters[first:] for rows in system.constraint_modes])
        self._names = [rows.name for rows in system.constraint_modes]
        self.constraint_mode = system.mechanism.start_constraint_mode
        self.is_crossing = np.array([isinstance(guard, Crossing) for guard in self.guards], dtype=bool)
        directions = [guard.direction if isinstance(guard, Crossing) else CONDITIONS for guard in self.guards]
        self.directions = np.array(directions, dtype=float)
        levels = [(g.body, g.point, g.axis, g.level) if isinstance(g, Crossing) else None for g in self.guards]
        numbers = {level: number for number, level in enumerate(dict.fromkeys(levels))}
        self.levels = [numbers[level] for level in levels]  # the same number for crossings of one point and level
        self.inelastic = np.array([guard.impact == "inelastic" for guard in self.guards], dtype=bool)
        self._source = np.array([self._index_of(guard.source) for guard in self.guards], dtype=int)
        self._target = np.array([self._index_of(guard.target) for guard in self.guards], dtype=int)
        self._by_name = self._target != UNNAMED
        self.engages, self.releases = self._changed("engages", 1.0), self._changed("releases", -1.0)
        self._requires, self._excludes = self._listed("requires"), self._listed("excludes")
        self.changes_something = np.where(
            self._by_name, self._source != self._target, (self.engages | self.releases).any(axis=1)
        )
        self._read_guards = system.bind("guards", [w.t, w.q, w.v, w.u, w.p, w.lam], [w.guards])

    def _index_of(self, name: str) -> int:
        return self.system.constraint_mode_index(name) if name else UNNAMED

    def _listed(self, field: str) -> np.ndarray:
        rows = [[name in getattr(guard, field) for name in self._switched] for guard in self.guards]
        return np.array(rows, dtype=bool).reshape(len(self.guards), len(self._switched))

    def _changed(self, field: str, sign: float) -> np.ndarray:
        found = self._listed(field)
        for guard in np.flatnonzero(self._by_name):
            found[guard] = sign * (self._sets[self._target[guard]] - self._sets[self._source[guard]]) > 0.0
        return found

    # -- which constraints hold ---------------------------------------------------------------------------------------

    @property
    def active(self) -> np.ndarray:
        """Mask (n_switched,) of the switched constraints that hold; a copy."""
        return self._flags > 0.0

    @property
    def holding(self) -> tuple[str, ...]:
        """Names of the switched constraints that hold now, in the order of the description."""
        return self.named(self.active)

    @property
    def idle(self) -> tuple[str, ...]:
        """Names of the switched constraints that do not hold."""
        return self.named(~self.active)

    def named(self, which: np.ndarray) -> tuple[str, ...]:
        """Names of the switched constraints that the mask `which` (n_switched,) selects."""
        return tuple(name for name, one in zip(self._switched, which, strict=True) if one)

    @property
    def name(self) -> str:
        """Name of the current constraint mode.

        If the set of constraints that hold has no name, the result lists the switched constraints that hold, joined by
        " + ", or is "none" if none of them holds.
        """
        return self._names[self.constraint_mode] if self.constraint_mode != UNNAMED else self.name_of(self.active)

    def name_of(self, which: np.ndarray) -> str:
        """Names of the switched constraints that the mask `which` (n_switched,) selects, joined by " + ".

        The result is "none" if the mask selects no constraint.
        """
        return " + ".join(self.named(which)) or NOTHING

    def check(self, constraint_mode: int, p: np.ndarray) -> None:
        """Raise InvalidRequest for an unknown constraint mode, or for parameters p whose flags contradict the mode.

        constraint_mode  index of the mode, or UNNAMED. With UNNAMED, each flag in p may be 0 or 1
        """
        flags, count = p[self._first :], len(self._names)
        if not UNNAMED <= constraint_mode < count or (constraint_mode == UNNAMED and not self._switched):
            raise InvalidRequest(
                f"the state has constraint mode number {constraint_mode}, but the mechanism has {count} constraint "
                "modes; pass a state of this mechanism"
            )
        wanted = (flags > 0.5).astype(float) if constraint_mode == UNNAMED else self._sets[constraint_mode]
        for name, flag, right in zip(self._switched, flags, wanted, strict=True):
            if flag != right:
                where = (
                    f"constraint mode {self._names[constraint_mode]!r}"
                    if constraint_mode != UNNAMED
                    else "no constraint mode"
                )
                raise InvalidRequest(
                    f"the state is in {where}, but the parameter that switches constraint {name!r} is {flag:g}; "
                    f"set this parameter to {right:g}"
                )

    def enter(self, constraint_mode: int) -> None:
        """Enter the constraint mode with the given index, and set the flags in p to those of this mode.

        With the index UNNAMED, the flags stay as they are.
        """
        self.constraint_mode = constraint_mode
        if constraint_mode != UNNAMED:
            self._flags[:] = self._sets[constraint_mode]

    def switch(self, guard: int) -> None:
        """Apply a guard: switch the constraints that it engages and releases, or enter its target mode."""
        if self._by_name[guard]:
            self.enter(int(self._target[guard]))
            return
        self._flags[self.engages[guard]] = 1.0
        self._flags[self.releases[guard]] = 0.0
        self.name_mode()

    def name_mode(self) -> None:
        """Set the constraint mode to one with the constraints that hold now, or to UNNAMED."""
        alike = np.flatnonzero((self._sets == self._flags).all(axis=1))
        if self.constraint_mode not in alike:
            self.constraint_mode = int(alike[0]) if len(alike) else UNNAMED

    # -- which guards are active --------------------------------------------------------------------------------------

    def watched(self) -> np.ndarray:
        """Mask (n_guards,) of the active guards.

        A guard with a source mode is active in this mode only. A guard that switches constraints is active only if it
        would switch one. Every guard is active only while all constraints in `requires` hold and none in `excludes`.
        """
        holds = self.active
        would_change = (self.engages & ~holds).any(axis=1) | (self.releases & holds).any(axis=1)
        allowed = ~(self._requires & ~holds).any(axis=1) & ~(self._excludes & holds).any(axis=1)
        here = (self._source == UNNAMED) | (self._source == self.constraint_mode)
        switches = self.engages.any(axis=1) | self.releases.any(axis=1)
        found: np.ndarray = here & allowed & (would_change | self._by_name | ~switches)
        return found

    def would_undo(self, changed: np.ndarray, left: list[int]) -> np.ndarray:
        """Mask (n_guards,) of the guards that would undo earlier events of this time step.

        Such a guard would switch a constraint again, or return to a constraint mode that was left.

        changed  (n_switched,) mask of the constraints that were switched in this time step
        left     indices of the constraint modes that were left in this time step
        """
        holds = self.active
        back = self._by_name & np.isin(self._target, left) & (self._target != self.constraint_mode)
        would_change = (self.engages & ~holds) | (self.releases & holds)
        found: np.ndarray = back | (would_change & changed).any(axis=1)
        return found

    def watch(self) -> None:
        """Make the stepping loop check the guards that `watched` returns.

        The current values of these guards must already be in the workspace.
        """
        self._w.guard_directions[:] = np.where(self.watched(), self.directions, NOT_WATCHED)

    def watch_anew(self) -> None:
        """Compute the guard values without constraint forces, and make the stepping loop check the active guards.

        The constraint forces are not known before the first time step, so the multipliers are set to zero. A point that
        is exactly at the level of a Crossing counts as not yet past the level, so that the Crossing may fire in the
        first time step.
        """
        w = self._w
        w.lam[:] = 0.0
        self._read_guards()
        w.guards_before[:] = w.guards
        starts = self.at_level(w.guards) & (self.directions != 0.0)
        w.guards_before[starts] = -AT_LEVEL * self.directions[starts]
        self.watch()

    def at_level(self, values: np.ndarray) -> np.ndarray:
        """Mask (n_guards,) of the Crossings whose point is at the Crossing's level, up to rounding errors.

        values  (n_guards,) guard values; the value of a Crossing is the signed distance, m, of its point from the level
        """
        rounding = ROUNDING * max(1.0, self.system.mechanism.characteristic_length)
        found: np.ndarray = self.is_crossing & (np.abs(values) <= rounding)
        return found
