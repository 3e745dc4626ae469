"""What `armswing topic pub` runs: a node that says one message again and again."""

from __future__ import annotations

import os
import time

import msgspec
import zmq

from nodes.client import Client
from nodes.runtime.cli.terminal import InputError, nearest
from nodes.wire.bus import Publisher
from nodes.wire.domain import default_domain, ipc_endpoint
from nodes.wire.messages import Message
from nodes.wire.registry import NodeEntry
from nodes.wire.registry_link import RegistryLink
from nodes.wire.topics import GLOBAL_TOPICS, ROBOT_TOPICS, lookup

SERVE_S = 0.05


def publish(topic: str, text: str, *, rate_hz: float, count: int, domain: int | None) -> int:
    """Say the JSON message `text` on `topic`, `count` times (0: until Ctrl-C); how often it was said."""
    message = parse_message(topic, text)
    with Client(domain):
        domain = default_domain() if domain is None else domain
    name = f"pub_{os.getpid()}"
    publisher = Publisher(zmq.Context.instance(), name, ipc_endpoint(domain, f"{name}.data"))
    link = RegistryLink(domain)
    said = 0
    try:
        link.keep(
            NodeEntry(
                name=name,
                pid=os.getpid(),
                state="ready",
                endpoints={"data": publisher.endpoint},
                speaks=[topic],
            )
        )
        _serve_until(publisher, time.monotonic() + 0.5)  # listeners come before the first word
        while not count or said < count:
            publisher.publish(topic, message)
            said += 1
            _serve_until(publisher, time.monotonic() + 1.0 / rate_hz)
    except KeyboardInterrupt:
        pass
    finally:
        link.close()
        publisher.close()
    return said


def parse_message(topic: str, text: str) -> Message:
    """The message of a topic from JSON; unknown and wrongly typed fields are refused by name."""
    row = lookup(topic)
    if row is None:
        known = [*(f"<robot>/{name}" for name in ROBOT_TOPICS), *GLOBAL_TOPICS]
        raise InputError(f"no topic {topic!r}; topics are {', '.join(known)}")
    fields = row.message.__struct_fields__
    try:
        data = msgspec.json.decode(text, type=dict)
        for key in data:
            if key not in fields:
                raise InputError(
                    f"{row.message.__name__} has no field {key!r}; its fields are {', '.join(fields)}"
                    f"{nearest(key, fields)}"
                )
        return msgspec.convert(data, row.message)
    except msgspec.MsgspecError as error:
        raise InputError(f'message for {topic!r}: {error}; expected JSON like {{"name": ["arm"]}}') from error


def _serve_until(publisher: Publisher, deadline: float) -> None:
    while (left := deadline - time.monotonic()) > 0.0:
        publisher.socket.poll(round(1e3 * min(left, SERVE_S)))
        publisher.serve_subscriptions()
