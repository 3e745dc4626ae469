"""The command line on a live launch: what it shows, asks, changes and records."""

from __future__ import annotations

import json
import os
import re
import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from nodes.cli.application import run
from nodes.framework.client import Client, read_recording
from nodes.framework.messages import JointReference

STATE = "rotary_pendulum/state"


@pytest.fixture
def ask(live: Any, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command line in this process on the live launch; its JSON answer."""

    def ask(*arguments: str) -> Any:
        code = run([*arguments, "--json"])
        captured = capsys.readouterr()
        assert code == 0, captured.err
        return json.loads(captured.out)

    return ask


def test_sim_status_has_the_fields_a_script_reads(ask: Any) -> None:
    status = ask("sim", "status")
    assert {"time", "speed", "real_time_factor", "overruns", "frames_refused"} <= status.keys()
    assert {"tick", "mode", "state", "peak_phi", "peak_phidot", "energy", "milestones"} <= status.keys()
    assert status["speed"] == 1.0


def test_sim_status_has_a_line_for_each_actuator_and_units(live: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sim", "status"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (load,) = [line for line in lines if line.startswith("loads ")]
    assert re.fullmatch(r"loads +arm peak [\d.e-]+ N m, rms [\d.e-]+ N m.*", load)
    (step,) = [line for line in lines if line.startswith("step_p50_s ")]
    assert step.split()[-1] in ("us", "ms", "s")
    assert not [line for line in lines if "{" in line]


def test_node_list_has_the_fields_a_script_reads(ask: Any) -> None:
    nodes = {node["name"]: node for node in ask("node", "list")}
    assert nodes.keys() == {"sim", "damper", "listener"}
    for node in nodes.values():
        assert {"name", "pid", "state", "endpoints", "lost"} <= node.keys()
        assert node["state"] in ("ready", "running")
        assert isinstance(node["lost"], int)


def test_node_list_names_a_node_that_stands_still(live: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with Client() as client:
        pid = client.node("listener").pid
    os.kill(pid, signal.SIGSTOP)
    try:
        assert run(["node", "list", "--json"]) == 0
        states = {node["name"]: (node["state"], node["silent_s"]) for node in json.loads(capsys.readouterr().out)}
        assert states["listener"][0] == "no answer"
        assert states["listener"][1] >= 1.0
        assert states["damper"] == ("ready", 0.0)
        assert run(["node", "list"]) == 0
        (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("listener ")]
        assert re.search(r"no answer for \d+ s", line)
        assert run(["node", "info", "listener"]) == 1
        assert "node 'listener' does not answer: no reply from service 'status' " in capsys.readouterr().err
    finally:
        os.kill(pid, signal.SIGCONT)
    with Client() as client:
        assert client.call("listener", "status")["state"] in ("ready", "running")


def test_node_info_has_status_and_parameters(ask: Any) -> None:
    info = ask("node", "info", "damper")
    assert info["status"]["counters"]["sent"] > 0
    assert info["parameters"]["damping"] == 1e-3


def test_node_info_leaves_out_what_is_empty(live: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["node", "info", "listener"]) == 0
    lines = capsys.readouterr().out.splitlines()
    headings = [line for line, after in pairwise(lines) if after.startswith(" ") > line.startswith(" ")]
    assert headings == ["endpoints", "status", "parameters"]
    assert all(len(line.split()) > 1 for line in lines if line not in headings)


def test_tables_are_printed_for_people(live: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["node", "list"]) == 0
    header, sim, *_ = capsys.readouterr().out.splitlines()
    assert header.split() == ["node", "pid", "state", "lost", "publishes"]
    assert sim.split()[0] == "sim"
    assert run(["topic", "list"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["rotary_pendulum/command", "JointCommand", "damper", "sim"] in rows


def test_the_simulation_is_paused_stepped_and_resumed(ask: Any) -> None:
    paused = ask("sim", "pause")
    assert paused["state"] == "paused"
    assert ask("sim", "step", "25")["tick"] == paused["tick"] + 25
    assert ask("sim", "resume")["state"] == "running"
    assert ask("sim", "status")["time"] > paused["time"]


def test_speed_is_changed_and_nonsense_refused(ask: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask("sim", "speed", "0.5")["speed"] == 0.5
    assert ask("sim", "speed", "1")["speed"] == 1.0
    assert run(["sim", "speed", "nan"]) == 2
    assert "expected a positive number" in capsys.readouterr().err


def test_a_snapshot_is_restored_from_its_file(ask: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask("sim", "pause")
    file = str(tmp_path / "here.state")
    assert ask("sim", "snapshot", file)["size_bytes"] > 0
    assert run(["sim", "snapshot", file]) == 2
    assert capsys.readouterr().err == f"armswing: {file!r} exists; pass --force to replace it\n"
    assert ask("sim", "snapshot", file, "--force")["size_bytes"] > 0
    there = ask("sim", "status")
    ask("sim", "reset")
    assert ask("sim", "status")["tick"] == 0
    back = ask("sim", "restore", file)
    assert (back["tick"], back["energy"]) == (there["tick"], there["energy"])
    ask("sim", "resume")


def test_parameters_are_listed_read_and_changed(ask: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask("param", "list", "damper").keys() == {"damping", "joint", "mode", "fails_at", "not_finite_at"}
    everyone = ask("param", "list")
    assert everyone["damper"] == ask("param", "list", "damper")
    assert run(["param", "list"]) == 0
    assert f"damper damping = {everyone['damper']['damping']}" in capsys.readouterr().out.splitlines()
    assert ask("param", "set", "damper", "damping", "-0.002")["damping"] == -0.002
    assert ask("param", "set", "damper", "damping", "0.002")["damping"] == 0.002
    assert run(["param", "set", "damper", "damping", "nan"]) == 2
    assert capsys.readouterr().err.endswith("key 'damping' is nan; it must be a finite number\n")
    assert run(["param", "set", "damper", "damping", "5"]) == 2
    refused = "node 'damper': params: damping is 5; rotary_pendulum takes 1 N m s/rad at most\n"
    assert capsys.readouterr().err.endswith(refused)
    assert ask("param", "get", "damper", "damping") == 0.002
    assert run(["param", "set", "damper", "damp", "1"]) == 2
    assert "node 'damper' has no parameter 'damp'; its parameters are damping" in capsys.readouterr().err
    assert run(["param", "set", "damper", "damping", "much"]) == 2
    assert "damping" in capsys.readouterr().err


def test_a_topic_is_echoed(live: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topic", "echo", STATE, "-n", "2", "--json"]) == 0
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert second["seq"] == first["seq"] + 1
    assert run(["topic", "echo", STATE, "-n", "1", "--field", "name"]) == 0
    assert capsys.readouterr().out == "name: ['arm', 'pendulum']\n---\n"
    assert run(["topic", "echo", STATE, "--field", "torque"]) == 2
    assert "has no field 'torque'" in capsys.readouterr().err


def test_a_mistyped_topic_is_named_with_the_nearest_and_those_there_are(
    live: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["topic", "echo", "rotary_pendulum/stat"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("armswing: no topic 'rotary_pendulum/stat'; topics are ")
    assert "rotary_pendulum/body_poses, " in err
    assert err.endswith("; did you mean 'rotary_pendulum/state'?\n")
    assert run(["topic", "hz", "rotary_pendulm/state", "--timeout", "0.3"]) == 1
    err = capsys.readouterr().err
    assert err.startswith(
        "no node publishes 'rotary_pendulm/state'; the live robot publishes 'rotary_pendulum/state'; waiting 0.3 s\n"
    )
    assert "no node publishes it; did you mean 'rotary_pendulum/state'?" in err


def test_a_command_that_the_simulation_refuses_is_said_so(ask: Any, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["topic", "pub", "rotary_pendulum/command", '{"name": ["arm"], "value": [0.0]}', "-n", "2"]
    assert run(command) == 1
    captured = capsys.readouterr()
    assert captured.out.endswith(" at 50 Hz 2 times; sim subscribes\n")
    assert "the simulation rejects 'rotary_pendulum/command': 'pub_" in captured.err
    assert captured.err.endswith("commands, but 'damper' has the actuators\n")
    assert "'damper' has the actuators" in ask("sim", "status")["last_refusal"]
    assert run([*command[:2], "rotary_pendulm/command", *command[3:]]) == 2
    assert "did you mean 'rotary_pendulum/command'" in capsys.readouterr().err


def test_events_of_every_node_are_echoed_not_only_the_servers(live: Any, until: Any, ask: Any) -> None:
    echo = live.start("topic", "echo", "rotary_pendulum/event", "-n", "1", "--json", "--timeout", "60")
    values = iter(range(1, 10**6))
    until(lambda: ask("param", "set", "damper", "damping", str(1e-6 * next(values))) and echo.poll() is not None)
    out, err = echo.communicate()
    said = json.loads(out)
    assert (said["kind"], said["node"], said["key"]) == ("set", "damper", "damping"), err
    ask("param", "set", "damper", "damping", "0.001")


def test_a_silent_topic_is_said_so(live: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topic", "echo", "rotary_pendulum/reference", "--timeout", "0.3"]) == 1
    assert "no message on 'rotary_pendulum/reference' within 0.3 s" in capsys.readouterr().err


def test_a_topic_is_measured(ask: Any) -> None:
    rate = ask("topic", "hz", STATE, "--duration", "0.5")
    assert rate["messages"] > 10
    assert rate["period_min_s"] <= 1.0 / rate["rate_hz"] <= rate["period_max_s"]
    assert ask("topic", "bw", STATE, "--duration", "0.3")["mean_bytes"] > 50
    assert ask("topic", "delay", STATE, "--duration", "0.3")["p50_s"] > 0.0


def test_a_message_is_said_from_the_command_line(live: Any) -> None:
    topic = "rotary_pendulum/reference"
    speaker = live.start("topic", "pub", topic, '{"name": ["arm"], "position": [0.5]}', "-n", "30", "--rate", "60")
    with Client() as client:
        began = client.sim_status()["time"]
        _, message = next(client.stream(topic, timeout_s=20.0))
        ended = client.sim_status()["time"]
    assert isinstance(message, JointReference)
    assert (message.name, message.position) == (["arm"], [0.5])
    assert began <= message.timestamp <= ended  # of the state heard last, and no zero
    out, err = speaker.communicate(timeout=20.0)
    assert (out.splitlines()[-1], err) == (f"published 30 messages on {topic}", "")


def test_a_node_runs_beside_a_launch_until_it_is_interrupted(live: Any, until: Any) -> None:
    runner = live.start("run", "my_nodes.py:Listener", "--name", "guest")
    with Client() as client:
        until(lambda: [e.state for e in client.nodes() if e.name == "guest"] == ["ready"])
        runner.send_signal(signal.SIGINT)
        assert runner.wait(5.0) == 0
        until(lambda: "guest" not in [e.name for e in client.nodes()])


def test_a_recording_is_made_described_exported_and_played(live: Any, until: Any, ask: Any, tmp_path: Path) -> None:
    file = tmp_path / "run.mcap"
    recorder = live.start("record", "-o", file)
    with Client() as client:
        until(lambda: "record" in [e.name for e in client.nodes()])
        until(lambda: client.call("record", "recording")["frames_written"] > 300)
        before = ask("param", "get", "damper", "damping"), ask("param", "get", "sim", "arm_damping")
        ask("param", "set", "damper", "damping", "0.003")
        ask("param", "set", "sim", "arm_damping", "0.002")
        second = live.start("record", "-o", tmp_path / "second.mcap")
        until(lambda: "record_2" in [e.name for e in client.nodes()])
        second.send_signal(signal.SIGINT)
        frames = client.call("record", "recording")["frames_written"]
        until(lambda: client.call("record", "recording")["frames_written"] > frames + 100)
    recorder.send_signal(signal.SIGINT)
    out, _ = recorder.communicate(timeout=5.0)
    assert recorder.returncode == 0
    info = ask("info", str(file))
    assert out == (
        f"recording to {file}, Ctrl-C ends\nwrote {file}: {info['messages']} messages, {info['size_bytes']} B\n"
    )
    assert not info["truncated"]
    sets = {(e["node"], e["key"], float(e["old"]), e["new"]) for e in info["events"] if e["kind"] == "set"}
    assert sets == {("damper", "damping", before[0], "0.003"), ("sim", "arm_damping", before[1], "0.002")}
    assert info["metadata"]["recorded_by"].startswith("hand")
    plan = json.loads(info["metadata"]["plan"])
    assert [(node["name"], node["run"]) for node in plan["nodes"]] == [
        ("damper", "my_nodes.py:Damper"),
        ("listener", "my_nodes.py:Listener"),
    ]
    again = live.run("record", "-o", file)
    assert (again.returncode, again.stderr) == (
        2,
        f"armswing: --output '{file}' exists; pass --force to replace it\n",
    )
    assert {STATE, "rotary_pendulum/description"} <= {row["topic"] for row in info["topics"]}
    assert len(read_recording(file)[STATE]["position"]) > 30
    tables = ask("export", str(file), "--csv", str(tmp_path / "csv"))
    assert {Path(table).suffix for table in tables} == {".csv"}

    refused = live.run("play", file)
    assert refused.returncode == 2
    assert "node 'sim' already publishes robot 'rotary_pendulum'" in refused.stderr
    player = live.start("play", file, "--domain", "1", "--speed", "0.2")
    until(lambda: (live.runtime / "armswing" / "1" / "registry").exists())
    with Client(1) as client:
        _, state = next(client.stream(STATE, timeout_s=20.0))
    assert state.timestamp > 0.0
    assert player.wait(30.0) == 0  # it ends by itself
