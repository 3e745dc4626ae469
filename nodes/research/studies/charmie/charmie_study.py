"""`armswing reproduce charmie`: validation and uses of CHARMIE's multibody model. [GoncalvesEtAl2024]"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from nodes.research.studies.charmie import charmie_figures as figures
from nodes.research.studies.charmie.actuator_loads import load_report
from nodes.research.studies.charmie.charmie_claims import claims, saved, times, validation_of
from nodes.research.studies.charmie.charmie_runs import COMPILED, MODELS, NUMPY, clouds, springs, times_of, validation
from nodes.research.studies.charmie.spring_study import SpringStudy
from nodes.research.studies.framework.study import Assumption, Column, Part, Plot, Results, Section, Study, Table, pace

# Numbers of instants of the validation motion, instants computed by the slow reference, steps timed, and instants of
# the motion for the springs.
EXTENTS = {"full": (501, 101, 1000, 121), "quick": (101, 21, 200, 61), "tiny": (21, 3, 5, 7)}
MOMENTS = (0.0, 1.3, 5.0)


def study(quick: bool = False, spans: str = "") -> Study:
    """Definition of the study: its claims, computations and page.

    quick  whether to compute fewer instants and measure fewer time steps
    spans  key of EXTENTS, such as "tiny" for tests; if `spans` is not "", `quick` has no effect on the extent
    """
    samples, checked, steps, tuned = EXTENTS[spans or ("quick" if quick else "full")]
    return Study(
        name="charmie",
        title="Seven steps to the loads of CHARMIE: Gonçalves and co-authors, computed again",
        paper="F. Gonçalves, T. Ribeiro, A. F. Ribeiro, G. Lopes, P. Flores: Multibody model of the human-inspired "
        "robot CHARMIE. Multibody System Dynamics 60 (2024) 93–120. doi:10.1007/s11044-023-09933-5",
        summary="The paper computes the kinematics and inverse dynamics of a mobile manipulator body by body, divides "
        "the loads of its closed loops by simplifying rules, and checks a 5 s motion against a commercial program. "
        "This page computes the motion again, beside programs that share no code with ours, and uses the loads for "
        "what the paper wants them for. Its tables did not reach us: see what we assumed.",
        readings=READINGS,
        assumptions=ASSUMPTIONS,
        runs=(),
        claims=claims(),
        sections=sections(),
        compared="No figure of the paper's tables or curves is compared here, for none reached us. Of the numbers "
        "in its text the counts of bodies and joints chose ours, and the share of time saved without dynamics is "
        "compared.",
        shortened=f"{samples} of {EXTENTS['full'][0]} instants, and {steps} of {EXTENTS['full'][2]} steps timed",
        parts=(
            Part("validation", partial(validation, samples, checked)),
            Part("clouds", partial(clouds, MOMENTS)),
            Part("springs", partial(springs, tuned)),
            *(Part(model, partial(times_of, model, steps)) for model in MODELS),
        ),
        quick=quick,
        **pace(quick, spans),
    )


READINGS = {
    "validation motion": "All joints start at 0, both body actuators at 400 mm. Reference accelerations of π/9 rad/s² "
    "(every revolute joint but the tilt, which its actuator moves), 3 mm/s² (lengths of the two body actuators) and "
    "30 mm/s² (base x and y) act with −1 for 2.5 s and with +1 for 2.5 s.",
    "another program": "The paper's is commercial. Here it is our slow reference, which carries positions as jets "
    "along the joints' motion and adds up mass times acceleration, and pinocchio, where installed, on our own URDF.",
    NUMPY: "Forward kinematics with the points of every body, then Newton–Euler body by body and, for CHARMIE, the "
    "closed loops: the paper's way, readable and slow.",
    COMPILED: "Poses of all bodies, then joint efforts, by the kernels a simulation runs on; CHARMIE's: its open tree.",
}

ASSUMPTIONS = (
    Assumption(
        "geometry, masses, inertias",
        "robots/charmie/charmie.toml",
        "the paper's tables 1 to 4 are not to be had; figures of the robot's public description, of another arm of the "
        "class, or ours: robots/charmie/SOURCES.md says which",
    ),
    Assumption(
        "axes of the arm joints", "z, x, z, x, z, x; claw x", "table 2 is lost; z runs along the parts, as it says"
    ),
    Assumption(
        "which 40 bodies",
        "24 of the main chains, 14 in the loops, 2 counterpart fingers",
        "figure 3 is lost; only so do all four counts of the text come out",
    ),
    Assumption("arms with 2, 4 and 6 joints", "CHARMIE's arm, welded where no joint moves", "they are named only"),
    Assumption(
        "frame of figure 13",
        "body 3's own axes",
        "the paper writes all loads in the axes of the body they act on",
    ),
    Assumption(
        "motion for the springs",
        "6 s: once down and up, twice forward 0.9 rad, elbows bending",
        "the paper names the study and no motion; bounds 20 kN/m and 500 N are ours",
    ),
)


def sections() -> tuple[Section, ...]:
    """Sections of the study's page that follow the table of claims."""
    return (
        Section(
            "robot",
            "The 40 bodies",
            "Boxes around every body, from the point clouds: main chains black, linear actuators orange, springs and "
            "balancing mechanism green, counterpart fingers pink. The blue dot is the hand of the left arm.",
            (
                Plot(
                    "poses",
                    "The validation motion at its start, at 1.3 s (as in figure 11b) and at its end.",
                    figures.poses,
                    size=(12.5, 4.4),
                ),
            ),
        ),
        validation_section(),
        Section(
            "cost",
            "What 1000 steps cost",
            "Times are of this machine and differ from run to run; the paper's are of a Ryzen 5 5600X. The viewer is a "
            "process of its own, so that drawing takes nothing of this time.",
            (
                Plot(
                    "times",
                    "Time of 1000 steps over the number of bodies, and the share saved without dynamics (table 5).",
                    figures.computed,
                    size=(10.5, 4.6),
                ),
            ),
            (Table("table5", "Table 5 of this machine: 1000 steps.", table5, TIMES),),
        ),
        loads_section(),
        springs_section(),
    )


def validation_section() -> Section:
    """Section of the study's page with figures 12 and 13 of the paper."""
    return Section(
        "validation",
        "The validation motion",
        "Lines are ours, marks are the others': where they part by more than a pixel, something is wrong.",
        (
            Plot("claw", "D12a, centre of the left claw, in the world (figure 12).", figures.claw, size=(11.5, 4.0)),
            Plot("floor", "Force of body 2 on body 3, in body 3's axes (figure 13).", figures.floor, size=(11.5, 4.0)),
        ),
        (Table("validation", "The curves, and the efforts of all actuators.", validation_rows, shown=False),),
    )


def loads_section() -> Section:
    """Section on actuator loads, the first use that the paper makes of the model."""
    return Section(
        "loads",
        "Actuator loads",
        "Step 7 gives the forces of both linear actuators and of the springs; the other joints are driven directly.",
        (
            Plot(
                "actuators",
                "Forces and torques over the validation motion.",
                figures.actuators,
                size=(11.5, 4.6),
            ),
        ),
        (
            Table(
                "actuator_loads",
                "Every actuator over the validation motion.",
                lambda results: loads_rows(results, validation_of(results).efforts),
                LOADS,
            ),
        ),
    )


def springs_section() -> Section:
    """Section on the balancing springs, the second use that the paper makes of the model."""
    return Section(
        "springs",
        "The balancing springs",
        "Stiffness and pretension of the springs that ask least of the actuators (RMS force) while the robot squats "
        "and leans; where they are fixed stays as it is. Actuator forces are linear in both numbers, so that the "
        "optimum within the bounds (0 to 20 kN/m, 0 to 500 N) is exact. A number that a bound holds is named.",
        (
            Plot(
                "springs",
                "Actuator forces over the motion with the springs of the parameter file, and with better ones.",
                figures.tuned_springs,
                size=(11.0, 4.4),
            ),
        ),
        (
            Table("springs", "The springs before and after.", springs_rows, SPRINGS),
            Table(
                "squat_loads",
                "Every actuator over the squat with the springs as they are.",
                lambda results: loads_rows(results, results.parts["springs"].before),
                LOADS,
            ),
        ),
    )


TIMES = {
    "model": Column("model"),
    "bodies": Column("bodies"),
    "way": Column("way"),
    "kinematics_s": Column("kinematics alone (ms)", 1e3),
    "with_dynamics_s": Column("with dynamics (ms)", 1e3),
    "saved_without_dynamics": Column("saved without dynamics (%)", 100.0),
}
LOADS = {
    "name": Column("actuator"),
    "unit": Column("unit of efforts"),
    "limit": Column("limit"),
    "peak": Column("largest effort"),
    "rms": Column("RMS effort"),
    "peak_share": Column("largest, of the limit (%)", 100.0),
    "rms_share": Column("RMS, of the limit (%)", 100.0),
    "peak_power": Column("largest power (W)"),
    "most_braking": Column("largest braking power (W)"),
}
SPRINGS = {
    "spring": Column("spring"),
    "state": Column("numbers"),
    "stiffness_N_per_m": Column("stiffness (N/m)"),
    "pretension_N": Column("pretension (N)"),
    "at_its_bound": Column("held by a bound"),
    "actuator": Column("actuator beside it"),
    "actuator_rms_N": Column("RMS force of the actuator (N)"),
}


def table5(results: Results) -> list[dict[str, Any]]:
    """Rows of table 5, one per model and implementation."""
    rows = []
    for way in (NUMPY, COMPILED):
        for model, share in zip(MODELS, saved(results, way), strict=True):
            found = times(results, model)
            row = {"model": model, "bodies": found.bodies, "way": way, "kinematics_s": found.kinematics[way]}
            rows.append(row | {"with_dynamics_s": found.whole[way], "saved_without_dynamics": share})
    return rows


def validation_rows(results: Results) -> list[dict[str, Any]]:
    """One row per instant: claw position (m), force of body 2 on body 3 (N), efforts of all actuators (N or N m)."""
    found = validation_of(results)
    names = ["t_s", *(f"claw_{axis}_m" for axis in "xyz"), *(f"force_{axis}_N" for axis in "xyz")]
    names += [f"effort_{actuator.name}" for actuator in found.efforts.actuators]
    columns = [found.times[:, None], found.ours.claw, found.ours.force, found.efforts.effort]
    return [dict(zip(names, row, strict=True)) for row in np.hstack(columns).tolist()]


def loads_rows(results: Results, efforts: Any) -> list[dict[str, Any]]:
    """Rows of the load table, one per actuator."""
    return [asdict(row) for row in load_report(efforts)]


def springs_rows(results: Results) -> list[dict[str, Any]]:
    """Rows of the spring table: for each spring, one row before tuning and one row after tuning."""
    study: SpringStudy = results.parts["springs"]
    return [
        {
            "spring": tuned.spring,
            "state": state,
            "stiffness_N_per_m": spring.stiffness,
            "pretension_N": spring.pretension,
            "at_its_bound": ", ".join(tuned.at_bound) if state == "after" else "",
            "actuator": tuned.actuator,
            "actuator_rms_N": rms,
        }
        for tuned in study.tuned
        for state, spring, rms in (
            ("before", tuned.before, tuned.rms_before),
            ("after", tuned.after, tuned.rms_after),
        )
    ]
