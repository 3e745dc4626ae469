"""Latency that the ROS 2 bridge adds to joint states, and its effect on the step of the server, in interleaved pairs.

    python tests/benchmarks/ros2_bridge.py [--pairs 10] [--seconds 5] [--json FILE]

A launch of the rotary pendulum publishes states at 1 kHz. In each pair, a plain client and a zenoh client of its own
receive the same states for some seconds, the latter through bridge and router; the latency is the time since
`sent_ns`. Then the step time is measured without and with the bridge; which comes first alternates. Bars: medians over
the pairs of the added p50 and p99 at most 0.3 and 1 ms, of the ratio of the p50 of the step at most 1.1. The ratio with
a plain client in place of the bridge is printed beside it. The figures mean nothing on a busy computer.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from bars import at_most

ARMSWING = [sys.executable, "-P", "-m", "nodes.cli"]
PAIRS, SECONDS, SETTLE_S = 10, 5.0, 1.0
P50_MS, P99_MS, RATIO = 0.3, 1.0, 1.1
KINDS = ("nothing", "plain", "bridge")
DEADLINE_S = 120.0
PLAN = """
[sim]
robot = "rotary_pendulum"
parameters = { start_deg = 0.0 }
mode = "realtime"
step_ms = 1.0
"""
STATE = "0/rotary_pendulum/joint_states/sensor_msgs::msg::dds_::JointState_/*"
STAMP = struct.Struct("<iI")  # the first field of a joint state, after the header of 4 bytes


def config(mode: str, address: str) -> Any:
    """Configuration of a zenoh session on loopback."""
    import zenoh

    ends = {"listen" if mode == "router" else "connect": {"endpoints": [address]}}
    scouting = {"multicast": {"enabled": False}}
    return zenoh.Config.from_json5(
        json.dumps({"mode": mode, **ends, "scouting": scouting, "timestamping": {"enabled": True}})
    )


def receive_plain(seconds: float) -> dict[int, tuple[int, int]]:
    """{stamp of a state, ns: (sent_ns, reception)} of a client of the launch."""
    from nodes.framework.client import Client

    found, end = {}, time.monotonic() + seconds
    with Client() as client:
        for _, state in client.stream("rotary_pendulum/state", timeout_s=5.0):
            found[round(state.timestamp * 1e9)] = state.sent_ns, time.time_ns()
            if time.monotonic() > end:
                break
    return found


def receive_ros(address: str, seconds: float) -> dict[int, int]:
    """{stamp of a joint state, ns: reception} of a zenoh client."""
    import zenoh

    found: dict[int, int] = {}

    def take(sample: Any) -> None:
        now = time.time_ns()
        stamp, nanoseconds = STAMP.unpack_from(bytes(sample.payload), 4)
        found[stamp * 10**9 + nanoseconds] = now

    with zenoh.open(config("client", address)) as session:
        subscriber: Any = session.declare_subscriber(STATE, take)
        time.sleep(seconds)
        subscriber.undeclare()
    return found


def latencies(address: str, seconds: float) -> list[float]:
    """p50 and p99 of the plain latencies, and p50 and p99 of those through the bridge, ms."""
    given = ["--seconds", f"{seconds:g}"]
    runs = [
        subprocess.Popen([sys.executable, __file__, *given, "--receive", which], stdout=subprocess.PIPE, text=True)
        for which in ("plain", address)
    ]
    plain, ros = (json.loads(run.communicate(timeout=DEADLINE_S)[0]) for run in runs)
    shared = sorted(plain.keys() & ros.keys(), key=int)[200:]
    if len(shared) < 100:
        raise SystemExit(f"only {len(shared)} states were received by both")
    sent = np.array([plain[stamp][0] for stamp in shared])
    rows = np.array([[plain[stamp][1] for stamp in shared], [ros[stamp] for stamp in shared]])
    return [float(np.percentile((row - sent) / 1e6, share)) for row in rows for share in (50.0, 99.0)]


@contextmanager
def process(*arguments: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A process that runs `armswing ...`, and ends with the context."""
    running = subprocess.Popen([*ARMSWING, *arguments], stdout=subprocess.PIPE, text=True, **options)
    try:
        yield running
    finally:
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=DEADLINE_S)


@contextmanager
def bridge(address: str) -> Iterator[None]:
    """The bridge, once it passes states on."""
    with process("bridge", "ros2", "--connect", address):
        deadline = time.monotonic() + DEADLINE_S
        while len(receive_ros(address, 0.2)) < 50:
            if time.monotonic() > deadline:
                raise SystemExit("the bridge passes no states on")
        yield


def step_p50(seconds: float) -> float:
    """Median step time of the server, s."""
    from nodes.framework.client import Client

    with Client() as client:
        client.call("sim", "reset")
        time.sleep(seconds)
        return float(client.sim_status()["step_p50_s"])


def effect(address: str, seconds: float, which: str) -> float:
    """Median step time with nothing, a plain client, or the bridge and a peer that receives the joint states."""
    import zenoh

    if which == "nothing":
        return step_p50(seconds)
    if which == "plain":
        given = ["--seconds", f"{seconds + 3.0:g}", "--receive", "plain"]
        client = subprocess.Popen([sys.executable, __file__, *given], stdout=subprocess.DEVNULL)
        time.sleep(SETTLE_S)
        found = step_p50(seconds)
        client.wait(timeout=DEADLINE_S)
        return found
    with bridge(address), zenoh.open(config("client", address)) as session:
        subscriber: Any = session.declare_subscriber(STATE, zenoh.handlers.RingChannel(10))
        found = step_p50(seconds)
        subscriber.undeclare()
    return found


def wait_for_launch() -> None:
    """Wait until the simulation runs."""
    from nodes.framework.client import Client

    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        with suppress(LookupError, RuntimeError, ConnectionError), Client() as client:
            if client.sim_status()["time"] > SETTLE_S:
                return
        time.sleep(0.1)
    raise SystemExit("the launch does not run")


def main(json_path: str | None = None, pairs: int | None = None, seconds: float | None = None) -> dict[str, Any]:
    """Measure, print a row per pair and the bars, and write them as JSON where asked to."""
    import zenoh

    count, length_s = PAIRS if pairs is None else pairs, SECONDS if seconds is None else seconds
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"tcp/127.0.0.1:{probe.getsockname()[1]}"
    with tempfile.TemporaryDirectory(prefix="aw", dir="/tmp") as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        plan = Path(folder, "plan.toml")
        plan.write_text(PLAN)
        with zenoh.open(config("router", address)), process("launch", str(plan)):
            wait_for_launch()
            with bridge(address):
                rows = [latencies(address, length_s) for _ in range(count)]
            print("latency, ms: plain p50  p99    bridge p50  p99")
            for p50, p99, bridge_p50, bridge_p99 in rows:
                print(f"        {p50:14.3f} {p99:6.3f} {bridge_p50:10.3f} {bridge_p99:6.3f}")
            steps = []
            for number in range(count):
                order = KINDS if number % 2 else KINDS[::-1]
                each = {which: effect(address, length_s, which) for which in order}
                steps.append([each[which] for which in KINDS])
                print("  step p50, us: " + ", ".join(f"{which} {1e6 * each[which]:.1f}" for which in KINDS), flush=True)
    added = [statistics.median(row[2 + k] - row[k] for row in rows) for k in (0, 1)]
    plain, ratio = (statistics.median(row[k] / row[0] for row in steps) for k in (1, 2))
    print(f"added latency: p50 {added[0]:.3f} ms, bar {P50_MS}; p99 {added[1]:.3f} ms, bar {P99_MS}")
    print(f"ratio of the p50 of the step {ratio:.3f}, bar {RATIO}; with a plain client {plain:.3f}")
    figures: dict[str, Any] = {"latency_ms": rows, "step_s": steps}
    figures["bars"] = [
        at_most("added p50, ms", added[0], P50_MS),
        at_most("added p99, ms", added[1], P99_MS),
        at_most("ratio of the step", ratio, RATIO),
    ]
    if json_path is not None:
        Path(json_path).write_text(json.dumps(figures, indent=2) + "\n")
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="number of pairs (10)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="time that is measured in each turn (5)")
    parser.add_argument("--receive", default="", help=argparse.SUPPRESS)  # "plain", or the address of the router
    given = parser.parse_args()
    if given.receive:
        length = given.seconds
        print(json.dumps(receive_plain(length) if given.receive == "plain" else receive_ros(given.receive, length)))
    else:
        main(given.json, given.pairs, given.seconds)
