"""Bridge to Foxglove: a live launch as a WebSocket server; on request, with services and parameters that steer it."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Callable, Collection
from typing import Any

import foxglove
import msgspec
from foxglove import Capability, Context, Parameter, Schema, Service, ServiceSchema, StatusLevel
from foxglove.websocket import ChannelView, MessageSchema, ServerListener, ServiceRequest, WebSocketServer
from foxglove.websocket import Client as Peer

from nodes.framework.bridges.foxglove_channels import FoxgloveChannels
from nodes.framework.bridges.front import HOST, Access, Front, listening_socket
from nodes.framework.bridges.live import LiveMessages
from nodes.framework.client import Client
from nodes.framework.messages import Event, RobotState
from nodes.framework.transport.registry import RegistryError
from nodes.framework.transport.service import ServiceError, ServiceTimeout

FOXGLOVE = ("https://app.foxglove.dev", "file://")  # its web app, and its desktop app, whose page is a file
BACKLOG = 65_536  # messages queued for a client that is slow; older ones are dropped
CLOCK_S = 0.01  # simulation time is sent to the clients at most this often
UNREACHABLE = (ServiceError, ServiceTimeout, RegistryError, LookupError, ConnectionError, ValueError)
ARGUMENTS = {"step": {"n": {"type": "integer"}}, "speed": {"x": {"type": "number"}}}
SERVICES = ("pause", "resume", "step", "reset", "speed", "snapshot", "restore")


class Subscriptions(ServerListener):
    """Topics to which the Foxglove clients of the bridge subscribe; the SDK calls `on_subscribe` on its own threads."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._subscribed: set[str] = set()

    def take_subscribed(self) -> set[str]:
        """Topics that clients have subscribed to since the previous call."""
        with self._guard:
            found, self._subscribed = self._subscribed, set()
        return found

    def on_subscribe(self, client: Peer, channel: ChannelView) -> None:
        """Record that a client subscribed to a topic."""
        with self._guard:
            self._subscribed.add(channel.topic)


class Steering(Subscriptions):
    """Answers the requests of the Foxglove clients of the bridge; the SDK calls the methods of this class on its own
    threads.

    The requests read and set parameters, call services of the simulation, and subscribe to topics.

    client  client of the live launch; None before the first launch
    server  server that sends warnings to the Foxglove clients; None until the server has started
    """

    def __init__(self) -> None:
        super().__init__()
        self.client: Client | None = None
        self.server: WebSocketServer | None = None
        self._snapshot: Any = None

    def on_get_parameters(self, client: Peer, param_names: list[str], request_id: str | None = None) -> list[Parameter]:
        """Return the parameters named in `param_names`, where each name has the form "node.key".

        An empty list requests all parameters of the simulation and the nodes. Unknown names are left out.
        """
        found = self.parameters()
        wanted = param_names or list(found)
        return [Parameter(name, value=found[name]) for name in wanted if name in found]

    def on_set_parameters(
        self, client: Peer, parameters: list[Parameter], request_id: str | None = None
    ) -> list[Parameter]:
        """Set parameters and return their values afterwards. The clients get a warning for each refused value."""
        for parameter in parameters:
            node, _, key = parameter.name.partition(".")
            try:
                changed: dict[str, Any] = {key: parameter.get_value()}
                self._launch().call(node, "set_parameters", **changed)
            except UNREACHABLE as error:
                self._warn(f"{parameter.name}: {error}")
        return self.on_get_parameters(client, [parameter.name for parameter in parameters])

    def parameters(self) -> dict[str, Any]:
        """Return {"node.key": value} of all parameters of the live launch, or {} if no launch is live."""
        found: dict[str, Any] = {}
        try:
            client = self._launch()
            for entry in client.nodes():
                values = client.call(entry.name, "get_parameters")
                found |= {f"{entry.name}.{key}": value for key, value in values.items() if value is not None}
        except UNREACHABLE as error:
            self._warn(str(error))
        return found

    def call(self, request: ServiceRequest) -> bytes:
        """Call a service of the simulation and return its response as JSON.

        The client receives the text of an exception as the reason why the call failed.
        """
        name = request.service_name.rpartition("/")[2]
        args = msgspec.json.decode(request.payload or b"{}", type=dict)
        if name == "restore":
            if self._snapshot is None:
                raise ValueError("restore: there is no snapshot yet; take one with /sim/snapshot")
            args = {"state": self._snapshot}
        result = self._launch().call("sim", name, **args)
        if name == "snapshot":  # kept here: a state is too long for a panel
            self._snapshot, result = result, None
        return msgspec.json.encode({"time": self._launch().sim_status()["time"], "result": result})

    def _launch(self) -> Client:
        if self.client is None:
            raise ConnectionError("no launch is live; start one with 'armswing launch FILE'")
        return self.client

    def _warn(self, line: str) -> None:
        if self.server is not None:
            self.server.publish_status(line, StatusLevel.Warning)


class FoxgloveBridge:
    """Serves a live launch to Foxglove on ws://127.0.0.1:port until `stop` is set.

    port     number of the port; 0 chooses a free port
    origins  origins of web pages that may connect, besides those of this computer and Foxglove's own
    steer    whether clients may call services and read and set parameters; the address then has a token
    report   function that is called with a line about each kind of connection that is refused
    address  address to enter in Foxglove
    messages  the LiveMessages object from which the messages are read; its attributes `received` and `lost` are the
              numbers of messages received and lost

    Raises OSError if the port cannot be used.
    """

    def __init__(
        self,
        domain: int | None,
        port: int,
        stop: threading.Event,
        report: Callable[[str], None],
        origins: Collection[str] = (),
        steer: bool = False,
    ) -> None:
        self._steering = Steering() if steer else None
        self.messages = LiveMessages(domain, stop, self._begin)
        self._context = Context()
        self.channels = FoxgloveChannels(self._context)
        self._subscriptions = self._steering or Subscriptions()
        try:
            self._server = foxglove.start_server(
                name="armswing",
                host=HOST,
                port=0,  # of the front's connections alone
                capabilities=[Capability.Time, *([Capability.Services, Capability.Parameters] if steer else [])],
                server_listener=self._subscriptions,
                supported_encodings=["json"],
                services=[_service(name, self._steering) for name in SERVICES] if self._steering else [],
                context=self._context,
                message_backlog_size=BACKLOG,
            )
        except RuntimeError as error:
            raise OSError(str(error)) from None
        if self._steering is not None:
            self._steering.server = self._server
        listener = listening_socket(self._server.port)
        # The SDK leaves Nagle's algorithm on, so that states arrive up to 40 ms late, in bunches, after each message of
        # a client. Linux copies the option from the listening socket to each accepted connection.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        token = secrets.token_urlsafe(16) if steer else ""
        try:
            self._front = Front(port, listener, Access({*FOXGLOVE, *origins}, token), report)
        except OSError:
            self._server.stop()
            raise
        self.address = f"ws://localhost:{self._front.port}{f'/?token={token}' if token else ''}"
        self._time = self._clock_sent = -1.0

    def run(self) -> None:
        """Serve until `stop` is set."""
        try:
            for topic, message, time_s in self.messages:
                if isinstance(message, RobotState) and not message.clock:
                    self._advance(time_s)
                self.channels.log(topic, message, time_s)
                if topics := self._subscriptions.take_subscribed():
                    self.channels.repeat(topics)
                if self._steering and isinstance(message, Event) and message.kind == "set":
                    self._changed(message)
        finally:
            self._front.stop()
            self._server.stop()

    def _begin(self, client: Client) -> None:
        if self._steering is not None:
            self._steering.client = client

    def _advance(self, time_s: float) -> None:
        """Send the simulation time to the clients; if this time has decreased, begin a new session first."""
        if time_s < self._time:
            self._server.clear_session()
            self._clock_sent = -1.0
        if time_s >= self._clock_sent + CLOCK_S:
            self._server.broadcast_time(round(time_s * 1e9))
            self._clock_sent = time_s
        self._time = time_s

    def _changed(self, event: Event) -> None:
        value = msgspec.json.decode(event.new)
        self._server.publish_parameter_values([Parameter(f"{event.node}.{event.key}", value=value)])


def _service(name: str, steering: Steering) -> Service:
    def schema(what: str, properties: dict[str, Any]) -> MessageSchema:
        data = msgspec.json.encode({"type": "object", "properties": properties})
        return MessageSchema(
            encoding="json", schema=Schema(name=f"armswing.{name}_{what}", encoding="jsonschema", data=data)
        )

    answer = {"time": {"type": "number"}}
    form = ServiceSchema(
        f"armswing.{name}", request=schema("request", ARGUMENTS.get(name, {})), response=schema("response", answer)
    )
    return Service(f"/sim/{name}", schema=form, handler=steering.call)
