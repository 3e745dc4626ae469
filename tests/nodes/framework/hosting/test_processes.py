"""Whole runs over sockets, each node a process: realtime, fast and lockstep, services, failures, restarts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from nodes.framework.launching.process import print_warnings_plainly
from nodes.framework.plan.launch_plan import Plan
from nodes.framework.transport.registry import Registry, is_alive
from nodes.framework.transport.service import ServiceError
from sim_core.errors import StabilityWarning

MakePlan = Callable[..., Plan]
Until = Callable[..., Any]


def test_a_controller_steers_the_robot_in_realtime(make_plan: MakePlan, run: Any) -> None:
    running = run(make_plan("Damp", "Keep", mode="realtime", duration_s=1.0, watchdog_ms=500.0))
    assert running.status()["tick"] == 0  # it waits for resume
    running.call("sim", "resume")
    status = running.until(state="stopped")
    assert status["tick"] == 1000
    assert status["commanded_by"] == "damp"
    assert status["frames_refused"] == 0
    assert 0.0 < status["round_trip_p50_s"] < 0.5
    assert 0.0 < status["real_time_factor"] <= 1.01
    assert running.call("damp", "status")["counters"]["received"] > 500
    assert running.call("keep", "status")["counters"]["lost"] == 0
    for name in ("damp", "keep", "sim"):
        running.call(name, "shutdown")
    assert [process.wait(5.0) for process in running.processes.values()] == [0, 0, 0]
    assert running.client.nodes() == []


def test_our_own_warnings_are_one_line_each_without_a_place_in_the_code(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        print_warnings_plainly()
        for step in (5, 5, 6):
            warnings.warn(f"the step asked for is {step} ms", StabilityWarning, stacklevel=1)
    assert capsys.readouterr().err == ("warning: the step asked for is 5 ms\nwarning: the step asked for is 6 ms\n")


def test_pause_step_speed_reset_snapshot_and_restore(make_plan: MakePlan, run: Any, until: Until) -> None:
    running = run(make_plan(mode="realtime"))
    assert running.call("sim", "step", n=5) == {"tick": 5, "time": pytest.approx(0.005)}
    snapshot = running.call("sim", "snapshot")
    running.call("sim", "speed", x=20.0)
    running.call("sim", "resume")
    until(lambda: running.status()["time"] > 0.5)
    running.call("sim", "pause")
    status = running.status()
    assert status["state"] == "paused"
    assert status["speed"] == 20.0
    assert status["real_time_factor"] > 1.0
    assert running.status()["tick"] == status["tick"]
    running.call("sim", "restore", state=snapshot)
    assert running.status()["tick"] == 5
    running.call("sim", "reset")
    assert running.status()["time"] == 0.0
    assert running.call("sim", "describe")["robot"] == "rotary_pendulum"
    with pytest.raises(ServiceError, match="no service 'fly'"):
        running.call("sim", "fly")


def test_the_slowest_and_the_fastest_run_answer_their_services(make_plan: MakePlan, run: Any, until: Until) -> None:
    running = run(make_plan(mode="realtime", step_ms=10.0))
    running.call("sim", "speed", x=1e-3)  # a step in 10 s
    running.call("sim", "resume")
    assert running.status()["tick"] == 0
    running.call("sim", "speed", x=1e3)
    until(lambda: running.status()["tick"] > 1000)
    with pytest.raises(ServiceError, match="1000"):
        running.call("sim", "speed", x=1e308)


def test_a_stopped_listener_does_not_hold_up_the_server(make_plan: MakePlan, run: Any, until: Until) -> None:
    running = run(make_plan("Keep", mode="realtime"))
    running.call("sim", "resume")
    until(lambda: running.status()["tick"] > 50)
    os.kill(running.processes["keep"].pid, signal.SIGSTOP)
    before = running.status()
    until(lambda: running.status()["tick"] > before["tick"] + 1000)  # a server that waited would not come that far
    os.kill(running.processes["keep"].pid, signal.SIGCONT)
    # all of it was queued, or the gap is counted: nothing is missing silently
    until(lambda: running.call("keep", "status")["counters"]["received"] > 1000)


def test_a_controller_that_was_stopped_answers_no_old_states(make_plan: MakePlan, run: Any, until: Until) -> None:
    running = run(make_plan("Damp", mode="realtime", watchdog_ms=200.0))
    running.call("sim", "resume")
    until(lambda: running.status()["commanded_by"] == "damp")
    os.kill(running.processes["damp"].pid, signal.SIGSTOP)
    before = until(lambda: (found := running.status())["state"] == "safe" and found)
    until(lambda: running.status()["tick"] > before["tick"] + 1500)
    os.kill(running.processes["damp"].pid, signal.SIGCONT)
    after = until(lambda: (found := running.status())["state"] == "running" and found)
    for refused in after["commands_refused"].values():  # what it answered before it saw how late it was
        assert "replies to a state" in refused["reason"]

    def left_out() -> int:
        """States that were not answered, and old answers that were not followed."""
        lost: int = running.call("damp", "status")["counters"]["lost"]
        refused: int = running.status()["commands_refused"].get("damp", {"count": 0})["count"]
        return lost and lost + refused

    until(lambda: left_out() > 1000)


def test_a_silent_controller_leaves_the_robot_in_safe_mode(make_plan: MakePlan, run: Any, until: Until) -> None:
    running = run(make_plan("OneShot", mode="realtime", watchdog_ms=50.0))
    running.call("sim", "resume")
    status = until(lambda: (found := running.status())["state"] == "safe" and found)
    assert status["watchdog_trips"] == 1


def test_fast_is_faster_and_its_recorder_hears_every_state(make_plan: MakePlan, run: Any) -> None:
    running = run(make_plan("Damp", "Keep", mode="fast", duration_s=3.0))
    running.call("sim", "resume")
    running.until(state="stopped")
    heard = running.call("keep", "dump")
    assert [seq for topic, seq, _ in heard if topic.endswith("/state")] == list(range(1, 3002))
    assert running.call("damp", "status")["counters"]["received"] > 0


def test_lockstep_waits_for_every_node_of_the_plan(make_plan: MakePlan, run: Any, until: Until) -> None:
    running = run(make_plan("Damp", mode="lockstep", duration_s=0.05), start=False)
    running.start("sim")
    with pytest.raises(ServiceError, match=r"missing nodes \(damp\)"):
        running.call("sim", "resume")
    running.start("damp")

    def resumes() -> bool:
        try:
            running.call("sim", "resume")
        except ServiceError:
            return False
        return True

    until(resumes)
    assert running.until(state="stopped")["tick"] == 50


def test_a_broken_node_ends_with_its_traceback_and_lockstep_names_it(make_plan: MakePlan, run: Any) -> None:
    running = run(make_plan("Broken", mode="lockstep", deadline_ms=300.0))
    running.call("sim", "resume")
    error = running.processes["broken"].communicate(timeout=10.0)[1]
    assert running.processes["broken"].returncode == 1
    assert error.splitlines()[-1] == "RuntimeError: the node is broken"
    assert "small_nodes.py" in error
    assert "runner.py" not in error  # the frames that lead to a node are of no use to its writer
    assert "Traceback" in error
    error = running.processes["sim"].communicate(timeout=10.0)[1]
    assert running.processes["sim"].returncode == 1
    assert (
        error.splitlines()[-1]
        == "error: node 'broken' did not reply to turn 1 within 300 ms (deadline_ms): it ended or is too slow"
    )


def test_links_outlive_a_restarted_registry(make_plan: MakePlan, run: Any, until: Until) -> None:
    running = run(make_plan("Damp", mode="realtime"))
    running.call("sim", "resume")
    until(lambda: running.status()["commanded_by"] == "damp")
    commands = running.call("damp", "status")["counters"]["sent"]
    running.registry.close()
    until(lambda: running.call("damp", "status")["counters"]["sent"] > commands + 50)
    running.registry = Registry(running.plan.domain)
    running.registry.__enter__()
    until(lambda: {entry.name for entry in running.client.nodes()} == {"sim", "damp"})
    counters = running.call("damp", "status")["counters"]
    until(lambda: running.call("damp", "status")["counters"]["sent"] > counters["sent"] + 50)
    assert counters["lost"] == 0


def test_a_restarted_controller_takes_over(make_plan: MakePlan, run: Any, until: Until) -> None:
    running = run(make_plan("Damp", mode="realtime"))
    running.call("sim", "resume")
    until(lambda: running.status()["commanded_by"] == "damp")
    os.kill(running.processes["damp"].pid, signal.SIGKILL)
    until(lambda: running.status()["commanded_by"] is None)
    running.processes["damp"].communicate()
    running.start("damp")
    until(lambda: running.status()["commanded_by"] == "damp")
    assert running.entry("damp").generation == 2


def test_ctrl_c_and_sigterm_end_a_process_in_order(make_plan: MakePlan, run: Any) -> None:
    running = run(make_plan("Damp", mode="realtime"))
    running.call("sim", "resume")
    os.kill(running.processes["damp"].pid, signal.SIGINT)
    os.kill(running.processes["sim"].pid, signal.SIGTERM)
    assert [running.processes[name].wait(5.0) for name in ("damp", "sim")] == [0, 0]
    assert running.client.nodes() == []


def test_parameters_are_read_and_refused_in_a_line(make_plan: MakePlan, run: Any) -> None:
    running = run(make_plan("Damp", mode="realtime"))
    assert running.call("damp", "get_parameters") == {}
    with pytest.raises(ServiceError, match="unknown key 'gain'"):
        running.call("damp", "set_parameters", gain=1.0)
    with pytest.raises(ServiceError, match="no service 'dance'"):
        running.call("damp", "dance")


def test_what_is_not_there_ends_with_one_line_and_code_2(make_plan: MakePlan, run: Any) -> None:
    running = run(make_plan("Damp", mode="realtime"), start=False)
    for arguments, says in (
        (["--plan", str(running.file), "--node", "elbow"], "no node 'elbow'"),
        (["--plan", "/nowhere.json", "--node", "sim"], "not a saved plan"),
    ):
        command = [sys.executable, "-P", "-m", "nodes.framework.launching.process", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert says in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_no_process_outlives_the_one_that_started_it(make_plan: MakePlan, run: Any, until: Until) -> None:
    running = run(make_plan("Damp", mode="realtime"), start=False)
    command = [
        sys.executable,
        "-P",
        "-m",
        "nodes.framework.launching.process",
        "--plan",
        str(running.file),
        "--node",
        "damp",
    ]
    code = f"import subprocess; subprocess.run({command!r})"
    parent = subprocess.Popen([sys.executable, "-c", code])
    entry = until(lambda: running.entry("damp"), 20.0)
    parent.kill()
    parent.wait()
    until(lambda: not is_alive(entry.pid))
