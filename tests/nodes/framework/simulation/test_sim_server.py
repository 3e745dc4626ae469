"""The simulation server as a plain object: what it says, takes, refuses and watches. No sockets, no clock."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from nodes.framework.messages import BodyPoses, Description, Event, JointCommand, RobotState
from nodes.framework.plan.launch_plan import Milestone, Plan, SimPlan
from nodes.framework.simulation.server import SimServer
from robots.registry import build, names

MakePlan = Callable[..., Plan]
Started = Callable[[Plan], tuple[SimServer, Any]]  # the server, and an ear for what it says


def effort(value: float, name: str = "arm", state_seq: int | None = None, mode: Any = "effort") -> JointCommand:
    return JointCommand(mode=mode, name=[name], value=[value], state_seq=state_seq)


@pytest.mark.parametrize("robot", names())
def test_every_robot_is_served(robot: str, started: Started) -> None:
    # modes of a beam are stiff: an explicit method would need half the step
    stepper = "implicit_midpoint" if build(robot).beams else "rk4"
    plan = Plan(name="p", sim=SimPlan(robot=robot, mode="lockstep", stepper=stepper))
    server, ear = started(plan)
    description = ear.all(Description)[0]
    assert description.robot == robot
    said = ["description", "state", "body_poses", *(["lines"] if build(robot).beams else [])]
    assert [topic for topic, _ in ear.heard] == [f"{robot}/{name}" for name in said]
    for _ in range(20):
        server.step()
    state = ear.state()
    assert state.name == [joint.name for joint in description.joints]
    assert len(state.position) == len(state.velocity) == len(state.effort) == len(state.name)
    assert set(state.outputs) == set(description.outputs)
    poses = ear.all(BodyPoses)[-1]
    assert (len(poses.p), len(poses.quaternion)) == (3 * len(description.bodies), 4 * len(description.bodies))
    assert np.linalg.norm(np.reshape(poses.quaternion, (-1, 4)), axis=1) == pytest.approx(1.0)
    assert (state.timestamp, state.seq, state.sent_ns) == (pytest.approx(0.02), 21, 0)


def test_a_command_by_hand_displaces_the_node_until_it_is_given_back(make_plan: MakePlan, started: Started) -> None:
    server, ear = started(make_plan(mode="realtime"))
    server.robots[0].commands.receive("damp", effort(0.01))
    server.step()
    assert server.request("hand_command", {"mode": "effort", "name": ["arm"], "value": [0.03]}) == ["arm"]
    for _ in range(3):
        server.robots[0].commands.receive("damp", effort(0.01))
        server.step()
    assert ear.state().effort[0] == 0.03
    assert (server.status()["commanded_by"], server.status()["by_hand"]) == ("hand", ["arm"])
    assert server.status()["commands_refused"] == {}  # the node is not at fault
    server.request("hand_command", {"mode": "effort", "name": ["arm"], "value": [-0.02]})
    server.step()
    assert ear.state().effort[0] == -0.02
    server.request("give_back", {})
    server.step()
    assert ear.state().effort[0] == 0.0  # the safe mode, until the node commands
    server.robots[0].commands.receive("damp", effort(0.01))
    server.step()
    assert ear.state().effort[0] == 0.01
    assert (server.status()["commanded_by"], server.status()["by_hand"]) == ("damp", [])
    assert [event.kind for event in ear.all(Event)] == ["hand", "hand_back"]


def test_a_command_by_hand_ends_with_a_reset_an_emergency_stop_and_without_renewal(
    make_plan: MakePlan, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, ear = started(make_plan(mode="realtime"))
    command = {"mode": "effort", "name": ["arm"], "value": [0.03]}
    for ended_by in ("reset", "estop"):
        server.request("hand_command", command)
        server.request(ended_by, {})
        assert server.status()["by_hand"] == []
    with pytest.raises(ValueError, match="release the emergency stop first"):
        server.request("hand_command", command)
    assert server.request("release", {}) == "released"
    assert server.request("release", {}) == "nothing was stopped"
    monkeypatch.setattr("nodes.framework.simulation.commands.HAND_S", 0.0)
    server.request("hand_command", command)
    server.step()
    assert server.status()["by_hand"] == []
    assert ear.state().effort[0] == 0.0


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        ({"name": ["elbow"], "value": [1.0]}, "no actuator 'elbow'; its actuators are arm"),
        ({"name": ["arm"], "value": []}, "the argument 'value' is .*; pass a list with one finite number"),
        ({"name": ["arm"], "value": [1.0], "mode": "position"}, "mode 'position'"),
        ({"name": ["arm"], "value": ["much"]}, "hand_command: .*pass mode, name"),
    ],
)
def test_a_wrong_command_by_hand_is_refused(
    args: dict[str, Any], reason: str, make_plan: MakePlan, started: Started
) -> None:
    server, _ = started(make_plan(mode="realtime"))
    with pytest.raises(ValueError, match=reason):
        server.request("hand_command", args)
    assert server.status()["by_hand"] == []
    server, _ = started(make_plan(mode="lockstep"))
    with pytest.raises(ValueError, match="in mode 'realtime' only"):
        server.request("hand_command", args)


def test_rates_are_kept_in_simulation_time(make_plan: MakePlan, started: Started) -> None:
    server, ear = started(make_plan(mode="lockstep", rate_hz=100.0, poses_hz=50.0))
    for _ in range(100):
        server.step()
    assert [round(state.timestamp * 1e3) for state in ear.all(RobotState)] == list(range(0, 101, 10))
    assert [round(poses.timestamp * 1e3) for poses in ear.all(BodyPoses)] == list(range(0, 101, 20))


def test_a_command_holds_until_the_next_and_is_clipped(make_plan: MakePlan, started: Started) -> None:
    plan = make_plan(mode="lockstep")
    plan.sim.parameters = {"torque_limit": 0.05}
    server, ear = started(plan)
    server.robots[0].commands.receive("damp", effort(0.03))
    server.step()
    server.step()
    assert [state.effort[0] for state in ear.all(RobotState)] == [0.0, 0.03, 0.03]
    server.robots[0].commands.receive("damp", effort(7.0))
    server.step()
    assert ear.state().effort[0] == 0.05
    assert server.status()["commanded_by"] == "damp"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (effort(1.0, name="elbow"), "no actuator 'elbow'; its actuators are arm"),
        (effort(1.0, mode="velocity"), "mode 'velocity': actuator 'arm' of 'rotary_pendulum' has no servo gains"),
        (effort(1.0, mode="position"), "mode 'position'"),
    ],
)
def test_a_command_it_cannot_follow_is_counted_and_changes_nothing(
    command: JointCommand, reason: str, make_plan: MakePlan, caplog: pytest.LogCaptureFixture, started: Started
) -> None:
    server, ear = started(make_plan(mode="lockstep"))
    with caplog.at_level(logging.WARNING, "armswing.wire"):
        server.robots[0].commands.receive("damp", command)
        server.step()
    assert server.refusals.count == 1
    assert reason in caplog.text
    assert ear.state().effort == [0.0, 0.0]
    assert server.status()["commanded_by"] is None


def test_one_node_commands_until_it_is_gone(make_plan: MakePlan, started: Started) -> None:
    server, ear = started(make_plan(mode="lockstep"))
    server.robots[0].commands.receive("first", effort(0.01))
    server.robots[0].commands.receive("second", effort(0.02))
    server.step()
    assert (ear.state().effort[0], server.refusals.count) == (0.01, 1)
    server.forget("first")
    server.robots[0].commands.receive("second", effort(0.02))
    server.step()
    assert (ear.state().effort[0], server.status()["commanded_by"]) == (0.02, "second")


@pytest.mark.parametrize("leaves", [False, True], ids=["silent", "gone"])
def test_a_silent_or_ended_node_of_the_plan_keeps_its_actuators(
    leaves: bool, make_plan: MakePlan, started: Started
) -> None:
    plan = make_plan("Damp", mode="realtime", watchdog_ms=5.0)
    assert plan.commanders == {"arm": "damp"}
    server, ear = started(plan)
    server.request("resume", {})
    line = "'visitor' commands, but 'damp' has the actuators"
    ask = {"node": "visitor", "topic": "rotary_pendulum/command"}
    with pytest.raises(ValueError, match=line):  # also before the first command
        server.request("take_over", ask)
    server.robots[0].commands.receive("damp", effort(0.02))
    for _ in range(7):
        server.step()
    assert (server.state, server.robots[0].actuation.trips) == ("safe", 1)
    if leaves:
        server.forget("damp")
    with pytest.raises(ValueError, match=line):
        server.request("take_over", ask)
    server.robots[0].commands.receive("visitor", effort(0.03))
    server.step()
    assert (ear.state().effort[0], server.status()["commands_refused"]["visitor"]["reason"]) == (0.0, line)
    server.robots[0].commands.receive("damp", effort(0.01))
    server.step()
    assert (ear.state().effort[0], server.state) == (0.01, "running")


def test_a_node_outside_of_the_plan_takes_over_free_actuators_until_it_leaves(
    make_plan: MakePlan, started: Started
) -> None:
    server, ear = started(make_plan(mode="realtime"))
    ask = {"node": "visitor", "topic": "rotary_pendulum/command"}
    assert server.request("take_over", ask) == ["arm"]
    assert server.request("take_over", ask) == ["arm"]
    assert server.status()["granted"] == ["visitor"]
    assert [(event.kind, event.node) for event in ear.all(Event)] == [("take_over", "visitor")]
    server.robots[0].commands.receive("visitor", effort(0.01))
    server.step()
    assert server.status()["commanded_by"] == "visitor"
    with pytest.raises(ValueError, match="'second' commands, but 'visitor' has the actuators"):
        server.request("take_over", ask | {"node": "second"})
    server.forget("visitor")
    assert server.status()["granted"] == []
    assert server.request("take_over", ask | {"node": "second"}) == ["arm"]


def test_beside_a_node_that_commands_some_actuators_the_others_are_free(arm: str, started: Started) -> None:
    plan = Plan(name="p", sim=SimPlan(robot=arm, mode="realtime"), commanders={"shoulder_motor": "lift"})
    server, _ = started(plan)
    ask = {"node": "visitor", "topic": f"{server.robots[0].name}/command"}
    assert server.request("take_over", ask) == ["elbow_motor"]
    for name in ("elbow_motor", "shoulder_motor"):
        server.robots[0].commands.receive("visitor", JointCommand(name=[name], value=[1.0]))
        server.step()
    assert server.status()["commands_taken"] == {"visitor": 1}
    refused = server.status()["commands_refused"]["visitor"]
    assert refused == {"count": 1, "reason": "'visitor' commands, but 'lift' has actuator 'shoulder_motor'"}


@pytest.mark.parametrize(
    ("mode", "args", "line"),
    [
        ("realtime", {"node": "a", "topic": "arm/command"}, "pass the name of the node and the topic 'rotary_pend"),
        ("realtime", {"topic": "rotary_pendulum/command"}, "the arguments 'node' and 'topic' are None and"),
        ("lockstep", {"node": "a", "topic": "rotary_pendulum/command"}, "only from nodes of its launch file"),
    ],
)
def test_a_grant_that_is_not_possible_is_refused_in_one_line(
    mode: str, args: dict[str, str], line: str, make_plan: MakePlan, started: Started
) -> None:
    server, _ = started(make_plan(mode=mode))
    with pytest.raises(ValueError, match=line):
        server.request("take_over", args)


def test_the_watchdog_waits_for_a_first_command(make_plan: MakePlan, started: Started) -> None:
    server, _ = started(make_plan(mode="lockstep", watchdog_ms=5.0))
    server.request("resume", {})
    for _ in range(50):
        server.step()
    assert (server.state, server.robots[0].actuation.trips) == ("running", 0)


@pytest.mark.parametrize(("safe_mode", "left"), [("zero_effort", 0.0), ("hold", 0.02)])
def test_silence_trips_the_watchdog_and_a_command_ends_it(
    safe_mode: str, left: float, make_plan: MakePlan, started: Started
) -> None:
    server, ear = started(make_plan(mode="lockstep", watchdog_ms=5.0, safe_mode=safe_mode))
    server.request("resume", {})
    server.robots[0].commands.receive("damp", effort(0.02))
    for _ in range(6):
        server.step()
    assert (server.state, ear.state().effort[0]) == ("running", 0.02)
    for _ in range(4):
        server.step()
    assert (server.state, server.robots[0].actuation.trips, ear.state().effort[0]) == ("safe", 1, left)
    assert server.detail == f"no command for 5 ms: {safe_mode}"
    server.robots[0].commands.receive("damp", effort(0.01))
    server.step()
    assert (server.state, ear.state().effort[0]) == ("running", 0.01)


@pytest.mark.parametrize(("speed", "steps"), [(0.5, 50), (1.0, 50), (4.0, 200)])
def test_in_realtime_silence_counts_in_simulation_time_and_by_the_clock_where_time_goes_faster(
    speed: float, steps: int, make_plan: MakePlan, started: Started
) -> None:
    server, _ = started(make_plan(mode="realtime", watchdog_ms=50.0, speed=speed))
    server.request("resume", {})
    server.robots[0].commands.receive("damp", effort(0.02))
    for _ in range(steps):
        server.step()
    server.request("pause", {})
    server.request("resume", {})
    assert server.robots[0].actuation.trips == 0
    server.step()
    server.step()
    assert (server.state, server.robots[0].actuation.trips) == ("safe", 1)


@pytest.mark.parametrize(
    ("mode", "speed", "refused"), [("realtime", 1.0, True), ("realtime", 2.0, False), ("fast", 1.0, False)]
)
def test_an_answer_older_than_the_watchdog_is_refused_and_ends_no_safe_mode(
    mode: str, speed: float, refused: bool, make_plan: MakePlan, started: Started
) -> None:
    server, ear = started(make_plan(mode=mode, watchdog_ms=50.0, speed=speed))
    server.request("resume", {})
    server.robots[0].commands.receive("damp", effort(0.02, state_seq=1))
    server.step()
    for _ in range(59):
        server.step()
    server.step()
    if mode == "realtime" and speed == 1.0:
        assert server.state == "safe"
    server.robots[0].commands.receive("damp", effort(0.03, state_seq=1))  # of 61 steps ago
    server.step()
    taken = 0.0 if refused else 0.03
    assert (ear.state().effort[0], server.refusals.count) == (taken, int(refused))
    if not refused:
        return
    assert (server.state, server.robots[0].actuation.commanded_by) == ("safe", None)
    assert "replies to a state 61 ms old" in server.status()["commands_refused"]["damp"]["reason"]
    for state_seq in (0, None, ear.state().seq - 50):  # by hand, by hand, and just in time
        server.robots[0].commands.receive("damp", effort(0.04, state_seq=state_seq))
    server.step()
    assert (server.state, ear.state().effort[0], server.refusals.count) == ("running", 0.04, 1)


def test_an_emergency_stop_refuses_answers_to_older_states_too(make_plan: MakePlan, started: Started) -> None:
    server, ear = started(make_plan(mode="realtime", speed=10.0, watchdog_ms=50.0))
    for _ in range(200):
        server.step()
    server.request("estop", {"reason": "test"})
    server.robots[0].commands.receive("damp", effort(0.04, state_seq=ear.state().seq - 100))  # 10 ms of wall time
    server.step()
    assert (ear.state().effort[0], server.refusals.count) == (0.0, 1)


def test_an_answer_to_a_state_of_the_future_is_refused_and_counted(make_plan: MakePlan, started: Started) -> None:
    server, ear = started(make_plan(mode="lockstep"))
    newest = ear.state().seq
    server.robots[0].commands.receive("damp", effort(0.02, state_seq=newest + 1))
    server.step()
    assert (ear.state().effort[0], server.refusals.count) == (0.0, 1)
    reason = server.status()["commands_refused"]["damp"]["reason"]
    assert f"replies to state {newest + 1}, and the newest state is {newest}" in reason


def test_a_command_that_names_an_actuator_twice_is_refused(make_plan: MakePlan, started: Started) -> None:
    server, ear = started(make_plan(mode="lockstep"))
    server.robots[0].commands.receive("damp", JointCommand(name=["arm", "arm"], value=[0.01, 0.02]))
    server.step()
    assert (ear.state().effort[0], server.refusals.count) == (0.0, 1)
    assert "actuator 'arm' is named more than once" in server.status()["commands_refused"]["damp"]["reason"]


def test_snapshot_and_restore_repeat_the_run_to_the_byte(make_plan: MakePlan, started: Started) -> None:
    server, ear = started(make_plan(mode="lockstep"))
    server.robots[0].commands.receive("damp", effort(0.02))
    for _ in range(30):
        server.step()
    snapshot = msgspec.msgpack.decode(msgspec.msgpack.encode(server.request("snapshot", {})))

    def numbers() -> list[Any]:
        before = len(ear.all(RobotState))
        for _ in range(40):
            server.step()
        return [(s.timestamp, s.position, s.velocity, s.effort, s.energy) for s in ear.all(RobotState)[before:]]

    first = numbers()
    server.request("restore", {"state": snapshot})
    assert server.tick == 30
    assert ear.all(Event)[-1].kind == "restore"
    assert numbers() == first
    assert ear.state().effort[0] == 0.02


def test_a_reset_begins_anew(make_plan: MakePlan, started: Started) -> None:
    server, ear = started(make_plan(mode="lockstep"))
    start = ear.state()
    server.robots[0].commands.receive("damp", effort(0.02))
    for _ in range(30):
        server.step()
    server.request("reset", {})
    state = ear.state()
    assert (server.tick, ear.all(Event)[-1].kind) == (0, "reset")
    assert (state.timestamp, state.position, state.effort) == (0.0, start.position, [0.0, 0.0])
    assert state.seq == 32  # the stream goes on: a gap would look like loss


@pytest.mark.parametrize(
    ("service", "args", "says"),
    [
        ("step", {"n": 0}, "whole number"),
        ("step", {"n": 1.5}, "whole number"),
        ("step", {"m": 1}, "has no argument 'm'"),
        *[("speed", {"x": x}, r"a number from 0\.001 to 1000") for x in (-1.0, 0, math.nan, 1e308, 10**400, 1e-9, "2")],
        ("speed", {"x": 2.0}, "the speed can be set in mode 'realtime' only"),
        ("restore", {}, "is missing or is not a table"),
        ("restore", {"state": {"tick": 1}}, "lacks q"),
        ("pause", {"now": 1}, "has no argument 'now'"),
        ("set", {"arm_dampin": 1.0}, "arm_dampin"),
        ("set", {"arm_damping": "much"}, "it must be a finite number"),
        ("set", {"arm_damping": math.nan}, "it must be a finite number"),
        ("fly", {}, "no service 'fly'"),
    ],
)
def test_a_request_that_cannot_be_is_refused_with_a_line(
    service: str, args: dict[str, Any], says: str, make_plan: MakePlan, started: Started
) -> None:
    server, _ = started(make_plan(mode="lockstep"))
    with pytest.raises(ValueError, match=says):
        server.request(service, args)


def test_a_broken_snapshot_changes_nothing(make_plan: MakePlan, started: Started) -> None:
    server, _ = started(make_plan(mode="lockstep"))
    server.step()
    broken = server.request("snapshot", {})
    outside = [("q", [0.0]), ("q", "far"), ("constraint_mode", 9)]
    outside += [("tick", tick) for tick in (None, -1, 2**63, 2**53 + 1, math.inf, math.nan)]
    outside += [(key, [value] * len(broken[key])) for key in ("q", "v", "u", "p") for value in (math.nan, -math.inf)]
    for key, value in outside:
        with pytest.raises(ValueError, match="restore") as caught:
            server.request("restore", {"state": {**broken, key: value}})
        assert "\n" not in str(caught.value)
    assert server.request("snapshot", {}) == broken


def test_single_steps_are_taken_while_paused_only(make_plan: MakePlan, started: Started) -> None:
    server, _ = started(make_plan(mode="lockstep"))
    assert not server.runs
    server.request("step", {"n": 2})
    taken = 0
    while server.runs:
        server.step()
        taken += 1
    assert (taken, server.state) == (2, "paused")
    server.request("resume", {})
    with pytest.raises(ValueError, match="call the service pause first"):
        server.request("step", {"n": 1})


def test_a_first_resume_undoes_no_pause(make_plan: MakePlan, started: Started) -> None:
    server, _ = started(make_plan(mode="realtime"))
    server.request("pause", {})
    server.request("resume", {"first": True})
    assert server.state == "paused"
    server.request("resume", {})
    assert server.state == "running"
    server, _ = started(make_plan(mode="realtime"))
    server.request("resume", {"first": True})
    assert server.state == "running"


def test_the_run_ends_at_its_duration_to_the_step(make_plan: MakePlan, started: Started) -> None:
    server, _ = started(make_plan(mode="lockstep", duration_s=0.05))
    server.request("resume", {})
    while server.runs:
        server.step()
    assert (server.tick, server.state) == (50, "stopped")
    with pytest.raises(ValueError, match="the run ended at duration_s"):
        server.request("resume", {})
    server.request("pause", {})
    assert server.state == "stopped"
    server.request("reset", {})
    server.request("resume", {})
    assert server.runs


def test_milestones_are_timed(make_plan: MakePlan, started: Started) -> None:
    plan = make_plan(mode="lockstep")
    position = math.degrees(started(plan)[1].state().position[1])
    plan.milestones = [
        Milestone(name="there", joint="pendulum", target_deg=position + 360.0, tolerance_deg=5.0, hold_s=0.01),
        Milestone(name="never", joint="pendulum", target_deg=position + 180.0, tolerance_deg=1.0),
    ]
    server, _ = started(plan)
    for _ in range(20):
        server.step()
    assert server.status()["milestones"] == {"there": pytest.approx(0.01), "never": None}


def test_round_trips_are_measured_from_the_state_that_is_answered(make_plan: MakePlan, started: Started) -> None:
    server, ear = started(make_plan(mode="lockstep"))
    server.robots[0].commands.receive("damp", effort(0.0, state_seq=ear.state().seq))
    server.robots[0].commands.receive("damp", effort(0.0, state_seq=10**9))  # of no state of ours
    server.robots[0].commands.receive("damp", effort(0.0))
    assert server.robots[0].messages.round_trips.times.count == 1
    assert 0.0 < server.status()["round_trip_p50_s"] < 5.0


def test_status_has_the_fields_scripts_read(make_plan: MakePlan, started: Started) -> None:
    server, _ = started(make_plan(mode="realtime"))
    wanted = """time tick mode state speed real_time_factor watchdog_trips step_p50_s step_p99_s round_trip_p50_s
        round_trip_p99_s peak_phi peak_phidot substeps peak_solve_residual energy energy_drift milestones
        commanded_by step_histogram"""
    assert set(wanted.split()) <= server.status().keys()
    msgspec.json.encode(server.status())


def test_parameters_are_read_and_tuned(make_plan: MakePlan, started: Started) -> None:
    server, _ = started(make_plan(mode="lockstep"))
    assert "arm_damping" in server.request("get_parameters", {})
    assert server.request("set", {"arm_damping": 0.5})["arm_damping"] == 0.5
    assert server.request("set_parameters", {"arm_damping": 0.25})["arm_damping"] == 0.25
    limits = server.request("describe_parameters", {})
    assert limits.keys() == server.request("get_parameters", {}).keys()
    described = {each.name: each for each in server.simulation.system.mechanism.tunables}
    assert limits["arm_damping"]["unit"] == described["arm_damping"].unit == "N m s"
    assert limits["arm_damping"]["low"] is None  # a tunable without limits
    msgspec.json.encode(limits)
