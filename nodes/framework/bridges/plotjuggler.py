"""Bridge to PlotJuggler: publishes every topic of a launch at one ZeroMQ address, with joint names and simulation time.

PlotJuggler's ZeroMQ subscriber connects to a single address, but every node of a launch publishes at an address of its
own. Each bridged message has the three ZeroMQ frames that PlotJuggler expects: the topic, a MessagePack map, and the
simulation time in s as text.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import msgspec
import zmq

from nodes.framework.bridges.live import LiveMessages
from nodes.framework.messages import Description, Message, PeerClock, Status
from nodes.framework.transport.sockets import QUEUE

PORT = 9872  # the one that PlotJuggler suggests
STEPS = "in PlotJuggler: Streaming, ZMQ Subscriber, Start; Connect, tcp://, localhost, {port}; Message Protocol msgpack"


class PlotJugglerBridge:
    """Publishes every live message, converted by `plottable`, on tcp://127.0.0.1:port until `stop` is set.

    port      number of the port; 0 chooses a free port
    messages  the LiveMessages object from which the messages are read; its attributes `received` and `lost` are the
              numbers of messages received and lost
    sent      number of messages published

    Raises OSError if the port is in use.
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
    """Name under which PlotJuggler lists the curves of a message.

    The name is the topic. Many nodes publish on the topics `status` and `clock`. On `status`, the name of the
    publishing node is added. A message on `clock` describes a round trip between two nodes, and both their names are
    added.
    """
    if isinstance(message, Status):
        return f"{topic}/{message.node}"
    return f"{topic}/{message.asker}/{message.peer}" if isinstance(message, PeerClock) else topic


def plottable(message: Message) -> dict[str, Any]:
    """Return the message as a map.

    If the message has a list `name`, every list with one number per name becomes a map {name: number}, and `name`
    itself is left out.
    """
    plain: dict[str, Any] = msgspec.to_builtins(message)
    names = plain.get("name")
    if isinstance(names, list) and names and len(set(names)) == len(names):
        del plain["name"]
        for field, values in plain.items():
            if isinstance(values, list) and len(values) == len(names):
                plain[field] = dict(zip(names, values, strict=True))
    return plain
