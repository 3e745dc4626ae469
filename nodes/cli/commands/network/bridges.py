"""`armswing bridge`: makes live topics available to other programs, such as PlotJuggler and Foxglove."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from nodes.cli.terminal import Domain, InputError, print_line, warn
from nodes.framework.bridges.foxglove_front import ORIGIN
from nodes.framework.bridges.plotjuggler import STEPS, PlotJugglerBridge

app = typer.Typer(epilog="Example: armswing bridge plotjuggler", no_args_is_help=True)
Port = typer.Option("--port", min=0, max=65535, help="Port of this computer; 0 for a free one.")


@app.command(epilog="Example: armswing bridge plotjuggler --port 9872")
def plotjuggler(port: Annotated[int, Port] = 9872, domain: Domain = None) -> None:
    """Publish all topics at one address for PlotJuggler's ZMQ Subscriber, until Ctrl-C."""
    with _until_stopped() as stop:
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
    with _until_stopped() as stop:
        try:
            bridge = FoxgloveBridge(domain, port, stop, warn, origin or (), steer)
        except OSError as error:
            raise InputError(f"port {port}: {error.strerror or error}; choose another port with --port") from None
        print_line(f"in Foxglove: Open connection, Foxglove WebSocket, {bridge.address}")
        bridge.run()
    print_line(
        f"passed on {bridge.channels.logged} messages; {bridge.messages.lost} were lost on the way to the bridge"
    )


@contextmanager
def _until_stopped() -> Iterator[threading.Event]:
    """Context manager that yields an event; Ctrl-C and SIGTERM set this event."""
    stop = threading.Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
