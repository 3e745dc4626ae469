"""Calls over DEALER/ROUTER: answered, refused with a line, or timed out; never hanging, never fatal."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import msgpack
import pytest
import zmq
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.framework.messages.codec import MAX_BYTES
from nodes.framework.transport.domain import ipc_endpoint
from nodes.framework.transport.service import ServiceClient, ServiceError, ServiceServer, ServiceTimeout
from nodes.framework.transport.sockets import make_socket


class Echo(threading.Thread):
    """A node that answers "echo", refuses "refuse", keeps silent at "hang" and answers "odd" with no data."""

    def __init__(self, domain: int) -> None:
        super().__init__(daemon=True)
        self.context: Any = zmq.Context()
        self.server = ServiceServer(self.context, "echo", ipc_endpoint(domain, "echo.service"))
        self.endpoint = self.server.endpoint
        self.stopped = threading.Event()
        self.start()

    def run(self) -> None:
        while not self.stopped.is_set():
            self.server.socket.poll(20)
            while (request := self.server.receive()) is not None:
                if request.call.call == "refuse":
                    self.server.refuse(request, "it is Sunday")
                elif request.call.call == "odd":
                    self.server.reply(request, object())
                elif request.call.call != "hang":
                    self.server.reply(request, request.call.args)
        self.server.close()
        self.context.term()


@pytest.fixture
def echo(domain: int) -> Iterator[Echo]:
    thread = Echo(domain)
    yield thread
    thread.stopped.set()
    thread.join()


def test_a_reply_given_just_before_the_end_arrives(domain: int) -> None:
    for round_ in range(200):
        context: Any = zmq.Context()
        server = ServiceServer(context, "brief", ipc_endpoint(domain, f"brief-{round_}.service"))

        def answer_and_end(server: ServiceServer = server, context: Any = context) -> None:
            server.socket.poll(2000)
            request = server.receive()
            assert request is not None
            server.reply(request, "ending")
            server.close()
            context.term()

        thread = threading.Thread(target=answer_and_end)
        thread.start()
        try:
            with ServiceClient(server.endpoint) as client:
                assert client.call("shutdown") == "ending"
        finally:
            thread.join(5.0)


def test_a_call_is_answered_or_refused_with_a_line(echo: Echo) -> None:
    with ServiceClient(echo.endpoint) as client:
        assert client.call("echo", {"n": 3, "x": [0.5, "a"]}) == {"n": 3, "x": [0.5, "a"]}
        with pytest.raises(ServiceError, match="it is Sunday"):
            client.call("refuse")
        with pytest.raises(ServiceError, match="not plain data"):
            client.call("odd")


def test_a_call_without_reply_ends_at_its_deadline_and_the_next_gets_its_own_answer(echo: Echo) -> None:
    with ServiceClient(echo.endpoint) as client:
        with pytest.raises(ServiceTimeout, match=r"'hang'.*within 0.05 s"):
            client.call("hang", timeout_s=0.05)
        assert client.call("echo", {"n": 1}) == {"n": 1}


def test_a_call_to_nobody_times_out_and_is_not_kept_for_later(domain: int) -> None:
    endpoint = ipc_endpoint(domain, "echo.service")
    with ServiceClient(endpoint) as client:
        with pytest.raises(ServiceTimeout):
            client.call("echo", timeout_s=0.05)
        context: Any = zmq.Context()
        server = ServiceServer(context, "echo", endpoint)
        server.socket.poll(200)
        assert server.receive() is None
        server.close()
        context.term()


def test_threads_share_a_client_without_taking_each_others_answers(echo: Echo) -> None:
    wrong: list[dict[str, int]] = []
    with ServiceClient(echo.endpoint) as client:

        def ask(thread: int) -> None:
            asked = [{"n": n, "thread": thread} for n in range(50)]
            wrong.extend(args for args in asked if client.call("echo", args) != args)

        threads = [threading.Thread(target=ask, args=(index,)) for index in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_a_plain_req_socket_with_msgpack_is_served(echo: Echo) -> None:
    context: Any = zmq.Context()
    socket = make_socket(context, zmq.REQ)
    socket.connect(echo.endpoint)
    socket.send(msgpack.packb({"id": 5, "call": "echo", "args": {"a": 1}}))
    assert socket.poll(2000)
    assert msgpack.unpackb(socket.recv())["result"] == {"a": 1}
    socket.close()
    context.term()


def test_a_service_outlives_any_frames(echo: Echo) -> None:
    context: Any = zmq.Context()
    rude = make_socket(context, zmq.DEALER)
    rude.connect(echo.endpoint)
    with ServiceClient(echo.endpoint) as client:

        @settings(max_examples=300, deadline=None)
        @given(st.lists(st.binary(max_size=64), min_size=1, max_size=4))
        def say_anything(frames: list[bytes]) -> None:
            rude.send_multipart(frames)

        say_anything()
        rude.send(bytes(MAX_BYTES + 1))
        rude.send(msgpack.packb({"id": "one", "call": 2}))
        rude.send_multipart([b"x", b"", b"y"])
        assert client.call("echo", {"n": 1}) == {"n": 1}
    assert echo.server.refusals.count > 0
    rude.close(linger=0)
    context.term()
