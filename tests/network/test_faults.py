"""What a network does to a launch that spans computers, each survived: nothing dies, nothing on disk is lost."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nodes.framework.client import read_recording

ROOT = Path(__file__).resolve().parents[2]
LAUNCH_FILE = ROOT / "launch/hil_controller.toml"
STRANGER = Path(__file__).with_name("stranger.py")
MOST_OF_THE_SERVER = 0.05

WaitFor = Callable[..., Any]


def begin(hosts: Any, *options: str) -> None:
    """The launch on both hosts, until it runs."""
    hosts.there = hosts.robot.start("launch", LAUNCH_FILE, *hosts.settings(), *options, "--host", "robot")
    hosts.here = hosts.desk.start("launch", LAUNCH_FILE, *hosts.settings(), *options, "--json", "summary.json")
    hosts.here.says("sim running")


def end(hosts: Any) -> dict[str, Any]:
    """Ctrl-C at the server; the summary. The other host ends with it."""
    assert hosts.here.stop() == 130, hosts.here.output
    assert hosts.there.end() == 0, hosts.there.output
    summary: dict[str, Any] = json.loads((hosts.desk.work / "summary.json").read_text())
    return summary


def commands(hosts: Any) -> int:
    """Commands of the controller on the other host that were taken."""
    return int(hosts.desk.sim()["commands_taken"].get("swing_up", 0))


def takes_more(hosts: Any, wait_for: WaitFor, more: int = 200) -> None:
    """Wait until the simulation has taken so many more commands."""
    before = commands(hosts)
    wait_for(lambda: commands(hosts) > before + more)


def test_a_link_that_was_down_for_two_seconds_joins_again(hosts: Any, wait_for: WaitFor) -> None:
    begin(hosts)
    takes_more(hosts, wait_for, 1000)
    hosts.down()
    wait_for(lambda: hosts.desk.sim()["state"] == "safe")
    cut_at = hosts.desk.sim()["time"]
    wait_for(lambda: hosts.desk.sim()["time"] > cut_at + 2.0)
    hosts.up()
    wait_for(lambda: hosts.desk.sim()["state"] == "running")
    takes_more(hosts, wait_for)
    summary = end(hosts)
    assert summary["watchdog_trips"] >= 1
    recording = read_recording(hosts.desk.work / "hil_controller.mcap")
    assert not recording.cut_off
    assert {hole.cause for hole in recording.holes} <= {"lost"}  # while the link was down
    seq = recording["rotary_pendulum/state"]["seq"]
    # what the recorder lost on its own host is counted, and the rest is there
    assert len(seq) + summary["nodes"]["recorder"]["lost"] >= seq[-1] - seq[0] + 1
    events = recording["rotary_pendulum/event"]
    assert "safe" in list(events["kind"])


def test_five_percent_loss_with_20_ms_jitter_is_late_and_loses_but_lives(hosts: Any, wait_for: WaitFor) -> None:
    hosts.delay(20.0, 20.0)
    hosts.loss(5.0)
    before = [host.bytes() for host in hosts]
    begin(hosts, "--set", "sim.watchdog_ms=500")
    takes_more(hosts, wait_for, 2000)
    delay = hosts.robot.json("topic", "delay", "rotary_pendulum/state", "--duration", "3")
    assert 0.01 < delay["p50_s"] < 1.0  # late, but nothing waits in queues for good
    assert not hosts.there.process.poll()
    summary = end(hosts)
    assert summary["refused_commands"] == {}
    for host, (received, _) in zip(hosts, before, strict=True):
        assert host.bytes()[0] - received > 100_000  # it all went over the real link
    drops = hosts.robot.tool("nft", "list", "ruleset")
    assert "packets 0 " not in drops


def test_a_server_that_is_started_anew_finds_its_nodes_on_the_other_host(hosts: Any, wait_for: WaitFor) -> None:
    begin(hosts)
    takes_more(hosts, wait_for)
    pid = {node["name"]: node["pid"] for node in hosts.robot.json("node", "list")}["swing_up"]
    os.killpg(hosts.here.process.pid, signal.SIGKILL)
    hosts.here.end()
    hosts.there.says("no message from host 'desk'")
    hosts.here = hosts.desk.start("launch", LAUNCH_FILE, *hosts.settings(), "--json", "summary.json")
    hosts.there.says("host 'desk' is back")
    hosts.here.says("sim running")
    takes_more(hosts, wait_for)
    assert {node["name"]: node["pid"] for node in hosts.robot.json("node", "list")}["swing_up"] == pid
    end(hosts)


def test_a_controller_that_is_killed_is_started_again_on_its_host(hosts: Any, wait_for: WaitFor) -> None:
    begin(hosts)
    takes_more(hosts, wait_for)
    pid = {node["name"]: node["pid"] for node in hosts.robot.json("node", "list")}["swing_up"]
    os.kill(pid, signal.SIGKILL)
    hosts.there.says("restart 1 of 3")
    wait_for(lambda: hosts.desk.sim()["watchdog_trips"] >= 1)
    takes_more(hosts, wait_for)
    end(hosts)


def threads_cpu_s(pid: int) -> float:
    """Processor time of all threads of a process but its main one, which steps: what its sockets cost."""
    total = 0.0
    for task in Path(f"/proc/{pid}/task").iterdir():
        if task.name != str(pid):
            total += int((task / "schedstat").read_text().split()[0]) * 1e-9
    return total


def test_floods_of_strangers_cost_the_server_next_to_nothing(hosts: Any, wait_for: WaitFor) -> None:
    begin(hosts)
    takes_more(hosts, wait_for)
    ends = [e for node in hosts.robot.json("node", "list") if node["name"] == "sim" for e in node["endpoints"].values()]
    with hosts.desk.client() as client:
        pid = client.node("sim").pid

    def cost(during: Callable[[], None]) -> float:
        """Share of simulated time that the server's sockets took."""
        cpu, began = threads_cpu_s(pid), hosts.desk.sim()["time"]
        during()
        return (threads_cpu_s(pid) - cpu) / (hosts.desk.sim()["time"] - began)

    def quiet() -> None:
        until = hosts.desk.sim()["time"] + 4.0
        wait_for(lambda: hosts.desk.sim()["time"] > until)

    def attack(kind: str) -> Callable[[], None]:
        def run() -> None:
            stranger = hosts.robot.python(STRANGER, kind, 4, *ends)
            assert stranger.end() == 0, stranger.output
            assert json.loads(stranger.output).get("got", 0) == 0

        return run

    usual = cost(quiet)
    for kind in ("flood", "crowd"):
        before = hosts.desk.sim()["rejected_connections"]
        assert cost(attack(kind)) - usual < MOST_OF_THE_SERVER
        assert hosts.desk.sim()["rejected_connections"] > before
    hosts.here.says(f"flood of connections from {hosts.robot.address}; new connections are blocked")
    takes_more(hosts, wait_for)  # the controller's own connections, from the same address, are there all the time
    assert end(hosts)["rejected_connections"] > 50
