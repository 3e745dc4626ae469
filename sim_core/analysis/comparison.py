"""Comparison of stabilizers on one system, with one run and one row of a table per stabilizer.

rows = compare(assemble(build("triple_pendulum")), seconds=10.0, step_s=1e-3)
rich.print(table(rows))
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim_core.analysis.loss import advance_or_lose
from sim_core.errors import InvalidRequest, SimulationWarning
from sim_core.integrators.steppers import Stepper
from sim_core.monitoring.divergence import longest_step
from sim_core.simulation import Simulation
from sim_core.stabilization.registry import STABILIZERS, stabilizer_named, stabilizers_by_name
from sim_core.stabilization.stabilizers import PID, Baumgarte, DirectCorrection, Projection, SampledFuzzy, Stabilizer
from sim_core.system import System

SAMPLE_S = 0.01  # s between checks of the energy and the violation

AT_REST = "the start is at rest"
OF_THE_FIRST_STEP = ("phi", "phidot", "speed")  # what a stabilizer for starts in motion must be given
Choice = str | Mapping[str, Any] | Stabilizer  # a mapping holds name and parameters, as in a launch file


@dataclass(frozen=True)
class Comparison:
    """Result of a run with one stabilizer.

    stabilizer        label of the stabilizer
    peak_phi          largest 1-norm |Phi|_1 of the constraint violations Phi in the run; rows of different units are
                      added unscaled
    peak_phidot       largest 1-norm |Phidot|_1 of the rates of the constraint violations in the run
    energy_drift      largest change of the energy since the start, J; includes the work of actuators and dampers
    seconds_per_step  wall-clock time per time step, s, the only number that differs between identical runs; nan if the
                      run diverged before the time was measured
    evaluations       number of evaluations of the right-hand side
    diverged_at       simulation time, s, at which |Phi|_1 first exceeded the characteristic length, or after which no
                      further time step could be computed; None if the run did not diverge
    stability_limit   largest step size, s, for which both the stabilizer and the fastest mode of a beam are stable; inf
                      if they are stable for every step size, 0 if no step size is stable
    reason            why the run diverged: "violation", "not finite", "step went to zero" or "solver did not converge";
                      AT_REST if the stabilizer was not run because it needs a start in motion (`evaluations` is then 0,
                      and all other numbers are nan); otherwise ""
    """

    stabilizer: str
    peak_phi: float
    peak_phidot: float
    energy_drift: float
    seconds_per_step: float
    evaluations: int
    diverged_at: float | None
    stability_limit: float
    reason: str = ""


def compare(
    system: System,
    seconds: float,
    step_s: float,
    stabilizers: Mapping[str, Choice] | Sequence[Choice] | None = None,
    stepper: str | Stepper = "rk4",
) -> list[Comparison]:
    """Run the system once with each stabilizer, from the mechanism's start; returns one Comparison per stabilizer.

    A run that diverges ends early.

    seconds      simulation time of a run
    step_s       step size, s
    stabilizers  {label: choice}, or a sequence of choices; None for all that `every_stabilizer` returns. A choice is a
                 Stabilizer, the name of a stabilizer, or a mapping of name and parameters as in a launch file, such as
                 {"name": "baumgarte", "alpha": 3.0, "beta": 3.0}
    stepper      integration method: a name or a Stepper
    Issues StartWarning if the start violates the constraints. Stability warnings are suppressed, because each
    Comparison has its stability limit.
    """
    steps = seconds / step_s if step_s > 0.0 else math.nan
    if not 0.5 <= steps < math.inf or abs(steps - round(steps)) > 1e-3:
        raise InvalidRequest(f"argument 'seconds' is {seconds}; it must be a whole number of time steps of {step_s} s")
    Simulation(system, step_s=step_s, stepper=stepper, stabilizer="none")  # warns about the start, once
    all_of_them = stabilizers is None
    if stabilizers is None:
        stabilizers = every_stabilizer(system, step_s, stepper)
    if isinstance(stabilizers, str):
        raise InvalidRequest(
            f"argument 'stabilizers' is {stabilizers!r}; it must be a sequence of stabilizers, or a mapping "
            "{label: stabilizer}"
        )
    if not isinstance(stabilizers, Mapping):
        stabilizers = {label_of(choice): choice for choice in map(stabilizer_of, stabilizers)}
    chosen = {label: stabilizer_of(choice) for label, choice in stabilizers.items()}
    rows = [_run(system, round(steps), step_s, label, choice, stepper) for label, choice in chosen.items()]
    if all_of_them:
        none = math.nan
        left_out = [name for name in stabilizers_by_name() if _is_for_motion(name) and name not in chosen]
        rows += [Comparison(name, none, none, none, none, 0, None, none, AT_REST) for name in left_out]
    return rows


def every_stabilizer(system: System, step_s: float, stepper: str | Stepper = "rk4") -> dict[str, Stabilizer]:
    """{label: stabilizer} of all kinds of stabilizers, with gains from the literature, and of registered stabilizers.

    Some registered stabilizers have the parameters phi, phidot and speed, which get the results of `first_violation`.
    If one of these results is zero, as in a run from rest, these stabilizers are left out; `compare` then adds a row
    without numbers for each of them. [NadaBayoumi2024, sec. 4] [Man2025]
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
        "sampled fuzzy": SampledFuzzy(),
    }
    measured = dict(zip(OF_THE_FIRST_STEP, first_violation(system, step_s, stepper), strict=True))
    for name in stabilizers_by_name():
        if name in STABILIZERS:
            continue
        if not _is_for_motion(name):
            found[name] = stabilizer_named(name)
        elif min(measured.values()) > 0.0:
            found[name] = stabilizer_named(name, **measured)
    return found


def _is_for_motion(name: str) -> bool:
    """Whether a registered stabilizer has the parameters phi, phidot and speed, and so needs a start in motion."""
    if name in STABILIZERS:
        return False
    parameters = inspect.signature(stabilizers_by_name()[name]).parameters
    return all(key in parameters and parameters[key].default is inspect.Parameter.empty for key in OF_THE_FIRST_STEP)


def first_violation(system: System, step_s: float, stepper: str | Stepper = "rk4") -> tuple[float, float, float]:
    """(|Phi|_1, |Phidot|_1, |v|_2): constraint violation and its rate after one time step, and speed at the start.

    The time step is computed without a stabilizer.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimulationWarning)
        sim = Simulation(system, step_s=step_s, stepper=stepper, stabilizer="none")
    sim.step()
    return (*sim.violation(), float(np.linalg.norm(system.mechanism.initial_v)))


def stabilizer_of(choice: Choice) -> str | Stabilizer:
    """The stabilizer for a choice: a new one for a mapping; names and Stabilizer objects are returned unchanged.

    Raises InvalidRequest for a mapping without name or with invalid parameters.
    """
    if not isinstance(choice, Mapping):
        return choice
    if "name" not in choice:
        raise InvalidRequest(
            f"stabilizer {dict(choice)!r} has no name; write for example {{'name': 'baumgarte', 'alpha': 5.0}}"
        )
    return stabilizer_named(**choice)


def label_of(choice: str | Stabilizer) -> str:
    """Label of a stabilizer: its name and the parameters that differ from the defaults, as in
    direct_correction(weight='mass').
    """
    if isinstance(choice, str):
        return choice
    try:
        plain: Any = stabilizers_by_name()[choice.called]()
    except TypeError:  # it has no defaults
        plain = STABILIZERS[choice.name]()
    names = [field.name for field in dataclasses.fields(choice) if field.init]
    own = [f"{n}={getattr(choice, n)!r}" for n in names if getattr(choice, n) != getattr(plain, n)]
    return f"{choice.called}({', '.join(own)})" if own else choice.called


def _run(
    system: System, steps: int, step_s: float, label: str, choice: str | Stabilizer, stepper: str | Stepper
) -> Comparison:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimulationWarning)  # the row has the limit; `compare` warned about the start
        sim = Simulation(system, step_s=step_s, stepper=stepper, stabilizer=choice)
    sim.step()  # compiles, so that the timing does not include it
    sim.reset()
    start, drift, spent, timed = sim.energy(), 0.0, 0.0, 0
    reason = ""
    sample = max(1, round(SAMPLE_S / step_s))
    while sim.tick < steps and not reason:
        begin = time.perf_counter()
        reason = advance_or_lose(sim, min(sample, steps - sim.tick))
        if not reason:
            spent = spent + time.perf_counter() - begin
            drift, timed = max(drift, abs(sim.energy() - start)), sim.tick
    return Comparison(
        label,
        *sim.peak_violation(),
        drift,
        spent / timed if timed else math.nan,
        sim.evaluations,
        sim.time if reason else None,
        min(sim.stabilizer.stability_limit(sim.stepper, step_s), longest_step(system.mechanism.beams, sim.stepper)),
        reason,
    )


def table(rows: Sequence[Comparison], title: str = "") -> Any:
    """The comparisons as a `rich` table, 80 columns wide. A dash stands for a number that was not computed."""
    # only tables need it
    from rich import box
    from rich.table import Table

    made = Table(title=title or None, caption=CAPTION, caption_justify="left", box=box.SIMPLE_HEAD, padding=0)
    made.show_edge = False
    made.add_column("stabilizer", no_wrap=True)
    for heading in ("peak\n|Phi|", "peak\n|Phidot|", "energy,\nJ", "us per\nstep", "limit,\nms", "lost\nat, s"):
        made.add_column(heading, justify="right", no_wrap=True, min_width=6)
    for row in rows:
        figures = [f"{value:.1e}" for value in (row.peak_phi, row.peak_phidot, row.energy_drift)]
        first = math.isnan(row.seconds_per_step)
        made.add_row(
            row.stabilizer,
            *(["-", "-", "-", "-"] if first else [*figures, f"{row.seconds_per_step * 1e6:.1f}"]),
            limit_text(row.stability_limit),
            "-" if row.reason == AT_REST else "" if row.diverged_at is None else f"{row.diverged_at:.3g}",
        )
    return made


def limit_text(limit: float) -> str:
    """Text of a stability limit: the largest stable step size.

    The text is this step size in ms; "any" if every step size is stable; "none" if no step size is stable; "-" for nan.

    limit  largest stable step size, s: inf if every step size is stable, 0 if no step size is stable
    """
    if math.isnan(limit):
        return "-"
    return "any" if math.isinf(limit) else "none" if limit == 0.0 else f"{limit * 1e3:.3g}"


CAPTION = """|Phi|: sum over the rows, of m, rad or 1; |Phidot|: the same per s. energy: its largest change, by
dampers and actuators too. limit: the largest step that the method's linear theory calls stable;
any: every step is; none: no step is (inside rhs: the integrated state is not corrected, so that errors add up).
lost: |Phi| exceeded the longest lever arm, or there was no next state; numbers include the lost step.
Dashes alone: the method is for starts in motion, and this start is at rest.""".replace("\n", " ")
