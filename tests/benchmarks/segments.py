"""The gibbon on a cable of rigid segments: the figures of docs/guides/segments.md.

    python tests/benchmarks/segments.py [--json FILE]

Pinned to one core; times are those of the processor. The cable is compared with the beam of modes, its frequencies also
with those in closed form of a pinned beam under tension.
"""

from __future__ import annotations

import json
import math
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from bars import at_most, json_file
from scipy.linalg import eigh, null_space

from robots.gibbon.chain import Chain
from robots.gibbon.lines import cable
from robots.gibbon.parameters import CABLE_BENDING, CABLE_LENGTH, CABLE_MASS, CABLE_SEGMENTS
from robots.registry import build
from sim_core.flexible.elements import beam_model
from sim_core.mechanism import Mechanism, Tunable
from sim_core.simulation import Simulation
from sim_core.system import System, assemble

TENSIONS = (2500.0, 5e3, 10e3, 20e3)  # N
MODES = 49
COMPARED = 20  # vibrations, the slowest first
OFF = 0.01  # share by which a vibration differs from the closed form
STEP_S, STEPS, REPEATS, CALLS = 1e-3, 200, 9, 200
SWINGING_S, RELEASED_S = 1.5, 0.1
MIDSPAN_BAR, STEP_BAR_US, SHARE_BAR = 0.01, 300.0, 1e-3


def midspan_error(tension: float) -> float:
    """Difference of the deflections at midspan under the robot, as a share of that of the beam of modes."""
    common: dict[str, Any] = {"start": "a", "start_x": CABLE_LENGTH / 2, "tension": tension}
    chain = build("gibbon", line="segments", **common).initial_q[1]
    beam = build("gibbon", line="cable", modes=MODES, clamp_width=0.0, **common).initial_q[1]
    return abs(chain / beam - 1.0)


def cable_of_segments() -> System:
    """The cable without the robot, its gravity and its loads."""
    chain = Chain(CABLE_SEGMENTS, CABLE_LENGTH, CABLE_MASS, CABLE_BENDING, 0.05)
    parts: dict[str, Any] = {**chain.parts(Tunable("tension", TENSIONS[0], unit="N"))}
    parts |= {"initial_q": (0.0,) * chain.count, "initial_v": (0.0,) * chain.count, "gravity": (0.0, 0.0, 0.0)}
    return assemble(Mechanism(name="chain", coordinates="joint", constraints=(chain.support(),), **parts))


def frequencies(system: System, tension: float) -> np.ndarray:
    """Angular frequencies (COMPARED,) of the slowest vibrations of the cable of segments, rad/s."""
    p, zero, small = system.default_parameters(), np.zeros(system.n_q), 1e-6
    p[system.parameter_names.index("tension")] = tension
    M, _, J = system.terms(0.0, zero, zero, p=p)[:3]

    def forces(sign: float) -> np.ndarray:
        return np.array([system.terms(0.0, sign * small * each, zero, p=p)[1] for each in np.eye(len(zero))]).T

    K = -(forces(1.0) - forces(-1.0)) / (2.0 * small)
    free = null_space(J)
    squares = eigh(free.T @ K @ free, free.T @ M @ free, eigvals_only=True)
    return np.asarray(np.sqrt(squares[:COMPARED]))


def closed_form(tension: float) -> np.ndarray:
    """Angular frequencies (COMPARED,) of a pinned beam under tension, rad/s."""
    waves = math.pi / CABLE_LENGTH * np.arange(1, COMPARED + 1)
    return np.asarray(waves * np.sqrt((tension + CABLE_BENDING * waves**2) / CABLE_MASS))


def frequency_errors() -> dict[str, float]:
    """Largest shares by which frequencies differ over all tensions, and the first vibration that is far off."""
    system = cable_of_segments()
    found = {tension: frequencies(system, tension) for tension in TENSIONS}
    beams = {tension: beam_model(cable(tension, MODES, 0.01)).frequencies[:COMPARED] for tension in TENSIONS}
    off = {tension: np.abs(found[tension] / beams[tension] - 1.0) for tension in TENSIONS}
    low = [1.0 - found[tension] / closed_form(tension) for tension in TENSIONS]
    first = min(int(np.argmax(each > OFF)) + 1 if (each > OFF).any() else COMPARED + 1 for each in low)
    return {
        "first_five": max(each[:5].max() for each in off.values()),
        "tenth": max(each[9] for each in off.values()),
        "first_off": float(first),
    }


def acceleration_us(system: System) -> float:
    """Microseconds of one evaluation of the accelerations, minimum over the repeats."""
    mechanism = system.mechanism
    inputs = [np.zeros(1), np.array(mechanism.initial_q), np.array(mechanism.initial_v), system.start_inputs]
    inputs += [system.default_parameters(), np.zeros(system.max_rows)]
    kernel = system.bind(
        "acceleration", inputs, [np.zeros(system.n_q), np.zeros(system.max_rows), np.zeros(system.max_factor)]
    )
    least = math.inf
    for _ in range(REPEATS):
        begin = time.process_time_ns()
        for _ in range(CALLS):
            kernel()
        least = min(least, (time.process_time_ns() - begin) / CALLS * 1e-3)
    return least


def step_us(system: System) -> float:
    """Microseconds of 1 ms of the swinging robot, minimum over the repeats."""
    simulation = Simulation(system, step_s=STEP_S)
    simulation.set_effort({"grip_a": 0.0})
    simulation.step(STEPS)
    least = math.inf
    for _ in range(REPEATS):
        begin = time.process_time_ns()
        simulation.step(STEPS)
        least = min(least, (time.process_time_ns() - begin) / STEPS * 1e-3)
    return least


def swing(system: System) -> dict[str, float]:
    """Largest energy that no work explains while the robot swings, with a release: in J, and as a share."""
    simulation = Simulation(system, step_s=STEP_S)
    simulation.advance(RELEASED_S)
    simulation.set_effort({"grip_a": 0.0})
    departures = []
    for _ in range(round((SWINGING_S - RELEASED_S) / 0.01)):
        simulation.advance(0.01)
        departures.append(abs(simulation.energy_ledger.departure))
    return {"unexplained_J": max(departures), "unexplained_share": simulation.energy_ledger.largest}


def main(json_path: str | None = None) -> dict[str, Any]:
    """Measure, print the table, write JSON where asked, and give the figures."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        midspan = max(midspan_error(tension) for tension in TENSIONS)
        errors = frequency_errors()
        system = assemble(build("gibbon", line="segments"))
        costs = acceleration_us(system), step_us(system)
        energy = swing(system)
    finally:
        os.sched_setaffinity(0, cores)
    print(f"gibbon on a cable of {CABLE_SEGMENTS} segments, tensions of {TENSIONS[0]:g} to {TENSIONS[-1]:g} N")
    print(f"  midspan under the robot against the beam of {MODES} modes: within {midspan:.2%}")
    print(
        f"  first five frequencies against the beam's: within {errors['first_five']:.2%}; tenth {errors['tenth']:.2%}"
    )
    print(f"  first vibration that is {OFF:.0%} lower than in closed form: number {errors['first_off']:.0f}")
    print(f"  accelerations of {system.n_q} coordinates and {system.max_rows} rows: {costs[0]:.0f} us")
    print(f"  1 ms in one step: {costs[1]:.0f} us")
    print(f"  energy that no work explains in {SWINGING_S:g} s with a release: {1e3 * energy['unexplained_J']:.1g} mJ")
    result = {
        "midspan": midspan,
        **errors,
        "acceleration_us": costs[0],
        "step_us": costs[1],
        **energy,
        "bars": [
            at_most("midspan against the beam of modes", midspan, MIDSPAN_BAR),
            at_most("gibbon on segments, us per step of 1 ms", costs[1], STEP_BAR_US),
            at_most("share of the energy that no work explains", energy["unexplained_share"], SHARE_BAR),
        ],
    }
    if json_path:
        Path(json_path).write_text(json.dumps(result, indent=1))
    return result


if __name__ == "__main__":
    main(json_file(__doc__))
