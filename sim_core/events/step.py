"""Events at the end of a time step: which guards fire, in which order, and how each changes the state.

The stepping loop stops after a step in which a guard fires. All guards that fired are then applied one by one, in the
order in which their values passed zero within the step. A guard with the values g0 at the start and g1 at the end of
the step passes zero at the fraction g0 / (g0 - g1) of the step. After each event the other guards are evaluated again.
Every event takes effect at the end of the step; the fraction only determines the order.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sim_core.events.switching import AT_LEVEL, Switching
from sim_core.events.transitions import capture, impact
from sim_core.integrators.workspace import Workspace
from sim_core.state import Transition

SAME_INSTANT = 1e-9  # share of a step: impacts closer than that are simultaneous
SLOW = 1e-9  # share of the speed of approach: a slower return is rounding
CLEARLY = 1e-9  # conditions that were closer to zero than this did not become true within the step


class GuardsRepeat(Exception):  # noqa: N818 - reads as what it is at the call site
    """Raised if a guard would fire twice at the end of a time step; `names` lists the guards in the order of events."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__(", ".join(names))
        self.names = names


class StepEvents:
    """Finds and applies the events at the end of a step, in the workspace of a simulation.

    energy  function that returns the current energy, J
    """

    def __init__(self, switching: Switching, w: Workspace, step_s: float, energy: Callable[[], float]) -> None:
        self._switching, self._system, self._w = switching, switching.system, w
        self._step_s, self._energy = step_s, energy
        self._guards, self._is_crossing = switching.guards, switching.is_crossing
        state, system = [w.t, w.q, w.v, w.u, w.p], switching.system
        self._read_guards = system.bind("guards", [*state, w.lam], [w.guards])
        self._accelerate = system.bind("acceleration", [*state, w.U], [w.a, w.lam, w.factor])
        self._probe_t, self._probe_q, self._probe_guards = np.zeros(1), np.zeros_like(w.q), np.zeros_like(w.guards)
        probe = [self._probe_t, self._probe_q, w.v, w.u, w.p, np.zeros_like(w.lam)]
        self._read_probe = system.bind("guards", probe, [self._probe_guards])
        self._begin()

    def _begin(self) -> None:
        """Store the guard values at the start and the end of the step, which determine this step's events."""
        self._before, self._after = self._w.guards_before.copy(), self._w.guards.copy()
        self._place = self._places()
        self._fired: list[int] = []
        self._struck = False
        self._changed = np.zeros(len(self._switching.active), dtype=bool)
        self._left_modes: list[int] = []
        self._watched = self._switching.watched()

    def apply(self, time: float) -> list[Transition]:
        """Apply the guards that fired in the step after which the loop stopped; returns their transitions in order.

        Simultaneous guards fire in the order of the description, except that simultaneous inelastic impacts are solved
        together. A Crossing does not fire if an impact in this step has reversed the motion of the Crossing's point.

        time  simulation time at the end of the step, s
        Raises GuardsRepeat if a guard would fire twice.
        """
        self._begin()
        held, found = self._switching.active, []
        while len(due := self._due()):
            self._refuse_repetition(due)
            first = int(due[self._place[due] <= self._place[due].min() + SAME_INSTANT].min())
            found += self._collide(first, time) if self._switching.inelastic[first] else [self._change(first, time)]
            self._start_anew()
        self._w.guards_before[:] = self._next_values(held)
        self._switching.watch()
        return found

    # -- which guards fire --------------------------------------------------------------------------------------------

    def _places(self) -> np.ndarray:
        """Fraction (n_guards,) of the step, 0 to 1, at which each guard's value changed sign; 0 without a change."""
        before, after = self._before, self._after
        changed = ((before < 0.0) & (after >= 0.0)) | (self._is_crossing & (before > 0.0) & (after <= 0.0))
        place = np.zeros(len(before))
        place[changed] = before[changed] / (before[changed] - after[changed])
        return place

    def _crossed(self) -> np.ndarray:
        """Mask (n_guards,) of the Crossings whose point crossed the level in the watched direction during the step.

        Inactive Crossings are included. The guard values at the start and at the end of the step are compared.
        """
        before, after, direction = self._before, self._after, self._switching.directions
        rising = (before < 0.0) & (after >= 0.0) & (direction >= 0)
        falling = (before > 0.0) & (after <= 0.0) & (direction <= 0)
        found: np.ndarray = self._is_crossing & (rising | falling)
        return found

    def _due(self) -> np.ndarray:
        """Indices, ascending, of the guards that fire in the current state."""
        watched, crossed = self._switching.watched(), self._crossed()
        watched[[guard for guard in self._fired if not self._switching.changes_something[guard]]] = False
        candidates = watched & crossed & (self._struck | (np.abs(self._before) <= AT_LEVEL))
        if candidates.any():
            crossed &= ~(candidates & self._receding())
        due = watched & (crossed | self._conditions_hold()) & ~self._past()
        return np.flatnonzero(due)

    def _past(self) -> np.ndarray:
        """Mask (n_guards,) of the crossings that must not fire again in this step.

        A point of a body crosses a level at most once per step. The mask therefore contains the crossings that have
        fired. Another crossing of the same point and level is in the mask too, unless it was active at the start of
        the step.
        """
        fired = self._fired
        of_fired = {self._switching.levels[guard] for guard in fired if self._is_crossing[guard]}
        past: np.ndarray = np.array([level in of_fired for level in self._switching.levels], dtype=bool)
        past &= ~self._watched
        past[[guard for guard in fired if self._is_crossing[guard]]] = True
        return past

    def _conditions_hold(self) -> np.ndarray:
        """Mask (n_guards,) of the guards, other than Crossings, that may fire now because all their conditions hold.

        A guard that would undo an earlier event of this time step may fire only if its conditions became true within
        this time step; otherwise the guard waits for the next time step. A contact that was released because of its
        force is therefore not engaged again at once, although the two bodies are still close.
        """
        became = (self._before < -CLEARLY) & (self._after >= 0.0)
        undoes = self._switching.would_undo(self._changed, self._left_modes)
        found: np.ndarray = ~self._is_crossing & (self._w.guards >= 0.0) & (became | ~undoes)
        return found

    def _receding(self) -> np.ndarray:
        """Mask (n_guards,) of the Crossings whose point now moves against the point's displacement in the step."""
        change = self._after - self._before
        slow = SLOW * np.abs(change) / self._step_s
        receding: np.ndarray = self._rates() * np.sign(change) < -slow
        return receding

    def _rates(self) -> np.ndarray:
        """Rates of change (n_guards,) of the guard values, by central differences in time.

        The rate of a Crossing is the velocity of its point along its axis, m/s. Rates within rounding errors are 0.
        """
        w, h, rates = self._w, self._step_s, np.zeros(len(self._guards))
        for sign in (1.0, -1.0):
            self._probe_t[0], self._probe_q[:] = w.t[0] + sign * h, w.q + sign * h * w.v
            self._read_probe()
            rates += sign * self._probe_guards / (2.0 * h)
        rounding = 1e-15 * max(1.0, float(np.abs(w.q).max(initial=0.0))) / h
        known: np.ndarray = np.where(np.abs(rates) > rounding, rates, 0.0)
        return known

    def missed(self) -> list[tuple[str, float]]:
        """(name, distance in m) of each active Crossing whose point is already beyond the Crossing's level.

        The distance is that of the point from the level. Crossings that engage no constraint are left out, and so are
        Crossings whose point moves back towards the level.
        """
        switching, values = self._switching, self._w.guards
        if not self._guards:
            return []
        direction = np.where(self._is_crossing, switching.directions, 0.0)
        beyond = (values * direction > 0.0) & ~switching.at_level(values) & (self._rates() * direction >= 0.0)
        missed = np.flatnonzero(beyond & switching.watched() & switching.engages.any(axis=1))
        return [(self._guards[guard].name, abs(float(values[guard]))) for guard in missed]

    def _refuse_repetition(self, due: np.ndarray) -> None:
        again = [place for place, guard in enumerate(self._fired) if guard in due]
        if again:
            raise GuardsRepeat(tuple(self._guards[guard].name for guard in self._fired[again[0] :]))

    # -- effects ------------------------------------------------------------------------------------------------------

    def _change(self, guard: int, time: float) -> Transition:
        """Apply a guard without impact: the velocities do not change."""
        w, source, energy = self._w, self._switching.name, self._energy()
        before = np.concatenate([w.q, w.v])
        self._switch(guard)
        lost, after = energy - self._energy(), np.concatenate([w.q, w.v])
        return self._transition(guard, time, (before, after), lost, (source, self._switching.name))

    def _collide(self, first: int, time: float) -> list[Transition]:
        """Apply the impacts of the guard `first` and of all simultaneous guards; returns one transition for each."""
        w, names, energy = self._w, [self._switching.name], self._energy()
        before, held, group = np.concatenate([w.q, w.v]), self._switching.active, []
        guard: int | None = first
        while guard is not None:
            self._switch(guard)
            group.append(guard)
            names.append(self._switching.name)
            guard = self._next_at(self._place[first])
        engaged = self._switching.named(~held & self._switching.active)
        lost_by_row = impact(self._system, w, engaged)
        self._struck = True
        lost, after = energy - self._energy(), np.concatenate([w.q, w.v])
        return [
            self._transition(guard, time, (before, after), share, (source, target))
            for guard, share, source, target in zip(
                group, self._shares(group, lost_by_row, lost, held), names, names[1:], strict=False
            )
        ]

    def _next_at(self, place: float) -> int | None:
        """Index of the next guard that fires with an inelastic impact at the fraction `place` of the step, or None.

        The velocities in the workspace must be those before the impact.
        """
        due = self._due()
        due = due[self._switching.inelastic[due] & (np.abs(self._place[due] - place) <= SAME_INSTANT)]
        # conditions that became true by an event must be evaluated with the velocities and forces after it
        due = due[self._is_crossing[due] | ((self._before[due] < 0.0) & (self._after[due] >= 0.0))]
        return next((int(guard) for guard in due if guard not in self._fired), None)

    def _switch(self, guard: int) -> None:
        held, left = self._switching.active, self._switching.constraint_mode
        capture(self._system, self._w, self._guards[guard])
        self._switching.switch(guard)
        if not self._is_crossing[guard]:
            self._changed |= held != self._switching.active
            self._left_modes.append(left)
        self._fired.append(guard)

    def _shares(self, group: list[int], lost_by_row: np.ndarray, lost: float, held: np.ndarray) -> list[float]:
        """Energy loss, J, of each guard of an impact: the loss of the constraint rows that the guard switched on.

        The loss of the first guard is the loss of the whole impact minus the losses of the other guards.

        group        indices of the guards
        lost_by_row  energy loss by the impulse of each constraint row, J
        lost         loss of the whole impact, J
        held         (n_switched,) whether each switched constraint was active before the impact
        """
        shares, row_names = [], self._system.constraint_modes[0].row_names
        for guard in group:
            engaged = self._switching.named(self._switching.engages[guard] & ~held)
            held = held | self._switching.engages[guard]
            shares.append(float(sum(lost_by_row[row] for row, name in enumerate(row_names) if name in engaged)))
        return [lost - sum(shares[1:]), *shares[1:]]

    def _transition(
        self,
        index: int,
        time: float,
        states: tuple[np.ndarray, np.ndarray],
        energy: float,
        constraint_modes: tuple[str, str],
    ) -> Transition:
        guard = self._guards[index]
        return Transition(guard.kind or guard.name, time, *states, energy, guard.part, *constraint_modes)

    def _start_anew(self) -> None:
        """Clear the memory of stepper and stabilizer after an event; recompute the accelerations, the constraint forces
        and the guard values.
        """
        w = self._w
        for array in (w.stepper_memory, w.stabilizer_memory, w.U):
            array[:] = 0.0
        self._accelerate()
        self._read_guards()

    def _next_values(self, held: np.ndarray) -> np.ndarray:
        """Guard values (n_guards,) at the start of the next step: the present values, with two exceptions.

        A Crossing fires when its guard value, the distance of a point from a level, changes sign between two steps. The
        exceptions are:

        1. The value of an active Crossing changed sign in this step, but the Crossing has not fired. The returned value
           has the sign from before this step. The Crossing can thus fire in the next step.
        2. An event has released a constraint that a Crossing engages, while the Crossing's point is at its level. The
           returned value is 0, so that the point must leave the level before the Crossing can fire again.

        held  (n_switched,) mask of the constraints that held before the events
        """
        values = self._w.guards.copy()
        waits = self._switching.watched() & self._crossed() & ~self._past()
        values[waits] = np.copysign(AT_LEVEL, self._before[waits])
        let_go = (self._switching.engages & held & ~self._switching.active).any(axis=1)
        values[let_go & self._switching.at_level(values)] = 0.0
        return np.asarray(values)
