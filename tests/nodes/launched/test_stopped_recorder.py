"""A recorder that stands still: every message that it loses is named in the file, by `info`, and at the launch's end.

`make test` runs one launch, `make soak` a hundred.
"""

from __future__ import annotations

import json
import random
import signal
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from nodes.framework.client import Client
from nodes.framework.recording.integrity.holes import LOST
from nodes.framework.recording.reader import RecordingFile
from nodes.framework.recording.runs import seq_of

BURST = """
import msgspec
from armswing import Node, messages

class Reading(messages.Message, kw_only=True):
    value: float = 0.0

class Burst(Node):
    publishes = {"reading": Reading, "alarm": Reading, "reference": messages.JointReference}

    class Params(msgspec.Struct, forbid_unknown_fields=True):
        reading: int = 0  # messages to publish in all
        alarm: int = 0
        reference: int = 0

    def on_start(self, context):
        self.sent = {name: 0 for name in self.publishes}

    def on_parameters(self, params):
        for name, kind in self.publishes.items():
            while self.sent[name] < getattr(params, name):
                self.sent[name] += 1
                yield name, kind()
"""
MORE_THAN_QUEUES = 25_000  # messages; the queues at both ends hold 20,000
TOPICS = ("reading", "alarm", "reference")


def test_every_message_that_a_stopped_recorder_loses_is_named(ground: Any, until: Callable[..., None]) -> None:
    run_with_stops(ground, until, random.Random(1))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100))
def test_every_message_that_a_stopped_recorder_loses_is_named_in_full(
    seed: int, ground: Any, until: Callable[..., None]
) -> None:
    run_with_stops(ground, until, random.Random(seed))


def run_with_stops(ground: Any, until: Callable[..., None], chosen: random.Random) -> None:
    """A launch whose recorder is stopped while a node publishes more than the queues hold, up to three times."""
    (ground.folder / "burst.py").write_text(BURST)
    nodes = '[[nodes]]\nname = "burst"\nrun = "burst.py:Burst"\n'
    nodes += '[[nodes]]\nname = "recorder"\nrun = "nodes/recorder.py:Recorder"\nparams = { file = "run.mcap" }\n'
    process = ground.start("launch", ground.launch_file(nodes), "--json", "summary.json")
    ground.wait_until_running(process, 3)
    sent = Counter[str]()

    def publish(client: Client, **counts: int) -> None:
        sent.update(counts)
        client.call("burst", "set_parameters", **sent)

    with Client(0) as client:
        recorder = next(child for child in ground.nodes_of(process) if child.pid == client.node("recorder").pid)
        publish(client, **{topic: chosen.randrange(1, 5) for topic in TOPICS})
        written = client.call("recorder", "recording")["frames_written"]
        until(lambda: client.call("recorder", "recording")["frames_written"] > written + 20)
        stops = chosen.randrange(1, 4)
        for _ in range(stops):
            recorder.send_signal(signal.SIGSTOP)
            until(lambda: recorder.status() == "stopped")
            publish(client, **{chosen.choice(TOPICS): MORE_THAN_QUEUES + chosen.randrange(5000)})
            publish(client, **{topic: chosen.randrange(3) for topic in TOPICS})
            recorder.send_signal(signal.SIGCONT)
            before = client.call("recorder", "recording")["frames_written"]
            until(lambda before=before: client.call("recorder", "recording")["frames_written"] > before)
            publish(client, **{topic: chosen.randrange(2) for topic in TOPICS})
        until(lambda: client.call("recorder", "recording")["frames_written"] > 9000 * stops)
        client.call("sim", "shutdown")
    out, err = process.communicate(timeout=60.0)

    file = RecordingFile(ground.folder / "run.mcap")
    received = Counter(each.topic for each in file)
    lost = Counter[str]()
    for hole in file.holes:
        assert (hole.cause, hole.counted) == (LOST, True), file.warning
        lost.update(hole.messages)
    published = {f"rotary_pendulum/{topic}": count for topic, count in sent.items() if count}
    assert {topic: received[topic] + lost[topic] for topic in published} == published, file.warning
    assert sum(lost[topic] for topic in published) > 1000
    states = [seq_of(each.payload) for each in file if each.topic == "rotary_pendulum/state"]
    assert states[-1] - states[0] + 1 == received["rotary_pendulum/state"] + lost["rotary_pendulum/state"]

    assert process.returncode == 1, out + err
    summary = json.loads((ground.folder / "summary.json").read_text())
    reason = summary["verdicts"]["recorder"]["reason"]
    assert summary["nodes"]["recorder"]["lost"] == sum(lost.values())
    assert f"({sum(lost.values())} of {sum((received + lost).values())} messages): messages did not reach" in reason
    info = ground.run("info", "run.mcap")
    assert "(lost): " in info.stderr
    described = json.loads(ground.run("info", "run.mcap", "--json").stdout)
    assert sum((Counter(hole["messages"]) for hole in described["holes"]), Counter()) == lost
