"""What a robot does after the link of its environment is lost: time until it is safe, and motion until the next action.

    python tests/benchmarks/lost_links.py [--json FILE]

The launch of docs/guides/environments.md: an emulated robot behind its driver and guard, in real time, that an
environment with backend="wire" moves. The link is lost LOSSES times, in turn in two ways: the program is silent, or the
process of the node `port` is frozen and goes on after the guard has stopped the robot. Times are those of the messages.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from bars import at_most, json_file

from armswing.environments import ROTARY_PENDULUM, VectorEnvironment
from nodes.framework.client import Client
from nodes.framework.messages import Event, JointCommand, RobotState
from sim_core.errors import InvalidRequest

LOSSES = 100
ACTIONS = 5  # before a link is lost
WAIT_S, START_S = 60.0, 600.0  # longest wait for anything, and for a launch that may compile its loops, s
AGAIN_S = 0.3  # time for which an idle robot is watched, s
PAGE = Path(__file__).resolve().parents[2] / "docs/guides/environments.md"
LAUNCH = next(text for text in re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL) if "[nodes.guard]" in text)
TICK_MS = 1e3 / 200.0  # of the driver
HEARTBEAT_MS = next(node["guard"] for node in tomllib.loads(LAUNCH)["nodes"] if "guard" in node)["heartbeat_ms"]
TASK = ROTARY_PENDULUM  # hangs at the start, so that without an effort it does not move


@dataclass
class Heard:
    """What was published, with times in s.

    motion  (time, largest measured speed, rad/s) of the robot
    given   (time, largest effort, N m) of each command that its motors got
    sent    times of the commands of the node `port`
    stops   times at which the guard began to stop the robot because the commands of an action ended
    """

    motion: list[tuple[float, float]] = field(default_factory=list)
    given: list[tuple[float, float]] = field(default_factory=list)
    sent: list[float] = field(default_factory=list)
    stops: list[float] = field(default_factory=list)

    def listen(self, client: Client) -> None:
        """Keep messages until the client is closed."""
        topics = [f"{TASK.robot}/{name}" for name in ("measured_state", "applied_command", "command", "event")]
        with contextlib.suppress(Exception):  # the client closes while it waits
            for topic, message in client.stream(*topics):
                if isinstance(message, RobotState):
                    self.motion.append((message.timestamp, max(map(abs, message.velocity))))
                elif isinstance(message, JointCommand) and topic.endswith("/applied_command"):
                    self.given.append((1e-9 * message.sent_ns, max(map(abs, message.value))))
                elif isinstance(message, JointCommand):
                    self.sent.append(1e-9 * message.sent_ns)
                elif isinstance(message, Event) and message.detail.startswith("no command to "):
                    self.stops.append(1e-9 * message.sent_ns)

    def watch(self) -> list[float]:
        """Largest speeds that the robot measures from now on, for AGAIN_S of its time."""
        wait_for(lambda: self.motion)
        mark, begin = len(self.motion), self.motion[-1][0]
        wait_for(lambda: self.motion[-1][0] > begin + AGAIN_S)
        return [speed for _, speed in self.motion[mark:]]


def wait_for(done: Callable[[], Any], most_s: float = WAIT_S) -> Any:
    """The first true value of done(). Raises TimeoutError after most_s seconds."""
    deadline = time.monotonic() + most_s
    while not (value := done()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {most_s:g} s in vain")
        time.sleep(0.01)
    return value


@contextlib.contextmanager
def launched() -> Iterator[Client]:
    """The launch of the guide with a domain folder of its own, once its robot moves in time."""
    before = os.environ.get("XDG_RUNTIME_DIR")
    with tempfile.TemporaryDirectory(prefix="aw-", dir="/tmp") as folder:  # paths of sockets have a limit
        os.environ["XDG_RUNTIME_DIR"] = folder
        file = Path(folder) / "robot.toml"
        file.write_text(LAUNCH)
        command = [sys.executable, "-P", "-m", "nodes.cli", "launch", str(file)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
        try:
            with wait_for(lambda: live(process), START_S) as client:
                yield client
        finally:
            process.terminate()
            process.wait()
            del os.environ["XDG_RUNTIME_DIR"]
            if before is not None:
                os.environ["XDG_RUNTIME_DIR"] = before


def live(process: subprocess.Popen[bytes]) -> Client | None:
    """A client of the launch; None before it simulates."""
    if process.poll() is not None:
        raise RuntimeError(f"the launch ended with exit code {process.returncode}")
    with contextlib.suppress(LookupError, RuntimeError, ConnectionError):
        client = Client(0)
        if client.sim_status()["time"] > 0.0:
            return client
        client.close()
    return None


def rests_after_reset(client: Client, heard: Heard) -> bool:
    """Put the robot back to its start; whether it then rests there. A starved process may miss a reset."""
    client.call("sim", "reset")
    return not any(heard.watch())


def measured(losses: int) -> dict[str, Any]:
    """Figures of `losses` lost links: times in ms, what an idle robot did, and numbers."""
    times: dict[str, list[float]] = {"last command to stop": [], "loss to stop": []}
    count = dict.fromkeys(("losses", "late", "frozen", "moved"), 0)
    idle = {"idle_effort": 0.0, "idle_speed": 0.0}
    with launched() as client, Client(0) as listener:
        heard, port = Heard(), client.node("port").pid
        threading.Thread(target=heard.listen, args=(listener,), daemon=True).start()

        def to_start(client: Client) -> None:
            wait_for(lambda: rests_after_reset(client, heard))
            client.estop(release=True)

        heard.watch()
        refused = VectorEnvironment(TASK, 1, backend="wire")
        with contextlib.suppress(InvalidRequest):
            refused.reset(seed=0)
            raise AssertionError("a reset without a procedure was not refused")
        env = VectorEnvironment(TASK, 1, backend="wire", procedure=to_start, autoreset_mode="Disabled")
        safe = time.time()
        for number in range(losses):
            env.reset(seed=0)
            idle["idle_speed"] = max(idle["idle_speed"], *heard.watch())
            since = max([safe, *heard.stops[-1:]])  # a late action may reach the robot after `safe`, and ends by a stop
            idle["idle_effort"] = max(idle["idle_effort"], *(effort for at, effort in heard.given if at > since), 0.0)
            stops, mark, truncated = len(heard.stops), len(heard.given), False
            for _ in range(1 if number % 2 else ACTIONS):
                if truncated := bool(env.step(np.ones((1, 1)))[3][0]):
                    break
            lost = time.time()
            if number % 2 and not truncated:
                os.kill(port, signal.SIGSTOP)
                if not env.step(np.ones((1, 1)))[4].get("late", [False])[0]:
                    raise AssertionError("an action without a reply did not end the episode")
                count["frozen"] += 1
            heard.watch()
            # a guard holds a robot that no action has reached
            while any(effort for _, effort in heard.given[mark:]) and not client.guards()["robot"].stopped:
                heard.watch()
            safe = time.time()
            os.kill(port, signal.SIGCONT)
            count["losses"] += 1
            count["late"] += int(truncated)
            if len(heard.stops) > stops:  # otherwise no action has reached the robot
                count["moved"] += 1
                stop = heard.stops[-1]
                for name, since in zip(times, (max(at for at in heard.sent if at < stop), lost), strict=True):
                    times[name].append(1e3 * (stop - since))
    return (
        idle | count | {name: {"p50_ms": float(np.median(each)), "most_ms": max(each)} for name, each in times.items()}
    )


def main(json_path: str | None = None) -> dict[str, Any]:
    """Print the figures and return them."""
    figures = measured(int(LOSSES))
    beyond = figures["last command to stop"]["p50_ms"] - HEARTBEAT_MS
    figures["bars"] = [
        at_most(
            "from the last command to the stop, median, beyond the heartbeat of the guard, ms", beyond, 2 * TICK_MS
        ),
        at_most("largest effort from a stop to the next action, N m", figures["idle_effort"], 0.0),
        at_most("largest speed from a reset to the first action, rad/s", figures["idle_speed"], 1e-6),
    ]
    print(
        f"{figures['losses']} lost links: {figures['frozen']} of a frozen node, {figures['late']} late by themselves; "
        f"{figures['moved']} with a moving robot; heartbeat of the guard {HEARTBEAT_MS:g} ms"
    )
    for name in ("last command to stop", "loss to stop"):
        print(f"{name:<24} p50 {figures[name]['p50_ms']:7.1f} ms, at most {figures[name]['most_ms']:7.1f} ms")
    for row in figures["bars"]:
        print(f"{row['what']:<80} {row['value']:8.4f}, bar {row['bar']:g}")
    if json_path is not None:
        Path(json_path).write_text(json.dumps(figures, indent=1))
    return figures


if __name__ == "__main__":
    main(json_file(__doc__))
