"""States that stay in lanes move as Simulations do, whatever the lanes, threads and calls."""

from __future__ import annotations

import ctypes
import dataclasses
from typing import Any

import numpy as np
import pytest

from armswing import Simulation, build
from sim_core import System, assemble
from sim_core.batch import LaneStates, state_loop
from sim_core.errors import InvalidRequest
from sim_core.mechanism import Crossing, Servo, Tunable

STEP_S = 1e-3
Array = np.ndarray


@pytest.fixture(scope="module")
def pendulum() -> System:
    mechanism = build("rotary_pendulum", coordinates="joint", torque_limit=0.05)
    arm = dataclasses.replace(mechanism.joints[0], damping=Tunable("arm_damping", 0.0, least=0.0, unit="N m s"))
    return assemble(dataclasses.replace(mechanism, joints=(arm, mechanism.joints[1])))


def starts(n: int, seed: int = 1) -> tuple[Array, Array, Array]:
    random = np.random.default_rng(seed)
    return random.normal(size=(n, 2)), random.normal(size=(n, 2)), 0.02 * random.normal(size=(n, 1))


def moved(system: System, n: int, calls: list[int], **kind: Any) -> LaneStates:
    q, v, u = starts(n)
    states = LaneStates(system, n, step_s=STEP_S, **kind)
    states.reset(q=q, v=v)
    states.set_inputs(u)
    for steps in calls:
        states.step(steps=steps)
    return states


def test_the_motion_is_that_of_a_simulation(pendulum: System) -> None:
    q, v, u = starts(5)
    states = moved(pendulum, 5, [50], lanes=4)
    for row in range(5):
        sim = Simulation(pendulum, step_s=STEP_S, stepper="rk4", stabilizer="none")
        sim.reset(q[row], v[row])
        sim.set_effort(u[row])
        sim.step(50)
        np.testing.assert_allclose(states.q[row], sim.state.q, rtol=0, atol=1e-12)
        np.testing.assert_allclose(states.v[row], sim.state.v, rtol=0, atol=1e-11)
        np.testing.assert_allclose(states.outputs()[row], list(sim.outputs().values()), rtol=0, atol=1e-12)
    assert states.time.tolist() == [0.05] * 5


def test_lanes_threads_and_the_division_into_calls_change_no_byte(pendulum: System) -> None:
    wanted = moved(pendulum, 37, [30])
    for lanes, threads, calls in ((2, 1, [30]), (16, 2, [10, 20]), (8, 3, [1] * 30), (32, 1, [29, 1])):
        found = moved(pendulum, 37, calls, lanes=lanes, threads=threads)
        assert found.q.tobytes() == wanted.q.tobytes()
        assert found.v.tobytes() == wanted.v.tobytes()


def test_the_states_of_a_rollout_are_those_of_single_steps(pendulum: System, monkeypatch: pytest.MonkeyPatch) -> None:
    """50 steps, every third state, inputs of each step; in one call of the compiled loop, and in several."""
    q, v, _ = starts(5)
    u = 0.02 * np.random.default_rng(2).normal(size=(5, 50, 1))
    run: dict[str, Any] = {"u": u, "step_s": STEP_S, "steps": 50, "every": 3}
    whole = pendulum.batch(2).rollout(q, v, **run)
    monkeypatch.setattr("sim_core.batch.lane_states.STEPS_TOGETHER", 20)
    parts = pendulum.batch(2).rollout(q, v, **run)
    states = LaneStates(pendulum, 5, step_s=STEP_S, lanes=2)
    states.reset(q=q, v=v)
    for step in range(49):
        if step % 3 == 0:
            for found in (whole, parts):
                np.testing.assert_array_equal(found.q[:, step // 3], states.q)
                np.testing.assert_array_equal(found.v[:, step // 3], states.v)
        states.step(u[:, step])
    assert whole.q.shape == (5, 17, 2)


def test_the_compiled_loop_refuses_arrays_whose_numbers_are_not_in_order() -> None:
    ordered, turned = np.zeros((3, 2)), np.zeros((2, 3)).T
    for states, inputs in ((turned, ordered), (ordered, turned), (ordered, np.zeros((3, 2), dtype=np.float32))):
        with pytest.raises(ctypes.ArgumentError):
            state_loop.follow()(0, ordered, 1, 8, STEP_S, 0, 1, states, 0, 8, inputs, 0, 0)


def test_a_reset_starts_only_the_systems_of_its_mask(pendulum: System) -> None:
    states, apart = moved(pendulum, 6, [20]), moved(pendulum, 6, [20])
    mask = np.array([False, True, False, False, True, True])
    damped = pendulum.default_parameters()
    damped[list(pendulum.parameter_names).index("arm_damping")] = 1e-3
    states.reset(mask, q=[0.1, 0.2], v=[0.0, 0.3], p=damped)
    assert states.time.tolist() == [0.02, 0.0, 0.02, 0.02, 0.0, 0.0]
    assert states.q[mask].tolist() == [[0.1, 0.2]] * 3
    assert states.q[~mask].tobytes() == apart.q[~mask].tobytes()
    assert (states.p[mask] == damped).all()
    states.step(steps=10)
    apart.step(steps=10)
    assert states.v[~mask].tobytes() == apart.v[~mask].tobytes()


def test_a_system_that_diverges_is_known_and_starts_again(pendulum: System) -> None:
    states, calm = moved(pendulum, 6, [0]), moved(pendulum, 6, [0])
    states.reset([2], v=[1e200, 1e200])
    states.step(steps=20)
    calm.step(steps=20)
    assert states.finite.tolist() == [True, True, False, True, True, True]
    assert np.delete(states.q, 2, axis=0).tobytes() == np.delete(calm.q, 2, axis=0).tobytes()
    states.reset(~states.finite)
    assert states.finite.all()


@pytest.mark.parametrize("mode", ["position", "velocity"])
def test_servos_go_on_from_call_to_call(mode: str) -> None:
    mechanism = build("rotary_pendulum", coordinates="joint")
    servo = Servo(stiffness=0.4, damping=0.01)
    motor = dataclasses.replace(mechanism.actuators[0], servo=servo, effort_limit=0.02, velocity_limit=3.0)
    system = assemble(dataclasses.replace(mechanism, actuators=(motor,)))
    q, v, _ = starts(3)
    modes, command = {motor.name: mode}, np.full((3, 1), 0.4)
    states = LaneStates(system, 3, step_s=STEP_S, lanes=2, modes=modes)
    states.reset(q=q, v=v)
    for _ in range(40):
        states.step(command)
    peaks = system.batch(2).peaks(q, v, command, step_s=STEP_S, steps=40, modes=modes)
    assert states.q.tobytes() == peaks.q.tobytes()
    assert states.v.tobytes() == peaks.v.tobytes()
    states.reset([1])  # its inputs, too
    states.step()
    other = LaneStates(system, 3, step_s=STEP_S, lanes=2, modes=modes)
    other.step()
    assert states.targets[1] == other.targets[1]
    assert states.q[1].tobytes() == other.q[1].tobytes()


@pytest.mark.parametrize(
    ("request_", "line"),
    [
        (lambda s: LaneStates(s, 0, step_s=STEP_S), "'n' of LaneStates is 0; it must be 1 or more"),
        (lambda s: LaneStates(s, 2, step_s=0.0), "'step_s' is 0.0; it must be above 0"),
        (lambda s: LaneStates(s, 2, step_s=STEP_S, lanes=3), "lanes is 3; it must be one of"),
        (lambda s: LaneStates(s, 2, step_s=STEP_S).step(np.zeros(2)), r"u has shape \(1, 2\); for 2 systems"),
        (lambda s: LaneStates(s, 2, step_s=STEP_S).step([[np.nan], [0]]), "nan"),
        (lambda s: LaneStates(s, 2, step_s=STEP_S).reset([True]), r"mask has shape \(1,\)"),
        (lambda s: LaneStates(s, 2, step_s=STEP_S).reset([2]), "indices from 0 to 1"),
        (lambda s: LaneStates(s, 2, step_s=STEP_S).set_parameters({"arm_damping": -1.0}), "arm_damping is -1 N m s"),
        (
            lambda s: LaneStates(s, 2, step_s=STEP_S).set_parameters({"pendulum_damping": [0.0, -1.0]}),
            "must not be neg",
        ),
        (lambda s: LaneStates(s, 2, step_s=STEP_S).reset(p=[0.0, -1.0]), "damping .* is -1 N m s; it must not be neg"),
        (lambda s: s.batch(2).inverse_dynamics(*np.zeros((3, 2)), p=[0.0, -1.0]), "-1 N m s; it must not be negative"),
        (lambda s: LaneStates(s, 2, step_s=STEP_S).set_parameters({"mass": 1.0}), "tunable 'mass'"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(pendulum: System, request_: Any, line: str) -> None:
    with pytest.raises(InvalidRequest, match=line) as error:
        request_(pendulum)
    assert "\n" not in str(error.value)


def test_mechanisms_that_need_a_simulation_are_refused_by_name() -> None:
    with pytest.raises(InvalidRequest, match="'gibbon' has beams"):
        LaneStates(assemble(build("gibbon")), 2, step_s=STEP_S)
    plain = build("arm_2dof")
    guard = Crossing(name="floor", body=plain.bodies[-1].name, level=-9.0, source="default", target="default")
    with pytest.raises(InvalidRequest, match="'arm_2dof' has guards"):
        LaneStates(assemble(dataclasses.replace(plain, guards=(guard,))), 2, step_s=STEP_S)


def test_each_system_has_a_constraint_mode_of_its_own() -> None:
    system = assemble(build("four_bar_chain"))
    states = LaneStates(system, 2, step_s=STEP_S, lanes=2)
    name = system.constraint_modes[0].name
    states.set_constraint_mode(name, [1])
    assert states.p[0].tobytes() == states.p[1].tobytes()
    with pytest.raises(InvalidRequest, match="constraint mode 'loose'"):
        states.set_constraint_mode("loose")
