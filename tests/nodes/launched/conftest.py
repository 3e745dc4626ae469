"""Real launches in a domain folder of their own, and the small nodes they run."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest

NODES = """
import msgspec
from nodes.node import Node
from nodes.framework.messages import JointCommand, RobotState


class Damper(Node):
    subscribes = {"state": RobotState}
    publishes = {"command": JointCommand}

    class Params(msgspec.Struct, forbid_unknown_fields=True):
        damping: float = 1e-3  # N m s/rad
        joint: str = "arm"
        mode: str = "effort"
        fails_at: float = 1e9  # s
        not_finite_at: float = 1e9  # s

    @classmethod
    def check(cls, params, plan):
        if params.damping > 1.0:
            raise ValueError(f"damping is {params.damping:g}; {plan.sim.robot} takes 1 N m s/rad at most")

    def on_start(self, context):
        self.params = context.params

    def on_parameters(self, params):
        self.params = params

    def on_message(self, name, state):
        if state.timestamp > self.params.fails_at:
            raise RuntimeError("the damper is on fire")
        effort = -self.params.damping * state.velocity[0]
        if state.timestamp > self.params.not_finite_at:
            effort = float("nan")
        yield "command", JointCommand(
            mode=self.params.mode, name=[self.params.joint], value=[effort], state_seq=state.seq
        )


class Thinker(Node):
    subscribes = {"state": RobotState}
    publishes = {"command": JointCommand}

    def on_message(self, name, state):
        return None


class Listener(Node):
    subscribes = {"state": RobotState}

    class Params(msgspec.Struct, forbid_unknown_fields=True):
        fails_at_start: bool = False

    def on_start(self, context):
        if context.params.fails_at_start:
            raise RuntimeError("cannot listen today")
"""

SIM = '[sim]\nrobot = "rotary_pendulum"\nmode = "{mode}"\nstep_ms = 5.0\n'
NODE = '[[nodes]]\nname = "{name}"\nrun = "my_nodes.py:{cls}"\n{more}\n'
DEADLINE_S = 60.0


class Ground:
    """A project folder with nodes and launch files, and a runtime folder with short paths for sockets."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runtime = folder / "run"
        self.runtime.mkdir(mode=0o700)
        (folder / "my_nodes.py").write_text(NODES)
        self.environment = {**os.environ, "XDG_RUNTIME_DIR": str(self.runtime), "COLUMNS": "200"}
        self.environment.pop("ARMSWING_DOMAIN", None)
        self._started: list[subprocess.Popen[str]] = []

    def launch_file(self, nodes: str = "", mode: str = "realtime", more: str = "") -> Path:
        """Write a launch file; `nodes` as TOML tables, see `node`."""
        path = self.folder / f"plan_{len(list(self.folder.glob('plan_*')))}.toml"
        path.write_text(more + SIM.format(mode=mode) + nodes)
        return path

    @staticmethod
    def node(cls: str, name: str = "", more: str = "") -> str:
        """A [[nodes]] table."""
        return NODE.format(name=name or cls.lower(), cls=cls, more=more)

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        """Start `armswing ...`, its stderr to a file beside; ended with the test whatever happens."""
        command = [sys.executable, "-P", "-m", "nodes.cli", *map(str, arguments)]
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def run(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Run `armswing ...` to its end."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=DEADLINE_S)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def nodes_of(self, process: subprocess.Popen[str]) -> list[psutil.Process]:
        """The processes of a launch's nodes and of its viewer."""
        nodes = []
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):  # ended meanwhile
                if child.name() != "armswing: fork server":
                    nodes.append(child)
        return nodes

    def wait_until_running(self, process: subprocess.Popen[str], count: int) -> list[psutil.Process]:
        """The processes of a launch's nodes and viewer once there are `count` of them and the simulation moves."""
        from nodes.framework.client import Client

        def moving() -> bool:
            assert process.poll() is None, f"the launch ended: {process.communicate()}"
            try:
                with Client(0) as client:
                    return float(client.sim_status()["time"]) > 0.0
            except (LookupError, RuntimeError, ConnectionError):
                return False

        wait_for(moving)
        children = self.nodes_of(process)
        assert len(children) == count
        return children

    def close(self) -> None:
        """End everything that was started here."""
        for process in self._started:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.communicate(timeout=10.0)
                except subprocess.TimeoutExpired:
                    process.kill()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class CutLink(threading.Thread):
    """A relay in the place of a node's lockstep socket, which loses connections and all bytes in them.

    folder    folder of the domain
    node      name of the node
    next_cut  function that returns (bytes that the next connection relays, s without a link after it)
    cuts      number of connections that were lost
    """

    def __init__(self, folder: Path, node: str, next_cut: Callable[[], tuple[float, float]]) -> None:
        super().__init__(daemon=True)
        self.folder, self.node, self.next_cut = folder, node, next_cut
        self.cuts, self.over = 0, threading.Event()

    def run(self) -> None:
        """Take the socket's place before the server connects to it, and relay."""
        while not (found := list(self.folder.glob(f"{self.node}-*.step"))):
            if self.over.wait(0.002):
                return
        behind = found[0].with_suffix(".behind")
        found[0].rename(behind)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(found[0]))
            listener.listen()
            listener.settimeout(0.05)
            while not self.over.is_set():
                most, down_s = self.next_cut()
                if self._relay_one(listener, behind, most):
                    self.cuts += 1
                    self._refuse(listener, down_s)
        behind.unlink(missing_ok=True)

    def _relay_one(self, listener: socket.socket, behind: Path, most: float) -> bool:
        """Relay one connection until it has carried `most` bytes; whether it was lost."""
        while not self.over.is_set():
            with contextlib.suppress(TimeoutError), listener.accept()[0] as server:
                with socket.socket(socket.AF_UNIX) as node:
                    node.connect(str(behind))
                    self._relay(server, node, most)
                return not self.over.is_set()
        return False

    def _relay(self, server: socket.socket, node: socket.socket, most: float) -> None:
        """Relay both ways; the bytes beyond `most` are lost."""
        relayed = 0
        while relayed < most and not self.over.is_set():
            for each in select.select([server, node], [], [], 0.05)[0]:
                data = each.recv(4096)
                if not data:
                    return
                relayed += len(data)
                if relayed < most:
                    (node if each is server else server).sendall(data)

    def _refuse(self, listener: socket.socket, down_s: float) -> None:
        """End each new connection at once, for `down_s` seconds."""
        until = time.monotonic() + down_s
        while time.monotonic() < until and not self.over.is_set():
            with contextlib.suppress(TimeoutError):
                listener.accept()[0].close()


def wait_for(done: Callable[[], object], deadline_s: float = DEADLINE_S) -> None:
    """Return when done() is true; fail at the deadline."""
    deadline = time.monotonic() + deadline_s
    while not done():
        assert time.monotonic() < deadline, f"not within {deadline_s} s"
        time.sleep(0.02)


def gone(processes: Sequence[psutil.Process], deadline_s: float) -> bool:
    """Whether all processes ended within the deadline; one that nobody reaped has ended too."""
    deadline = time.monotonic() + deadline_s
    while time.monotonic() < deadline:
        if not [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]:
            return True
        time.sleep(0.02)
    return False


def _ground() -> Iterator[Ground]:
    # Not pytest's tmp_path: socket paths may have 107 characters.
    ground = Ground(Path(tempfile.mkdtemp(prefix="aw-", dir="/tmp")))
    before = os.environ.get("XDG_RUNTIME_DIR")
    os.environ["XDG_RUNTIME_DIR"] = str(ground.runtime)
    try:
        yield ground
    finally:
        if before is None:
            del os.environ["XDG_RUNTIME_DIR"]
        else:
            os.environ["XDG_RUNTIME_DIR"] = before
        ground.close()


@pytest.fixture
def ground() -> Iterator[Ground]:
    """A place of its own for each test."""
    yield from _ground()


@pytest.fixture(scope="module")
def live() -> Iterator[Ground]:
    """A launch that runs while a module's tests ask it things: sim, damper, listener."""
    for ground in _ground():
        plan = ground.launch_file(ground.node("Damper") + ground.node("Listener"))
        process = ground.start("launch", plan)
        ground.wait_until_running(process, 3)
        yield ground


@pytest.fixture
def are_gone() -> Callable[[Sequence[psutil.Process], float], bool]:
    """(processes, deadline_s) -> whether all have ended by then."""
    return gone


@pytest.fixture
def until() -> Callable[..., None]:
    """(condition, deadline_s=60): wait for it, or fail."""
    return wait_for


@pytest.fixture
def cut_link(ground: Ground) -> Callable[..., contextlib.AbstractContextManager[CutLink]]:
    """(node, next_cut) -> context manager: the lockstep link of a node of the next launch is lost again and again."""

    @contextlib.contextmanager
    def cut(node: str, next_cut: Callable[[], tuple[float, float]]) -> Iterator[CutLink]:
        link = CutLink(ground.runtime / "armswing" / "0", node, next_cut)
        link.start()
        try:
            yield link
        finally:
            link.over.set()
            link.join()

    return cut
