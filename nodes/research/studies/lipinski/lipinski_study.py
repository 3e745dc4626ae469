"""`armswing reproduce lipinski`: a double pendulum that slides on a beam. [Lipinski2023]"""

from __future__ import annotations

from nodes.research.studies.framework.study import Assumption, Plot, Section, Study, pace
from nodes.research.studies.lipinski import lipinski_figures as draw
from nodes.research.studies.lipinski.lipinski_claims import claims
from nodes.research.studies.lipinski.lipinski_runs import SPANS, Runs
from nodes.research.studies.lipinski.shapes import turns


def study(quick: bool = False, spans: str = "") -> Study:
    """Definition of the study: its runs, claims and page.

    quick  whether to use the shorter runs of a quick study
    spans  key of SPANS, such as "tiny" for tests; if `spans` is not "", `quick` has no effect on the runs
    """
    runs = Runs(SPANS[spans or ("quick" if quick else "full")])
    return Study(
        name="lipinski",
        title="A double pendulum that slides on a beam: Lipinski, run again",
        paper="K. Lipinski: Closed form constraint equations used to express frictionless slip of multibody systems "
        "attached to finite elements – application to a contact between a double pendulum and a beam. Applied Sciences "
        "13 (2023) 3681. doi:10.3390/app13063681",
        summary="Two arms hang on a beam of finite elements and slide along it without friction. The paper eliminates "
        "the contact's multiplier and one coordinate in closed form. This page runs its example in that form and in "
        "others that keep the multiplier, with the equations' misprints corrected, and adds a form for real time.",
        readings={},
        assumptions=assumptions(runs.spans.elements),
        runs=runs.all,
        claims=claims(runs),
        sections=sections(runs),
        measured=runs.measured,
        longest=Runs(SPANS["full"]).all,
        shortened=f"the beam has {runs.spans.elements} elements instead of {SPANS['full'].elements} where all nodes "
        "are coordinates, and some simulations are shorter",
        quick=quick,
        **pace(quick, spans),
    )


def assumptions(elements: int) -> tuple[Assumption, ...]:
    """Assumptions about quantities that the paper does not state."""
    return (
        Assumption("gravity", "10 m/s²", "not stated; at 9.81 the published torque has no equilibrium"),
        Assumption(
            "supports",
            "clamped at both ends, one free to slide along the beam",
            "not stated; on simple ones the beam hangs too steeply for its equations; simple beside it",
        ),
        Assumption("damping, tension of the beam", "none", "neither is given for the example"),
        Assumption(
            "elements where all nodes are coordinates",
            f"{elements}" + ("" if elements == 50 else " (50 in the full study, as in the paper)"),
            "modes are always those of 50 elements",
        ),
    )


def sections(runs: Runs) -> tuple[Section, ...]:
    """Sections of the study's page that follow the table of claims."""
    named = (
        ("all nodes", runs.reference),
        ("real time", runs.real_time()),
        ("simple supports", runs.modal(supports="simple")),
    )
    forms = tuple(runs.forms.items())
    return (
        Section(
            "motion",
            "Motion",
            "The torque between the arms is let go at the start. Past two seconds the motion is sensitive to the last "
            "digit, so that paths should not be compared there. The paper gives no numbers of its figures 4, 5: ours "
            "can be held beside them by eye. On simple supports the beam sags by four times as much, beyond what its "
            "equations can say.",
            (
                Plot(
                    "motion",
                    "Mid-span of the beam (the paper's figure 4), place of the contact, contact force.",
                    lambda results, figure: draw.motion(results, figure, runs),
                    curves=named,
                    size=(10.5, 7.0),
                ),
                Plot(
                    "poses",
                    "Beam and arms at six instants (the paper's figure 5), by the real-time form.",
                    lambda results, figure: draw.poses(results, figure, runs.supported),
                    size=(10.5, 4.2),
                ),
            ),
            (turns(runs),),
        ),
        Section(
            "formulations",
            "Formulations",
            "All with RK4 at 20 µs and every node of the beam. The partition has no row that could be violated; the "
            "others are stabilized.",
            (
                Plot(
                    "agreement",
                    "Differences from the partition.",
                    lambda results, figure: draw.agreement(results, figure, runs),
                    curves=forms,
                    size=(10.5, 4.4),
                ),
                Plot(
                    "energy",
                    "Energy: with the force of the contact as printed and across the deflected beam; and its size for "
                    "each formulation.",
                    lambda results, figure: draw.energies(results, figure, runs),
                    size=(10.5, 4.8),
                ),
            ),
        ),
        Section(
            "cost",
            "Step and cost",
            "Times are of this machine and differ from run to run.",
            (
                Plot(
                    "steps",
                    "Left: mid-span in 20 modes beside that of fine steps, over the step. Right: time that each form "
                    "takes; real time is the dashed line.",
                    lambda results, figure: draw.work(results, figure, runs),
                    size=(10.5, 4.2),
                ),
            ),
        ),
    )
