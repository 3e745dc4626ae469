"""`armswing topic`: lists live topics, prints and measures their messages, and publishes on them."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import typer

from nodes.cli.publishing import publish
from nodes.cli.terminal import AsJson, Domain, InputError, UnavailableError, print_json, print_line, print_table, warn
from nodes.framework.client import Client
from nodes.framework.messages.topics import lookup
from nodes.framework.transport.host_config import read_host_config
from nodes.framework.transport.service import CLOCK, ServiceClient
from sim_core.support.suggestion import did_you_mean

app = typer.Typer(epilog="Example: armswing topic list", no_args_is_help=True)

TopicName = Annotated[
    str, typer.Argument(help="Name of a topic, as `armswing topic list` prints it.", show_default=False)
]
Seconds = Annotated[float, typer.Option("--duration", min=0.0, help="Seconds to measure; with 0, until Ctrl-C.")]
Timeout = Annotated[float, typer.Option("--timeout", min=0.0, help="Seconds to wait for a message.")]
PERIOD_S = 1.0
ROUND_TRIPS = 16  # measurements of another host's clock before the first delay is printed
ROUND_TRIP_S = 1.0
ROUND_TRIP_EVERY_S = 0.5


@app.command("list", epilog="Example: armswing topic list --json")
def list_topics(domain: Domain = None, as_json: AsJson = False) -> None:
    """List all topics with message type, publishers and subscribers."""
    with Client(domain) as client:
        found = client.topics()
    if as_json:
        print_json(found)
        return
    print_table(
        ("topic", "message", "publishes", "subscribes"),
        [(t.name, t.message, " ".join(t.publishes) or "-", " ".join(t.subscribes) or "-") for t in found],
    )


@app.command(epilog="Example: armswing topic echo rotary_pendulum/state -n 1")
def echo(
    topic: TopicName,
    count: Annotated[int, typer.Option("-n", "--count", min=0, help="Number of messages; with 0, until Ctrl-C.")] = 0,
    field: Annotated[
        str | None, typer.Option("--field", help="Print only this field of each message.", show_default=False)
    ] = None,
    timeout: Timeout = 10.0,
    domain: Domain = None,
    as_json: AsJson = False,
) -> None:
    """Print messages as they arrive."""
    for number, message in enumerate(_messages(topic, domain, timeout), start=1):
        data = _plain(message)
        if field is not None:
            if field not in data:
                raise InputError(f"topic {topic!r} has no field {field!r}; its fields are {', '.join(data)}")
            data = {field: data[field]}
        if as_json:
            print_json(data, indent=None)
        else:
            print_line("\n".join(f"{key}: {value}" for key, value in data.items()) + "\n---")
        if number == count:
            return


@app.command(epilog="Example: armswing topic hz rotary_pendulum/state --duration 3")
def hz(
    topic: TopicName,
    duration: Seconds = 0.0,
    timeout: Timeout = 10.0,
    domain: Domain = None,
    as_json: AsJson = False,
) -> None:
    """Print the message rate of a topic, and minimum, maximum and standard deviation of the period between messages."""
    from nodes.cli.measures import Rate

    _measure(Rate(), topic, duration, timeout, domain, as_json)


@app.command(epilog="Example: armswing topic bw rotary_pendulum/state --duration 3")
def bw(
    topic: TopicName,
    duration: Seconds = 0.0,
    timeout: Timeout = 10.0,
    domain: Domain = None,
    as_json: AsJson = False,
) -> None:
    """Print the bandwidth of a topic, and the mean size of its messages."""
    from nodes.cli.measures import Bandwidth

    _measure(Bandwidth(), topic, duration, timeout, domain, as_json)


@app.command(epilog="Example: armswing topic delay rotary_pendulum/state --duration 3")
def delay(
    topic: TopicName,
    duration: Seconds = 0.0,
    timeout: Timeout = 10.0,
    domain: Domain = None,
    as_json: AsJson = False,
) -> None:
    """Print the delay from the publisher's time stamp to reception.

    For a publisher on another host, the offset of that host's clock is measured first and then twice a second. The
    delays are corrected for this offset.
    """
    from nodes.cli.measures import Delay

    with _remote_clock(topic, domain) as clock:
        _measure(Delay(clock), topic, duration, timeout, domain, as_json)


@app.command(epilog="""Example: armswing topic pub rotary_pendulum/reference '{"name": ["arm"], "position": [0.5]}'""")
def pub(
    topic: TopicName,
    message: Annotated[str, typer.Argument(help="The message's fields as JSON.", show_default=False)],
    rate: Annotated[float, typer.Option("--rate", min=0.1, max=1000.0, help="Messages per second.")] = 50.0,
    count: Annotated[int, typer.Option("-n", "--count", min=0, help="Number of messages; with 0, until Ctrl-C.")] = 0,
    domain: Domain = None,
) -> None:
    """Publish a message repeatedly, until -n messages are sent, Ctrl-C is pressed, or the launch ends."""
    sent = publish(topic, message, rate_hz=rate, count=count, domain=domain, greet=print_line)
    print_line(f"published {sent} messages on {topic}")


@contextlib.contextmanager
def _remote_clock(topic: str, domain: int | None) -> Iterator[Any]:
    """Context manager that yields a RemoteClock for the computer of the topic's publisher.

    It yields None if the publisher runs on this computer. A thread measures the clock repeatedly until the context
    ends.
    """
    from nodes.cli.measures import RemoteClock

    with Client(domain) as client:
        host = read_host_config(client.domain).host
        remote = [node for node in client.nodes() if topic in node.publishes and node.host != host]
    if not remote:
        yield None
        return
    clock, known, over = RemoteClock(remote[0].host), threading.Event(), threading.Event()

    def follow() -> None:
        with ServiceClient(remote[0].endpoints["service"]) as service:
            for number in itertools.count():
                clock.measure(lambda: service.call(CLOCK, timeout_s=ROUND_TRIP_S))
                if number + 1 == ROUND_TRIPS:
                    known.set()
                if over.wait(ROUND_TRIP_EVERY_S if known.is_set() else 0.0):
                    return

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    try:
        known.wait(ROUND_TRIPS * ROUND_TRIP_S)
        yield clock
    finally:
        over.set()
        follower.join(2.0 * ROUND_TRIP_S)


def _messages(topic: str, domain: int | None, timeout_s: float) -> Iterator[Any]:
    with Client(domain) as client:
        _check_topic(topic, [entry.name for entry in client.topics()])
        _warn_of_silence(topic, [entry.name for entry in client.topics() if entry.publishes], timeout_s)
        is_received = False
        for _, message in client.stream(topic, timeout_s=timeout_s or None):
            is_received = True
            yield message
        if not is_received:
            spoken = [entry.name for entry in client.topics() if entry.publishes]
            hint = "" if topic in spoken else f"; no node publishes it{did_you_mean(topic, spoken)}"
            raise UnavailableError(f"no message on {topic!r} within {timeout_s:g} s{hint}")


def _check_topic(topic: str, live: list[str]) -> None:
    if lookup(topic) is None and topic not in live:
        raise InputError(f"no topic {topic!r}; topics are {', '.join(live)}{did_you_mean(topic, live)}")


def _warn_of_silence(topic: str, spoken: list[str], timeout_s: float) -> None:
    """Warn if no node publishes `topic`, but nodes publish the same topic of other robots, as in "arm/state" and
    "leg/state".

    spoken  topics that nodes publish
    """
    leaf = topic.rpartition("/")[2]
    others = [name for name in spoken if name.rpartition("/")[2] == leaf and name != topic]
    if topic not in spoken and others:
        wait = f"waiting {timeout_s:g} s" if timeout_s else "waiting"
        warn(f"no node publishes {topic!r}; the live robot publishes {' and '.join(map(repr, others))}; {wait}")


def _measure(measure: Any, topic: str, duration_s: float, timeout_s: float, domain: int | None, as_json: bool) -> None:
    """Pass a topic's messages to `measure`, and print the result each second and at the end.

    As JSON, the result is printed only at the end.

    measure  a Rate, Bandwidth or Delay
    """
    begin: float | None = None
    shown = time.monotonic()
    try:
        for message in _messages(topic, domain, timeout_s):
            now = time.monotonic()
            begin = begin if begin is not None else now
            measure.add(message)
            if now - shown >= PERIOD_S and not as_json:
                shown = now
                print_line(measure.text())
            if duration_s and now - begin >= duration_s:
                break
    except KeyboardInterrupt:
        pass
    if as_json:
        print_json({"topic": topic, **measure.figures()})
    else:
        print_line(measure.text())


def _plain(message: Any) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(message)
    return plain
