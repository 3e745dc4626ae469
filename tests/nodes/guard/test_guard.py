"""The guard: commands inside the limits pass unchanged, others are clamped, and a stop lasts until acknowledged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from nodes.framework.client import guard_state
from nodes.framework.hosting.node_state import decode_state, encode_state
from nodes.framework.messages import Event, JointCommand, RobotState
from nodes.framework.messages.codec import decode
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.key_checks import PlanError
from nodes.framework.plan.launch_plan import NodePlan, Plan, SimPlan
from nodes.framework.simulation.compose import compose
from nodes.guard.command_guard import CommandGuard
from nodes.guard.driver import DriverGuard
from nodes.guard.limits import GuardParams
from nodes.guard.node import Guard, switch_state
from nodes.guard.stop_log import GuardLog
from nodes.node import Context, Node
from nodes.research.sweeps.cells import judged

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "launch/examples/guarded_arm.toml"
JOINTS: dict[str, Any] = {
    "joint_2": {
        "lower": -1.2,
        "upper": 1.2,
        "velocity": 2.0,
        "acceleration": 20.0,
        "deceleration": 20.0,
        "effort": 40.0,
    },
    "joint_4": {
        "lower": -2.0,
        "upper": 2.0,
        "velocity": 3.0,
        "acceleration": 30.0,
        "deceleration": 30.0,
        "margin": 0.1,
    },
}
NAMES = list(JOINTS)
DT = 1e-3


def made(**params: Any) -> CommandGuard:
    guard = CommandGuard(msgspec.convert({"joints": JOINTS} | params, GuardParams), set(NAMES))
    guard.add_state(0.0, NAMES, [0.0, 0.0], [0.0, 0.0])
    return guard


def kinds(guard: CommandGuard) -> list[tuple[str, str]]:
    return [(each.kind, each.cause) for each in guard.interventions]


def follow(guard: CommandGuard, goals: list[list[float]], mode: str = "position") -> Iterator[np.ndarray]:
    """Values that the guard gives for these commands, one per millisecond, to a robot that follows at once."""
    x, before = np.zeros(2), np.zeros(2)
    for tick, goal in enumerate(goals, 1):
        guard.add_state(tick * DT, NAMES, x.tolist(), ((x - before) / DT).tolist())
        guard.check(tick * DT)
        ((_, _, values),) = guard.process_command(tick * DT, mode, NAMES, goal, 0.0)
        given = np.array(values)
        x, before = (x + DT * given if mode == "velocity" else given), x
        yield given


def test_commands_inside_the_limits_pass_unchanged() -> None:
    t = DT * np.arange(1, 2000)
    goals = np.column_stack([0.8 * np.sin(t) ** 2, 1.5 * np.sin(0.8 * t) ** 2])
    guard = made(heartbeat_ms=100, max_age_ms=50)
    assert np.array_equal(np.array(list(follow(guard, goals.tolist()))), goals)
    assert not guard.interventions


@pytest.mark.parametrize("mode", ["position", "velocity"])
def test_a_wild_command_is_clamped_to_limits_and_rates(mode: str) -> None:
    guard = made(keep_out=[{"name": "table", "joints": {"joint_2": 1.0, "joint_4": 1.0}, "most": 2.2}])
    random = np.random.default_rng(3)
    goals = np.repeat(random.uniform(-9.0, 9.0, (30, 2)), 100, axis=0)
    given = np.array(list(follow(guard, goals.tolist(), mode)))
    x = given if mode == "position" else np.cumsum(given, axis=0) * DT
    v = np.diff(x, axis=0, prepend=np.zeros((1, 2))) / DT
    assert np.all(np.abs(x) <= [1.2 + 1e-9, 2.0 + 1e-9])
    assert np.all(x.sum(axis=1) <= 2.2 + 1e-9)
    assert np.all(np.abs(v[50:]) <= [2.0 + 1e-9, 3.0 + 1e-9])
    assert np.all(np.abs(np.diff(v[50:], axis=0)) / DT <= [20.0 + 1e-6, 30.0 + 1e-6])
    assert {kind for kind, _ in kinds(guard)} == {"guard_clamp"}
    assert not guard.stopped


@pytest.mark.parametrize("goal", [0.3, -0.99, 1.5])
def test_a_far_command_is_reached_also_where_positions_alone_are_limited(goal: float) -> None:
    deceleration = 8.0
    limits = {"lower": -1.0, "upper": 1.0, "deceleration": deceleration}
    guard = CommandGuard(msgspec.convert({"joints": {"a": limits}}, GuardParams))
    x = [0.0]
    for tick in range(1, 1000):
        guard.add_state(tick * DT, ["a"], x[-1:], [0.0])
        ((_, _, (value,)),) = guard.process_command(tick * DT, "position", ["a"], [goal], 0.0)
        x.append(value)
    speed = np.abs(np.diff(x)) / DT
    assert x[-1] == pytest.approx(np.clip(goal, -1.0, 1.0), abs=1e-9)
    assert (np.abs(x[1:]) + 0.5 * speed**2 / deceleration <= 1.0 + 1e-9).all()  # a stop is possible at any time


@pytest.mark.parametrize("goal", [[0.3, 0.3], [1.0, -1.0], [2.0, 2.0]])
def test_a_far_command_is_reached_where_a_keep_out_is_the_only_limit_of_positions(goal: list[float]) -> None:
    row = {"name": "sum", "joints": {"a": 1.0, "b": 1.0}, "most": 1.0}
    limits = {"joints": {"a": {"effort": 5.0}, "b": {"effort": 5.0}}, "keep_out": [row]}
    guard = CommandGuard(msgspec.convert(limits, GuardParams))
    x = np.zeros(2)
    for tick in range(1, 3000):
        guard.add_state(tick * DT, ["a", "b"], x.tolist(), [0.0, 0.0])
        ((_, _, values),) = guard.process_command(tick * DT, "position", ["a", "b"], goal, 0.0)
        x = np.array(values)
        assert x.sum() <= 1.0 + 1e-9
    expected = goal if sum(goal) <= 1.0 else [0.5, 0.5]
    assert x == pytest.approx(expected, abs=0.01)


def test_efforts_are_limited_in_value_and_rate() -> None:
    joints = {"joint_2": {"effort": 5.0, "effort_rate": 100.0}}
    guard = CommandGuard(msgspec.convert({"joints": joints}, GuardParams), set(NAMES))
    given = []
    for tick in range(1, 200):
        guard.add_state(tick * DT, NAMES, [0.0, 0.0], [0.0, 0.0])
        ((mode, names, values),) = guard.process_command(tick * DT, "effort", ["joint_2"], [-40.0], 0.0)
        given.append(values[0])
    assert (mode, names, given[-1]) == ("effort", ["joint_2"], -5.0)
    assert np.all(np.abs(np.diff(given)) <= 100.0 * DT + 1e-12)


def test_a_clamp_that_lasts_is_reported_again_every_second() -> None:
    """Who begins to listen later learns of it too."""
    guard = CommandGuard(msgspec.convert({"joints": {"joint_2": {"effort": 5.0}}}, GuardParams), set(NAMES))
    for tick in range(1, 3501):
        guard.add_state(tick * DT, NAMES, [0.0, 0.0], [0.0, 0.0])
        list(guard.process_command(tick * DT, "effort", ["joint_2"], [-40.0], 0.0))
    assert kinds(guard) == [("guard_clamp", "effort")] * 4


OUTSIDE, RESTING = [1.5, 0.0], [0.1, 0.0]
Act = Callable[[CommandGuard, float], object]


def command(mode: str = "position", names: Sequence[str] = NAMES, value: float = 0.1) -> Act:
    return lambda guard, now: guard.process_command(now, mode, names, [value] * len(names), 0.0)


def measured(position: Sequence[float] = RESTING, joints: Sequence[str] = NAMES, velocity: float = 0.0) -> Act:
    def act(guard: CommandGuard, now: float) -> None:
        guard.add_state(now, joints, position, [velocity] * len(position))
        guard.check(now)

    return act


def silence(guard: CommandGuard, now: float) -> None:
    """No command for longer than the heartbeat."""
    for tick in range(40):
        measured()(guard, now + tick * DT)


def stop(guard: CommandGuard, now: float) -> None:
    guard.stop(now, "estop", "a test")


def acknowledge(guard: CommandGuard, now: float) -> None:
    guard.acknowledge(now)


def unmeasured(guard: CommandGuard, now: float) -> None:
    """No measured state for longer than `state_ms`."""
    guard.check(now + 0.05)


def release_switch(guard: CommandGuard, now: float) -> None:
    guard.switch("the enabling switch is released")
    guard.check(now)


def back(guard: CommandGuard, now: float) -> None:
    guard.reset()


WAYS: dict[str, list[Act]] = {  # how each state is reached
    "waiting": [],
    "watching": [measured()],
    "unclaimed": [silence],
    "passing": [measured(), command()],
    "stopped": [measured(), stop],
    "held": [measured(), stop, acknowledge],
}
TRANSITIONS: list[tuple[str, Act, str, str]] = [  # state, event, next state, cause of a stop
    ("waiting", measured(), "watching", ""),
    ("waiting", command(), "waiting", ""),
    ("waiting", stop, "stopped", "estop"),
    ("waiting", unmeasured, "waiting", ""),
    ("watching", measured(), "watching", ""),
    ("watching", command(), "passing", ""),
    ("watching", command("effort", NAMES[:1]), "passing", ""),
    ("watching", measured(OUTSIDE), "stopped", "upper of joint_2"),
    ("watching", measured([1.15, 0.0], velocity=1.9), "stopped", "upper of joint_2"),  # it will leave the envelope
    ("watching", measured(velocity=4.0), "stopped", "velocity of joint_2"),
    ("watching", measured([0.1], NAMES[:1]), "stopped", "state"),
    ("watching", measured([0.1, float("nan")]), "stopped", "state"),
    ("watching", unmeasured, "stopped", "state"),
    ("watching", silence, "unclaimed", "heartbeat"),
    ("watching", stop, "stopped", "estop"),
    ("watching", back, "waiting", ""),
    ("unclaimed", measured(), "unclaimed", "heartbeat"),
    ("unclaimed", command(names=["gripper"]), "unclaimed", "heartbeat"),  # no guarded joint
    ("unclaimed", command(), "passing", ""),
    ("unclaimed", command(names=NAMES[:1]), "held", ""),  # the other joint
    ("unclaimed", acknowledge, "held", ""),
    ("unclaimed", stop, "stopped", "estop"),
    ("passing", measured(), "passing", ""),
    ("passing", measured(OUTSIDE), "stopped", "upper of joint_2"),
    ("passing", silence, "stopped", "heartbeat"),
    ("passing", unmeasured, "stopped", "heartbeat"),
    ("passing", release_switch, "stopped", "enable_file"),
    ("passing", stop, "stopped", "estop"),
    ("passing", back, "waiting", ""),
    ("stopped", command(), "stopped", "estop"),
    ("stopped", measured(OUTSIDE), "stopped", "estop"),
    ("stopped", silence, "stopped", "estop"),
    ("stopped", acknowledge, "held", ""),
    ("stopped", back, "stopped", "estop"),
    ("held", measured(), "held", ""),
    ("held", silence, "held", ""),
    ("held", command(names=NAMES[:1]), "held", ""),  # the other joint
    ("held", command(), "passing", ""),
    ("held", measured(OUTSIDE), "stopped", "upper of joint_2"),
    ("held", unmeasured, "stopped", "state"),
    ("held", stop, "stopped", "estop"),
    ("held", back, "waiting", ""),
]


@pytest.mark.parametrize(
    ("before", "act", "after", "cause"),
    TRANSITIONS,
    ids=[f"{number} {before} to {after}" for number, (before, _, after, _) in enumerate(TRANSITIONS)],
)
def test_each_event_leads_from_a_state_to_the_next_one(before: str, act: Act, after: str, cause: str) -> None:
    limits = {"joints": JOINTS, "heartbeat_ms": 20, "state_ms": 20}
    guard = CommandGuard(msgspec.convert(limits, GuardParams), set(NAMES))
    for number, way in enumerate(WAYS[before]):
        way(guard, number * DT)
    assert guard.state == before
    guard = restored(guard)  # a snapshot has all of the state
    stops = guard.stops
    act(guard, 0.041 if before == "unclaimed" else 5 * DT)
    assert (guard.state, guard.stopped) == (after, cause)
    assert guard.stops == stops + (cause != "" and before not in ("stopped", after))


def restored(guard: CommandGuard) -> CommandGuard:
    other = CommandGuard(guard.params, guard.has_servo)
    other.restore(decode_state(encode_state(guard.snapshot())))
    return other


@pytest.mark.parametrize("state", ["unclaimed", "stopped", "held"])
def test_a_stopped_or_held_joint_gets_the_velocity_0_in_each_period(state: str) -> None:
    limits = {"joints": JOINTS, "heartbeat_ms": 20}
    guard = CommandGuard(msgspec.convert(limits, GuardParams), set(NAMES))
    for number, way in enumerate(WAYS[state]):
        way(guard, number * DT)
    for tick in range(50, 60):
        guard.add_state(tick * DT, NAMES, RESTING, [0.0, 0.0])
        assert [(each.mode, each.values) for each in guard.check(tick * DT)] == [("velocity", [0.0, 0.0])]


def test_an_actuator_without_a_servo_gets_no_effort_during_a_stop_also_where_nobody_has_commanded_it() -> None:
    guard = CommandGuard(msgspec.convert({"joints": JOINTS}, GuardParams), {"joint_4"})
    guard.add_state(0.0, NAMES, OUTSIDE, [0.0, 0.0])
    assert [(each.mode, each.names, each.values) for each in guard.check(0.0)] == [
        ("effort", ["joint_2"], [0.0]),
        ("velocity", ["joint_4"], [0.0]),
    ]


def test_a_joint_that_creeps_while_it_is_held_is_stopped_at_its_limit() -> None:
    guard = made()
    guard.stop(0.0, "estop", "a test")
    guard.acknowledge(0.0)
    for tick in range(1, 200):
        guard.add_state(tick * DT, NAMES, [0.01 * tick, 0.0], [0.1, 0.0])
        guard.check(tick * DT)
    assert guard.stopped == "upper of joint_2"


STOPS: dict[str, tuple[dict[str, Any], str]] = {
    "a silent commander": ({"heartbeat_ms": 20}, "heartbeat"),
    "an enabling switch that nobody holds": ({"enable_timeout_ms": 20}, "enable"),
    "a joint beside its setpoint": ({"joints": {"joint_2": {"tracking_error": 1e-3}}}, "tracking_error"),
    "a joint too fast": ({"joints": {"joint_2": {"velocity": 0.1, "velocity_margin": 0.0}}}, "velocity of joint_2"),
    "a joint that cannot stop any more": ({"joints": {"joint_2": {"upper": 0.02, "margin": 0.0}}}, "upper of joint_2"),
}


@pytest.mark.parametrize("case", STOPS)
def test_a_stop_brakes_holds_and_lasts_until_acknowledged(case: str) -> None:
    params, cause = STOPS[case]
    guard = made(**params)
    guard.enable(0.0, True)  # an enabling switch is pressed at the first command
    guard.process_command(0.0, "velocity" if "fast" in case or "stop" in case else "position", ["joint_2"], [0.02], 0.0)
    now, given = 0.0, []
    while not guard.stopped and now < 1.0:
        now += DT
        guard.add_state(now, NAMES, [0.01, 0.0], [0.5 if "fast" in case or "stop" in case else 0.0, 0.0])
        given = guard.check(now)
    assert guard.stopped == cause
    assert given  # it commands the stop itself
    assert guard.process_command(now, "position", ["joint_2"], [0.5], 0.0) == []
    for _ in range(300):
        now += DT
        guard.add_state(now, NAMES, [0.01, 0.0], [0.0, 0.0])
        given = guard.check(now)
    assert {value for held in given if held.mode == "velocity" for value in held.values} <= {0.0}
    assert guard.stopped == cause
    assert kinds(guard)[-1] == ("guard_stop", cause)
    guard.enable(now, True)
    guard.acknowledge(now)
    assert guard.process_command(now, "position", ["joint_2"], [0.01], 0.0)
    assert (guard.stopped, kinds(guard)[-1][0]) == ("", "guard_acknowledged")


def test_after_a_release_the_setpoints_wait_for_the_robot_until_they_have_reached_the_commands() -> None:
    limit, q = 0.2, 0.0
    limits = JOINTS["joint_2"] | {"tracking_error": limit}
    guard = CommandGuard(msgspec.convert({"joints": {"joint_2": limits}}, GuardParams), {"joint_2"})
    guard.add_state(0.0, ["joint_2"], [q], [0.0])
    guard.stop(0.0, "estop", "a test")
    guard.acknowledge(0.0)
    given = [q]
    for tick in range(1, 3001):
        guard.add_state(tick * DT, ["joint_2"], [q], [0.0])
        assert not guard.check(tick * DT) or not guard.stopped
        ((_, _, (value,)),) = guard.process_command(tick * DT, "position", ["joint_2"], [1.0], 0.0)
        given.append(value)
        if tick > 500:  # the motor is off before
            q += 2e-3 * (value - q)
    speed = np.diff(given) / DT
    assert guard.stops == 1
    assert given[500] == pytest.approx(0.5 * limit, abs=1e-3)
    assert np.abs(np.diff(speed)).max() <= 20.0 * DT + 1e-9  # also where the setpoint brakes to wait
    assert ("guard_clamp", "tracking_error") in kinds(guard)


def test_a_stop_that_outlasts_a_reset_holds_the_robot() -> None:
    guard = made()
    guard.process_command(0.0, "position", NAMES, [0.0, 0.0], 0.0)
    guard.stop(DT, "estop", "a test")
    guard.reset()
    assert guard.check(0.0) == []  # it does not know yet where the robot is
    guard.add_state(0.0, NAMES, [0.3, -0.4], [0.0, 0.0])
    ((mode, names, values),) = guard.check(0.0)
    assert (mode, names, values) == ("velocity", NAMES, [0.0, 0.0])
    assert guard.process_command(DT, "position", NAMES, [0.0, 0.0], 0.0) == []
    assert (guard.stopped, guard.stops) == ("estop", 1)
    guard.acknowledge(DT)
    assert guard.process_command(2 * DT, "position", NAMES, [0.3, -0.4], 0.0)
    guard.stop(2 * DT, "estop", "a test")
    guard.reset()
    guard.acknowledge(0.0)
    guard.add_state(0.0, NAMES, [0.3, -0.4], [0.0, 0.0])
    assert guard.check(0.0) == []  # released meanwhile


def test_every_stop_and_acknowledgement_is_a_warning_of_its_own_with_its_time() -> None:
    """Equal lines within a few seconds are shown once; lines with a time differ."""
    node, context = (
        Guard(),
        Context(
            name="guard",
            robot="r",
            step_s=DT,
            params=msgspec.convert({"joints": JOINTS}, GuardParams),
            random=None,
            plan=None,
        ),
    )  # type: ignore[arg-type]
    node.on_start(context)
    for k in range(1, 5):
        state = RobotState(timestamp=0.5 * k, seq=k, name=NAMES, position=[0.0, 0.0], velocity=[0.0, 0.0])
        node.on_request("estop", {"reason": "a test"})
        list(node.on_message("state", state) or ())
        node.on_request("release", {})
        list(node.on_message("state", state) or ())
    lines = [line for level, line in context.log if level == "warning"]
    assert len(lines) == len(set(lines)) == 8
    assert "t = 0.500 s: the stop by estop is acknowledged" in lines


def test_a_stop_before_the_first_state_brakes_from_this_state_on() -> None:
    guard = CommandGuard(msgspec.convert({"joints": JOINTS}, GuardParams), set(NAMES))
    assert guard.stop(0.0, "estop", "a test") == []
    assert guard.check(DT) == []
    guard.add_state(2 * DT, NAMES, [0.3, -0.4], [1.0, 0.0])
    ((mode, names, values),) = guard.check(3 * DT)
    assert (mode, names, values[1]) == ("velocity", NAMES, 0.0)
    assert 0.5 < values[0] < 1.0


def test_a_robot_outside_its_limits_is_not_acknowledged() -> None:
    guard = made()
    guard.process_command(0.0, "position", NAMES, [0.0, 0.0], 0.0)
    guard.add_state(DT, NAMES, [1.5, 0.0], [0.0, 0.0])
    guard.check(DT)
    line = r"outside its limits \(upper of joint_2: 1\.5, at most 1\.2\); first move .* by hand, .* reset"
    with pytest.raises(ValueError, match=line):
        guard.acknowledge(DT)
    assert guard.stopped
    guard.add_state(2 * DT, NAMES, [1.1, 0.0], [0.0, 0.0])  # moved back by hand
    guard.acknowledge(2 * DT)
    assert not guard.stopped


def test_a_reset_of_the_simulation_brings_the_robot_back_inside_its_limits_for_a_release() -> None:
    guard = made()
    guard.process_command(0.0, "position", NAMES, [0.0, 0.0], 0.0)
    guard.add_state(DT, NAMES, [1.5, 0.0], [0.0, 0.0])
    guard.check(DT)
    guard.reset()
    guard.add_state(0.0, NAMES, [0.0, 0.0], [0.0, 0.0])
    guard.acknowledge(0.0)
    assert not guard.stopped


@pytest.mark.parametrize(("side", "bound"), [(1.0, "at most 2"), (-1.0, "at least -2")])
def test_positions_and_limits_in_messages_have_the_sign_of_the_joint(side: float, bound: str) -> None:
    guard = made()
    guard.process_command(0.0, "effort", NAMES, [0.0, 0.0], 0.0)
    guard.add_state(DT, NAMES, [0.0, 5.52 * side], [0.0, 0.0])
    guard.check(DT)
    stop = guard.interventions[-1]
    end = "upper" if side > 0.0 else "lower"
    assert stop.line.startswith(f"{end} of joint_4: a stop from {5.52 * side:g} would reach {5.52 * side:g}")
    assert stop.line.endswith(f", limit {2 * side:g}: controlled stop")
    with pytest.raises(ValueError, match=rf"\({end} of joint_4: {5.52 * side:g}, {bound}\)"):
        guard.acknowledge(DT)


def test_a_lower_limit_above_zero_is_named_with_its_own_sign() -> None:
    guard = made(joints={"joint_2": {"lower": 0.5}})
    guard.process_command(0.0, "position", ["joint_2"], [0.6], 0.0)
    guard.add_state(DT, NAMES, [0.0, 0.0], [0.0, 0.0])
    guard.check(DT)
    assert guard.interventions[-1].line == ("lower of joint_2: a stop from 0 would reach 0, limit 0.5: controlled stop")


@pytest.mark.parametrize("switch", ["file", "topic"])
def test_no_command_is_passed_on_while_the_enabling_switch_is_released(switch: str) -> None:
    guard = made(**({"enable_file": "gpio"} if switch == "file" else {"enable_timeout_ms": 10.0}))
    if switch == "file":
        guard.switch("the enabling switch is released")
    for now in (0.001, 0.002):  # from the start, and after a release of the stop
        guard.add_state(now, NAMES, [0.0, 0.0], [0.0, 0.0])
        hold = [("velocity", [0.0, 0.0])] if now > 0.001 else []  # held after the release
        assert [(each.mode, each.values) for each in guard.check(now)] == hold
        given = guard.process_command(now, "position", NAMES, [0.5, 0.5], 0.0)
        assert [(each.mode, each.values) for each in given] == [("velocity", [0.0, 0.0])]
        assert guard.stopped == ("enable_file" if switch == "file" else "enable")
        guard.acknowledge(now)
    guard.switch("")
    guard.enable(0.003, True)
    guard.add_state(0.003, NAMES, [0.0, 0.0], [0.0, 0.0])
    assert [each.mode for each in guard.process_command(0.003, "position", NAMES, [0.5, 0.5], 0.0)] == ["position"]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"1\n", ""),
        (b"0\n", "the enabling switch is released"),
        (None, "the enabling switch is released: file '{file}' cannot be read: No such file or directory"),
        (b"\xff", "the enabling switch is released: file '{file}' has bytes that are no text"),
    ],
    ids=["pressed", "released", "no file", "no text"],
)
def test_a_switch_whose_file_cannot_be_read_is_released_with_the_reason(
    content: bytes | None, line: str, tmp_path: Path
) -> None:
    file = tmp_path / "gpio"
    if content is not None:
        file.write_bytes(content)
    assert switch_state(str(file)) == line.format(file=file)


def test_an_old_command_is_not_passed_on() -> None:
    guard = made(max_age_ms=50)
    assert guard.process_command(0.0, "position", NAMES, [0.0, 0.0], 0.06) == []
    assert kinds(guard) == [("guard_rejected", "max_age")]


class Clocks:
    """Stands in for the module `time`: both clocks run together, and the sender's clock is 5 s behind."""

    ns = 10**9

    def monotonic_ns(self) -> int:
        return self.ns

    def time_ns(self) -> int:
        return self.ns + 5 * 10**9


def test_commands_that_waited_while_the_guard_was_frozen_are_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = Clocks()
    monkeypatch.setattr("nodes.guard.backlog.time", clocks)
    guard = DriverGuard(msgspec.convert({"joints": JOINTS, "heartbeat_ms": 100}, GuardParams), "driver")
    state = RobotState(name=NAMES, position=[0.0, 0.0], velocity=[0.0, 0.0])

    def passed(sent_ns: int) -> bool:
        guard.process_message(state, 1e-9 * clocks.ns)
        guard.check(1e-9 * clocks.ns)
        command = JointCommand(mode="position", name=NAMES, value=[0.0, 0.0], sent_ns=sent_ns)
        return bool(guard.process_command(command, 1e-9 * clocks.ns, 0.0))

    for _ in range(10):
        clocks.ns += 10**7
        assert passed(clocks.ns)
    frozen_at = clocks.ns
    clocks.ns += 3 * 10**9  # SIGSTOP; then the commands of these 3 s arrive at once
    guard._guard._motors.commanded_at[:] = 1e-9 * clocks.ns  # without the stop by heartbeat, which comes as well
    waited = [passed(frozen_at + k * 10**7) for k in range(1, 301)]
    assert waited == [False] * 289 + [True] * 11  # those of the latest 100 ms are passed on
    assert guard.counters["stale"] == 289
    assert [(each.kind, each.key) for each in guard.events] == [("guard_rejected", "backlog")]


def test_the_status_of_a_guard_has_the_beginning_of_the_stop_in_force() -> None:
    def text(time: float | None) -> str:
        status = {"guard": msgspec.to_builtins(log.measure(4.0)), "counters": {"clamps": 2}}
        found = guard_state(status)
        assert found is not None
        assert found.since == time
        return found.text()

    log = GuardLog()
    for begins, released in ((0.5, 1.0), (2.5, None)):
        log.add(Event(kind="guard_stop", node="guard", detail="too fast: controlled stop"), begins, begins)
        if released is not None:
            log.add(Event(kind="guard_acknowledged", node="guard"), released, released)
            assert text(0.5) == "not stopped, 1 stops; 2 values clamped"
    assert text(2.5) == "stopped since t = 2.500 s: too fast (stop 2); 2 values clamped"
    log.add(Event(kind="estop", node="guard", detail="a test"), 3.0, None)
    assert text(None) == "stopped: a test (stop 3); 2 values clamped"


TABLE = '{ name = "table", joints = { joint_2 = 2.0 }, most = 2.0 }'
WRONG = {
    "[nodes.params.joints.joint_2]\n": "key 'joints.joint_2' has no limit",
    "heartbeat_ms = 10\n": "key 'joints' is missing; give limits of joints",
    "[nodes.params.joints.elbow]\nupper = 1.0\n": "key 'joints.elbow': the robot has no actuator 'elbow' on this joint",
    "[nodes.params.joints.joint_2]\nuper = 1.0\n": "unknown key 'uper'; did you mean 'upper'?",
    f"keep_out = [{TABLE}, {TABLE}]\n[nodes.params.joints.joint_2]\nupper = 1.0\n": (
        "key 'keep_out[1].name': 'table' is used twice; use two names"
    ),
    f"keep_out = [{TABLE}]\n[nodes.params.joints.joint_2]\nlower = 1.25\nupper = 2.0\n": (
        "key 'keep_out[0].most' is 2, but within lower and upper of the joints the sum is at least 2.5, so that no"
    ),
    "[nodes.params.joints.joint_2]\nlower = 1.0\nupper = 1.0\n": (
        "key 'joints.joint_2': lower is 1 and upper is 1; lower must be below upper"
    ),
    "[nodes.params.joints.joint_2]\nvelocity = 1.0\n[nodes.params.joints.joint_4]\nlower = 1.5\nupper = -1.5\n": (
        "key 'joints.joint_4': lower is 1.5 and upper is -1.5; lower must be below upper"
    ),
    "enable_file = 'gpio'\n[nodes.params.joints.joint_2]\nupper = 1.0\n": "key 'enable_file' works only in mode real",
}


@pytest.mark.parametrize("params", WRONG)
def test_wrong_limits_are_refused_with_file_and_key(params: str, tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    table = f'[[nodes]]\nname = "guard"\nrun = "nodes/guard/node.py:Guard"\n[nodes.params]\n{params}'
    file.write_text(f'[sim]\nrobot = "arm_2dof"\nmode = "lockstep"\n{table}')
    with pytest.raises(PlanError) as refused:
        load_plan(file)
    assert WRONG[params] in str(refused.value)
    assert str(refused.value).startswith(f"{file}:")


def played(plan: Plan, **nodes: type[Node]) -> dict[str, list[Any]]:
    """{last part of the topic: messages} of a run without its recorder."""
    kinds = {"event": Event, "state": RobotState, "command": JointCommand, "raw_command": JointCommand}
    found: dict[str, list[Any]] = {name: [] for name in kinds}

    def carry(topic: str, payload: bytes) -> None:
        leaf = topic.rpartition("/")[2]
        if leaf in kinds:
            found[leaf].append(decode(topic, payload, kinds[leaf]))

    plan.nodes = [node for node in plan.nodes if node.name != "recorder"]
    with compose(plan, carry, nodes) as run:
        run.run()
    return found


def test_the_example_keeps_the_arm_inside_the_limits_of_its_guard() -> None:
    plan = load_plan(EXAMPLE)
    plan.duration_s = 5.4  # to the end of the third move
    found = played(plan)
    q = np.array([state.position for state in found["state"]])
    asked, given = (
        np.array([c.value for c in found[name] if len(c.value) == 2]) for name in ("raw_command", "command")
    )
    assert asked[:, 0].max() > 1.5
    assert asked.sum(axis=1).max() > 2.7
    assert given[:, 0].max() <= 1.2
    assert given.sum(axis=1).max() <= 2.2 + 1e-9
    assert q[:, 0].max() < 1.3
    assert q.sum(axis=1).max() < 2.4
    assert {event.kind for event in found["event"]} == {"guard_clamp"}
    assert "keep_out table" in {event.key for event in found["event"]}


class Silent(Node):
    """Turns joint_2 at 0.5 rad/s, and says no more after 0.3 s."""

    subscribes = {"state": RobotState}
    publishes = {"raw_command": JointCommand}

    def on_message(self, name: str, message: Any) -> Any:
        if message.timestamp < 0.3:
            yield "raw_command", JointCommand(mode="velocity", name=NAMES, value=[0.5, 0.0], state_seq=message.seq)


def test_a_silent_controller_stops_the_arm_in_lockstep() -> None:
    params = {"joints": JOINTS, "heartbeat_ms": 50}
    nodes = [
        NodePlan(name="silent", run=""),
        NodePlan(name="guard", run="nodes/guard/node.py:Guard", params=params),
    ]
    sim = SimPlan(robot="arm_2dof", mode="lockstep")
    found = played(Plan(name="silent", folder=str(ROOT), duration_s=1.0, sim=sim, nodes=nodes), silent=Silent)
    *_, stop = found["event"]
    assert (stop.kind, stop.key, stop.node) == ("guard_stop", "heartbeat", "guard")
    assert 0.34 < stop.timestamp < 0.36
    assert abs(found["state"][-1].velocity[0]) < 0.02
    assert found["command"][-1].value == [0.0, 0.0]


class Mute(Node):
    """Never commands."""

    subscribes = {"state": RobotState}
    publishes = {"raw_command": JointCommand}


@pytest.mark.parametrize("heartbeat_ms", [0, 50])
def test_an_arm_that_nobody_ever_commands_does_not_fall_out_of_its_envelope(heartbeat_ms: float) -> None:
    joints = {"joint_2": JOINTS["joint_2"] | {"margin": 0.1}, "joint_4": JOINTS["joint_4"]}
    nodes = [
        NodePlan(name="mute", run=""),
        NodePlan(
            name="guard", run="nodes/guard/node.py:Guard", params={"joints": joints, "heartbeat_ms": heartbeat_ms}
        ),
    ]
    sim = SimPlan(robot="arm_2dof", mode="lockstep")
    found: list[RobotState] = []

    def carry(topic: str, payload: bytes) -> None:
        if topic.endswith("/state"):
            found.append(decode(topic, payload, RobotState))

    with compose(Plan(name="mute", folder=str(ROOT), sim=sim, nodes=nodes), carry, {"mute": Mute}) as run:
        run.server.simulation.reset([0.5, 0.0])
        run.run(2.0)
        stops = run.nodes["guard"].guard_stops
        assert judged(run)[0] == "failed"
    assert stops is not None
    assert ("no command for 50 ms" if heartbeat_ms else "joint_2") in stops.reason
    q, v = (np.array([getattr(state, name) for state in found]) for name in ("position", "velocity"))
    assert np.abs(q[:, 0]).max() < 1.3
    assert np.abs(v[-1]).max() < 0.02


def test_a_controller_beside_a_guard_node_is_refused_with_the_remapping_that_it_needs(tmp_path: Path) -> None:
    file = tmp_path / "beside.toml"
    text = EXAMPLE.read_text()
    remap = 'remap = { command = "raw_command" }'
    assert remap in text
    file.write_text(text.replace(remap, "").replace('run = "nodes/', f'run = "{ROOT}/nodes/'))
    with pytest.raises(PlanError) as refused:
        load_plan(file)
    assert str(refused.value).endswith(f", or give the one that is no guard the key {remap}")
