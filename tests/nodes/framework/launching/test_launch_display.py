"""What a launch shows: redrawn in place on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest

from nodes.framework.launching.display import Display, NodeLine
from nodes.framework.launching.launch import Launch
from nodes.framework.launching.logs import Log
from nodes.framework.launching.results import RunResults
from nodes.framework.launching.summary import ListenerLoss, Load, Summary, figure_text, seconds_text
from nodes.framework.launching.supervisor import Child, Failure, Program
from nodes.framework.messages import GuardStops, Status, Verdict
from nodes.framework.plan.launch_plan import Plan
from nodes.framework.transport.domain import domain_folder
from nodes.framework.transport.registry import Registry
from nodes.framework.transport.service import ServiceError

SIM = NodeLine("sim", 101, "running", 0, "commands 1000")
RMS = "rms of b is 1.63 deg, at most 1 deg and 1 more"
DAMPER = NodeLine("damper", 102, "ready", 7, "")


def test_a_terminal_shows_one_line_per_node_and_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    main, terminal = os.openpty()
    monkeypatch.setenv("TERM", "xterm")
    with os.fdopen(terminal, "w") as stderr:
        monkeypatch.setattr("sys.stderr", stderr)
        with Display(duration_s=20.0) as display:
            display.update(5.0, [SIM, DAMPER])
            display.print_line("[bold]as it is written[/]", "damper")
        raw = b""
        while select.select([main], [], [], 1.0)[0] and b"[/]" not in raw:  # it comes in pieces
            raw += os.read(main, 65536)
    os.close(main)
    shown = raw.decode()
    assert "sim" in shown
    assert "commands 1000" in shown
    assert "lost 7" in shown
    assert "t = 5.0 of 20 s" in shown
    assert "[damper] [bold]as it is written[/]" in shown


def test_elsewhere_a_line_is_printed_when_a_state_changes(capsys: pytest.CaptureFixture[str]) -> None:
    with Display(duration_s=None) as display:
        display.update(1.0, [SIM, DAMPER])
        display.update(2.0, [SIM, DAMPER])
        display.update(3.0, [SIM._replace(state="safe"), DAMPER])
    assert capsys.readouterr().err.splitlines() == [
        "[launch] t = 1.0 s: sim running, damper ready (lost 7)",
        "[launch] t = 3.0 s: sim safe, damper ready (lost 7)",
    ]


def test_a_pause_is_said_once_and_again_each_minute(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("nodes.framework.launching.display.time.monotonic", lambda: now)
    paused = SIM._replace(state="paused")
    with Display(duration_s=None) as display:
        for _ in range(150):  # each second
            display.update(2.0, [paused])
            now += 1.0
        display.update(2.5, [paused])  # a single step: said when a line is due
        now += 5.0
        display.update(2.5, [paused])
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["[launch] t = 2.0 s: sim paused"] * 3 + ["[launch] t = 2.5 s: sim paused"]


def test_the_summary_says_in_words_what_was_measured() -> None:
    summary = Summary(plan="demo", robot="rotary_pendulum", mode="realtime", first_state_s=1.234)
    measured = {"time": 20.0, "tick": 20_000, "overruns": 2, "step_p50_s": 85e-6, "step_p99_s": 0.0011}
    measured["loads"] = {"arm": {"peak": 0.05, "rms": 0.01, "limit": 0.1, "unit": "N m"}, "rail": {"peak": 2, "rms": 1}}
    measured["loads"]["lift"] = {"peak": 1000.0, "rms": 1e-14, "limit": 1000.0, "unit": "N"}
    measured["constraint_mode"] = "upright"
    behind = {"real_time_factor": 0.79, "watchdog_trips": 3}
    summary.take_simulation({**measured, **behind, "round_trip_p50_s": None, "round_trip_p99_s": None, "unknown": 1})
    summary.milestones = {"upright": 2.796, "level": None}
    summary.missed = ["level"]
    summary.nodes = {"sim": ListenerLoss(), "damper": ListenerLoss(lost=3, restarts=1)}
    assert "dropped by emulated links" not in dict(summary.lines())
    summary.nodes["damper"].dropped, summary.nodes["damper"].on_link = 120, 4000
    summary.figures = {"damper": {"peak_error_rad": 0.01234, "wheels_that_slip": 2.0, "speed": 0.5}}
    lines = dict(summary.lines())
    assert lines["load of arm"] == "peak 0.05 N m, rms 0.01 N m (50 %, 10 % of 0.1 N m)"
    assert lines["load of rail"] == "peak 2 N m, rms 1 N m"
    assert lines["load of lift"] == "peak 1000 N, rms 0 N (100 %, 0 % of 1000 N)"
    assert lines["damper"] == "peak error 0.0123 rad, wheels that slip 2, speed 0.5"
    assert lines["at the end"] == "constraint mode upright"
    assert figure_text("peak_torque_n_m", 12.34) == "peak torque 12.3 N m"
    assert figure_text("peak_hand_force_N", 405.2) == "peak hand force 405 N"
    assert figure_text("command_age_max_ms", 1e-6) == "command age max 0 ms"  # rounding of sums of steps
    assert figure_text("command_age_max_ms", 2e-3) == "command age max 0.002 ms"
    assert lines["robot"] == "rotary_pendulum, realtime, 20.000 s in 20000 steps"
    assert lines["upright"] == "reached at t = 2.80 s"
    assert lines["level"] == "not reached (required)"
    assert lines["start"] == "first state after 1.23 s"
    assert lines["overruns"] == "2 of 20000 steps (0.01 %)"
    assert lines["step time"] == "p50 85 us, p99 1.1 ms"
    assert lines["messages lost"] == "sim 0, damper 3"
    assert lines["dropped by emulated links"] == "damper 120 of 4000 messages"
    assert lines["restarts"] == "damper 1"
    assert "round trip" not in lines  # nobody measured one
    assert lines["real-time factor"] == "0.790; this computer fell behind, `armswing doctor` may show why"
    assert lines["watchdog"].startswith("3 times")


def test_a_summary_says_what_failed_and_why_and_what_strangers_were() -> None:
    summary = Summary(plan="p", robot="r", mode="realtime", rejected_connections=5)
    summary.rejected_connections_by_kind = {"unknown_key": 3, "no_key": 0, "no_zmtp": 2}
    summary.verdicts = {
        "board": Verdict("failed", "the port /dev/ttyUSB7; was never open"),
        "other": Verdict("passed", "3 of 3"),
        "compare": Verdict("failed", RMS, "6 states compared"),
    }
    assert dict(summary.lines())["compare"] == f"failed: {RMS}; 6 states compared"
    assert summary.judged("failed") == {
        "board": "the port /dev/ttyUSB7; was never open",
        "compare": RMS,
    }
    rejected_connections = dict(summary.lines())["rejected connections"]
    assert rejected_connections == "5 without an allowed key: 3 with another key, 2 without ZeroMQ"


def test_where_nothing_ran_there_are_no_loads() -> None:
    summary = Summary(plan="demo", robot="rotary_pendulum", mode="realtime", loads={"arm": Load(peak=0.0, rms=0.0)})
    assert "load of arm" not in dict(summary.lines())
    summary.tick = 1
    assert "load of arm" in dict(summary.lines())


def test_a_run_of_less_than_a_second_is_no_word_against_the_computer() -> None:
    summary = Summary(plan="demo", robot="rotary_pendulum", mode="realtime", time=0.9, real_time_factor=0.5)
    assert "real-time factor" not in dict(summary.lines())  # nothing ran
    summary.tick = 900
    assert dict(summary.lines())["real-time factor"] == "0.500"


@pytest.mark.parametrize(
    ("speed", "factor", "says"),
    [
        (0.5, 0.499, "0.499, 0.5 was requested"),
        (0.5, 0.466, "0.466, 0.5 was requested; this computer fell behind, `armswing doctor` may show why"),
        (2.0, 1.5, "1.500, 2 was requested; this computer fell behind, `armswing doctor` may show why"),
        (1.0, 0.99, "0.990"),
    ],
)
def test_the_real_time_factor_is_judged_by_the_speed_that_was_asked_for(speed: float, factor: float, says: str) -> None:
    summary = Summary(plan="demo", robot="rotary_pendulum", mode="realtime")
    summary.take_simulation({"time": 9.0, "tick": 9000, "speed": speed, "real_time_factor": factor})
    assert dict(summary.lines())["real-time factor"] == says


@pytest.mark.parametrize("seen", [0, 1, 3])
def test_a_failed_node_s_lines_are_shown_once(
    seen: int, make_plan: Callable[..., Plan], domain: int, capsys: pytest.CaptureFixture[str]
) -> None:
    launch = Launch(make_plan(), cast("Any", Asked()), Display(None), 0.0, Registry(0))
    lines = ["Traceback (most recent call last):", "  in on_message", "RuntimeError: no"]
    child = Child(Program("damp", []), Log(domain_folder(domain) / "damp.log"))
    launch._supervisor.children["damp"] = child
    with child.log.path.open("a") as log:
        print(*lines[:seen], sep="\n", end="\n" if seen else "", file=log, flush=True)
        launch._show_output()
        print(*lines[seen:], sep="\n", file=log, flush=True)
    launch._failure = Failure("damp", 1, "failed", lines)
    launch._show_output()
    launch.show_failure()
    said = capsys.readouterr().err
    assert [said.count(line) for line in lines] == [1, 1, 1]
    assert ("the last lines of the output of node 'damp' are above" in said) == (seen == 3)


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.5, "2.5 s"), (0.0123, "12.3 ms"), (85.1e-6, "85.1 us"), (42e-9, "42 ns"), (0.0, "0 ns")]
)
def test_durations_come_in_the_unit_a_person_would_use(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


class Asked:
    """Stands in for the observer: keeps what a launch asks."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, object]] = []

    def is_ready(self, name: str, pid: int) -> bool:
        return True

    def expect_state(self, topic: str) -> None: ...

    def call(self, name: str, service: str, timeout_s: float = 1.0, args: object = None) -> None:
        self.calls.append((name, service, args))


def test_a_launch_resumes_only_what_nobody_paused(make_plan: Callable[..., Plan], domain: int) -> None:
    observer: Any = Asked()
    Launch(make_plan(), observer, Display(None), 0.0, Registry(0))._resume()
    assert observer.calls == [("sim", "resume", {"first": True})]


class Silent(Asked):
    """An observer whom nobody answers any more, and what one node said last on the stream."""

    time, first_state_at = 1.0, None

    def __init__(self, last: Status) -> None:
        super().__init__()
        self.status = {last.node: last}

    def call(self, name: str, service: str, timeout_s: float = 1.0, args: object = None) -> None:
        raise ServiceError(f"{name} does not answer")


def test_a_node_that_answers_no_more_is_judged_by_what_it_said_last(
    make_plan: Callable[..., Plan], domain: int
) -> None:
    said = Verdict("failed", "rms is 2 deg, at most 1 deg", "5 states compared")
    last = Status(node="compare", figures={"rms_deg": 2.0}, verdict=said)
    with Registry(domain) as registry:
        results = Launch(make_plan(), cast("Any", Silent(last)), Display(None), 0.0, registry).results
        results._names.append("compare")
        results.gather(0.0, None)
    results.finish(None, 0)
    assert results.summary.figures == {"compare": {"rms_deg": 2.0}}
    assert (results.summary.exit_code, results.summary.ended) == (1, "compare failed: rms is 2 deg, at most 1 deg")


def test_the_summary_says_when_and_why_and_for_how_long_a_guard_stopped_the_robot() -> None:
    summary = Summary(plan="p", robot="r", mode="realtime")
    summary.guard_stops["driver"] = GuardStops(count=1, stopped_s=6.0, first_time=0.0, first_reason="why", reason="why")
    assert dict(summary.lines())["stopped by a guard"] == (
        "driver at t = 0.000 s for 6.000 s, still stopped at the end: why"
    )
    summary.guard_stops["driver"] = GuardStops(count=3, stopped_s=2.5, first_time=1.0, first_reason="why")
    assert dict(summary.lines())["stopped by a guard"] == (
        "driver at t = 1.000 s, the first of 3 stops, together for 2.500 s: why"
    )


def test_the_summary_says_that_a_guard_limited_commands(make_plan: Callable[..., Plan], domain: int) -> None:
    limited = "t = 1.000 s: position 2 of elbow becomes 1 (limit: upper)"
    last = Status(node="driver", counters={"clamps": 12}, limited=limited)
    with Registry(domain) as registry:
        launch = Launch(make_plan(), cast("Any", Silent(last)), Display(None), 0.0, registry)
        launch.results._names.append("driver")
        launch.results.gather(0.0, None)
    assert dict(launch.results.summary.lines())["limited by a guard"] == f"driver 12 values; the latest: {limited}"


def ended(results: RunResults, *stops: GuardStops, emergency: str = "") -> tuple[int, str]:
    """Exit code and last line of a launch whose driver reports these stops, 10 s after its end."""
    results._ended_at = time.monotonic() - 10.0
    results.summary.emergency_stop = emergency
    for each in stops:
        results._note_guard("driver", each)
    results.finish(None, 0)
    return results.summary.exit_code, results.summary.ended


def test_a_launch_whose_robot_is_stopped_at_the_end_has_failed(make_plan: Callable[..., Plan], domain: int) -> None:
    def made() -> RunResults:
        return Launch(make_plan(), cast("Any", Asked()), Display(None), 0.0, Registry(0)).results

    held = GuardStops(count=1, stopped_s=2.0, latest_s=2.0, first_time=0.5, first_reason="why", reason="why")
    line = "the guard of 'driver' stopped the robot at t = 0.500 s for 2.000 s, still stopped at the end: why"
    assert ended(made(), held) == (1, line)
    acknowledged = msgspec.structs.replace(held, reason="")
    assert ended(made(), acknowledged) == (0, "")
    idle = msgspec.structs.replace(acknowledged, idle=True)
    assert ended(made(), idle)[0] == 1
    assert "acknowledged, but no command was passed on afterwards" in ended(made(), idle)[1]
    bare = msgspec.structs.replace(held, by="estop")
    assert ended(made(), bare)[1].startswith("the emergency stop of 'driver' stopped the robot at t = 0.500 s")
    released = "the emergency stop of the simulation was not released: a test"
    assert ended(made(), emergency="a test") == (1, released)
    assert dict(made().summary.lines()).keys().isdisjoint({"emergency stop", "stopped by a guard"})


def test_a_stop_because_the_run_has_ended_is_no_failure(make_plan: Callable[..., Plan], domain: int) -> None:
    def made() -> RunResults:
        return Launch(make_plan(), cast("Any", Asked()), Display(None), 0.0, Registry(0)).results

    silent = GuardStops(count=1, stopped_s=9.0, latest_s=9.0, first_reason="no command", reason="no command")
    results = made()
    assert ended(results, silent) == (0, "")
    assert results.summary.guard_stops == {}
    early = GuardStops(count=1, stopped_s=11.0, latest_s=11.0, first_reason="no command", reason="no command")
    assert ended(made(), early)[0] == 1
    knows_time = GuardStops(count=1, first_time=2.0, first_reason="no command", reason="no command")
    assert ended(made(), knows_time) == (0, "")


def test_a_line_about_a_node_whose_guard_has_stopped_the_robot_has_the_cause(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Display(duration_s=None) as display:
        display.update(
            1.0, [SIM._replace(name="driver", state="ready", detail="guard stopped: too fast", is_reason=True)]
        )
    assert capsys.readouterr().err == "[launch] t = 1.0 s: driver guard stopped: too fast\n"
