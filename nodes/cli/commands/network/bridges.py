"""`armswing bridge`: makes live topics available to other programs, such as PlotJuggler, Foxglove and ROS 2."""

from __future__ import annotations

import os
import re
from typing import Annotated

import typer

from nodes.cli.terminal import Domain, InputError, UnavailableError, print_line, until_stopped, warn
from nodes.framework.bridges.front import ORIGIN
from nodes.framework.bridges.plotjuggler import STEPS, PlotJugglerBridge

app = typer.Typer(epilog="Example: armswing bridge plotjuggler", no_args_is_help=True)
ADDRESS = re.compile(r"tcp/(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):\d{1,5}")
Port = typer.Option("--port", min=0, max=65535, help="Port of this computer; 0 for a free one.")


@app.command(epilog="Example: armswing bridge plotjuggler --port 9872")
def plotjuggler(port: Annotated[int, Port] = 9872, domain: Domain = None) -> None:
    """Publish all topics at one address for PlotJuggler's ZMQ Subscriber, until Ctrl-C."""
    with until_stopped() as stop:
        try:
            bridge = PlotJugglerBridge(domain, port, stop)
        except OSError as error:
            raise InputError(f"port {port}: {error.strerror}; choose another port with --port") from None
        print_line(STEPS.format(port=bridge.port))
        bridge.run()
    print_line(f"published {bridge.sent} messages; {bridge.messages.lost} were lost on the way to the bridge")


@app.command(epilog="Example: armswing bridge foxglove --port 8765")
def foxglove(
    port: Annotated[int, Port] = 8765,
    steer: Annotated[
        bool,
        typer.Option("--steer", help="Offer services and parameters too, at an address with a token."),
    ] = False,
    origin: Annotated[
        list[str] | None,
        typer.Option(help="Origin of web pages that may connect, such as https://example.org. Repeatable."),
    ] = None,
    domain: Domain = None,
) -> None:
    """Serve all topics and the scene to Foxglove, until Ctrl-C.

    Web pages may not connect, except those of Foxglove, of this computer and of each --origin.
    """
    from nodes.framework.bridges.foxglove_server import FoxgloveBridge

    if wrong := [each for each in origin or () if not ORIGIN.fullmatch(each)]:
        raise InputError(f"--origin {wrong[0]!r}: write scheme and host in small letters, as in https://example.org")
    with until_stopped() as stop:
        try:
            bridge = FoxgloveBridge(domain, port, stop, warn, origin or (), steer)
        except OSError as error:
            raise InputError(f"port {port}: {error.strerror or error}; choose another port with --port") from None
        print_line(f"in Foxglove: Open connection, Foxglove WebSocket, {bridge.address}")
        bridge.run()
    print_line(
        f"passed on {bridge.channels.logged} messages; {bridge.messages.lost} were lost on the way to the bridge"
    )


@app.command(epilog="Example: armswing bridge ros2 --connect tcp/localhost:7447")
def ros2(
    connect: Annotated[str, typer.Option(help="Address of the router of ROS 2, tcp/HOST:PORT.")] = "tcp/localhost:7447",
    listen: Annotated[
        bool, typer.Option("--listen", help="Be the router at this address, instead of connecting to one.")
    ] = False,
    ros_domain: Annotated[
        int,
        typer.Option(min=0, max=232, envvar="ROS_DOMAIN_ID", help="ROS domain; by default that of the environment."),
    ] = 0,
    domain: Domain = None,
) -> None:
    """Connect a live launch to ROS 2 (Jazzy, Kilted) with rmw_zenoh, until Ctrl-C.

    ROS 2 itself is not needed on this computer, but a router: 'ros2 run rmw_zenoh_cpp rmw_zenohd', or --listen.
    """
    from nodes.framework.bridges.ros2.bridge import Ros2Bridge
    from nodes.framework.bridges.ros2.session import RouterAbsent

    if not ADDRESS.fullmatch(connect) or int(connect.rpartition(":")[2]) > 65535:
        raise InputError(f"--connect {connect!r}: write tcp/HOST:PORT, as in tcp/localhost:7447")
    if os.environ.get("ROS_DISTRO") == "humble":
        raise InputError(
            "ROS_DISTRO is humble: Humble's messages have no type hashes, so that its nodes would drop all messages in "
            "silence; use Jazzy or Kilted"
        )
    with until_stopped() as stop:
        try:
            bridge = Ros2Bridge(domain, stop, warn, connect, listen, ros_domain)
        except RouterAbsent as error:
            raise UnavailableError(str(error)) from None
        print_line(f"{'router' if listen else 'connected to the router'} at {connect}, ROS domain {ros_domain}")
        bridge.run()
    print_line(bridge.summary)
