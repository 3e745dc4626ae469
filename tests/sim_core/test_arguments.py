"""Arguments that are no numbers, or of a wrong size, are refused in one line, and change nothing."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import robots
from sim_core import forward_dynamics, inverse_dynamics
from sim_core.errors import InvalidRequest
from sim_core.mechanism import ORIGIN, Actuator, Body, Joint, Mechanism, Tunable, X
from sim_core.simulation import Simulation
from sim_core.system import System, assemble

NO_NUMBER: list[Any] = ["x", "1", None, 1j, math.nan, math.inf, 10**400, [1.0, 2.0], {"a": 1.0}, object()]
NO_NUMBERS: list[Any] = [["1"], [1j], [math.nan], [-math.inf], [10**400], "x", {"a": 1.0}, [[1.0], [1.0, 2.0]]]
Call = Callable[[Simulation, Any], object]


@pytest.fixture(scope="module")
def system() -> System:
    """A cart on a rail with a motor and a tunable mass."""
    body = Body(name="cart", mass=Tunable("mass", 1.0, 0.5, 2.0), inertia=(0.1, 0.1, 0.1, 0.0, 0.0, 0.0))
    return assemble(
        Mechanism(
            name="cart",
            coordinates="joint",
            bodies=(body,),
            joints=(Joint(name="rail", kind="prismatic", child="cart", axis=X),),
            actuators=(Actuator(name="motor", joint="rail", effort_limit=40.0),),
            pushable=("cart",),
            initial_q=(0.0,),
            initial_v=(0.0,),
        )
    )


NUMBERS: dict[str, Call] = {
    "step_s": lambda sim, value: Simulation(sim.system, step_s=value),
    "seconds": lambda sim, value: sim.advance(value),
    "a parameter": lambda sim, value: sim.set_parameters({"mass": value}),
    "an effort": lambda sim, value: sim.set_effort({"motor": value}),
}
ARRAYS: dict[str, Call] = {
    "efforts": lambda sim, value: sim.set_effort(value),
    "q": lambda sim, value: sim.reset(q=value),
    "v": lambda sim, value: sim.reset(v=value),
    "a force": lambda sim, value: sim.push("cart", value if isinstance(value, str) else [0.0, 0.0, *value]),
    "u of a state": lambda sim, value: sim.restore(dataclasses.replace(sim.snapshot(), u=value)),
    "q of the dynamics": lambda sim, value: inverse_dynamics(sim.system, value, [0.0], [0.0]),
    "tau": lambda sim, value: forward_dynamics(sim.system, [0.0], [0.0], value),
    "p of the dynamics": lambda sim, value: forward_dynamics(sim.system, [0.0], [0.0], [0.0], p=value),
}
REST: dict[str, Call] = {
    "no steps": lambda sim, _: sim.step(-1),
    "half a step": lambda sim, _: sim.step(1.5),  # type: ignore[arg-type]
    "nan steps": lambda sim, _: sim.step(math.nan),  # type: ignore[arg-type]
    "too many steps": lambda sim, _: sim.step(2**60),
    "a step size of nothing": lambda sim, _: Simulation(sim.system, step_s=1e-300),
    "a step size of ages": lambda sim, _: Simulation(sim.system, step_s=1e300),
    "a stepper": lambda sim, _: Simulation(sim.system, stepper=3),  # type: ignore[arg-type]
    "a stabilizer": lambda sim, _: Simulation(sim.system, stabilizer=None),  # type: ignore[arg-type]
    "a mechanism": lambda sim, _: Simulation(sim.system.mechanism),  # type: ignore[arg-type]
    "a list of parameters": lambda sim, _: sim.set_parameters([1.0]),  # type: ignore[arg-type]
    "half a tick": lambda sim, _: sim.restore(dataclasses.replace(sim.snapshot(), tick=1.5)),  # type: ignore[arg-type]
    "no state": lambda sim, _: sim.restore(None),  # type: ignore[arg-type]
    "a mass out of bounds": lambda sim, _: inverse_dynamics(sim.system, [0.0], [0.0], [1.0], p=[-1.0] * 7),
    "a state with that mass": lambda sim, _: sim.restore(dataclasses.replace(sim.snapshot(), p=-np.ones(7))),
    "the last mode": lambda sim, _: forward_dynamics(sim.system, [0.0], [0.0], [0.0], constraint_mode=-1),
    "a mode by name": lambda sim, _: forward_dynamics(sim.system, [0.0], [0.0], [0.0], constraint_mode="x"),  # type: ignore[arg-type]
    "a huge velocity of a state": lambda sim, _: sim.restore(dataclasses.replace(sim.snapshot(), v=np.array([1e200]))),
    "an effort of a state": lambda sim, _: sim.restore(dataclasses.replace(sim.snapshot(), u=np.array([50.0]))),
    "masked efforts": lambda sim, _: sim.set_effort(np.ma.masked_array([1.0], [True])),
    "no as a word": lambda sim, _: Simulation(sim.system, assemble_start="no"),  # type: ignore[arg-type]
    "a huge velocity": lambda sim, _: sim.reset(v=[1e200]),
    "a huge velocity of the dynamics": lambda sim, _: forward_dynamics(sim.system, [0.0], [1e200], [0.0]),
    "a robot without a name": lambda sim, _: robots.build(None),  # type: ignore[arg-type]
}
CASES = [
    *[pytest.param(call, value, id=f"{name}-{value!r:.12}") for name, call in NUMBERS.items() for value in NO_NUMBER],
    *[pytest.param(call, value, id=f"{name}-{value!r:.12}") for name, call in ARRAYS.items() for value in NO_NUMBERS],
    *[pytest.param(call, None, id=name) for name, call in REST.items()],
]


@pytest.mark.parametrize(("call", "value"), CASES)
def test_what_is_no_argument_is_refused_in_one_line_and_changes_nothing(system: System, call: Call, value: Any) -> None:
    sim = Simulation(system)
    before = sim.snapshot()
    with pytest.raises(InvalidRequest) as caught:
        call(sim, value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300
    for field in dataclasses.fields(before):
        np.testing.assert_array_equal(getattr(sim.snapshot(), field.name), getattr(before, field.name))


RUN: dict[str, Any] = {"q0": [[0.0]], "v0": [[0.0]], "step_s": 1e-3, "steps": 2}
WRONG_RUNS: list[tuple[str, Any]] = [
    *[(name, value) for name in ("q0", "v0", "u", "p") for value in NO_NUMBERS],
    *[("step_s", value) for value in NO_NUMBER],
    *[(name, value) for name in ("steps", "every") for value in (1.5, "x", None, -1, math.nan)],
    ("modes", ["motor"]),
    ("p", [[3.0, *[0.0] * 6]]),  # a mass above its bound
    ("steps", 2**60),
]


@pytest.mark.parametrize("name", ["rollout", "peaks"])
def test_what_is_no_argument_of_a_batch_is_refused_in_one_line(system: System, name: str) -> None:
    run = getattr(system.batch(lanes=2), name)
    for field, value in WRONG_RUNS:
        if field == "every" and name == "peaks":
            continue  # peaks records no states
        with pytest.raises(InvalidRequest) as caught:
            run(**RUN | {field: value})
        assert "\n" not in str(caught.value), field


def test_a_rollout_that_no_memory_holds_is_refused(system: System) -> None:
    with pytest.raises(
        InvalidRequest, match=r"a rollout of 1 systems with 1000000000001 states each needs 1.6e\+04 GB"
    ):
        system.batch(lanes=2).rollout(**RUN | {"steps": 10**12})


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, int, float, bool])
def test_numbers_of_numpy_and_python_are_numbers(system: System, kind: Callable[[Any], Any]) -> None:
    sim = Simulation(system, step_s=np.float64(1e-3))
    sim.set_effort({"motor": kind(1)})
    sim.set_parameters({"mass": kind(1)})
    sim.push("cart", [kind(1), kind(0), kind(0)], ORIGIN)
    sim.step(np.int64(2))  # type: ignore[arg-type]
    assert sim.tick == 2
    assert sim.velocities[0] == pytest.approx(2.0 * 2e-3)  # effort and push, 1 N each, on 1 kg
    np.testing.assert_allclose(inverse_dynamics(system, [[0]], np.zeros(1, dtype=np.float32), [kind(1)]), [1.0])
