"""The round trip between two computers: ours beside bare pyzmq with and without CURVE, on one link, in the same run.

    python tests/benchmarks/network.py [--json FILE]

The computers are network namespaces joined by a veth pair, so that the link itself costs next to nothing. Ours is the
real server at 1 kHz with a controller on the other host, and always has keys. Ours and the peer take turns; the figure
is the median of the ratios of neighbouring turns. Needs the right to make namespaces.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import subprocess
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import zmq
from bars import NOT_MEASURED, alternate, at_most
from messages import answer, round_trips

from nodes.framework.transport.security import allow_list, curve

HERE = Path(__file__).resolve()
PAIRS, PLAIN, SECONDS = 12, 3, 1.0
BAR = 1.3
PORTS = (17500, 17501)  # of states, of commands
PLAN = """
[hosts]
desk = "{desk}"
robot = "{robot}"
[sim]
robot = "rotary_pendulum"
host = "desk"
[[nodes]]
name = "answer"
run = "{file}:Answer"
host = "robot"
"""


def loaded(file: Path) -> Any:
    """A Python file as a module."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise ImportError(str(file))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ours(hosts: Any) -> float:
    """p50 of state -> controller on the other host -> command, seconds."""
    file = hosts.desk.folder / "plan.toml"
    addresses = {host.name: host.address for host in hosts}
    file.write_text(PLAN.format(**addresses, file=HERE.with_name("messages.py")))
    there = hosts.robot.start("launch", file, "--host", "robot")
    here = hosts.desk.start("launch", file, "--duration", SECONDS, "--json", "summary.json")
    if here.end() or there.end():
        raise RuntimeError(here.output + there.output)
    summary = json.loads((hosts.desk.work / "summary.json").read_text())
    return float(summary["round_trip_p50_s"])


def bare(hosts: Any, with_keys: bool) -> float:
    """The same of two bare sockets on each host."""
    words = [host.address for host in hosts] + (["keys"] if with_keys else [])
    echo = hosts.robot.python(HERE, "--bare", "echo", *words)
    ping = hosts.desk.python(HERE, "--bare", "ping", *words)
    if ping.end():
        raise RuntimeError(ping.output)
    echo.stop(9)
    return float(ping.output)


def sockets(publish: str, subscribe: str, other: str, with_keys: bool) -> tuple[Any, Any]:
    """A bound PUB and a SUB connected to the other host's, by CURVE with the key of host `other`."""
    context: Any = zmq.Context.instance()
    out, back = context.socket(zmq.PUB), context.socket(zmq.SUB)
    if with_keys:
        curve.be_server(out)
        curve.be_client(back, allow_list.key_of_host(other))
    back.setsockopt(zmq.SUBSCRIBE, b"")
    out.bind(f"tcp://{publish}")
    back.connect(f"tcp://{subscribe}")
    return out, back


def ping(desk: str, robot: str, with_keys: bool) -> float:
    """p50 of a turn of the round trip, seconds."""
    out, back = sockets(f"{desk}:{PORTS[0]}", f"{robot}:{PORTS[1]}", "robot", with_keys)
    return next(round_trips(out, back, SECONDS))


def echo(desk: str, robot: str, with_keys: bool) -> None:
    """Answer each state with a command."""
    answer(*sockets(f"{robot}:{PORTS[1]}", f"{desk}:{PORTS[0]}", "desk", with_keys))


def measure() -> dict[str, Any]:
    """All figures; ours and the peer with keys by turns, the peer without keys for comparison."""
    network = loaded(HERE.parents[1] / "network" / "conftest.py")
    with tempfile.TemporaryDirectory(prefix="an-", dir="/tmp") as folder:
        hosts = network.Hosts(Path(folder))
        try:
            hosts.open()
            hosts.exchange_keys()
            found = alternate(lambda: ours(hosts), lambda: bare(hosts, with_keys=True), PAIRS)
            plain = statistics.median(bare(hosts, with_keys=False) for _ in range(PLAIN))
        finally:
            hosts.close()
    bars = [at_most("two hosts, round trip at 1 kHz, p50, against bare pyzmq with CURVE", found.ratio, BAR)]
    return {"curve": asdict(found), "plain_p50_s": plain, "text": found.text(), "bars": bars}


def main(json_path: str | None = None) -> dict[str, Any]:
    """Measure, print the table, write it as JSON when asked to; the figures, SI units."""
    try:
        figures = measure()
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        print(f"not measured: network namespaces cannot be made here: {error}")
        raise SystemExit(NOT_MEASURED) from None
    trip = figures["curve"]
    print("two hosts, round trip at 1 kHz, p50, us   armswing, keys   bare pyzmq, CURVE   no keys   bar  ratio")
    print(
        f"{'':40}  {1e6 * trip['ours']:14.0f}   {1e6 * trip['theirs']:17.0f}   {1e6 * figures['plain_p50_s']:7.0f}"
        f"   {BAR:.1f}  {figures['text']}"
    )
    if json_path is not None:
        Path(json_path).write_text(json.dumps(figures, indent=2) + "\n")
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE")
    parser.add_argument("--bare", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.bare:
        what, desk, robot, *rest = arguments.bare
        print(json.dumps({"ping": ping, "echo": echo}[what](desk, robot, bool(rest))))
    else:
        main(arguments.json)
