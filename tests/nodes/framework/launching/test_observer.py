"""What a launch hears: an entry of the registry that nobody can listen to does not deafen it."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

import pytest
import zmq

from nodes.framework.launching.observer import Observer
from nodes.framework.messages import Status
from nodes.framework.transport.bus import Publisher
from nodes.framework.transport.domain import ipc_endpoint
from nodes.framework.transport.registry import NodeEntry, Registry, RegistryClient
from nodes.framework.transport.service import ServiceError

Until = Callable[..., Any]


def test_an_address_that_is_none_is_said_once_and_the_others_are_heard(
    domain: int, until: Until, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("nodes.framework.transport.registry._check", lambda entry: None)  # an older registry let all in
    context: Any = zmq.Context()
    publisher = Publisher(context, "good", ipc_endpoint(domain, "good.data"))
    with Registry(domain), RegistryClient(domain) as client:
        observer = Observer(domain)
        for name, address in (("sim", "garbage"), ("good", publisher.endpoint)):
            client.register(NodeEntry(name=name, pid=os.getpid(), endpoints={"data": address, "service": address}))
        until(lambda: observer.entry("good"))
        publisher.publish("status", Status(node="good"))

        def heard() -> bool:
            publisher.serve_subscriptions()
            observer.receive(0.01)
            return "good" in observer.status

        with caplog.at_level(logging.WARNING, "armswing"):
            until(heard)
            observer.expect_state("robot/state")
            observer.receive(0.0)
        with pytest.raises(ServiceError, match="'sim' cannot be reached: address 'garbage' is refused"):
            observer.call("sim", "status")
        observer.close()
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert said[0].startswith("launch: cannot subscribe to node 'sim': address 'garbage' is refused")
    publisher.close()
    context.term()


def test_a_node_whose_status_is_missing_is_not_called_ready(domain: int, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("nodes.framework.launching.observer.time.monotonic", lambda: now)
    observer = Observer(domain)
    assert observer.state("arm") == ""
    for state, shown in (("ready", "silent for 10 s"), ("starting", "starting"), ("failed", "failed")):
        observer.status["arm"], observer._received_at["arm"] = Status(node="arm", state=state), now - 4.9
        assert observer.state("arm") == state
        observer._received_at["arm"] = now - 13.0
        assert observer.state("arm") == shown
    observer.close()
