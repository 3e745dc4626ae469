"""Recordings as data frames, and what a notebook shows of mechanisms, simulations, runs and recordings."""

from __future__ import annotations

import math
import sys
import warnings
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodes.framework.messages import Description, Event, PlotValues, RobotState
from nodes.framework.plan.launch_plan import Plan, SimPlan
from nodes.framework.recording.reader import RecordingWarning, RecordingWriter, read_recording
from nodes.framework.simulation.compose import compose
from robots.registry import BUILTIN, build
from sim_core.simulation import Simulation
from sim_core.support.notebook import MOST_ROWS, page
from sim_core.system import assemble

pd = pytest.importorskip("pandas")


class Table(HTMLParser):
    """The text of each row and of each other element of a piece of HTML; every element has to be closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open, f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self._open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] in ("td", "th"):
            self.rows[-1][-1] += data
        elif data.strip():
            self.texts.append(data.strip())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "run.mcap"
    with RecordingWriter(path, {}) as writer:
        writer.write("arm/description", Description(robot="arm"), 0.0)
        for tick in range(101):
            t = tick * 1e-2
            state = RobotState(
                timestamp=t,
                seq=tick + 1,
                name=["shoulder", "elbow"],
                position=[t, -t],
                velocity=[1.0, -1.0],
                outputs={"height": 2.0 * t},
            )
            writer.write("arm/state", state, t)
            values: dict[str, float | list[float]] = {"error": math.nan if tick == 3 else t, "tip": [t, 0.0, 1.0]}
            writer.write("arm/hold/plot", PlotValues(timestamp=t, seq=tick + 1, values=values), t)
        writer.write("arm/event", Event(timestamp=0.5, kind="pause", detail="by <me> & you"), 0.5)
    return path


def test_a_topic_is_a_data_frame_over_simulation_time(file: Path) -> None:
    recording = read_recording(file)
    state = recording.to_pandas("arm/state")
    assert state.index.name == "time_s"
    np.testing.assert_array_equal(state.index, recording["arm/state"]["log_time"])
    np.testing.assert_array_equal(state["position[elbow]"], recording["arm/state"]["position"][:, 1])
    np.testing.assert_array_equal(state["outputs.height"], 2.0 * state["timestamp"])
    assert {"seq", "timestamp", "velocity[shoulder]", "phi"} <= set(state.columns)
    assert "name" not in state.columns
    assert state["seq"].dtype == np.int64
    assert state.attrs == {"file": str(file), "topic": "arm/state", "warning": ""}
    assert state.loc[0.2:0.4, "position[shoulder]"].mean() == pytest.approx(0.3)


def test_plotted_values_are_columns_and_nan_stays_nan(file: Path) -> None:
    plotted = read_recording(file).to_pandas("arm/hold/plot")
    assert plotted["values.error"].isna().sum() == 1
    assert math.isnan(plotted["values.error"].iloc[3])
    assert list(plotted["values.tip[2]"].unique()) == [1.0]


def test_without_a_topic_all_are_given(file: Path) -> None:
    frames = read_recording(file).to_pandas()
    assert list(frames) == read_recording(file).topics
    assert list(frames["arm/event"]["kind"]) == ["pause"]
    with pytest.raises(KeyError, match="has no topic 'arm/stat'; its topics are"):
        read_recording(file).to_pandas("arm/stat")


def test_without_pandas_one_line_names_the_install(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ModuleNotFoundError, match=r"pandas.*; pip install 'armswing\[notebook\]' installs it") as told:
        read_recording(file).to_pandas("arm/state")
    assert "\n" not in str(told.value)


def test_a_notebook_shows_a_recording_with_its_topics_and_what_it_lacks(file: Path) -> None:
    shown = Table(read_recording(file)._repr_html_())
    assert shown.texts[0] == "Recording run.mcap"
    assert shown.texts[1] == "arm · t = 0 .. 1 s · 1 run · 204 messages"
    assert shown.rows[0] == ["topic", "message", "messages", "rate, Hz"]
    assert ["arm/state", "RobotState", "101", "100"] in shown.rows
    assert ["arm/hold/plot", "PlotValues", "101", "100"] in shown.rows
    assert ["arm/description", "Description", "1", ""] in shown.rows
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecordingWarning)
        cut = Table(read_recording(file)._repr_html_())
    assert "(cut off)" in cut.texts[1]


@pytest.mark.parametrize("name", sorted(BUILTIN))
def test_a_notebook_shows_every_mechanism_with_its_joints(name: str) -> None:
    mechanism = build(name)
    shown = Table(mechanism._repr_html_())
    assert shown.texts[0] == f"Mechanism {mechanism.name}"
    assert f"{mechanism.coordinates.replace('_', ' ')} coordinates" in shown.texts[1]
    parts = [joint.name for joint in mechanism.joints] or [body.name for body in mechanism.bodies]
    assert [row[0] for row in shown.rows[1:]] == parts[:MOST_ROWS]
    assert (f"and {len(parts) - MOST_ROWS} more" in shown.texts) == (len(parts) > MOST_ROWS)


def test_a_notebook_shows_a_simulation_and_a_run_as_they_are_now() -> None:
    simulation = Simulation(assemble(build("rotary_pendulum")))
    simulation.advance(0.1)
    shown = Table(simulation._repr_html_())
    assert shown.texts[0] == "Simulation of rotary_pendulum"
    assert shown.texts[1].startswith("t = 0.1 s · rk4, sampled_fuzzy, steps of 1 ms · |Phi| ")
    position, velocity, effort = simulation.joints()
    for place, row in enumerate(shown.rows[1:]):
        numbers = (f"{values[place]:.4g}" for values in (position, velocity, effort))
        assert row == [simulation.system.mechanism.moving_joints[place].name, "rad", *numbers]
    with compose(Plan(name="fall", folder=".", sim=SimPlan(robot="rotary_pendulum", mode="lockstep"), nodes=[])) as run:
        run.run(0.05)
        assert Table(run._repr_html_()).texts[:2] == [
            "Run of fall",
            "rotary_pendulum · t = 0.05 s · rk4, sampled_fuzzy, steps of 1 ms · peak violation |Phi| "
            "{:.2g}, |Phidot| {:.2g}".format(*run.server.simulation.peak_violation()),
        ]


def test_texts_are_escaped_and_long_tables_counted() -> None:
    shown = Table(page("<b>", ["a < b"], ("n", "text"), [(k, "&lt;") for k in range(MOST_ROWS + 2)]))
    assert shown.texts == ["<b>", "a < b", "and 2 more"]
    assert shown.rows[1] == ["0", "&lt;"]
    assert len(shown.rows) == MOST_ROWS + 1
