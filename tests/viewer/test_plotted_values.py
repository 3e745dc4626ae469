"""Values that a node plots in the viewer: each name is a curve of its own, live and of a recording."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodes.framework.messages import Message, PlotValues
from nodes.framework.messages.codec import decode, encode
from nodes.framework.recording.reader import read_recording
from nodes.framework.recording.writer import RecordingWriter
from viewer.data.live_store import LiveStore
from viewer.data.recorded_store import RecordedStore
from viewer.data.signals import Signals, Store, from_recording, unit_of

TOPIC = "arm/hold/plot"


def messages() -> list[PlotValues]:
    """Of 200 messages each second one has `error` (once NaN), every twentieth `gap` and `tip`, the others `tick`."""
    found = []
    for k in range(100):
        values: dict[str, float | list[float]] = {"error": math.nan if k == 50 else 0.1 * k}
        if k % 10 == 0:
            values |= {"gap": 1.0 * k, "tip": [1.0 * k, 2.0]}
        found.append(PlotValues(timestamp=1e-3 * k, seq=2 * k + 1, values=values))
        found.append(PlotValues(timestamp=1e-3 * k, seq=2 * k + 2, values={"tick": 1e-3 * k}))
    return found


@pytest.fixture(params=["live", "recorded"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "live":
        live = LiveStore()
        for message in messages():  # a frame per message: the sets of names alternate
            live.add([(TOPIC, message)])
        assert live.lost == 0
        return live
    with RecordingWriter(tmp_path / "run.mcap", {}) as writer:
        for message in messages():
            writer.write(TOPIC, message, message.timestamp)
    return RecordedStore(read_recording(tmp_path / "run.mcap"))


def test_each_name_is_one_curve_through_the_messages_that_have_it(store: Store) -> None:
    assert set(store.fields(TOPIC)) == {"values.error", "values.gap", "values.tip.0", "values.tip.1", "values.tick"}
    for field, every, value in (("values.gap", 10, 1.0), ("values.tip.0", 10, 1.0), ("values.tick", 1, 1e-3)):
        times, values = store.column(TOPIC, field) or pytest.fail(f"no {field}")
        np.testing.assert_allclose(times, 1e-3 * np.arange(0, 100, every))
        np.testing.assert_allclose(values, value * np.arange(0, 100, every))


def test_a_plotted_value_has_the_unit_that_its_node_gives(tmp_path: Path) -> None:
    found = PlotValues(
        seq=1, values={"error": 1.0, "tip": [1.0, 2.0], "count": 3.0}, units={"error": "deg", "tip": "m"}
    )
    live = Signals()
    live.add([(TOPIC, found)])
    with RecordingWriter(tmp_path / "run.mcap", {}) as writer:
        writer.write(TOPIC, found, 0.0)
        writer.write(TOPIC, PlotValues(seq=2, values={"count": 4.0}), 1.0)
    for signals in (live, from_recording(read_recording(tmp_path / "run.mcap"))):
        units = [unit_of(signals, TOPIC, f"values.{name}") for name in ("error", "tip.0", "tip.1", "count", "other")]
        assert units == ["deg", "m", "m", "", ""]


def test_a_plotted_nan_is_a_gap_and_the_only_one(store: Store) -> None:
    times, values = store.column(TOPIC, "values.error") or pytest.fail("no error")
    assert list(np.flatnonzero(np.isnan(values))) == [50]
    assert len(times) == 100


class Pose(Message, kw_only=True):
    """A message whose type only its node knows."""

    frame: str = "map"
    twist: dict[str, float] = {}
    spots: list[list[float]] = []
    name: list[str] = []
    effort: list[float] = []
    found: bool = True
    near: float | None = None
    deep: dict[str, dict[str, float]] = {}


def test_a_message_of_an_unknown_type_has_the_same_fields_live_and_recorded(tmp_path: Path) -> None:
    topic, live = "arm/pose", LiveStore()
    with RecordingWriter(tmp_path / "run.mcap", {}) as writer:
        for k in range(3):
            parts: dict[str, Any] = {"twist": {"vx": 1.0, "wz": 0.1 * k}, "deep": {"a": {"b": 2.0}}, "spots": [[1.0]]}
            said = Pose(timestamp=0.1 * k, seq=k + 1, name=["hip", "knee"], effort=[3.0, 1.0 * k], **parts)
            received = decode(topic, encode(said))
            live.add([(topic, received)])
            writer.write(topic, received, received.timestamp)
    recorded = RecordedStore(read_recording(tmp_path / "run.mcap"))
    fields = {"twist.vx", "twist.wz", "effort.hip", "effort.knee", "found", "near"}
    assert set(live.fields(topic)) == set(recorded.fields(topic)) == fields
    for field in fields:
        np.testing.assert_array_equal(live.column(topic, field), recorded.column(topic, field))


def test_plotted_values_on_a_topic_of_their_own_have_their_units() -> None:
    live = Signals()
    live.add(
        [("base/odometry", decode("base/odometry", encode(PlotValues(seq=1, values={"x": 1.0}, units={"x": "m"}))))]
    )
    assert live.store.fields("base/odometry") == ["values.x"]
    assert unit_of(live, "base/odometry", "values.x") == "m"
