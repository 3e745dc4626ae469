"""Controllers with a model of the robot, closed around the real simulation in one process."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from nodes.controllers.computed_torque import ComputedTorque
from nodes.controllers.gravity_pd import GravityPD
from nodes.controllers.impedance import Impedance
from nodes.controllers.model import ModelController, ModelOfRobot, ModelParams
from nodes.controllers.tracking import REFERENCE_LIFE_S, Targets
from nodes.framework.messages import JointCommand, JointReference, RobotState
from nodes.framework.messages.codec import decode
from nodes.framework.plan.launch_plan import NodePlan, Plan, SimPlan
from nodes.framework.simulation.compose import Composition, compose
from nodes.node import Context
from robots.registry import build
from sim_core import assemble, forward_kinematics, inverse_dynamics
from sim_core.inverse import DrivenDynamics

ROOT = Path(__file__).resolve().parents[3]

MOVE = {"kind": "minimum_jerk", "waypoints": [[0.0, 0.0], [1.0, 60.0]], "rate_hz": 1000.0}
COMPUTED_TORQUE = "nodes/controllers/computed_torque.py:ComputedTorque"
GRAVITY_PD = "nodes/controllers/gravity_pd.py:GravityPD"
LEAD_S = 0.5e-3  # half of the step that an effort is held for
STIFF = {"stiffness": [400.0], "damping": [40.0]}


def plan_of(
    run: str, params: dict[str, Any], robot: str = "arm_4dof", trajectory: dict[str, Any] | None = None
) -> Plan:
    nodes = [NodePlan(name="controller", run=run, params=params)]
    if trajectory is not None:
        joints = [joint.name for joint in build(robot).moving_joints]
        nodes.insert(
            0, NodePlan(name="trajectory", run="nodes/trajectory.py:Trajectory", params={"joints": joints} | trajectory)
        )
    return Plan(name="p", sim=SimPlan(robot=robot, mode="lockstep"), nodes=nodes)


def figures(run: Composition) -> dict[str, float]:
    return dict(run.nodes["controller"].node.figures)


def test_computed_torque_with_the_right_model_follows_to_within_the_step() -> None:
    with compose(plan_of(COMPUTED_TORQUE, {}, trajectory=MOVE)) as run:
        run.step(1500)
        position, velocity, _ = run.server.simulation.joints()
        found = figures(run)
    assert position == pytest.approx([math.pi / 3] * 4, abs=1e-4)
    assert velocity == pytest.approx([0.0] * 4, abs=1e-3)
    assert found["peak_error_rad"] < 2e-3  # efforts are held over a step, in which the reference moves on
    assert 0.0 < found["rms_error_rad"] < found["peak_error_rad"]
    assert "peak_error_m" not in found


def test_computed_torque_drives_the_rods_of_closed_loops() -> None:
    """The linear actuators are driven, lift and tilt follow through the loops, which stay closed."""
    plan = plan_of(COMPUTED_TORQUE, {"bandwidth": [10.0]}, "charmie")
    plan.sim.parameters = {"loops": "closed"}
    rods = {"joints": ["lift_rod", "tilt_rod"], "units": ["mm"], "relative": True, "rate_hz": 1000.0}
    segments = {"kind": "acceleration_segments", "segments": [[0.5, -30.0], [0.5, 30.0]]}
    trajectory = NodePlan(name="trajectory", run="nodes/trajectory.py:Trajectory", params=rods | segments)
    plan.nodes.insert(0, trajectory)
    with compose(plan) as run:
        names = run.server.simulation.system.joint_names
        before = run.server.simulation.joints()[0]
        run.step(1200)
        moved = dict(zip(names, run.server.simulation.joints()[0] - before, strict=True))
        phi, _ = run.server.simulation.peak_violation()
        found = figures(run)
    assert (moved["lift_rod"], moved["tilt_rod"]) == (
        pytest.approx(-0.0075, abs=1e-5),
        pytest.approx(-0.0075, abs=1e-5),
    )
    assert (moved["lift"], moved["tilt"]) == (pytest.approx(-0.0075, rel=0.02), pytest.approx(-0.07, rel=0.3))
    assert phi < 1e-8
    assert found["peak_error_m"] < 1e-5


def test_gravity_compensation_holds_and_follows_without_a_standing_error() -> None:
    with compose(plan_of(GRAVITY_PD, STIFF, "arm_2dof", MOVE)) as run:
        run.step(3000)
        position, _, _ = run.server.simulation.joints()
    assert position == pytest.approx([math.pi / 3] * 2, abs=1e-4)


@pytest.mark.parametrize(
    ("run_as", "params", "robot"), [(COMPUTED_TORQUE, {}, "charmie"), (GRAVITY_PD, STIFF, "arm_2dof")]
)
def test_before_a_reference_the_robot_stays_where_it_was_found(run_as: str, params: dict[str, Any], robot: str) -> None:
    with compose(plan_of(run_as, params, robot)) as run:
        before = run.server.simulation.joints()[0]
        run.step(500)
        assert run.server.simulation.joints()[0] == pytest.approx(before, abs=1e-6)
        assert figures(run) == {}


def started(cls: type[ModelController], robot: str = "arm_2dof", **params: Any) -> ModelController:
    node = cls()
    filled = msgspec.convert(params, cls.Params)
    node.on_start(Context("controller", robot, 1e-3, filled, np.random.default_rng(0)))
    return node


def effort(node: ModelController, position: list[float], velocity: list[float], time: float = 0.0) -> list[float]:
    names = [f"joint_{n}" for n in (2, 4)]
    state = RobotState(
        seq=3, timestamp=time, name=[*names, "more"], position=[*position, 0.0], velocity=[*velocity, 0.0]
    )
    ((_, command),) = node.on_message("state", state) or ()
    assert isinstance(command, JointCommand)
    assert (command.mode, command.name, command.state_seq) == ("effort", names[-len(command.value) :], 3)
    return command.value


def test_a_model_computes_once_before_the_first_state_and_nobody_hears_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    usual = GravityPD._effort
    monkeypatch.setattr(GravityPD, "_effort", lambda self, *targets: asked.append(self._q[0]) or usual(self, *targets))
    node = started(GravityPD, **STIFF)
    assert len(asked) == 1
    assert node.figures == {}
    with pytest.raises(ValueError, match="controller needs joint 'joint_2'; the state has"):
        node.on_message("state", RobotState(name=["elbow"], position=[0.0], velocity=[0.0]))
    assert effort(node, [0.3, 0.2], [0.0, 0.0]) == effort(started(GravityPD, **STIFF), [0.3, 0.2], [0.0, 0.0])


def test_computed_torque_is_the_inverse_dynamics_of_the_corrected_acceleration() -> None:
    node = started(ComputedTorque, bandwidth=[5.0, 8.0], damping_ratio=0.7)
    node.on_message("reference", JointReference(name=["joint_4"], position=[0.3], velocity=[0.1], acceleration=[2.0]))
    q, v = [0.2, 0.25], [0.4, -0.2]
    given = effort(node, q, v)
    h = LEAD_S  # until then joint_2 moves on as it was found, joint_4 as its reference
    later_q = [0.2 + 0.4 * h, 0.25 - 0.2 * h + h * h]
    later_v = [0.4, -0.2 + 2.0 * h]
    wanted = 0.3 + 0.1 * h + h * h, 0.1 + 2.0 * h
    a = [
        25.0 * -0.4 * h - 2 * 0.7 * 5.0 * 0.4,
        2.0 + 64.0 * (wanted[0] - later_q[1]) + 2 * 0.7 * 8.0 * (wanted[1] - later_v[1]),
    ]
    assert given == pytest.approx(inverse_dynamics(assemble(build("arm_2dof")), later_q, later_v, a), rel=1e-9)


def test_gravity_pd_is_the_weight_and_a_spring_and_damper() -> None:
    node = started(GravityPD, stiffness=[10.0, 20.0], damping=[1.0])
    node.on_message("reference", JointReference(name=["joint_2", "other"], position=[0.5, 9.0]))
    q, v = [0.2, 0.25], [0.4, -0.2]
    later = np.array(q) + LEAD_S * np.array(v)
    weight = inverse_dynamics(assemble(build("arm_2dof")), later, [0.0, 0.0], [0.0, 0.0])
    spring = np.array([10.0, 20.0]) * (np.array([0.5, 0.25]) - later)  # joint_4 stays where it was found
    assert effort(node, q, v) == pytest.approx(weight + spring - np.array(v), rel=1e-12)


def test_efforts_stay_within_the_limits_of_robot_and_parameters() -> None:
    assert effort(started(GravityPD, stiffness=[1e6], damping=[0.0]), [0.0, 0.0], [0.0, 0.0]) is not None
    node = started(GravityPD, stiffness=[1e6], damping=[0.0], effort_limit=[100.0, 7.0])
    node.on_message("reference", JointReference(name=["joint_2", "joint_4"], position=[9.0, -9.0]))
    assert effort(node, [0.0, 0.0], [0.0, 0.0]) == [50.0, -7.0]


def test_a_part_of_the_joints_is_driven_alone() -> None:
    node = started(GravityPD, stiffness=[10.0], damping=[0.0], joints=["joint_4"])
    assert len(effort(node, [0.2, 0.25], [0.0, 0.0])) == 1


def test_a_model_of_another_mass_does_not_follow_as_well(tmp_path: Any) -> None:
    """The parameters are the model's own: the robot of the plan keeps its."""
    from robots.charmie.parameters import DEFAULT_FILE

    heavy = tmp_path / "heavy.toml"
    heavy.write_text(DEFAULT_FILE.read_text().replace("mass = 1.115", "mass = 2.2"))
    peaks = []
    for params in ({}, {"parameters": {"file": str(heavy)}}):
        with compose(plan_of(COMPUTED_TORQUE, params, trajectory=MOVE)) as run:
            run.step(1000)
            peaks.append(figures(run)["peak_error_rad"])
    assert peaks[1] > 5.0 * peaks[0]


def test_the_tracking_error_of_each_joint_is_told_and_forgotten_at_a_reset() -> None:
    node = started(ComputedTorque)
    node.on_message("reference", JointReference(name=["joint_2"], position=[0.5]))
    effort(node, [0.2, 0.0], [0.0, 0.0])
    effort(node, [0.4, 0.0], [0.0, 0.0])
    told = node.on_request("tracking", {})
    assert told["joint_2"] == {"peak": pytest.approx(0.3), "rms": pytest.approx(math.sqrt(0.05)), "unit": "rad"}
    assert told["joint_4"]["peak"] == 0.0
    node.on_reset(0.0)
    assert node.on_request("tracking", {})["joint_2"]["peak"] == 0.0


def test_a_reference_is_carried_on_between_two_messages_and_then_stayed_at() -> None:
    targets = Targets(["a", "b"])
    targets.hold(np.array([1.0, 2.0]))
    said = JointReference(
        timestamp=1.0, name=["x", "b"], position=[0.0, 3.0], velocity=[0.0, 0.5], acceleration=[0.0, 2.0]
    )
    targets.add_reference(said)
    at = [[float(row[k]) for row in targets.at(1.1)] for k in (0, 1)]
    assert at == [[1.0, 0.0, 0.0], pytest.approx([3.0 + 0.05 + 0.01, 0.7, 2.0])]
    late, later = targets.at(1.0 + REFERENCE_LIFE_S + 0.1), targets.at(9.0)
    assert late[0][1] == later[0][1] == pytest.approx(3.0 + 0.5 * REFERENCE_LIFE_S + REFERENCE_LIFE_S**2)
    assert (late[1][1], late[2][1]) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("cls", "params", "robot", "says"),
    [
        (ComputedTorque, {"joints": ["elbow"]}, "arm_2dof", "no actuator on joint 'elbow'; known are joint_2, joint_4"),
        (ComputedTorque, {"joints": ["joint_2", "joint_2"]}, "arm_2dof", "name each joint once"),
        (ComputedTorque, {"bandwidth": [1.0, 2.0, 3.0]}, "arm_2dof", "one number of at least 0 rad/s for all, or 2"),
        (ComputedTorque, {"damping_ratio": math.nan}, "arm_2dof", "damping_ratio is nan"),
        (
            ComputedTorque,
            {"parameters": {"coordinates": "absolute"}},
            "rotary_pendulum",
            "'rotary_pendulum' is not in joint coordinates",
        ),
        (
            ComputedTorque,
            {"robot": str(ROOT / "launch/examples/bench_arm.urdf"), "parameters": {"base": "free"}},
            "arm_2dof",
            r"joints with more than one coordinate: '\w+' \(free\); this controller holds robots whose joints have one",
        ),
        (ComputedTorque, {"robot": "arm_3dof"}, "arm_2dof", "no robot 'arm_3dof'"),
        (ComputedTorque, {"parameters": {"length": 2.0}}, "arm_2dof", "no parameter 'length'"),
        (GravityPD, STIFF | {"stiffness": [-1.0]}, "arm_2dof", "stiffness is"),
        (GravityPD, STIFF | {"effort_limit": [1.0, 2.0, 3.0]}, "arm_2dof", "effort_limit is"),
    ],
)
def test_parameters_that_cannot_work_are_refused_before_the_start(
    cls: type[ModelController], params: dict[str, Any], robot: str, says: str
) -> None:
    with pytest.raises(ValueError, match=says) as refusal:
        cls.check(msgspec.convert(params, cls.Params), Plan(name="model", sim=SimPlan(robot=robot)))
    assert "\n" not in str(refusal.value)


def test_a_model_in_joint_coordinates_serves_a_robot_in_absolute_ones() -> None:
    for given in ({}, {"parameters": {"coordinates": "joint"}}):
        for simulated in ({}, {"coordinates": "absolute"}, {"coordinates": "joint"}):
            sim = SimPlan(robot="rotary_pendulum", parameters={"torque_limit": 0.05, **simulated})
            plan = Plan(name="model", sim=sim)
            params = msgspec.convert(given, ComputedTorque.Params)
            ComputedTorque.check(params, plan)
            assert ComputedTorque.commands(params, plan) == ["arm"]


def test_two_runs_in_process_say_the_same_bytes() -> None:
    said: list[list[tuple[str, bytes]]] = [[], []]
    for record in said:
        with compose(plan_of(COMPUTED_TORQUE, {}, trajectory=MOVE), lambda *each, to=record: to.append(each)) as run:
            run.step(50)
    assert said[0] == said[1]
    commands = [decode(topic, payload) for topic, payload in said[0] if topic.endswith("/command")]
    assert len(commands) == 50


def test_impedance_is_the_weight_and_a_spring_and_damper_at_the_point() -> None:
    point, stiffness, damping = [0.1, 0.0, 0.05], np.array([300.0, 200.0, 100.0]), np.array([30.0, 20.0, 10.0])
    system = assemble(build("arm_2dof"))
    body = system.mechanism.bodies[-1].name

    def place(q: np.ndarray) -> np.ndarray:
        p, R = forward_kinematics(system, q)[body]
        return np.array(p + R @ point)

    def jacobian(q: np.ndarray) -> np.ndarray:
        h = 1e-6
        return np.stack([(place(q + h * e) - place(q - h * e)) / (2 * h) for e in np.eye(2)], axis=1)

    node = started(
        Impedance, body=body, point=point, stiffness=stiffness.tolist(), damping=damping.tolist(), joint_damping=[0.5]
    )
    node.on_message("reference", JointReference(name=["joint_2", "joint_4"], position=[0.5, 0.1], velocity=[0.0, 0.3]))
    q, v = np.array([0.2, 0.25]), np.array([0.4, -0.2])
    target, rate = np.array([0.5, 0.1 + 0.3 * LEAD_S]), np.array([0.0, 0.3])
    later = q + LEAD_S * v
    force = stiffness * (place(target) - place(later))
    force += damping * (jacobian(target) @ rate - jacobian(later) @ v)
    weight = inverse_dynamics(system, later, [0.0, 0.0], [0.0, 0.0])
    wanted = weight + jacobian(later).T @ force + 0.5 * (rate - v)
    assert effort(node, q.tolist(), v.tolist()) == pytest.approx(wanted, rel=1e-7)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"body": "hand"}, "body: .*'hand'"),
        ({"stiffness": [1.0, 2.0]}, "stiffness is .*3 such numbers"),
        ({"point": [1.0]}, "it must have three coordinates in m"),
    ],
)
def test_an_impedance_without_its_point_is_refused_before_the_start(params: dict[str, Any], said: str) -> None:
    given = {"body": build("arm_2dof").bodies[-1].name, "stiffness": [100.0], "damping": [1.0]} | params
    plan = plan_of("nodes/controllers/impedance.py:Impedance", {}, "arm_2dof")
    with pytest.raises(ValueError, match=said):
        Impedance.check(msgspec.convert(given, Impedance.Params), plan)


def test_the_model_of_an_imported_robot_has_the_friction_without_bristles(tmp_path: Path) -> None:
    """No sensor measures the deflections of bristles, on which the simulated robot sticks."""
    file = tmp_path / "arm.urdf"
    arm = (ROOT / "launch/examples/bench_arm.urdf").read_text()
    file.write_text(arm.replace("<dynamics ", '<dynamics friction="0.2" '))
    assert any(joint.bristle for joint in build(str(file)).joints)
    model = ModelOfRobot(ModelParams(), {}, str(file)).mechanism
    smooth = build(str(file), friction="regularized", limits="none")
    assert model.joints == smooth.joints
    assert len(model.initial_q) == len(smooth.initial_q) == len(model.moving_joints)
    DrivenDynamics(assemble(model))()
