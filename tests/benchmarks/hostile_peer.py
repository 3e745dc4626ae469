"""The server's step while the holder of an allowed key does all the harm that it can, beside quiet runs.

    python tests/benchmarks/hostile_peer.py --pairs 10 --seconds 10 [--json FILE]

Real launches, sockets and keys on loopback: desk is 127.0.0.1, the attacker a process with the key of a colleague.
It takes the server's and a node's name, takes nodes out, ends them, and floods subscriptions: 20,000 of 500 bytes and
20,000 short ones again and again, and 50 listeners that never read. Runs are interleaved, quiet and hostile. The
attacker has a low priority: it would be on a computer of its own.

Bars: median ratio of the step's p50 at most 1.1, p99 inside the spread of the quiet runs, nothing stolen or ended.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
import psutil  # type: ignore[import-untyped]
import zmq

DOMAIN = 94
DESK = "127.0.0.1"
FLOOD, LARGE, SHORT, LISTENERS = 20_000, 500, 20, 50
READY_S, CALL_MS = 60.0, 300
BAR = 1.1
PLAN = f"""
domain = {DOMAIN}

[hosts]
desk = "{DESK}"

[sim]
robot = "rotary_pendulum"
mode = "realtime"
host = "desk"
step_ms = 1.0

[[nodes]]
name = "swing_up"
run = "nodes/controllers/swing_up.py:SwingUp"
params = {{ torque_limit = 0.05 }}
"""


class Attacker:
    """The holder of one allowed key."""

    def __init__(self, public: str, secret: str, server: str) -> None:
        self._public, self._secret, self._server = bytes.fromhex(public), bytes.fromhex(secret), bytes.fromhex(server)
        self.key = public
        self.context: Any = zmq.Context()
        self.done: dict[str, int] = {}

    def socket(self, kind: int, address: str) -> Any:
        """A socket with the key, connected."""
        made = self.context.socket(kind)
        made.linger, made.sndhwm, made.rcvhwm = 0, 2 * FLOOD, 1 if kind == zmq.SUB else 1000
        made.curve_publickey, made.curve_secretkey, made.curve_serverkey = self._public, self._secret, self._server
        made.connect(address.partition("#")[0])
        return made

    def call(self, address: str, name: str, args: dict[str, Any]) -> Any:
        """The answer to a call, None where none came."""
        caller = self.socket(zmq.DEALER, address)
        caller.send(msgspec.msgpack.encode({"id": 1, "call": name, "args": args}))
        answer = msgspec.msgpack.decode(caller.recv()) if caller.poll(CALL_MS) else None
        caller.close()
        what = "no answer" if answer is None else "granted" if answer["ok"] else "refused"
        self.done[f"{name} {what}"] = self.done.get(f"{name} {what}", 0) + 1
        return answer

    def flood(self, address: str, size: int) -> Any:
        """A socket that has so many subscriptions of so many bytes."""
        made = self.socket(zmq.XSUB, address)
        for number in range(FLOOD):
            made.send(b"\x01" + f"topic{number}".encode().ljust(size, b"x"))
            self.done["subscriptions"] = self.done.get("subscriptions", 0) + 1
        return made

    def run(self, calls: str) -> None:
        """Attack until SIGTERM."""
        nodes = self.call(calls, "nodes", {})["result"]
        kept: list[Any] = []
        for node in nodes:
            for _ in range(LISTENERS):
                kept.append(self.socket(zmq.SUB, node["remote_endpoints"]["data"]))
                kept[-1].subscribe(b"")
        floods: list[Any] = []
        while True:
            for node in nodes:
                mine = dict.fromkeys(node["remote_endpoints"], f"tcp://{DESK}:4000#{self.key}")
                for stolen in (
                    node,
                    {**node, "remote_endpoints": mine},
                    {**node, "remote_endpoints": mine, "host": "colleague", "pid": 1},
                ):
                    self.call(calls, "register", {**stolen, "generation": 0})
                self.call(calls, "unregister", {"name": node["name"]})
                self.call(node["remote_endpoints"]["service"], "shutdown", {})
            if len(floods) < 8:
                floods += [
                    self.flood(node["remote_endpoints"]["data"], size) for node in nodes for size in (LARGE, SHORT)
                ]
            else:
                while floods:
                    floods.pop().close()


def attack(arguments: list[str]) -> None:
    """The attacker's process: public and secret key, the server's key, the registry's address."""
    os.nice(10)
    public, secret, server, calls = arguments
    attacker = Attacker(public, secret, server)

    def ended(*_: object) -> None:
        print(json.dumps(attacker.done), flush=True)
        os._exit(0)

    signal.signal(signal.SIGTERM, ended)
    attacker.run(calls)


def run(hostile: bool, seconds: float) -> dict[str, Any]:
    """The figures of one launch."""
    with tempfile.TemporaryDirectory(prefix="hp", dir="/tmp") as name:
        folder = Path(name)
        environment = {**os.environ, "XDG_RUNTIME_DIR": name, "XDG_CONFIG_HOME": f"{name}/config"}
        environment.pop("ARMSWING_DOMAIN", None)
        os.environ.update(environment)
        from nodes.framework.client import Client, NotLiveError
        from nodes.framework.transport.security import allow_list, keys

        keys.make_key("desk")
        public, secret = (zmq.utils.z85.decode(half).hex() for half in zmq.curve_keypair())
        allow_list.allow("colleague", public)
        (folder / "plan.toml").write_text(PLAN)
        command = [sys.executable, "-P", "-m", "nodes.cli", "launch", "plan.toml", "--json", "summary.json"]
        quiet = subprocess.DEVNULL
        launch = subprocess.Popen(command, cwd=folder, env=environment, stdout=quiet, stderr=subprocess.PIPE, text=True)
        attacker: subprocess.Popen[str] | None = None
        try:
            deadline = time.monotonic() + READY_S
            while True:
                try:
                    with Client(DOMAIN) as client:
                        if client.sim_status()["time"] > 0.5:
                            sim = psutil.Process(client.node("sim").pid)
                            break
                except (NotLiveError, LookupError, RuntimeError):
                    pass
                if time.monotonic() > deadline or launch.poll() is not None:
                    raise RuntimeError(f"the launch did not begin: {launch.communicate()[1] if launch.poll() else ''}")
                time.sleep(0.05)
            before = sim.memory_info().rss
            if hostile:
                calls = f"tcp://{DESK}:{17400 + 2 * DOMAIN}"
                arguments = ["--attack", public, secret, keys.own_key().public, calls]
                attacker = subprocess.Popen([sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True)
            most, until = before, time.monotonic() + seconds
            while time.monotonic() < until and sim.is_running():
                most = max(most, sim.memory_info().rss)
                time.sleep(0.1)
            with Client(DOMAIN) as client:
                status = client.sim_status()
                pids = {node.name: node.pid for node in client.nodes()}
            done = {}
            if attacker is not None:
                attacker.terminate()
                done = json.loads(attacker.communicate(timeout=10.0)[0])
            launch.send_signal(signal.SIGINT)
            launch.communicate(timeout=20.0)
        finally:
            for process in (attacker, launch):
                if process is not None and process.poll() is None:
                    process.kill()
                    process.communicate()
        summary = json.loads((folder / "summary.json").read_text())
    stolen = pids.get("sim") != sim.pid or set(pids) != {"sim", "swing_up"}
    return {
        "step_p50_us": 1e6 * status["step_p50_s"],
        "step_p99_us": 1e6 * status["step_p99_s"],
        "step_max_us": 1e6 * status["step_max_s"],
        "jitter_p99_us": 1e6 * status["jitter_p99_s"],
        "growth_mb": (most - before) / 1e6,
        "refused": status["frames_refused"] + status["calls_refused"],
        "ended_well": launch.returncode == 130
        and not stolen
        and not any(" granted" in key for key in done if key != "nodes granted"),
        "restarts": sum(node["restarts"] for node in summary["nodes"].values()),
        "done": done,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    pairs = []
    for number in range(options.pairs):
        order = (False, True) if number % 2 == 0 else (True, False)
        pair = {hostile: run(hostile, options.seconds) for hostile in order}
        pairs.append((pair[False], pair[True]))
        for name, each in (("quiet", pair[False]), ("hostile", pair[True])):
            print(
                f"{number + 1:3} {name:8} step p50 {each['step_p50_us']:6.1f} us, p99 {each['step_p99_us']:6.1f} us,"
                f" jitter p99 {each['jitter_p99_us']:6.0f} us, {each['growth_mb']:5.1f} MB more,"
                f" {each['refused']} refused"
                f"{'' if each['ended_well'] else ', NOT WELL'}",
                flush=True,
            )
        print(f"    {pair[True]['done']}", flush=True)
    ratio = statistics.median(theirs["step_p50_us"] / ours["step_p50_us"] for ours, theirs in pairs)
    quiet = [ours["step_p99_us"] for ours, _ in pairs]
    p99 = statistics.median(theirs["step_p99_us"] for _, theirs in pairs)
    well = all(each["ended_well"] and not each["restarts"] for pair in pairs for each in pair)
    inside = p99 <= max(quiet)
    refused = all(theirs["refused"] > 0 for _, theirs in pairs)
    print(f"median ratio of p50 {ratio:.3f} (bar {BAR})")
    print(f"median p99 {p99:.1f} us, quiet runs {min(quiet):.1f} .. {max(quiet):.1f} us")
    print(f"largest growth {max(theirs['growth_mb'] for _, theirs in pairs):.1f} MB")
    print(f"nothing stolen or ended: {well}; refused and counted: {refused}")
    if options.json:
        options.json.write_text(json.dumps({"ratio": ratio, "pairs": pairs}, indent=2))
    return 0 if ratio <= BAR and inside and well and refused else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--attack"]:
        attack(sys.argv[2:])
    sys.exit(main())
