"""Messages: our round trip and our lockstep beside bare pyzmq on the same socket types, in the same run.

    python tests/benchmarks/messages.py [--json FILE]

Server and controller, and their bare stand-ins, are processes pinned to a core each. They stay alive while ours and the
peer take short turns in alternation; the figure is the median of the ratios of neighbouring turns, with its 95 %
interval. Codec included on both sides.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import zmq
from bars import Paired, alternate, at_least, at_most

from nodes.framework.hosting.timing.clock import Durations, Pacer, tighten_timer_slack
from nodes.framework.messages import JointCommand, RobotState
from nodes.framework.messages.codec import decode, encode
from nodes.framework.plan.launch_plan import NodePlan, Plan, SimPlan, save_plan
from nodes.framework.simulation.compose import compose
from nodes.framework.transport.domain import domain_folder
from nodes.framework.transport.registry import NodeEntry, Registry, RegistryClient
from nodes.framework.transport.service import ServiceClient
from nodes.node import Node

ROBOT = "rotary_pendulum"
STATE, COMMAND = f"{ROBOT}/state", f"{ROBOT}/command"
PAIRS = 40
SECONDS = 0.3  # of a turn of the round trip
LOCKSTEP_STEPS = 1000  # of a turn
COMPOSED_STEPS = 20_000
ROUND_TRIP_BAR, LOCKSTEP_BAR, COMPOSED_BAR_PER_S = 1.2, 0.85, 20_000.0


class Answer(Node):
    """The shortest controller there is."""

    subscribes = {"state": RobotState}
    publishes = {"command": JointCommand}

    def on_message(self, name: str, message: Any) -> Iterator[tuple[str, JointCommand]]:
        """Brake the arm."""
        yield "command", JointCommand(name=["arm"], value=[-0.01 * message.velocity[0]], state_seq=message.seq)


def sample_state() -> RobotState:
    """A state as large as the rotary pendulum's."""
    numbers = [0.123456789, -1.987654321]
    tip = {"tip_x": 0.0847467, "tip_y": 0.0176927, "tip_z": -0.1279490}
    return RobotState(
        timestamp=1.234,
        seq=1234,
        sent_ns=time.time_ns(),
        name=["arm", "pendulum"],
        position=numbers,
        velocity=numbers,
        effort=[0.01, 0.0],
        phi=1.2e-12,
        phidot=3.4e-9,
        energy=0.0123,
        outputs=tip,
    )


def pinned(core: int) -> Callable[[], None]:
    """Pins a child process to a core, where there are two."""
    cores = sorted(os.sched_getaffinity(0))
    return lambda: os.sched_setaffinity(0, {cores[core % len(cores)]})


# -- ours


@contextmanager
def running(plan: Plan) -> Iterator[ServiceClient]:
    """The plan's processes, ready; the service client of its server."""
    with Registry(plan.domain), RegistryClient(plan.domain) as client:
        file = domain_folder(plan.domain) / "plan.json"
        save_plan(plan, file)
        command = [sys.executable, "-P", "-m", "nodes.framework.launching.process", "--plan", str(file), "--node"]
        names = ["sim", *(node.name for node in plan.nodes)]
        processes = []
        try:
            for core, name in enumerate(names):
                processes.append(subprocess.Popen([*command, name], preexec_fn=pinned(core)))
                entry = _ready(client, name)
                if name == "sim":
                    sim = ServiceClient(entry.endpoints["service"])
            yield sim
            sim.close()
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait(10.0)


def _ready(client: RegistryClient, name: str) -> NodeEntry:
    deadline = time.monotonic() + 60.0
    while time.monotonic() < deadline:
        for entry in client.nodes():
            if entry.name == name and entry.state not in ("starting", "failed"):
                return entry
        time.sleep(0.01)
    raise RuntimeError(f"{name} is not ready after 60 s")


def plan_of(mode: Any) -> Plan:
    """The server and one controller."""
    sim = SimPlan(robot=ROBOT, mode=mode)
    nodes = [NodePlan(name="answer", run=f"{Path(__file__).resolve()}:Answer")]
    return Plan(name="bench", sim=sim, nodes=nodes)


def our_round_trip(sim: ServiceClient) -> float:
    """p50 of state -> controller -> command at 1 kHz in one turn, seconds."""
    sim.call("resume")
    time.sleep(SECONDS)  # asking costs the server time
    sim.call("pause")
    found: dict[str, Any] = sim.call("status", timeout_s=10.0)
    sim.call("reset")  # clears the histogram
    return float(found["round_trip_p50_s"])


def our_lockstep_rate(sim: ServiceClient) -> float:
    """Steps per second over ipc with one participant, physics included."""
    began = time.perf_counter()
    sim.call("step", {"n": LOCKSTEP_STEPS})
    return LOCKSTEP_STEPS / (time.perf_counter() - began)


def our_composed_rate() -> float:
    """Steps per second of server and controller in one process."""
    with compose(plan_of("lockstep")) as composition:
        composition.step(2000)
        began = time.perf_counter()
        composition.step(COMPOSED_STEPS)
        return COMPOSED_STEPS / (time.perf_counter() - began)


# -- bare pyzmq


@contextmanager
def bare(kind: str, folder: Path) -> Iterator[Callable[[], float]]:
    """A function that measures one turn of the bare `kind` of ping, against its echo in another process."""
    command = [sys.executable, str(Path(__file__).resolve()), "--folder", str(folder), "--bare"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    echo = subprocess.Popen([*command, "echo", kind], preexec_fn=pinned(1))
    ping = subprocess.Popen([*command, "ping", kind], preexec_fn=pinned(0), **pipes)

    def turn() -> float:
        assert ping.stdin is not None
        assert ping.stdout is not None
        ping.stdin.write("go\n")
        ping.stdin.flush()
        return float(ping.stdout.readline())

    try:
        yield turn
    finally:
        for process in (ping, echo):
            process.terminate()
            process.wait(10.0)


def stream_ping(folder: Path) -> Iterator[float]:
    """PUB/SUB at 1 kHz: p50 of each turn, seconds."""
    return round_trips(*_streams(folder, "out", "back"), SECONDS)


def round_trips(out: Any, back: Any, seconds: float) -> Iterator[float]:
    """Send states at 1 kHz and wait for the command to each: p50 of each turn, seconds."""
    while not back.poll(10):
        out.send_multipart([STATE.encode(), encode(sample_state())])
    while back.poll(100):
        back.recv_multipart()
    tighten_timer_slack()
    state = sample_state()
    while True:
        pacer, durations = Pacer(1e-3), Durations()
        for _ in range(round(seconds * 1e3)):
            pacer.wait()
            payload = encode(state)
            began = time.perf_counter_ns()
            out.send_multipart([STATE.encode(), payload])
            _, reply = back.recv_multipart()
            decode(COMMAND, reply)
            durations.add(time.perf_counter_ns() - began)
        yield durations.quantile_s(0.5) or 0.0


def stream_echo(folder: Path) -> None:
    """Answer each state with a command."""
    answer(*_streams(folder, "back", "out"))


def answer(out: Any, back: Any) -> None:
    """Answer each state with a command."""
    while True:
        _, payload = back.recv_multipart()
        state: Any = decode(STATE, payload)
        command = JointCommand(name=["arm"], value=[-0.01 * state.velocity[0]], state_seq=state.seq)
        out.send_multipart([COMMAND.encode(), encode(command)])


def _streams(folder: Path, publish: str, subscribe: str) -> tuple[Any, Any]:
    context: Any = zmq.Context.instance()
    out, back = context.socket(zmq.PUB), context.socket(zmq.SUB)
    back.setsockopt(zmq.SUBSCRIBE, b"")
    out.bind(f"ipc://{folder}/{publish}")
    back.connect(f"ipc://{folder}/{subscribe}")
    return out, back


def turn_ping(folder: Path) -> Iterator[float]:
    """DEALER/ROUTER ping-pong: round trips per second of each turn."""
    socket: Any = zmq.Context.instance().socket(zmq.DEALER)
    socket.connect(f"ipc://{folder}/turns")
    state = sample_state()
    while True:
        began = time.perf_counter()
        for _ in range(LOCKSTEP_STEPS):
            socket.send_multipart([b"head", STATE.encode(), encode(state)])
            _, _, reply = socket.recv_multipart()
            decode(COMMAND, reply)
        yield LOCKSTEP_STEPS / (time.perf_counter() - began)


def turn_echo(folder: Path) -> None:
    """Answer each turn with a command."""
    socket: Any = zmq.Context.instance().socket(zmq.ROUTER)
    socket.bind(f"ipc://{folder}/turns")
    while True:
        route, head, _, payload = socket.recv_multipart()
        state: Any = decode(STATE, payload)
        command = JointCommand(name=["arm"], value=[-0.01 * state.velocity[0]], state_seq=state.seq)
        socket.send_multipart([route, head, COMMAND.encode(), encode(command)])


PINGS = {"stream": stream_ping, "turn": turn_ping}
ECHOES = {"stream": stream_echo, "turn": turn_echo}

# -- the table


def measure() -> tuple[Paired, Paired, float]:
    """The round trip, the lockstep rate, and the rate in one process; ours and the peer by turns."""
    with tempfile.TemporaryDirectory(prefix="as") as name:
        os.environ["XDG_RUNTIME_DIR"] = name
        folder = Path(name)
        with running(plan_of("realtime")) as sim, bare("stream", folder) as theirs:
            alternate(partial(our_round_trip, sim), theirs, 2)  # warm
            trip = alternate(partial(our_round_trip, sim), theirs, PAIRS)
        with running(plan_of("lockstep")) as sim, bare("turn", folder) as theirs:
            alternate(partial(our_lockstep_rate, sim), theirs, 2)
            turns = alternate(partial(our_lockstep_rate, sim), theirs, PAIRS)
        return trip, turns, statistics.median(our_composed_rate() for _ in range(5))


def main(json_path: str | None = None) -> dict[str, Any]:
    """Measure, print the table, write it as JSON when asked to; the figures, SI units."""
    trip, turns, composed = measure()
    rows = [
        ("round trip at 1 kHz, p50, us", 1e6, trip, ROUND_TRIP_BAR),
        ("lockstep over ipc, steps/s", 1.0, turns, LOCKSTEP_BAR),
    ]
    print("                                  armswing  bare pyzmq   bar  ratio")
    for what, unit, found, bar in rows:
        print(f"{what:32}  {unit * found.ours:8.0f}  {unit * found.theirs:10.0f}  {bar:4.2f}  {found.text()}")
    print(f"lockstep in one process, steps/s  {composed:8.0f}              at least {COMPOSED_BAR_PER_S:.0f}")
    figures = {
        "round_trip": asdict(trip),
        "lockstep": asdict(turns),
        "composed_steps_per_s": composed,
        "bars": [
            at_most("round trip at 1 kHz, p50, against bare pyzmq", trip.ratio, ROUND_TRIP_BAR),
            at_least("lockstep over ipc against bare pyzmq", turns.ratio, LOCKSTEP_BAR),
            at_least("lockstep in one process, steps/s", composed, COMPOSED_BAR_PER_S),
        ],
    }
    if json_path is not None:
        Path(json_path).write_text(json.dumps(figures, indent=2) + "\n")
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE")
    parser.add_argument("--bare", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.bare:
        end, kind = arguments.bare
        if end == "echo":
            ECHOES[kind](arguments.folder)
        turns = PINGS[kind](arguments.folder)
        for _ in sys.stdin:
            print(next(turns), flush=True)
    else:
        main(arguments.json)
