"""Checks of a running simulation: warnings and notices of what it does not resolve, and the causes of its errors."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Sequence

import numpy as np

from sim_core.errors import ConstraintGapWarning, ResidualWarning, SimulationDiverged, StepTooLargeWarning
from sim_core.events.switching import Switching
from sim_core.integrators.ledger import MARKS
from sim_core.integrators.steppers import Stepper
from sim_core.integrators.workspace import HISTORY, Workspace
from sim_core.monitoring.constraint_gaps import ConstraintGaps
from sim_core.monitoring.divergence import change_point_line, divergence, repetition
from sim_core.monitoring.energy_ledger import EnergyLedger
from sim_core.monitoring.impacts import too_fast_impacts
from sim_core.monitoring.modes import FastestMode, StepTooLarge, next_check
from sim_core.monitoring.parameter_history import ParameterHistory
from sim_core.monitoring.passages import LOOK, Passages
from sim_core.monitoring.prescribed_motions import MOST, PrescribedMotions
from sim_core.monitoring.thresholds import PivotThresholds
from sim_core.simulation.readout import Readout
from sim_core.stabilization.stabilizers import Stabilizer
from sim_core.state import Notice, Transition

NEVER = 2**63 - 1  # a tick that no run reaches
MOST_RESIDUAL, ROUNDED = 1e-6, 1e-9  # relative residuals of J a = gamma: a warning above the first; a good solve's
FIRINGS, CLOSE = 10, 100  # of one kind of guard within so many steps: a warning
PAST = 32  # states before an energy error in which its cause is looked for


class Checks:
    """Checks of one simulation. What they find is a warning and, if it concerns the run, a notice.

    notices           problems found and not yet taken
    changed           recent changes of the tunables
    gaps              looks for constraints that do not hold
    thresholds        pivots below which constraint rows are about to lose rank
    too_large         result of the check that found the step size too large for a mode
    Methods that may warn take the stack level of the warning, as seen from their caller.
    """

    def __init__(
        self,
        run: Readout,
        w: Workspace,
        methods: tuple[Stepper, Stabilizer],
        switching: Switching,
        ledger: EnergyLedger,
        unstable: tuple[str, bool],
    ) -> None:
        """unstable  (text about gains of the stabilizer that are unstable, whether a beam is too fast for the step)"""
        system, (self._stepper, self._stabilizer) = run.system, methods
        self._run, self._w, self._system, self._switching, self._ledger = run, w, system, switching, ledger
        self._unstable, too_fast = unstable
        self.notices: list[Notice] = []
        self.changed, self.gaps = ParameterHistory(), ConstraintGaps(system, w)
        self.thresholds = PivotThresholds(system, w)
        self._motions = PrescribedMotions(system, run.step_s, self._stepper.adaptive)
        self._passages = Passages(system, w, run.step_s)
        # an implicit method with a fixed step size is stable at every step size, so that no mode is too fast for it
        self._checks_modes = self._stepper.is_explicit and not too_fast
        self._fastest = FastestMode(system, w, self._stepper, run.step_s)
        self.too_large: StepTooLarge | None = None
        self._too_fast_impact = ""  # first warning about an impact that the step does not resolve
        self._warned_of_residual, self._marks_noted, self._next = False, 0, NEVER
        self._fired: deque[tuple[int, tuple[str, ...]]] = deque(maxlen=CLOSE)  # tick, kind of guard and modes
        self._chatters = False

    def begin(self) -> None:
        """Start anew at the present state of a new run."""
        self._warned_of_residual, self._chatters, self.too_large, self.notices = False, False, None, []
        self.gaps.begin()
        self.go_on()

    def go_on(self) -> None:
        """Go on from the present state, which was reset or restored."""
        self.schedule()
        self._fired.clear()
        self._motions.begin(self._run.tick)
        self.changed.clear()
        self._passages.begin(self._run.tick)
        self._marks_noted = int(self._w.ledger[MARKS])

    def schedule(self, now: bool = False) -> None:
        """Schedule the next check of the modes: before the next step if `now`, otherwise at the next power of 4."""
        looks = self._checks_modes and self.too_large is None
        self._next = min(self._next, self._run.tick) if now else next_check(self._run.tick) if looks else NEVER

    def before(self, tick: int, steps: int, stacklevel: int) -> int:
        """Checks before `steps` steps from `tick`. Returns how many of these can be taken before further checks."""
        if self._next <= tick:
            self.modes(stacklevel + 1)
        steps = min(steps, self._next - tick)
        if self._passages.are_there:
            steps = min(steps, LOOK - tick % LOOK)
        if self._motions.are_there:
            steps = steps if self._stepper.adaptive else min(steps, MOST)
            for line in self._motions.check(tick, steps, self._switching.idle):
                self._note_step(line, stacklevel + 1)
        return steps

    def energy(self, stacklevel: int) -> None:
        """Append a notice for each energy error that was recorded since the previous call."""
        marks = int(self._w.ledger.item(MARKS))
        if marks <= self._marks_noted:
            return
        cause = self._cause(self._history()[-PAST - 1 : -1], stacklevel + 1)
        more = f"; {cause}" if cause else ""
        for time, line in self._ledger.lines(self._marks_noted, marks):
            how = f"with {self._stepper.name} and {self._stabilizer.called} at {1e3 * self._run.step_s:.4g} ms"
            self.notices.append(Notice("energy_departure", time, f"{line} {how}{more}"))
        self._marks_noted = marks

    def after(self, tick: int, stacklevel: int) -> None:
        """Checks after time steps: residual of the constraint equations, modes, passages through thin shapes."""
        if not self._warned_of_residual and self._w.peak_residual[0] > MOST_RESIDUAL:
            self._warned_of_residual = True
            line = (
                f"{self._system.mechanism.name!r} at t = {self._run.time:.6g} s: accelerations miss J a = gamma by "
                f"{self._w.peak_residual[0]:.1e} of its terms, and rounding explains only {ROUNDED:.0e}; its "
                "constraints contradict each other, lose rank at a change point, or connect bodies of too different "
                "mass"
            )
            warnings.warn(line, ResidualWarning, stacklevel=stacklevel + 1)
        if tick == self._next:
            self.modes(stacklevel + 1)
        if self._passages.are_there and tick % LOOK == 0:
            for line in self._passages.look(tick):
                self._note_step(line, stacklevel + 1)

    def modes(self, stacklevel: int) -> None:
        """Check whether the step size is too large for a vibration mode, and schedule the next check.

        There is at most one warning per run.
        """
        self.schedule()
        if not self._checks_modes or self.too_large is not None:
            return
        found = self._fastest.check()
        if found is None and self._run.tick <= 1:
            found = self._fastest.check(at_rest=True)
        self._note_too_large(found, stacklevel + 1)

    def impacts(self, q: np.ndarray, stacklevel: int) -> None:
        """Warn of stops and contacts whose impacts the step size does not resolve, with the inertias at q (n_q,)."""
        for line in too_fast_impacts(self._system, self._stepper, self._run.step_s, q):
            self._too_fast_impact = self._too_fast_impact or line
            warnings.warn(line, StepTooLargeWarning, stacklevel=stacklevel + 1)

    def chatter(self, changes: Sequence[Transition], stacklevel: int) -> None:
        """Warn of a change of the constraint mode that occurs FIRINGS times within CLOSE time steps, once per run.

        changes  at the end of a step
        """
        if self._chatters:
            return
        for change in dict.fromkeys((each.kind, each.source, each.target) for each in changes):
            self._fired.append((self._run.tick, change))
            ticks = [tick for tick, other in self._fired if other == change][-FIRINGS:]
            passed = ticks[-1] - ticks[0]
            if len(ticks) == FIRINGS and passed <= CLOSE:
                self._chatters = True
                step_ms = 1e3 * self._run.step_s
                line = (
                    f"{self._system.mechanism.name!r}: {change[0]!r} occurs {FIRINGS} times within {passed} steps, "
                    f"until t = {self._run.time:.6g} s: constraints hold and let go in turns, and how it goes on "
                    f"depends on the step size, {step_ms:.4g} ms"
                )
                self._note_step(line, stacklevel + 1)
                return

    def gap(self, line: str, stacklevel: int) -> None:
        """Warn of constraints that do not hold, by a line that names them; "" if there are none."""
        if line:
            self.notices.append(Notice("constraint_gap", self._run.time, line))
            warnings.warn(line, ConstraintGapWarning, stacklevel=stacklevel + 1)

    def diverged(self, status: int, stacklevel: int) -> SimulationDiverged:
        """The error of a run that the loop has ended with `status`; the last states are written to a file."""
        states, recent = self._history(), self.changed.recent(self._run.time)
        how = self._stepper, self._run.step_s, self._stabilizer.called, recent, self._cause(states, stacklevel + 1)
        return divergence(status, self._run.time, states, self._system, self._switching.idle, *how)

    def repeated(self, names: Sequence[str]) -> SimulationDiverged:
        """The error of a run in which the guards `names` fire repeatedly in one time step."""
        return repetition(names, self._run.time, self._history(), self._system)

    def _note_step(self, line: str, stacklevel: int) -> None:
        self.notices.append(Notice("step_too_large", self._run.time, line))
        warnings.warn(line, StepTooLargeWarning, stacklevel=stacklevel + 1)

    def _note_too_large(self, found: StepTooLarge | None, stacklevel: int) -> None:
        self.too_large = found
        if found is not None:
            self._note_step(found.line, stacklevel + 1)
            self.schedule()

    def _cause(self, states: np.ndarray, stacklevel: int) -> str:
        """Text about the cause of a divergence or of an energy error; "" if no cause is found.

        If the step size turns out to be too large for a mode in the given states, `too_large` is set.

        states  (n, 1 + 2 n_q) latest states, one row t, q, v per time step
        """
        if cause := self._unstable or self._motions.explanation():
            return cause
        time, names = self.thresholds.weak(states)
        if self.too_large is None and not self._stepper.adaptive:
            past = states[states[:, 0] < time]
            self._note_too_large(self._fastest.check_past(past, departed=not names), stacklevel + 1)
        if self.too_large is not None:
            return self.too_large.line
        return change_point_line(names, time, self._stepper, self._stabilizer) if names else self._too_fast_impact

    def _history(self) -> np.ndarray:
        """(n, 1 + 2 n_q) latest states t, q, v, oldest first."""
        rows = [tick % HISTORY for tick in range(max(self._run.tick + 1 - HISTORY, 0), self._run.tick + 1)]
        return self._w.history[rows].copy()
