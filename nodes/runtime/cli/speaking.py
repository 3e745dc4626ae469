"""What `armswing topic pub` runs: a node that says one message again and again."""

from __future__ import annotations

import difflib
import os
import time
from contextlib import suppress
from typing import NoReturn

import msgspec
import zmq

from nodes.client import Client, NotLiveError
from nodes.runtime.cli.terminal import InputError, UnavailableError, nearest
from nodes.runtime.plan import choices
from nodes.wire.bus import Publisher, Subscriber
from nodes.wire.domain import ipc_endpoint
from nodes.wire.messages import JointCommand, Message
from nodes.wire.registry import NodeEntry
from nodes.wire.registry_link import RegistryLink
from nodes.wire.sockets import AddressError
from nodes.wire.topics import GLOBAL_TOPICS, ROBOT_TOPICS, lookup

SERVE_S = 0.05
TAKEN_S = 1.0


def publish(topic: str, text: str, *, rate_hz: float, count: int, domain: int | None) -> int:
    """Say the JSON message `text` on `topic`, `count` times (0: until Ctrl-C); how often it was said."""
    if lookup(topic) is None:
        _refuse(topic, domain)
    message = parse_message(topic, text)
    with Client(domain) as client:
        if isinstance(message, JointCommand):
            _check_commandable(client, topic)
        return _publish(client, topic, message, rate_hz, count)


def _publish(client: Client, topic: str, message: Message, rate_hz: float, count: int) -> int:
    domain = client.domain
    name = f"pub_{os.getpid()}"
    clock = SimulationClock(client, topic) if message.timestamp == 0.0 else None
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
        with suppress(KeyboardInterrupt):
            while not count or said < count:
                if clock is not None:
                    message.timestamp = clock.time
                publisher.publish(topic, message)
                said += 1
                _serve_until(publisher, time.monotonic() + 1.0 / rate_hz)
        if said and isinstance(message, JointCommand):
            _check_taken(client, publisher, said)
    finally:
        link.close()
        publisher.close()
        if clock is not None:
            clock.close()
    return said


class SimulationClock:
    """The time of a robot's latest state: the stamp of what is said beside it, as a node's messages have it."""

    def __init__(self, client: Client, topic: str) -> None:
        state = f"{topic.rpartition('/')[0]}/state"
        self._time = 0.0
        self._subscriber = Subscriber(zmq.Context.instance(), [state], "pub")
        for entry in client.nodes():
            if state in entry.speaks:
                with suppress(AddressError):
                    self._subscriber.connect(entry.name, entry.endpoints["data"])

    @property
    def time(self) -> float:
        """Seconds; 0 before any state."""
        while (heard := self._subscriber.receive(0.0)) is not None:
            self._time = heard[2].timestamp
        return self._time

    def close(self) -> None:
        """Listen no more."""
        self._subscriber.close()


def _check_commandable(client: Client, topic: str) -> None:
    """Refuse a command that no simulation of the domain will ever hear."""
    listens = [name for entry in client.nodes() if entry.name == "sim" for name in entry.listens]
    if topic not in listens:
        raise InputError(f"no simulation listens on {topic!r}{nearest(topic, listens)}")
    if client.sim_status()["mode"] == "lockstep":
        raise InputError("in lockstep the simulation takes commands of the nodes of its launch file only")


def _check_taken(client: Client, publisher: Publisher, said: int) -> None:
    """Wait until the simulation has answered for our commands; what it refused is an error with its reason."""
    deadline = time.monotonic() + TAKEN_S
    while True:
        status = client.sim_status()
        taken = status["commands_taken"].get(publisher.name, 0)
        refused = status["commands_refused"].get(publisher.name, {"count": 0, "reason": ""})
        if taken + refused["count"] >= said or time.monotonic() > deadline:
            break
        _serve_until(publisher, time.monotonic() + SERVE_S)
    if refused["count"]:
        raise UnavailableError(f"the simulation refused {refused['count']} of {said}: {refused['reason']}")
    if not taken:
        raise UnavailableError(f"the simulation took none of {said} commands; it is {status['state']}")


def _refuse(topic: str, domain: int | None) -> NoReturn:
    """Name the topics there are, and the nearest: of the live ones where a launch is live."""
    known = [*(f"<robot>/{name}" for name in ROBOT_TOPICS), *GLOBAL_TOPICS]
    robot, slash, leaf = topic.rpartition("/")
    near = [f"{robot}/{name}" for name in difflib.get_close_matches(leaf, ROBOT_TOPICS, n=1)] if slash else []
    with suppress(NotLiveError), Client(domain) as client:
        near = difflib.get_close_matches(topic, [entry.name for entry in client.topics()], n=1) or near
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise InputError(f"no topic {topic!r}; topics are {', '.join(known)}{hint}")


def parse_message(topic: str, text: str) -> Message:
    """The message of a topic of ours from JSON; unknown and wrongly typed fields are refused by name."""
    row = (GLOBAL_TOPICS | ROBOT_TOPICS)[topic.rpartition("/")[2]]
    fields = row.message.__struct_fields__
    try:
        data = msgspec.json.decode(text, type=dict)
        for key in data:
            if key not in fields:
                raise InputError(
                    f"{row.message.__name__} has no field {key!r}; its fields are {', '.join(fields)}"
                    f"{nearest(key, fields)}"
                )
        for field in msgspec.structs.fields(row.message):
            allowed = choices(field.type)
            if allowed and field.name in data and data[field.name] not in allowed:
                raise InputError(f"{topic!r}: {field.name} is {data[field.name]!r}; it is one of {', '.join(allowed)}")
        return msgspec.convert(data, row.message)
    except msgspec.MsgspecError as error:
        raise InputError(f'message for {topic!r}: {error}; expected JSON like {{"name": ["arm"]}}') from error


def _serve_until(publisher: Publisher, deadline: float) -> None:
    while (left := deadline - time.monotonic()) > 0.0:
        publisher.socket.poll(round(1e3 * min(left, SERVE_S)))
        publisher.serve_subscriptions()
