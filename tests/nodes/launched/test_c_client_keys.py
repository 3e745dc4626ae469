"""The client library in C with keys: which peers it lets in, and its refusals where keys are wrong or missing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
import zmq
from zmq.utils import z85

from nodes.cli.application import run
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.key_checks import PlanError
from tests.aarch64 import sodium

PACKAGES = "apt-get install make gcc libc6-dev libsodium-dev"
REPLY_MS = 5000
CHECK_MS = 500  # interval in which the client looks for revoked keys
HERE = "127.0.0.1"


@pytest.fixture(scope="module", params=["here", pytest.param("aarch64", marks=pytest.mark.soak)])
def programs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """The controller of the library, built with keys and without; the one with keys also for emulated aarch64."""
    compiler = shutil.which("cc")
    if not (shutil.which("make") and compiler):
        pytest.skip(f"no make or no C compiler: {PACKAGES}")
    asked = subprocess.run([compiler, "-include", "sodium.h", "-E", "-xc", "/dev/null"], capture_output=True)
    if asked.returncode != 0:
        pytest.skip(f"no libsodium: {PACKAGES}")
    built = {}
    for keys in (False, True):
        folder = tmp_path_factory.mktemp("c")
        assert run(["export", "client", "--lang", "c", "--output", str(folder)]) == 0
        make = ["make", "-C", folder, f"CURVE={int(keys)}", "CFLAGS=-O2 -Wall -Wextra -Werror"]
        done = subprocess.run(make, capture_output=True, text=True, timeout=100, check=False)
        assert done.returncode == 0, done.stderr
        built[keys] = folder / "my_controller"
    if request.param == "aarch64":
        other = tmp_path_factory.mktemp("c")
        assert run(["export", "client", "--lang", "c", "--output", str(other)]) == 0
        if (program := sodium.build(other, "my_controller")) is None:
            pytest.skip(f"no compiler, emulator or libsodium for aarch64: {sodium.MISSING}")
        built[True] = program
    return built


def pair() -> tuple[str, str]:
    """A new key pair, (public, secret), in hexadecimal."""
    public, secret = (z85.decode(half).hex() for half in zmq.curve_keypair())
    return public, secret


class Computer:
    """The folders of a computer that is part of a launch on several: its keys, and its configuration.

    own, friend  key pairs of its user and of a computer on its allow-list
    """

    def __init__(self, ground: Any) -> None:
        self.folder = ground.runtime / "armswing" / "0"
        self.folder.mkdir(parents=True, mode=0o700)
        self.keys = ground.folder / "config" / "armswing" / "keys"
        self.keys.mkdir(parents=True, mode=0o700)
        self.environment = {**ground.environment, "XDG_CONFIG_HOME": str(ground.folder / "config")}
        self.own, self.friend = pair(), pair()
        self.write("own", f"robot {self.own[0]} {self.own[1]}\n")
        self.write("allowed", f"# the desk\ndesk {self.friend[0]}  # at the window\n")
        self.configure()

    def write(self, leaf: str, text: str, mode: int = 0o600) -> None:
        (self.keys / leaf).write_text(text)
        (self.keys / leaf).chmod(mode)

    def configure(self, **more: str) -> None:
        """Write the configuration of this computer, as a launch does."""
        (self.folder / "host.json").write_bytes(msgspec.json.encode({"host": "robot", "address": HERE, **more}))

    @contextmanager
    def started(self, program: Path) -> Iterator[subprocess.Popen[str]]:
        process = subprocess.Popen([program], env=self.environment, stderr=subprocess.PIPE, text=True)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()


@contextmanager
def connected(port: int, server: str, own: tuple[str, str]) -> Iterator[zmq.Socket[bytes]]:
    """A socket that is connected over tcp with keys."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.CURVE_SERVERKEY, bytes.fromhex(server))
        socket.setsockopt(zmq.CURVE_PUBLICKEY, bytes.fromhex(own[0]))
        socket.setsockopt(zmq.CURVE_SECRETKEY, bytes.fromhex(own[1]))
        socket.setsockopt(zmq.HEARTBEAT_IVL, 100)
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 300)
        socket.connect(f"tcp://{HERE}:{port}")
        yield socket


def call(port: int, server: str, own: tuple[str, str], name: str, timeout_ms: int = REPLY_MS) -> dict[str, Any] | None:
    """Reply to a call over tcp with keys; None without one."""
    with connected(port, server, own) as socket:
        socket.send(msgspec.msgpack.encode({"id": 7, "call": name, "args": {}}))
        if not socket.poll(timeout_ms):
            return None
        return dict(msgspec.msgpack.decode(socket.recv()))


def service_port(process: subprocess.Popen[str], until: Callable[..., None]) -> int:
    """Port of the sockets for other computers that replies to calls: data is bound first, then service."""

    def ports() -> list[int]:
        found = psutil.Process(process.pid).net_connections("tcp")
        return [each.laddr.port for each in sorted(found, key=lambda each: each.fd) if each.status == "LISTEN"]

    until(lambda: len(ports()) == 2)
    return ports()[1]


def test_calls_are_answered_for_allowed_keys_alone_and_a_stranger_is_counted(
    programs: dict[bool, Path], ground: Any, until: Callable[..., None]
) -> None:
    robot = Computer(ground)
    with robot.started(programs[True]) as process:
        port = service_port(process, until)
        public = robot.own[0]
        told = call(port, public, robot.friend, "status")
        assert told is not None
        assert told["ok"]
        assert told["result"]["node"] == "my_controller"
        assert call(port, public, pair(), "status", 500) is None  # a stranger
        assert call(port, pair()[0], robot.friend, "status", 500) is None  # who takes it for another
        refused = call(port, public, robot.friend, "shutdown")
        assert refused is not None
        assert refused["error"] == "only this computer and the host of the launch's server may end its nodes"
        large = call(port, public, robot.friend, 300 * "x")  # more than a byte's length
        assert large is not None
        assert "has no service" in large["error"]
        with connected(port, public, robot.friend) as open_one:
            open_one.send(msgspec.msgpack.encode({"id": 7, "call": "clock", "args": {}}))
            assert open_one.poll(REPLY_MS)
            robot.write("allowed", "")
            assert call(port, public, robot.friend, "status", 2 * CHECK_MS) is None  # revoked
        assert process.poll() is None
        process.terminate()
        assert process.wait(10.0) == 1  # no launch was there
        assert process.stderr is not None
        output = process.stderr.read()
    assert f"closed connections: key {robot.friend[0]} is not allowed" in output
    assert "rejected 1 connections, the last from 127.0.0.1: a key that is not allowed" in output


def test_a_node_of_the_launch_may_be_shut_down_from_the_server_s_computer(
    programs: dict[bool, Path], ground: Any, until: Callable[..., None]
) -> None:
    robot = Computer(ground)
    robot.configure(calls=f"tcp://{HERE}:9#{robot.friend[0]}", news=f"tcp://{HERE}:9#{robot.friend[0]}")
    with robot.started(programs[True]) as process:
        told = call(service_port(process, until), robot.own[0], robot.friend, "shutdown")
        assert told is not None
        assert told["ok"]
        assert process.wait(10.0) == 1


def test_where_the_other_computer_does_not_answer_it_says_where_it_waits(
    programs: dict[bool, Path], ground: Any
) -> None:
    robot = Computer(ground)
    robot.configure(calls=f"tcp://{HERE}:9#{robot.friend[0]}", news=f"tcp://{HERE}:9#{robot.friend[0]}")
    with robot.started(programs[True]) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == (
            f"waiting: no launch answers at tcp://{HERE}:9; is the launch running there, and this computer's key "
            "allowed? Ctrl-C ends\n"
        )


def own_of_others(robot: Computer) -> str:
    robot.write("own", f"robot {robot.own[0]} {robot.own[1]}\n", mode=0o644)
    return f"{robot.keys}/own is open to other users (mode 0644); close it with 'chmod go-rwx {robot.keys}/own'"


def own_folder_of_others(robot: Computer) -> str:
    robot.keys.chmod(0o777)
    return f"{robot.keys} is open to other users (mode 0777); close it with 'chmod go-w {robot.keys}'"


def no_own(robot: Computer) -> str:
    (robot.keys / "own").unlink()
    return f"no key at {robot.keys}/own: 'armswing keys new' makes one"


def half_of_another(robot: Computer) -> str:
    robot.write("own", f"robot {robot.own[0]} {robot.friend[1]}\n")
    return f"{robot.keys}/own holds no key; make another with 'armswing keys new NAME --force'"


@pytest.mark.parametrize("mistake", [own_of_others, own_folder_of_others, no_own, half_of_another])
def test_a_key_that_cannot_be_used_is_one_line(
    mistake: Callable[[Computer], str], programs: dict[bool, Path], ground: Any
) -> None:
    robot = Computer(ground)
    line = mistake(robot)
    done = subprocess.run([programs[True]], env=robot.environment, capture_output=True, text=True, timeout=20)
    assert done.returncode == 2
    assert done.stderr == f"error: address 'tcp://{HERE}' is refused without keys: {line}\n"


@pytest.mark.parametrize(
    ("allowed", "line"),
    [
        ("", "key {key} is not allowed; allow it with 'armswing keys allow NAME {key}'"),
        ("desk 12ab\n", "{file}, line 1 is invalid; write a name and a key of 64 hexadecimal digits"),
    ],
)
def test_a_server_whose_key_is_not_allowed_is_one_line(
    allowed: str, line: str, programs: dict[bool, Path], ground: Any
) -> None:
    robot = Computer(ground)
    robot.write("allowed", allowed)
    key = robot.friend[0]
    robot.configure(calls=f"tcp://{HERE}:9#{key}", news=f"tcp://{HERE}:9#{key}")
    with robot.started(programs[True]) as process:
        assert process.stderr is not None
        reason = line.format(key=key, file=robot.keys / "allowed")
        assert process.stderr.readline() == f"WARNING cannot connect to 'tcp://{HERE}:9': {reason}\n"


def test_without_keys_it_refuses_a_launch_on_another_computer(programs: dict[bool, Path], ground: Any) -> None:
    robot = Computer(ground)
    robot.configure(calls=f"tcp://{HERE}:9#{robot.friend[0]}", news=f"tcp://{HERE}:9#{robot.friend[0]}")
    done = subprocess.run([programs[False]], env=robot.environment, capture_output=True, text=True, timeout=20)
    assert done.returncode == 2
    assert done.stderr == (
        "error: host 'robot' reaches its launch with keys, and this program was built without them; build it with "
        "'make CURVE=1'\n"
    )


def test_a_plan_says_whether_its_program_can_run_on_another_computer(programs: dict[bool, Path], ground: Any) -> None:
    table = '[[nodes]]\nname = "hold"\nrun = "{}"\nhost = "robot"\n'
    more = '[hosts]\ndesk = "10.0.0.1"\nrobot = "10.0.0.2"\n'
    files = {keys: ground.launch_file(table.format(program), more=more) for keys, program in programs.items()}
    for file in files.values():
        file.write_text(file.read_text().replace("[sim]", '[sim]\nhost = "desk"'))
    assert load_plan(files[True]).node("hold").host == "robot"
    with pytest.raises(PlanError, match=r"'hold' is a program that was built without keys.*'make CURVE=1'"):
        load_plan(files[False])
    for keys, program in programs.items():
        told = json.loads(subprocess.check_output([program, "--describe"], env=os.environ))
        assert told["curve"] is keys
