"""What a study runs, as data, and the one function that runs it.

A Run names a robot, a way of stepping, a stabilizer, a step and a time; `execute` gives its Outcome. Outcomes hold
nothing that depends on the machine's speed, so that two executions give the same numbers.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

# Time between two looks at the state, s. It does not depend on how long a run is: a short run is the long one's begin.
LOOK_S = 5e-3
RESTARTING_LOOK_S = 0.5

Options = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Method:
    """A stabilizer with its options, as the page calls it."""

    label: str
    name: str
    options: Options = ()

    def make(self) -> Any:
        """The sim_core stabilizer; "nada" and "man" are the papers' scalings of the fuzzy one."""
        from sim_core.stabilization import scalings
        from sim_core.stabilization.stabilizers import stabilizer_named

        if self.name in ("nada", "man"):
            return getattr(scalings, self.name)(**dict(self.options))
        return stabilizer_named(self.name, **dict(self.options))


@dataclass(frozen=True)
class Stepping:
    """A stepper with its options, as the page calls it.

    adaptive  it chooses its own steps between the ticks
    restarts  it begins anew whenever it is looked at, so that it is looked at less often
    """

    label: str
    name: str
    options: Options = ()
    adaptive: bool = False
    restarts: bool = False

    def make(self) -> Any:
        """The sim_core stepper."""
        from sim_core.integrators import steppers

        return getattr(steppers, self.name)(**dict(self.options)) if self.options else steppers.STEPPERS[self.name]


@dataclass(frozen=True)
class Run:
    """One simulation.

    case     what the robot and its start are called on the page
    step_s   step of a fixed stepper; distance of the ticks an adaptive one has to reach
    given_s  the paper's dt where that is not step_s (an adaptive call), for the gains that follow it
    watch    what is looked at beside the violation: see `watcher`
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
        """The paper's dt, s."""
        return self.given_s or self.step_s

    @property
    def key(self) -> str:
        """Unique within a study, for tables."""
        return f"{self.case} | {self.stepping.label} | {self.dt * 1e3:g} ms | {self.method.label} | {self.seconds:g} s"


@dataclass(frozen=True)
class Outcome:
    """What came out: series sampled at `t`, all of the same length, and figures of every step.

    lost_at      time of the first step that leaves |Phi|_1 above one characteristic length, or of the last before the
                 stepper could not go on; the series end there. None: never
    reason       "violation", "not finite", "step went to zero" or "solver did not converge"; empty where it held
    peak_*       largest 1-norms over all steps, up to where the run was lost
    evaluations  of the right-hand side, None where they are not counted
    limit_s      largest step the stabilizer's own linear bound allows, inf where there is none
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
        """Whether the mechanism stayed together."""
        return self.lost_at is None


def simulation_of(run: Run) -> tuple[Any, float]:
    """The Simulation at its start, and its stabilizer's linear bound on the step, s."""
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
    """Simulate one run up to its end or to where it is lost, and look at it at equal times."""
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
        # of a lost run the steps that were taken a second time, to find the one, are not counted
        evaluations += (sim.evaluations - counted) if not reason else (sim.tick - tick) * sim.stepper.evaluations
        looks.look(blown_up=reason == "not finite")
    t, phi, phidot = np.array(looks.rows).T
    peaks = sim.peak_violation()
    lost_at = sim.time if reason else None
    watched = {name: np.array(values) for name, values in looks.seen.items()}
    found = Outcome(t, phi, phidot, watched, peaks[0], peaks[1], lost_at, evaluations, limit, length)
    return dataclasses.replace(found, reason=reason)


class Sampler:
    """What was seen of a simulation: (t, |Phi|, |Phidot|) and what is watched, from its start on."""

    def __init__(self, sim: Any, watch: Sequence[str]) -> None:
        self.sim = sim
        self.rows: list[tuple[float, float, float]] = []
        self.seen: dict[str, list[Any]] = {name: [] for name in watch}
        self._watchers = {name: watcher(name, sim) for name in watch}
        self.look()

    def look(self, blown_up: bool = False) -> None:
        """Note what there is now; of a state whose next one is not finite, that the violation is beyond all bounds."""
        phi, phidot = (math.inf, math.inf) if blown_up else self.sim.violation()
        self.rows.append((self.sim.time, phi, phidot))
        for name, look in self._watchers.items():
            self.seen[name].append(look())


def watcher(name: str, sim: Any) -> Callable[[], Any]:
    """A function that looks at one thing of a simulation.

    "outputs", "joints" (positions), "bars" (angles), "coordinates", "energy"; |Phi| and |Phidot| of "row N" (from 1,
    with sign), "rows JOINT", the "unit rows" of Euler parameters; |Phidot| of the nonholonomic "rolling rows".
    """
    if name == "outputs":
        return lambda: list(sim.outputs().values())
    if name == "joints":
        return lambda: sim.joints()[0]
    if name == "bars":  # angles from the x axis, of bars in a row
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
