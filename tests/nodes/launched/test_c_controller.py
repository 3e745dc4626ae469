"""The controller in C that docs/wire.md is enough for: built with Debian's libraries, it joins a live launch."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from nodes.client import Client
from nodes.transport.service import ServiceClient, ServiceError

SOURCE = Path(__file__).parents[3] / "launch" / "examples" / "my_controller.c"
NAME = "my_controller"
STRICT = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror"]
MSGPACK = ("-lmsgpackc", "-lmsgpack-c")  # its name up to Debian 12, and from 13 on
PACKAGES = "apt-get install gcc libc6-dev libzmq3-dev libmsgpack-dev (libmsgpack-c-dev from Debian 13 on)"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip(f"no C compiler: {PACKAGES}")
    headers = '#include "zmq.h"\n#include "msgpack.h"\n'
    found = subprocess.run([compiler, "-E", "-"], input=headers, capture_output=True, text=True, check=False)
    if found.returncode != 0:
        pytest.skip(f"no headers of ZeroMQ or MessagePack: {PACKAGES}")
    built = tmp_path_factory.mktemp("c") / NAME
    errors = []
    for library in MSGPACK:
        command = [compiler, *STRICT, "-o", str(built), str(SOURCE), "-lzmq", library]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
        if done.returncode == 0:
            return built
        errors.append(done.stderr)
    pytest.fail(f"{PACKAGES}: " + "\n".join(errors))


@pytest.fixture
def controlled(program: Path, ground: Any, until: Callable[..., None]) -> Iterator[tuple[Any, subprocess.Popen[str]]]:
    """A live launch without nodes, and the program beside it once it commands the arm."""
    launch = ground.start("launch", ground.launch_file())
    ground.wait_until_running(launch, 1)
    process = subprocess.Popen([program], env=ground.environment, stderr=subprocess.PIPE, text=True)

    def commands() -> bool:
        assert process.poll() is None, process.communicate()
        with Client(0) as client:
            return bool(client.sim_status()["commanded_by"] == NAME)

    try:
        until(commands)
        yield ground, process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def sockets(ground: Any) -> list[str]:
    return sorted(path.name for path in (ground.runtime / "armswing" / "0").glob(f"{NAME}*"))


def service(client: Client) -> ServiceClient:
    (entry,) = [entry for entry in client.nodes() if entry.name == NAME]
    return ServiceClient(entry.endpoints["service"])


def test_it_commands_answers_calls_and_leaves_nothing_behind(
    controlled: tuple[Any, subprocess.Popen[str]], until: Callable[..., None]
) -> None:
    ground, process = controlled
    with Client(0) as client, service(client) as ours:
        (entry,) = [entry for entry in client.nodes() if entry.name == NAME]
        assert entry.pid == process.pid
        assert sorted(entry.publishes) == ["rotary_pendulum/command", "status"]
        until(lambda: ours.call("status")["counters"]["sent"] > 100)
        status = client.sim_status()
        assert status["frames_refused"] == 0
        assert status["round_trip_p50_s"] > 0.0
        until(lambda: any(entry.name == NAME and entry.state == "ready" for entry in client.nodes()))
        first = ours.call("clock")
        second = ours.call("clock")
        assert first["received_ns"] <= first["answered_ns"] <= second["received_ns"]
        with pytest.raises(ServiceError, match="has the services clock, status and shutdown"):
            ours.call("fly")
        told = ground.run("node", "info", NAME)
        assert told.returncode == 0, told.stderr
        assert "rotary_pendulum/command" in told.stdout
        ours.call("shutdown")
    assert process.wait(10.0) == 0
    with Client(0) as client:
        until(lambda: all(entry.name != NAME for entry in client.nodes()))
    assert sockets(ground) == []


def test_it_outlives_what_is_no_message_and_a_reset(
    controlled: tuple[Any, subprocess.Popen[str]], until: Callable[..., None]
) -> None:
    ground, process = controlled
    noise = [
        b"",
        b"\xc1",
        b"\x81\xa4call",
        b"\x93\x01\x02\x03",
        b"\x83\xa2id\x01\xa4call\xa3fly\xa4args\x80",
        bytes(5000),
    ]
    with Client(0) as client, service(client) as ours, zmq.Context() as context:
        stranger = context.socket(zmq.DEALER)
        stranger.setsockopt(zmq.LINGER, 0)
        stranger.connect(ours.endpoint)
        for payload in noise:
            stranger.send(payload)
            stranger.send_multipart([payload, payload, payload])
        before = ours.call("status")["counters"]["sent"]
        until(lambda: ours.call("status")["counters"]["sent"] > before + 50)
        client.call("sim", "reset")
        before = ours.call("status")["counters"]["sent"]
        until(lambda: ours.call("status")["counters"]["sent"] > before + 50)
        stranger.close()
    process.terminate()
    assert process.wait(10.0) == 0
    assert sockets(ground) == []


def test_without_a_launch_it_says_so(program: Path, ground: Any) -> None:
    done = subprocess.run([program], env=ground.environment, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: no launch is live in domain 0")


def test_where_a_launch_was_killed_it_says_that_it_waits(program: Path, ground: Any) -> None:
    (ground.runtime / "armswing" / "0").mkdir(parents=True)  # as a launch leaves it that had no time to clear up
    process = subprocess.Popen([program], env=ground.environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("waiting: no launch answers in ")
    process.terminate()
    assert process.communicate(timeout=10.0)[1] == "ended: 0 states answered\n"
    assert process.returncode == 1
