"""The processor time that a flood of connections without a key costs a publisher, with and without the kernel's filter.

    python tests/benchmarks/flood.py [--pairs 5] [--seconds 4] [--json FILE]

A process publishes a state every millisecond at a socket with CURVE on loopback, while a stranger, a process of low
priority with the address 127.0.0.9, connects to it again and again. The authenticator blocks that address after
50 rejections; `gate.block` then filters its connections in the kernel, or, in the other half of the runs, does
nothing. Runs are interleaved. Both rates are of the publisher's process, per second of the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

STRANGER = "127.0.0.9"
RUNS = ("quiet", "filtered", "unfiltered")
SETTLE_S = 1.0
GONE_S = 0.05


def publisher(folder: str, is_filtered: bool, seconds: float) -> None:
    """Publish for some seconds after the first; print the processor time, and the rejected connections."""
    import zmq

    from nodes.framework.messages import Status
    from nodes.framework.transport.bus import Publisher
    from nodes.framework.transport.security import authenticator, gate, keys

    if not is_filtered:
        gate.block = lambda listener, addresses: None
    keys.make_key("desk")
    context: Any = zmq.Context.instance()
    made = Publisher(context, "node", f"ipc://{folder}/data", remote_endpoint="tcp://127.0.0.1:*")
    print(made.remote_endpoint, flush=True)

    def work(until: float) -> None:
        while time.monotonic() < until:
            made.serve_subscriptions()
            made.publish("status", Status(node="node", state="ready"))
            time.sleep(1e-3)

    work(time.monotonic() + SETTLE_S)
    before, began = time.process_time(), time.monotonic()
    work(began + seconds)
    share = (time.process_time() - before) / (time.monotonic() - began)
    print(json.dumps({"share": share, "rejected": authenticator.rejected(context)}), flush=True)
    made.close()
    context.term()


def stranger(port: int) -> None:
    """Connect again and again, until nobody ends this process any more."""
    os.nice(10)
    parent = os.getppid()
    while os.getppid() == parent:
        with socket.socket() as made:
            made.settimeout(GONE_S)
            made.bind((STRANGER, 0))
            try:
                made.connect(("127.0.0.1", port))
                made.sendall(b"\0" * 64)
            except OSError:
                continue


def measured(kind: str, seconds: float) -> dict[str, float]:
    """One run: share of a core, connections rejected."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "XDG_RUNTIME_DIR": folder, "XDG_CONFIG_HOME": folder, "HOME": folder}
        command = [sys.executable, __file__, "--publisher", folder, kind, str(seconds)]
        host = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert host.stdout is not None
        port = host.stdout.readline().partition("#")[0].rpartition(":")[2]
        guests = []
        if kind != "quiet":
            guests = [subprocess.Popen([sys.executable, __file__, "--stranger", port]) for _ in range(2)]
        found: dict[str, float] = json.loads(host.stdout.readline())
        for guest in guests:
            guest.kill()
            guest.wait()
        host.wait()
        return found


def main(json_path: str | None = None, pairs: int = 5, seconds: float = 4.0) -> dict[str, Any]:
    """Print the medians; they are returned too."""
    runs: dict[str, list[dict[str, float]]] = {kind: [] for kind in RUNS}
    for _ in range(pairs):
        for kind in RUNS:
            runs[kind].append(measured(kind, seconds))
    found = {
        kind: {
            "share": statistics.median(run["share"] for run in each),
            "rejected_per_s": statistics.median(run["rejected"] for run in each) / (seconds + SETTLE_S),
        }
        for kind, each in runs.items()
    }
    for kind, each in found.items():
        print(f"  {kind:11} {100 * each['share']:5.1f} % of a core   {each['rejected_per_s']:7.0f} rejected/s")
    if json_path:
        Path(json_path).write_text(json.dumps(found))
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--json")
    parser.add_argument("--publisher", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--stranger", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.publisher:
        publisher(asked.publisher[0], asked.publisher[1] != "unfiltered", float(asked.publisher[2]))
    elif asked.stranger:
        stranger(asked.stranger)
    else:
        main(asked.json, asked.pairs, asked.seconds)
