"""`armswing run` beside a live launch: what it says on its terminal when it joins, is refused or fails."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from nodes.cli.application import run
from nodes.framework.client import Client
from nodes.framework.launching.joining import run_node
from nodes.framework.messages import RobotState
from nodes.framework.recording.reader import RecordingWriter
from nodes.framework.transport.domain import domain_folder
from nodes.framework.transport.registry import RegistryError

BRITTLE = """
import msgspec
from nodes.node import Node
from nodes.framework.messages import RobotState


class Burning(Node):
    subscribes = {"state": RobotState}

    def on_message(self, name, state):
        raise RuntimeError("the damper is on fire")


class Brittle(Node):
    subscribes = {"state": RobotState}

    class Params(msgspec.Struct, forbid_unknown_fields=True):
        level: int = 0

    def on_parameters(self, params):
        if params.level < 0:
            raise ValueError("level is below zero")
        if params.level > 3:
            raise RuntimeError("it broke")
"""


@pytest.fixture(scope="module", autouse=True)
def brittle(live: Any) -> None:
    (live.folder / "brittle.py").write_text(BRITTLE)


def test_a_robot_that_is_not_live_is_refused_with_the_one_that_is(live: Any) -> None:
    done = live.run("run", "my_nodes.py:Listener", "--robot", "rotary_pendulm")
    assert done.returncode == 2
    assert "joined" not in done.stdout
    line = "no robot 'rotary_pendulm' is live in domain 0; name a live robot: rotary_pendulum"
    assert done.stderr == f"armswing: {line}\n"


def test_a_taken_name_is_refused_with_the_way_out(live: Any) -> None:
    done = live.run("run", "my_nodes.py:Listener", "--name", "damper")
    assert done.returncode == 2
    assert "name 'damper' is taken by the live process " in done.stderr
    assert done.stderr.endswith("; choose another name with --name\n")


def test_an_exception_is_shown_from_the_node_on_and_then_in_one_line(live: Any) -> None:
    done = live.run("run", "brittle.py:Burning")
    assert done.returncode == 1
    first, *_, raised, last = done.stderr.splitlines()
    assert first == "Traceback (most recent call last):"
    assert "nodes/" not in done.stderr
    assert 'raise RuntimeError("the damper is on fire")' in done.stderr
    assert raised == "RuntimeError: the damper is on fire"
    assert last == "armswing: node 'burning' ended: RuntimeError: the damper is on fire"


def test_a_node_is_not_joined_whose_actuators_a_node_of_the_launch_commands(live: Any) -> None:
    done = live.run("run", "my_nodes.py:Damper", "--name", "second")
    why = "'second' commands, but 'damper' has the actuators"
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"armswing: the simulation rejects 'rotary_pendulum/command': {why}\n"
    with Client() as client:
        assert "second" not in [entry.name for entry in client.nodes()]
        assert why in client.sim_status()["last_refusal"]


def test_a_node_that_has_taken_over_says_once_on_its_own_terminal_that_its_commands_are_refused(
    ground: Any, until: Any
) -> None:
    launch = ground.start("launch", ground.launch_file())
    ground.wait_until_running(launch, 1)
    runner = ground.start("run", "my_nodes.py:Damper", "--name", "second", "--param", "mode=velocity")
    with Client() as client:

        def refused() -> int:
            return int(client.sim_status()["commands_refused"].get("second", {"count": 0})["count"])

        until(lambda: refused() > 0)
        assert client.sim_status()["granted"] == ["second"]
        count = refused()
        until(lambda: refused() > count + 400)  # two simulated seconds: it would have been told again
    runner.send_signal(signal.SIGINT)
    _, said = runner.communicate(timeout=10.0)
    why = "mode 'velocity': actuator 'arm' of 'rotary_pendulum' has no servo gains; use mode 'effort'"
    line = f"WARNING second: the simulation refuses the node's commands: {why}\n"
    assert (runner.returncode, said) == (0, line)
    launch.send_signal(signal.SIGINT)
    summary, _ = launch.communicate(timeout=20.0)
    assert "messages lost" in summary
    assert "rejected calls" not in summary  # the registration before the grant is none


def test_a_parameter_that_ends_its_node_is_said_so_at_once_and_one_it_refuses_changes_nothing(
    live: Any, until: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    runner = live.start("run", "brittle.py:Brittle")
    assert runner.stdout.readline() == (
        "brittle: joined domain 0, robot rotary_pendulum, subscribes to state, publishes nothing; Ctrl-C ends\n"
    )
    with Client() as client:
        until(lambda: [e.state for e in client.nodes() if e.name == "brittle"] == ["ready"])
    assert run(["param", "set", "brittle", "level", "-1"]) == 2
    assert capsys.readouterr().err == "armswing: level is below zero\n"
    assert run(["param", "get", "brittle", "level"]) == 0
    assert capsys.readouterr().out == "0\n"
    assert run(["param", "set", "brittle", "level", "4"]) != 0
    assert capsys.readouterr().err == "armswing: node 'brittle' ended: RuntimeError: it broke\n"
    assert runner.wait(10.0) == 1


def test_an_endless_playing_is_ended_by_ctrl_c_without_a_traceback(ground: Any, until: Any) -> None:
    file = ground.folder / "short.mcap"
    with RecordingWriter(file, {}, sidecar=None) as writer:
        for tick in range(20):
            state = RobotState(timestamp=tick / 100, seq=tick, name=["elbow"], position=[0.0], velocity=[0.0])
            writer.write("arm/state", state, state.timestamp)
    player = ground.start("play", file, "--loop")
    until(lambda: (ground.runtime / "armswing/0/registry").exists())
    with Client() as client:
        next(client.stream("arm/state", timeout_s=20.0))
    player.send_signal(signal.SIGINT)
    _, said = player.communicate(timeout=10.0)
    assert (player.returncode, "Traceback" in said) == (0, False)


@pytest.mark.parametrize("ends", [signal.SIGINT, signal.SIGKILL])
def test_a_server_that_ended_is_waited_for_and_joined_again(ends: signal.Signals, ground: Any, until: Any) -> None:
    plan = ground.launch_file()
    first = ground.start("launch", plan)
    ground.wait_until_running(first, 1)
    runner = ground.start("run", "my_nodes.py:Damper")
    line = "domain 0, robot rotary_pendulum, subscribes to state, publishes command; Ctrl-C ends\n"
    assert runner.stdout.readline() == f"damper: joined {line}"
    first.send_signal(ends)
    first.communicate(timeout=20.0)
    gone = "the simulation in domain 0 has ended or does not answer; waits for it; Ctrl-C ends\n"
    assert runner.stdout.readline() == f"damper: {gone}"
    second = ground.start("launch", plan)
    assert runner.stdout.readline() == f"damper: joined again, {line}"
    ground.wait_until_running(second, 1)
    with Client() as client:
        until(lambda: client.sim_status()["commanded_by"] == "damper")
    runner.send_signal(signal.SIGINT)
    assert runner.wait(5.0) == 0
    assert "Traceback" not in runner.stderr.read()


def test_a_node_says_that_it_waits_where_a_launch_was_killed(domain: int, node_file: Path) -> None:
    (domain_folder(domain) / "registry").touch()  # nobody subscribes there any more
    said: list[str] = []
    with pytest.raises(RegistryError, match="no launch is live"):
        run_node(f"{node_file}:OneShot", domain=domain, greet=said.append)
    assert said == [f"one_shot: waits for a launch in domain {domain}; Ctrl-C ends"]
