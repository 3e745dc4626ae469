"""`armswing reproduce gibbon`: how large model errors may be for a gibbon's planner on a cable."""

from __future__ import annotations

from typing import Any

from nodes.research.studies.framework.study import Assumption, Column, Plot, Results, Section, Study, Table, pace
from nodes.research.studies.gibbon import gibbon_figures as draw
from nodes.research.studies.gibbon.gibbon_claims import claims
from nodes.research.studies.gibbon.gibbon_runs import BELIEVED, DAMPING, SPANS, Runs


def study(quick: bool = False, spans: str = "") -> Study:
    """Definition of the study: its claims, computations and page.

    quick  whether to use the smaller extent of a quick study
    spans  key of SPANS, such as "tiny" for tests; if `spans` is not "", `quick` has no effect on the extent
    """
    runs = Runs(SPANS[spans or ("quick" if quick else "full")])
    return Study(
        name="gibbon",
        title="Hand over hand along a cable that is not as believed",
        paper="A study of our own: the cable is the beam of K. Lipinski, Applied Sciences 13 (2023) 3681, under "
        "tension.",
        summary="Two arms with an actuated elbow swing hand over hand along a tensioned cable. Each swing is planned "
        "by shooting on a model with half of the cable's modes, and planned anew in flight from what the robot can "
        "measure. This page makes the robot and the cable differ from that model and counts the hand-overs until one "
        "is missed.",
        readings={},
        assumptions=(
            Assumption("robot", "arms of 0.6 m and 5 kg, elbow torque up to 30 N m", "robots/gibbon/SOURCES.md"),
            Assumption("believed tension", f"{BELIEVED['tension']:g} N", "launch/gibbon_cable.toml"),
            Assumption("believed damping ratio", f"{DAMPING:g}", "robots/gibbon/SOURCES.md"),
            Assumption("what is measured", "joints, hands, grips, without noise", "chosen for this study"),
        ),
        own=True,
        runs=(),
        claims=claims(runs),
        sections=sections(runs),
        parts=runs.parts,
        shortened=f"{runs.spans.required} hand-overs instead of {SPANS['full'].required} and {len(runs.all)} runs "
        f"instead of {len(Runs(SPANS['full']).all)}",
        quick=quick,
        **pace(quick, spans),
    )


def sections(runs: Runs) -> tuple[Section, ...]:
    """Sections of the study's page that follow the table of claims."""
    motion = Plot(
        "motion",
        "The paths of the hands until one misses or enough hand-overs are made, and their places over time.",
        lambda results, figure: draw.motion(results, figure, runs),
        size=(10.5, 8.0),
    )
    errors = Plot(
        "errors",
        "Hand-overs in a row over the errors of tension and mass.",
        lambda results, figure: draw.errors(results, figure, runs),
        size=(7.5, 5.0),
    )
    damping = Plot(
        "damping",
        "Hand-overs in a row over the cable's damping, with the errors of the launch file; with plans in flight and "
        "with one plan per swing.",
        lambda results, figure: draw.damping(results, figure, runs),
        size=(7.5, 4.0),
    )
    return (
        Section(
            "motion",
            "Motion",
            "The tension is 10 % lower than believed, the arms 5 % heavier, and the cable has twice the modes.",
            (motion,),
        ),
        Section(
            "robustness",
            "Robustness",
            "Everything else is as in the launch file, with twice the believed modes.",
            (errors, damping),
            (Table("hand_overs", "Every run.", lambda results: rows(results, runs), COLUMNS),),
        ),
    )


COLUMNS = {
    "tension": Column("tension, more than believed (%)", 100.0),
    "mass": Column("mass of the arms, more than believed (%)", 100.0),
    "damping": Column("damping of the cable over the believed (1)"),
    "modes": Column("modes of the cable over the believed (1)"),
    "planned in flight": Column("planned anew in flight"),
    "hand-overs": Column("hand-overs in a row"),
    "seconds": Column("simulated time (s)"),
    "peak torque (N m)": Column("largest torque of the elbow (N m)"),
    "peak force of a hand (N)": Column("largest force of a hand (N)"),
}


def rows(results: Results, runs: Runs) -> list[dict[str, Any]]:
    """Rows of the result table, one per case."""
    found = []
    for case in runs.all:
        result = results.parts[case.name]
        found.append(
            {
                "tension": case.tension,
                "mass": case.mass,
                "damping": case.damping,
                "modes": case.modes,
                "planned in flight": case.replans,
                "hand-overs": result["hand_overs"],
                "seconds": result["seconds"],
                "peak torque (N m)": result["figures"]["peak_torque_n_m"],
                "peak force of a hand (N)": result["figures"]["peak_hand_force_n"],
            }
        )
    return found
