"""Runs of the study of Man's paper as data: triple pendulum, crank-slider, and the two cases of scaling. [Man2025]"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from nodes.research.studies.framework.methods import (
    B20,
    DOPRI5,
    FIXED,
    FIXED_STEPPINGS,
    NONE,
    ODE45,
    ONE_CALL,
    PROJECTION,
    SAMPLED,
    TIGHT,
)
from nodes.research.studies.framework.runs import Method, Options, Run, Stepping, simulation_of

STEP = 1e-2  # the paper's time step h, s
TICK = 5e-2  # interval between the outputs of a call of an adaptive solver, s
STEPS = (2.5e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2)
LENGTH, LINKS = 2.0, 3
REACH = LENGTH * LINKS
NUDGE = 1e-9  # difference between the starts of the two reference motions, rad
PRINTED: Options = (("start", "printed"),)
VARIANT: Options = (("variant", "man"),)


@dataclass(frozen=True)
class Spans:
    """Simulated duration of each case of the study, s."""

    triple: float
    crank: float
    sweep: float


SPANS = {
    "full": Spans(triple=60.0, crank=60.0, sweep=20.0),
    "quick": Spans(triple=20.0, crank=20.0, sweep=5.0),
    "tiny": Spans(triple=1.0, crank=1.0, sweep=0.5),
}


CASE1 = Method("fuzzy, case 1", "man", (("case", 1),))


@cache
def first_violation() -> tuple[float, float, float]:
    """Norms (|Phi|, |Phidot|, |v|) that set the scaling of Man's controller in case 2.

    |Phi| is the constraint violation and |Phidot| its rate, both after one time step of 10 ms without stabilization.
    |v| is the norm of the initial velocities.
    """
    sim, _ = simulation_of(Run("first step", "crank_slider", DOPRI5, NONE, STEP, STEP, PRINTED))
    speed = float(np.linalg.norm(sim.state.v))
    sim.step()
    phi, phidot = sim.violation()
    return phi, phidot, speed


@cache
def case2() -> Method:
    """Man's fuzzy stabilizer in case 2, for starts in motion. [Man2025, sec. 4.4]

    The scaling of the stabilizer depends on the violation after the first time step.
    """
    phi, phidot, speed = first_violation()
    return Method("fuzzy, case 2", "man", (("case", 2), ("phi", phi), ("phidot", phidot), ("speed", speed)))


def level_start(nudge: float) -> tuple[float, ...]:
    """Coordinates of the horizontal triple pendulum with its last bar rotated by `nudge` (rad)."""
    q = [c for i in range(LINKS) for c in (LENGTH * (i + 0.5), 0.0, 0.0)]
    hinge = LENGTH * (LINKS - 1)
    q[-3:] = [hinge + LENGTH / 2 * math.cos(nudge), LENGTH / 2 * math.sin(nudge), nudge]
    return tuple(q)


@dataclass(frozen=True)
class Runs:
    """Runs of the study, grouped by purpose; `all` lists every run."""

    spans: Spans

    def triple(self, method: Method, reading: str) -> Run:
        """Run of the triple pendulum that starts horizontal and at rest.

        reading  meaning of the "time step" in the paper: FIXED (fixed step size of an integrator) or ONE_CALL (interval
                 between the outputs of one call of an adaptive solver)
        """
        stepping, step = (DOPRI5, STEP) if reading == FIXED else (ODE45, TICK)
        given = 0.0 if reading == FIXED else STEP
        watch = ("outputs", "bars")
        span = self.spans.triple
        name = "triple pendulum"
        return Run(name, "triple_pendulum", stepping, method, step, span, VARIANT, given_s=given, watch=watch)

    def triples(self, reading: str) -> dict[str, Run]:
        """{label of a stabilizer: run of the triple pendulum with this stabilizer}.

        reading  meaning of the "time step" in the paper: FIXED (fixed step size of an integrator) or ONE_CALL (interval
                 between the outputs of one call of an adaptive solver)
        """
        methods = (NONE, CASE1, B20, SAMPLED, PROJECTION)
        return {method.label: self.triple(method, reading) for method in methods}

    def twins(self) -> tuple[Run, Run]:
        """Two reference runs of the triple pendulum with projection, which removes the constraint violation.

        The initial angles of the last bar differ by NUDGE.
        """
        pair = [
            Run(
                f"triple pendulum, last bar turned by {nudge:g} rad",
                "triple_pendulum",
                TIGHT,
                PROJECTION,
                TICK,
                self.spans.triple,
                VARIANT,
                start=level_start(nudge),
                watch=("bars",),
            )
            for nudge in (0.0, NUDGE)
        ]
        return pair[0], pair[1]

    def crank(self, method: Method, reading: str, printed: bool = True) -> Run:
        """Run of the crank-slider that starts at its dead centre.

        reading  meaning of the "time step" in the paper: FIXED (fixed step size of an integrator) or ONE_CALL (interval
                 between the outputs of one call of an adaptive solver)
        printed  whether the run starts with the velocities printed in the paper; otherwise it starts with velocities
                 that meet the constraints
        """
        stepping, step = (DOPRI5, STEP) if reading == FIXED else (ODE45, TICK)
        name = "crank-slider" if printed else "crank-slider, consistent start"
        options = PRINTED if printed else ()
        given = 0.0 if reading == FIXED else STEP
        span = self.spans.crank
        return Run(name, "crank_slider", stepping, method, step, span, options, given_s=given, watch=("outputs",))

    def cranks(self, reading: str) -> dict[str, Run]:
        """{label of a stabilizer: run of the crank-slider with this stabilizer}.

        reading  meaning of the "time step" in the paper: FIXED (fixed step size of an integrator) or ONE_CALL (interval
                 between the outputs of one call of an adaptive solver)
        """
        methods = (NONE, B20, case2(), SAMPLED)
        return {method.label: self.crank(method, reading) for method in methods}

    def swept(self, stepping: Stepping) -> dict[str, list[Run]]:
        """{label of a stabilizer and a robot: runs with the stepper `stepping`, one for each step size in STEPS}.

        The runs with case 1 of the fuzzy controller simulate the triple pendulum. All other runs simulate the
        crank-slider.
        """
        span, found = self.spans.sweep, {}
        for case, robot, options, methods in (
            ("triple pendulum", "triple_pendulum", VARIANT, (CASE1,)),
            ("crank-slider", "crank_slider", PRINTED, (case2(), B20, SAMPLED)),
        ):
            for method in methods:
                name = f"{case}, sweep"
                found[f"{method.label}, {case}"] = [
                    Run(name, robot, stepping, method, step, span, options) for step in STEPS
                ]
        return found

    @property
    def all(self) -> tuple[Run, ...]:
        """All runs, without repetition."""
        found: list[Run] = [*self.twins()]
        for reading in (FIXED, ONE_CALL):
            found += [*self.triples(reading).values(), *self.cranks(reading).values()]
            found.append(self.crank(NONE, reading, printed=False))
        for stepping in FIXED_STEPPINGS:
            found += [run for runs in self.swept(stepping).values() for run in runs]
        return tuple(dict.fromkeys(found))

    @property
    def measured(self) -> tuple[Run, ...]:
        """Runs whose computing time is measured."""
        found = [run for runs in self.swept(DOPRI5).values() for run in runs]
        for reading in (FIXED, ONE_CALL):
            found += [*self.triples(reading).values(), *self.cranks(reading).values()]
        return tuple(found)
