"""`armswing topic pub`: publishes one message repeatedly, as a node of the live launch."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn, get_args, get_origin

import msgspec
import zmq

from nodes.cli.terminal import InputError, UnavailableError
from nodes.framework.client import Client, NotLiveError
from nodes.framework.messages import BodyPoses, Event, JointCommand, Message, PlotValues, RobotState
from nodes.framework.messages.codec import WireError, encode
from nodes.framework.messages.stamp import is_stamped
from nodes.framework.messages.topics import ROBOT_TOPICS, known_topics, lookup
from nodes.framework.plan.key_checks import choices
from nodes.framework.transport.bus import Publisher, Subscriber
from nodes.framework.transport.domain import ipc_endpoint
from nodes.framework.transport.host_config import read_host_config
from nodes.framework.transport.ownership import message_refusal
from nodes.framework.transport.registry import NodeEntry, NotGranted
from nodes.framework.transport.registry_link import RegistryLink
from nodes.framework.transport.sockets import AddressError
from sim_core.support.suggestion import did_you_mean
from sim_core.tables import misfit

SERVE_S = 0.05
TAKEN_S = 1.0


def publish(
    topic: str, text: str, *, rate_hz: float, count: int, domain: int | None, greet: Callable[[str], None]
) -> int:
    """Publish the JSON message `text` on `topic` repeatedly. Returns the number of messages published.

    rate_hz  messages per second
    count    number of messages; 0 publishes until Ctrl-C
    greet    function called before the first message, with a line that names the message, its rate and the subscribers

    Raises UnavailableError if the launch ends before all messages are published, or if the simulation rejects the
    message.
    """
    if lookup(topic) is None:
        _refuse(topic, domain)
    message = parse_message(topic, text)
    name = f"pub_{os.getpid()}"
    if line := message_refusal(name, [topic], topic, encode(message, topic)):
        raise InputError(f"topic {topic!r} has messages of each node about itself; this one is {line}")
    with Client(domain) as client:
        if isinstance(message, JointCommand) and topic.endswith("/command"):
            _check_commandable(client, topic)
        listeners = [name for entry in client.topics() if entry.name == topic for name in entry.subscribes]
        how_long = f"{count} times" if count else "until Ctrl-C"
        who = f"{', '.join(listeners)} {'subscribes' if len(listeners) == 1 else 'subscribe'}"
        greet(
            f"{topic}: {_in_words(message)} at {rate_hz:g} Hz {how_long}; {who if listeners else 'no node subscribes'}"
        )
        return _publish(client, name, topic, message, rate_hz, count)


def _publish(client: Client, name: str, topic: str, message: Message, rate_hz: float, count: int) -> int:
    domain = client.domain
    remote_endpoint = read_host_config(domain).remote_endpoint
    publisher = Publisher(
        zmq.Context.instance(), name, ipc_endpoint(domain, f"{name}.data"), remote_endpoint=remote_endpoint
    )
    link = RegistryLink(domain)
    feedback = SimulationFeedback(client, topic, name)
    sent, stamped = 0, is_stamped(message)
    entry = NodeEntry(
        name=name, pid=os.getpid(), state="ready", endpoints={"data": publisher.endpoint}, publishes=[topic]
    )

    def wait(seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0.0:
            _serve_until(publisher, time.monotonic() + min(left, SERVE_S))
            feedback.receive()
            if feedback.refusal:
                raise UnavailableError(f"the simulation rejects {topic!r}: {feedback.refusal}")
            if not (client.is_live and link.is_connected):
                raise UnavailableError(f"the launch in domain {domain} has ended, after {sent} messages on {topic!r}")

    try:
        entry.remote_endpoints = {"data": publisher.remote_endpoint} if remote_endpoint else {}
        try:
            link.keep(entry)
        except NotGranted as error:
            raise UnavailableError(str(error)) from None
        with suppress(KeyboardInterrupt):
            wait(0.5)  # lets subscribers connect before the first message
            while not count or sent < count:
                if not stamped:
                    message.timestamp = feedback.time
                publisher.publish(topic, message)
                sent += 1
                wait(1.0 / rate_hz)
        if sent and isinstance(message, JointCommand) and topic.endswith("/command"):
            _check_accepted(client, publisher, topic, sent)
    finally:
        link.close()
        publisher.close()
        feedback.close()
    return sent


class SimulationFeedback:
    """Receives the simulation's state and events while a message is being published.

    time     time of the latest state (s), which the published messages get as timestamp; 0 before the first state
    refusal  reason why the simulation rejected a command of this publisher; "" if it rejected none
    """

    def __init__(self, client: Client, topic: str, name: str) -> None:
        robot = topic.rpartition("/")[0]
        state = f"{robot}/state"
        self.time, self.refusal = 0.0, ""
        self._name = name
        self._subscriber = Subscriber(zmq.Context.instance(), [state, f"{robot}/event"], "pub")
        for entry in client.nodes():
            if state in entry.publishes:
                with suppress(AddressError):
                    self._subscriber.connect(entry.name, entry.endpoints["data"], entry.publishes)

    def receive(self) -> None:
        """Process all messages received since the last call."""
        while (received := self._subscriber.receive(0.0)) is not None:
            message = received[2]
            if isinstance(message, RobotState):
                self.time = message.timestamp
            elif isinstance(message, Event) and message.kind == "refused" and message.node == self._name:
                self.refusal = message.detail

    def close(self) -> None:
        """Close the subscription."""
        self._subscriber.close()


def _check_commandable(client: Client, topic: str) -> None:
    """Raise InputError if the domain's simulation does not subscribe to the command topic, or runs in lockstep."""
    subscribes = [name for entry in client.nodes() if entry.name == "sim" for name in entry.subscribes]
    if topic not in subscribes:
        raise InputError(f"no simulation subscribes to {topic!r}{did_you_mean(topic, subscribes)}")
    if client.sim_status()["mode"] == "lockstep":
        raise InputError(
            "in lockstep the simulation accepts commands only from nodes of its launch file; add the node there"
        )


def _check_accepted(client: Client, publisher: Publisher, topic: str, sent: int) -> None:
    """Wait until the simulation has accepted or rejected all commands.

    Raises UnavailableError with the reason if the simulation rejected a command, or if it accepted no command in time.

    sent  number of published commands
    """
    deadline = time.monotonic() + TAKEN_S
    while True:
        status = client.sim_status()
        taken = status["commands_taken"].get(publisher.name, 0)
        refused = status["commands_refused"].get(publisher.name, {"count": 0, "reason": ""})
        if taken + refused["count"] >= sent or time.monotonic() > deadline:
            break
        _serve_until(publisher, time.monotonic() + SERVE_S)
    if refused["count"]:
        raise UnavailableError(f"the simulation rejects {topic!r}: {refused['reason']}")
    if not taken:
        raise UnavailableError(f"the simulation is {status['state']} and accepted none of {sent} commands")


def _refuse(topic: str, domain: int | None) -> NoReturn:
    """Raise InputError for an unknown topic; the message lists the topics and suggests the nearest name."""
    known = list(known_topics())
    robot, slash, leaf = topic.rpartition("/")
    hint = did_you_mean(leaf, ROBOT_TOPICS, show=lambda name: f"{robot}/{name}") if slash else ""
    with suppress(NotLiveError), Client(domain) as client:
        hint = did_you_mean(topic, [entry.name for entry in client.topics()]) or hint
    raise InputError(f"no topic {topic!r}; topics are {', '.join(known)}{hint}")


def parse_message(topic: str, text: str) -> Message:
    """Decode a message of a standard topic from JSON.

    Raises InputError, which names the field, for an unknown or wrongly typed field.
    """
    row = lookup(topic)
    assert row is not None, f"{topic} was looked up before"
    kind = row.message
    fields = kind.__struct_fields__
    try:
        data = msgspec.json.decode(text, type=dict)
    except msgspec.MsgspecError as error:
        raise InputError(f"message for {topic!r}: {error}; give JSON such as {example(kind)}") from error
    for key in data:
        if key not in fields:
            raise InputError(
                f"{kind.__name__} has no field {key!r}; its fields are {', '.join(fields)}{did_you_mean(key, fields)}"
            )
    if wrong := misfit(data, kind):
        raise InputError(f"message for {topic!r}: {wrong}; a valid message is, for example, {example(kind)}")
    message = msgspec.convert(data, kind)
    try:
        encode(message, topic)  # lengths that must agree, numbers that must be finite
    except WireError as error:
        raise InputError(
            f"message for {topic!r}: {error.reason}; a valid message is, for example, {example(kind)}"
        ) from error
    return message


def example(kind: type[Message]) -> str:
    """Return an example of a message of this type as JSON.

    The example contains at most three fields: the first ones whose type is simple, such as a number, a string or a list
    of numbers. The fields that all messages have, such as the timestamp, are left out.
    """
    own = [field for field in msgspec.structs.fields(kind) if field.name not in Message.__struct_fields__]
    usual = kind()
    samples = {field.name: _sample(field.type, getattr(usual, field.name)) for field in own}
    if "points" in samples:
        samples["points"] = 3 * samples["points"]  # x, y, z of one point
    if kind is BodyPoses:
        samples |= {"p": [0.0, 0.0, 0.5], "quaternion": [1.0, 0.0, 0.0, 0.0]}  # pose of one body
    if kind is PlotValues:
        samples |= {"values": {"error": 0.5, "torque": [0.5, 0.5]}}
    shown = {name: sample for name, sample in samples.items() if sample is not None}
    return json.dumps(dict(list(shown.items())[:3]))


def _sample(kind: Any, usual: Any) -> Any:
    """Return an example value of a field, or None if the field's type is not simple enough for an example.

    An example list has as many entries as `usual`, the default of the field, but at least one.
    """
    if words := choices(kind):
        return words[0]
    is_list = get_origin(kind) is list
    sample = {str: "arm", float: 0.5, int: 1, bool: True}.get(get_args(kind)[0] if is_list else kind)
    return sample if sample is None or not is_list else [sample] * max(len(usual), 1)


def _in_words(message: Message) -> str:
    """Return the message type and the fields that differ from their defaults as text.

    An example is 'Twist {"linear": [0.0, 0.2, 0.0]}'.
    """
    usual = type(message)()
    sent = {
        name: getattr(message, name)
        for name in message.__struct_fields__
        if getattr(message, name) != getattr(usual, name)
    }
    return f"{type(message).__name__} {msgspec.json.encode(sent).decode()}"


def _serve_until(publisher: Publisher, deadline: float) -> None:
    while (left := deadline - time.monotonic()) > 0.0:
        publisher.socket.poll(round(1e3 * min(left, SERVE_S)))
        publisher.serve_subscriptions()
