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

from sim_core.arguments import as_count, as_number, as_state
from sim_core.assembly import checked_start, with_slipping_wheels
from sim_core.errors import InvalidRequest, StabilityWarning, StartWarning
from sim_core.events.step import GuardsRepeat, StepEvents
from sim_core.events.switching import Switching
from sim_core.integrators.steppers import Stepper, stepper_named
from sim_core.integrators.workspace import EVENT, MEAN_VELOCITY, STOPS_AT_MARKS, Calls, Workspace
from sim_core.kernels.bound import BoundKernel
from sim_core.kernels.stepping import BoundLoop
from sim_core.mechanism.checks.joints import turned_joint
from sim_core.monitoring.divergence import WHAT_ENDED, too_fast
from sim_core.monitoring.energy_ledger import EnergyLedger
from sim_core.monitoring.modes import StepTooLarge
from sim_core.simulation.arguments import LAST_TICK, check_methods, checked_state, checked_step
from sim_core.simulation.checks import Checks
from sim_core.simulation.inputs import Inputs
from sim_core.simulation.readout import Readout
from sim_core.stabilization.registry import stabilizer_named
from sim_core.stabilization.stabilizers import Stabilizer, instability
from sim_core.start import FAR, FAR_GIVEN, missed_line
from sim_core.state import Notice, State, Transition
from sim_core.support.shown import shown
from sim_core.system import System, require_system


class Simulation(Readout):
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
        require_system(system)
        self._owner = f"robot {system.mechanism.name!r}"
        if not isinstance(assemble_start, bool | np.bool_):
            raise InvalidRequest(f"{self._owner}: assemble_start is {shown(assemble_start)}; it must be True or False")
        self._assemble_start, h = assemble_start, checked_step(self._owner, step_s)
        self.stepper = stepper_named(stepper) if isinstance(stepper, str) else stepper
        self.stabilizer = stabilizer_named(stabilizer) if isinstance(stabilizer, str) else stabilizer
        check_methods(system, self.stepper, self.stabilizer)
        if unstable := instability(self.stabilizer, self.stepper, h):
            warnings.warn(unstable, StabilityWarning, stacklevel=2)
        if fast := too_fast(system.mechanism.beams, self.stepper, h):
            warnings.warn(f"{fast}; step_s is {1e3 * h:.3g} ms", StabilityWarning, stacklevel=2)
        gains = self.stabilizer.gains(h, self.stepper, system.mechanism.characteristic_length)
        memory = self.stabilizer.memory * system.max_rows
        w = Workspace(system, self.stepper.stages, gains, memory, self.stepper.memory_size(system.n_q))
        w.memory.scalars[STOPS_AT_MARKS] = not self.stepper.adaptive
        w.memory.scalars[MEAN_VELOCITY] = self.stepper.order == 1
        super().__init__(system, w, h, Switching(system, w))
        self._calls = Calls(system, w)
        given = w.memory, self._calls.table, self._law_row(), *self.stepper.arguments(system.n_q)
        self._loop = BoundLoop(self.stepper.loop(), h, given)
        self.energy_ledger = EnergyLedger(system, w)
        methods = self.stepper, self.stabilizer
        self._checks = Checks(self, w, methods, self._switching, self.energy_ledger, (unstable, bool(fast)))
        self._inputs = Inputs(self, w, self.stepper, self.energy_ledger, self._checks.gaps)
        self._inputs.tunables = self._inputs.tuned(parameters or {})
        self._checks.thresholds.tune(self._inputs.tunables)
        self._events = StepEvents(self._switching, w, h, self.energy)
        self._transitions: list[Transition] = []
        self._check_start(FAR, stacklevel=4)
        self.reset()
        self._warn_of_missed(stacklevel=3)
        self._checks.modes(stacklevel=2)
        self._checks.impacts(self._start[0], stacklevel=2)

    def _law_row(self) -> np.ndarray:
        rows, w = self.system.constraint_modes[0], self._w
        pointers = [array.ctypes.data for array in (w.phi, w.phidot, w.gains, w.stabilizer_memory, w.U)]
        rest = [rows.n_holonomic, rows.n_rows, *self.stabilizer.correction_mode()]
        return np.array([self.stabilizer.law_address(), *pointers, *rest], dtype=np.int64)

    def _repr_html_(self) -> str:
        """HTML that a notebook displays: time, methods, violation, energy, and a table of the joints."""
        how = f"{self.stepper.name}, {self.stabilizer.name}, steps of {1e3 * self.step_s:.4g} ms"
        return self._html(how)

    @property
    def notices(self) -> list[Notice]:
        """Problems that were found during the run and not yet taken by `take_notices`."""
        return self._checks.notices

    def step(self, n: int = 1) -> None:
        """Take n time steps. Raises SimulationDiverged if the run diverges, after writing the last states to a file.

        Raises InvalidRequest unless n is a whole number, at least 0.
        """
        left, checks = as_count(self._owner, "n", n, LAST_TICK), self._checks
        while left > 0:
            status, taken, guard = self._loop(checks.before(self._tick, left, stacklevel=3), self._tick)
            self._tick += taken
            left -= taken
            if status == EVENT and guard >= 0:
                self._change_constraint_mode(stacklevel=4)
            checks.energy(stacklevel=3)
            if status in WHAT_ENDED:
                raise checks.diverged(status, stacklevel=3)
            checks.after(self._tick, stacklevel=3)

    def advance(self, seconds: float) -> None:
        """Advance by `seconds`, which must be a whole number of time steps to within a thousandth of the step size."""
        steps = as_number(self._owner, "seconds", seconds) / self.step_s
        if not 0 <= steps <= LAST_TICK or abs(steps - round(steps)) > 1e-3:
            raise InvalidRequest(f"seconds is {seconds}; it must be a whole number of time steps of {self.step_s} s")
        self.step(round(steps))

    def warm_up(self) -> None:
        """Compile or load the stepping loop, so that the first time step runs as fast as later ones.

        The state does not change.
        """
        with self._loop.loading(f"the loop of {self.stepper.name!r}"):
            self._loop(0, self._tick)

    @property
    def step_too_large(self) -> StepTooLarge | None:
        """Result of the check that found the step size too large for a mode; None if every check has passed.

        The step size is checked at ticks that are powers of four up to 65536, then at every multiple of 65536, and
        after each change of parameters. Implicit steppers, which are stable at every step size, and steppers with error
        control are not checked. When a large energy error is found or a run diverges, the step size is also checked at
        the preceding states, for all steppers with a fixed step size.
        """
        return self._checks.too_large

    @step_too_large.setter
    def step_too_large(self, found: StepTooLarge | None) -> None:
        """Set the result of an earlier check of the step size, for example after restoring a snapshot.

        found  the result; its problem is not reported again. None if the check has passed
        """
        self._checks.too_large = found
        self._checks.schedule()

    def _change_constraint_mode(self, stacklevel: int) -> None:
        before, held, v = self.energy(), self._switching.active, self.velocities
        try:
            changes = self._events.apply(self.time)
        except GuardsRepeat as error:
            raise self._checks.repeated(error.names) from None
        self._transitions += changes
        self._checks.chatter(changes, stacklevel)
        self.energy_ledger.book(self.energy() - before)
        self._checks.thresholds.select(self._switching.constraint_mode)
        engaged = self._switching.named(~held & self._switching.active)
        self._checks.gap(self._checks.gaps.of_guards(engaged, v, self.step_s), stacklevel)

    def take_notices(self) -> list[Notice]:
        """Return the problems found since the last call, oldest first, and clear the list."""
        taken, self._checks.notices = self._checks.notices, []
        return taken

    def take_events(self) -> list[Transition]:
        """Return the changes of the constraint mode since the last call, oldest first, and clear the list."""
        taken, self._transitions = self._transitions, []
        return taken

    def restore(self, state: State) -> None:
        """Continue from a snapshot of this simulation, or of another simulation of the same system.

        Warns of a state that violates the constraints, and adds a notice. Raises InvalidRequest, without changing the
        state, for a snapshot with wrong sizes or values.
        """
        w = self._w
        given = checked_state(state, w, self.system.mechanism, self._inputs.effort_limit)
        self._switching.check(given.constraint_mode, given.values["p"])
        for name, array in given.arrays.items():
            array[:] = given.values[name]
        self._inputs.tunables = w.p[: len(self._inputs.tunables)].copy()
        self._tick = given.tick
        self._switching.enter(given.constraint_mode)
        self._checks.thresholds.tune(self._inputs.tunables)
        self._checks.thresholds.select(given.constraint_mode)
        self._refresh()
        if given.knows_guards:
            w.guards_before[:] = given.values["guards"]
        if not given.has_ledger:
            self.energy_ledger.begin()
        self._checks.go_on()
        self._checks.gap(self._checks.gaps.of_state(self.violation()[0]), stacklevel=2)

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
        if q is None and v is None and not np.array_equal(self._inputs.tunables, self._of_start):
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
        w.p[:] = self._inputs.parameters()
        if system_rebases := self.system.addresses.get("rebase"):
            BoundKernel(system_rebases, [w.t, w.q, w.v, w.u, w.p], [w.q, w.v, w.p])()
        self._tick = 0
        self._switching.enter(mechanism.start_constraint_mode)
        w.p[:] = with_slipping_wheels(self.system, w.q, w.v, w.p)
        self._switching.name_mode()
        self._checks.thresholds.select(self._switching.constraint_mode)
        self._transitions = []
        self._refresh()
        self.energy_ledger.begin()
        self._checks.begin()
        self._w.peaks[:] = self.violation()
        if q is not None or v is not None:
            self._warn_of_missed(stacklevel)

    def _check_start(self, share: float, stacklevel: int) -> None:
        """Check the mechanism's start with the current parameters; `share` is that of `_checked`."""
        q, v = np.array(self.system.mechanism.initial_q), np.array(self.system.mechanism.initial_v)
        self._start = self._checked(q, v, share, stacklevel)
        self._of_start = self._inputs.tunables.copy()

    def _checked(self, q: np.ndarray, v: np.ndarray, share: float, stacklevel: int) -> tuple[np.ndarray, np.ndarray]:
        """A start (q, v) after the checks of `checked_start`, moved onto the constraints if `assemble_start`.

        share  permitted violation of the constraints, as a fraction of the characteristic length
        """
        p = self._inputs.parameters()
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

    def set_effort(self, effort: Any) -> None:
        """Set the actuator efforts (N or N m), constant until the next call: an array (n_u,), or {actuator: effort}.

        Efforts are clipped to each actuator's limit. Non-finite efforts raise InvalidRequest.
        """
        self.drive(self._inputs.effort(effort), stacklevel=3)

    def drive(self, effort: np.ndarray, stacklevel: int = 2) -> None:
        """Set the actuator efforts (n_u,) without the checks of `set_effort`; they must be finite and within limits."""
        self._checks.gap(self._inputs.drive(effort), stacklevel)

    @property
    def driven(self) -> np.ndarray | None:
        """The array (n_u,) of efforts that the kernels read. Writing to it has the same effect as a call of `drive`.

        None if a change of effort changes the velocities or the memory of the stepper, which only `drive` does.
        """
        return None if self._inputs.must_follow else self._w.u

    def set_parameters(self, parameters: Mapping[str, float]) -> None:
        """Set tunables, {name: value}, from the next time step on.

        Raises UnknownName for an unknown name, and InvalidRequest for a value that is outside its bounds or makes the
        description invalid.
        """
        w, energy = self._w, self.energy()
        phi = self.system.residual(self.time, w.q, w.v, w.p)[0]
        before, checks = self.parameters, self._checks
        self._inputs.tune(self._inputs.tuned(parameters))
        checks.changed.record(self.time, before, self.parameters)
        checks.gap(checks.gaps.of_parameters(phi), stacklevel=2)
        checks.thresholds.tune(self._inputs.tunables)
        checks.thresholds.select(self._switching.constraint_mode)
        self.energy_ledger.book(self.energy() - energy)
        checks.schedule(now=True)

    def push(self, body: str, force: Any, point: Any = (0.0, 0.0, 0.0)) -> None:
        """Set the external force on a body, which acts from the next time step on until it is set again; zero ends it.

        force  (3,) force along the world axes, N
        point  (3,) point of the body at which the force acts, in the body's frame, m
        The force is part of the State, and a reset ends it. Raises UnknownName if the body is not in the mechanism's
        `pushable`, and InvalidRequest if `force` or `point` is not three finite numbers.
        """
        self._checks.gap(self._inputs.push(body, force, point), stacklevel=2)

    @property
    def pushes(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """{body: (force (3,) in N, point (3,) in m)} of the external forces that are not zero."""
        return self._inputs.pushes()

    @property
    def parameters(self) -> dict[str, float]:
        """{tunable: current value}."""
        return dict(zip(self.system.tunable_names, self._inputs.tunables.tolist(), strict=True))
