"""What a server at 1 kHz takes of one core, beside the least that Python and ZeroMQ take for the same traffic.

    python tests/benchmarks/server_share.py [--json FILE]

Launch files with all of their nodes, 4 s each. The yardstick before and after each is a loop in Python that sleeps to
every millisecond, says 1 kB each 4 ms on a bare pyzmq socket and takes the 0.5 kB that come back, as a server does for
its controller. Where the yardstick has grown, the computer is slow or shared: then look at the ratio, not at the share.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import zmq
from bars import at_most, json_file

from nodes.framework.hosting.timing.clock import tighten_timer_slack
from nodes.framework.launching.launch import launch_plan
from nodes.framework.plan.files.file import load_plan

LAUNCHES = ("charmie_pick", "charmie_validation", "gibbon_cable")
FOLDER = Path(__file__).resolve().parents[2] / "launch"
DOMAIN = 93
SECONDS, YARDSTICK_S, WARM_UP_S = 4.0, 1.5, 0.2
PERIOD_S, SAY_EVERY = 1e-3, 4
STATE, COMMAND = b"s" * 1000, b"c" * 500
BAR = 0.20
ANSWER = (
    "import sys, zmq; context = zmq.Context(); hear, say = context.socket(zmq.SUB), context.socket(zmq.PUB);"
    "hear.setsockopt(zmq.SUBSCRIBE, b''); hear.connect(sys.argv[1]); say.connect(sys.argv[2])\n"
    f"while True: hear.recv_multipart(); say.send_multipart([b'command', {COMMAND!r}])"
)


def yardstick() -> float:
    """Share of one core of a loop at 1 kHz that says, and hears, one message every 4 ms over bare pyzmq."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        context = stack.enter_context(zmq.Context())
        say, hear = stack.enter_context(context.socket(zmq.PUB)), stack.enter_context(context.socket(zmq.SUB))
        ends = [f"ipc://{folder}/{name}" for name in ("state", "command")]
        for socket, end in zip((say, hear), ends, strict=True):
            socket.bind(end)
        hear.setsockopt(zmq.SUBSCRIBE, b"")
        child = stack.enter_context(subprocess.Popen([sys.executable, "-c", ANSWER, *ends]))
        try:
            while not hear.poll(10):
                say.send_multipart([b"state", STATE])
            _exchange(say, hear, WARM_UP_S)
            began, spent = time.perf_counter(), time.process_time()
            _exchange(say, hear, YARDSTICK_S)
            return (time.process_time() - spent) / (time.perf_counter() - began)
        finally:
            child.kill()


def _exchange(say: Any, hear: Any, seconds: float) -> None:
    began = time.perf_counter()
    for tick in range(round(seconds / PERIOD_S)):
        time.sleep(max(began + tick * PERIOD_S - time.perf_counter(), 0.0))
        while hear.getsockopt(zmq.EVENTS) & zmq.POLLIN:
            hear.recv_multipart()
        if tick % SAY_EVERY == 0:
            say.send_multipart([b"state", STATE])


def launched(name: str) -> tuple[float, float]:
    """The server's share of one core in a launch, and the real-time factor that was kept."""
    plan = load_plan(FOLDER / f"{name}.toml")
    plan.domain, plan.duration_s = DOMAIN, SECONDS
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        summary = launch_plan(plan)
    if summary.processor_share is None or not summary.real_time_factor:
        raise RuntimeError(f"{name} did not run: {summary.ended or 'no status of the server'}")
    return summary.processor_share, summary.real_time_factor


def main(json_path: str | None = None) -> dict[str, Any]:
    """Print the table; the figures."""
    tighten_timer_slack()
    result: dict[str, Any] = {"launches": {}}
    print(f"server at 1 kHz, share of one core (bar {BAR:.0%}); yardstick: sleep, say and hear in bare Python")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        before = yardstick()
        for name in LAUNCHES:
            share, factor = launched(name)
            after = yardstick()
            least = statistics.mean((before, after))
            before = after
            found = {"share": share, "factor": factor, "yardstick": least, "ratio": share / factor / least}
            result["launches"][name] = found
            print(
                f"  {name:20s} {share:6.1%} at real-time factor {factor:.3f}   yardstick {least:6.1%}"
                f"   {found['ratio']:.2f} times",
                flush=True,
            )
    shares = {name: found["share"] for name, found in result["launches"].items()}
    result["bars"] = [at_most(f"share of a core, {name}", share, BAR) for name, share in shares.items()]
    if json_path:
        Path(json_path).write_text(json.dumps(result, indent=1))
    return result


if __name__ == "__main__":
    main(json_file(__doc__))
