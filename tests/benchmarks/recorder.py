"""Messages per second that one core records: decoded from the wire, encoded as JSON, written as MCAP.

    python tests/benchmarks/recorder.py [--json FILE]

The messages are the states of the rotary pendulum (2 joints) and of CHARMIE (21 joints). Beside them, in the same run:
the mcap library alone, given the JSON ready-made, which is the most any recorder in this format can do; and the time
that one call of fsync takes after as many messages as the recorder's default interval holds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from bars import at_least
from mcap.writer import CompressionType, Writer

from armswing import build
from nodes.framework.messages import RobotState
from nodes.framework.messages.codec import decode, encode
from nodes.framework.recording.reader import RecordingWriter, read_recording
from nodes.node import Context
from nodes.recorder import Recorder

MESSAGES = 30_000
REPEATS = 7
BARS_PER_S = {"rotary_pendulum": 60_000.0, "charmie": 10_000.0}


def states(robot: str) -> list[RobotState]:
    """Distinct states of the robot's joints with full-length numbers, as a run gives them."""
    random = np.random.default_rng(1)
    name = [joint.name for joint in build(robot).moving_joints]
    found = []
    for tick in range(MESSAGES):
        position, velocity, effort = random.normal(size=(3, len(name))).tolist()
        phi, phidot, energy = random.normal(size=3).tolist()
        found.append(
            RobotState(
                timestamp=tick * 1e-3,
                seq=tick,
                sent_ns=1_700_000_000_000_000_000 + tick,
                name=name,
                position=position,
                velocity=velocity,
                effort=effort,
                phi=1e-12 * abs(phi),
                phidot=1e-10 * abs(phidot),
                energy=energy,
            )
        )
    return found


def record(topic: str, payloads: list[bytes], path: Path) -> float:
    """Seconds for the recorder node to take in all payloads, flushing twice per simulated second."""
    recorder = Recorder()
    params = Recorder.Params(file=str(path))
    random = np.random.default_rng(0)
    recorder.on_start(Context("recorder", topic.partition("/")[0], 1e-3, params, random))
    start = time.perf_counter()
    for tick, payload in enumerate(payloads):
        recorder.on_message(topic, decode(topic, payload))
        if tick % 50 == 0:
            recorder.on_tick(tick * 1e-3)
    recorder.on_stop()
    return time.perf_counter() - start


def record_ready_made(topic: str, lines: list[bytes], path: Path) -> float:
    """Seconds for the mcap library alone to write ready-made JSON."""
    start = time.perf_counter()
    with path.open("wb") as file:
        writer = Writer(file, compression=CompressionType.NONE)
        writer.start()
        schema = writer.register_schema("RobotState", "jsonschema", b'{"type":"object"}')
        channel = writer.register_channel(topic, "json", schema)
        for tick, line in enumerate(lines):
            time_ns = tick * 1_000_000
            writer.add_message(channel, time_ns, line, time_ns, tick)
            if tick % 500 == 0:
                writer.flush()
        writer.finish()
    return time.perf_counter() - start


def timed(read: Callable[[], object]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    read()
    return time.perf_counter() - start


def syncs(messages: list[RobotState], path: Path) -> dict[str, float]:
    """Times of a flush that calls fsync and of one that does not, s, each of 5 s of messages at 1 kHz."""
    found: dict[str, list[float]] = {"fsync": [], "flush": []}
    with (
        RecordingWriter(path, {}, chunk_s=None, sync_s=1e-9) as synced,
        RecordingWriter(path.with_name("unsynced.mcap"), {}, chunk_s=None) as unsynced,
    ):
        for start in range(0, MESSAGES, 5000):
            for name, writer in (("fsync", synced), ("flush", unsynced)):
                for message in messages[start : start + 5000]:
                    writer.write("robot/state", message, message.timestamp)
                found[name].append(timed(writer.flush))
    return {
        "fsync_median_s": statistics.median(found["fsync"]),
        "fsync_largest_s": max(found["fsync"]),
        "flush_median_s": statistics.median(found["flush"]),
    }


def rates(seconds: list[float]) -> dict[str, float]:
    """Messages per second: the best run and the median one."""
    return {"best_per_s": MESSAGES / min(seconds), "median_per_s": MESSAGES / statistics.median(seconds)}


def measure(robot: str) -> dict[str, Any]:
    """Rates of the recorder, of the library alone and of reading, for the states of one robot."""
    topic = f"{robot}/state"
    messages = states(robot)
    payloads = [encode(message, topic) for message in messages]
    lines = [msgspec.json.encode(message) for message in messages]
    ours, ready_made, reading = [], [], []
    with tempfile.TemporaryDirectory(prefix="recorder-") as name:
        path = Path(name) / "run.mcap"
        for _ in range(REPEATS):
            ours.append(record(topic, payloads, path))
            reading.append(timed(lambda: read_recording(path)))
            ready_made.append(record_ready_made(topic, lines, Path(name) / "peer.mcap"))
        size = path.stat().st_size
        sync = syncs(messages, Path(name) / "synced.mcap")
    return {
        "sync": sync,
        "recorder": rates(ours),
        "mcap_alone": rates(ready_made),
        "read_recording": rates(reading),
        "bytes_per_message": size / MESSAGES,
        "bar_per_s": BARS_PER_S[robot],
    }


def main(json_path: str | None = None) -> dict[str, Any]:
    """Measure on one core, print the table, write it as JSON when asked to."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        figures: dict[str, Any] = {robot: measure(robot) for robot in BARS_PER_S}
    finally:
        os.sched_setaffinity(0, cores)
    for robot, found in figures.items():
        print(f"{f'states of {robot}, per second on one core':<46}best    median   at least")
        print(_row("recorder node: wire to file", found["recorder"], f"{found['bar_per_s']:9,.0f}"))
        print(_row("mcap library alone, JSON ready-made", found["mcap_alone"], ""))
        print(_row("read_recording: file to arrays", found["read_recording"], ""))
        sync = {key: 1e3 * value for key, value in found["sync"].items()}
        print(
            f"  flush with fsync after 5 s at 1 kHz: median {sync['fsync_median_s']:.1f} ms, "
            f"at most {sync['fsync_largest_s']:.1f} ms; without fsync {sync['flush_median_s']:.1f} ms"
        )
    best = {robot: found["recorder"]["best_per_s"] for robot, found in figures.items()}
    figures["bars"] = [at_least(f"states of {robot}, 1/s", best[robot], bar) for robot, bar in BARS_PER_S.items()]
    if json_path is not None:
        Path(json_path).write_text(json.dumps(figures, indent=2) + "\n")
    return figures


def _row(label: str, rate: dict[str, float], bar: str) -> str:
    return f"  {label:<36}{rate['best_per_s']:9,.0f} {rate['median_per_s']:9,.0f}  {bar}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    main(parser.parse_args().json)
