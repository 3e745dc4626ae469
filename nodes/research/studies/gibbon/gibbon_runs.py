"""Runs of the gibbon's study.

Each run simulates, in one process, a robot and a cable that differ from the planner's model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import nodes
from nodes.framework.plan.launch_plan import NodePlan, Plan, SimPlan
from nodes.framework.simulation.compose import compose
from nodes.research.studies.framework.study import Part

BELIEVED = {"tension": 5000.0, "mass_scale": 1.0, "modes": 12.0}  # parameters of the planner's model; N, 1, 1
DAMPING = 0.01  # damping ratio of the cable in the planner's model
PLANNER: dict[str, Any] = {
    "parameters": BELIEVED,
    "torque_limit": 27.0,
    "tolerance_mm": 30.0,
    "above_mm": 15.0,
    "last_ms": 120.0,
    "rollout_step_ms": 6.0,
}
CONTROLLER = {"stiffness": 400.0, "damping": 40.0, "torque_limit": 30.0, "close_ms": 200.0}
SLICE_S, NEVER_MS = 0.02, 1e6
MISSED_S = 2.5  # a longer swing has missed the cable; successful swings take up to 1.5 s
PLACES = ("hand_a_x", "hand_a_z", "hand_b_x", "hand_b_z")


@dataclass(frozen=True, order=True)
class Case:
    """Deviations of the robot and the cable from the planner's model.

    tension, mass   relative deviation of the cable's tension and of the robot's mass; a positive value means that the
                    simulated value is larger than the value in the planner's model
    damping, modes  damping ratio and number of modes of the simulated cable, as multiples of the values in the
                    planner's model
    replans         whether swings are replanned in flight
    """

    tension: float = 0.0
    mass: float = 0.0
    damping: float = 1.0
    modes: int = 2
    replans: bool = True

    @property
    def name(self) -> str:
        """Name under which the results of the case are stored."""
        kept = f"tension {self.tension:+.2f}, mass {self.mass:+.2f}, damping {self.damping:g}, modes {self.modes}"
        return kept + ("" if self.replans else ", not replanned")


@dataclass(frozen=True)
class Spans:
    """Extent of a study.

    required          number of consecutive hand-overs that the claims require
    seconds           simulated duration, s
    tensions, masses  relative deviations of the cable's tension and of the robot's mass to simulate
    dampings          damping ratios to simulate, as multiples of the damping ratio in the planner's model
    """

    required: int
    seconds: float
    tensions: tuple[float, ...]
    masses: tuple[float, ...]
    dampings: tuple[float, ...]


SPANS = {
    "full": Spans(
        required=8,
        seconds=24.0,
        tensions=(-0.4, -0.2, -0.1, 0.0, 0.1, 0.2, 0.4),
        masses=(-0.2, -0.1, -0.05, 0.0, 0.05, 0.1, 0.2),
        dampings=(0.2, 0.5, 1.0, 2.0, 5.0),
    ),
    "quick": Spans(4, 24.0, (-0.1, 0.0, 0.1), (-0.05, 0.0, 0.05), (0.2, 1.0, 5.0)),
    "tiny": Spans(1, 1.5, (-0.1, 0.0), (0.0, 0.05), (1.0, 5.0)),
}
LAUNCHED = Case(tension=-0.1, mass=0.05)  # the model errors of launch/gibbon_cable.toml
BLIND = Case(tension=-0.1, mass=0.05, replans=False)


@dataclass(frozen=True)
class Runs:
    """Cases of the study, grouped by the question that they answer; `parts` lists the computations of all cases."""

    spans: Spans

    @property
    def grid(self) -> tuple[Case, ...]:
        """One case for each pair of a tension deviation in `spans.tensions` and a mass deviation in `spans.masses`."""
        return tuple(Case(tension, mass) for tension in self.spans.tensions for mass in self.spans.masses)

    @property
    def damped(self) -> tuple[Case, ...]:
        """One case for each damping ratio in `spans.dampings`.

        In all these cases, tension and mass deviate from the planner's model as in the launch file.
        """
        return tuple(Case(LAUNCHED.tension, LAUNCHED.mass, damping) for damping in self.spans.dampings)

    @property
    def once(self) -> tuple[Case, ...]:
        """The cases of `damped`, but each swing is planned only once and not replanned in flight."""
        return tuple(replace(case, replans=False) for case in self.damped)

    @property
    def all(self) -> tuple[Case, ...]:
        """All cases, without repetition."""
        return tuple(dict.fromkeys([LAUNCHED, Case(), Case(modes=1), *self.grid, *self.damped, *self.once]))

    @property
    def parts(self) -> tuple[Part, ...]:
        """Computations of the study, one per case."""
        return tuple(Part(case.name, partial(brachiate, case, self.spans), alone=False) for case in self.all)


def plan_of(case: Case, seconds: float) -> Any:
    """Launch plan that simulates a case for a number of seconds."""
    there: dict[str, float | str] = {
        "line": "cable",
        "tension": BELIEVED["tension"] * (1.0 + case.tension),
        "mass_scale": BELIEVED["mass_scale"] * (1.0 + case.mass),
        "modes": BELIEVED["modes"] * case.modes,
        "damping_ratio": DAMPING * case.damping,
    }
    believed = {**BELIEVED, "damping_ratio": DAMPING}
    planner = {**PLANNER, "parameters": believed, **({} if case.replans else {"period_ms": NEVER_MS})}
    return Plan(
        name="gibbon",
        folder=str(Path(nodes.__file__).parents[1]),
        duration_s=seconds,
        sim=SimPlan(robot="gibbon", parameters=there, mode="lockstep", step_ms=1.0, rate_hz=250.0),
        nodes=[
            NodePlan(name="planner", run="nodes/swing_planner.py:SwingPlanner", params=planner),
            NodePlan(name="controller", run="nodes/controllers/brachiation.py:Brachiation", params=CONTROLLER),
        ],
    )


def brachiate(case: Case, spans: Spans) -> dict[str, Any]:
    """Simulate one case until a hand-over is missed, `spans.required` hand-overs are made, or the time is over.

    Returns a table:

    hand_overs  number of consecutive hand-overs
    seconds     time at the end, s
    places      rows of five numbers: time (s), x and z (m) of hand a, x and z (m) of hand b
    figures     {name: value} of the results that the planner and the controller report
    """
    steps, held = round(SLICE_S * 1e3), 0.0
    with compose(plan_of(case, spans.seconds)) as run:
        controller = run.nodes["controller"].node
        places, done = [], 0
        for _ in range(round(spans.seconds / SLICE_S)):
            run.step(steps)
            outputs, counters = run.server.simulation.outputs(), controller.counters
            places.append([run.server.time, *(outputs[place] for place in PLACES)])
            done = counters["hand_overs"]
            held = run.server.time if outputs["hand_a_grips"] and outputs["hand_b_grips"] else held
            missed = run.server.time > held + MISSED_S or counters["regrips"] or counters["falls"]
            if missed or done >= spans.required:
                break
        figures = {**controller.figures, **run.nodes["planner"].node.figures}
    return {"hand_overs": done, "seconds": places[-1][0], "places": places, "figures": figures}
