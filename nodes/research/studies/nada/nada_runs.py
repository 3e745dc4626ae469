"""Runs of the study of Nada's paper as data: robots, time steps, stabilizers, durations. [NadaBayoumi2024]"""

from __future__ import annotations

import math
from dataclasses import dataclass

from nodes.research.studies.framework.methods import (
    ADAPTIVE_STEPPINGS,
    B1,
    B2,
    DIRECT,
    DIRECT_INSIDE,
    DIRECT_MASS,
    DOPRI5,
    FIXED,
    FIXED_STEPPINGS,
    FLC1,
    FLC2,
    FLC3,
    NONE,
    ODE45,
    ONE_CALL,
    PID,
    PROJECTION,
    RK4,
    SAMPLED,
    TIGHT,
    b3,
)
from nodes.research.studies.framework.runs import Method, Run, Stepping

STEPS = (1e-3, 1e-2, 5e-2)  # the paper's values of dt, s
LARGEST = STEPS[-1]
FLC = {"set I": FLC1, "set II": FLC2, "set III": FLC3}
GEAR_TICK = 1e-2  # interval between the outputs of an adaptive call for the gear train, whose motion lasts 2 s
RK4_STEPS = (2.5e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2)
BOUND_PHI, BOUND_PHIDOT = 1e-6, 1e-4  # the upper limits that the paper sets for its triple pendulum
LENGTH, LINKS = 0.3, 3  # length of a bar of the triple pendulum, m, and number of bars
REACH = LENGTH * LINKS


@dataclass(frozen=True)
class Spans:
    """Simulated duration of each case of the study, s."""

    rotary: float
    short: float
    triple: float
    gear: float
    sweep: float
    compare: float


SPANS = {
    "full": Spans(rotary=20.0, short=2.0, triple=600.0, gear=2.0, sweep=20.0, compare=10.0),
    "quick": Spans(rotary=10.0, short=2.0, triple=60.0, gear=1.0, sweep=5.0, compare=5.0),
    "tiny": Spans(rotary=1.0, short=0.5, triple=2.0, gear=0.2, sweep=0.5, compare=0.5),
}


# The paper's recipe for the gains, with the bounds it names: Kp = 1/|C|, Kd = 1/|Cdot|, Ku = 100 Kp.
RECIPE = Method("fuzzy, gains by the recipe", "nada", (("permitted", (BOUND_PHI, BOUND_PHIDOT)),))


def hanging(angle: float) -> tuple[float, ...]:
    """Coordinates of the triple pendulum with all bars at `angle` (rad) from the vertical."""
    q: list[float] = []
    x = y = 0.0
    for _ in range(LINKS):
        dx, dy = LENGTH * math.sin(angle), -LENGTH * math.cos(angle)
        q += [x + dx / 2, y + dy / 2, angle - math.pi / 2]
        x, y = x + dx, y + dy
    return tuple(q)


SMALL_ANGLE = math.radians(5.0)


@dataclass(frozen=True)
class Runs:
    """Runs of the study, grouped by purpose; `all` lists every run."""

    spans: Spans

    def rotary(self, method: Method, reading: str, dt: float = LARGEST, stepping: Stepping | None = None) -> Run:
        """Run of the rotary pendulum.

        reading  meaning of the "time step" in the paper: FIXED (fixed step size of an integrator) or ONE_CALL (interval
                 between the outputs of one call of an adaptive solver)
        dt       the paper's time step in s. With ONE_CALL, the solver chooses its step size itself, and `dt` affects
                 only the gains
        """
        watch = ("row 9", "rows pendulum")
        if reading == FIXED:
            robot = "rotary_pendulum"
            return Run("rotary pendulum", robot, stepping or DOPRI5, method, dt, self.spans.rotary, watch=watch)
        robot, tick = "rotary_pendulum", LARGEST
        given = dt if dt != tick else 0.0
        stepping = stepping or ODE45
        return Run("rotary pendulum", robot, stepping, method, tick, self.spans.rotary, given_s=given, watch=watch)

    def unstabilized(self, reading: str) -> dict[str, Run]:
        """{label of an integrator: run of the rotary pendulum with this integrator and without stabilization}.

        reading  meaning of the "time step" in the paper: FIXED (fixed step size of an integrator) or ONE_CALL (interval
                 between the outputs of one call of an adaptive solver)
        """
        adaptive = reading == ONE_CALL
        found = {}
        for stepping in ADAPTIVE_STEPPINGS if adaptive else FIXED_STEPPINGS:
            found[stepping.label] = self.rotary(NONE, reading, LARGEST if adaptive else STEPS[0], stepping)
        return found

    def baumgarte(self, reading: str, dt: float = LARGEST) -> dict[str, Run]:
        """{label: run of the rotary pendulum with Baumgarte stabilization}, one run for each of three sets of gains.

        reading  meaning of the "time step" in the paper: FIXED (fixed step size of an integrator) or ONE_CALL (interval
                 between the outputs of one call of an adaptive solver)
        dt       the paper's time step in s
        """
        return {method.label: self.rotary(method, reading, dt) for method in (B1, B2, b3(dt))}

    def compared(self, reading: str, dt: float = LARGEST) -> dict[str, Run]:
        """{label of a stabilizer: run of the rotary pendulum with this stabilizer}, for seven stabilizers to compare.

        Five stabilizers are the paper's: direct correction, Baumgarte's method with the gains of `methods.b3`, and
        fuzzy control with three kinds of fuzzy sets. Two are the project's own: sampled fuzzy stabilization and
        projection.

        reading  meaning of the "time step" in the paper: FIXED (fixed step size of an integrator) or ONE_CALL (interval
                 between the outputs of one call of an adaptive solver)
        dt       the paper's time step in s
        """
        methods = (DIRECT, b3(dt), FLC1, FLC2, FLC3, SAMPLED, PROJECTION)
        return {method.label: self.rotary(method, reading, dt) for method in methods}

    def inside(self, reading: str, dt: float = LARGEST) -> dict[str, Run]:
        """{label: run of the rotary pendulum}: one run for each form of direct correction, one without stabilization.

        In one form, the corrected state replaces the state of the integrator after each time step. In the other form,
        the corrected state is used only to evaluate the accelerations.

        reading  meaning of the "time step" in the paper: FIXED (fixed step size of an integrator) or ONE_CALL (interval
                 between the outputs of one call of an adaptive solver)
        dt       the paper's time step in s
        """
        return {method.label: self.rotary(method, reading, dt) for method in (DIRECT, DIRECT_INSIDE, NONE)}

    def triple(self, method: Method, stepping: Stepping = RK4, step: float = 1e-3, seconds: float = 0.0) -> Run:
        """Run of the triple pendulum that starts horizontal and at rest.

        step     time step, s
        seconds  simulated duration, s; 0 for the duration in `spans`
        """
        span = seconds or self.spans.triple
        return Run("triple pendulum", "triple_pendulum", stepping, method, step, span, watch=("outputs",))

    def triple_small(self, method: Method) -> Run:
        """Short run of the triple pendulum that starts 5 degrees from the vertical."""
        name, start = "triple pendulum, 5 degrees", hanging(SMALL_ANGLE)
        span = self.spans.short
        return Run(name, "triple_pendulum", RK4, method, 1e-3, span, start=start, watch=("outputs",))

    def gear(self, method: Method, reading: str) -> Run:
        """Run of the gear train, driven by 0.1 N m on its arm.

        reading  meaning of the "time step" in the paper: FIXED (fixed step size of an integrator) or ONE_CALL (interval
                 between the outputs of one call of an adaptive solver)
        """
        watch = ("unit rows", "rolling rows")
        stepping, step = (DOPRI5, 1e-3) if reading == FIXED else (ODE45, GEAR_TICK)
        return Run("epicyclic gear train", "epicyclic_gear_train", stepping, method, step, self.spans.gear, watch=watch)

    def gears(self, reading: str) -> dict[str, Run]:
        """{label of a stabilizer: run of the gear train with this stabilizer}.

        reading  meaning of the "time step" in the paper: FIXED (fixed step size of an integrator) or ONE_CALL (interval
                 between the outputs of one call of an adaptive solver)
        """
        methods = (NONE, B2, FLC3, SAMPLED, PROJECTION)
        return {method.label: self.gear(method, reading) for method in methods}

    def sweep(self, methods: tuple[Method, ...] = ()) -> dict[str, list[Run]]:
        """{label of a stabilizer: runs of the rotary pendulum with RK4, one for each step size in RK4_STEPS}.

        methods  stabilizers; a default set of seven if empty
        """
        span = self.spans.sweep
        found: dict[str, list[Run]] = {}
        for step in RK4_STEPS:
            for method in methods or (NONE, B2, b3(step), FLC1, FLC3, SAMPLED, PROJECTION):
                run = Run("rotary pendulum, sweep", "rotary_pendulum", RK4, method, step, span)
                found.setdefault(method.label, []).append(run)
        return found

    def corrections(self) -> dict[str, list[Run]]:
        """{label of a stabilizer: runs of the rotary pendulum with RK4, one for each step size in RK4_STEPS}.

        The stabilizers are three forms of direct correction, projection, PID control of the violation, sampled fuzzy
        stabilization, and none.
        """
        return self.sweep((NONE, PID, DIRECT, DIRECT_MASS, DIRECT_INSIDE, SAMPLED, PROJECTION))

    def integrators(self) -> dict[str, list[Run]]:
        """{label of a stepper: runs of the rotary pendulum with this stepper, one for each step size in RK4_STEPS}.

        All runs have sampled fuzzy stabilization.
        """
        span = self.spans.sweep
        found: dict[str, list[Run]] = {}
        for stepping in FIXED_STEPPINGS:
            for step in RK4_STEPS:
                run = Run("rotary pendulum, sweep", "rotary_pendulum", stepping, SAMPLED, step, span)
                found.setdefault(stepping.label, []).append(run)
        return found

    def reference(self) -> tuple[Run, Run]:
        """(reference run with tight tolerances and projection, run with fuzzy stabilization and the largest time step).

        Both are runs of the rotary pendulum with an adaptive stepper.
        """
        pair = []
        for stepping, method, tick in ((TIGHT, PROJECTION, LARGEST / 10), (ODE45, FLC3, LARGEST)):
            robot, span = "rotary_pendulum", self.spans.compare
            pair.append(Run("rotary pendulum, compare", robot, stepping, method, tick, span, watch=("joints",)))
        return pair[0], pair[1]

    def bounded(self) -> dict[str, Run]:
        """{label: run of the triple pendulum with fuzzy stabilization}, for the claims on bounds of the violation.

        Two runs have different fixed step sizes, and one run has an adaptive solver. In the fourth run, the gains are
        computed from the permitted violation, as the paper's outline says.
        """
        span = min(60.0, self.spans.triple)
        return {
            "fixed step, 1 ms": self.triple(FLC3, RK4, 1e-3, span),
            "fixed step, 0.1 ms": self.triple(FLC3, RK4, 1e-4, span),
            "one adaptive call": self.triple(FLC3, ODE45, 1e-2, span),
            "fixed step, 1 ms, gains by the recipe": self.triple(RECIPE, RK4, 1e-3, span),
        }

    def fuzzy_steps(self) -> dict[str, list[Run]]:
        """{label of a fuzzy stabilizer: runs of the rotary pendulum with RK4, one for each step size in RK4_STEPS}."""
        return {label: runs for label, runs in self.sweep().items() if runs[0].method.is_fuzzy}

    @property
    def swept_all(self) -> list[list[Run]]:
        """Lists of runs, one list for each curve that is drawn over the step size.

        The runs of a list differ only in the step size, and in the gains that depend on the step size.
        """
        return [*self.sweep().values(), *self.corrections().values(), *self.integrators().values()]

    @property
    def all(self) -> tuple[Run, ...]:
        """All runs, without repetition."""
        found: list[Run] = []
        for reading in (FIXED, ONE_CALL):
            found += self.unstabilized(reading).values()
            found += self.gears(reading).values()
            for dt in STEPS:
                found += self.baumgarte(reading, dt).values()
                found += (self.compared(reading, dt) if reading == FIXED else self.compared(reading)).values()
                found += (self.inside(reading, dt) if reading == FIXED else self.inside(reading)).values()
        for method in (DIRECT, DIRECT_INSIDE, FLC3, SAMPLED):
            found += [self.triple(method), self.triple_small(method)]
        found += [*self.bounded().values(), *self.reference()]
        found += [run for runs in self.swept_all for run in runs]
        return tuple(dict.fromkeys(found))

    @property
    def measured(self) -> tuple[Run, ...]:
        """Runs whose computing time is measured."""
        found: list[Run] = []
        for dt in STEPS:
            found += self.baumgarte(ONE_CALL, dt).values()
            found += self.compared(FIXED, dt).values()
        found += [*self.compared(ONE_CALL).values(), *self.unstabilized(ONE_CALL).values()]
        found += [run for runs in self.swept_all for run in runs]
        return tuple(dict.fromkeys(found))
