"""Messages: our round trip and our lockstep beside bare pyzmq on the same socket types, in the same run.

    python tests/benchmarks/messages.py [--json FILE]

Server and controller (and their bare stand-ins) are processes pinned to a core each; ours and the peer take turns,
the median of the repeats counts. Codec included on both sides.
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
from pathlib import Path
from typing import Any

import zmq

from nodes.hosting.timing.clock import Durations, Pacer, tighten_timer_slack
from nodes.messages import JointCommand, RobotState
from nodes.messages.codec import decode, encode
from nodes.node import Node
from nodes.plan.launch_plan import NodePlan, Plan, SimPlan, save_plan
from nodes.simulation.compose import compose
from nodes.transport.domain import domain_folder
from nodes.transport.registry import NodeEntry, Registry, RegistryClient
from nodes.transport.service import ServiceClient

ROBOT = "rotary_pendulum"
STATE, COMMAND = f"{ROBOT}/state", f"{ROBOT}/command"
REPEATS = 5
SECONDS = 2.0
LOCKSTEP_STEPS = 6000
COMPOSED_STEPS = 20_000
BARS = {"round_trip_ratio": 1.2, "lockstep_ratio": 0.6, "composed_steps_per_s": 20_000.0}


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
        command = [sys.executable, "-P", "-m", "nodes.launching.process", "--plan", str(file), "--node"]
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


def plan_of(mode: Any, duration_s: float) -> Plan:
    """The server and one controller."""
    sim = SimPlan(robot=ROBOT, mode=mode)
    nodes = [NodePlan(name="answer", run=f"{Path(__file__).resolve()}:Answer")]
    return Plan(name="bench", sim=sim, nodes=nodes, duration_s=duration_s)


def our_round_trip() -> tuple[float, float]:
    """p50 and p99 of state -> controller -> command at 1 kHz, seconds."""
    with running(plan_of("realtime", SECONDS)) as sim:
        sim.call("resume")
        status = _finished(sim)
    return status["round_trip_p50_s"], status["round_trip_p99_s"]


def our_lockstep_rate() -> float:
    """Steps per second over ipc with one participant, physics included."""
    with running(plan_of("lockstep", LOCKSTEP_STEPS * 1e-3)) as sim:
        sim.call("resume")
        status = _finished(sim)
    return float(status["real_time_factor"] / 1e-3)


def _finished(sim: ServiceClient) -> dict[str, Any]:
    while True:
        time.sleep(0.25)  # asking costs the server time
        status: dict[str, Any] = sim.call("status", timeout_s=10.0)
        if status["state"] == "stopped":
            return status


def our_composed_rate() -> float:
    """Steps per second of server and controller in one process."""
    with compose(plan_of("lockstep", 1.0)) as composition:
        composition.step(2000)
        began = time.perf_counter()
        composition.step(COMPOSED_STEPS)
        return COMPOSED_STEPS / (time.perf_counter() - began)


# -- bare pyzmq


def bare(kind: str, folder: Path) -> Any:
    """What the bare `kind` of ping prints, against its echo in another process."""
    command = [sys.executable, "-P", str(Path(__file__).resolve()), "--folder", str(folder), "--bare"]
    echo = subprocess.Popen([*command, f"{kind}-echo"], preexec_fn=pinned(1))
    try:
        ping = subprocess.run(
            [*command, f"{kind}-ping"], preexec_fn=pinned(0), check=True, capture_output=True, text=True
        )
        return json.loads(ping.stdout)
    finally:
        echo.terminate()
        echo.wait(10.0)


def stream_ping(folder: Path) -> list[float]:
    """PUB/SUB at 1 kHz: p50 and p99, seconds."""
    out, back = _streams(folder, "out", "back")
    while not back.poll(10):
        out.send_multipart([STATE.encode(), encode(sample_state())])
    while back.poll(50):
        back.recv_multipart()
    tighten_timer_slack()
    pacer, durations, state = Pacer(1e-3), Durations(), sample_state()
    for _ in range(round(SECONDS * 1e3)):
        pacer.wait()
        payload = encode(state)
        began = time.perf_counter_ns()
        out.send_multipart([STATE.encode(), payload])
        _, reply = back.recv_multipart()
        decode(COMMAND, reply)
        durations.add(time.perf_counter_ns() - began)
    return [figure for figure in (durations.quantile_s(0.5), durations.quantile_s(0.99)) if figure is not None]


def stream_echo(folder: Path) -> None:
    """Answer each state with a command."""
    out, back = _streams(folder, "back", "out")
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


def turn_ping(folder: Path) -> float:
    """DEALER/ROUTER ping-pong: round trips per second."""
    socket: Any = zmq.Context.instance().socket(zmq.DEALER)
    socket.connect(f"ipc://{folder}/turns")
    state = sample_state()

    def turn() -> None:
        socket.send_multipart([b"head", STATE.encode(), encode(state)])
        _, _, reply = socket.recv_multipart()
        decode(COMMAND, reply)

    for _ in range(200):
        turn()
    began = time.perf_counter()
    for _ in range(LOCKSTEP_STEPS):
        turn()
    return LOCKSTEP_STEPS / (time.perf_counter() - began)


def turn_echo(folder: Path) -> None:
    """Answer each turn with a command."""
    socket: Any = zmq.Context.instance().socket(zmq.ROUTER)
    socket.bind(f"ipc://{folder}/turns")
    while True:
        route, head, _, payload = socket.recv_multipart()
        state: Any = decode(STATE, payload)
        command = JointCommand(name=["arm"], value=[-0.01 * state.velocity[0]], state_seq=state.seq)
        socket.send_multipart([route, head, COMMAND.encode(), encode(command)])


BARE: dict[str, Callable[[Path], Any]] = {
    "stream-ping": stream_ping,
    "stream-echo": stream_echo,
    "turn-ping": turn_ping,
    "turn-echo": turn_echo,
}

# -- the table


def measure() -> dict[str, float]:
    """All figures; ours and the peer by turns."""
    ours_stream, raw_stream, ours_turn, raw_turn, composed = [], [], [], [], []
    for _ in range(REPEATS):
        with tempfile.TemporaryDirectory(prefix="as") as name:
            os.environ["XDG_RUNTIME_DIR"] = name
            raw_stream.append(bare("stream", Path(name)))
            ours_stream.append(our_round_trip())
            raw_turn.append(bare("turn", Path(name)))
            ours_turn.append(our_lockstep_rate())
            composed.append(our_composed_rate())
    figures = {
        "round_trip_p50_s": statistics.median(p50 for p50, _ in ours_stream),
        "round_trip_p99_s": statistics.median(p99 for _, p99 in ours_stream),
        "raw_round_trip_p50_s": statistics.median(p50 for p50, _ in raw_stream),
        "raw_round_trip_p99_s": statistics.median(p99 for _, p99 in raw_stream),
        "lockstep_steps_per_s": statistics.median(ours_turn),
        "raw_lockstep_turns_per_s": statistics.median(raw_turn),
        "composed_steps_per_s": statistics.median(composed),
    }
    figures["round_trip_ratio"] = figures["round_trip_p50_s"] / figures["raw_round_trip_p50_s"]
    figures["lockstep_ratio"] = figures["lockstep_steps_per_s"] / figures["raw_lockstep_turns_per_s"]
    return figures


def main(json_path: str | None = None) -> dict[str, float]:
    """Measure, print the table, write it as JSON when asked to; the figures, SI units."""
    figures = measure()
    us = {key: value * 1e6 for key, value in figures.items() if key.endswith("_s")}
    print("                                  armswing   bare pyzmq    ratio   bar")
    print(
        f"round trip at 1 kHz, p50, us      {us['round_trip_p50_s']:8.0f}   {us['raw_round_trip_p50_s']:10.0f}"
        f"   {figures['round_trip_ratio']:6.2f}   at most {BARS['round_trip_ratio']}"
    )
    print(f"round trip at 1 kHz, p99, us      {us['round_trip_p99_s']:8.0f}   {us['raw_round_trip_p99_s']:10.0f}")
    print(
        f"lockstep over ipc, steps/s        {figures['lockstep_steps_per_s']:8.0f}"
        f"   {figures['raw_lockstep_turns_per_s']:10.0f}   {figures['lockstep_ratio']:6.2f}"
        f"   at least {BARS['lockstep_ratio']}"
    )
    print(
        f"lockstep in one process, steps/s  {figures['composed_steps_per_s']:8.0f}"
        f"                       at least {BARS['composed_steps_per_s']:.0f}"
    )
    if json_path is not None:
        Path(json_path).write_text(json.dumps({**figures, "bars": BARS}, indent=2) + "\n")
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE")
    parser.add_argument("--bare", choices=sorted(BARE), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.bare:
        print(json.dumps(BARE[arguments.bare](arguments.folder)))
    else:
        main(arguments.json)
