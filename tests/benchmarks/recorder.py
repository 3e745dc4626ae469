"""Messages per second that one core records: decoded from the wire, encoded as JSON, written as MCAP.

    python tests/benchmarks/recorder.py [--json FILE]

The message is the rotary pendulum's state. Beside it, in the same run: the mcap library alone, given the JSON
ready-made, which is the most any recorder in this format can do.
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
from mcap.writer import CompressionType, Writer

from nodes.recorder import Recorder
from nodes.runtime.node import Context
from nodes.wire.codec import decode, encode
from nodes.wire.messages import RobotState
from nodes.wire.recording import read_recording

TOPIC = "rotary_pendulum/state"
MESSAGES = 30_000
REPEATS = 7
BAR_PER_S = 60_000.0


def states() -> list[RobotState]:
    """Distinct states of two joints with full-length numbers, as a run gives them."""
    random = np.random.default_rng(1)
    found = []
    for tick in range(MESSAGES):
        a, b, c, d, e, phi, phidot, energy = random.normal(size=8).tolist()
        found.append(
            RobotState(
                timestamp=tick * 1e-3,
                seq=tick,
                sent_ns=1_700_000_000_000_000_000 + tick,
                name=["arm", "pendulum"],
                position=[a, b],
                velocity=[c, d],
                effort=[e, 0.0],
                phi=1e-12 * abs(phi),
                phidot=1e-10 * abs(phidot),
                energy=energy,
            )
        )
    return found


def record(payloads: list[bytes], path: Path) -> float:
    """Seconds for the recorder node to take in all payloads, flushing twice per simulated second."""
    recorder = Recorder()
    params = Recorder.Params(file=str(path))
    random = np.random.default_rng(0)
    recorder.on_start(Context("recorder", "rotary_pendulum", 1e-3, params, random))
    start = time.perf_counter()
    for tick, payload in enumerate(payloads):
        recorder.on_message(TOPIC, decode(TOPIC, payload))
        if tick % 50 == 0:
            recorder.on_tick(tick * 1e-3)
    recorder.on_stop()
    return time.perf_counter() - start


def record_ready_made(lines: list[bytes], path: Path) -> float:
    """Seconds for the mcap library alone to write ready-made JSON."""
    start = time.perf_counter()
    with path.open("wb") as file:
        writer = Writer(file, compression=CompressionType.NONE)
        writer.start()
        schema = writer.register_schema("RobotState", "jsonschema", b'{"type":"object"}')
        channel = writer.register_channel(TOPIC, "json", schema)
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


def rates(seconds: list[float]) -> dict[str, float]:
    """Messages per second: the best run and the median one."""
    return {"best_per_s": MESSAGES / min(seconds), "median_per_s": MESSAGES / statistics.median(seconds)}


def main(json_path: str | None = None) -> dict[str, Any]:
    """Measure on one core, print the table, write it as JSON when asked to."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        messages = states()
        payloads = [encode(message, TOPIC) for message in messages]
        lines = [msgspec.json.encode(message) for message in messages]
        ours, ready_made, reading = [], [], []
        with tempfile.TemporaryDirectory(prefix="recorder-") as name:
            path = Path(name) / "run.mcap"
            for _ in range(REPEATS):
                ours.append(record(payloads, path))
                reading.append(timed(lambda: read_recording(path)))
                ready_made.append(record_ready_made(lines, Path(name) / "peer.mcap"))
            size = path.stat().st_size
    finally:
        os.sched_setaffinity(0, cores)
    figures = {
        "recorder": rates(ours),
        "mcap_alone": rates(ready_made),
        "read_recording": rates(reading),
        "bytes_per_message": size / MESSAGES,
        "bar_per_s": BAR_PER_S,
    }
    print("messages per second on one core          best    median   at least")
    print(_row("recorder node: wire to file", figures["recorder"], f"{BAR_PER_S:9,.0f}"))
    print(_row("mcap library alone, JSON ready-made", figures["mcap_alone"], ""))
    print(_row("read_recording: file to arrays", figures["read_recording"], ""))
    if json_path is not None:
        Path(json_path).write_text(json.dumps(figures, indent=2) + "\n")
    return figures


def _row(label: str, rate: dict[str, float], bar: str) -> str:
    return f"  {label:<36}{rate['best_per_s']:9,.0f} {rate['median_per_s']:9,.0f}  {bar}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    main(parser.parse_args().json)
