"""What the node tests share: a private domain, plans, waiting for conditions, whole runs over sockets."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nodes.framework.launching.graph import owners_of
from nodes.framework.messages import Message, RobotState
from nodes.framework.messages.codec import decode
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.launch_plan import Plan, save_plan
from nodes.framework.simulation.server import SimServer
from nodes.framework.transport.domain import domain_folder
from nodes.framework.transport.registry import NodeEntry, Registry, RegistryClient
from nodes.framework.transport.service import ServiceClient
from robots import registry
from sim_core.mechanism import Actuator, Body, Joint, Mechanism, Servo, Y

# one domain for each process that runs tests: registries of other hosts take TCP ports by their domain
DOMAIN = 7 + 10 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
NODES = '''
from nodes.node import Node
from nodes.framework.messages import JointCommand, Message, JointReference, RobotState


class Damp(Node):
    subscribes = {"state": RobotState, "reference": JointReference}
    publishes = {"command": JointCommand}

    def on_message(self, name, message):
        if name == "state":
            torque = -0.01 * message.velocity[0]
            yield "command", JointCommand(name=["arm"], value=[torque], state_seq=message.seq)


class Sweep(Node):
    publishes = {"reference": JointReference}
    rate_hz = 100.0

    def on_tick(self, now):
        yield "reference", JointReference(name=["arm"], position=[now])


class Keep(Node):
    """Hears everything; `dump` gives (topic, seq) of all robot topics heard."""

    lossless = True
    subscribes = {"*": Message}
    services = {"dump": "what was heard"}

    def on_start(self, context):
        self.heard = []

    def on_message(self, name, message):
        if "/" in name:
            self.heard.append([name, message.seq, message.timestamp])

    def on_request(self, name, args):
        return self.heard


class OneShot(Node):
    """Commands once, then is silent."""

    subscribes = {"state": RobotState}
    publishes = {"command": JointCommand}
    said = False

    def on_message(self, name, message):
        if not self.said:
            self.said = True
            yield "command", JointCommand(name=["arm"], value=[0.01], state_seq=message.seq)


class Broken(Node):
    subscribes = {"state": RobotState}

    def on_message(self, name, message):
        raise RuntimeError("the node is broken")
'''


def wait_until(condition: Callable[[], Any], timeout_s: float = 30.0) -> Any:
    """The first true value of `condition`; fails the test when none came in time."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.005)  # between two looks at the condition
    pytest.fail(f"waited {timeout_s} s in vain")


@pytest.fixture
def until() -> Callable[..., Any]:
    """`wait_until`, as tests have no module of helpers."""
    return wait_until


@pytest.fixture
def domain(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A domain in a folder of its own, with a path short enough for ipc."""
    folder = tempfile.mkdtemp(prefix="as")
    monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
    yield DOMAIN
    shutil.rmtree(folder)


@pytest.fixture
def node_file(tmp_path: Path) -> Path:
    """A file of small nodes for the rotary pendulum."""
    file = tmp_path / "small_nodes.py"
    file.write_text(NODES)
    return file


@pytest.fixture
def make_plan(node_file: Path, tmp_path: Path) -> Callable[..., Plan]:
    """make_plan("Damp", "Keep", mode="lockstep", duration_s=0.5, **{"sim.key": "value"}) -> Plan."""

    def make(*classes: str, **settings: Any) -> Plan:
        lines = [f"domain = {DOMAIN}"]
        if "duration_s" in settings:
            lines.append(f"duration_s = {settings.pop('duration_s')}")
        lines += ["[sim]", 'robot = "rotary_pendulum"']
        lines += [f"{key} = {value!r}".replace("'", '"') for key, value in settings.items()]
        for name in classes:
            lines += ["[[nodes]]", f'name = "{name.lower()}"', f'run = "{node_file.name}:{name}"']
        file = tmp_path / "plan.toml"
        file.write_text("\n".join(lines))
        return load_plan(file)

    return make


def two_link(effort_limit: float = 40.0) -> Mechanism:
    """An arm of two bars in a vertical plane, hanging at 0, with servos on both joints."""
    bars = tuple(
        Body(name=name, mass=mass, inertia=(mass / 48, 0.0, mass / 48, 0.0, 0.0, 0.0), center_of_mass=(0.0, 0.0, -0.25))
        for name, mass in (("upper", 2.0), ("lower", 1.0))
    )
    return Mechanism(
        name="two_link",
        coordinates="joint",
        bodies=bars,
        joints=(
            Joint(name="shoulder", child="upper", axis=Y, lower=-3.0, upper=3.0),
            Joint(name="elbow", parent="upper", child="lower", parent_point=(0.0, 0.0, -0.5), axis=Y),
        ),
        actuators=tuple(
            Actuator(
                name=f"{joint}_motor",
                joint=joint,
                effort_limit=effort_limit,
                velocity_limit=2.0,
                servo=Servo(stiffness=400.0, damping=20.0),
            )
            for joint in ("shoulder", "elbow")
        ),
        initial_q=(0.4, -0.3),
        initial_v=(0.0, 0.0),
        parameters={"effort_limit": effort_limit},
    )


@pytest.fixture
def arm(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of the two-bar arm, among the robots for this test."""
    monkeypatch.setitem(registry.BUILTIN, "two_link", two_link)
    return "two_link"


class Ear:
    """Keeps what a server says, decoded."""

    def __init__(self, server: SimServer) -> None:
        self.payloads: list[bytes] = []
        self.heard: list[tuple[str, Message]] = []
        server.out = self

    def __call__(self, topic: str, payload: bytes) -> None:
        self.payloads.append(payload)
        self.heard.append((topic, decode(topic, payload)))

    def all(self, kind: type[Message]) -> list[Any]:
        return [message for _, message in self.heard if isinstance(message, kind)]

    def state(self) -> RobotState:
        last: RobotState = self.all(RobotState)[-1]
        return last


@pytest.fixture
def started() -> Callable[[Plan], tuple[SimServer, Ear]]:
    """started(plan) -> the plan's server in this process, at its first state, and an ear for what it says."""

    def start(plan: Plan) -> tuple[SimServer, Ear]:
        server = SimServer(plan)
        ear = Ear(server)
        server.start()
        return server, ear

    return start


class Run:
    """A plan's processes, a registry in this one, and a client for each service."""

    def __init__(self, plan: Plan, start: bool = True) -> None:
        self.plan = plan
        self.registry = Registry(plan.domain, owners=owners_of(plan))
        self.registry.__enter__()
        self.file = domain_folder(plan.domain) / "plan.json"
        save_plan(plan, self.file)
        self.client = RegistryClient(plan.domain)
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self._services: dict[str, ServiceClient] = {}
        self.closed = False
        if start:
            for name in ["sim", *(node.name for node in plan.nodes)]:
                self.start(name)

    def start(self, name: str) -> None:
        command = [
            sys.executable,
            "-P",
            "-m",
            "nodes.framework.launching.process",
            "--plan",
            str(self.file),
            "--node",
            name,
        ]
        self.processes[name] = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        wait_until(lambda: self._is_ready(name), 30.0)

    def _is_ready(self, name: str) -> bool:
        process = self.processes[name]
        if process.poll() is not None:
            pytest.fail(f"{name} ended: {process.communicate()[1]}")
        entry = self.entry(name)
        return entry is not None and entry.pid == process.pid and entry.state not in ("starting", "failed")

    def entry(self, name: str) -> NodeEntry | None:
        return next((entry for entry in self.client.nodes() if entry.name == name), None)

    def call(self, name: str, service: str, **args: Any) -> Any:
        if name not in self._services:
            entry = wait_until(lambda: self.entry(name))
            self._services[name] = ServiceClient(entry.endpoints["service"])
        return self._services[name].call(service, args, 30.0)

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.call("sim", "status")
        return found

    def until(self, timeout_s: float = 60.0, **wanted: Any) -> dict[str, Any]:
        found: dict[str, Any] = wait_until(
            lambda: next((s for s in [self.status()] if all(s[key] == value for key, value in wanted.items())), None),
            timeout_s,
        )
        return found

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        for process in self.processes.values():
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
            process.communicate()
        for service in self._services.values():
            service.close()
        self.client.close()
        self.registry.close()


@pytest.fixture
def run(domain: int) -> Iterator[Callable[..., Run]]:
    """run(plan) starts everything and waits until all are ready; all of it is gone after the test."""
    runs: list[Run] = []

    def begin(plan: Plan, start: bool = True) -> Run:
        runs.append(Run(plan, start))
        return runs[-1]

    yield begin
    for each in runs:
        each.close()
