"""The browser view: first picture, updates of a live CHARMIE, time slider, requests, and its effect on the simulation.

    python tests/benchmarks/web_view.py [--pairs 10] [--seconds 20] [--minutes 2.5] [--recording FILE] [--json FILE]

Pictures are those of a headless Chromium, which draws without a graphics card. Updates and the effect are measured with
a client that reads what the page would read, in a process of its own, because a browser that draws in software needs
more than a core. The effect is that of `viewer_effect.py`: launches of CHARMIE with and without server and client, in
interleaved pairs. The slider counts from its message to the last message that comes in answer, of
a recording of 100 MB. The figures mean nothing on a busy computer.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import zstandard
from bars import at_least, at_most, reported
from live_window import END_S, PYTHON, START_S, launched
from viewer_recording import record
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.sync.connection import Connection

PICTURE_BAR_S, RATE_BAR, SHARE_BAR, SLIDER_BAR_S, RATIO_BAR = 3.0, 30.0, 0.20, 0.2, 1.1
RATE_SLACK = 0.97  # frames that a second may lack where its borders cut one
RATE_HZ, PAIRS, SECONDS, SETTLE_S, MINUTES = 250.0, 10, 20.0, 5.0, 2.5
SPOTS, PICTURES = 20, 5
QUIET_S = 0.5  # without a message for this long, the answer is complete
LENGTHS = 16  # bytes: the sizes of a packet's header, unpacked and packed
CAMERA = {
    "type": "ViewerCameraMessage",
    "wxyz": (1.0, 0.0, 0.0, 0.0),
    "position": (0.0, -3.0, 1.0),
    "fov": 0.5,
    "near": 0.01,
    "far": 100.0,
    "image_height": 600,
    "image_width": 800,
    "look_at": (0.0, 0.0, 0.0),
    "up_direction": (0.0, 0.0, 1.0),
}


@contextmanager
def served(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Context of `armswing view --web`: (its process, the address that it prints)."""
    command = [*PYTHON, "-m", "nodes.cli", "view", "--web", "--port", "0", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("open "):
            raise SystemExit("the server of the page did not start")
        yield process, line.split()[1]
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=END_S)


@contextmanager
def connected(address: str) -> Iterator[Connection]:
    """Context of a connection as the page makes it, with the camera of a browser."""
    import viser

    own, _, token = address.partition("/?token=")
    fields = {"Cookie": f"armswing_{urlsplit(own).port}={token}"}
    protocol: Any = [f"viser-v{viser.__version__}"]
    origin: Any = own
    with connect(
        own.replace("http", "ws", 1), origin=origin, additional_headers=fields, subprotocols=protocol, max_size=None
    ) as client:
        client.send(msgspec.msgpack.encode(CAMERA))
        yield client


def messages(packet: bytes) -> list[dict[str, Any]]:
    """Messages of one packet of viser."""
    size = int.from_bytes(packet[8:LENGTHS], "little")
    header = zstandard.ZstdDecompressor().decompress(packet[LENGTHS : LENGTHS + size])
    found: list[dict[str, Any]] = msgspec.msgpack.decode(header)["messages"]
    return found


def read(address: str, report: Path) -> None:
    """Read what the page would read until SIGTERM, and write when the body that moves most often was moved, s."""
    times: dict[str, list[float]] = {}
    began = time.monotonic()

    def end(*_: object) -> None:
        report.write_text(json.dumps(max(times.values(), key=len, default=[])))
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    with connected(address) as client:
        for packet in client:
            assert isinstance(packet, bytes)
            for each in messages(packet):
                if each["type"] == "SetOrientationMessage" and each["name"].startswith("/robot/"):
                    times.setdefault(each["name"], []).append(time.monotonic() - began)


@contextmanager
def reading(address: str, folder: Path) -> Iterator[Path]:
    """Context of a client that only reads, in a process of its own: the file of its report."""
    report = folder / "read.json"
    report.unlink(missing_ok=True)
    process = subprocess.Popen([sys.executable, __file__, "--read", address, "--json", str(report)])
    try:
        yield report
    finally:
        process.terminate()
        process.wait(timeout=END_S)


def processor_s(pid: int) -> float:
    """Processor time of a process so far, s."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def updates(seconds: float) -> dict[str, float]:
    """Updates per second that a client gets of a live CHARMIE, and the server's share of a core."""
    with launched(RATE_HZ) as folder:
        with served() as (process, address), reading(address, folder) as report:
            time.sleep(SETTLE_S)
            before, start = processor_s(process.pid), time.monotonic()
            time.sleep(seconds)
            share = (processor_s(process.pid) - before) / (time.monotonic() - start)
        times = json.loads(report.read_text()) if report.exists() else []
    inside = [each for each in times if times[-1] - seconds < each]
    return {"updates_per_s": len(inside) / seconds, "share_of_core": share}


def step(with_page: bool, seconds: float) -> tuple[float, float]:
    """(p50, p99) of the step time of one run, s."""
    from nodes.framework.client import Client

    with launched(RATE_HZ) as folder:

        def measure() -> tuple[float, float]:
            time.sleep(SETTLE_S)
            with Client() as client:
                client.call("sim", "reset")
                time.sleep(seconds)
                status = client.sim_status()
            return status["step_p50_s"], status["step_p99_s"]

        if not with_page:
            return measure()
        with served() as (_, address), reading(address, folder):
            return measure()


def slider(path: str) -> dict[str, float]:
    """Times from a message of the slider to the last message, with poses and plots, that comes in answer, s."""
    found = []
    with served(path) as (_, address), connected(address) as client:
        known: dict[str, Any] = {}
        deadline = time.monotonic() + START_S
        while "whole" not in known and time.monotonic() < deadline:
            for each in messages(bytes(client.recv(timeout=START_S))):  # type: ignore[arg-type]
                if each["type"] == "GuiSliderMessage":
                    known["uuid"], known["end"] = each["uuid"], each["props"]["max"]
                elif each["type"] == "GuiUpdateMessage" and each["uuid"] == known.get("uuid"):
                    known["end"] = each["updates"].get("max", known.get("end"))
                text = str(each.get("updates", {}).get("_markdown", ""))
                if "states in" in text and "still being read" not in text:
                    known["whole"] = True
        for number in range(SPOTS):
            value = known["end"] * (number * 7 % SPOTS + 0.5) / SPOTS
            start = time.perf_counter()
            message = {"type": "GuiUpdateMessage", "uuid": known["uuid"], "updates": {"value": value}}
            client.send(msgspec.msgpack.encode(message))
            last = start
            while last - start < END_S:
                try:
                    client.recv(timeout=QUIET_S if last > start else END_S)
                except TimeoutError:
                    break
                last = time.perf_counter()
            assert last > start, "no answer came"
            found.append(last - start)
    return {"slider_p50_s": statistics.median(found), "slider_max_s": max(found)}


def picture(path: str) -> dict[str, Any]:
    """Times from opening the address to the first picture of the robot, s, and the hosts that the page asks."""
    from tests.viewer.browser import chromium  # needs pytest and matplotlib, which the other processes do not

    times, server_s, hosts = [], [], set[str]()
    for _ in range(PICTURES):
        with served(path) as (process, address), chromium("900,600") as browser:
            before, start = processor_s(process.pid), time.perf_counter()
            browser.open(address)
            browser.until("document.querySelector('canvas') !== null")  # nothing can be captured before
            while len({tuple(each) for each in (31 * browser.picture()[::8, :400:8]).astype(int).reshape(-1, 3)}) < 20:
                assert time.perf_counter() - start < START_S, "no picture"
            times.append(time.perf_counter() - start)
            server_s.append(processor_s(process.pid) - before)
            asked = [urlsplit(each) for each in browser.requests]
            hosts |= {each.netloc for each in asked if each.scheme not in ("data", "blob")} - {urlsplit(address).netloc}
    return {
        "picture_p50_s": statistics.median(times),
        "picture_max_s": max(times),
        "picture_server_s": statistics.median(server_s),
        "other_hosts": sorted(hosts),
    }


def strange_origin(path: str) -> int:
    """Status of the answer to a page of another server that has the token."""
    with served(path) as (_, address):
        own, _, token = address.partition("/?token=")
        fields, origin = {"Cookie": f"armswing_{urlsplit(own).port}={token}"}, "https://evil.example"
        try:
            with connect(own.replace("http", "ws", 1), origin=origin, additional_headers=fields):  # type: ignore[arg-type]
                return 101
        except InvalidStatus as error:
            return error.response.status_code


def main(
    json_path: str | None = None,
    pairs: int | None = None,
    seconds: float | None = None,
    minutes: float | None = None,
    recording: str | None = None,
) -> dict[str, Any]:
    """Measure, print the table, and write it as JSON where asked to."""
    length_s = SECONDS if seconds is None else seconds
    with tempfile.TemporaryDirectory() as folder:
        path = Path(recording or f"{folder}/long.mcap").absolute()
        if not path.exists():
            print("recording 100 MB ...", flush=True)
            record(path, 60.0 * (MINUTES if minutes is None else minutes))
        figures: dict[str, Any] = {"size_mb": 1e-6 * path.stat().st_size, **slider(str(path)), **picture(str(path))}
        figures["strange_origin"] = strange_origin(str(path))
    print(f"processor time of the server until the first picture: {figures['picture_server_s']:.2f} s", flush=True)
    figures |= updates(length_s)
    rows = []
    for number in range(PAIRS if pairs is None else pairs):
        row = {with_page: step(with_page, length_s) for with_page in (number % 2 == 0, number % 2 == 1)}
        rows.append((row[False], row[True]))
        print(
            f"  pair {number + 1:2d}   p50 {1e6 * row[False][0]:6.1f}, with a page {1e6 * row[True][0]:6.1f} us",
            flush=True,
        )
    figures["pairs"] = rows
    ratio = figures["ratio"] = statistics.median(w[0] / a[0] for a, w in rows) if rows else float("nan")
    bars = [
        at_most("first picture, s", figures["picture_p50_s"], PICTURE_BAR_S),
        at_least("updates per second", figures["updates_per_s"], RATE_SLACK * RATE_BAR),
        at_most("share of a core, %", 100.0 * figures["share_of_core"], 100.0 * SHARE_BAR),
        at_most("time slider, longest, s", figures["slider_max_s"], SLIDER_BAR_S),
        at_most("other hosts", len(figures["other_hosts"]), 0),
        at_least("answer to a strange origin", figures["strange_origin"], 403),
        *([at_most("ratio of p50", ratio, RATIO_BAR)] if rows else []),
    ]
    return reported(figures, bars, json_path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="number of pairs of runs (10)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="time that is measured in each run (20)")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="length of the recording (2.5)")
    parser.add_argument("--recording", metavar="FILE", help="the recording, which is made where there is none")
    parser.add_argument("--read", metavar="ADDRESS", help=argparse.SUPPRESS)  # the client's own process
    arguments = parser.parse_args()
    if arguments.read is not None:
        read(arguments.read, Path(arguments.json))
    else:
        main(arguments.json, arguments.pairs, arguments.seconds, arguments.minutes, arguments.recording)
