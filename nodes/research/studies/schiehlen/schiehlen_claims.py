"""Claims of Schiehlen's paper on stability measures, and the rules that decide them. [Schiehlen1993]"""

from __future__ import annotations

import numpy as np

from nodes.research.studies.framework.claims import Claim, Finding, Verdict, sci, verdict_of
from nodes.research.studies.framework.study import Results
from nodes.research.studies.schiehlen.schiehlen_runs import CRITICAL, is1_of_single, is2_of_single

GROWN = 1e4  # growth of the distance of two motions that counts as chaotic


def claims() -> tuple[Claim, ...]:
    """All claims of the study, in the order of the study's page."""
    return (
        Claim(
            "single IS2",
            "eq. 54, figure 2",
            "IS2 of the single pendulum is arccos(cos r - r²/2) / r.",
            "The search over starts finds the closed form within 10⁻⁵ at every bounded radius of the curve up to 1.47.",
            _single_is2,
            ("is2_single",),
        ),
        Claim(
            "critical radius",
            "eq. 55, figure 2",
            "Beyond r* = 1.478 the motion is unbounded.",
            "The radius from which the search finds a motion that tumbles is within 0.002 of 1.478.",
            _critical,
            ("is2_single", "portrait"),
        ),
        Claim(
            "single IS1",
            "eqs. 52 and 53, figure 4",
            "IS1 of the single pendulum has a closed form, and the simulation gives the same.",
            "Every cell of the map off the separatrix agrees within 10⁻⁵, and tumbles if the formula does.",
            _single_is1,
            ("is1_single",),
        ),
        Claim(
            "velocities",
            "section 3.3, figure 4",
            "Initial velocities are more critical than initial displacements.",
            "At every radius of the map's axis up to 1.9, IS1 of a rate alone exceeds that of a displacement alone.",
            _velocities,
            ("is1_single",),
        ),
        Claim(
            "example",
            "figures 5 and 6",
            "IS1_T of one start grows with T and settles. The figures' numbers are lost.",
            "IS1_T never falls, its last half grows less than its first, and scipy's DOP853 agrees within 2·10⁻⁵.",
            _example,
            ("trajectory", "is1_time"),
            met=Verdict.CHECKED,
        ),
        Claim(
            "sensitive",
            "figures 2 and 7",
            "The double pendulum is much more sensitive to initial disturbances than the single one.",
            "At every radius of the curve, IS2 of the double pendulum is at least twice that of the single one.",
            _sensitive,
            ("is2_double",),
        ),
        Claim(
            "boundary",
            "section 3.4, figure 7",
            "Motions are bounded up to ‖x₀‖ = 0.72.",
            "The search finds no tumbling at 0.7126 and some at 0.713; 0.72 is within 0.01 of the boundary.",
            _boundary,
            ("is2_double",),
        ),
        Claim(
            "chaos",
            "section 3.4",
            "The boundary is due to chaotic behaviour and not to simple instability.",
            f"Neighbours of the worst motions part {GROWN:.0e}-fold on both sides of the boundary; and the boundary is "
            "not where the energy of a start first suffices for the lower arm to go over.",
            _chaos,
            ("is2_double",),
        ),
        Claim(
            "initial conditions",
            "figure 8",
            "The motion in the dark regions is very sensitive to the initial conditions.",
            f"Two motions part {GROWN:.0e}-fold from a start in a dark region, and at most a hundredth of that from "
            "the middle.",
            _initial_conditions,
            ("sensitivity",),
        ),
        Claim(
            "regions",
            "figure 9",
            "There are two clearly separated regions, dark ones left and right and a light one between.",
            "9 of 10 cells with |α₁| > 2 tumble, none with both angles below 0.5 does, and 9 of 10 cells that do "
            "not tumble form one region.",
            _regions,
            ("map",),
        ),
        Claim(
            "share",
            "figure 9",
            "Of the map on ±π, 0.726 of the cells tumble within T = 100. Single chaotic cells cannot be compared.",
            "Another integrator, on starts drawn at random, finds the share of the map within three standard errors.",
            _share,
            ("map",),
            met=Verdict.HOLDS,
        ),
    )


def _single_is2(results: Results) -> list[Finding]:
    curve = results.parts["single curve"]
    pairs = [(r, is2) for r, is2 in zip(curve["r"], curve["is2"], strict=True) if r <= 1.47]
    worst = max(abs(is2 - is2_of_single(r)) for r, is2 in pairs)
    here = f"largest difference {sci(worst)} at {len(pairs)} radii"
    return [Finding("as printed", here, verdict_of(worst <= 1e-5), {"largest difference": worst})]


def _critical(results: Results) -> list[Finding]:
    found = results.parts["single curve"]["critical"]
    here = f"tumbling from {found:.4f} on; the root of r² = 2 (1 + cos r) is {CRITICAL:.5f}"
    return [Finding("as printed", here, verdict_of(abs(found - 1.478) <= 2e-3), {"radius": found})]


def _single_is1(results: Results) -> list[Finding]:
    found = results.parts["single map"]
    here = (
        f"{found['compared']} cells: largest difference {sci(found['difference'])}, {found['missed']} judged otherwise"
    )
    holds = found["difference"] <= 1e-5 and found["missed"] == 0
    figures = {"largest difference": found["difference"], "judged otherwise": float(found["missed"])}
    return [Finding("as printed", here, verdict_of(holds), figures)]


def _velocities(results: Results) -> list[Finding]:
    axis = results.parts["single map"]["axis"]
    radii = axis[(axis > 0) & (axis < 1.9)]
    none = np.zeros_like(radii)
    rates, angles = (is1_of_single(np.stack(pair, axis=1)) for pair in ((none, radii), (radii, none)))
    good = int((rates > angles).sum())
    here = f"at {good} of {len(radii)} radii; at the largest {rates[-1]:.3f} and {angles[-1]:.3f}"
    condition = "each disturbance alone, the other zero"
    return [Finding(condition, here, verdict_of(good == len(radii)), {"radii": float(good)})]


def _example(results: Results) -> list[Finding]:
    found = results.parts["example"]
    ours, other = found["ours"], found["other"]
    difference = max(abs(a - b) for a, b in zip(ours, other, strict=True))
    at = found["is1"][[0, len(found["is1"]) // 2, -1]]
    holds = difference <= 2e-5 and sorted(ours) == ours and at[2] - at[1] < at[1] - at[0]
    values = ", ".join(f"{is1:.4f} (T = {mark:g})" for is1, mark in zip(ours, found["marks"], strict=True))
    here = f"IS1_T {values}; DOP853 differs by {sci(difference)}"
    figures = {f"T = {mark:g}": is1 for is1, mark in zip(ours, found["marks"], strict=True)}
    return [Finding("eq. 57 as corrected", here, verdict_of(holds), figures)]


def _sensitive(results: Results) -> list[Finding]:
    curve = results.parts["double curve"]
    ratios = [is2 / is2_of_single(r) for r, is2 in zip(curve["r"], curve["is2"], strict=True)]
    here = f"{min(ratios):.2f} times as much at the least"
    return [
        Finding(
            "double against single pendulum, at equal radii",
            here,
            verdict_of(min(ratios) >= 2.0),
            {"least ratio": min(ratios)},
        )
    ]


def _boundary(results: Results) -> list[Finding]:
    found = results.parts["boundary"]
    below, above = found["below"], found["above"]
    words = {False: "no tumbling", True: "tumbling"}
    here = f"{words[below['tumbles']]} at {below['r']:g} (IS2 {below['is2']:.3f}), {words[above['tumbles']]} at "
    here += (
        f"{above['r']:g}, in {above['runs']} motions each; the energy of a start suffices from {found['least']:.5f} on"
    )
    holds = not below["tumbles"] and above["tumbles"] and abs(above["r"] - 0.72) < 0.01
    figures = {"IS2 below": below["is2"], "IS2 above": above["is2"], "least radius": found["least"]}
    return [Finding("unbounded read as tumbling", here, verdict_of(holds), figures)]


def _chaos(results: Results) -> list[Finding]:
    found = results.parts["boundary"]
    gaps = [found[side]["gap"] for side in ("below", "above")]
    here = f"neighbours part {sci(gaps[0])}-fold below the boundary and {sci(gaps[1])}-fold above"
    figures = {"growth below": gaps[0], "growth above": gaps[1]}
    chaotic = Finding("whether motions at the boundary are chaotic", here, verdict_of(min(gaps) >= GROWN), figures)
    at_energy = abs(found["least"] - found["above"]["r"]) < 1e-3
    here = (
        f"2.5 r² - 3 cos r + 1 = 0 at {found['least']:.5f}: below it the energy of no start lets the lower arm go over"
    )
    known = not found["below"]["tumbles"] and found["above"]["tumbles"]
    verdict = verdict_of(not at_energy) if known else Verdict.OPEN
    place = Finding("whether chaos determines the boundary", here, verdict, {"least radius": found["least"]})
    return [chaotic, place]


def _initial_conditions(results: Results) -> list[Finding]:
    found = results.parts["sensitivity"]
    dark, light = (float(found[name].max() / found[name][0]) for name in ("dark", "light"))
    here = f"{sci(dark)}-fold in a dark region, {sci(light)}-fold in the middle"
    return [
        Finding(
            "growth of the distance of starts 10⁻⁶ apart",
            here,
            verdict_of(dark >= GROWN >= 100 * light),
            {"dark": dark, "middle": light},
        )
    ]


def _regions(results: Results) -> list[Finding]:
    found = results.parts["map"]
    here = f"{found['sides']:.3f} of the cells at the sides tumble and {found['center']:.3f} in the middle; "
    here += f"{found['middle']:.3f} of the others form one region"
    holds = found["sides"] >= 0.9 and found["center"] == 0.0 and found["middle"] >= 0.9
    figures = {"sides": found["sides"], "center": found["center"], "middle": found["middle"]}
    return [Finding("a dark cell is a start that tumbles within T = 100", here, verdict_of(holds), figures)]


def _share(results: Results) -> list[Finding]:
    found, other = results.parts["map"], results.parts["check"]
    here = f"{found['share']:.4f} of {found['tumbles'].size} cells; {other['share']:.4f} ± {other['error']:.4f} of "
    here += f"{other['cells']} starts by DOP853 (ours on the same starts: {other['ours']:.4f})"
    holds = abs(found["share"] - other["share"]) <= 3 * other["error"]
    figures = {"share": found["share"], "other": other["share"], "standard error": other["error"]}
    return [Finding("rates 0.5, angles on ±π", here, verdict_of(holds), figures)]
