"""The client library in C: exported and built without warnings, its controller joins launches as a Python node does."""

from __future__ import annotations

import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest
import zmq

from nodes.cli.application import run
from nodes.framework.client import Client, read_recording
from nodes.framework.messages import Event, JointCommand
from nodes.framework.messages.codec import decode
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.key_checks import PlanError
from nodes.framework.plan.node_classes import load_class
from nodes.framework.simulation.compose import Composition
from nodes.framework.transport.service import ServiceClient, ServiceError

NAME = "my_controller"
STRICT = "CFLAGS=-O2 -Wall -Wextra -Werror"
PACKAGES = "apt-get install make gcc libc6-dev"
COMMAND = "rotary_pendulum/command"
RECORDER = '[[nodes]]\nname = "recorder"\nrun = "nodes/recorder.py:Recorder"\nparams = {{ file = "{file}" }}\n'
CONTROLLER = '[[nodes]]\nname = "my_controller"\nrun = "{run}"\nparams = {{ angle_deg = 20.0 }}\n'
PYTHON = Path(__file__).parents[3] / "launch" / "examples" / "my_controller.py"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (shutil.which("make") and (shutil.which("cc") or shutil.which("gcc"))):
        pytest.skip(f"no make or no C compiler: {PACKAGES}")
    folder = tmp_path_factory.mktemp("c")
    assert run(["export", "client", "--lang", "c", "--output", str(folder)]) == 0
    done = subprocess.run(["make", "-C", folder, STRICT], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return folder / NAME


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
        assert {"rotary_pendulum/command", "status"} <= set(entry.publishes)
        until(lambda: ours.call("status")["counters"]["sent"] > 100)
        status = client.sim_status()
        assert status["frames_refused"] == 0
        assert status["round_trip_p50_s"] > 0.0
        until(lambda: any(entry.name == NAME and entry.state == "ready" for entry in client.nodes()))
        first = ours.call("clock")
        second = ours.call("clock")
        assert first["received_ns"] <= first["answered_ns"] <= second["received_ns"]
        with pytest.raises(ServiceError, match="has no service 'fly'; its services are clock, describe_parameters"):
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
    noise: list[bytes] = [
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


def test_it_prints_once_why_its_commands_are_refused(
    controlled: tuple[Any, subprocess.Popen[str]], until: Callable[..., None]
) -> None:
    _, process = controlled
    assert process.stderr is not None
    with Client(0) as client:

        def refused() -> tuple[int, str]:
            told = client.sim_status()["commands_refused"].get(NAME, {"count": 0, "reason": ""})
            return told["count"], told["reason"]

        for reason in ("a hand in the cell", "a hand in the cell", "the door is open"):
            before = refused()[0]
            client.estop(reason)
            until(lambda before=before, reason=reason: refused() > (before, "") and refused()[1] == reason)
            client.estop(release=True)
    lines = [process.stderr.readline() for _ in range(3)]
    assert lines == [
        "my_controller: joined robot rotary_pendulum\n",
        "WARNING my_controller: the simulation refuses the node's commands: a hand in the cell\n",
        "WARNING my_controller: the simulation refuses the node's commands: the door is open\n",
    ]


def test_a_program_of_another_protocol_or_of_a_taken_name_is_one_line_and_the_first_one_goes_on(
    program: Path, ground: Any, until: Callable[..., None], tmp_path: Path
) -> None:
    source = (program.parent / "armswing_client.c").read_text()
    assert source.count("PROTOCOL = 2,") == 1
    newer = shutil.copytree(program.parent, tmp_path / "newer")
    (newer / "armswing_client.c").write_text(source.replace("PROTOCOL = 2,", "PROTOCOL = 3,"))
    subprocess.run(["make", "-B", "-C", newer], capture_output=True, timeout=100, check=True)
    launch = ground.start("launch", ground.launch_file())
    ground.wait_until_running(launch, 1)
    first = subprocess.Popen([program], env=ground.environment, stderr=subprocess.DEVNULL)
    with Client(0) as client:
        until(lambda: client.sim_status()["commanded_by"] == NAME)
    protocol = f"register: node '{NAME}' uses protocol 3, this armswing protocol 2: it is of newer software; update the"
    for binary, reason in (
        (newer / NAME, protocol),
        (program, f"register: name '{NAME}' is taken by the live process"),
    ):
        done = subprocess.run([binary], env=ground.environment, capture_output=True, text=True, timeout=20, check=False)
        assert (done.returncode, done.stderr.splitlines()[-1]) == (2, f"{NAME}: ended after 0 messages")
        assert f"error: the registry refuses {NAME}: " in done.stderr
        assert reason in done.stderr
    with Client(0) as client:
        assert client.sim_status()["commanded_by"] == NAME
        pid = next(entry.pid for entry in client.nodes() if entry.name == NAME)
    assert (first.poll(), pid) == (None, first.pid)
    launch.send_signal(signal.SIGINT)
    _, errors = launch.communicate(timeout=30.0)
    first.kill()
    first.wait()
    assert "unregister" not in errors


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
    assert process.communicate(timeout=10.0)[1] == "my_controller: ended after 0 messages\n"
    assert process.returncode == 1


def test_param_sets_its_parameters_and_refuses_what_does_not_fit(
    controlled: tuple[Any, subprocess.Popen[str]], until: Callable[..., None]
) -> None:
    ground, _ = controlled
    told = ground.run("param", "set", NAME, "angle_deg", "45")
    assert told.returncode == 0, told.stderr
    assert "45" in ground.run("param", "get", NAME, "angle_deg").stdout
    with Client(0) as client, service(client) as ours:
        with pytest.raises(ServiceError, match=r"angle_deg = 500 is not in -360 \.\. 360 deg"):
            ours.call("set_parameters", {"stiffness": 0.5, "angle_deg": 500})
        with pytest.raises(ServiceError, match="unknown key 'angle'; its parameters are angle_deg, stiffness, damping"):
            ours.call("set_parameters", {"angle": 1.0})
        assert ours.call("get_parameters") == {"angle_deg": 45.0, "stiffness": 0.02, "damping": 0.003}
        assert ours.call("describe_parameters")["angle_deg"] == {"unit": "deg", "low": -360.0, "high": 360.0}


def test_in_lockstep_its_commands_are_those_of_the_same_controller_in_python_also_over_a_link_that_is_lost(
    program: Path, ground: Any, cut_link: Callable[..., Any]
) -> None:
    recorded = []
    for language, source in (("c", str(program)), ("python", f"{PYTHON}:HoldArm")):
        nodes = CONTROLLER.format(run=source) + RECORDER.format(file=f"{language}.mcap")
        with cut_link(NAME, lambda: (20_000, 0.0)) as link:
            done = ground.run("launch", ground.launch_file(nodes, mode="lockstep"), "--duration", "1")
        assert done.returncode == 0, done.stdout + done.stderr
        assert link.cuts > 3
        recorded.append(read_recording(ground.folder / f"{language}.mcap"))
    ours, theirs = recorded
    without_link: list[list[float]] = []

    def carry(topic: str, payload: bytes) -> None:
        if topic == COMMAND:
            without_link.append(decode(topic, payload, JointCommand).value)

    plan = load_plan(ground.launch_file(CONTROLLER.format(run=f"{PYTHON}:HoldArm"), mode="lockstep"))
    with Composition(plan, carry) as here:
        here.run(1.0)
    assert ours[COMMAND]["value"].tolist() == without_link
    assert len(ours[COMMAND]["value"]) == 200
    for topic in (COMMAND, "rotary_pendulum/state", f"rotary_pendulum/{NAME}/plot"):
        assert {key for key in theirs[topic] if not key.startswith("units.")} == set(
            ours[topic]
        )  # of plots, C has none
        for key, column in ours[topic].items():
            assert column.tobytes() == theirs[topic][key].tobytes(), (topic, key)


def test_a_late_copy_of_an_earlier_turn_is_refused_and_not_run_again(
    program: Path, ground: Any, until: Callable[..., None]
) -> None:
    folder = ground.runtime / "armswing" / "0"
    folder.mkdir(parents=True)
    options = ["--launched", "--name", NAME, "--robot", "rotary_pendulum", "--folder", str(folder)]
    process = subprocess.Popen(
        [program, *options, "--mode", "lockstep", "--participant", "1"], env=ground.environment, stderr=subprocess.PIPE
    )
    state = {"name": ["arm"], "position": [0.1], "velocity": [0.0], "timestamp": 0.0, "seq": 1}

    def turn(link: Any, seq: int) -> Any:
        payload = msgpack.packb({**state, "timestamp": 0.005 * seq, "seq": seq})
        link.send(msgpack.packb([seq, 0.005 * seq, [["rotary_pendulum/state", payload]]]))
        return msgpack.unpackb(link.recv()) if link.poll(5000) else None

    try:
        until(lambda: list(folder.glob(f"{NAME}-*.step")))
        with zmq.Context() as context, context.socket(zmq.DEALER) as old, context.socket(zmq.DEALER) as new:
            for link in (old, new):
                link.setsockopt(zmq.LINGER, 0)
                link.connect(f"ipc://{next(folder.glob(f'{NAME}-*.step'))}")
            old.send(msgpack.packb([1, 0.005, []]))
            first = msgpack.unpackb(old.recv())
            assert first[0] == 1
            new.send(msgpack.packb([1, 0.005, []]))  # sent again
            assert msgpack.unpackb(new.recv()) == first
            assert turn(new, 2)[0] == 2
            old.send(msgpack.packb([1, 0.005, []]))  # what the old link delivers once it is back
            assert not old.poll(200)
            third = turn(new, 3)
            assert third[0] == 3
            command = msgpack.unpackb(dict(map(tuple, third[1]))[COMMAND])
            assert (command["state_seq"], command["timestamp"]) == (3, 0.015)
    finally:
        process.terminate()
        _, err = process.communicate(timeout=10.0)
    assert b"dropped 1: (turn): a late copy of the request of an earlier turn" in err


DRIVER = """
#include "armswing_client.h"
#include <math.h>

static const char *const SUBSCRIBES[] = {"state", "command", NULL};
static const char *const PUBLISHES[] = {"measured_state", NULL};
static armswing_parameter parameters[] = {{"taken", 0.0, "", 0.0, HUGE_VAL}, {"braked", 0.0, "", 0.0, HUGE_VAL}, {0}};

static void on_message(armswing_client *client, const armswing_message *message) {
    (void)client;
    if (message->name[0] == 'c') parameters[0].value += 1.0;
}

static void on_emergency_stop(armswing_client *client, int stopped) {
    (void)client;
    parameters[1].value = stopped;
}

int main(int count, char **arguments) {
    armswing_node node = {0};
    node.name = "driver", node.subscribes = SUBSCRIBES, node.publishes = PUBLISHES, node.parameters = parameters;
    node.on_message = on_message, node.on_emergency_stop = on_emergency_stop;
    return armswing_main(count, arguments, &node);
}
"""


def test_a_driver_gets_no_commands_in_an_emergency_stop_until_it_is_released(
    program: Path, ground: Any, until: Callable[..., None]
) -> None:
    source, driver = program.parent / "driver.c", program.parent / "driver"
    source.write_text(DRIVER)
    subprocess.run(
        [
            "cc",
            "-std=c99",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-o",
            driver,
            source,
            program.parent / "armswing_client.c",
            "-lm",
        ],
        check=True,
        timeout=100,
    )
    nodes = ground.node("Damper") + f'[[nodes]]\nname = "driver"\nrun = "{driver}"\n'
    ground.wait_until_running(ground.start("launch", ground.launch_file(nodes)), 3)
    with Client(0) as client:

        def value(name: str) -> float:
            return float(client.call("driver", "get_parameters")[name])

        until(lambda: value("taken") > 20.0)
        answers = {each.node: (each.how, each.error) for each in client.estop("a hand in the cell")}
        assert answers == {
            "sim": ("safe mode zero_effort", ""),
            "driver": ("the driver stops the robot, and commands are held back", ""),
        }
        taken, received = value("taken"), client.call("driver", "status")["counters"]["received"]
        assert value("braked") == 1.0
        assert client.call("driver", "status")["emergency"] == "a hand in the cell"
        assert client.guards()["driver"].stopped == "a hand in the cell"
        until(lambda: client.call("driver", "status")["counters"]["received"] > received + 20)  # states
        assert value("taken") == taken
        client.estop("the door is open")
        with pytest.raises(ServiceError, match="another emergency stop was called meanwhile"):
            client.call("driver", "release", after=1)
        assert [each.error for each in client.estop(release=True)] == ["", ""]
        assert value("braked") == 0.0
        assert client.call("driver", "status")["emergency"] == ""
        until(lambda: value("taken") > taken + 20.0)

        def stop() -> None:
            with Client(0) as caller:
                caller.estop(150 * "ä")

        caller = threading.Timer(1.0, stop)
        caller.start()
        events = (message for _, message in client.stream("rotary_pendulum/event", timeout_s=20.0))
        told = next(
            each for each in events if isinstance(each, Event) and (each.kind, each.node) == ("estop", "driver")
        )
        caller.join()
        assert told.detail == 100 * "ä" + ": commands are held back"  # cut at 200 bytes


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (None, "write 'path/to/file.py:ClassName', or run 'chmod +x"),
        ("#!/bin/sh\necho hello\n", "with --describe it must print its topics and parameters as JSON"),
        ("#!/bin/sh\necho no such board >&2; exit 3\n", "(exit code 3: no such board)"),
        ("#!/no/such/interpreter\n", "cannot be run: No such file or directory"),
        ('#!/bin/sh\necho \'{"name": "old", "protocol": 1}\'\n', "uses protocol 1, this armswing protocol 2"),
    ],
)
def test_a_program_that_is_no_node_is_one_line(content: str | None, line: str, tmp_path: Path) -> None:
    file = tmp_path / "mine"
    file.write_text(content or "text")
    if content is not None:
        file.chmod(0o755)
    with pytest.raises(PlanError) as caught:
        load_class("mine", tmp_path)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_parameter_of_a_program_is_checked_before_the_launch(program: Path, ground: Any) -> None:
    for key, line in (("angle_deg = 500", "is 500, not in -360 .. 360 deg"), ("angel_deg = 5", "did you mean")):
        nodes = f'[[nodes]]\nname = "hold"\nrun = "{program}"\nparams = {{ {key} }}\n'
        with pytest.raises(PlanError) as caught:
            load_plan(ground.launch_file(nodes))
        assert line in str(caught.value)


def test_every_source_compiles_alone_as_strict_c99_without_libsodium(program: Path) -> None:
    strict = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror", "-fsyntax-only"]
    names = ["armswing_client.c", "armswing_curve.c", "my_controller.c"]
    for source in (program.parent / name for name in names):
        command = ["cc", *strict, source]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("path", "line"), [("taken", "File exists"), ("taken/new", "Not a directory")])
def test_an_export_into_a_folder_that_cannot_be_made_is_one_line(
    path: str, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken").touch()
    assert run(["export", "client", "--lang", "c", "--output", str(tmp_path / path)]) == 1
    assert capsys.readouterr().err == f"armswing: {tmp_path / path}: {line}\n"


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ([], "export client: name the language of the client library with --lang c"),
        (["--lang", "C"], "--lang 'C': there is no library in this language; languages are c"),
    ],
)
def test_an_export_without_a_known_language_is_one_line(
    more: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", "client", *more]) == 2
    assert line in capsys.readouterr().err
