"""What a controller takes on the robot's computer: time from the start of its process to ready, and memory.

    python tests/benchmarks/footprint.py [--json FILE]

A PD controller, and computed torque with CHARMIE's model, each beside a live server, with warm caches.
Memory is resident (VmRSS), half a second after the node is ready and has heard states.
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
from pathlib import Path
from typing import Any

from bars import at_most

from nodes.framework.plan.launch_plan import NodePlan, Plan, SimPlan, save_plan
from nodes.framework.transport.domain import domain_folder
from nodes.framework.transport.registry import Registry, RegistryClient
from nodes.framework.transport.service import ServiceClient

REPEATS = 5
DEADLINE_S = 120.0
MB = 1e6
ARM = ["joint_2", "joint_4"]
CASES = {
    "pd": (
        "arm_2dof",
        NodePlan(
            name="controller",
            run="nodes/controllers/pd.py:JointPD",
            params={"joints": ARM, "stiffness": [400.0, 200.0], "damping": [40.0, 15.0]},
        ),
        1.0,
        80.0,
    ),
    "computed torque, CHARMIE": (
        "charmie",
        NodePlan(name="controller", run="nodes/controllers/computed_torque.py:ComputedTorque"),
        2.0,
        250.0,
    ),
}


def process(file: Path, node: str) -> subprocess.Popen[bytes]:
    """The process of one node of the plan."""
    command = [sys.executable, "-P", "-m", "nodes.framework.launching.process", "--plan", str(file), "--node", node]
    return subprocess.Popen(command, stderr=subprocess.PIPE)


def wait_until_ready(client: RegistryClient, name: str, child: subprocess.Popen[bytes]) -> str:
    """Wait for the node to be ready; the address of its service."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        if child.poll() is not None:
            raise RuntimeError(f"{name} ended: {child.communicate()[1].decode()}")
        for entry in client.nodes():
            if entry.name == name and entry.pid == child.pid and entry.state not in ("starting", "failed"):
                return entry.endpoints["service"]
        time.sleep(0.002)
    raise RuntimeError(f"{name} is not ready after {DEADLINE_S:g} s")


def resident_mb(pid: int) -> float:
    """Resident memory of a process, 1e6 bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / MB
    raise RuntimeError(f"process {pid} has no VmRSS")


def measure(robot: str, node: NodePlan) -> tuple[float, float]:
    """(s to ready, resident memory in 1e6 bytes) of one run."""
    plan = Plan(name="footprint", sim=SimPlan(robot=robot), nodes=[node], folder=str(Path.cwd()))
    with Registry(0):
        client = RegistryClient(0)
        file = domain_folder(0) / "plan.json"
        save_plan(plan, file)
        server = process(file, "sim")
        children = [server]
        try:
            sim = ServiceClient(wait_until_ready(client, "sim", server))
            began = time.monotonic()
            child = process(file, node.name)
            children.append(child)
            own = ServiceClient(wait_until_ready(client, node.name, child))
            ready_s = time.monotonic() - began
            sim.call("resume", timeout_s=10.0)
            time.sleep(0.5)
            if not own.call("status", timeout_s=10.0)["counters"]["received"]:
                raise RuntimeError(f"{node.run} has heard nothing")
            return ready_s, resident_mb(child.pid)
        finally:
            for each in children:
                each.kill()
                each.communicate()
            client.close()


def main(json_path: str | None = None) -> dict[str, Any]:
    """Measure, print the table, write it as JSON when asked to."""
    figures: dict[str, Any] = {}
    bars = []
    print(f"{'controller, warm caches':28} ready    at most   memory   at most")
    with tempfile.TemporaryDirectory(prefix="fp") as runtime:
        os.environ["XDG_RUNTIME_DIR"] = runtime
        for name, (robot, node, bar_s, bar_mb) in CASES.items():
            measure(robot, node)  # warms the caches
            runs = [measure(robot, node) for _ in range(REPEATS)]
            ready_s, best_s = statistics.median(run[0] for run in runs), min(run[0] for run in runs)
            memory = max(run[1] for run in runs)
            figures[name] = {
                "ready_median_s": ready_s,
                "ready_best_s": best_s,
                "memory_mb": memory,
            }
            bars += [at_most(f"{name}, ready, s", best_s, bar_s), at_most(f"{name}, memory, MB", memory, bar_mb)]
            print(f"{name:28} {ready_s:5.2f} s  {bar_s:5.1f} s  {memory:4.0f} MB  {bar_mb:4.0f} MB")
    figures["bars"] = bars
    if json_path is not None:
        Path(json_path).write_text(json.dumps(figures, indent=2) + "\n")
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE")
    main(parser.parse_args().json)
