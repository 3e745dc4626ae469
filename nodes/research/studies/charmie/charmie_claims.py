"""Claims of the CHARMIE paper in the project's words, and the rules that decide each claim. [GoncalvesEtAl2024]"""

from __future__ import annotations

from collections import Counter

import numpy as np

from nodes.research.studies.charmie.charmie_runs import COMPILED, MODELS, NUMPY, Times, Validation
from nodes.research.studies.framework.claims import Claim, Finding, Verdict, sci, verdict_of
from nodes.research.studies.framework.study import Results
from robots.charmie.point_clouds import connections
from robots.registry import build

OVERLAP = 1e-9  # largest distance between two computed positions of the claw that count as the same, m
IDENTICAL = 1e-9  # largest difference between two computed forces, as a fraction of the largest force
LINEAR = 0.15  # largest deviation of the middle model's time from the line through the others, as a fraction
SHARE = (0.60, 0.70)


def claims() -> tuple[Claim, ...]:
    """All claims of the study, in the order of the paper."""
    return (
        Claim(
            "bodies",
            "section 3.1",
            "40 rigid bodies on 34 revolute, 10 prismatic and 3 rigid joints; 21 degrees of freedom.",
            "the inventory in use here has these numbers.",
            count_bodies,
            ("poses",),
            met=Verdict.BUILT_IN,
        ),
        Claim(
            "rest",
            "section 6",
            "The robot is fully stopped after its movement.",
            "every joint velocity is 0 at the end, to rounding.",
            ends_at_rest,
            ("claw",),
            met=Verdict.BUILT_IN,
        ),
        Claim(
            "kinematics",
            "section 6, figure 12",
            "The positions of the claw from two programs overlap completely.",
            f"all coordinates of D12a agree to {sci(OVERLAP)} m at all instants compared.",
            same_claw,
            ("claw",),
            met=Verdict.CHECKED,
        ),
        Claim(
            "dynamics",
            "section 6, figure 13",
            "The forces of body 2 on body 3 from two programs are identical.",
            f"all components agree to {sci(IDENTICAL)} of the largest force at all instants compared.",
            same_force,
            ("floor",),
            met=Verdict.CHECKED,
        ),
        Claim(
            "loops",
            "section 6",
            "Leaving the closed and overconstrained loops out hardly changes the forces on the floor.",
            f"with loops and without, all components agree to {sci(IDENTICAL)} of the largest force.",
            same_without_loops,
            ("floor",),
            met=Verdict.BUILT_IN,
        ),
        *timed_claims(),
    )


def timed_claims() -> tuple[Claim, ...]:
    """Claims of the paper's table 5, on computing times."""
    return (
        Claim(
            "linear",
            "section 6, table 5",
            "The time of kinematics and of dynamics grows linearly with the number of bodies of the arms.",
            f"the arm with 4 bodies takes the mean of those with 2 and 6, within {100 * LINEAR:.0f} %, and they take "
            "more the more bodies they have.",
            grows_linearly,
            ("times",),
            timed=True,
        ),
        Claim(
            "share",
            "section 6, table 5",
            "Without inverse dynamics 60 to 70 % of the time is saved.",
            "the share that all four models save lies between 60 and 70 %, rounded to whole per cents.",
            share_of_dynamics,
            ("times",),
            timed=True,
        ),
        Claim(
            "bigger",
            "section 6, table 5",
            "The bigger the model, the greater that reduction.",
            "the share grows from each model to the next bigger one.",
            grows_with_size,
            ("times",),
            timed=True,
        ),
    )


def validation_of(results: Results) -> Validation:
    """The entry of the study's results for the validation motion."""
    found: Validation = results.parts["validation"]
    return found


def times(results: Results, model: str) -> Times:
    """The entry of the study's results with the computing times of `model`, a model in the paper's table 5."""
    found: Times = results.parts[model]
    return found


def count_bodies(results: Results) -> list[Finding]:
    """Judge the claim about the numbers of bodies, joints and degrees of freedom."""
    tree = build("charmie", limits="none")
    joints = connections(tree)
    bodies = {end for joint in joints for end in (joint.body_a, joint.body_b)} - {"ground"}
    kinds = Counter(joint.kind for joint in joints)
    free = len(tree.moving_joints)
    here = f"{len(bodies)} bodies, {kinds['R']} revolute, {kinds['P']} prismatic, {kinds['F']} rigid joints; {free} DOF"
    holds = (len(bodies), kinds["R"], kinds["P"], kinds["F"], free) == (40, 34, 10, 3, 21)
    return [Finding("our inventory", here, verdict_of(holds), {"bodies": len(bodies), "joints": len(joints)})]


def ends_at_rest(results: Results) -> list[Finding]:
    """Check that all joint velocities are zero at the end of the motion."""
    speed = validation_of(results).last_speed
    here = f"largest joint velocity at the end: {sci(speed)}"
    return [Finding("validation motion", here, verdict_of(speed <= 1e-12), {"speed": speed})]


def same_claw(results: Results) -> list[Finding]:
    """Compare the claw's position with the positions that other simulation engines compute."""
    found = []
    for name, other in validation_of(results).others.items():
        apart = float(np.nanmax(np.abs(other.claw - validation_of(results).ours.claw)))
        here = f"at most {sci(apart)} m apart"
        found.append(Finding(f"beside {name}", here, verdict_of(apart <= OVERLAP), {"apart_m": apart}))
    return found


def _relative(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.nanmax(np.abs(one - other)) / np.nanmax(np.abs(one)))


def same_force(results: Results) -> list[Finding]:
    """Compare the force of body 2 on body 3 with the forces that other simulation engines compute."""
    found = []
    for name, other in validation_of(results).others.items():
        apart = _relative(validation_of(results).ours.force, other.force)
        here = f"at most {sci(apart)} of the largest force apart"
        found.append(Finding(f"beside {name}", here, verdict_of(apart <= IDENTICAL), {"relative": apart}))
    return found


def same_without_loops(results: Results) -> list[Finding]:
    """Compare the force of body 2 on body 3 with and without step 7 of the paper's algorithm.

    Step 7 adds the loads of the closed loops. Without step 7, the mechanism is computed as an open tree.
    """
    apart = _relative(validation_of(results).ours.force, validation_of(results).open_tree)
    here = f"at most {sci(apart)} of the largest force apart; the loops push on links 3 to 5 alone"
    return [Finding("with and without step 7", here, verdict_of(apart <= IDENTICAL), {"relative": apart})]


def grows_linearly(results: Results) -> list[Finding]:
    """Check that the computing times of the first three models in MODELS grow linearly with the number of bodies.

    These models are serial arms of 2, 4 and 6 bodies. The implementation in numpy and the compiled implementation are
    checked separately.
    """
    found = []
    for way in (NUMPY, COMPILED):
        arms = [times(results, model) for model in MODELS[:3]]
        for what in ("kinematics", "with dynamics"):
            small, middle, large = ((arm.kinematics if what == "kinematics" else arm.whole)[way] for arm in arms)
            off = middle / ((small + large) / 2) - 1
            holds = abs(off) <= LINEAR and small < middle < large
            here = f"{_ms(small)}, {_ms(middle)}, {_ms(large)} for 2, 4, 6 bodies: {100 * off:+.0f} % off the line"
            found.append(Finding(f"{way}, {what}", here, verdict_of(holds), {"off": off}))
    return found


def saved(results: Results, way: str) -> list[float]:
    """For each model in MODELS, the fraction of the computing time that is saved if dynamics is not computed.

    way  implementation, NUMPY or COMPILED
    """
    found = [times(results, model) for model in MODELS]
    return [1 - each.kinematics[way] / each.whole[way] for each in found]


def share_of_dynamics(results: Results) -> list[Finding]:
    """Check that computing the kinematics without the dynamics saves a fraction of the computing time.

    The fraction must be in the paper's range.
    The implementation in numpy and the compiled implementation are checked separately.
    """
    return [
        Finding(way, _shares(results, way), _within(saved(results, way)), _named(results, way))
        for way in (NUMPY, COMPILED)
    ]


def _within(shares: list[float]) -> Verdict:
    return verdict_of(all(SHARE[0] <= round(share, 2) <= SHARE[1] for share in shares))


def grows_with_size(results: Results) -> list[Finding]:
    """Check that leaving out dynamics saves a larger fraction of the computing time for larger models.

    The implementation in numpy and the compiled implementation are checked separately.
    """
    return [
        Finding(
            way,
            _shares(results, way),
            verdict_of(bool(np.all(np.diff(saved(results, way)) > 0.0))),
            _named(results, way),
        )
        for way in (NUMPY, COMPILED)
    ]


def _shares(results: Results, way: str) -> str:
    shares = saved(results, way)
    return ", ".join(f"{name} {100 * share:.0f} %" for name, share in zip(MODELS, shares, strict=True))


def _named(results: Results, way: str) -> dict[str, float]:
    return dict(zip(MODELS, saved(results, way), strict=True))


def _ms(seconds: float) -> str:
    return f"{sci(1e3 * seconds)} ms"
