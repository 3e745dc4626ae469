"""Emergency stops while the link is cut, the calling process is killed or the simulation server hangs.

The driver of an emulated robot runs on one computer, with a guard in its process; its controller and the simulation
run on the other one. Whatever fails, the robot comes to its stop: by the call, or by the heartbeat of its guard.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

HEARTBEAT_MS = 500
LAUNCH = f"""
seed = 1
[hosts]
desk = "192.168.1.10"
robot = "192.168.1.20"

[sim]
robot = "arm_2dof"
mode = "realtime"
host = "desk"
step_ms = 2.0
rate_hz = 250.0
watchdog_ms = 5000

[[nodes]]
name = "trajectory"
run = "nodes/trajectory.py:Trajectory"
params = {{ joints = ["joint_2", "joint_4"], kind = "sine", amplitude_deg = 10.0, period_s = 2.0, start_s = 0.5 }}

[[nodes]]
name = "controller"
run = "nodes/controllers/position.py:JointPosition"
params = {{ joints = ["joint_2", "joint_4"] }}

[[nodes]]
name = "hardware"
run = "nodes/hardware.py:Hardware"
host = "robot"

[nodes.guard]
heartbeat_ms = {HEARTBEAT_MS}
joints.joint_2 = {{ lower = -1.0, upper = 1.0 }}
joints.joint_4 = {{ lower = -1.0, upper = 1.0 }}
"""
TRIES = '''
"""Emergency stops from this computer: one line of JSON for each try."""
import json, os, random, signal, subprocess, sys, time
from nodes.framework.client import Client
from nodes.framework.transport.registry import RegistryError
from nodes.framework.transport.service import ServiceClient, ServiceError

latest = {}  # what the latest call of `commanded` found
kinds, link = sys.argv[1].split(","), sys.argv[2:4]
random.seed(7)
CALLER = "import sys; from nodes.framework.client import Client; c = Client(0); c.nodes(); print('ready', flush=True); "
CALLER += "sys.stdin.readline(); c.estop('a test')"


def wait_for(done):
    deadline = time.monotonic() + 30.0
    while not done():
        if time.monotonic() > deadline:
            raise SystemExit(f"waited in vain: {done.__name__} in {found}, {latest}, counters {counters()}")
        time.sleep(0.005)


def cut(state):
    subprocess.run(["ip", "-n", link[0], "link", "set", link[1], state], check=True)


with Client(0) as client:
    entries = {each.name: each for each in client.nodes()}
    driver = ServiceClient(entries["hardware"].endpoints["service"])
    server = entries["sim"].pid

    def counters():
        return driver.call("status", timeout_s=20.0)["counters"]

    def commanded():
        """Whether all are released, and commands arrive without another stop.

        The driver's own count of commands does not tell: it includes those of the guard, of the stop that ends. Where
        no command has come since the release, the guard waits for no heartbeat.
        """
        global stops
        before = counters()
        stops = before["stops"]
        try:
            answers = client.estop(release=True, timeout_s=2.0)
        except RegistryError as error:  # the link is up again, but its connections are not
            latest["registry"] = str(error)
            return False
        time.sleep(0.05)
        now = counters()
        latest["answers"] = {each.node: each.error for each in answers}
        latest["passed"] = now["passed"] - before["passed"]
        answered = latest["answers"] == {"sim": "", "hardware": ""}
        return answered and now["stops"] == stops and now["passed"] > before["passed"]

    for kind in kinds:
        found = {"kind": kind}
        wait_for(commanded)

        def stopped():
            return counters()["stops"] > stops

        began = time.monotonic()
        if kind in ("up", "hung"):
            if kind == "hung":
                os.kill(server, signal.SIGSTOP)
            answers = {each.node: each for each in client.estop("a test", timeout_s=5.0 if kind == "hung" else 20.0)}
            if kind == "hung":
                os.kill(server, signal.SIGCONT)
            found["error"] = {name: each.error for name, each in answers.items()}
            found["ms"] = {name: each.ms for name, each in answers.items()}
        elif kind == "killed":
            caller = subprocess.Popen([sys.executable, "-c", CALLER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            caller.stdout.readline()
            caller.stdin.write(b"\\n")
            caller.stdin.flush()
            time.sleep(random.uniform(0.0, 0.02))
            caller.kill()
            caller.wait()
            time.sleep(0.05)
            found["reached"] = {"hardware": stopped(), "sim": client.sim_status()["state"] == "safe"}
            answers = {each.node: each for each in client.estop("called again", timeout_s=20.0)}
            found["error"] = {name: each.error for name, each in answers.items()}
        elif kind == "cut":
            cut("down")
        elif kind == "hung alone":
            os.kill(server, signal.SIGSTOP)
        wait_for(stopped)
        found["stopped_ms"] = 1e3 * (time.monotonic() - began)
        if kind == "cut":
            cut("up")
        elif kind == "hung alone":
            os.kill(server, signal.SIGCONT)
        print(json.dumps(found), flush=True)
'''
KINDS = ("up", "hung", "killed", "cut", "hung alone")


def tries(hosts: Any, folder: Path, kinds: list[str]) -> list[dict[str, Any]]:
    desk, robot = hosts
    file = folder / "guarded.toml"
    file.write_text(LAUNCH)
    robot.start("launch", file, *hosts.settings(), "--host", "robot")
    desk.start("launch", file, *hosts.settings()).says("sim running")
    program = robot.python("-c", TRIES, ",".join(kinds), desk.namespace, desk.device)
    assert program.end(30.0 + 30.0 * len(kinds)) == 0, program.output
    return [json.loads(line) for line in program.output.splitlines() if line.startswith("{")]


def require_stopped(found: list[dict[str, Any]]) -> None:
    """Fail the test where a robot did not stop by the call that reached its driver."""
    for each in found:
        kind, errors = each["kind"], each.get("error", {})
        if kind in ("up", "killed"):
            assert errors == {"sim": "", "hardware": ""}, each
        elif kind == "hung":
            assert errors["hardware"] == "", each
            assert errors["sim"] == "no answer within 5 s", each


def test_the_robot_stops_whatever_fails(hosts: Any, tmp_path: Path) -> None:
    found = tries(hosts, tmp_path, list(KINDS))
    assert [each["kind"] for each in found] == list(KINDS)
    require_stopped(found)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_in_two_hundred_tries_no_robot_goes_on(hosts: Any, tmp_path: Path) -> None:
    kinds = [("up", "up", "hung", "killed", "cut", "hung alone")[k % 6] for k in range(200)]
    found = tries(hosts, tmp_path, kinds)
    assert len(found) == len(kinds)
    require_stopped(found)
    answered = [each["ms"]["hardware"] for each in found if each["kind"] in ("up", "hung")]
    waited = [each["stopped_ms"] for each in found if each["kind"] in ("cut", "hung alone")]
    reached = Counter(tuple(each["reached"].values()) for each in found if each["kind"] == "killed")
    servers = [each["ms"]["sim"] for each in found if each["kind"] == "up"]
    timed = [(each["ms"]["hardware"], each["kind"], k) for k, each in enumerate(found) if "ms" in each]
    slowest = ", ".join(f"{ms:.1f} ms in try {k} ({kind})" for ms, kind, k in sorted(timed, reverse=True)[:3])
    print(f"slowest answers: {slowest}")
    print(f"of the server: p50 {np.quantile(servers, 0.5):.1f} ms, p99 {np.quantile(servers, 0.99):.1f} ms")
    print(
        f"answers: p50 {np.quantile(answered, 0.5):.1f} ms, p99 {np.quantile(answered, 0.99):.1f} ms; "
        f"heartbeat: at most {max(waited):.0f} ms; (driver, server) reached by killed callers: {dict(reached)}"
    )
    assert np.quantile(answered, 0.99) <= 50.0
    assert np.quantile(servers, 0.99) <= 50.0
    assert max(waited) <= 2.0 * HEARTBEAT_MS
