"""CHARMIE with its loops closed, under a joint servo: a minute of motion, and the forces that hold it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from nodes.research.studies.charmie.spring_study import with_spring
from robots.charmie import closed, geometry
from robots.charmie.loads import charmie_loads
from robots.charmie.mechanism import with_loops
from robots.charmie.parameters import Parameters, read_parameters
from robots.registry import build
from sim_core.errors import InvalidRequest
from sim_core.inverse import inverse_dynamics
from sim_core.servos.loops import Servos
from sim_core.simulation import Simulation
from sim_core.system import System, assemble

P = read_parameters()
TREE = build("charmie", limits="none")
N = len(TREE.moving_joints)
ROLES = {"link_3": 1.0, "link_4": 1.1, "link_5": 0.3}  # kg of each that are bodies of the loops
PERIOD, STEP = 4.0, 1e-3
Point = tuple[np.ndarray, np.ndarray, np.ndarray]


class Servo:
    """Efforts of the inverse dynamics of a smooth periodic reference, and stiffness about it."""

    def __init__(self, p: Parameters, system: System) -> None:
        self.p, self.system = p, system
        self.names, mechanism = system.joint_names, system.mechanism
        self.driven = [self.names.index(actuator.joint) for actuator in mechanism.actuators]
        self.B = np.zeros((system.n_q, system.n_u))
        self.B[self.driven, range(system.n_u)] = 1.0
        self.start = np.array(mechanism.initial_q[:N])
        random = np.random.default_rng(7)
        self.swing = random.choice([-1.0, 1.0], N) * random.uniform(0.3, 0.6, N)
        self.swing[[self.names.index(name) for name in ("lift", "tilt")]] = 0.05, -0.6
        self.rates = 2 * np.pi / random.choice([1.0, 2.0, 4.0], N)
        self.rates[[self.names.index(name) for name in ("lift", "tilt")]] = 2 * np.pi / 2.0
        M = system.terms(0.0, *self.reference(0.0)[:2])[0]
        self.stiffness = 400.0 * np.diag(M)[self.driven]
        self.stiffness[[self.names.index(name) for name in ("lift", "tilt")]] = (
            2e4  # the rods move all that rides on them
        )

    def reference(self, t: float) -> Point:
        """q, v, a (29,) with closed loops, from the start at rest and back to it."""
        c, s = np.cos(self.rates * t), np.sin(self.rates * t)
        q = self.start + self.swing * (1 - c) / 2
        v, a = self.swing * self.rates * s / 2, self.swing * self.rates**2 * c / 2
        return closed.closed_motion(self.p, self.names, q, v, a)

    def required(self, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """u and lam that give a at q, v: inverse dynamics and as many equations as there are coordinates."""
        J = self.system.terms(0.0, q, v)[2]
        tau = inverse_dynamics(self.system, q, v, a)
        found = np.linalg.solve(np.hstack([self.B, -J.T]), tau)
        return found[: self.system.n_u], found[self.system.n_u :]

    def effort(self, u: np.ndarray, wanted: Point, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        gap, rate = (wanted[0] - q)[self.driven], (wanted[1] - v)[self.driven]
        return u + self.stiffness * (gap + 0.1 * rate)


@pytest.fixture(scope="module")
def looped() -> System:
    return assemble(build("charmie", loops="closed", limits="none"))


def test_it_has_29_coordinates_and_8_rows_and_starts_closed_with_actuators_of_400_mm(looped: System) -> None:
    assert (looped.n_q, looped.constraint_modes[0].n_rows, looped.n_u) == (29, 8, N)
    assert max(Simulation(looped).violation()) <= 1e-12
    at = dict(zip(looped.joint_names, looped.mechanism.initial_q, strict=True))
    assert (at["lift_rod"], at["tilt_rod"]) == pytest.approx((0.4, 0.4), abs=1e-12)
    assert {actuator.name for actuator in looped.mechanism.actuators} >= {"lift_rod", "tilt_rod"}
    M, _, J, _ = looped.terms(0.0, looped.mechanism.initial_q, np.zeros(29))
    assert np.linalg.matrix_rank(J) == 8
    assert np.linalg.eigvalsh(M)[0] > 0.0


def test_it_weighs_what_the_open_tree_weighs(looped: System) -> None:
    """The bodies of the loops are part of the links that carry them."""
    closed_mass, open_mass = (sum(float(body.mass) for body in m.bodies) for m in (looped.mechanism, TREE))  # type: ignore[arg-type]
    assert closed_mass == pytest.approx(open_mass, rel=1e-14)
    lighter = {name: float(TREE.body(name).mass) - float(looped.mechanism.body(name).mass) for name in ROLES}  # type: ignore[arg-type]
    assert lighter == pytest.approx(ROLES)


def test_parts_heavier_than_their_link_are_refused() -> None:
    p = msgspec.structs.replace(P, upper_body=msgspec.structs.replace(P.upper_body, mass=0.3))
    with pytest.raises(InvalidRequest, match=r"upper_body.mass is 0.3 kg; it must be above 0.3 kg, because"):
        with_loops(TREE, p)


def test_the_lengths_of_the_rods_grow_with_their_joints_over_all_of_their_range() -> None:
    for name, length in (("lift", geometry.length_of_lift), ("tilt", geometry.length_of_tilt)):
        given = closed.actuator_parameters(P, name)
        lengths = [length(P, float(x)) for x in np.linspace(given.lower, given.upper, 500)]
        assert np.all(np.diff(lengths) > 0.0)
        assert closed.rod_limits(P, name) == (lengths[0], lengths[-1])
        rows = (Path(closed.__file__).parent / "SOURCES.md").read_text()
        assert f"{lengths[0]:.4f} to {lengths[-1]:.4f} m for the\n{name}" in rows.replace(" lift", "\nlift")


def test_a_range_with_a_dead_centre_or_out_of_the_bars_reach_is_refused() -> None:
    wide = msgspec.structs.replace(P, tilt=msgspec.structs.replace(P.tilt, lower=-3.0))
    with pytest.raises(
        InvalidRequest, match=r"joint tilt goes from -3 to 0, but its actuator is at a dead centre at about -1.88"
    ):
        with_loops(TREE, wide)
    short = msgspec.structs.replace(P, balance=msgspec.structs.replace(P.balance, bar_length=0.065))
    with pytest.raises(
        InvalidRequest, match=r"balance.bar_length is 0.065 m; it must exceed the rise of the bar's end"
    ):
        with_loops(TREE, short)


def test_the_loops_stay_closed_for_a_minute_of_motion_under_a_servo(looped: System) -> None:
    servo = Servo(P, looped)
    table = [servo.reference(k * STEP) for k in range(round(PERIOD / STEP))]
    efforts = [servo.required(*wanted)[0] for wanted in table]
    limits = np.array([actuator.effort_limit for actuator in looped.mechanism.actuators])
    assert (np.abs(efforts) < limits).all()
    sim, worst = Simulation(looped, step_s=STEP), np.zeros(looped.n_q)
    for tick in range(60_000):
        wanted, state = table[tick % len(table)], sim.state
        sim.set_effort(servo.effort(efforts[tick % len(table)], wanted, state.q, state.v))
        sim.step()
        if tick % 10 == 0:
            worst = np.maximum(worst, np.abs(wanted[0] - state.q))
    assert sim.peak_violation()[0] <= 1e-8
    trunk = [looped.joint_names.index(name) for name in ("base_x", "base_y", "base_yaw", "lift", "tilt")]
    assert worst[trunk].max() <= 0.01  # it moved as asked: m or rad of travels of 0.05 to 0.6
    assert worst.max() <= 0.3  # the servo is soft about the light wrists


def test_multipliers_and_efforts_are_those_of_the_inverse_dynamics_of_the_same_motion(looped: System) -> None:
    servo, sim = Servo(P, looped), Simulation(looped, step_s=STEP)
    for tick in range(1500):
        wanted, state = servo.reference(tick * STEP), sim.state
        u = servo.effort(servo.required(*wanted)[0], wanted, state.q, state.v)
        sim.set_effort(u)
        if tick % 250 == 249:
            a, lam, _ = looped.acceleration(sim.time, state.q, state.v, sim.state.u)
            needed, forces = servo.required(state.q, state.v, a)
            np.testing.assert_allclose(needed, sim.state.u, rtol=0, atol=1e-8 * np.abs(u).max())
            np.testing.assert_allclose(forces, lam, rtol=0, atol=1e-8 * np.abs(lam).max())
        sim.step()


@pytest.mark.parametrize("spring", [None, (0.0, 180.0)], ids=["as it is", "a constant pull"])
def test_with_light_bodies_in_the_loops_the_simulated_forces_are_those_of_the_paper(
    spring: tuple[float, float] | None,
) -> None:
    """Multipliers at the rods' ends beside eqs. 35 to 43, for the accelerations that the simulation has.

    spring  stiffness and pretension of the balancing springs
    """
    parts = {name: 1e-4 * value for name, value in msgspec.to_builtins(P.auxiliary).items() if name != "width"}
    p = msgspec.structs.replace(P, auxiliary=msgspec.structs.replace(P.auxiliary, **parts))
    p = with_spring(p, "balance", *spring) if spring else p
    system = assemble(with_loops(TREE, p))
    servo, sim = Servo(p, system), Simulation(system, step_s=STEP)
    rows = {
        name: [row for row, label in enumerate(system.constraint_modes[0].row_names) if name in label]
        for name in ("lift_rod", "tilt_rod", "left_bar", "right_bar")
    }
    for tick in range(1000):
        wanted, state = servo.reference(tick * STEP), sim.state
        sim.set_effort(servo.effort(servo.required(*wanted)[0], wanted, state.q, state.v))
        if tick % 200 == 199:
            a, lam, _ = system.acceleration(sim.time, state.q, state.v, sim.state.u)
            ours = charmie_loads(p, TREE, state.q[:N], state.v[:N], a[:N])
            effort = dict(zip((actuator.name for actuator in system.mechanism.actuators), sim.state.u, strict=True))
            for name in ("lift", "tilt"):
                push = np.linalg.norm(lam[rows[f"{name}_rod"]])
                assert push == pytest.approx(abs(ours.actuators[name]), rel=1e-3, abs=0.1)
                assert effort[f"{name}_rod"] == pytest.approx(ours.actuators[name], rel=1e-3, abs=0.1)
            for half, side in closed.SIDES.items():
                up = abs(ours.on_link_4[f"link_4s{half}c"].force[2])
                assert np.abs(lam[rows[f"{side}_bar"]]).max() == pytest.approx(up, rel=1e-3, abs=0.1)
        sim.step()
    lift = sim.state.q[servo.names.index("lift")]
    assert sim.state.q[servo.names.index("lift_rod")] == pytest.approx(geometry.length_of_lift(p, lift), abs=1e-9)


def test_the_rods_own_servos_squat_and_lean_and_hold_there(looped: System) -> None:
    servos, sim = Servos(looped.mechanism, STEP), Simulation(looped, step_s=STEP)
    names = looped.joint_names
    start = dict(zip(names, sim.joints()[0].tolist(), strict=True))
    wanted = {"lift_rod": geometry.length_of_lift(P, 0.12), "tilt_rod": geometry.length_of_tilt(P, -0.6)}
    targets = {name: wanted.get(name, start[name]) for name in servos.names}
    servos.command("position", list(targets), list(targets.values()), sim.joints()[0])
    for _ in range(4000):
        position, velocity, _ = sim.joints()
        sim.set_effort(servos.efforts(position, velocity))
        sim.step()
    position, velocity, _ = sim.joints()
    assert np.abs(velocity).max() <= 1e-4
    found = dict(zip(names, position, strict=True))
    assert found["lift"] == pytest.approx(0.12, abs=3e-3)  # a servo gives way to the weight
    assert found["tilt"] == pytest.approx(-0.6, abs=2e-2)
    assert sim.peak_violation()[0] <= 1e-8
    for name, limits in (("lift_rod", (P.lift.lower, P.lift.upper)), ("tilt_rod", (P.tilt.lower, P.tilt.upper))):
        length = geometry.length_of_lift if name == "lift_rod" else geometry.length_of_tilt
        rod = looped.mechanism.joint(name)
        assert (rod.lower, rod.upper) == pytest.approx([length(P, limit) for limit in limits])
