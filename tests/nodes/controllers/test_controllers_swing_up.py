"""Swing-up and balance of an independent model of the rotary pendulum, with wrong masses, delay, encoders."""

from __future__ import annotations

import collections
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import pytest

from nodes.controllers.riccati import lqr_gain, solve_riccati
from nodes.controllers.swing_up import RotaryModel, SwingUp, SwingUpParams
from nodes.framework.messages import JointCommand, JointReference, RobotState
from nodes.node import Context
from robots.registry import build
from sim_core.simulation import Simulation
from sim_core.system import assemble

STEP_S = 1e-3
HANGING = (0.0, 0.0, 0.0, 0.0)
AXIAL_INERTIA = 5e-6  # kg m^2, of the pendulum's rod about itself


@dataclass(frozen=True)
class Furuta:
    """Rotary pendulum by Lagrange's equations in theta, the arm's angle, and alpha, the pendulum's."""

    arm_mass: float = 0.095
    arm_length: float = 0.085
    pendulum_mass: float = 0.024
    pendulum_length: float = 0.129
    gravity: float = 9.81

    def terms(self, alpha: float) -> tuple[float, float, float, float]:
        """M11, M12, M22, dM11/dalpha."""
        m, L, r = self.pendulum_mass, self.pendulum_length, self.arm_length
        J2 = m * L * L / 3.0
        M11 = (self.arm_mass / 3.0 + m) * r * r + J2 * math.sin(alpha) ** 2 + AXIAL_INERTIA * math.cos(alpha) ** 2
        return M11, m * r * L / 2.0 * math.cos(alpha), J2, (J2 - AXIAL_INERTIA) * math.sin(2.0 * alpha)

    def moment(self) -> float:
        return self.pendulum_mass * self.gravity * self.pendulum_length / 2.0

    def acceleration(self, x: np.ndarray, torque: float) -> tuple[float, float]:
        _, alpha, w1, w2 = x
        M11, M12, M22, slope = self.terms(alpha)
        dM12 = -self.pendulum_mass * self.arm_length * self.pendulum_length / 2.0 * math.sin(alpha)
        f1 = torque - slope * w1 * w2 - dM12 * w2 * w2
        f2 = 0.5 * slope * w1 * w1 - self.moment() * math.sin(alpha)
        determinant = M11 * M22 - M12 * M12
        return (M22 * f1 - M12 * f2) / determinant, (M11 * f2 - M12 * f1) / determinant

    def energy(self, x: np.ndarray) -> float:
        M11, M12, M22, _ = self.terms(x[1])
        kinetic = 0.5 * M11 * x[2] ** 2 + M12 * x[2] * x[3] + 0.5 * M22 * x[3] ** 2
        return float(kinetic - self.moment() * math.cos(x[1]))

    def step(self, x: np.ndarray, torque: float) -> np.ndarray:
        """One step of classical Runge-Kutta."""

        def rate(x: np.ndarray) -> np.ndarray:
            return np.array([x[2], x[3], *self.acceleration(x, torque)])

        k1 = rate(x)
        k2 = rate(x + 0.5 * STEP_S * k1)
        k3 = rate(x + 0.5 * STEP_S * k2)
        k4 = rate(x + STEP_S * k3)
        return x + STEP_S / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


class Encoders:
    """What counters of 2048 lines give: rounded angles, rates by difference and a low pass of 50 Hz."""

    COUNT = 2.0 * math.pi / 2048
    SHARE = STEP_S / (STEP_S + 1.0 / (2.0 * math.pi * 50.0))

    def __init__(self) -> None:
        self.last: np.ndarray | None = None
        self.rates = np.zeros(2)

    def read(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        angles = np.round(x[:2] / self.COUNT) * self.COUNT
        if self.last is not None:
            self.rates = self.rates + self.SHARE * ((angles - self.last) / STEP_S - self.rates)
        self.last = angles
        return angles, self.rates


@dataclass
class Run:
    """A closed loop: the node, the plant, the steps of delay between them, and what happened."""

    plant: Furuta = field(default_factory=Furuta)
    delay_steps: int = 0
    sensors: Encoders | None = None
    reference: Callable[[float], tuple[float, float, float]] | None = None
    params: dict[str, Any] = field(default_factory=dict)
    times: list[float] = field(default_factory=list)
    states: list[np.ndarray] = field(default_factory=list)
    torques: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.node = SwingUp()
        params = msgspec.convert(self.params, SwingUpParams)
        self.node.on_start(Context("swing_up", "robot", STEP_S, params, np.random.default_rng(0)))

    def go(self, duration_s: float, start: tuple[float, ...] = HANGING) -> Run:
        x, waiting = np.array(start), collections.deque([0.0] * self.delay_steps)
        for tick in range(round(duration_s / STEP_S)):
            t = tick * STEP_S
            if self.reference and tick % 10 == 0:
                rows = ([value] for value in self.reference(t))
                said = JointReference(
                    **dict(zip(("position", "velocity", "acceleration"), rows, strict=True)), name=["arm"]
                )
                assert not self.node.on_message("reference", said)
            waiting.append(self.answer(t, tick, x))
            x = self.plant.step(x, waiting.popleft())
            self.times.append(t + STEP_S)
            self.states.append(x)
        return self

    def answer(self, t: float, seq: int, x: np.ndarray) -> float:
        angles, rates = self.sensors.read(x) if self.sensors else (x[:2], x[2:])
        names = ["arm", "pendulum"]
        state = RobotState(timestamp=t, seq=seq, name=names, position=list(angles), velocity=list(rates))
        ((topic, command),) = self.node.on_message("state", state) or ()
        assert topic == "command"
        assert isinstance(command, JointCommand)
        assert command.state_seq == seq
        assert command.name == ["arm"]
        self.torques.append(command.value[0])
        return command.value[0]

    def upright_since(self, tolerance_deg: float = 10.0) -> float:
        """Time from which the pendulum stayed upright to the end; infinite when it did not."""
        away = np.abs(np.remainder([x[1] for x in self.states], 2.0 * math.pi) - math.pi)
        fallen = np.flatnonzero(away > math.radians(tolerance_deg))
        if len(fallen) and fallen[-1] == len(away) - 1:
            return math.inf
        return self.times[fallen[-1] + 1] if len(fallen) else 0.0


def test_the_plant_of_these_tests_conserves_energy() -> None:
    plant, x = Furuta(), np.array([0.1, 2.9, 3.0, 0.5])
    start = plant.energy(x)
    for _ in range(2000):
        x = plant.step(x, 0.0)
    assert plant.energy(x) == pytest.approx(start, abs=1e-8)


def test_the_kinetic_energy_of_the_plant_is_that_of_its_rods() -> None:
    """Summed over points of the two rods moved by the geometry, without any mass matrix."""
    plant = Furuta()
    theta, alpha, w1, w2 = 0.7, 2.1, 3.0, -5.0

    def points(theta: float, alpha: float) -> tuple[np.ndarray, np.ndarray]:
        along = np.array([math.cos(theta), math.sin(theta), 0.0])
        across = np.array([-math.sin(theta), math.cos(theta), 0.0])
        down = math.sin(alpha) * across - math.cos(alpha) * np.array([0.0, 0.0, 1.0])
        share = (np.arange(400)[:, None] + 0.5) / 400
        tip = plant.arm_length * along
        return share * tip, tip + share * plant.pendulum_length * down

    h, kinetic = 1e-6, 0.0
    ahead, behind = points(theta + h * w1, alpha + h * w2), points(theta - h * w1, alpha - h * w2)
    for mass, p, q in zip((plant.arm_mass, plant.pendulum_mass), ahead, behind, strict=True):
        kinetic += 0.5 * mass * float(np.mean(np.sum(((p - q) / (2.0 * h)) ** 2, axis=1)))
    axial = 0.5 * AXIAL_INERTIA * (math.cos(alpha) * w1) ** 2
    resting = plant.energy(np.array([theta, alpha, 0.0, 0.0]))
    moving = plant.energy(np.array([theta, alpha, w1, w2]))
    assert moving - resting == pytest.approx(kinetic + axial, rel=1e-5)


@pytest.mark.parametrize("coordinates", ["absolute", "joint"])
def test_the_robot_in_other_coordinates_moves_as_the_plant_of_these_tests(coordinates: str) -> None:
    """Two derivations without a common line: positions after a second of driven motion, and the energy on the way."""
    sim = Simulation(assemble(build("rotary_pendulum", coordinates=coordinates, start_deg=100.0)), step_s=STEP_S)
    plant, x = Furuta(), np.array([0.0, math.radians(100.0), 0.0, 0.0])
    offset = sim.energy() - plant.energy(x)
    for tick in range(1000):
        torque = 0.01 * math.sin(0.01 * tick)
        sim.set_effort([torque])
        sim.step()
        x = plant.step(x, torque)
        if tick % 100 == 0:
            assert sim.energy() - plant.energy(x) == pytest.approx(offset, abs=1e-8)
    position, velocity, _ = sim.joints()
    assert position == pytest.approx(x[:2], abs=1e-5)
    assert velocity == pytest.approx(x[2:], abs=1e-4)


def test_riccati_solution_satisfies_its_equation_and_stabilizes() -> None:
    rng = np.random.default_rng(3)
    A, B = rng.standard_normal((5, 5)), rng.standard_normal((5, 2))
    Q, R = np.diag([1.0, 2.0, 3.0, 4.0, 5.0]), np.diag([0.5, 2.0])
    P = solve_riccati(A, B, Q, R)
    residual = A.T @ P + P @ A - P @ B @ np.linalg.solve(R, B.T @ P) + Q
    assert np.abs(residual).max() < 1e-10 * np.abs(P).max()
    assert np.linalg.eigvals(A - B @ lqr_gain(A, B, Q, R)).real.max() < 0.0


def test_riccati_refuses_what_cannot_be_stabilized() -> None:
    with pytest.raises(ValueError, match="no stabilizing regulator"):
        solve_riccati(np.eye(2), np.zeros((2, 1)), np.eye(2), np.eye(1))


def test_the_arm_torque_of_the_model_gives_the_acceleration_asked_for() -> None:
    model, plant = RotaryModel(SwingUpParams()), Furuta()
    x = np.array([0.3, 2.2, 4.0, -6.0])
    arm_acceleration, _ = plant.acceleration(x, model.arm_torque(x[1], x[2], x[3], 25.0))
    assert arm_acceleration == pytest.approx(25.0, rel=0.02)  # the model leaves out the rod's axial inertia


def test_it_swings_up_from_hanging_at_rest_and_stays() -> None:
    run = Run().go(8.0)
    assert run.upright_since() < 3.0
    assert max(map(abs, run.torques)) <= 0.05
    assert max(abs(x[0]) for x in run.states) < math.radians(60.0)
    assert np.abs(run.states[-1][[0, 2, 3]]).max() < 1e-3


@pytest.mark.parametrize("arm", [0.95, 1.05])
@pytest.mark.parametrize("pendulum", [0.95, 1.05])
@pytest.mark.parametrize("lengths", [0.97, 1.03])
def test_it_bears_wrong_masses_lengths_a_late_command_and_encoders(arm: float, pendulum: float, lengths: float) -> None:
    plant = Furuta(0.095 * arm, 0.085 * lengths, 0.024 * pendulum, 0.129 / lengths)
    run = Run(plant, delay_steps=3, sensors=Encoders()).go(5.0)
    assert run.upright_since() < 4.0


def test_it_recovers_from_any_motion() -> None:
    rng = np.random.default_rng(5)
    for _ in range(6):
        start = tuple(rng.uniform(-1.0, 1.0, 4) * (4.0, 20.0, 10.0, 20.0))
        run = Run().go(5.0, start)
        assert run.upright_since() < 4.0, start


def test_a_knock_while_balancing_is_followed_by_another_swing_up() -> None:
    run = Run().go(3.0)
    x = run.states[-1].copy()
    x[3] += 25.0
    assert run.go(6.0, tuple(x)).upright_since() < 5.0
    assert run.upright_since() > 0.0


def test_the_arm_follows_its_reference_while_balancing() -> None:
    amplitude, w = math.radians(45.0), 2.0 * math.pi / 5.0

    def sine(t: float) -> tuple[float, float, float]:
        return (
            amplitude * math.sin(w * t),
            amplitude * w * math.cos(w * t),
            -amplitude * w * w * math.sin(w * t),
        )

    run = Run(reference=sine).go(10.0)
    late = [(t, x) for t, x in zip(run.times, run.states, strict=True) if t > 5.0]
    assert max(abs(x[0] - sine(t)[0]) for t, x in late) < math.radians(2.0)
    assert run.upright_since(2.0) < 5.0


def test_a_far_step_of_the_reference_is_approached_and_not_jumped_at() -> None:
    run = Run(reference=lambda t: (0.0 if t < 3.0 else 3.0, 0.0, 0.0)).go(9.0)
    assert run.upright_since() < 3.0
    assert run.states[-1][0] == pytest.approx(3.0, abs=0.02)


def test_a_trajectory_gone_silent_leaves_the_arm_where_it_was_told_to_be() -> None:
    run = Run().go(3.0)
    said = JointReference(name=["arm"], position=[0.5], velocity=[2.0], acceleration=[0.0])
    run.node.on_message("reference", said)
    for tick in range(3000, 8000):
        run.states.append(run.plant.step(run.states[-1], run.answer(tick * STEP_S, tick, run.states[-1])))
    assert run.states[-1][0] == pytest.approx(0.5, abs=0.01)


def test_reset_starts_with_pumping_again() -> None:
    run = Run().go(3.0)
    first = list(run.torques)
    run.node.on_reset(0.0)
    run.torques.clear()
    run.go(3.0)
    assert run.torques == first


def test_references_of_other_joints_are_not_the_arms() -> None:
    run = Run()
    run.node.on_message("reference", JointReference(name=["elbow"], position=[2.0]))
    assert run.go(4.0).states[-1][0] == pytest.approx(0.0, abs=0.02)


def test_a_state_without_its_joints_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"swing_up needs joint 'arm'; the state has \['elbow'\]"):
        Run().node.on_message("state", RobotState(name=["elbow"], position=[0.0], velocity=[0.0]))


def test_a_state_that_lacks_its_joints_later_is_not_answered_and_ends_nothing() -> None:
    node = Run().node
    assert node.on_message("state", RobotState()) is None
    whole = RobotState(name=["arm", "pendulum"], position=[0.0, 0.1], velocity=[0.0, 0.0])
    answer = node.on_message("state", whole)
    for names in ([], ["elbow"], ["arm"]):
        zeros = [0.0] * len(names)
        assert node.on_message("state", RobotState(name=names, position=zeros, velocity=zeros)) is None
    assert node.on_message("state", whole) == answer


@pytest.mark.parametrize("huge", [1e200, 1.7e308, -1.7e308])
def test_huge_numbers_are_answered_within_the_limit(huge: float) -> None:
    node = Run().node
    for position, velocity in ((0.0, huge), (huge, 0.0), (huge, huge)):
        state = RobotState(name=["arm", "pendulum"], position=[position] * 2, velocity=[velocity] * 2)
        ((_, command),) = node.on_message("state", state)
        assert abs(command.value[0]) <= 0.05


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"torque_limit": 0.0}, "torque_limit is 0.0; it must be a number above 0"),
        ({"pendulum_mass": math.nan}, "pendulum_mass is nan"),
        ({"catch_angle_deg": 50.0}, "catch_angle_deg 50.0 must be below release_angle_deg 40.0"),
        ({"torque": 1.0}, "torque"),
    ],
)
def test_bad_parameters_are_refused_in_one_line(params: dict[str, float], words: str) -> None:
    with pytest.raises(msgspec.ValidationError) as refusal:
        msgspec.convert(params, SwingUpParams)
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_start_of_the_node_imports_no_scipy_numba_or_casadi() -> None:
    program = (
        "import sys; from nodes.controllers.swing_up import RotaryModel, SwingUpParams;"
        "RotaryModel(SwingUpParams()).balance_gain();"
        "print(sorted({'scipy', 'numba', 'casadi', 'zmq'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
