"""One system under every stabilizer: a call, a row for each, and a table of them.

rows = compare(assemble(build("triple_pendulum")), seconds=10.0, step_s=1e-3)
rich.print(table(rows))
"""

from __future__ import annotations

import dataclasses
import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim_core.errors import InvalidRequest, SimulationDiverged, StabilityWarning
from sim_core.integrators.steppers import Stepper
from sim_core.simulation import Simulation
from sim_core.stabilization.scalings import man, nada
from sim_core.stabilization.stabilizers import (
    PID,
    Baumgarte,
    DirectCorrection,
    Projection,
    SampledFuzzy,
    Stabilizer,
    stabilizer_named,
)
from sim_core.system import System

SAMPLE_S = 0.01  # the energy is looked at this often, and whether the mechanism is still in one piece

Choice = str | Stabilizer


@dataclass(frozen=True)
class Comparison:
    """What a run under one stabilizer came to.

    stabilizer         its label
    peak_phi           largest |Phi|_1 of every step, in the rows' own scaling; peak_phidot of |Phidot|_1
    energy_drift       largest departure of the energy from its start, J: what drives or brakes the mechanism counts too
    seconds_per_step   time on the clock, the only figure that differs from run to run
    evaluations        right-hand sides
    diverged_at        s: a state was no longer finite, or |Phi|_1 larger than the characteristic length; None: never
    stability_limit    the largest step that the stabilizer says it can bear, s; inf: any
    """

    stabilizer: str
    peak_phi: float
    peak_phidot: float
    energy_drift: float
    seconds_per_step: float
    evaluations: int
    diverged_at: float | None
    stability_limit: float


def compare(
    system: System,
    seconds: float,
    step_s: float,
    stabilizers: Mapping[str, Choice] | Sequence[Choice] | None = None,
    stepper: str | Stepper = "rk4",
) -> list[Comparison]:
    """A row for each stabilizer, from the mechanism's start; a run that diverges ends there and is a row as well.

    stabilizers  {label: stabilizer or its name}, or a sequence of them; None: `every_stabilizer`
    """
    steps = seconds / step_s if step_s > 0.0 else math.nan
    if not 0.5 <= steps < math.inf or abs(steps - round(steps)) > 1e-3:
        raise InvalidRequest(f"{seconds} s is not a whole number of steps of {step_s} s")
    if stabilizers is None:
        stabilizers = every_stabilizer(system, step_s, stepper)
    if not isinstance(stabilizers, Mapping):
        stabilizers = {label_of(choice): choice for choice in stabilizers}
    return [_run(system, round(steps), step_s, label, choice, stepper) for label, choice in stabilizers.items()]


def every_stabilizer(system: System, step_s: float, stepper: str | Stepper = "rk4") -> dict[str, Stabilizer]:
    """Every method of the papers and ours, by label, with the gains they use. [NadaBayoumi2024, sec. 4] [Man2025]

    Man's case 2 takes the violation that the first step leaves, and is there for a start in motion only.
    """
    found: dict[str, Stabilizer] = {
        "none": Stabilizer(),
        "baumgarte 5, 5": Baumgarte(5.0, 5.0),
        "baumgarte 5, 12": Baumgarte(5.0, 12.0),
        "baumgarte 1/h, sqrt2/h": Baumgarte(),
        "pid": PID(),
        "direct correction": DirectCorrection(),
        "direct correction, mass": DirectCorrection("mass"),
        "direct correction, inside rhs": DirectCorrection(inside_rhs=True),
        "projection": Projection(),
        "nada, set I": nada("I"),
        "nada, set II": nada("II"),
        "nada, set III": nada("III"),
        "man, case 1": man(case=1),
    }
    phi, phidot, speed = first_violation(system, step_s, stepper)
    if min(phi, phidot, speed) > 0.0:
        found["man, case 2"] = man(case=2, phi=phi, phidot=phidot, speed=speed)
    return found | {"sampled fuzzy": SampledFuzzy()}


def first_violation(system: System, step_s: float, stepper: str | Stepper = "rk4") -> tuple[float, float, float]:
    """|Phi|_1 and |Phidot|_1 after one step without stabilization, and |v|_2 at the start: Man's scaling of case 2."""
    sim = Simulation(system, step_s=step_s, stepper=stepper, stabilizer="none")
    sim.step()
    return (*sim.violation(), float(np.linalg.norm(system.mechanism.initial_v)))


def label_of(choice: Choice) -> str:
    """Its name, and what differs from the defaults: direct_correction(weight='mass')."""
    if isinstance(choice, str):
        return choice
    plain = stabilizer_named(choice.name)
    names = [field.name for field in dataclasses.fields(choice)]
    own = [f"{n}={getattr(choice, n)!r}" for n in names if getattr(choice, n) != getattr(plain, n)]
    return f"{choice.name}({', '.join(own)})" if own else choice.name


def _run(system: System, steps: int, step_s: float, label: str, choice: Choice, stepper: str | Stepper) -> Comparison:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StabilityWarning)  # the row says the limit
        sim = Simulation(system, step_s=step_s, stepper=stepper, stabilizer=choice)
    sim.step()  # whatever is compiled at first use is compiled here
    sim.reset()
    start, drift, spent = sim.energy(), 0.0, 0.0
    diverged_at: float | None = None
    sample = max(1, round(SAMPLE_S / step_s))
    while sim.tick < steps and diverged_at is None:
        begin = time.perf_counter()
        try:
            sim.step(min(sample, steps - sim.tick))
        except SimulationDiverged as error:
            error.file.unlink(missing_ok=True)
            diverged_at = error.time
        spent += time.perf_counter() - begin
        drift = max(drift, abs(sim.energy() - start))
        if not sim.peak_violation()[0] <= system.mechanism.characteristic_length:
            diverged_at = sim.time if diverged_at is None else diverged_at
    return Comparison(
        label,
        *sim.peak_violation(),
        drift,
        spent / max(sim.tick, 1),
        sim.evaluations,
        diverged_at,
        sim.stabilizer.stability_limit(sim.stepper, step_s),
    )


def table(rows: Sequence[Comparison], title: str = "") -> Any:
    """The rows as a table that rich prints, 80 columns wide."""
    from rich import box
    from rich.table import Table

    made = Table(title=title or None, box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    made.add_column("stabilizer", no_wrap=True)
    for heading in ("|Phi|", "|Phidot|", "energy, J", "us per step", "limit, ms", "apart at, s"):
        made.add_column(heading, justify="right", min_width=7)
    for row in rows:
        figures = [f"{value:.1e}" for value in (row.peak_phi, row.peak_phidot, row.energy_drift)]
        limit = "any" if math.isinf(row.stability_limit) else f"{row.stability_limit * 1e3:.3g}"
        end = "" if row.diverged_at is None else f"{row.diverged_at:.3g}"
        made.add_row(row.stabilizer, *figures, f"{row.seconds_per_step * 1e6:.1f}", limit, end)
    return made
