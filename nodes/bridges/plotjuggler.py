"""Bridge to PlotJuggler: every topic of a launch on one ZeroMQ address, with joint names and simulation time.

PlotJuggler's ZeroMQ subscriber reads one address; a launch has one per node, with the process id in its path. Frames:
topic, MessagePack map, simulation time in s as text, as that plugin expects them.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import msgspec
import zmq

from nodes.bridges.live import LiveMessages
from nodes.messages import Description, Message, PeerClock, Status
from nodes.transport.sockets import QUEUE

PORT = 9872  # the one that PlotJuggler suggests
STEPS = "in PlotJuggler: Streaming, ZMQ Subscriber, Start; Connect, tcp://, localhost, {port}; Message Protocol msgpack"


class PlotJugglerBridge:
    """Publishes every live message, converted by `plottable`, on tcp://127.0.0.1:port until `stop` is set.

    port      0: a free one
    messages  the live messages, with their numbers received and lost
    sent      number of messages published

    Raises OSError where the port is in use.
    """

    def __init__(self, domain: int | None, port: int, stop: threading.Event) -> None:
        self.messages = LiveMessages(domain, stop)
        self.sent = 0
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PUB)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.SNDHWM, QUEUE)
        try:
            if port:
                self._socket.bind(f"tcp://127.0.0.1:{port}")
            else:
                port = self._socket.bind_to_random_port("tcp://127.0.0.1")
        except zmq.ZMQError as error:
            self._socket.close()
            raise OSError(error.errno, os.strerror(error.errno or 0)) from None
        self.port = port

    def run(self) -> None:
        """Publish until `stop` is set."""
        encode = msgspec.msgpack.Encoder().encode
        try:
            for topic, message, time in self.messages:
                if isinstance(message, Description):
                    continue  # nothing in it changes with time
                payload = encode(plottable(message))
                self._socket.send_multipart([series(topic, message).encode(), payload, f"{time:.9f}".encode()])
                self.sent += 1
        finally:
            self._socket.close()


def series(topic: str, message: Message) -> str:
    """Name under which the curves of a message are listed: the topic, with the node's name where many nodes publish the
    topic."""
    if isinstance(message, Status):
        return f"{topic}/{message.node}"
    return f"{topic}/{message.asker}/{message.peer}" if isinstance(message, PeerClock) else topic


def plottable(message: Message) -> dict[str, Any]:
    """The message as a map. Each list with one number per entry of `name` becomes {name: number}."""
    plain: dict[str, Any] = msgspec.to_builtins(message)
    names = plain.get("name")
    if isinstance(names, list) and names and len(set(names)) == len(names):
        del plain["name"]
        for field, values in plain.items():
            if isinstance(values, list) and len(values) == len(names):
                plain[field] = dict(zip(names, values, strict=True))
    return plain
