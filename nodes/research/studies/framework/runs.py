"""Runs of a study as data, and the function that executes one.

A Run names a robot, a stepper, a stabilizer, a time step and a duration; `execute` returns its Outcome. Outcomes
contain nothing that depends on the machine's speed, so two executions give the same numbers.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nodes.research.studies.framework import scalings
from robots.registry import build
from sim_core.analysis.loss import advance_or_lose
from sim_core.errors import SimulationWarning
from sim_core.integrators import steppers
from sim_core.simulation import Simulation
from sim_core.stabilization.registry import stabilizer_named
from sim_core.system import assemble

# Sampling period, s. It does not depend on a run's duration, so that a short run equals the beginning of a long one.
SAMPLE_S = 5e-3
RESTARTING_SAMPLE_S = 0.5

Options = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Method:
    """A stabilizer with its options, and its name on the study's page."""

    label: str
    name: str
    options: Options = ()

    @property
    def is_fuzzy(self) -> bool:
        """Whether the stabilizer is a fuzzy one with the scalings of a paper."""
        return self.name in ("nada", "man")

    def make(self) -> Any:
        """The stabilizer object of sim_core.

        The names "nada" and "man" stand for fuzzy stabilizers with the scalings of [NadaBayoumi2024] and [Man2025].
        """
        if self.is_fuzzy:
            return getattr(scalings, self.name)(**dict(self.options))
        return stabilizer_named(self.name, **dict(self.options))


@dataclass(frozen=True)
class Stepping:
    """A stepper (integrator) with its options, and its name on the study's page.

    adaptive  whether the stepper chooses its step size itself, within each time step of the simulation
    restarts  whether each sample of the results makes the stepper restart; if so, fewer samples are taken
    """

    label: str
    name: str
    options: Options = ()
    adaptive: bool = False
    restarts: bool = False

    def make(self) -> Any:
        """The stepper object of sim_core."""
        return getattr(steppers, self.name)(**dict(self.options)) if self.options else steppers.STEPPERS[self.name]


@dataclass(frozen=True)
class Run:
    """One simulation.

    case     text on the study's page that names the robot and its initial state
    step_s   time step of the simulation in s: the step size of a fixed-step stepper, or for an adaptive stepper the
             interval between the times that its steps must hit
    given_s  the paper's time step dt in s, from which gains are computed; 0 if dt equals `step_s`
    watch    names of quantities that are sampled in addition to the constraint violation, see `watcher`
    """

    case: str
    robot: str
    stepping: Stepping
    method: Method
    step_s: float
    seconds: float
    parameters: Options = ()
    start: tuple[float, ...] = ()
    given_s: float = 0.0
    watch: tuple[str, ...] = ()

    @property
    def dt(self) -> float:
        """The paper's time step dt, s."""
        return self.given_s or self.step_s

    @property
    def key(self) -> str:
        """Identifier of the run within a study, for tables."""
        return f"{self.case} | {self.stepping.label} | {self.dt * 1e3:g} ms | {self.method.label} | {self.seconds:g} s"


@dataclass(frozen=True)
class Outcome:
    """Result of a run: series sampled at the times `t`, all of the same length, and quantities over all time steps.

    A run fails (is lost) at the first time step after which the constraint violation |Phi|_1 exceeds one characteristic
    length, or at the last time step before the stepper fails. The series end at this time step.

    lost_at      time at which the run failed, s; None for a run that did not fail
    reason       "violation", "not finite", "step went to zero" or "solver did not converge"; empty for a run that did
                 not fail
    peak_*       largest 1-norms of the constraint violation Phi and of its rate Phidot over all time steps, up to a
                 failure
    evaluations  number of evaluations of the right-hand side; None if they are not counted
    limit_s      largest step size in s that the stabilizer's linearized analysis allows; inf if it sets no limit
    length       characteristic length of the robot, m
    """

    t: np.ndarray
    phi: np.ndarray
    phidot: np.ndarray
    watched: Mapping[str, np.ndarray] = field(default_factory=dict)
    peak_phi: float = 0.0
    peak_phidot: float = 0.0
    lost_at: float | None = None
    evaluations: int | None = None
    limit_s: float = math.inf
    length: float = 1.0
    reason: str = ""

    @property
    def held(self) -> bool:
        """True if the mechanism stayed assembled to the end of the run; False if the run failed."""
        return self.lost_at is None


def simulation_of(run: Run) -> tuple[Any, float]:
    """(simulation of a run at its start, largest step size in s that the stabilizer's linearized analysis allows)."""
    stepper, stabilizer = run.stepping.make(), run.method.make()
    system = assemble(build(run.robot, **dict(run.parameters)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimulationWarning)  # the page shows the bound and the start of every run
        sim = Simulation(system, step_s=run.step_s, stepper=stepper, stabilizer=stabilizer)
        if run.start:
            sim.reset(q=np.array(run.start))
    return sim, float(stabilizer.stability_limit(stepper, run.step_s))


def execute(run: Run) -> Outcome:
    """Simulate a run to its end or until it fails, and return its outcome, sampled at equal intervals."""
    sim, limit = simulation_of(run)
    length = sim.system.mechanism.characteristic_length
    sampler = Sampler(sim, run.watch)
    steps = round(run.seconds / run.step_s)
    stride = max(1, round((RESTARTING_SAMPLE_S if run.stepping.restarts else SAMPLE_S) / run.step_s))
    reason, evaluations = "", 0
    while sim.tick < steps and not reason:
        tick, counted = sim.tick, sim.evaluations
        reason = advance_or_lose(sim, min(stride, steps - sim.tick))
        # steps repeated to locate the loss of a run are not counted
        evaluations += (sim.evaluations - counted) if not reason else (sim.tick - tick) * sim.stepper.evaluations
        sampler.sample(blown_up=reason == "not finite")
    t, phi, phidot = np.array(sampler.rows).T
    peaks = sim.peak_violation()
    lost_at = sim.time if reason else None
    watched = {name: np.array(values) for name, values in sampler.samples.items()}
    found = Outcome(t, phi, phidot, watched, peaks[0], peaks[1], lost_at, evaluations, limit, length)
    return dataclasses.replace(found, reason=reason)


class Sampler:
    """Samples of a simulation from its start on.

    A sample is the time t, the constraint violation |Phi|, its rate |Phidot|, and the quantities named in `watch`.
    """

    def __init__(self, sim: Any, watch: Sequence[str]) -> None:
        self.sim = sim
        self.rows: list[tuple[float, float, float]] = []
        self.samples: dict[str, list[Any]] = {name: [] for name in watch}
        self._watchers = {name: watcher(name, sim) for name in watch}
        self.sample()

    def sample(self, blown_up: bool = False) -> None:
        """Add a sample of the present state.

        blown_up  whether the run ends here because the next state is not finite; the constraint violations in the
                  sample are then infinite
        """
        phi, phidot = (math.inf, math.inf) if blown_up else self.sim.violation()
        self.rows.append((self.sim.time, phi, phidot))
        for name, read in self._watchers.items():
            self.samples[name].append(read())


def watcher(name: str, sim: Any) -> Callable[[], Any]:
    """Function that returns the present value of the quantity `name` of a simulation.

    The argument `name` is one of:

    outputs       outputs of the robot
    joints        positions of the joints
    bars          angles of the bars of a serial chain, measured from the x axis, rad
    coordinates   generalized coordinates
    energy        energy, J
    row N         signed violation Phi of constraint equation number N (the first has number 1), and its rate Phidot
    rows JOINT    1-norms of Phi and Phidot over the constraint equations of a joint
    unit rows     1-norms of Phi and Phidot over the unit-norm constraints of Euler parameters
    rolling rows  1-norm of Phidot over the nonholonomic constraints

    Raises ValueError for another name.
    """
    if name == "outputs":
        return lambda: list(sim.outputs().values())
    if name == "joints":
        return lambda: sim.joints()[0]
    if name == "bars":  # angles of a chain of bars from the x axis
        return lambda: np.cumsum(sim.joints()[0])
    if name == "coordinates":
        return lambda: sim.state.q
    if name == "energy":
        return lambda: sim.energy()
    kernels = sim.system.constraint_modes[0]

    def residual() -> tuple[np.ndarray, np.ndarray]:
        state = sim.state
        phi, phidot = sim.system.residual(sim.time, state.q, state.v)
        return phi, phidot

    kind, _, of = name.partition(" ")
    if kind == "row":
        index = int(of) - 1
        return lambda: [rows[index] for rows in residual()]
    if kind == "rows":
        joint = [i for i, row in enumerate(kernels.row_names) if row == of]
        return lambda: [float(np.abs(rows[joint]).sum()) for rows in residual()]
    if name == "unit rows":
        unit = [i for i, row in enumerate(kernels.row_names) if row.endswith("norm")]
        return lambda: [float(np.abs(rows[unit]).sum()) for rows in residual()]
    if name == "rolling rows":
        return lambda: [float(np.abs(residual()[1][kernels.n_holonomic :]).sum())]
    raise ValueError(
        f"a study cannot watch {name!r}; use outputs, joints, bars, coordinates, energy, or constraint equations: "
        "'row N' (number N), 'rows JOINT' (those of a joint), 'unit rows' (unit norms) or 'rolling rows'"
    )
