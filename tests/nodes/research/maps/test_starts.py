"""Runs of a launch from many initial states: maps with a controller node."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from nodes.framework.plan.files.file import load_plan
from nodes.framework.simulation.compose import Composition
from nodes.research.journal import JournalError
from nodes.research.maps.kept_runs import KeptRuns
from nodes.research.maps.starts import Start, StartError, motion_from, plan_for_starts, ranges_from
from sim_core.mechanism import Servo
from sim_core.system import assemble

ROOT = Path(__file__).resolve().parents[4]
LAUNCH = ROOT / "launch" / "examples" / "my_controller.toml"
JOINTS = "sim.parameters.coordinates=joint"
FAILING = """
from armswing import Node, messages

class Failing(Node):
    subscribes = {"state": messages.RobotState}

    def on_message(self, name, state):
        if state.position[0] > 0.5:
            raise RuntimeError("too far")
"""


def starts(count: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(2)
    return 0.3 * random.normal(size=(count, 2)), random.normal(size=(count, 2))


def test_a_controller_node_moves_the_robot_as_the_servo_with_its_gains() -> None:
    """The node of the example is a spring and a damper: the law of a servo, which works in the lanes of a batch."""
    plan = plan_for_starts(LAUNCH, 0.2, [JOINTS])
    system = assemble(plan.sim.make_mechanism())
    q, v = starts(5)
    calls: list[tuple[int, int]] = []
    found = ranges_from(plan, system, q, v, 0.2, workers=2, progress=lambda *at: calls.append(at))
    assert calls[-1] == (5, 5)
    (motor,) = system.mechanism.actuators
    servo = dataclasses.replace(motor, servo=Servo(stiffness=0.02, damping=0.003))
    servoed = assemble(dataclasses.replace(system.mechanism, actuators=(servo,)))
    commands = np.full((5, 1), np.radians(30.0))
    same = servoed.batch(8).peaks(q, v, commands, step_s=1e-3, steps=200, modes={motor.name: "position"})
    np.testing.assert_allclose(found.q, same.q, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.v, same.v, rtol=0, atol=1e-8)
    np.testing.assert_allclose(found.high, same.high, rtol=0, atol=1e-4)  # samples here, extrema between them there
    assert (found.high <= same.high + 1e-8).all()
    free = system.batch(8).peaks(q, v, step_s=1e-3, steps=200)
    assert np.abs(free.q - found.q).max() > 0.01
    again = ranges_from(plan, system, q[3:4], v[3:4], 0.2, workers=1, progress=lambda *at: None)
    assert again.high.tobytes() == found.high[3:4].tobytes()
    assert (found.step_s, found.steps, found.stepper, found.stabilizer) == (1e-3, 200, "rk4", "sampled_fuzzy")


def test_runs_that_share_a_robot_are_those_of_robots_of_their_own() -> None:
    plan = plan_for_starts(LAUNCH, 0.1, [JOINTS])
    system = assemble(plan.sim.make_mechanism())
    q, v = starts(3)
    shared = [motion_from(plan, 100, Start(k, q[k].tolist(), v[k].tolist()), system) for k in (0, 1, 2, 0)]
    assert shared[0] == shared[3] != shared[1]
    for k in range(3):
        with Composition(plan, start=(q[k], v[k])) as own:
            own.step(100)
            (part,) = own.server.robots
            assert part.simulation.coordinates.tolist() == shared[k].q
            assert part.simulation.velocities.tolist() == shared[k].v


def test_the_plan_is_that_of_the_launch_without_recorders_and_milestones() -> None:
    lockstep = ROOT / "launch" / "rotary_pendulum_lockstep.toml"
    plan = plan_for_starts(lockstep, 1.0, ["sim.step_ms=2"])
    assert [node.name for node in plan.nodes] == ["trajectory", "swing_up"]
    assert (plan.sim.mode, plan.sim.step_ms, plan.milestones) == ("lockstep", 2.0, [])
    assert load_plan(lockstep).milestones


def test_what_cannot_be_run_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"the runs last 0\.0001 s; they must last one step of 1 ms at least"):
        plan_for_starts(LAUNCH, 1e-4)
    (tmp_path / "failing.py").write_text(FAILING)
    launch = tmp_path / "failing.toml"
    launch.write_text(
        '[sim]\nrobot = "single_pendulum"\nmode = "lockstep"\n[[nodes]]\nname = "failing"\nrun = "failing.py:Failing"\n'
    )
    plan = plan_for_starts(launch, 0.01)
    system = assemble(plan.sim.make_mechanism())
    rest = np.zeros((2, 1))
    with pytest.raises(StartError, match=r"the run from pivot=0\.6, pivot\.velocity=0 failed: .*too far"):
        ranges_from(plan, system, np.array([[0.1], [0.6]]), rest, 0.01, workers=1, progress=lambda *at: None)


class StopEarlyError(Exception):
    """Raised by the progress function of an interrupted map."""


def test_an_interrupted_map_continues_with_the_runs_that_are_left(tmp_path: Path) -> None:
    plan = plan_for_starts(LAUNCH, 0.05, [JOINTS])
    system = assemble(plan.sim.make_mechanism())
    q, v = starts(9)
    kept = tmp_path / "map.runs"

    def stop(done: int, of: int) -> None:
        if done >= 4:
            raise StopEarlyError

    with pytest.raises(StopEarlyError):
        ranges_from(plan, system, q, v, 0.05, workers=1, progress=stop, kept=kept)
    calls: list[tuple[int, int]] = []
    kept.write_bytes(kept.read_bytes()[:-5])  # as after kill -9 while it is written
    found = ranges_from(plan, system, q, v, 0.05, workers=2, progress=lambda *at: calls.append(at), kept=kept)
    assert (calls[0], calls[-1]) == ((3, 9), (9, 9))
    whole = ranges_from(plan, system, q, v, 0.05, workers=1, progress=lambda *at: None)
    for name in ("low", "high", "q", "v"):
        assert getattr(found, name).tobytes() == getattr(whole, name).tobytes()
    with pytest.raises(JournalError, match=r"map\.runs has the runs of another map, with other options"):
        ranges_from(plan, system, q + 0.01, v, 0.05, workers=1, progress=lambda *at: None, kept=kept)


def test_a_file_of_runs_is_of_one_map_and_of_one_process(tmp_path: Path) -> None:
    path = tmp_path / "map.runs"
    with KeptRuns(path, "one", 3, 2) as runs:
        assert not runs.done.any()
        with pytest.raises(JournalError, match="another process is making this map now"):
            KeptRuns(path, "one", 3, 2)
    with KeptRuns(path, "other", 3, 2) as runs:  # a file without runs is taken over
        runs.keep(2, np.array([0.1, np.nan]))
    with KeptRuns(path, "other", 3, 2) as runs:
        assert runs.done.tolist() == [False, False, True]
        np.testing.assert_array_equal(runs.rows[2], [0.1, np.nan])
    with pytest.raises(JournalError, match="has the runs of another map"):
        KeptRuns(path, "one", 3, 2)
    (tmp_path / "notes.runs").write_text("mine")
    with pytest.raises(JournalError, match="has the runs of another map"):
        KeptRuns(tmp_path / "notes.runs", "one", 3, 2)
    assert (tmp_path / "notes.runs").read_text() == "mine"


BALL = """
from sim_core.mechanism import Body, Joint, Mechanism

def ball_pendulum():
    bob = Body(name="bob", mass=1.0, inertia=(0.02, 0.03, 0.1, 0.0, 0.0, 0.0))
    joint = Joint(name="ball", kind="spherical", child="bob", child_point=(0, 0, 1), quaternion=(0.96, 0.28, 0, 0))
    rest = {"initial_q": (0.0,) * 3, "initial_v": (0.0,) * 3}
    return Mechanism(name="ball_pendulum", coordinates="joint", bodies=(bob,), joints=(joint,), **rest)
"""


def test_runs_with_a_spherical_joint_have_the_ranges_of_a_batch(tmp_path: Path) -> None:
    (tmp_path / "ball.py").write_text(BALL)
    launch = tmp_path / "ball.toml"
    launch.write_text('[sim]\nrobot = "ball.py:ball_pendulum"\nmode = "lockstep"\n')
    plan = plan_for_starts(launch, 0.3)
    system = assemble(plan.sim.make_mechanism())
    random = np.random.default_rng(8)
    q, v = random.normal(size=(2, 3, 3))
    attitudes = np.array([[0.6, 0.0, 0.8, 0.0]])
    found = ranges_from(plan, system, q, v, 0.3, workers=1, progress=lambda *at: None, attitudes=attitudes)
    same = system.batch(8).peaks(q, v, step_s=1e-3, steps=300, attitudes=attitudes)
    assert found.rows == same.rows
    np.testing.assert_allclose(found.orientations, same.orientations, rtol=0, atol=1e-11)
    np.testing.assert_allclose(found.v, same.v, rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.high, same.high, rtol=0, atol=1e-4)  # samples here, extrema between them there
    np.testing.assert_allclose(found.low, same.low, rtol=0, atol=1e-4)
    plain = ranges_from(plan, system, q, v, 0.3, workers=1, progress=lambda *at: None)
    np.testing.assert_allclose(plain.high, system.batch(8).peaks(q, v, step_s=1e-3, steps=300).high, rtol=0, atol=1e-4)
