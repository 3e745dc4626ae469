"""Jumps of efforts, pushes and parameters at ticks: every stepper keeps its order or tolerance, and all momentum."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robots.registry import build
from sim_core.integrators import steppers
from sim_core.integrators.steppers import STEPPERS
from sim_core.mechanism import GROUND, ORIGIN, Actuator, Body, Joint, Mechanism, Spring, X
from sim_core.simulation import Simulation
from sim_core.system import System, assemble

TABLE = Path(__file__).parents[2] / "docs/reference/methods.md"
# fine enough for the slope, coarse enough for rounding
COARSE = {"semi_implicit": 0.001, "rk4": 0.0025, "dopri5": 0.0025, "abm4": 0.0025, "radau5": 0.01}
ADAPTIVE = [name for name, stepper in STEPPERS.items() if stepper.adaptive]
WITH_MEMORY = [name for name, stepper in STEPPERS.items() if stepper.restarts or stepper.acceleration is not None]


def documented() -> dict[str, list[str]]:
    """{stepper: cells of its row} of the documentation's table of orders."""
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", TABLE.read_text(), flags=re.MULTILINE)
    return {name: [cell.strip() for cell in rest.split("|")] for name, rest in rows}


@pytest.fixture(scope="module")
def pendulum() -> System:
    return assemble(build("rotary_pendulum", coordinates="joint", pushable="pendulum"))


def constant(sim: Simulation, tick: int, time: float) -> None:
    if tick == 0:
        sim.set_effort([0.002])


def changing(sim: Simulation, tick: int, time: float) -> None:
    """Efforts and forces that jump by their size at every tick."""
    sim.set_effort([0.002 * np.sin(20 * time) + 0.002 * (-1) ** tick])
    sim.push("pendulum", [0.0, 0.01 * (-1) ** (tick // 2), 0.005 * np.cos(9 * time)], [0.0, 0.0, -0.05])


def tuned(sim: Simulation, tick: int, time: float) -> None:
    constant(sim, tick, time)
    sim.set_parameters({"arm_damping": 1e-4 * (2 + (-1) ** tick)})


def end(system: System, stepper: Any, tick_s: float, inputs: Any, seconds: float, parts: int = 1) -> np.ndarray:
    """Positions and velocities of the joints at the end; each tick has `parts` time steps."""
    sim = Simulation(system, step_s=tick_s / parts, stepper=stepper, stabilizer="none")
    for tick in range(round(seconds / tick_s)):
        inputs(sim, tick, tick * tick_s)
        sim.step(parts)
    return np.concatenate(sim.joints()[:2])


def slope(system: System, name: str, inputs: Any, seconds: float) -> float:
    errors = []
    for tick_s in (COARSE.get(name, 0.0025), COARSE.get(name, 0.0025) / 2):
        exact = end(system, "dopri5", tick_s, inputs, seconds, parts=max(4, round(tick_s / 4e-4)))
        errors.append(np.abs(end(system, name, tick_s, inputs, seconds) - exact).max())
    return float(np.log2(errors[0] / errors[1]))


def test_the_documentation_has_every_stepper() -> None:
    assert list(documented()) == list(STEPPERS)


@pytest.mark.parametrize(("column", "inputs"), [(0, constant), (1, changing)])
@pytest.mark.parametrize("name", [name for name in STEPPERS if name not in ADAPTIVE])
def test_a_stepper_has_the_documented_order(name: str, column: int, inputs: Any, pendulum: System) -> None:
    assert slope(pendulum, name, inputs, 0.32) == pytest.approx(int(documented()[name][column]), abs=0.35)


@pytest.mark.parametrize("name", ["abm4", "generalized_alpha"])
def test_parameters_that_change_at_every_tick_leave_the_order(name: str, pendulum: System) -> None:
    assert slope(pendulum, name, tuned, 0.1) == pytest.approx(STEPPERS[name].order, abs=0.35)


@pytest.mark.parametrize("inputs", [constant, changing])
@pytest.mark.parametrize("name", ADAPTIVE)
def test_a_stepper_holds_its_tolerance_when_it_is_stepped_tick_by_tick(
    name: str, inputs: Any, pendulum: System
) -> None:
    column = [constant, changing].index(inputs)
    factor = int(re.fullmatch(r"(\d+) `rtol`", documented()[name][column])[1])  # type: ignore[index]
    for rtol, tick_s in ((1e-5, 0.001), (1e-5, 0.01), (1e-8, 0.005)):
        exact = end(pendulum, "dopri5", tick_s, inputs, 0.5, parts=round(tick_s / 2e-4))
        error = np.abs(end(pendulum, getattr(steppers, name)(rtol, rtol), tick_s, inputs, 0.5) - exact).max()
        assert error <= factor * rtol, (rtol, tick_s)


@pytest.mark.parametrize("name", WITH_MEMORY)
def test_an_input_that_is_set_again_unchanged_changes_nothing(name: str, pendulum: System) -> None:
    sims = [Simulation(pendulum, step_s=1e-3, stepper=name) for _ in range(2)]
    for sim in sims:
        sim.set_effort([0.002])
    for _ in range(20):
        sims[0].set_effort([0.002])
        sims[0].push("pendulum", [0.0, 0.0, 0.0])
        sims[0].set_parameters(sims[0].parameters)
        for sim in sims:
            sim.step()
    assert sims[0].snapshot().to_plain() == sims[1].snapshot().to_plain()
    assert sims[0].driven is None


@pytest.mark.parametrize("name", WITH_MEMORY)
def test_a_snapshot_after_a_jump_goes_on_with_the_same_bytes(name: str, pendulum: System) -> None:
    sim, other = (Simulation(pendulum, step_s=1e-3, stepper=name) for _ in range(2))
    sim.step(9)
    changing(sim, 9, 0.009)
    other.restore(sim.snapshot())
    for each in (sim, other):
        each.step(9)
    assert sim.snapshot().to_plain() == other.snapshot().to_plain()


def coupled() -> Mechanism:
    """Two bodies in space without gravity, one of which a motor pushes along a guide of the other."""
    bodies = tuple(
        Body(
            name=name,
            mass=mass,
            inertia=(0.1, 0.2, 0.15, 0.0, 0.0, 0.0),
            orientation="euler_parameters",
        )
        for name, mass in (("stone", 2.0), ("rider", 0.5))
    )
    start = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
    return Mechanism(
        name="coupled",
        coordinates="absolute",
        bodies=bodies,
        joints=(Joint(name="guide", kind="prismatic", axis=X, parent="stone", child="rider"),),
        actuators=(Actuator(name="motor", joint="guide", unit="N"),),
        gravity=(0.0, 0.0, 0.0),
        initial_q=(*start, *start),
        initial_v=(0.0,) * 14,
        pushable=("stone", "rider"),
    )


@pytest.fixture(scope="module")
def free() -> System:
    return assemble(coupled())


@pytest.mark.parametrize("name", STEPPERS)
def test_no_push_loses_momentum(name: str, free: System) -> None:
    """100 random forces, at random points and for random times, and as many jumps of an internal effort."""
    rng = np.random.default_rng(7)
    sim = Simulation(free, step_s=1e-3, stepper=name, stabilizer="none")
    given, largest = np.zeros(3), 0.0
    for _ in range(100):
        force, steps = rng.normal(size=3), int(rng.integers(1, 5))
        sim.push(str(rng.choice(["stone", "rider"])), force, 0.1 * rng.normal(size=3))
        sim.set_effort([0.3 * rng.normal()])
        sim.step(steps)
        given += 1e-3 * steps * sum(force for force, _ in sim.pushes.values())
        largest = max(largest, float(np.abs(given).max()))
        momentum = sum(body.mass * sim.velocities[7 * k : 7 * k + 3] for k, body in enumerate(free.mechanism.bodies))
        np.testing.assert_allclose(momentum, given, rtol=0, atol=1e-9 * largest)


@pytest.mark.parametrize("rho", [0.6, 0.9])
def test_generalized_alpha_damps_a_fast_vibration_although_the_effort_changes_at_every_tick(rho: float) -> None:
    """The difference of two runs with equal efforts and different starts."""
    spring = Spring(name="spring", body_a=GROUND, point_a=ORIGIN, body_b="mass", point_b=ORIGIN, stiffness=1e12)
    system = assemble(
        Mechanism(
            name="driven_oscillator",
            coordinates="joint",
            bodies=(Body(name="mass", mass=1.0, inertia=(0.0,) * 6),),
            joints=(Joint(name="slide", kind="prismatic", child="mass", axis=X),),
            actuators=(Actuator(name="motor", joint="slide", unit="N"),),
            springs=(spring,),
            gravity=(0.0, 0.0, 0.0),
            initial_q=(0.0,),
            initial_v=(0.0,),
        )
    )
    sims = [Simulation(system, step_s=1e-3, stepper=steppers.generalized_alpha(rho)) for _ in range(2)]
    sims[1].reset([1.0])
    sizes = []
    for tick in range(60):
        for sim in sims:
            sim.set_effort([5.0 * (-1) ** tick])
            sim.step()
        apart = sims[1].coordinates - sims[0].coordinates, 0.5e-3 * (sims[1].velocities - sims[0].velocities)
        sizes.append(float(np.hypot(*apart)[0]))
    assert (sizes[-1] / sizes[19]) ** (1 / 40) == pytest.approx(rho, rel=0.06)
