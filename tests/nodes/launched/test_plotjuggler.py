"""PlotJuggler's ZeroMQ subscriber reads a live launch, by the rules of its source, version 3.17 (plugin DataStreamZMQ).

The rules, in words: subscribe on a SUB socket to all topics or to those that the user lists. The first frame of several
is the topic, the next the payload, a third the time in s as text; without it the time is that of reception, or the
field that the user names under "use field as timestamp". An empty first frame or payload is skipped, a payload that
does not parse is dropped. A MessagePack payload must be one value, with text as the keys of maps. A map appends "/key",
an array "[index]"; booleans and numbers are points of the curve of that name, other values are left out; nil, empty
maps and empty arrays too. A top-level array is a batch of messages.
"""

from __future__ import annotations

import math
import re
import signal
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import msgpack
import pytest
import zmq

from nodes.framework.client import Client
from nodes.framework.messages import RobotState

STATE = "rotary_pendulum/state"
Curves = dict[str, list[tuple[float, float]]]


class PlotJuggler:
    """A subscriber that keeps the curves as PlotJuggler would.

    stamp  field that the user names under "use field as timestamp"; "" for none
    """

    def __init__(self, address: str, stamp: str = "", topics: str = "") -> None:
        self.curves: Curves = {}
        self.dropped = 0
        self._stamp: dict[str, str] = {}
        self._asked_stamp = stamp
        self.socket = zmq.Context.instance().socket(zmq.SUB)
        self.socket.rcvtimeo = 100
        self.socket.connect(address)
        self.socket.setsockopt_string(zmq.SUBSCRIBE, topics)

    def receive(self) -> None:
        """Take the frames of one message, or nothing within 100 ms."""
        try:
            frames = self.socket.recv_multipart()
        except zmq.Again:
            return
        if not frames[0]:
            return
        topic, payload = (frames[0].decode(), frames[1]) if len(frames) > 1 else ("", frames[0])
        if not payload:
            return
        stamp = float(frames[2]) if len(frames) > 2 else time.time()
        try:
            value = msgpack.unpackb(payload, raw=False, strict_map_key=True)
        except (ValueError, msgpack.UnpackException):
            self.dropped += 1
            return
        for element in value if isinstance(value, list) else [value]:
            self._take(topic, element, stamp)

    def _take(self, topic: str, value: Any, stamp: float) -> None:
        wanted = self._stamp.setdefault(topic, self._asked_stamp)
        if wanted and isinstance(value, dict) and isinstance(value.get(wanted), int | float):
            stamp = float(value[wanted])
        elif wanted:
            self._stamp[topic] = ""  # once it is missing, it is not looked for again
        for name, number in self._flat(topic, value):
            self.curves.setdefault(name, []).append((stamp, number))

    def _flat(self, prefix: str, value: Any) -> Iterator[tuple[str, float]]:
        if isinstance(value, dict):
            for key, item in sorted(value.items()):
                yield from self._flat(f"{prefix}/{key}", item)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                yield from self._flat(f"{prefix}[{index}]", item)
        elif isinstance(value, bool | int | float):
            yield prefix, float(value)

    def until(self, done: Callable[[Curves], object], deadline_s: float = 30.0) -> Curves:
        deadline = time.monotonic() + deadline_s
        while not done(self.curves):
            assert time.monotonic() < deadline, sorted(self.curves)
            self.receive()
        self.socket.close()
        return self.curves


@pytest.mark.usefixtures("live")
def test_it_reads_the_servers_own_address_with_the_field_timestamp_as_time() -> None:
    with Client(0) as client:
        address = client.node("sim").endpoints["data"]
    juggler = PlotJuggler(address, stamp="timestamp")
    curves = juggler.until(lambda found: len(found.get(f"{STATE}/position[1]", ())) > 200)
    assert juggler.dropped == 0
    for field in ("timestamp", "seq", "energy", "position[0]", "velocity[1]", "effort[0]"):
        assert f"{STATE}/{field}" in curves
    assert not [name for name in curves if name.startswith((f"{STATE}/name", f"{STATE}/clock"))]  # text
    times = [stamp for stamp, _ in curves[f"{STATE}/position[0]"]]
    assert times == sorted(set(times))
    assert times == [value for _, value in curves[f"{STATE}/timestamp"]]
    assert {round(1e3 * (after - before)) for before, after in pairwise(times)} == {5}


@pytest.mark.usefixtures("live")
def test_its_curves_are_the_numbers_that_our_own_client_receives() -> None:
    with Client(0) as client:
        juggler = PlotJuggler(client.node("sim").endpoints["data"], stamp="timestamp", topics=STATE)
        own: dict[float, RobotState] = {}
        shared: list[tuple[float, float]] = []
        for _, message in client.stream(STATE, timeout_s=5.0):
            assert isinstance(message, RobotState)
            own[message.timestamp] = message
            juggler.receive()
            read = juggler.curves.get(f"{STATE}/position[1]", ())
            shared = [(stamp, value) for stamp, value in read if stamp in own]
            if len(shared) > 50:
                break
        juggler.until(lambda found: True)
    assert len(shared) > 50
    assert shared == [(stamp, own[stamp].position[1]) for stamp, _ in shared]


def test_the_bridge_has_all_topics_joint_names_and_simulation_time_without_any_option(live: Any) -> None:
    process = live.start("bridge", "plotjuggler", "--port", "0")
    assert process.stdout is not None
    told = process.stdout.readline()
    found = re.search(r"Connect, tcp://, localhost, (\d+); Message Protocol msgpack", told)
    assert found, told
    juggler = PlotJuggler(f"tcp://localhost:{found[1]}")
    wanted = [f"{STATE}/position/arm", "rotary_pendulum/command/value/arm", "status/damper/counters/sent"]
    curves = juggler.until(lambda found: all(len(found.get(name, ())) > 1 for name in wanted))
    assert juggler.dropped == 0
    with Client(0) as client:
        now = float(client.sim_status()["time"])
    stamps = [stamp for stamp, _ in curves[f"{STATE}/position/arm"]]
    assert now - 5.0 < stamps[0] < now
    assert stamps == pytest.approx([value for _, value in curves[f"{STATE}/timestamp"]], abs=1e-9)
    seqs = [seq for _, seq in curves[f"{STATE}/seq"]]
    assert seqs == list(range(int(seqs[0]), int(seqs[0]) + len(seqs)))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30.0)
    assert (process.returncode, err) == (0, "")
    assert re.search(r"published \d+ messages; 0 were lost", out)


def test_a_port_in_use_is_refused_in_one_line(live: Any) -> None:
    with zmq.Context.instance().socket(zmq.PUB) as taken:
        port = taken.bind_to_random_port("tcp://127.0.0.1")
        done = live.run("bridge", "plotjuggler", "--port", port)
    assert done.returncode == 2
    assert done.stderr == f"armswing: port {port}: Address already in use; choose another port with --port\n"


def test_nan_and_vectors_of_plotted_values_become_curves() -> None:
    from nodes.framework.bridges.plotjuggler import plottable
    from nodes.framework.messages import PlotValues
    from nodes.framework.messages.codec import encode

    juggler = PlotJuggler("inproc://nobody")
    message = PlotValues(timestamp=0.5, values={"error": math.nan, "tip": [1.0, 2.0]})
    for payload in (encode(message), msgpack.packb(plottable(message))):
        juggler.curves.clear()
        juggler._take("arm/hold/plot", msgpack.unpackb(payload), 0.5)
        assert math.isnan(juggler.curves["arm/hold/plot/values/error"][0][1])
        assert juggler.curves["arm/hold/plot/values/tip[1]"] == [(0.5, 2.0)]
    juggler.socket.close(0)
