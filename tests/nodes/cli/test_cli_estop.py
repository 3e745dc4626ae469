"""What `armswing estop` says where a node does not answer."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import zmq

from nodes.cli.application import run
from nodes.framework.client import NodeEntry, Stopped
from nodes.framework.client import _until_answered as until_answered
from nodes.framework.hosting.stop_calls import StopCalls
from nodes.framework.transport.domain import ipc_endpoint
from nodes.framework.transport.service import Call, ServiceServer


class Silent:
    """A client of a launch whose driver does not answer."""

    def __init__(self, domain: int | None) -> None:
        pass

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *args: Any) -> None:
        pass

    def estop(self, reason: str, release: bool) -> list[Stopped]:
        return [Stopped(node="sim", ms=2.0), Stopped(node="driver", ms=500.0, error="no answer")]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "driver did not stop; press the emergency switch of the robot"),
        (["--release"], "driver did not confirm the end of the stop; give 'armswing estop --release' again"),
    ],
)
def test_a_node_that_does_not_answer_is_named_with_what_to_do(
    arguments: list[str], says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("nodes.cli.commands.running.estop.Client", Silent)
    exit_code = run(["estop", *arguments])
    error = capsys.readouterr().err
    assert (exit_code, error.count("\n")) == (1, 1)
    assert says in error


def test_a_release_that_arrives_late_does_not_end_a_later_stop(domain: int) -> None:
    held: list[Call] = []
    stopped: list[str] = []
    calls = StopCalls()
    context: Any = zmq.Context()
    server = ServiceServer(context, "driver", ipc_endpoint(domain, "driver.service"))
    over = threading.Event()

    def arrive(call: Call) -> str:
        try:
            calls.check(call)
        except ValueError as error:
            return str(error)
        stopped.append(call.call)
        return ""

    def serve() -> None:
        while not over.is_set():
            if not server.socket.poll(20) or (request := server.receive()) is None:
                continue
            if request.call.call == "status":
                server.reply(request, {"counters": {"emergency_stops": calls.count}})
            elif request.call.call == "release" and not held:
                held.append(request.call)  # the network has it: the caller gets no reply, and calls again
            elif line := arrive(request.call):
                server.refuse(request, line)
            else:
                server.reply(request, "done")

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        entry = NodeEntry(name="driver", pid=1, endpoints={"service": server.endpoint})
        assert until_answered(entry, "estop", {"reason": "a test"}, 2.0).error == ""
        assert until_answered(entry, "release", {}, 2.0).error == ""  # the second call of it
        assert until_answered(entry, "estop", {"reason": "a hand in the cell"}, 2.0).error == ""
        assert arrive(held[0]).startswith("release: another emergency stop was called meanwhile")
        assert stopped == ["estop", "release", "estop"]
    finally:
        over.set()
        thread.join()
        server.close()
        context.term()


@pytest.mark.parametrize(("lost", "said"), [(0, "nothing was stopped"), (1, "")])
def test_a_release_without_a_stop_is_said_unless_an_earlier_call_may_have_ended_the_stop(
    lost: int, said: str, domain: int
) -> None:
    context: Any = zmq.Context()
    server = ServiceServer(context, "driver", ipc_endpoint(domain, "driver.service"))
    over = threading.Event()
    calls: list[str] = []

    def serve() -> None:
        while not over.is_set():
            if not server.socket.poll(20) or (request := server.receive()) is None:
                continue
            calls.append(request.call.call)
            if request.call.call == "status":
                server.reply(request, {})
            elif calls.count("release") > lost:
                server.reply(request, "nothing was stopped")

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        entry = NodeEntry(name="driver", pid=1, endpoints={"service": server.endpoint})
        answer = until_answered(entry, "release", {}, 5.0)
        assert (answer.how, answer.error) == (said, "")
    finally:
        over.set()
        thread.join()
        server.close()
        context.term()


def test_a_node_that_cannot_be_called_does_not_hide_the_answers_of_others() -> None:
    far = NodeEntry(name="driver", pid=1, endpoints={"service": "tcp://10.77.0.9:4000"})  # an address without a key
    assert "any address except ipc and loopback needs a CURVE key" in until_answered(far, "estop", {}, 1.0).error


def test_a_release_waits_for_a_node_that_needs_longer_for_each_reply_than_the_first_wait(domain: int) -> None:
    context: Any = zmq.Context()
    server = ServiceServer(context, "driver", ipc_endpoint(domain, "driver.service"))
    over = threading.Event()

    def serve() -> None:
        while not over.is_set():
            if server.socket.poll(20) and (request := server.receive()) is not None:
                over.wait(0.4)  # of a busy computer
                server.reply(request, {} if request.call.call == "status" else "")

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        entry = NodeEntry(name="driver", pid=1, endpoints={"service": server.endpoint})
        assert until_answered(entry, "release", {}, 15.0).error == ""
    finally:
        over.set()
        thread.join()
        server.close()
        context.term()
