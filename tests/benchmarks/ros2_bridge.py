"""Latency that the ROS 2 bridge adds to joint states, and the step of the server with it and with a plain subscriber.

    python tests/benchmarks/ros2_bridge.py [--pairs 10] [--seconds 5] [--json FILE]

A launch of the rotary pendulum publishes states at 1 kHz. In each pair, a plain client and a zenoh client of its own
receive the same states for some seconds, the latter through bridge and router; the latency is the time since
`sent_ns`. Beside it stands what zenoh and its router take alone: messages of the same length and rate from one client
to another, while the launch runs. Then the step time is measured with nothing, with a plain client, and with the
bridge; the order alternates.

Any subscriber lengthens a step in which a state is published: without one, ZeroMQ drops the message where it is sent;
with one, the send wakes the thread that carries it. The first table shows this on a publisher alone: work of about the
length of a step takes as long as before, and the send takes longer, also if publisher and carrying thread are each
pinned to a core of their own. The bridge is therefore compared with a plain subscriber; the ratios to a run without any
subscriber are printed as well.

Bars: medians over the pairs of the added p50 and p99 at most 0.3 and 1 ms, of the ratio of the p50 of the step with the
bridge to that with a plain subscriber at most 1.1. The figures mean nothing on a busy computer.
"""

from __future__ import annotations

import argparse
import ctypes
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
import zmq
from bars import at_most, reported

ARMSWING = [sys.executable, "-P", "-m", "nodes.cli"]
PAIRS, SECONDS, SETTLE_S = 10, 5.0, 1.0
P50_MS, P99_MS, RATIO = 0.3, 1.0, 1.1
KINDS = ("nothing", "plain", "bridge")
DEADLINE_S = 120.0
SENDS, PERIOD_S, WORK = 2000, 1e-3, 150  # of the publisher alone: states, time between two, length of the work
PLAN = """
[sim]
robot = "rotary_pendulum"
parameters = { start_deg = 0.0 }
mode = "realtime"
step_ms = 1.0
"""
STATE = "0/rotary_pendulum/joint_states/sensor_msgs::msg::dds_::JointState_/*"
LISTEN = """
import sys, zmq
socket = zmq.Context().socket(zmq.SUB)
socket.subscribe("")
socket.connect(sys.argv[1])
while True:
    socket.recv_multipart()
"""
ALONE, LENGTH, TIME = "alone", 256, struct.Struct("<q")  # key and messages of `zenoh_alone`
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


def route(address: str, seconds: float) -> None:
    """Publish the time, ns, in messages of LENGTH bytes, as often as the launch publishes states."""
    import zenoh

    with zenoh.open(config("client", address)) as session:
        publisher: Any = session.declare_publisher(ALONE, express=True)
        due = time.perf_counter()
        end = due + seconds + SETTLE_S
        while due < end:
            due += PERIOD_S
            time.sleep(max(0.0, due - time.perf_counter()))
            publisher.put(TIME.pack(time.time_ns()).ljust(LENGTH, b"\0"))


def zenoh_alone(address: str, seconds: float) -> list[float]:
    """p50 and p99 of the latency between two zenoh clients of one router, ms."""
    import zenoh

    found: list[int] = []

    def take(sample: Any) -> None:
        now = time.time_ns()
        found.append(now - TIME.unpack_from(bytes(sample.payload))[0])

    with zenoh.open(config("client", address)) as session:
        subscriber: Any = session.declare_subscriber(ALONE, take)
        sender = subprocess.Popen([sys.executable, __file__, "--seconds", f"{seconds:g}", "--route", address])
        sender.wait(timeout=DEADLINE_S)
        subscriber.undeclare()
    return [float(np.percentile(np.array(found[200:]) / 1e6, share)) for share in (50.0, 99.0)]


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


def sends(kind: str) -> dict[str, float]:
    """Median times of work and of the send of a state, in a process that publishes alone, us.

    kind  "nobody" for no subscriber, "plain" for one, "pinned" for one while publisher and carrying thread have a core
          each
    """
    from nodes.framework.transport.background_threads import io_threads
    from nodes.framework.transport.sockets import MORE, zmq_send

    subscriber, times = None, []
    with tempfile.TemporaryDirectory(prefix="aw", dir="/tmp") as folder, zmq.Context() as context:
        others = set(io_threads())
        publisher = context.socket(zmq.XPUB)
        publisher.bind(f"ipc://{folder}/state")
        if kind != "nobody":
            subscriber = subprocess.Popen([sys.executable, "-c", LISTEN, f"ipc://{folder}/state"])
            publisher.recv()
        cores = sorted(os.sched_getaffinity(0))
        if kind == "pinned" and len(cores) > 1:
            os.sched_setaffinity(0, cores[:1])
            for thread in set(io_threads()) - others:
                os.sched_setaffinity(thread, cores[1:2])
        pointer, state, due = ctypes.c_void_p(publisher.underlying), bytes(400), time.perf_counter()
        for _ in range(SENDS):
            due = max(due + PERIOD_S, time.perf_counter())
            time.sleep(due - time.perf_counter() if due > time.perf_counter() else 0.0)
            began = time.perf_counter_ns()
            sum(number * number for number in range(WORK))
            worked = time.perf_counter_ns()
            zmq_send(pointer, b"state", 5, MORE)
            zmq_send(pointer, state, len(state), 0)
            times.append((worked - began, time.perf_counter_ns() - worked))
        os.sched_setaffinity(0, cores)
        publisher.close(0)
    if subscriber is not None:
        subscriber.kill()
        subscriber.wait()
    work, send = np.median(np.array(times) / 1e3, axis=0)
    return {"work_us": float(work), "send_us": float(send)}


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
    sending = {kind: sends(kind) for kind in ("nobody", "plain", "pinned")}
    for kind, found in sending.items():
        print(
            f"  publisher alone, {kind:6s}  work {found['work_us']:5.1f} us, send {found['send_us']:5.1f} us",
            flush=True,
        )
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
            alone = zenoh_alone(address, length_s)
            print(f"zenoh alone, through the router: p50 {alone[0]:.3f} ms, p99 {alone[1]:.3f} ms")
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
    plain, bridged, beside = (statistics.median(row[a] / row[b] for row in steps) for a, b in ((1, 0), (2, 0), (2, 1)))
    print(f"p50 of the step / without a subscriber: {plain:.3f} with a plain one, {bridged:.3f} with the bridge")
    figures = {
        "latency_ms": rows,
        "zenoh_alone_ms": alone,
        "step_s": steps,
        "send": sending,
        "ratio": bridged,
        "plain_ratio": plain,
    }
    bars = [
        at_most("added p50, ms", added[0], P50_MS),
        at_most("added p99, ms", added[1], P99_MS),
        at_most("p50 of the step, bridge / plain subscriber", beside, RATIO),
    ]
    return reported(figures, bars, json_path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="number of pairs (10)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="time that is measured in each turn (5)")
    parser.add_argument("--receive", default="", help=argparse.SUPPRESS)  # "plain", or the address of the router
    parser.add_argument("--route", default="", help=argparse.SUPPRESS)  # address of the router
    given = parser.parse_args()
    if given.route:
        route(given.route, given.seconds)
    elif given.receive:
        length = given.seconds
        print(json.dumps(receive_plain(length) if given.receive == "plain" else receive_ros(given.receive, length)))
    else:
        main(given.json, given.pairs, given.seconds)
