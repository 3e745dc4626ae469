"""Simulation: integrates one System from a start state. The methods return copies of the State and its arrays.

sim = Simulation(assemble(build("triple_pendulum")), step_s=1e-3)
sim.advance(60.0)
sim.peak_violation()
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from sim_core.arguments import as_count, as_mapping, as_number, as_numbers, as_state
from sim_core.assembly import checked_start
from sim_core.errors import (
    ConstraintGapWarning,
    InvalidRequest,
    ResidualWarning,
    StabilityWarning,
    StartWarning,
    StepTooLargeWarning,
    UnknownName,
)
from sim_core.events.inputs import VelocityInputs
from sim_core.events.step import GuardsRepeat, StepEvents
from sim_core.events.switching import Switching
from sim_core.integrators.ledger import MARKS
from sim_core.integrators.steppers import STEPPERS, Stepper, stepper_named
from sim_core.integrators.workspace import (
    EVENT,
    HISTORY,
    LAW_HOLONOMIC,
    LAW_ROWS,
    MEAN_VELOCITY,
    STOPS_AT_MARKS,
    Calls,
    Workspace,
)
from sim_core.kernels.bound import BoundKernel
from sim_core.kernels.quaternions import quaternions
from sim_core.kernels.stepping import BoundLoop
from sim_core.mechanism.checks.joints import turned_joint
from sim_core.mechanism.quantities import push_names
from sim_core.mechanism.validation import check_bounds, check_tunables, tuned, validate
from sim_core.monitoring.constraint_gaps import ConstraintGaps
from sim_core.monitoring.divergence import WHAT_ENDED, change_point_line, divergence, repetition, too_fast
from sim_core.monitoring.energy_ledger import EnergyLedger
from sim_core.monitoring.impacts import too_fast_impacts
from sim_core.monitoring.modes import FastestMode, StepTooLarge, next_check
from sim_core.monitoring.parameter_history import ParameterHistory
from sim_core.monitoring.passages import LOOK, Passages
from sim_core.monitoring.prescribed_motions import MOST, PrescribedMotions
from sim_core.monitoring.readings import Readings
from sim_core.monitoring.thresholds import PivotThresholds
from sim_core.stabilization.registry import stabilizer_named
from sim_core.stabilization.stabilizers import Stabilizer, instability
from sim_core.start import FAR, FAR_GIVEN, missed_line
from sim_core.state import Notice, State, Transition
from sim_core.support.notebook import simulation_html
from sim_core.support.shown import shown
from sim_core.system import System

NEVER = 2**63 - 1  # a tick that no run reaches
MOST_RESIDUAL, ROUNDED = 1e-6, 1e-9  # relative residuals of J a = gamma: a warning above the first; a good solve's
NOT_PUSHABLE = "; a body that can be pushed is listed in the mechanism's `pushable`"
PAST = 32  # states before an energy error in which its cause is looked for
LAST_TICK = 2**53  # largest tick that a float64 holds exactly
LEAST_STEP, LARGEST_STEP = 1e-12, 1e6  # permitted step sizes, s


class Simulation:
    """A simulation of one System with one stepper and one stabilizer.

    step_s      length of a tick, s; for a stepper with a fixed step size, this is the step size
    stepper     integration method: a name or a Stepper
    stabilizer  constraint stabilization: a name or a Stabilizer; InvalidRequest is raised for a stepper and a
                stabilizer that cannot work together
    parameters  {name of a tunable: value}, with values within the tunables' bounds
    assemble_start  whether to replace the start state (that of the mechanism or that given to `reset`) by the nearest
                    state that satisfies the constraints
    readings    `Readings` object, which reads joint states, energy, outputs and violations in one fast call
    energy_ledger  energy at the reset, work since the reset, and error of the energy balance
    notices     problems that were found during the run and not yet taken by `take_notices`
    placed      (7 n_bodies,) positions (3 n) and quaternions (4 n) of the n bodies at the last call of the kernel
                `place`
    Warns with StabilityWarning if the stabilizer's gains, or a beam's fastest mode, are unstable at this step size;
    with StepTooLargeWarning if the step size is too large for a mode, at the start or later in the run; with
    StartWarning if the start violates the constraints.
    """

    def __init__(
        self,
        system: System,
        *,
        step_s: float = 1e-3,
        stepper: str | Stepper = "rk4",
        stabilizer: str | Stabilizer = "sampled_fuzzy",
        parameters: Mapping[str, float] | None = None,
        assemble_start: bool = False,
    ) -> None:
        if not isinstance(system, System):
            raise InvalidRequest(
                f"the system is a {type(system).__name__}, not a System; pass the result of assemble(mechanism)"
            )
        self._owner = f"robot {system.mechanism.name!r}"
        if not isinstance(assemble_start, bool | np.bool_):
            raise InvalidRequest(f"{self._owner}: assemble_start is {shown(assemble_start)}; it must be True or False")
        self.system, self.step_s = system, as_number(self._owner, "step_s", step_s)
        if not LEAST_STEP <= self.step_s <= LARGEST_STEP:
            raise InvalidRequest(
                f"step_s is {shown(step_s)}; it must be a positive number of seconds, from {LEAST_STEP:g} to "
                f"{LARGEST_STEP:g}"
            )
        self.stepper = stepper_named(stepper) if isinstance(stepper, str) else stepper
        self.stabilizer = stabilizer_named(stabilizer) if isinstance(stabilizer, str) else stabilizer
        for name, part, kind in (("stepper", self.stepper, Stepper), ("stabilizer", self.stabilizer, Stabilizer)):
            if not isinstance(part, kind):
                raise InvalidRequest(f"{name} is {shown(part)}; it must be a name or a {kind.__name__}")
        if system.mechanism.oriented_joints and self.stepper.spans_steps:
            names = ", ".join(each.name for each in STEPPERS.values() if not each.spans_steps)
            joint = system.mechanism.oriented_joints[0]
            raise InvalidRequest(
                f"stepper {self.stepper.name!r} uses data of earlier time steps, but the coordinates of joint "
                f"{joint.name!r} ({joint.kind}) are redefined after each time step; use one of {names}"
            )
        self._unstable = instability(self.stabilizer, self.stepper, self.step_s)
        if self._unstable:
            warnings.warn(self._unstable, StabilityWarning, stacklevel=2)
        if fast := too_fast(system.mechanism.beams, self.stepper, self.step_s):
            warnings.warn(f"{fast}; step_s is {1e3 * self.step_s:.3g} ms", StabilityWarning, stacklevel=2)
        length = system.mechanism.characteristic_length
        gains = self.stabilizer.gains(self.step_s, self.stepper, length)
        memory = self.stabilizer.memory * system.max_rows
        self._w = Workspace(system, self.stepper.stages, gains, memory, self.stepper.memory_size(system.n_q))
        self._calls = Calls(system, self._w)
        self.energy_ledger = EnergyLedger(system, self._w)
        self._law = self._law_row()
        given = self._w.memory, self._calls.table, self._law, *self.stepper.arguments(system.n_q)
        self._loop = BoundLoop(self.stepper.loop(), self.step_s, given)
        self._bind_readings()
        self._parameters = np.array([tunable.value for tunable in system.mechanism.tunables], dtype=float)
        self._parameters = self._with_parameters(parameters or {})
        self._motions = PrescribedMotions(system, self.step_s, self.stepper.adaptive)
        self._velocity_inputs = VelocityInputs(system, self._w)
        keeps = self.stepper.restarts or self.stepper.acceleration is not None
        self._must_follow = self._velocity_inputs.are_there or keeps  # whether a jump of inputs changes more than them
        self._passages = Passages(system, self._w, self.step_s)
        self._transitions: list[Transition] = []
        self.notices: list[Notice] = []
        self._switching = Switching(system, self._w)
        self._thresholds = PivotThresholds(system, self._w)
        self._thresholds.tune(self._parameters)
        # an implicit method with a fixed step size is stable at every step size, so that no mode is too fast for it
        self._checks_modes = self.stepper.is_explicit and not fast
        self._fastest = FastestMode(system, self._w, self.stepper, self.step_s)
        self._too_large: StepTooLarge | None = None
        self._too_fast_impact = ""  # first warning about an impact that the step does not resolve
        self._w.memory.scalars[STOPS_AT_MARKS] = not self.stepper.adaptive
        self._w.memory.scalars[MEAN_VELOCITY] = self.stepper.order == 1
        self._events = StepEvents(self._switching, self._w, self.step_s, self.energy)
        self._parameter_history = ParameterHistory()
        self._gaps = ConstraintGaps(system, self._w)
        self._assemble_start, self._warned_of_residual = assemble_start, False
        self._check_start(FAR, stacklevel=4)
        self.reset()
        self._warn_of_missed(stacklevel=3)
        self._check_modes(stacklevel=4)
        for line in too_fast_impacts(system, self.stepper, self.step_s, self._start[0]):
            self._too_fast_impact = self._too_fast_impact or line
            warnings.warn(line, StepTooLargeWarning, stacklevel=2)

    def _bind_readings(self) -> None:
        system, w, n_bodies = self.system, self._w, len(self.system.mechanism.bodies)
        self.readings = Readings(system, w, int(self._law[LAW_HOLONOMIC]), int(self._law[LAW_ROWS]))
        limits = [np.inf if a.effort_limit is None else a.effort_limit for a in system.mechanism.actuators]
        self._effort_limit, self._least_effort = np.array(limits, dtype=float), -np.array(limits, dtype=float)
        self.placed, R = np.zeros(7 * n_bodies), np.zeros(9 * n_bodies)
        p, quaternion = np.split(self.placed, [3 * n_bodies])
        poses = system.bind("poses", [w.t, w.q, w.v, w.u, w.p], [p, R])
        turned = BoundKernel(quaternions.address, [np.array([float(n_bodies)]), R], [quaternion])
        self.place = BoundKernel.in_turn([poses, turned])

    def _law_row(self) -> np.ndarray:
        rows, w = self.system.constraint_modes[0], self._w
        pointers = [array.ctypes.data for array in (w.phi, w.phidot, w.gains, w.stabilizer_memory, w.U)]
        row = [
            self.stabilizer.law_address(),
            *pointers,
            rows.n_holonomic,
            rows.n_rows,
            *self.stabilizer.correction_mode(),
        ]
        return np.array(row, dtype=np.int64)

    def _repr_html_(self) -> str:
        """HTML of the simulation that a notebook displays."""
        return simulation_html(self)

    # -- time ---------------------------------------------------------------------------------------------------------

    @property
    def tick(self) -> int:
        """Number of time steps taken since the reset."""
        return self._tick

    @property
    def time(self) -> float:
        """Simulation time, s."""
        return self._tick * self.step_s

    def step(self, n: int = 1) -> None:
        """Take n time steps. Raises SimulationDiverged if the run diverges, after writing the last states to a file.

        Raises InvalidRequest unless n is a whole number, at least 0.
        """
        left = as_count(self._owner, "n", n, LAST_TICK)
        if left and self._next_check <= self._tick:
            self._check_modes(stacklevel=4)
        while left > 0:
            whole = min(left, self._next_check - self._tick)
            if self._passages.are_there:
                whole = min(whole, LOOK - self._tick % LOOK)
            if self._motions.are_there:
                whole = self._check_motions(whole, stacklevel=4)
            status, taken, guard = self._loop(whole, self._tick)
            self._tick += taken
            left -= taken
            if status == EVENT and guard >= 0:
                self._change_constraint_mode(stacklevel=4)
            if self._w.ledger.item(MARKS) > self._marks_noted:
                self._note_departures(stacklevel=4)
            if status in WHAT_ENDED:
                self._diverged(status)
            self._check_residual(stacklevel=4)
            if self._tick == self._next_check:
                self._check_modes(stacklevel=4)
            if self._passages.are_there and self._tick % LOOK == 0:
                self._look_for_passages(stacklevel=4)

    def _look_for_passages(self, stacklevel: int) -> None:
        """Warn of bodies that passed through a shape of finite thickness since the last look."""
        for line in self._passages.look(self._tick):
            self.notices.append(Notice("step_too_large", self.time, line))
            warnings.warn(line, StepTooLargeWarning, stacklevel=stacklevel)

    def _check_residual(self, stacklevel: int) -> None:
        """Warn if the accelerations a do not satisfy the constraint equations J a = gamma - U; U is the stabilization.

        There is at most one warning per run.
        """
        if self._warned_of_residual or not self._w.peak_residual[0] > MOST_RESIDUAL:
            return
        self._warned_of_residual = True
        line = (
            f"{self.system.mechanism.name!r} at t = {self.time:.6g} s: accelerations miss J a = gamma by "
            f"{self._w.peak_residual[0]:.1e} of its terms, and rounding explains only {ROUNDED:.0e}; its constraints "
            "contradict each other, lose rank at a change point, or connect bodies of too different mass"
        )
        warnings.warn(line, ResidualWarning, stacklevel=stacklevel)

    # -- energy -------------------------------------------------------------------------------------------------------

    def _begin_ledger(self) -> None:
        """Restart the energy ledger from the current energy."""
        ledger = self._w.ledger
        ledger[:] = 0.0
        self.energy_ledger.begin()
        self._marks_noted = 0

    def _note_departures(self, stacklevel: int) -> None:
        """Append a notice for each energy error that was recorded since the previous call."""
        marks = int(self._w.ledger[MARKS])
        cause = self._cause(self._history()[-PAST - 1 : -1], stacklevel + 1)
        more = f"; {cause}" if cause else ""
        for time, line in self.energy_ledger.lines(self._marks_noted, marks):
            how = f"with {self.stepper.name} and {self.stabilizer.called} at {1e3 * self.step_s:.4g} ms"
            self.notices.append(Notice("energy_departure", time, f"{line} {how}{more}"))
        self._marks_noted = marks

    def _check_modes(self, stacklevel: int) -> None:
        """Check whether the step size is too large for a vibration mode, and schedule the next check.

        There is at most one warning per run.
        """
        self._schedule_mode_check()
        if not self._checks_modes or self._too_large is not None:
            return
        self._too_large = self._fastest.check()
        if self._too_large is None and self._tick <= 1:
            self._too_large = self._fastest.check(at_rest=True)
        self._note_too_large(self._too_large, stacklevel + 1)

    def _note_too_large(self, found: StepTooLarge | None, stacklevel: int) -> None:
        self._too_large = found
        if found is not None:
            warnings.warn(found.line, StepTooLargeWarning, stacklevel=stacklevel)
            self.notices.append(Notice("step_too_large", self.time, found.line))
            self._schedule_mode_check()

    def _check_motions(self, steps: int, stacklevel: int) -> int:
        """Warn of prescribed motions that are too fast for the step size in the next steps.

        Returns the number of steps that were checked and can be taken now, at most `steps`.
        """
        steps = steps if self.stepper.adaptive else min(steps, MOST)
        for line in self._motions.check(self._tick, steps, self._switching.idle):
            warnings.warn(line, StepTooLargeWarning, stacklevel=stacklevel)
            self.notices.append(Notice("step_too_large", self.time, line))
        return steps

    def _schedule_mode_check(self) -> None:
        looks = self._checks_modes and self._too_large is None
        self._next_check = next_check(self._tick) if looks else NEVER

    @property
    def step_too_large(self) -> StepTooLarge | None:
        """Result of the check that found the step size too large for a mode; None if every check has passed.

        The step size is checked at ticks that are powers of four up to 65536, then at every multiple of 65536, and
        after each change of parameters. Implicit steppers, which are stable at every step size, and steppers with error
        control are not checked. When a large energy error is found or a run diverges, the step size is also checked at
        the preceding states, for all steppers with a fixed step size.
        """
        return self._too_large

    @step_too_large.setter
    def step_too_large(self, found: StepTooLarge | None) -> None:
        """Set the result of an earlier check of the step size, for example after restoring a snapshot.

        found  the result; its problem is not reported again. None if the check has passed
        """
        self._too_large = found
        self._schedule_mode_check()

    def warm_up(self) -> None:
        """Compile or load the stepping loop, so that the first time step runs as fast as later ones.

        The state does not change.
        """
        with self._loop.loading(f"the loop of {self.stepper.name!r}"):
            self._loop(0, self._tick)

    def advance(self, seconds: float) -> None:
        """Advance by `seconds`, which must be a whole number of time steps to within a thousandth of the step size."""
        steps = as_number(self._owner, "seconds", seconds) / self.step_s
        if not 0 <= steps <= LAST_TICK or abs(steps - round(steps)) > 1e-3:
            raise InvalidRequest(f"seconds is {seconds}; it must be a whole number of time steps of {self.step_s} s")
        self.step(round(steps))

    def _diverged(self, status: int) -> None:
        recent = self._parameter_history.recent(self.time)
        states = self._history()
        how = self.stepper, self.step_s, self.stabilizer.called, recent, self._cause(states, stacklevel=5)
        raise divergence(status, self.time, states, self.system, self._switching.idle, *how)

    def _cause(self, states: np.ndarray, stacklevel: int) -> str:
        """Text about the cause of a divergence or of an energy error; "" if no cause is found.

        If the step size turns out to be too large for a mode in the given states, `step_too_large` is set.

        states  (n, 1 + 2 n_q) latest states, one row t, q, v per time step
        """
        if cause := self._unstable or self._motions.explanation():
            return cause
        time, names = self._thresholds.weak(states)
        if self._too_large is None and not self.stepper.adaptive:
            past = states[states[:, 0] < time]
            self._note_too_large(self._fastest.check_past(past, departed=not names), stacklevel + 1)
        if self._too_large is not None:
            return self._too_large.line
        return change_point_line(names, time, self.stepper, self.stabilizer) if names else self._too_fast_impact

    def _history(self) -> np.ndarray:
        rows = [tick % HISTORY for tick in range(max(self._tick + 1 - HISTORY, 0), self._tick + 1)]
        return self._w.history[rows].copy()

    # -- constraint modes -----------------------------------------------------------------------------------------

    @property
    def constraint_mode(self) -> str:
        """Name of the current constraint mode.

        If the set of constraints that hold has no name, the result lists the names of the switched constraints that
        hold.
        """
        return self._switching.name

    @property
    def holding(self) -> tuple[str, ...]:
        """Names of the switched constraints that hold now, in the order of the description."""
        return self._switching.holding

    def _change_constraint_mode(self, stacklevel: int) -> None:
        before, held, v = self.energy(), self._switching.active, self.velocities
        try:
            self._transitions += self._events.apply(self.time)
        except GuardsRepeat as error:
            raise repetition(error.names, self.time, self._history(), self.system) from None
        self.energy_ledger.book(self.energy() - before)
        self._thresholds.select(self._switching.constraint_mode)
        engaged = self._switching.named(~held & self._switching.active)
        self._note_gap(self._gaps.of_guards(engaged, v, self.step_s), stacklevel + 1)

    def _note_gap(self, line: str, stacklevel: int) -> None:
        """Warn of constraints that do not hold, by a line that names them; "" if there are none."""
        if line:
            self.notices.append(Notice("constraint_gap", self.time, line))
            warnings.warn(line, ConstraintGapWarning, stacklevel=stacklevel)

    def take_notices(self) -> list[Notice]:
        """Return the problems found since the last call, oldest first, and clear the list."""
        taken, self.notices = self.notices, []
        return taken

    def take_events(self) -> list[Transition]:
        """Return the changes of the constraint mode since the last call, oldest first, and clear the list."""
        taken, self._transitions = self._transitions, []
        return taken

    # -- state --------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """A copy of the complete state; the same as `snapshot()`."""
        return self.snapshot()

    @property
    def coordinates(self) -> np.ndarray:
        """A copy of the coordinates q (n_q,)."""
        return np.array(self._w.q)

    @property
    def velocities(self) -> np.ndarray:
        """A copy of the velocities v (n_q,)."""
        return np.array(self._w.v)

    def snapshot(self) -> State:
        """A copy of the complete state: everything that determines the rest of the run."""
        w = self._w
        arrays = [w.q, w.v, w.u, w.p, w.U]
        q, v, u, p, U = (array.copy() for array in arrays)
        rest = [w.turns, w.peaks, w.stepper_memory, w.stabilizer_memory, w.guards_before, w.ledger]
        return State(self._tick, q, v, u, p, U, self._switching.constraint_mode, *[array.copy() for array in rest])

    def restore(self, state: State) -> None:
        """Continue from a snapshot of this simulation, or of another simulation of the same system.

        Warns of a state that violates the constraints, and adds a notice. Raises InvalidRequest, without changing the
        state, for a snapshot with wrong sizes or values.
        """
        w = self._w
        if not isinstance(state, State):
            raise InvalidRequest(f"state is {shown(state)}; it must be a State, such as that of snapshot()")
        names = ("q", "v", "u", "p", "U", "turns", "peaks", "stepper_memory", "stabilizer_memory")
        pairs = {name: getattr(w, name) for name in names} | {"guards": w.guards_before}
        given = {name: as_numbers("state", name, getattr(state, name)) for name in pairs}
        if given["stepper_memory"].size == 0:
            given["stepper_memory"] = np.zeros_like(w.stepper_memory)  # saved by a stepper without memory
        given["ledger"] = as_numbers("state", "ledger", state.ledger)
        begins = given["ledger"].size == 0
        pairs["ledger"] = w.ledger
        if begins:
            given["ledger"] = np.zeros_like(w.ledger)
        knows_guards = given["guards"].size > 0 or not w.guards_before.size
        if not knows_guards:
            given["guards"] = np.zeros_like(w.guards_before)
        for name, array in pairs.items():
            if given[name].shape != array.shape:
                raise InvalidRequest(
                    f"state has {given[name].size} entries in {name}; {self.system.mechanism.name!r} has {array.size}"
                )
        for name in ("q", "v"):
            as_state("state", name, given[name])
        limits = zip(self.system.mechanism.actuators, self._effort_limit.tolist(), given["u"].tolist(), strict=True)
        for actuator, limit, effort in limits:
            if abs(effort) > limit:
                raise InvalidRequest(
                    f"state: the effort of actuator {actuator.name!r} is {effort:g}; its effort_limit is {limit:g}"
                )
        tick = as_count("state", "tick", state.tick, LAST_TICK)
        constraint_mode = int(as_number("state", "constraint_mode", state.constraint_mode))
        check_tunables(self.system.mechanism, given["p"].tolist())
        self._switching.check(constraint_mode, given["p"])
        for name, array in pairs.items():
            array[:] = given[name]
        self._parameters = w.p[: len(self._parameters)].copy()
        self._tick = tick
        self._schedule_mode_check()
        self._motions.begin(tick)
        self._switching.enter(constraint_mode)
        self._thresholds.tune(self._parameters)
        self._thresholds.select(constraint_mode)
        self._parameter_history.clear()
        self._refresh()
        self._passages.begin(tick)
        if knows_guards:
            w.guards_before[:] = given["guards"]
        if begins:
            self._begin_ledger()
        self._marks_noted = int(w.ledger[MARKS])
        self._note_gap(self._gaps.of_state(self.violation()[0]), stacklevel=3)

    def reset(self, q: Any = None, v: Any = None) -> None:
        """Go back to tick 0, to the mechanism's start state or to the given q and v; tunables keep their values.

        The given q and v are checked like the mechanism's start state, but larger constraint violations are permitted.
        Raises InvalidRequest if q turns a spherical or free joint, whose orientation at the start is its `quaternion`.
        """
        if q is not None and (turned := turned_joint(self.system.mechanism, as_state(self._owner, "q", q).tolist())):
            raise InvalidRequest(f"q: {turned}")
        self._reset(q, v, stacklevel=4)

    def begin_at(self, q: Any, v: Any) -> None:
        """Like `reset`, for q with rotation coordinates s of spherical and free joints (NOTATION.md), and v = dq/dt."""
        self._reset(q, v, stacklevel=4)

    def _reset(self, q: Any, v: Any, stacklevel: int) -> None:
        mechanism, w = self.system.mechanism, self._w
        if q is None and v is None and not np.array_equal(self._parameters, self._of_start):
            self._check_start(FAR_GIVEN, stacklevel=4)
        start = {
            "q": self._start[0] if q is None else as_state(mechanism.name, "q", q),
            "v": self._start[1] if v is None else as_state(mechanism.name, "v", v),
        }
        for name, values in start.items():
            start[name] = values = self.system.with_states(name, values)
            if len(values) != self.system.n_q:
                takes = f"{mechanism.name!r} takes {self.system.n_q}{self.system.size_hint(len(values))}"
                raise InvalidRequest(f"{name} has {len(values)} entries; {takes}")
        if q is not None or v is not None:
            start["q"], start["v"] = self._checked(start["q"], start["v"], FAR_GIVEN, stacklevel)
        w.q[:], w.v[:] = start["q"], start["v"]
        w.u[:] = self.system.start_inputs
        for array in (w.U, w.lam, w.turns, w.peaks, w.stepper_memory, w.stabilizer_memory, w.history, w.evaluations):
            array[:] = 0.0
        w.substepped[:] = w.peak_residual[:] = 0.0
        self._warned_of_residual = False
        w.p[:] = self.system.default_parameters()
        w.p[: len(self._parameters)] = self._parameters
        if system_rebases := self.system.addresses.get("rebase"):
            BoundKernel(system_rebases, [w.t, w.q, w.v, w.u, w.p], [w.q, w.v, w.p])()
        self._tick = 0
        self._too_large = None
        self._schedule_mode_check()
        self._switching.enter(mechanism.start_constraint_mode)
        self._thresholds.select(mechanism.start_constraint_mode)
        self._transitions = []
        self.notices = []
        self._gaps.begin()
        self._motions.begin(0)
        self._parameter_history.clear()
        self._refresh()
        self._passages.begin(0)
        self._begin_ledger()
        self._w.peaks[:] = self.violation()
        if q is not None or v is not None:
            self._warn_of_missed(stacklevel)

    def _check_start(self, share: float, stacklevel: int) -> None:
        """Check the mechanism's start with the current parameters; `share` is that of `_checked`."""
        q, v = np.array(self.system.mechanism.initial_q), np.array(self.system.mechanism.initial_v)
        self._start = self._checked(q, v, share, stacklevel)
        self._of_start = self._parameters.copy()

    def _checked(self, q: np.ndarray, v: np.ndarray, share: float, stacklevel: int) -> tuple[np.ndarray, np.ndarray]:
        """A start (q, v) after the checks of `checked_start`, moved onto the constraints if `assemble_start`.

        share  permitted violation of the constraints, as a fraction of the characteristic length
        """
        p = self.system.default_parameters()
        p[: len(self._parameters)] = self._parameters
        return checked_start(self.system, q, v, p, self._assemble_start, share, stacklevel)

    def _warn_of_missed(self, stacklevel: int) -> None:
        if missed := self._events.missed():
            warnings.warn(missed_line(self.system.mechanism, missed), StartWarning, stacklevel=stacklevel)

    def _refresh(self) -> None:
        """Recompute the joint angles that are wrapped to [-pi, pi], and the guard values, from the state."""
        w = self._w
        w.t[0] = self.time
        self.system.bind("wrapping", [w.t, w.q, w.v, w.u, w.p], [w.angles])()
        self._switching.watch_anew()

    # -- inputs -------------------------------------------------------------------------------------------------------

    def set_effort(self, effort: Any) -> None:
        """Set the actuator efforts (N or N m), constant until the next call: an array (n_u,), or {actuator: effort}.

        Efforts are clipped to each actuator's limit. Non-finite efforts raise InvalidRequest.
        """
        if isinstance(effort, Mapping):
            values = self._w.u.copy()
            names = [actuator.name for actuator in self.system.mechanism.actuators]
            for name, value in effort.items():
                if name not in names:
                    raise UnknownName(f"robot {self.system.mechanism.name!r}", "actuator", name, names)
                values[names.index(name)] = as_number(self._owner, f"effort of {name}", value)
        else:
            values = as_numbers(self.system.mechanism.name, "effort", effort)
            if values.size != (n_u := self.system.n_u):
                raise InvalidRequest(
                    f"effort has {values.size} entries; give one for each of the {n_u} actuators of "
                    f"{self.system.mechanism.name!r}"
                )
        self._change(self._w.u, np.minimum(np.maximum(values, self._least_effort), self._effort_limit))

    def drive(self, effort: np.ndarray) -> None:
        """Set the actuator efforts (n_u,) without the checks of `set_effort`; they must be finite and within limits."""
        self._change(self._w.u, effort)

    @property
    def driven(self) -> np.ndarray | None:
        """The array (n_u,) of efforts that the kernels read. Writing to it has the same effect as a call of `drive`.

        None if a change of effort changes the velocities or the memory of the stepper, which only `drive` does.
        """
        return None if self._must_follow else self._w.u

    def set_parameters(self, parameters: Mapping[str, float]) -> None:
        """Set tunables, {name: value}, from the next time step on.

        Raises UnknownName for an unknown name, and InvalidRequest for a value that is outside its bounds or makes the
        description invalid.
        """
        w, energy = self._w, self.energy()
        phi = self.system.residual(self.time, w.q, w.v, w.p)[0]
        before, self._parameters = self.parameters, self._with_parameters(parameters)
        self._parameter_history.record(self.time, before, self.parameters)
        self._change(w.p[: len(self._parameters)], self._parameters)
        self._note_gap(self._gaps.of_parameters(phi), stacklevel=3)
        self._thresholds.tune(self._parameters)
        self._thresholds.select(self._switching.constraint_mode)
        self.energy_ledger.book(self.energy() - energy)
        self._next_check = min(self._next_check, self._tick)  # checked before the next step

    def push(self, body: str, force: Any, point: Any = (0.0, 0.0, 0.0)) -> None:
        """Set the external force on a body, which acts from the next time step on until it is set again; zero ends it.

        force  (3,) force along the world axes, N
        point  (3,) point of the body at which the force acts, in the body's frame, m
        The force is part of the State, and a reset ends it. Raises UnknownName if the body is not in the mechanism's
        `pushable`, and InvalidRequest if `force` or `point` is not three finite numbers.
        """
        mechanism = self.system.mechanism
        if body not in mechanism.pushable:
            raise UnknownName(f"robot {mechanism.name!r}", "pushable body", body, mechanism.pushable, NOT_PUSHABLE)
        values = np.zeros(0)
        for name, vector in (("force", force), ("point", point)):
            array = as_state(mechanism.name, f"{name} of the push on {body}", vector)
            if array.size != 3:
                raise InvalidRequest(f"{name} of a push has {array.size} entries; it must have 3")
            values = np.concatenate([values, array])
        first = self.system.parameter_names.index(push_names(body)[0])
        self._change(self._w.p[first : first + len(values)], values)

    @property
    def pushes(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """{body: (force (3,) in N, point (3,) in m)} of the external forces that are not zero."""
        found = {}
        for body in self.system.mechanism.pushable:
            first = self.system.parameter_names.index(push_names(body)[0])
            force, point = self._w.p[first : first + 3].copy(), self._w.p[first + 3 : first + 6].copy()
            if force.any():
                found[body] = force, point
        return found

    def _change(self, array: np.ndarray, values: np.ndarray) -> None:
        """Write new values to an input array; prescribed velocities and the memory of the stepper follow a jump."""
        if not self._must_follow:
            array[:] = values
        elif not np.array_equal(array, values):
            w, first = self._w, self.stepper.acceleration
            inputs = w.u.copy()
            before = self._acceleration() if first is not None else w.a
            array[:] = values
            self._follow_inputs(inputs, stacklevel=4)
            if first is not None:
                w.stepper_memory[first : first + w.a.size] += self._acceleration() - before
            elif self.stepper.restarts:
                w.stepper_memory[:] = 0.0

    def _acceleration(self) -> np.ndarray:
        w = self._w
        return self.system.acceleration(self.time, w.q, w.v, w.u, w.p, w.U)[0]

    def _follow_inputs(self, before: np.ndarray, stacklevel: int) -> None:
        """Change the velocities by the impulses of changed inputs, and record the work of these impulses.

        before  (n_u,) inputs before the change
        """
        if np.array_equal(before, self._w.u) or not self._velocity_inputs.are_there:
            return
        energy = self.energy()
        missed = self._velocity_inputs.follow(before)
        self.energy_ledger.add_work(self.energy() - energy)
        self._note_gap(self._gaps.of_commands(missed), stacklevel + 1)

    @property
    def parameters(self) -> dict[str, float]:
        """{tunable: current value}."""
        return dict(zip(self.system.tunable_names, self._parameters.tolist(), strict=True))

    def _with_parameters(self, parameters: Mapping[str, float]) -> np.ndarray:
        names, values = self.system.tunable_names, self._parameters.copy()
        for name, given in as_mapping(self._owner, "parameters", parameters).items():
            if name not in names:
                raise UnknownName(f"robot {self.system.mechanism.name!r}", "tunable parameter", name, names)
            value, place = as_number(self._owner, name, given), names.index(name)
            check_bounds(f"robot {self.system.mechanism.name!r}", self.system.mechanism.tunables[place], value)
            values[place] = value
        if parameters:  # `assemble` has checked the mechanism with its own values
            validate(tuned(self.system.mechanism, dict(zip(names, values.tolist(), strict=True))))
        return values

    # -- readings -----------------------------------------------------------------------------------------------------

    @property
    def evaluations(self) -> int:
        """Number of evaluations of the right-hand side since the reset; `restore` does not change it."""
        return int(self._w.evaluations[0])

    def solve_residual(self) -> float:
        """Relative residual of the constraint equations J a = gamma - U in the current state.

        The residual is the largest |J a + U - gamma| of any row, divided by the largest |J| (|a| + 1) + |U| + |gamma|
        of any row. U is the constraint stabilization. Rounding errors cause about 1e-9; a much larger residual means
        that the solve failed.
        """
        w = self._w
        a = self.system.acceleration(self.time, w.q, w.v, w.u, w.p, w.U)[0]
        return self.system.solve_residual(self.time, w.q, w.v, a, w.p, w.U)

    def peak_solve_residual(self) -> float:
        """The largest `solve_residual` since the reset, sampled at every 16th time step."""
        return float(self._w.peak_residual[0])

    @property
    def substeps(self) -> int:
        """Number of substeps since the reset; 0 if no time step was divided.

        Explicit Runge-Kutta steppers with a fixed step size divide a time step into substeps near a change point, a
        configuration in which the constraint rows lose rank.
        """
        return int(self._w.substepped[0])

    def violation(self) -> tuple[float, float]:
        """1-norms |Phi|_1 and |Phidot|_1 of the constraint violations and their rates in the current state.

        The rows are not scaled, so that the sums mix units: m and m/s for rows that are lengths, 1 and 1/s for rows
        that are angles or ratios.
        """
        return self.readings.violation()

    def peak_violation(self) -> tuple[float, float]:
        """Largest |Phi|_1 and largest |Phidot|_1 (see `violation`) over all time steps since the reset."""
        return float(self._w.peaks[0]), float(self._w.peaks[1])

    def energy(self) -> float:
        """Kinetic plus potential energy, J."""
        return self.readings.energy()

    def outputs(self) -> dict[str, float]:
        """{output: value} of the mechanism's named outputs; angles are unwrapped."""
        return self.readings.outputs()

    def joints(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Positions (relative to the parents, unwrapped), velocities and applied efforts of the declared joints.

        The three results are arrays (n_joints,), in the order of the joints.
        """
        return *self.readings.motion(), self.readings.effort()

    def frames(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """{joint: (pose (7,), twist (6,))} of the spherical and free joints, and of planar joints in joint coordinates.

        pose   position (3,), m, of the child's joint point relative to the parent's joint point, along the parent's
               axes, then the quaternion w x y z (4,) of the child's axes relative to the parent's axes
        twist  linear velocity (3,), m/s, along the parent's axes, then the angular velocity (3,), rad/s, in the
               child's axes
        """
        names = [joint.name for joint in self.system.mechanism.posed_joints]
        return dict(zip(names, zip(*self.readings.frames(), strict=True), strict=True))

    def poses(self) -> tuple[np.ndarray, np.ndarray]:
        """World positions (n, 3), m, and quaternions (n, 4), w x y z, of all n bodies."""
        self.place()
        p, quaternion = np.split(self.placed.copy(), [3 * (len(self.placed) // 7)])
        return p.reshape(-1, 3), quaternion.reshape(-1, 4)

    def multipliers(self) -> np.ndarray:
        """Lagrange multipliers lam (n_r,) of M a + J' lam = f in the current state.

        The multipliers include the effect of the constraint stabilization U of the last time step.
        """
        w = self._w
        return self.system.acceleration(self.time, w.q, w.v, w.u, w.p, w.U)[1]
