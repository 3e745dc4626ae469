"""Claims of Lipinski's paper, claims on this study's real-time formulation, and the rules that decide these claims.

[Lipinski2023]
"""

from __future__ import annotations

import numpy as np

from nodes.research.studies.framework.claims import Claim, Finding, Verdict, sci, verdict_of
from nodes.research.studies.framework.study import Results
from nodes.research.studies.lipinski.lipinski_runs import (
    ALPHA,
    FORMS,
    MIDPOINT,
    PARTITIONED,
    POSES,
    Runs,
    apart,
    drift,
    from_table,
)
from nodes.research.studies.lipinski.shapes import deep_claim, steep_claim
from robots.benchmarks.lipinski import ARM_MASS, LOWER_LENGTH
from robots.registry import build
from sim_core.errors import InvalidRequest

AGREE = (1e-7, 1e-7, 1e-8, 1e-8, 0.5)  # m, m, rad, rad, N
FOLLOW = (2e-4, 1e-4, 2e-4, 2e-4)  # m, m, rad, rad
KEPT, KEPT_AT_1_MS = 1e-6, 3e-3  # J
CLOSED = 1e-6  # m
KEPT_BY_PRINT = 0.1  # J
TIMES_REAL = 100.0
OURS = 10.0  # gravity assumed, m/s2
QUANTITIES = ("mid-span", "contact", "q3", "q4", "contact force")
UNITS = ("m", "m", "rad", "rad", "N")


def claims(runs: Runs) -> tuple[Claim, ...]:
    """All claims of the study: the paper's claims in the paper's order, and the project's own."""
    return (
        printed_claim(runs),
        partition_claim(runs),
        energy_claim(runs),
        preload_claim(),
        deep_claim(runs),
        contact_claim(runs),
        real_time_claim(runs),
        cost_claim(runs),
        steep_claim(runs),
    )


def _apart_text(largest: np.ndarray) -> str:
    named = zip(QUANTITIES, largest, UNITS, strict=False)
    return ", ".join(f"{name} {sci(float(value))} {unit}" for name, value, unit in named)


def _figures(largest: np.ndarray) -> dict[str, float]:
    return {f"{name} ({unit})": float(x) for name, x, unit in zip(QUANTITIES, largest, UNITS, strict=False)}


def printed_claim(runs: Runs) -> Claim:
    """Claim about equation 23, the contact force."""

    def judge(results: Results) -> list[Finding]:
        found = []
        for reading, formulation in (
            ("as printed", "partitioned_as_printed"),
            ("corrected: across the deflected beam", "partitioned"),
        ):
            change = drift(results[runs.modal(formulation)])
            spread = float(np.ptp(change))
            here = (
                f"energy spreads over {sci(spread)} J in the first second ({sci(KEPT_BY_PRINT)} J allowed), from "
                f"{sci(float(change.min()))} J to {sci(float(change.max()))} J about its start"
            )
            figures = {"spread (J)": spread, "lowest (J)": float(change.min()), "highest (J)": float(change.max())}
            found.append(Finding(reading, here, verdict_of(spread <= KEPT_BY_PRINT), figures))
        return found

    return Claim(
        "force",
        "equation 23",
        "The contact has no friction, and its force acts along the vertical, J_b = −∂p_n/∂q_b.",
        "a force without friction does no work: the energy's highest and lowest values are less than 0.1 J apart.",
        judge,
        ("energy",),
    )


def partition_claim(runs: Runs) -> Claim:
    """Claim about section 4, the elimination of the Lagrange multiplier and of the dependent coordinate."""

    def judge(results: Results) -> list[Finding]:
        found = []
        for form in FORMS:
            if form == PARTITIONED:
                continue
            largest = apart(results, runs.nodal(form), runs.reference)
            here = f"largest differences from the partition: {_apart_text(largest)}"
            found.append(Finding(form, here, verdict_of(bool((largest <= AGREE).all())), _figures(largest)))
        return found

    return Claim(
        "partition",
        "section 4, equations 25–31",
        "Multipliers and dependent coordinates can be eliminated in closed form without changing the motion.",
        "in the first second mid-span and contact agree to 10⁻⁷ m, angles to 10⁻⁸ rad, contact force to 0.5 N with "
        "each formulation that keeps the multiplier, at steps of 20 µs. λ is taken from the row of q2; that of the "
        "others, as printed, cannot be inverted.",
        judge,
        ("agreement",),
    )


def energy_claim(runs: Runs) -> Claim:
    """Claim of section 1 that formulations with Lagrange multipliers conserve energy."""

    def judge(results: Results) -> list[Finding]:
        found = []
        for form, run in runs.forms.items():
            largest = float(np.abs(drift(results[run])).max())
            here = f"energy departs by {sci(largest)} J ({sci(KEPT)} J allowed)"
            found.append(Finding(form, here, verdict_of(largest <= KEPT), {"departure (J)": largest}))
        return found

    return Claim(
        "energy",
        "section 1",
        "With multipliers the geometry of the contact is met exactly, and energy is kept.",
        "the energy departs from its start by at most 10⁻⁶ J in the first second, at steps of 20 µs.",
        judge,
        ("energy",),
    )


def preload_claim() -> Claim:
    """Claim of section 8 about the equilibrium in which the motion starts."""

    def judge(results: Results) -> list[Finding]:
        found = []
        for gravity in (9.81, OURS):
            most = ARM_MASS * gravity * LOWER_LENGTH / 2
            try:
                build("lipinski_pendulum", gravity=gravity)
                holds = True
            except InvalidRequest:
                holds = False
            here = f"the lower arm holds at most {most:g} N m (100 N m needed)"
            chosen = holds and gravity == OURS  # this gravity was assumed because the torque is in equilibrium at it
            verdict = Verdict.BUILT_IN if chosen else verdict_of(holds)
            found.append(Finding(f"g = {gravity:g} m/s²", here, verdict, {"largest torque (N m)": most}))
        return found

    return Claim(
        "preload",
        "section 8",
        "A torque of 100 N m between the arms is held in equilibrium before it is let go.",
        "the arms have an equilibrium under 100 N m at the gravity assumed.",
        judge,
        ("poses",),
    )


def contact_claim(runs: Runs) -> Claim:
    """Claim of section 9 that beam and pendulum stay in contact."""

    def judge(results: Results) -> list[Finding]:
        found = []
        for form, run in runs.forms.items():
            if form == PARTITIONED:
                continue
            peak = results[run].peak_phi
            here = f"the gap is at most {sci(peak)} m ({sci(CLOSED)} m allowed)"
            good = results[run].held and peak <= CLOSED
            found.append(Finding(form, here, verdict_of(good), {"largest gap (m)": peak}))
        return found

    return Claim(
        "contact",
        "section 9",
        "Beam and pendulum stay in contact permanently.",
        "the gap between point and beam stays below 10⁻⁶ m at every step. (The partition has none.)",
        judge,
        ("agreement",),
        met=Verdict.BUILT_IN,
    )


def real_time_claim(runs: Runs) -> Claim:
    """The project's own claim on the accuracy of the real-time formulation."""

    def judge(results: Results) -> list[Finding]:
        found = []
        for stepping in (MIDPOINT, ALPHA):
            outcome = results[runs.real_time(stepping)]
            largest, instants = from_table(outcome)
            departure = float(np.abs(drift(outcome)).max())
            good = bool((largest[:4] <= FOLLOW).all()) and departure <= KEPT_AT_1_MS
            here = (
                f"differences at {instants} of {len(POSES)} instants: {_apart_text(largest)}; energy departs by "
                f"{sci(departure)} J"
            )
            figures = _figures(largest) | {"energy (J)": departure, "instants": float(instants)}
            found.append(Finding(stepping.label, here, verdict_of(good), figures))
        return found

    return Claim(
        "real-time",
        "not in the paper",
        "20 modes in minimal coordinates follow the motion at steps of 1 ms.",
        "beside RK4 at 1 µs with all modes, at 0, 0.2, … 1 s: mid-span within 2·10⁻⁴ m, contact 10⁻⁴ m, angles "
        "2·10⁻⁴ rad; the energy departs by at most 3·10⁻³ J in the first second.",
        judge,
        ("motion", "steps"),
        met=Verdict.HOLDS,
    )


def cost_claim(runs: Runs) -> Claim:
    """The project's own claim on the speed of the real-time formulation."""

    def judge(results: Results) -> list[Finding]:
        found = []
        for stepping in (MIDPOINT, ALPHA):
            cost = results.cost(runs.real_time(stepping))
            if cost is None:
                continue
            times = 1.0 / cost.per_second
            here = f"{times:.0f} times real time on one core ({TIMES_REAL:.0f} needed)"
            found.append(Finding(stepping.label, here, verdict_of(times >= TIMES_REAL), {"times real time": times}))
        return found

    return Claim(
        "cost",
        "not in the paper",
        "The same is a hundred times faster than real time.",
        "a simulated second at steps of 1 ms takes at most 10 ms of the processor.",
        judge,
        ("steps",),
        timed=True,
        met=Verdict.HOLDS,
    )
