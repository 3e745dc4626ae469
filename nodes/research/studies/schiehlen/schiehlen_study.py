"""`armswing reproduce schiehlen`: stability measures of the single and the double pendulum, figures 2 to 9."""

from __future__ import annotations

from typing import Any

from nodes.research.studies.framework.study import Assumption, Column, Plot, Results, Section, Study, Table, pace
from nodes.research.studies.schiehlen import schiehlen_figures as draw
from nodes.research.studies.schiehlen.schiehlen_claims import claims
from nodes.research.studies.schiehlen.schiehlen_runs import SPANS, STEP, Runs


def study(quick: bool = False, spans: str = "") -> Study:
    """Definition of the study: its claims, computations and page.

    quick  whether to use the smaller extent of a quick study
    spans  key of SPANS, such as "tiny" for tests; if `spans` is not "", `quick` has no effect on the extent
    """
    runs = Runs(SPANS[spans or ("quick" if quick else "full")])
    here, full = runs.spans, SPANS["full"]
    return Study(
        name="schiehlen",
        title="How far from the equilibrium a motion leads",
        paper="W. Schiehlen: Nonlinear oscillations in multibody systems: modeling and stability assessment. First "
        "European Nonlinear Oscillations Conference, Hamburg 1993.",
        summary="IS1 is the largest distance of a motion from the equilibrium over that of its start, IS2 the largest "
        "IS1 of all starts at one distance. A distance is the largest component (maximum norm). "
        "This page computes both for the paper's pendulums, with RK4 and the peaks "
        "between its steps, and judges what the paper says of its figures.",
        readings={
            "eq. 57 as corrected": "the first row's gravity has the sign of a restoring force, and the Coriolis terms "
            "have the factor λ₂, not its square or that of λ₁",
            "tumbling as unbounded": "an angle beyond π; the rates stay bounded by the energy",
            "dark: tumbles within T = 100": "the paper's grey scale is not stated",
        },
        assumptions=(
            Assumption("figure 9", "angles on ±π", "the paper's axes are lost"),
            Assumption("figure 8", "starts 10⁻⁶ apart at α₁ = α₂ = 2 and at figure 5's start", "the paper's are lost"),
            Assumption(
                "unit of time",
                f"1 s, as in the equations without units. {UNIT_OF_TIME}",
                "eqs. 51 and 57",
            ),
            Assumption("IS2", "a lower bound: a grid on the surface of the cube, refined", "no maximum is certain"),
            Assumption("step of maps and searches", f"{STEP:g}", "at half the step the shares agree to 0.001"),
        ),
        runs=(),
        claims=claims(),
        sections=sections(here.runs),
        parts=runs.parts,
        shortened=f"maps have {here.double_cells}² cells instead of {full.double_cells}² and searches {here.runs} "
        f"motions instead of {full.runs}",
        unshortened=(
            *("portrait", "example", "sensitivity"),
            *(["boundary"] if here.boundary == full.boundary else []),
        ),
        compared="The paper's figures and the numbers in them are lost; compared are r* = 1.478 and 0.72 of its text.",
        quick=quick,
        **pace(quick, spans),
    )


def sections(runs: int) -> tuple[Section, ...]:
    """Sections of the study's page that follow the table of claims.

    runs  number of motions in each search for the initial state with the largest growth; the page states this number
    """
    tall = (7.0, 6.0)
    return (
        Section(
            "single",
            "Single pendulum",
            "The equation of motion is φ'' + sin φ = 0. A start tumbles if its energy suffices to pass the top.",
            (
                Plot("is2_single", "Figure 2: IS2 over the distance of the start.", draw.is2_single, size=(7.5, 4.2)),
                Plot("portrait", "Figure 3: phase portrait and three squares of starts.", draw.portrait, size=(7.5, 5)),
                Plot("is1_single", "Figure 4: IS1 over the start.", draw.is1_single, size=tall),
            ),
            (Table("is2_single", "IS2 of the single pendulum.", lambda found: curve(found, "single curve"), COLUMNS),),
        ),
        Section(
            "double",
            "Double pendulum",
            "Two equal masses on equal rods. The lower arm can go over once the energy of a start exceeds that of the "
            "lower mass upright below the upper one at rest: 2.5 r² - 3 cos r + 1 = 0 for the start of most energy. "
            f"{UNIT_OF_TIME}",
            (
                Plot("trajectory", "Figure 5: rate of the lower arm, α₀ = (0.5, -0.5), rates 0.5.", draw.trajectory,
                     size=(7.5, 3.4)),
                Plot("is1_time", "Figure 6: IS1 of this motion over its duration.", draw.is1_time, size=(7.5, 3.6)),
                Plot("is2_double", "Figure 7: IS2 over the distance of the start.", draw.is2_double, size=(7.5, 4.2)),
                Plot("sensitivity", "Figure 8: distance of two motions from starts 10⁻⁶ apart.", draw.sensitivity,
                     size=(7.5, 3.8)),
                Plot("map", "Figure 9: IS1 over both angles, rates 0.5. Single dark cells depend on rounding; their "
                     "share does not.", draw.double_map, size=tall),
            ),
            (Table("is2_double", f"IS2 of the double pendulum, by a search of {runs} motions for each distance. A "
                   "short search may miss the few motions that tumble.", lambda found: curve(found, "double curve"),
                   COLUMNS),),
        ),
    )  # fmt: skip


UNIT_OF_TIME = (
    "Velocities are compared with angles by a unit of time of 1 s here. `measure` and `armswing robot map` take one "
    "over the lowest frequency by default, 1.307 s for the double pendulum, and then find other IS1 and IS2: for the "
    "numbers of this page, give time_unit_s=1.0 or --time-unit-s 1."
)
COLUMNS = {"r": Column("distance r (1)"), "is2": Column("IS2, at least (1)"), "tumbles": Column("tumbling found")}


def curve(results: Results, name: str) -> list[dict[str, Any]]:
    """Table rows of a curve of the stability measure IS2.

    IS2 is the largest factor by which the distance from the equilibrium grows, over all motions that start at the
    distance r. A row has r, IS2, and whether the motion with this factor tumbles.

    name  name under which the results contain the curve
    """
    found = results.parts[name]
    return [
        {"r": r, "is2": is2, "tumbles": over}
        for r, is2, over in zip(found["r"], found["is2"], found["tumbles"], strict=True)
    ]
