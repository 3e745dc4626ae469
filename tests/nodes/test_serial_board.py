"""The board, its line and its driver: in their own time, and through a real pseudo-terminal."""

from __future__ import annotations

import math
import os
import select
import tty
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.emulated_board import EmulatedBoard
from nodes.framework.messages import Encoders, JointCommand, Message, RobotState
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.key_checks import PlanError
from nodes.framework.plan.launch_plan import NodePlan, Plan, SimPlan
from nodes.hil.emulation.board import Board, BoardParams, tilt_of, torso_of
from nodes.hil.emulation.odometry import BoardClock, Odometry, difference
from nodes.hil.emulation.serial_line import Line, line_time
from nodes.node import Context, Node
from nodes.serial_board import SerialBoard
from robots.charmie.base import pose_after, wheel_turns
from robots.charmie.parameters import read_parameters
from robots.charmie.serial_frames import STOPPED, Command, Stream, stream_reader

ROOT = Path(__file__).resolve().parents[2]
ROBOT = read_parameters()
BASE = ("base_x", "base_y", "base_yaw")
BARE = {"limits": "none"}  # the joints that no brake holds fall; on stops, which need a step of 1 ms, they would bounce


def board(**params: Any) -> Board:
    sim = SimPlan(robot="charmie", step_ms=2.0, parameters=BARE)
    return Board(sim, ROBOT, BoardParams(**params), np.random.default_rng(1))


def polled(on: Board, command: Command, t: float, until: float) -> list[Stream]:
    """Poll at 20 Hz from t on with the same command; what the board answers."""
    reader, found = stream_reader(), []
    for k in range(round((until - t) / 0.05)):
        on.receive(command.encode(), t + 0.05 * k)
        found += reader.feed(on.transmit(t + 0.05 * (k + 1)))
    assert (reader.bad, reader.skipped) == (0, 0)
    return found


def test_a_frame_of_29_bytes_takes_30_ms_at_9600_baud() -> None:
    assert line_time(29, 9600) == pytest.approx(0.0302, abs=1e-4)
    line = Line(9600)
    line.send(bytes(29), 1.0)
    assert len(line.through(1.0 + 0.5 * 29 * 10 / 9600)) == 14
    line.send(b"x", 1.001)  # behind the others
    (*_, (at, byte)) = line.through(2.0)
    assert (at, byte) == (pytest.approx(1.0 + 300 / 9600), ord("x"))


def test_the_board_answers_a_poll_after_both_frames_were_on_the_line() -> None:
    on = board()
    on.receive(Command(1).encode(), 0.0)
    whole = line_time(9 + 29, 9600)
    assert len(on.transmit(whole - 1e-6)) == 28
    assert len(on.transmit(whole + 1e-6)) == 1
    assert whole < 0.05  # so that it can be polled at 20 Hz


def test_half_speed_forward_is_a_quarter_of_a_metre_in_a_second_and_its_counts() -> None:
    on = board()
    first, *_, last = polled(on, Command(1, forward=150), 0.0, 2.0)
    seen = Odometry(ROBOT, np.zeros(3))
    seen.add_frame(first)
    seen.add_frame(last)
    seconds = 1e-3 * (last.millis - first.millis)
    assert seen.position[:3] == pytest.approx([0.0, 0.25 * seconds, 0.0], abs=5e-3)
    turn = math.sin(math.pi / 4) * 0.25 * seconds / ROBOT.base.wheels.radius
    assert np.abs(seen.counts) == pytest.approx(turn * 2250 / math.tau, rel=0.02)
    assert seen.lost == 38  # by their numbers: only the first and the last were taken


def test_legs_and_torso_go_where_they_are_told_and_a_tilt_is_a_torso() -> None:
    on = board()
    *_, last = polled(on, Command(1, legs=90, torso=100), 0.0, 3.0)
    assert last.legs == pytest.approx(90.0, abs=4.0)  # the servo gives way to the weight
    assert last.torso == pytest.approx(100.0, abs=3.0)
    assert (tilt_of(8.0, -1.2), tilt_of(170.0, -1.2)) == (0.0, -1.2)
    assert torso_of(tilt_of(77.0, -1.2), -1.2) == pytest.approx(77.0)


def test_without_commands_the_board_stops_the_base_and_says_so() -> None:
    on = board(watchdog_ms=300.0)
    polled(on, Command(1, right=200), 0.0, 1.0)
    on.transmit(2.5)
    assert on.stops == 1
    first, second, *_, last = polled(on, Command(2), 2.5, 2.8)
    assert first.status & STOPPED  # it says what was until the command that it answers
    assert second.status & STOPPED == 0
    assert last.counts == pytest.approx(first.counts, abs=2)


def test_a_larger_wheel_drives_further_for_equal_counts() -> None:
    usual, larger = (polled(board(wheel_radius=share), Command(1, right=150), 0.0, 1.5)[-1] for share in (0.0, 0.05))
    assert larger.counts == pytest.approx(usual.counts, rel=0.02, abs=5)


def test_a_bad_line_loses_frames_and_no_more() -> None:
    on, reader = board(torn=0.2, wrong=0.2), stream_reader()
    found: list[Stream] = []
    for k in range(200):
        on.receive(Command(k % 256).encode(), 0.05 * k)
        found += reader.feed(on.transmit(0.05 * (k + 1)))
    assert on.frames == 200
    assert 100 <= len(found) < 160
    assert reader.bad >= 30
    assert all(a.number < b.number for a, b in pairwise(found))


@given(st.lists(st.tuples(*[st.floats(-0.5, 0.5)] * 3), min_size=1, max_size=10))
def test_a_base_is_where_its_wheels_rolled(steps: list[tuple[float, float, float]]) -> None:
    wheels, place, found = ROBOT.base.wheels, np.zeros(3), np.zeros(3)
    for step in steps:
        after = place + np.array(step)
        found = pose_after(wheels, found, wheel_turns(wheels, place, after))
        place = after
    assert found == pytest.approx(place, abs=1e-9)


@given(st.integers(0, 2**32 - 1), st.integers(-(2**31), 2**31 - 1))
def test_numbers_that_went_round_differ_as_if_they_had_not(before: int, change: int) -> None:
    assert difference((before + change) % 2**32, before, 32) == change


@settings(max_examples=20)
@given(st.lists(st.floats(0.0, 0.03), min_size=30, max_size=30), st.floats(-5.0, 5.0))
def test_the_boards_clock_is_known_to_the_quickest_frame(late: list[float], apart: float) -> None:
    clock = BoardClock(0.03)
    late[7] = 0.0
    stamps = [clock.to_local(0.05 * k, 0.05 * k + apart + 0.03 + each) for k, each in enumerate(late)]
    assert stamps[7:] == pytest.approx([0.05 * k + apart for k in range(7, 30)])


# -- through a pseudo-terminal


def context(params: Any, name: str) -> Context:
    plan = Plan(name="board", sim=SimPlan(robot="charmie", step_ms=2.0, parameters=BARE))
    return Context(name, "charmie", 2e-3, params, np.random.default_rng(3), plan=plan)


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Callable[..., tuple[EmulatedBoard, SerialBoard]]]:
    """line(torn=0.1) -> the emulated board and the driver, joined by a real pseudo-terminal."""
    nodes: list[Node] = []

    def join(**params: Any) -> tuple[EmulatedBoard, SerialBoard]:
        port = str(tmp_path / "port")
        far, near = EmulatedBoard(), SerialBoard()
        far.on_start(context(EmulatedBoard.Params(port=port, **params), "emulated"))
        near.on_start(context(SerialBoard.Params(port=port), "board"))
        nodes.extend((near, far))
        return far, near

    yield join
    for node in nodes:
        node.on_stop()


def together(far: EmulatedBoard, near: SerialBoard, first: int, last: int, **command: Any) -> list[Message]:
    """Both nodes from one 5 ms tick to another, and a model that does what it is told; what the driver says."""
    said: list[Message] = []
    for k in range(first, last):
        t = 5e-3 * k
        state = RobotState(timestamp=t, name=[*BASE, "lift", "tilt"], position=[0.0] * 5)
        for node in (far, near):
            node.on_message("state", state)
        if command:
            near.on_message("command", JointCommand(timestamp=t, **command))
        far.on_tick(t)
        if near._port is not None:
            select.select([near._port.fileno()], [], [], 0.002)  # the kernel takes its time over a terminal's bytes
        said += [message for _, message in near.on_tick(t)]
    return said


DRIVE = {"mode": "velocity", "name": list(BASE), "value": [0.0, 0.25, 0.0]}


def test_a_driven_base_is_measured_through_the_line(
    line: Callable[..., tuple[EmulatedBoard, SerialBoard]],
) -> None:
    far, near = line()
    said = together(far, near, 1, 400, **DRIVE)
    states = [message for message in said if isinstance(message, RobotState)]
    encoders = [message for message in said if isinstance(message, Encoders)]
    assert len(states) == len(encoders) > 30
    assert states[-1].name == [*BASE, "lift", "tilt"]
    stamps = [state.timestamp for state in states]
    assert all(0.0 <= b - a < 0.2 for a, b in pairwise(stamps))
    assert states[-1].position[1] == pytest.approx(0.25 * stamps[-1], abs=0.06)
    assert states[-1].velocity[1] == pytest.approx(0.25, abs=0.02)
    assert encoders[-1].pulses_per_turn == 2250
    assert near.counters["frames"] == len(states)
    assert near.counters["frames_torn"] == near.counters["frames_wrong"] == near.counters["bytes_skipped"] == 0


def test_what_the_board_took_is_said_at_the_instant_of_its_answer(
    line: Callable[..., tuple[EmulatedBoard, SerialBoard]],
) -> None:
    far, near = line(torn=0.2)
    held = {"mode": "position", "name": ["lift", "neck_pan"], "value": [0.0433, 0.1]}
    said = together(far, near, 1, 60, **held) + together(far, near, 60, 300, **DRIVE)
    taken = [message for message in said if isinstance(message, JointCommand)]
    measured = [message.timestamp for message in said if isinstance(message, RobotState)]
    stamps = [each.timestamp for each in taken]
    assert stamps == sorted(stamps)
    assert stamps[0] == 0.0  # the brakes hold from the start
    assert len(set(measured[5:]) - set(stamps)) <= 2  # an answer that came late has no poll of its own
    last_drive, last_goals = taken[-2], taken[-1]
    assert last_drive.value[1] == pytest.approx(0.25)
    goals = dict(zip(last_goals.name, last_goals.value, strict=True))
    assert goals == pytest.approx({"neck_pan": 0.1, "lift": 0.043})


def test_a_speed_between_two_steps_is_right_in_the_mean(
    line: Callable[..., tuple[EmulatedBoard, SerialBoard]],
) -> None:
    _, near = line()
    near.on_message("state", RobotState(timestamp=1.0))
    near.on_message("command", JointCommand(timestamp=1.0, **{**DRIVE, "value": [0.0, 0.0033, -0.0052]}))
    sent = [near._command() for _ in range(100)]
    assert {command.forward for command in sent} == {100, 101}
    assert np.mean([command.forward - 100 for command in sent]) == pytest.approx(0.66, abs=0.01)
    assert np.mean([command.turn - 100 for command in sent]) == pytest.approx(-0.26, abs=0.01)
    assert {command.right for command in sent} == {100}


def test_commands_that_stop_coming_stop_the_base(line: Callable[..., tuple[EmulatedBoard, SerialBoard]]) -> None:
    far, near = line()
    together(far, near, 1, 150, **DRIVE)
    said = together(far, near, 150, 400)
    last = [message for message in said if isinstance(message, RobotState)][-1]
    assert last.velocity[1] == pytest.approx(0.0, abs=1e-3)


def test_torn_and_wrong_frames_are_counted_and_skipped(
    line: Callable[..., tuple[EmulatedBoard, SerialBoard]],
) -> None:
    far, near = line(torn=0.3, wrong=0.3)
    said = together(far, near, 1, 600, **DRIVE)
    states = [message for message in said if isinstance(message, RobotState)]
    torn, wrong = near.counters["frames_torn"], near.counters["frames_wrong"]
    assert min(torn, wrong) >= 3
    assert near.counters["bytes_skipped"] > 0
    assert near.counters["frames_lost"] >= 5
    assert len(states) >= 10
    assert f"{torn} torn and {wrong} wrong ones skipped" in near.verdict.reason
    assert states[-1].velocity[1] == pytest.approx(0.25, abs=0.05)  # nothing wrong came through


def test_an_answer_that_breaks_off_is_not_waited_for(tmp_path: Path) -> None:
    master, slave = os.openpty()
    tty.setraw(slave)
    near = SerialBoard()
    near.on_start(context(SerialBoard.Params(port=os.ttyname(slave)), "board"))
    list(near.on_tick(0.0))
    assert len(os.read(master, 100)) == 9
    os.write(master, b"##torn")
    for k in range(1, 20):
        select.select([near._port.fileno()], [], [], 0.01)
        list(near.on_tick(5e-3 * k))
        if near.counters["polls"] > 1:
            break
    assert 0.02 < 5e-3 * k < 0.09  # what has no answer at all is given up after 100 ms
    assert str(near.verdict).startswith(f"failed: no frame came through {os.ttyname(slave)} for 2 polls")
    near.on_stop()
    os.close(slave)
    os.close(master)


def test_a_port_that_is_missing_is_told_of_and_holds_up_the_launch(tmp_path: Path) -> None:
    near = SerialBoard()
    near.on_start(context(SerialBoard.Params(port=str(tmp_path / "port")), "board"))
    for k in range(5):
        list(near.on_tick(1.0 * k))  # the emulated board may be longer in starting
    assert near._context.log == []
    for k in range(5, 10):
        list(near.on_tick(1.0 * k))
    assert near.waits_for == str(tmp_path / "port")
    assert "cannot be opened: No such file or directory" in near._context.log[0][1]


def test_a_file_that_is_no_serial_port_is_called_that() -> None:
    near = SerialBoard()
    near.on_start(context(SerialBoard.Params(port="/dev/null"), "board"))
    for k in range(10):
        list(near.on_tick(1.0 * k))
    assert "the port /dev/null cannot be opened: it is not a serial port; " in near._context.log[0][1]


def test_what_the_board_does_not_take_is_said(line: Callable[..., tuple[EmulatedBoard, SerialBoard]]) -> None:
    _, near = line()
    near.on_message("command", JointCommand(mode="effort", name=["lift"], value=[100.0]))
    assert near._context.log == [
        ("warning", "the board accepts positions of lift, not effort; the driver does not send this command")
    ]


def test_a_port_that_goes_away_is_opened_again(tmp_path: Path) -> None:
    def terminal() -> tuple[int, int]:
        master, slave = os.openpty()
        tty.setraw(slave)
        (tmp_path / "port").unlink(missing_ok=True)
        (tmp_path / "port").symlink_to(os.ttyname(slave))
        return master, slave

    near = SerialBoard()
    near.on_start(context(SerialBoard.Params(port=str(tmp_path / "port")), "board"))
    assert list(near.on_tick(0.0)) == []  # there is none yet
    master, slave = terminal()
    assert near.waits_for == str(tmp_path / "port")
    assert str(near.verdict) == f"failed: the port {tmp_path / 'port'} was never open"
    list(near.on_tick(1.0))
    list(near.on_tick(1.1))
    assert near.counters["ports_opened"] == 1
    assert near.waits_for == ""
    assert os.read(master, 100)[:2] == b">>"
    os.close(slave)
    os.close(master)
    list(near.on_tick(1.2))
    (tmp_path / "port").unlink()
    for k in range(12):
        list(near.on_tick(2.0 + 0.6 * k))
    (level, line_said), *_ = near._context.log
    assert level == "warning"
    assert "cannot be opened: No such file or directory; the driver tries again repeatedly" in line_said
    master, slave = terminal()
    list(near.on_tick(10.0))
    assert near.counters["ports_opened"] == 2
    near.on_stop()
    os.close(slave)
    os.close(master)


# -- refusals


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("sim.mode=lockstep", "the simulation runs in mode 'lockstep'; set mode"),
        ("sim.speed=2.0", "the simulation runs in mode 'realtime' at speed 2; set mode"),
        ("board.poll_hz=0", "poll_hz is 0.0; it must be a number above 0"),
        ("board.baud=1", "baud is 1; it must be at least 300 bits/s"),
        ("emulated.torn=2", "torn is 2.0; it must be a fraction from 0 to 1"),
        ("emulated.mass.wing=0.1", "mass: there is no body 'wing'"),
        ("board.file=none.toml", "none.toml"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(override: str, says: str) -> None:
    with pytest.raises(PlanError) as refused:
        load_plan(ROOT / "launch/charmie_hil.toml", [override])
    assert says in str(refused.value)


def test_a_robot_without_the_boards_joints_is_refused_with_what_would_do() -> None:
    node = NodePlan(name="emulated", run="nodes/emulated_board.py:EmulatedBoard")
    plan = Plan(name="closed", sim=SimPlan(robot="charmie", parameters={"loops": "closed"}), nodes=[node])
    with pytest.raises(ValueError, match=r"lacks the actuator 'lift', which the board drives"):
        EmulatedBoard.check(EmulatedBoard.Params(), plan)
