"""Runs of a study as data, and the function that executes one.

A Run names a robot, a stepper, a stabilizer, a step and a duration; `execute` returns its Outcome. Outcomes contain
nothing that depends on the machine's speed, so two executions give the same numbers.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

# Sampling period, s. It does not depend on a run's duration, so that a short run equals the beginning of a long one.
LOOK_S = 5e-3
RESTARTING_LOOK_S = 0.5

Options = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Method:
    """A stabilizer with its options and its name on the page."""

    label: str
    name: str
    options: Options = ()

    def make(self) -> Any:
        """The stabilizer of sim_core; "nada" and "man" are the papers' scalings of the fuzzy one."""
        from nodes.studies.framework import scalings
        from sim_core.stabilization.registry import stabilizer_named

        if self.name in ("nada", "man"):
            return getattr(scalings, self.name)(**dict(self.options))
        return stabilizer_named(self.name, **dict(self.options))


@dataclass(frozen=True)
class Stepping:
    """A stepper with its options and its name on the page.

    adaptive  whether the stepper chooses its own steps between the ticks
    restarts  whether the stepper restarts at each sample, so that fewer samples are taken
    """

    label: str
    name: str
    options: Options = ()
    adaptive: bool = False
    restarts: bool = False

    def make(self) -> Any:
        """The stepper of sim_core."""
        from sim_core.integrators import steppers

        return getattr(steppers, self.name)(**dict(self.options)) if self.options else steppers.STEPPERS[self.name]


@dataclass(frozen=True)
class Run:
    """One simulation.

    case     name of the robot and its start on the page
    step_s   step of a fixed stepper; distance of the ticks that an adaptive stepper has to reach, s
    given_s  the paper's dt, s, for gains computed from it, where dt is not step_s (an adaptive call); 0: step_s
    watch    names of quantities sampled in addition to the violation: see `watcher`
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
    """Result of a run: series sampled at the times `t`, all of the same length, and figures over all steps.

    lost_at      time of the first step that leaves |Phi|_1 above one characteristic length, or of the last step before
    the
                 stepper failed, s; the series end there. None: never
    reason       "violation", "not finite", "step went to zero" or "solver did not converge"; empty for a run not lost
    peak_*       largest 1-norms over all steps, up to the loss of the run
    evaluations  number of evaluations of the right-hand side, None where they are not counted
    limit_s      largest step allowed by the stabilizer's linear bound, inf without a bound
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
        """Whether the mechanism stayed assembled to the end."""
        return self.lost_at is None


def simulation_of(run: Run) -> tuple[Any, float]:
    """(simulation of a run at its start, its stabilizer's linear bound on the step in s)."""
    from robots.registry import build
    from sim_core.errors import SimulationWarning
    from sim_core.simulation import Simulation
    from sim_core.system import assemble

    stepper, stabilizer = run.stepping.make(), run.method.make()
    system = assemble(build(run.robot, **dict(run.parameters)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimulationWarning)  # the page shows the bound and the start of every run
        sim = Simulation(system, step_s=run.step_s, stepper=stepper, stabilizer=stabilizer)
        if run.start:
            sim.reset(q=np.array(run.start))
    return sim, float(stabilizer.stability_limit(stepper, run.step_s))


def execute(run: Run) -> Outcome:
    """Outcome of one run, simulated to its end or until it is lost, and sampled at equal intervals."""
    from sim_core.analysis.loss import advance_or_lose

    sim, limit = simulation_of(run)
    length = sim.system.mechanism.characteristic_length
    looks = Sampler(sim, run.watch)
    steps = round(run.seconds / run.step_s)
    stride = max(1, round((RESTARTING_LOOK_S if run.stepping.restarts else LOOK_S) / run.step_s))
    reason, evaluations = "", 0
    while sim.tick < steps and not reason:
        tick, counted = sim.tick, sim.evaluations
        reason = advance_or_lose(sim, min(stride, steps - sim.tick))
        # steps repeated to locate the loss of a run are not counted
        evaluations += (sim.evaluations - counted) if not reason else (sim.tick - tick) * sim.stepper.evaluations
        looks.look(blown_up=reason == "not finite")
    t, phi, phidot = np.array(looks.rows).T
    peaks = sim.peak_violation()
    lost_at = sim.time if reason else None
    watched = {name: np.array(values) for name, values in looks.seen.items()}
    found = Outcome(t, phi, phidot, watched, peaks[0], peaks[1], lost_at, evaluations, limit, length)
    return dataclasses.replace(found, reason=reason)


class Sampler:
    """Samples of a simulation: (t, |Phi|, |Phidot|) and the watched quantities, from its start on."""

    def __init__(self, sim: Any, watch: Sequence[str]) -> None:
        self.sim = sim
        self.rows: list[tuple[float, float, float]] = []
        self.seen: dict[str, list[Any]] = {name: [] for name in watch}
        self._watchers = {name: watcher(name, sim) for name in watch}
        self.look()

    def look(self, blown_up: bool = False) -> None:
        """Add a sample of the present state. With `blown_up`, because the next state is not finite, the violations are
        infinite."""
        phi, phidot = (math.inf, math.inf) if blown_up else self.sim.violation()
        self.rows.append((self.sim.time, phi, phidot))
        for name, look in self._watchers.items():
            self.seen[name].append(look())


def watcher(name: str, sim: Any) -> Callable[[], Any]:
    """Function that returns the present value of a quantity of a simulation.

    "outputs", "joints" (positions), "bars" (angles), "coordinates", "energy"; Phi and Phidot, with sign, of "row N"
    (from 1); |Phi| and |Phidot| of "rows JOINT" and of the "unit rows" of Euler parameters; |Phidot| of the
    nonholonomic "rolling rows".
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

    if name.startswith("row "):
        index = int(name.split()[1]) - 1
        return lambda: [rows[index] for rows in residual()]
    if name.startswith("rows "):
        joint = [i for i, row in enumerate(kernels.row_names) if row == name.removeprefix("rows ")]
        return lambda: [float(np.abs(rows[joint]).sum()) for rows in residual()]
    if name == "unit rows":
        unit = [i for i, row in enumerate(kernels.row_names) if row.endswith("norm")]
        return lambda: [float(np.abs(rows[unit]).sum()) for rows in residual()]
    if name == "rolling rows":
        return lambda: [float(np.abs(residual()[1][kernels.n_holonomic :]).sum())]
    raise ValueError(f"a study cannot watch {name!r}")
