"""States lost on the way through the Foxglove bridge, and their latency beside that of a plain subscriber.

    python tests/benchmarks/foxglove_bridge.py [--seconds 60] [--launch launch/examples/my_controller.toml]

Starts a launch and the bridge. Two other processes receive its states during the same time: a WebSocket client of the
bridge, which subscribes to states and joint states, and a plain client. The latency is the time since `sent_ns`.
Give a launch file without `duration_s`, or with one that is longer. The figures mean nothing on a busy computer.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import struct
import subprocess
import sys
import time

import numpy as np

ARMSWING = [sys.executable, "-P", "-m", "nodes.cli"]
DEADLINE_S = 180.0  # a first start compiles
SETTLED = 200  # states before the figures begin
SEQ, SENT = re.compile(rb'"seq":(\d+)'), re.compile(rb'"sent_ns":(\d+)')


def figures(who: str, seqs: list[int], latencies_ns: list[int]) -> str:
    """One line on the states received."""
    latency_ms = np.array(latencies_ns[SETTLED:]) / 1e6
    p50, p99 = np.percentile(latency_ms, [50.0, 99.0])
    lost = seqs[-1] - seqs[0] + 1 - len(seqs)
    return f"{who:8s} {len(seqs)} states, {lost} lost, latency p50 {p50:.3f} ms, p99 {p99:.3f} ms"


def plain(seconds: float) -> str:
    """Figures of a client of the launch."""
    from nodes.framework.client import Client

    seqs, latencies, end = [], [], float("inf")
    with Client() as client:
        (topic,) = (entry.name for entry in client.topics() if entry.name.endswith("/state") and entry.publishes)
        for _, message in client.stream(topic, timeout_s=10.0):
            latencies.append(time.time_ns() - message.sent_ns)
            seqs.append(message.seq)
            end = min(end, time.monotonic() + seconds)
            if time.monotonic() > end:
                break
    return figures("plain", seqs, latencies)


def through_bridge(port: int, seconds: float) -> str:
    """Figures of a WebSocket client of the bridge."""
    from websockets.sync.client import connect
    from websockets.typing import Subprotocol

    seqs, latencies, end = [], [], float("inf")
    states: set[int] = set()
    protocols = [Subprotocol("foxglove.sdk.v1")]
    with connect(f"ws://127.0.0.1:{port}", subprotocols=protocols, max_size=None, compression=None) as socket:
        while time.monotonic() < end:
            frame = socket.recv(timeout=10.0)
            now_ns = time.time_ns()
            if isinstance(frame, str):
                told = json.loads(frame)
                for channel in told["channels"] if told["op"] == "advertise" else ():
                    if channel["topic"].endswith(("/state", "/joint_states")):
                        wanted = [{"id": channel["id"], "channelId": channel["id"]}]
                        socket.send(json.dumps({"op": "subscribe", "subscriptions": wanted}))
                        states |= {channel["id"]} if channel["topic"].endswith("/state") else set()
            elif frame[0] == 1 and struct.unpack_from("<I", frame, 1)[0] in states:
                found = SEQ.search(frame), SENT.search(frame)
                assert found[0] is not None
                assert found[1] is not None
                seqs.append(int(found[0][1]))
                latencies.append(now_ns - int(found[1][1]))
                end = min(end, time.monotonic() + seconds)
    return figures("bridge", seqs, latencies)


def measure(launch: str, seconds: float) -> None:
    """Start everything, and print the figures of both."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    launched = subprocess.Popen([*ARMSWING, "launch", launch], **quiet)  # type: ignore[call-overload]
    bridge = subprocess.Popen([*ARMSWING, "bridge", "foxglove", "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + DEADLINE_S
        while (
            '"running"'
            not in subprocess.run([*ARMSWING, "sim", "status", "--json"], capture_output=True, text=True).stdout
        ):
            if launched.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"{launch} did not run within {DEADLINE_S:g} s")
            time.sleep(0.5)
        assert bridge.stdout is not None
        port = bridge.stdout.readline().rpartition(":")[2].strip()
        given = ["--seconds", f"{seconds:g}"]
        receivers = [
            subprocess.Popen([sys.executable, __file__, *given, "--receive", which]) for which in ("plain", port)
        ]
        for receiver in receivers:
            receiver.wait()
    finally:
        for process in (bridge, launched):
            process.send_signal(signal.SIGINT)
        print("bridge: " + bridge.communicate(timeout=30.0)[0].strip())
        launched.wait(timeout=30.0)


def main() -> None:
    """Run the benchmark, or one of its receivers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--launch", default="launch/examples/my_controller.toml")
    parser.add_argument("--receive", default="", help=argparse.SUPPRESS)  # "plain", or the port of the bridge
    given = parser.parse_args()
    if given.receive:
        print(plain(given.seconds) if given.receive == "plain" else through_bridge(int(given.receive), given.seconds))
    else:
        measure(given.launch, given.seconds)


if __name__ == "__main__":
    main()
