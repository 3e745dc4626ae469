"""Ranges of many systems over a run are those of their motions."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from robots.registry import build
from sim_core.batch.lane_loop import module
from sim_core.batch.peaks import layout_of
from sim_core.derivation.equations import derive_lanes
from sim_core.errors import InvalidRequest
from sim_core.kernels.machine_code.native import has_fused_multiply_add
from sim_core.mechanism import Body, Joint, Mechanism, Servo, SphereContact
from sim_core.servos.loops import Servos
from sim_core.simulation import Simulation
from sim_core.system import System, assemble


def starts(system: System, count: int, size: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(7)
    q = np.array(system.mechanism.initial_q) + size * random.normal(size=(count, system.n_q))
    return q, size * random.normal(size=(count, system.n_q))


@pytest.fixture(scope="module")
def pendulum() -> System:
    return assemble(build("double_pendulum"))


@pytest.mark.parametrize("name", ["double_pendulum", "arm_6dof", "rotary_pendulum"])
def test_the_last_state_is_that_of_a_rollout_and_the_range_holds_every_sample(name: str) -> None:
    system = assemble(build(name))
    batch = system.batch(8)
    q, v = starts(system, 11, 0.1)
    run = {"step_s": 1e-3, "steps": 40}
    rolled, peaks = batch.rollout(q, v, **run), batch.peaks(q, v, **run)
    scale = max(1.0, np.abs(rolled.v).max())
    assert np.abs(peaks.q - rolled.q[:, -1]).max() <= 1e-12 * scale
    assert np.abs(peaks.v - rolled.v[:, -1]).max() <= 1e-11 * scale
    states = np.concatenate([rolled.q, rolled.v], axis=2)
    assert (peaks.high - states.max(axis=1)).min() >= -1e-11 * scale
    assert (states.min(axis=1) - peaks.low).min() >= -1e-11 * scale
    assert peaks.rows[0] == system.coordinate_names[0]
    assert peaks.rows[-1] == f"{system.coordinate_names[-1]}.velocity"


def test_efforts_and_parameters_reach_every_system() -> None:
    system = assemble(build("rotary_pendulum"))
    random, batch = np.random.default_rng(5), system.batch(8)
    q, v = (np.tile(value, (9, 1)) for value in (system.mechanism.initial_q, system.mechanism.initial_v))
    u = 1e-2 * random.normal(size=(9, system.n_u))
    p = system.default_parameters() * random.uniform(0.8, 1.2, size=(9, len(system.tunable_names)))
    rolled = batch.rollout(q, v, u, step_s=1e-3, steps=30, p=p)
    peaks = batch.peaks(q, v, u, step_s=1e-3, steps=30, p=p)
    np.testing.assert_allclose(peaks.q, rolled.q[:, -1], rtol=1e-11, atol=1e-12)
    assert len({row.tobytes() for row in peaks.q}) == 9


def test_lanes_threads_and_neighbours_change_no_byte(pendulum: System) -> None:
    q, v = starts(pendulum, 71, 2.0)
    run = {"step_s": 0.03, "steps": 500}
    reference = pendulum.batch(8).peaks(q, v, threads=1, **run)
    for lanes, threads in ((2, 1), (4, 2), (8, 2), (16, 1), (32, 2)):
        other = pendulum.batch(lanes).peaks(q, v, threads=threads, **run)
        assert other.lanes == lanes
        assert other.cpu == reference.cpu
        for name in ("low", "high", "q", "v"):
            assert getattr(other, name).tobytes() == getattr(reference, name).tobytes()
    alone = pendulum.batch(16).peaks(q[40:41], v[40:41], **run)
    assert alone.high.tobytes() == reference.high[40:41].tobytes()


def ball_on_the_ground() -> Mechanism:
    """A ball that rolls and slides: sums of products, roots and cases in its contact, and a quaternion."""
    return Mechanism(
        name="ball",
        coordinates="joint",
        bodies=(Body(name="ball", mass=1.0, inertia=(0.004, 0.004, 0.004, 0.0, 0.0, 0.0)),),
        joints=(Joint(name="free", kind="free", child="ball"),),
        contacts=(
            SphereContact(
                name="floor",
                body="ball",
                radius=0.1,
                stiffness=1e4,
                dissipation=0.5,
                friction=0.4,
                slip_velocity=0.05,
            ),
        ),
        initial_q=(0.0, 0.0, 0.12, 0.0, 0.0, 0.0),
        initial_v=(0.5, 0.2, -0.5, 1.0, 2.0, -3.0),
    )


def test_lanes_change_no_byte_of_a_ball_that_slides_on_the_ground() -> None:
    system = assemble(ball_on_the_ground())
    q = np.tile(system.mechanism.initial_q, (5, 1))
    v = np.tile(system.mechanism.initial_v, (5, 1)) * np.linspace(1.0, 2.0, 5)[:, None]
    run = {"step_s": 1e-3, "steps": 120}
    motions = [system.batch(lanes).rollout(q, v, **run) for lanes in (2, 8)]
    ranges = [system.batch(lanes).peaks(q, v, **run) for lanes in (2, 8)]
    for name in ("q", "v", "orientations"):
        assert getattr(motions[0], name).tobytes() == getattr(motions[1], name).tobytes()
    for name in ("low", "high", "q", "v", "orientations"):
        assert getattr(ranges[0], name).tobytes() == getattr(ranges[1], name).tobytes()
    assert [(motion.lanes, motion.cpu) for motion in motions] == [(peaks.lanes, peaks.cpu) for peaks in ranges]


def test_a_loop_for_several_systems_leaves_no_choice_of_fused_products_to_the_compiler() -> None:
    """LLVM fuses other products with 2 lanes than with 8, which would change the last digits."""
    mechanism = ball_on_the_ground()
    system = assemble(mechanism)
    ir = module(derive_lanes(mechanism, False), layout_of(system), system.constraint_modes[0].n_rows, 2)
    assert " contract " not in ir
    assert has_fused_multiply_add() == ("@llvm.fma.v2f64(" in ir.split("define void @ranges", 1)[1])


@pytest.mark.parametrize("step", [0.2, 0.1])
def test_the_cubic_finds_the_peak_between_two_steps(step: float) -> None:
    """A pendulum from 0.5 rad at rest: largest angle 0.5 again, largest rate sqrt(2 - 2 cos 0.5), to fourth order."""
    system = assemble(build("single_pendulum"))
    peaks = system.batch(8).peaks([[0.5]], [[0.0]], step_s=step, steps=round(20 / step))
    rate = np.sqrt(2 - 2 * np.cos(0.5))
    expected = np.array([0.5, rate])
    assert np.abs(peaks.largest()[0] - expected).max() <= 0.02 * step**4
    assert np.abs(-peaks.low[0] - expected).max() <= 0.02 * step**4
    sampled = system.batch(8).rollout([[0.5]], [[0.0]], step_s=step, steps=round(20 / step))
    assert rate - sampled.v.max() > 0.02 * step**4  # the samples alone miss it


def test_the_peaks_converge_with_fourth_order(pendulum: System) -> None:
    q, v = starts(pendulum, 8, 0.3)
    fine = pendulum.batch(8).peaks(q, v, step_s=0.0025, steps=4000).largest()
    errors = [
        np.abs(pendulum.batch(8).peaks(q, v, step_s=10 / n, steps=n).largest() - fine).max() for n in (100, 200, 400)
    ]
    slopes = np.log2(np.array(errors[:-1]) / errors[1:])
    assert slopes.min() > 3.5


def test_the_range_of_no_step_is_the_start(pendulum: System) -> None:
    q, v = starts(pendulum, 3)
    peaks = pendulum.batch(8).peaks(q, v, step_s=0.1, steps=0)
    np.testing.assert_array_equal(peaks.low, np.hstack([q, v]))
    np.testing.assert_array_equal(peaks.high, peaks.low)
    np.testing.assert_allclose(peaks.largest(about=peaks.low[0])[0], 0.0)


def test_a_system_that_diverges_has_no_range_and_disturbs_no_other(pendulum: System) -> None:
    q, v = starts(pendulum, 3)
    wild = v.copy()
    wild[1] = 1e200
    calm, torn = (pendulum.batch(8).peaks(q, start, step_s=0.1, steps=50) for start in (v, wild))
    assert np.isnan(torn.high[1]).all()
    assert np.isnan(torn.low[1]).all()
    np.testing.assert_array_equal(torn.high[[0, 2]], calm.high[[0, 2]])


def test_a_large_angle_changes_no_byte_of_other_systems(pendulum: System) -> None:
    """The C library reduces angles beyond 524288 rad, which the vector code cannot."""
    q, v = starts(pendulum, 12)
    turned = q.copy()
    turned[5] += 1e6
    run = {"step_s": 0.05, "steps": 400, "threads": 1}
    near, far = (pendulum.batch(16).peaks(start, v, **run) for start in (q, turned))
    others = [k for k in range(12) if k != 5]
    assert far.high[others].tobytes() == near.high[others].tobytes()
    assert far.v[others].tobytes() == near.v[others].tobytes()
    for k in (4, 32):
        assert pendulum.batch(k).peaks(turned, v, **run).v.tobytes() == far.v.tobytes()
    short = {"step_s": 0.05, "steps": 20}
    rolled, peaks = (pendulum.batch(8).rollout(turned, v, **short), pendulum.batch(8).peaks(turned, v, **short))
    np.testing.assert_allclose(peaks.v[5], rolled.v[5, -1], rtol=0, atol=1e-8)  # an ulp of the angle is 1e-10


@pytest.mark.parametrize("angle", [6e5, 1e12])
def test_a_large_angle_changes_no_byte_of_other_systems_in_a_rollout(pendulum: System, angle: float) -> None:
    q, v = starts(pendulum, 12)
    turned = q.copy()
    turned[5] += angle
    others = [k for k in range(12) if k != 5]
    run = {"step_s": 0.05, "steps": 100}
    kept = pendulum.batch(8).rollout(turned, v, **run)
    for lanes in (2, 8, 32):
        batch = pendulum.batch(lanes)
        near, far = (batch.rollout(start, v, **run) for start in (q, turned))
        assert far.v[others].tobytes() == near.v[others].tobytes()
        assert far.q[others].tobytes() == near.q[others].tobytes()
        assert far.v.tobytes() == kept.v.tobytes()
        for function in (batch.inverse_dynamics, batch.forward_dynamics):
            assert function(turned, v, v)[others].tobytes() == function(q, v, v)[others].tobytes()


def test_the_range_is_that_of_all_cubics(pendulum: System) -> None:
    """A cubic is evaluated only if its extremum may lie outside the range; this evaluates all of them densely."""
    q, v = starts(pendulum, 6, 0.5)
    h, steps = 0.1, 100
    rolled = pendulum.batch(8).rollout(q, v, step_s=h, steps=steps)
    peaks = pendulum.batch(8).peaks(q, v, step_s=h, steps=steps)
    s = np.linspace(0.0, 1.0, 2001)[:, None]
    for row in range(6):
        x = np.hstack([rolled.q[row], rolled.v[row]])
        a = np.array(
            [pendulum.acceleration(0.0, *state)[0] for state in zip(rolled.q[row], rolled.v[row], strict=True)]
        )
        D = h * np.hstack([rolled.v[row], a])
        low, high = x.min(axis=0), x.max(axis=0)
        for x0, x1, D0, D1 in zip(x, x[1:], D, D[1:], strict=False):
            B, C = 3 * (x1 - x0) - 2 * D0 - D1, D0 + D1 - 2 * (x1 - x0)
            cubic = x0 + s * (D0 + s * (B + s * C))
            turned = D0 * D1 < 0  # only then the range has the extremum
            low = np.where(turned, np.minimum(low, cubic.min(axis=0)), low)
            high = np.where(turned, np.maximum(high, cubic.max(axis=0)), high)
        np.testing.assert_allclose(peaks.low[row], low, rtol=0, atol=3e-7)
        np.testing.assert_allclose(peaks.high[row], high, rtol=0, atol=3e-7)
        assert (peaks.high[row] >= high - 1e-9).all()
        assert (peaks.low[row] <= low + 1e-9).all()


def test_bad_requests_are_refused_in_one_line(pendulum: System) -> None:
    batch = pendulum.batch(8)
    q, v = starts(pendulum, 3)
    with pytest.raises(InvalidRequest, match="threads is 0; it must be 1 or more"):
        batch.peaks(q, v, step_s=0.1, steps=1, threads=0)
    with pytest.raises(InvalidRequest, match=r"v0 has shape \(2, 2\)"):
        batch.peaks(q, v[:2], step_s=0.1, steps=1)
    with pytest.raises(InvalidRequest, match=r"'step_s' is -0\.1"):
        batch.peaks(q, v, step_s=-0.1, steps=1)


def test_other_threads_run_while_the_loop_does(pendulum: System) -> None:
    """During a run of some tenths of a second another thread counts on; the GIL would stop it for the whole run."""
    q, v = (np.tile(value, (400, 1)) for value in starts(pendulum, 1))
    stop, gaps = threading.Event(), [0.0]

    def count() -> None:
        last = time.perf_counter()
        while not stop.is_set():
            now = time.perf_counter()
            gaps[0] = max(gaps[0], now - last)
            last = now

    batch = pendulum.batch(8)
    batch.peaks(q, v, step_s=0.01, steps=10)
    thread = threading.Thread(target=count)
    began = time.perf_counter()
    thread.start()
    batch.peaks(q, v, step_s=0.01, steps=30_000, threads=1)
    lasted = time.perf_counter() - began
    stop.set()
    thread.join()
    assert gaps[0] < lasted / 2


INTERRUPTED = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # where the tests run in the background, it is ignored
signal.alarm(120)  # ends the run if the test cannot
from robots.registry import build
from sim_core.system import assemble
batch = assemble(build("double_pendulum")).batch(8)
batch.peaks([[0.1, 0.2]], [[0.0, 0.0]], step_s=0.01, steps=1)
try:
    print("begins", flush=True)
    batch.peaks([[0.1, 0.2]] * 64, [[0.0, 0.0]] * 64, step_s=0.01, steps=10**9)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_an_interrupt_ends_a_long_run() -> None:
    program = subprocess.Popen([sys.executable, "-P", "-c", INTERRUPTED], stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    assert program.stdout.readline() == "begins\n"
    program.send_signal(signal.SIGINT)
    said, _ = program.communicate(timeout=30)
    assert said == "interrupted\n"
    assert program.returncode == 0


SOAK = [pytest.param(name, marks=pytest.mark.soak) for name in ("crank_slider", "epicyclic_gear_train")]


@pytest.mark.parametrize("name", ["rotary_pendulum", "triple_pendulum", *SOAK])
def test_a_stabilized_run_is_the_default_simulation(name: str) -> None:
    """From starts that violate the constraints too; without the stabilizer the violation stays or grows."""
    system = assemble(build(name))
    mechanism, batch = system.mechanism, system.batch(8)
    random = np.random.default_rng(3)
    q = np.array(mechanism.initial_q) + 1e-4 * random.normal(size=(3, system.n_q))
    v = np.tile(mechanism.initial_v, (3, 1))
    run = {"step_s": 1e-3, "steps": 100}
    stable = batch.rollout(q, v, every=20, stabilizer="sampled_fuzzy", **run)
    peaks = batch.peaks(q, v, stabilizer="sampled_fuzzy", **run)
    loose = batch.rollout(q, v, every=20, **run)
    for row in range(3):
        sim = Simulation(system, step_s=1e-3, stepper="rk4", stabilizer="sampled_fuzzy")
        sim.reset(q[row], v[row])
        for k in range(6):
            scale = max(1.0, np.abs(sim.state.v).max())
            assert np.abs(stable.q[row, k] - sim.state.q).max() <= 1e-10 * scale
            assert np.abs(stable.v[row, k] - sim.state.v).max() <= 1e-8 * scale
            if k < 5:
                sim.step(20)
    np.testing.assert_array_equal(peaks.q, stable.q[:, -1])
    ends = [np.abs(system.residual(0.0, rolled.q[0, -1], rolled.v[0, -1])[0]).sum() for rolled in (stable, loose)]
    assert ends[0] < ends[1] / 3
    assert peaks.stabilizer == "sampled_fuzzy"


def test_efforts_are_limited_as_in_a_simulation() -> None:
    plain = assemble(build("arm_6dof"))
    most = np.array([a.effort_limit for a in plain.mechanism.actuators], dtype=float)
    assert np.isfinite(most).all()
    q, v = starts(plain, 1, 0.1)
    far, at = (plain.batch(8).peaks(q, v, [size * most], step_s=1e-3, steps=20) for size in (50.0, 1.0))
    assert far.q.tobytes() == at.q.tobytes()


@pytest.fixture(scope="module")
def servoed() -> System:
    """The rotary pendulum with a servo on its motor."""
    mechanism = build("rotary_pendulum", coordinates="joint")
    motor = mechanism.actuators[0]
    servo = dataclasses.replace(motor, servo=Servo(stiffness=0.4, damping=0.01), effort_limit=0.02, velocity_limit=3.0)
    return assemble(dataclasses.replace(mechanism, actuators=(servo,)))


@pytest.mark.parametrize("mode", ["position", "velocity"])
def test_servos_work_in_the_lanes_as_in_a_simulation(mode: str, servoed: System) -> None:
    mechanism, batch, steps = servoed.mechanism, servoed.batch(2), 60
    name = mechanism.actuators[0].name
    q, v = starts(servoed, 3, 0.3)
    commands = np.array([[[0.4]] * steps, [[-5.0]] * steps, [[0.1]] * steps])
    commands[2, 30:] = -0.2  # a new command on the way
    run = {"step_s": 1e-3, "stabilizer": "none", "modes": {name: mode}}
    rolled = batch.rollout(q, v, commands, steps=steps, every=10, **run)
    for row in range(3):
        sim = Simulation(servoed, step_s=1e-3, stepper="rk4", stabilizer="none")
        sim.reset(q[row], v[row])
        servos = Servos(mechanism, 1e-3)
        efforts = []
        for step in range(steps):
            position, velocity, _ = sim.joints()
            servos.command(mode, [name], commands[row, step], position, velocity)
            if step % 10 == 0:
                np.testing.assert_allclose(rolled.q[row, step // 10], sim.state.q, rtol=0, atol=1e-11)
                np.testing.assert_allclose(rolled.v[row, step // 10], sim.state.v, rtol=0, atol=1e-9)
            efforts.append(servos.efforts(position, velocity))
            sim.set_effort(efforts[-1])
            sim.step()
        np.testing.assert_allclose(rolled.q[row, -1], sim.state.q, rtol=0, atol=1e-11)
    assert np.ptp(efforts) > 1e-3
    peaks = batch.peaks(q, v, commands[:, 0], steps=30, **run)
    np.testing.assert_array_equal(peaks.q, rolled.q[:, 3])
    assert (peaks.high[:, : servoed.n_q] >= rolled.q[:, :4].max(axis=1)).all()


def test_a_servo_that_a_batch_lacks_is_refused_in_one_line(servoed: System, pendulum: System) -> None:
    name, run = servoed.mechanism.actuators[0].name, {"step_s": 1e-3, "steps": 1}
    q, v = starts(servoed, 1)
    with pytest.raises(
        InvalidRequest, match=f"actuator '{name}': mode is 'torque'; it must be one of effort, velocity, position"
    ):
        servoed.batch(8).peaks(q, v, modes={name: "torque"}, **run)
    with pytest.raises(InvalidRequest, match="has no actuator 'elbow'"):
        servoed.batch(8).peaks(q, v, modes={"elbow": "position"}, **run)
    plain = assemble(build("rotary_pendulum", coordinates="joint"))
    with pytest.raises(InvalidRequest, match="has no servo gains; use mode 'effort'"):
        plain.batch(8).rollout(q, v, modes={name: "position"}, **run)
    far = assemble(dataclasses.replace(build("rotary_pendulum"), actuators=servoed.mechanism.actuators))
    with pytest.raises(InvalidRequest, match="the position of this joint is no coordinate"):
        far.batch(8).rollout(*starts(far, 1), modes={name: "position"}, **run)


def test_an_unknown_stabilizer_is_refused_in_one_line(pendulum: System) -> None:
    q, v = starts(pendulum, 1)
    with pytest.raises(InvalidRequest, match="a batch has no stabilizer 'baumgarte'; choose none or sampled_fuzzy"):
        pendulum.batch(8).peaks(q, v, step_s=0.1, steps=1, stabilizer="baumgarte")
