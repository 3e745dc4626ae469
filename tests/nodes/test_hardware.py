"""The emulated robot: the model where nothing differs, and by each difference what mechanics says."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from nodes.framework.messages import JointCommand, RobotState
from nodes.framework.messages.codec import decode
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.key_checks import PlanError
from nodes.framework.plan.launch_plan import NodePlan, Plan, SimPlan
from nodes.framework.simulation.compose import compose
from nodes.hardware import Hardware
from nodes.hil.emulation.plant import Plant
from nodes.node import Context
from robots import registry
from sim_core.mechanism import Actuator, Body, Joint, Mechanism

ROOT = Path(__file__).resolve().parents[2]
J = 0.02  # kg m2


def wheel() -> Mechanism:
    """A wheel on a vertical axis, and a motor: J dw/dt = effort."""
    return Mechanism(
        name="wheel",
        coordinates="joint",
        bodies=(Body(name="disc", mass=1.0, inertia=(J, J, J, 0.0, 0.0, 0.0)),),
        joints=(Joint(name="axle", child="disc"),),
        actuators=(Actuator(name="motor", joint="axle"),),
        initial_q=(0.0,),
        initial_v=(2.0,),
    )


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.BUILTIN, "wheel", wheel)


def turned(seconds: float, effort: float = 0.0, **differences: Any) -> Plant:
    """The wheel, from 2 rad/s, after some seconds."""
    plant = Plant(SimPlan(robot="wheel"), Hardware.Params(**differences))
    plant.command("effort", ["motor"], [effort])
    for _ in range(round(seconds / plant.step_s)):
        plant.step()
    return plant


def test_viscous_friction_brakes_exponentially() -> None:
    plant = turned(0.5, friction={"axle": 0.04})
    assert plant.velocity[0] == pytest.approx(2.0 * math.exp(-0.04 / J * 0.5), rel=1e-9)


def test_dry_friction_brakes_evenly_and_then_holds() -> None:
    assert turned(0.5, dry_friction={"*": 0.05}).velocity[0] == pytest.approx(2.0 - 0.05 / J * 0.5)
    stopped = turned(2.0, dry_friction={"*": 0.05})
    assert stopped.velocity[0] == pytest.approx(0.0, abs=1e-12)
    assert stopped.position[0] == pytest.approx(2.0**2 / (2 * 0.05 / J), rel=1e-3)
    stopped.command("effort", ["motor"], [0.049])
    for _ in range(500):
        stopped.step()
    assert stopped.velocity[0] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("differences", "inertia", "share"), [({"mass": {"disc": 0.05}}, 1.05 * J, 1.0), ({"gain": {"motor": 0.1}}, J, 1.1)]
)
def test_a_heavier_wheel_and_a_stronger_motor_speed_up_by_it(
    differences: dict[str, Any], inertia: float, share: float
) -> None:
    plant = turned(0.5, effort=0.1, **differences)
    assert plant.velocity[0] == pytest.approx(2.0 + 0.5 * share * 0.1 / inertia)
    assert plant.effort.tolist() == [0.1]  # what the motor was told is what its current says


def test_a_load_slows_the_wheel_down_from_its_time_on() -> None:
    load = {"payload_body": "disc", "payload_mass": 2.0, "payload_point": (0.1, 0.0, 0.0), "payload_from_s": 0.2}
    loaded = J + 2.0 * 0.1**2
    speed = 2.0 + 0.2 * 0.1 / J + 0.3 * 0.1 / loaded
    assert turned(0.5, effort=0.1, **load).velocity[0] == pytest.approx(speed)


def test_backlash_costs_the_push_until_it_is_taken_up() -> None:
    plant = turned(0.5, effort=0.1, backlash={"axle": 0.02}, take_up_rate=1.0)
    assert plant.velocity[0] == pytest.approx(2.0 + (0.5 - 0.01) * 0.1 / J, abs=2 * 1e-3 * 0.1 / J)  # from the middle
    plant.command("effort", ["motor"], [-0.1])
    before = float(plant.velocity[0])
    for _ in range(18):
        plant.step()
    assert float(plant.velocity[0]) == before


def plan(*nodes: NodePlan, seed: int = 0, seconds: float = 0.3, robot: str = "arm_2dof", **params: Any) -> Plan:
    """A robot, its commands, and the emulated one."""
    hardware = NodePlan(name="hardware", run="nodes/hardware.py:Hardware", params=params)
    sim = SimPlan(robot=robot, mode="lockstep")
    return Plan(name="hil", folder=str(ROOT), duration_s=seconds, seed=seed, sim=sim, nodes=[*nodes, hardware])


def moves(*joints: str) -> list[NodePlan]:
    """A trajectory of these joints, and their servos."""
    way = {"joints": list(joints), "kind": "minimum_jerk", "waypoints": [[0.0, 0.0], [0.3, 20.0]]}
    way["beyond_limits"] = True  # of the tilt
    return [
        NodePlan(name="trajectory", run="nodes/trajectory.py:Trajectory", decimation=10, params=way),
        NodePlan(name="servos", run="nodes/controllers/position.py:JointPosition", params={"joints": list(joints)}),
    ]


def said(of: Plan, *leaves: str) -> list[list[Any]]:
    """What a composed run says on these topics of its robot, whole messages."""
    found: dict[str, list[Any]] = {leaf: [] for leaf in leaves}

    def carry(topic: str, payload: bytes) -> None:
        if (leaf := topic.rpartition("/")[2]) in found:
            found[leaf].append(decode(topic, payload, RobotState))

    with compose(of, carry) as run:
        run.run()
    return list(found.values())


SWING = NodePlan(name="swing_up", run="nodes/controllers/swing_up.py:SwingUp", params={"torque_limit": 0.05})


@pytest.mark.parametrize(
    ("robot", "nodes"),
    [
        ("arm_2dof", moves("joint_2", "joint_4")),
        ("rotary_pendulum", [SWING]),
        ("charmie", moves("tilt", "left_arm_2", "neck_pan")),
    ],
)
@pytest.mark.parametrize("first", [False, True], ids=["after", "before"])
def test_without_a_difference_the_robot_is_the_model_to_the_last_bit(
    robot: str, nodes: list[NodePlan], first: bool
) -> None:
    of = plan(*nodes, robot=robot, seconds=0.1)
    if first:
        of.nodes.insert(0, of.nodes.pop())
    states, measured = said(of, "state", "measured_state")
    assert len(measured) == 100
    for state, sample in zip(states, measured, strict=False):
        same = ("timestamp", "name", "position", "velocity", "effort")
        assert all(getattr(state, field) == getattr(sample, field) for field in same)


def test_a_robot_that_is_called_each_fifth_step_misses_no_command() -> None:
    of = plan(*moves("joint_2", "joint_4"), seconds=0.1)
    (each,) = said(of, "measured_state")
    of.nodes[-1].decimation = 5
    (fifth,) = said(of, "measured_state")
    assert [m.position for m in fifth] == [m.position for m in each[: len(fifth)]]
    assert len(fifth) >= 95


NOISY = {"position_noise": {"*": 1e-3}, "velocity_noise": {"joint_2": 0.01}, "effort_noise": {"*": 0.1}, "loss": 0.1}


def test_equal_seeds_give_equal_samples_and_other_seeds_others() -> None:
    runs = [said(plan(*moves("joint_2"), seed=seed, **NOISY), "measured_state")[0] for seed in (1, 1, 2)]
    first, second, other = (msgspec.msgpack.encode(run) for run in runs)
    assert first == second
    assert first != other


def test_noise_has_its_standard_deviation_where_it_was_asked_for() -> None:
    states, measured = said(plan(seconds=1.0, **{**NOISY, "loss": 0.0}), "state", "measured_state")
    for field, expected in (("position", [1e-3, 1e-3]), ("velocity", [0.01, 0.0]), ("effort", [0.1, 0.1])):
        rows = [(getattr(m, field), getattr(s, field)) for s, m in zip(states, measured, strict=False)]
        off = np.array([np.subtract(m, s) for m, s in rows])
        assert off.std(axis=0) == pytest.approx(expected, rel=0.1)


def test_samples_come_at_the_rate_of_the_robots_own_clock_and_some_are_lost() -> None:
    clock = {"clock_offset_s": 7.0, "clock_drift_ppm": 50000.0, "sample_hz": 100.0}
    (measured,) = said(plan(seconds=2.0, **clock), "measured_state")
    stamps = np.array([m.timestamp for m in measured])
    assert stamps[0] == 7.0
    assert len(stamps) == 210  # its seconds are shorter: 2.1 of them
    assert np.diff(stamps) == pytest.approx(0.01, abs=1.1e-3)  # to a step
    assert (stamps - 7.0) / 1.05 == pytest.approx(np.round((stamps - 7.0) / 1.05, 3), abs=1e-12)
    (fewer,) = said(plan(seconds=2.0, loss=0.2, **clock), "measured_state")
    assert 0.7 * 210 < len(fewer) < 0.9 * 210


def test_a_late_measurement_shows_what_was() -> None:
    states, measured = said(plan(*moves("joint_2"), delay_ms=12.0), "state", "measured_state")
    assert [m.position for m in measured[12:]] == [s.position for s in states[: len(measured) - 12]]
    assert [m.timestamp for m in measured] == [s.timestamp for s in states[: len(measured)]]


def test_late_commands_are_followed_late() -> None:
    on_time, late = (
        said(plan(*moves("joint_2"), command_delay_ms=delay), "measured_state")[0] for delay in (0.0, 20.0)
    )
    assert on_time[100].position[0] > 1e-3
    rest = [m.position[0] for m in late[:21]]
    assert rest == [0.0] * 21 or max(rest) < 1e-4


def test_encoders_are_biased_coarse_and_die() -> None:
    params = {
        "encoder_step": {"joint_2": 0.01},
        "encoder_zero": {"joint_4": 0.3},
        "encoder_dead": {"joint_2": 0.2},
    }
    states, measured = said(plan(*moves("joint_2", "joint_4"), **params), "state", "measured_state")
    for state, sample in zip(states, measured, strict=False):
        assert sample.position[1] == state.position[1] + 0.3
        if sample.timestamp < 0.2 - 1e-9:
            assert abs(sample.position[0] - state.position[0]) <= 0.005 + 1e-12
    last = [m for m in measured if m.timestamp >= 0.2 - 1e-9]
    assert {(m.position[0], m.velocity[0]) for m in last} == {(last[0].position[0], 0.0)}


def test_a_reset_puts_the_robot_back_too() -> None:
    of = plan(*moves("joint_2"))
    with compose(of) as run:
        run.step(200)
        node = run.nodes["hardware"].node
        assert isinstance(node, Hardware)
        run.request("reset")
        run.step(2)
        assert node.counters["samples"] == 200 + 2
        assert node._plant.tick == 1  # the state of the second step is not heard yet


def started(**params: Any) -> Hardware:
    plan = Plan(name="wheel", sim=SimPlan(robot="wheel"))
    node = Hardware()
    node.on_start(Context("hw", "wheel", 1e-3, Hardware.Params(**params), np.random.default_rng(0), plan=plan))
    return node


def test_who_comes_late_begins_there_and_what_it_cannot_do_is_counted_and_told() -> None:
    node = started()
    (first,) = [m for _, m in node.on_message("state", RobotState(timestamp=100.0))]
    assert (first.timestamp, first.position) == (100.0, [0.0])
    list(node.on_message("command", JointCommand(timestamp=100.0, name=["nose"], value=[1.0])))
    list(node.on_message("command", JointCommand(timestamp=100.0, mode="position", name=["motor"], value=[1.0])))
    list(node.on_message("command", JointCommand(timestamp=100.0, name=["motor"], value=[0.1])))
    *_, last = [m for _, m in node.on_message("state", RobotState(timestamp=100.01))]
    assert last.velocity == pytest.approx([2.0 + 0.01 * 0.1 / J])
    assert (node.counters["commands"], node.counters["commands_refused"]) == (1, 2)
    assert "actuator 'nose'" in node._context.log[0][1]


def test_in_realtime_it_stamps_with_its_own_clock_beside_its_computers() -> None:
    plan = Plan(name="wheel", sim=SimPlan(robot="wheel"))
    params = Hardware.Params(
        clock_offset_s=5.0, clock_drift_ppm=1e4, clock_step_s=-0.25, clock_step_at_s=0.3, sample_hz=100.0
    )
    node = Hardware()
    node.on_start(Context("hw", "wheel", 1e-3, params, np.random.default_rng(0), plan=plan, clock="hw"))
    epoch, apart, late = 1_700_000_000_000_000_000, 20_000_000_000, 300_000  # ns; its computer is 20 s ahead
    assert node.clock_ns(epoch + apart) - epoch == apart + 5_000_000_000

    def hear(ms: int, run_ms: int) -> list[RobotState]:
        """A state that was sent at `ms` of the other computer and heard a little later."""
        sent = epoch + 1_000_000 * ms
        state = RobotState(timestamp=1e-3 * run_ms, sent_ns=sent)
        said = [message for _, message in node.on_message("state", state)]
        node.clock_ns(sent + apart + late * (1 + ms % 3))
        assert node.on_tick(0.0) is None
        return said

    hear(0, 0)
    measured = [message for ms in range(1, 500) for message in hear(1000 + ms, ms)]  # it moves after a second
    assert {message.clock for message in measured} == {"hw"}
    run = np.array([message.position[0] for message in measured]) / 2.0  # the wheel turns with 2 rad/s
    stamps = np.array([message.timestamp for message in measured]) - 1e-9 * (epoch + apart)
    expected = 5.0 + 1.01 * (1.0 + run) - 0.25 * (run >= 0.3 - 1e-6)
    assert len(measured) >= 49
    assert stamps == pytest.approx(expected, abs=0.7e-3)  # the quickest way took 0.3 ms, which nobody can know of


def test_sensors_may_be_set_while_running_and_the_machine_may_not() -> None:
    node = started()
    node.on_parameters(Hardware.Params(encoder_zero={"axle": 0.5}))
    (sample,) = [m for _, m in node.on_message("state", RobotState(timestamp=0.0))]
    assert sample.position == [0.5]
    with pytest.raises(ValueError, match="mass is a property of the machine and is fixed during a run"):
        node.on_parameters(Hardware.Params(mass={"disc": 0.1}))
    with pytest.raises(ValueError, match="there is no joint 'hub'; choose from axle"):
        node.on_parameters(Hardware.Params(encoder_zero={"hub": 0.1}))


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("mass.link_99=0.05", "mass: there is no body 'link_99'; choose from link_7,"),
        ("gain.joint_9=0.05", "gain: there is no actuator 'joint_9'; choose from joint_1,"),
        ("encoder_step.joint_9=1", "encoder_step: there is no joint 'joint_9'"),
        ("friction.joint_1=-1", "friction of 'joint_1' is -1.0; it must be a number of at least 0"),
        ("mass.link_7=-1", "mass of 'link_7' is -1.0; it must be a number above -1"),
        ("loss=1.0", "loss is 1.0; it must be a fraction of at least 0 and below 1"),
        ("take_up_rate=0", "take_up_rate is 0.0; it must be a number above 0"),
        ("clock_drift=3", "unknown key 'clock_drift'; did you mean 'clock_drift_ppm'"),
        ("parameters.file=none.toml", "none.toml"),
        ("decimation=1 --set sim.mode=fast", "mode 'fast' does not wait for the robot"),
        ("clock_offset_s=5", "in lockstep the robot stamps with simulation time, so its clock has no effect"),
        ("clock_drift_ppm=100", "--set sim.mode=realtime, or leave clock_offset_s,"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(override: str, says: str) -> None:
    with pytest.raises(PlanError) as refused:
        load_plan(ROOT / "launch/hil_robot.toml", f"hardware.{override}".split(" --set "))
    assert says in str(refused.value)
    assert "node 'hardware'" in str(refused.value)


def test_dry_friction_needs_joint_coordinates_and_says_how_to_get_them() -> None:
    of = plan(robot="rotary_pendulum", dry_friction={"arm": 1e-3})
    with pytest.raises(ValueError, match=re.escape('try the robot parameters { coordinates = "joint" }')):
        Hardware.check(Hardware.Params(dry_friction={"arm": 1e-3}), of)


def test_dry_friction_of_a_joint_without_an_actuator_takes_equal_angles_of_each_swing() -> None:
    sim = SimPlan(robot="rotary_pendulum", parameters={"start_deg": 10.0, "coordinates": "joint"})
    friction = 1e-4
    plant = Plant(sim, Hardware.Params(dry_friction={"pendulum": friction}))
    turns, before = [math.radians(10.0)], 0.0
    for _ in range(1500):
        plant.step()
        rate = float(plant.velocity[1])
        if rate * before < 0.0:
            turns.append(abs(float(plant.position[1])))
        before = rate
    weight = 0.024 * 9.81 * 0.129 / 2.0  # N m per rad
    lost = -np.diff(turns)
    assert len(lost) >= 4
    assert lost == pytest.approx(2.0 * friction / weight, rel=0.02)  # however the arm moves with it


def test_a_gripper_has_neither_gain_nor_play_and_its_command_is_no_effort() -> None:
    plan = SimPlan(robot="gibbon", parameters={"line": "bars", "start": "a"})
    plant = Plant(plan, Hardware.Params(gain={"*": -0.6}, backlash={"*": 0.02}, dry_friction={"elbow": 0.1}))
    plant.command("effort", ["elbow"], [0.5])
    for _ in range(50):
        plant.step()
    assert plant.simulation.constraint_mode == "a"
    assert dict(zip(plant.names, plant.effort.tolist(), strict=True)) == {
        "slide": 0.0,
        "drop": 0.0,
        "pitch": 0.0,
        "elbow": 0.5,
    }
    plant.command("effort", ["grip_a"], [0.0])
    plant.step()
    plant.step()
    assert plant.simulation.constraint_mode == "none"
