"""The actuators' own loops: targets, limits and what is refused; closed around a real simulation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from sim_core.errors import InvalidMechanism, InvalidRequest
from sim_core.mechanism import Actuator, Body, Joint, Mechanism, Servo, X, Z
from sim_core.mechanism.validation import validate
from sim_core.servos.loops import Servos
from sim_core.simulation import Simulation
from sim_core.system import System, assemble

STEP_S = 1e-3
HERE = np.zeros(2)
STIFF = Servo(stiffness=4000.0, damping=120.0)


def hoist(**changes: object) -> Mechanism:
    """A load of 2 kg on a vertical slide, and a disc without gravity's moment that has no servo."""
    lift = {"name": "lift", "joint": "lift", "unit": "N", "effort_limit": 60.0, "velocity_limit": 0.5, "servo": STIFF}
    disc = Body(name="disc", mass=0.5, inertia=(0.01, 0.01, 0.02, 0.0, 0.0, 0.0))
    return Mechanism(
        name="hoist",
        coordinates="joint",
        bodies=(Body(name="load", mass=2.0, inertia=(0.0,) * 6), disc),  # type: ignore[arg-type]
        joints=(
            Joint(name="lift", kind="prismatic", child="load", axis=Z, lower=-0.2, upper=0.3),
            Joint(name="disc", parent="load", child="disc", axis=X),
        ),
        actuators=(Actuator(name="spin", joint="disc"), Actuator(**(lift | changes))),  # type: ignore[arg-type]
        initial_q=(0.0, 0.0),
        initial_v=(0.0, 0.0),
    )


@pytest.fixture(scope="module")
def system() -> System:
    return assemble(hoist())


def told(servos: Servos, mode: str, values: dict[str, float], position: np.ndarray = HERE) -> None:
    servos.command(mode, list(values), list(values.values()), position)


def run(
    servos: Servos, sim: Simulation, seconds: float, steps: Sequence[float] = ()
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Position, velocity and effort of the lift after each step."""
    rows = []
    for _ in range(round(seconds / sim.step_s)):
        position, velocity, _ = sim.joints()
        efforts = servos.efforts(position, velocity)
        sim.set_effort(efforts)
        sim.step()
        position, velocity, _ = sim.joints()
        rows.append((position[0], velocity[0], efforts[1]))
    x, v, u = np.array(rows).T
    return x, v, u


def test_a_commanded_position_is_approached_no_faster_than_the_velocity_limit(system: System) -> None:
    servos, sim = Servos(hoist(), STEP_S), Simulation(system, step_s=STEP_S)
    told(servos, "position", {"lift": 0.2})
    x, v, u = run(servos, sim, 1.5)
    weight = 2.5 * 9.81
    assert x[-1] == pytest.approx(0.2 - weight / STIFF.stiffness, abs=1e-6)  # a PD loop gives way to the load
    assert u[-1] == pytest.approx(weight, abs=1e-3)
    assert v.max() < 0.5 * 1.02
    assert np.abs(u).max() <= 60.0


def test_a_commanded_velocity_is_kept_under_a_load_and_ends_at_the_joints_limit(system: System) -> None:
    servos, sim = Servos(hoist(), STEP_S), Simulation(system, step_s=STEP_S)
    told(servos, "velocity", {"lift": 0.25})
    x, v, _ = run(servos, sim, 0.8)
    assert v[-1] == pytest.approx(0.25, abs=1e-4)
    x, v, _ = run(servos, sim, 1.5)
    assert x.max() < 0.3
    assert (x[-1], v[-1]) == (pytest.approx(0.3 - 2.5 * 9.81 / STIFF.stiffness, abs=1e-5), pytest.approx(0.0, abs=1e-5))


def test_a_velocity_above_the_limit_is_the_limit_and_an_effort_too(system: System) -> None:
    servos = Servos(hoist(), STEP_S)
    told(servos, "effort", {"lift": -500.0})
    assert servos.efforts(np.zeros(2), np.zeros(2)).tolist() == [0.0, -60.0]
    told(servos, "effort", {"lift": 0.0})
    told(servos, "velocity", {"lift": -9.0})
    servos.efforts(np.zeros(2), np.zeros(2))
    assert servos.to_plain()["target"][1] == pytest.approx(-0.5 * STEP_S)


def test_an_error_that_saturates_the_actuator_does_not_grow() -> None:
    """A blocked lift does not leap when it comes free: its target waits where the effort saturates."""
    servos = Servos(hoist(), STEP_S)
    told(servos, "velocity", {"lift": 0.5})
    blocked = [servos.efforts(np.zeros(2), np.zeros(2))[1] for _ in range(2000)]
    assert max(blocked) == 60.0
    assert servos.to_plain()["target"][1] == pytest.approx(60.0 / STIFF.stiffness)


def test_effort_commands_pass_as_they_are_and_a_change_of_mode_goes_on_with_the_effort(system: System) -> None:
    servos = Servos(hoist(), STEP_S)
    told(servos, "effort", {"lift": 12.0, "spin": 0.3})
    assert servos.efforts(np.array([0.1, 2.0]), np.zeros(2)).tolist() == [0.3, 12.0]
    told(servos, "velocity", {"lift": 0.0}, np.array([0.1, 2.0]))
    assert servos.efforts(np.array([0.1, 2.0]), np.array([0.0, 1.0])).tolist() == [0.3, pytest.approx(12.0)]
    moved = servos.efforts(np.array([0.101, 2.0]), np.zeros(2))
    assert moved[1] == pytest.approx(12.0 - STIFF.stiffness * 0.001)


@pytest.mark.parametrize("hold", [False, True])
def test_a_safe_actuator_gives_no_effort_or_stays_where_it_is(hold: bool) -> None:
    servos = Servos(hoist(), STEP_S)
    told(servos, "effort", {"spin": 0.5, "lift": 8.0})
    servos.efforts(HERE, np.zeros(2))
    there = np.array([0.1, 2.0])
    servos.rest(["lift", "spin"], there if hold else None)
    effort = [servos.efforts(np.array([0.105, 2.0]), np.zeros(2)).tolist() for _ in range(3)][-1]
    assert effort == ([0.5, pytest.approx(8.0 - STIFF.stiffness * 0.005)] if hold else [0.0, 0.0])


def test_a_joint_beyond_its_limits_is_held_there_and_goes_no_further() -> None:
    servos = Servos(hoist(), STEP_S)
    there, still = np.array([0.5, 0.0]), np.zeros(2)
    servos.rest(["lift"], there)
    assert servos.efforts(there, still)[1] == 0.0
    told(servos, "velocity", {"lift": 0.5}, there)
    assert servos.efforts(there, still)[1] == 0.0
    told(servos, "velocity", {"lift": -0.5}, there)
    assert servos.efforts(there, still)[1] < 0.0


def test_what_was_told_survives_as_plain_data(system: System) -> None:
    servos, sim = Servos(hoist(), STEP_S), Simulation(system, step_s=STEP_S)
    told(servos, "position", {"lift": 0.2})
    run(servos, sim, 0.1)
    kept, state = servos.to_plain(), sim.snapshot()
    first = run(servos, sim, 0.1)
    other = Servos(hoist(), STEP_S)
    other.from_plain(kept)
    sim.restore(state)
    for was, now in zip(first, run(other, sim, 0.1), strict=True):
        assert was.tobytes() == now.tobytes()


@pytest.mark.parametrize(
    ("mode", "values", "line"),
    [
        ("velocity", {"spin": 1.0}, "actuator 'spin' of 'hoist' has no servo gains; use mode 'effort'"),
        ("torque", {"lift": 1.0}, "mode 'torque': modes are effort, velocity, position"),
        ("effort", {"left": 1.0}, "no actuator 'left'; its actuators are spin, lift"),
        ("position", {"lift": math.nan}, "nan; it must be a finite number"),
    ],
)
def test_a_command_that_cannot_be_is_refused_and_changes_nothing(
    mode: str, values: dict[str, float], line: str
) -> None:
    servos = Servos(hoist(), STEP_S)
    before = servos.to_plain()
    with pytest.raises(InvalidRequest, match=line):
        told(servos, mode, values)
    assert servos.to_plain() == before


@pytest.mark.parametrize(
    "plain",
    [
        {"mode": [0, 0]},
        {"mode": [0, 0], "value": [0.0], "target": [0.0, 0.0]},
        {"mode": [0, 7], "value": [0.0, 0.0], "target": [0.0, 0.0]},
        {"mode": [1, 0], "value": [0.0, 0.0], "target": [0.0, 0.0]},
        {"mode": [0, 1], "value": [0.0, math.inf], "target": [0.0, 0.0]},
        "far",
    ],
)
def test_broken_plain_data_changes_nothing(plain: dict[str, object]) -> None:
    servos = Servos(hoist(), STEP_S)
    before = servos.to_plain()
    with pytest.raises(InvalidRequest):
        servos.from_plain(plain)
    assert servos.to_plain() == before


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"effort_limit": 0.0}, "effort_limit is 0; it must be above 0"),
        ({"velocity_limit": -1.0}, "velocity_limit is -1"),
        ({"servo": Servo(stiffness=0.0, damping=1.0)}, "servo: stiffness is 0; it must be above 0"),
        ({"servo": Servo(stiffness=1.0, damping=-1.0)}, "servo: damping is -1; it must not be negative"),
    ],
)
def test_limits_and_gains_that_cannot_be_are_named(changes: dict[str, object], line: str) -> None:
    with pytest.raises(InvalidMechanism, match=line):
        validate(hoist(**changes))


def test_gains_and_limits_are_no_part_of_the_equations() -> None:
    plain = hoist(effort_limit=None, velocity_limit=None, servo=None)
    assert plain.canonical_hash == hoist().canonical_hash


@pytest.mark.parametrize("modes", [("position", "velocity"), ("velocity", "position")])
def test_efforts_are_continuous_between_commands_of_positions_and_of_velocities(modes: tuple[str, str]) -> None:
    """The damping of 120 N s/m acts against 0.1 m/s in one mode, and against no difference of speeds in the other."""
    speed, efforts, servos = 0.1, [], Servos(hoist(), STEP_S)
    for tick in range(400):
        goal = speed * STEP_S * (tick + 1)
        there, moving = np.array([goal - 0.005, 0.0]), np.array([speed, 0.0])
        mode = modes[tick >= 200]
        told(servos, mode, {"lift": speed if mode == "velocity" else goal}, there)
        efforts.append(servos.efforts(there, moving)[1])
    assert np.abs(np.diff(efforts[150:])).max() < 3.0  # 12 N without
