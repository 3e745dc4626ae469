"""A launch with real processes: how it begins, fails, and ends, and that nothing of it is left."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest


def test_a_run_of_known_length_ends_with_a_summary_and_exit_code_0(ground: Any) -> None:
    plan = ground.launch_file(ground.node("Damper"))
    done = ground.run("launch", plan, "--duration", "1", "--json", "summary.json")
    assert done.returncode == 0, done.stderr
    for text in ("rotary_pendulum, realtime", "first state after", "real-time factor", "peak violation"):
        assert text in done.stdout
    assert re.search(r"messages lost +sim \d+, damper \d+", done.stdout)
    summary = json.loads((ground.folder / "summary.json").read_text())
    assert summary["exit_code"] == 0
    assert 0.95 < summary["time"] < 2.0
    assert summary["tick"] == round(200 * summary["time"])
    assert summary["first_state_s"] > 0.0
    assert summary["nodes"].keys() == {"sim", "damper"}


@pytest.mark.parametrize("mode", ["realtime", "lockstep"])
def test_a_controller_that_says_nothing_and_one_that_is_only_refused_are_told_at_the_end(
    mode: str, ground: Any
) -> None:
    wrong = {"lockstep": "joint", "realtime": "mode"}[mode]
    told_of_wrong = {
        "joint": r"ended +every command of 'damper' was rejected: .*has no actuator 'postion'; .*, exit code 1",
        "mode": r"ended +every command of 'damper' was rejected: mode is 'postion'; "
        r"it must be one of effort, velocity, position; did you mean 'position'\?, exit code 1",
    }
    for nodes, code, told in (
        (ground.node("Thinker"), 0, r"published nothing +thinker, which received \d\d+ messages"),
        (ground.node("Damper", more=f'params = {{ {wrong} = "postion" }}'), 1, told_of_wrong[wrong]),
        (
            ground.node("Damper", more="params = { not_finite_at = 0.2 }"),
            1,
            r"ended +commands of 'damper' were rejected: value is not finite: entry 0 is nan; .*, exit code 1",
        ),
    ):
        done = ground.run("launch", ground.launch_file(nodes, mode=mode, more="duration_s = 0.5\n"))
        assert done.returncode == code, done.stdout
        assert re.search(told, done.stdout), done.stdout


@pytest.mark.parametrize("mode", ["fast", "lockstep"])
def test_a_run_without_pacing_ends_at_its_duration(mode: str, ground: Any) -> None:
    plan = ground.launch_file(ground.node("Damper"), mode=mode, more="duration_s = 0.5\n")
    done = ground.run("launch", plan, "--json", "summary.json")
    assert done.returncode == 0, done.stderr
    summary = json.loads((ground.folder / "summary.json").read_text())
    assert summary["tick"] == 100


@pytest.mark.parametrize(
    ("node", "sim", "text"),
    [
        ("params = { dampin = 2.0 }", "", "node 'damper': params: unknown key 'dampin'; did you mean 'damping'?"),
        ('restrt = "never"', "", "node 'damper': unknown key 'restrt'; did you mean 'restart'?"),
        ("", "step_sm = 1.0", "[sim]: unknown key 'step_sm'; did you mean 'step_ms'?"),
    ],
)
def test_a_typo_is_named_with_file_node_and_key_before_any_process(node: str, sim: str, text: str, ground: Any) -> None:
    plan = ground.launch_file(f"{sim}\n" + ground.node("Damper", more=node))
    done = ground.run("launch", plan)
    assert done.returncode == 2
    assert re.match(rf"armswing: {re.escape(str(plan))}:\d+: {re.escape(text)}", done.stderr)
    assert done.stderr.count("\n") == 1
    assert not list(ground.runtime.rglob("*.log"))  # no process was ever given one


def test_ctrl_c_ends_all_within_five_seconds(ground: Any, are_gone: Any) -> None:
    launch = ground.start("launch", ground.launch_file(ground.node("Damper") + ground.node("Listener")))
    children = ground.wait_until_running(launch, 3)
    launch.send_signal(signal.SIGINT)
    launch.send_signal(signal.SIGINT)  # as timeout does: to the process, and to its group
    out, err = launch.communicate(timeout=5.0)
    assert are_gone(children, 0.1)
    assert launch.returncode == 130
    assert "real-time factor" in out
    assert "SIG" not in err  # everybody ended when asked
    assert not list(ground.runtime.rglob("*.data"))  # sockets are gone with their owners


def test_a_stopped_node_does_not_keep_sigterm_from_ending_all(ground: Any, are_gone: Any) -> None:
    launch = ground.start("launch", ground.launch_file(ground.node("Listener")))
    children = ground.wait_until_running(launch, 2)
    children[-1].suspend()
    launch.send_signal(signal.SIGTERM)
    _, err = launch.communicate(timeout=5.0)
    assert are_gone(children, 0.1)
    assert launch.returncode == 143
    assert "SIGKILL" in err
    left = [path.name for path in ground.runtime.rglob("*") if path.is_socket() or path.suffix == ".lock"]
    assert left == []  # what the killed one held is removed for it


def test_killing_the_launch_leaves_no_child_and_a_free_domain(ground: Any, are_gone: Any) -> None:
    plan = ground.launch_file(ground.node("Damper"))
    launch = ground.start("launch", plan)
    children = ground.wait_until_running(launch, 2)
    launch.kill()
    assert are_gone(children, 5.0)
    again = ground.run("launch", plan, "--duration", "0.2")
    assert again.returncode == 0, again.stderr


def test_killing_the_launch_while_it_starts_leaves_no_child(ground: Any, are_gone: Any, until: Any) -> None:
    launch = ground.start("launch", ground.launch_file(ground.node("Damper")))
    process = psutil.Process(launch.pid)
    until(lambda: len(process.children(recursive=True)) == 3)  # with the fork server
    children = process.children(recursive=True)
    launch.kill()
    assert are_gone(children, 5.0)


def test_a_node_that_raises_gives_its_exit_code_and_its_traceback(ground: Any) -> None:
    plan = ground.launch_file(ground.node("Damper", more="params = { fails_at = 0.3 }"))
    done = ground.run("launch", plan, "--duration", "30")
    assert done.returncode == 1
    assert "node 'damper' failed, exit code 1" in done.stderr
    assert "Traceback (most recent call last)" in done.stderr
    assert "RuntimeError: the damper is on fire" in done.stderr
    ended = next(line for line in done.stdout.splitlines() if line.strip().startswith("ended"))
    assert "node 'damper' failed: RuntimeError: the damper is on fire, exit code 1" in ended
    assert "node 'damper' failed" in done.stdout


def test_a_node_that_raises_just_before_the_end_of_a_fast_run_gives_its_exit_code(ground: Any) -> None:
    """The run takes less time than the end of the node's process."""
    node = ground.node("Damper", more="params = { fails_at = 0.3 }")
    done = ground.run("launch", ground.launch_file(node, mode="fast", more="duration_s = 2.0\n"))
    assert done.returncode == 1
    assert re.search(r"ended +node 'damper' failed: RuntimeError: the damper is on fire, exit code 1", done.stdout)


def test_a_viewer_that_cannot_open_is_said_so_and_the_run_goes_on(ground: Any) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        ground.environment.pop(name, None)
    done = ground.run("launch", ground.launch_file(), "--view", "--duration", "1.5")
    assert done.returncode == 0, done.stderr
    assert "[viewer] ended with exit code 3" in done.stderr


def test_a_launch_with_a_window_says_at_its_end_how_to_see_the_recording(ground: Any) -> None:
    recorder = '[[nodes]]\nname = "recorder"\nrun = "nodes/recorder.py:Recorder"\nparams = { file = "my run.mcap" }\n'
    ground.environment["QT_QPA_PLATFORM"] = "offscreen"
    done = ground.run("launch", ground.launch_file(recorder), "--view", "--duration", "0.5")
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "`armswing view 'my run.mcap'` shows the recording of this run"


def test_a_node_that_fails_at_its_start_ends_the_launch_at_once(ground: Any) -> None:
    more = 'restart = "always"\nparams = { fails_at_start = true }'
    done = ground.run("launch", ground.launch_file(ground.node("Listener", more=more)), "--duration", "30")
    assert done.returncode == 1
    assert "node 'listener' ended before it was ready" in done.stderr
    assert "RuntimeError: cannot listen today" in done.stderr


def test_a_controller_that_is_always_refused_is_told_why_in_the_summary(ground: Any) -> None:
    plan = ground.launch_file(ground.node("Damper"))
    done = ground.run("launch", plan, "--duration", "0.3", "--set", "damper.joint=amr", "--json", "summary.json")
    reason = (
        "'rotary_pendulum/command': 'rotary_pendulum' has no actuator 'amr'; its actuators are arm; did you mean 'arm'?"
    )
    assert done.returncode == 1
    assert re.search(r"ended +every command of 'damper' was rejected: .*has no actuator 'amr'; ", done.stdout)
    assert re.search(rf"messages rejected +sim \d+, the last on {re.escape(reason)}\n", done.stdout), done.stdout
    assert json.loads((ground.folder / "summary.json").read_text())["nodes"]["sim"]["last_refusal"] == reason


def test_a_launch_keeps_the_recording_before_it_and_says_where_and_one_that_never_ran_leaves_it(ground: Any) -> None:
    recorder = '[[nodes]]\nname = "recorder"\nrun = "nodes/recorder.py:Recorder"\nparams = { file = "run.mcap" }\n'
    plan = ground.launch_file(recorder + ground.node("Listener"))
    done = ground.run("launch", plan, "--duration", "0.3")
    assert re.search(r"file written +run\.mcap \([^)]*\)\n", done.stdout), done.stderr
    first = (ground.folder / "run.mcap").read_bytes()
    done = ground.run("launch", plan, "--duration", "0.3", "--set", "listener.fails_at_start=true")
    assert done.returncode == 1
    assert "file written" not in done.stdout
    assert (ground.folder / "run.mcap").read_bytes() == first
    done = ground.run("launch", plan, "--duration", "0.3")
    assert re.search(r"file written +run\.mcap \([^)]*\); the one before it is run\.before\.mcap\n", done.stdout)
    assert (ground.folder / "run.before.mcap").read_bytes() == first
    assert (ground.folder / "run.mcap").read_bytes() != first


def test_a_failed_node_is_restarted_and_counted(ground: Any, are_gone: Any, until: Any) -> None:
    plan = ground.launch_file(ground.node("Listener", more='restart = "on-failure"'))
    launch = ground.start("launch", plan, "--json", "summary.json")
    _, listener = ground.wait_until_running(launch, 2)
    listener.kill()
    assert are_gone([listener], 5.0)
    until(lambda: len(ground.nodes_of(launch)) == 2 and listener not in ground.nodes_of(launch))
    from nodes.framework.client import Client

    with Client(0) as client:
        until(lambda: [e.state for e in client.nodes() if e.name == "listener" and e.pid != listener.pid] == ["ready"])
    launch.send_signal(signal.SIGINT)
    _, err = launch.communicate(timeout=5.0)
    assert "[listener] ended with exit code 137; restart 1 of 3" in err
    summary = json.loads((ground.folder / "summary.json").read_text())
    assert summary["nodes"]["listener"]["restarts"] == 1


def test_lockstep_names_the_node_that_failed_and_restarts_nothing(ground: Any) -> None:
    more = 'restart = "on-failure"\nparams = { fails_at = 0.1 }'
    plan = ground.launch_file(ground.node("Damper", more=more), mode="lockstep")
    done = ground.run("launch", plan, "--duration", "30")
    assert done.returncode == 1
    assert "[launch] lockstep: nodes are never restarted, `restart` is ignored: damper" in done.stderr
    assert "node 'damper' failed, exit code 1" in done.stderr


def test_a_second_launch_in_a_live_domain_is_refused_in_one_line(ground: Any) -> None:
    plan = ground.launch_file()
    launch = ground.start("launch", plan)
    children = ground.wait_until_running(launch, 1)
    second = ground.run("launch", plan)
    assert second.returncode == 2
    assert second.stderr.startswith("armswing: domain 0 is live already")
    assert second.stderr.count("\n") == 1
    assert all(child.is_running() for child in children)


def test_a_missed_required_milestone_is_exit_code_1(ground: Any) -> None:
    milestone = '[[milestones]]\nname = "upright"\njoint = "pendulum"\ntarget_deg = 90.0\nhold_s = 100.0\n'
    plan = ground.launch_file(milestone)
    done = ground.run("launch", plan, "--duration", "0.3")
    assert done.returncode == 1
    assert re.search(r"upright +not reached", done.stdout)


def test_a_new_controller_runs_even_beside_folders_named_like_ours(ground: Any) -> None:
    for package in ("nodes", "robots", "sim_core"):
        Path(ground.folder, package).mkdir()
        Path(ground.folder, package, "__init__.py").write_text("raise ImportError('not ours')")
    assert ground.run("new", "controller", "my_damper").returncode == 0
    done = ground.run("launch", "my_damper.toml", "--duration", "0.3", "--set", "my_damper.damping=2e-3")
    assert done.returncode == 0, done.stderr
