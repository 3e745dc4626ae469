"""What the window shows after a reset, and of the next launch: no data of an earlier run as if it were of this one."""

from __future__ import annotations

import html
import math
import re
from typing import Any

import pytest

from nodes.framework.messages import Event, JointReference, RobotState, Status

pytest.importorskip("pyqtgraph", exc_type=ImportError)

from tests.viewer.window_driving import hear, live
from viewer.data.boundaries import LaunchBegan
from viewer.data.live_store import LiveStore
from viewer.data.signals import Store
from viewer.layout import Layout
from viewer.qt.titles import LETTER_WIDTH, compose
from viewer.window.docks.docks import STEERING
from viewer.window.main import MainWindow
from viewer.window.plots.plot import DOTS

STATE = "swing/state"


def state(time: float, seq: int) -> tuple[str, RobotState]:
    return STATE, RobotState(timestamp=time, seq=seq, name=["yaw"], position=[time], velocity=[0.0])


def event(time: float, kind: str, **fields: Any) -> tuple[str, Event]:
    return "swing/event", Event(timestamp=time, kind=kind, **fields)


def reference(time: float) -> tuple[str, JointReference]:
    return "swing/reference", JointReference(timestamp=time, name=["yaw"], position=[0.0])


def old_launch(window: MainWindow, feed: Any) -> None:
    """A launch in which a user pushed, looked at a part of the time, and selected an interval."""
    hear(window, feed, ("status", Status(node="left", counters={"lost": 7})), state(68.0, 68_000))
    hear(window, feed, event(68.2, "set", node="left", key="gain", old="1", new="2"), reference(68.2))
    hear(window, feed, event(68.3, "push", part="rod", new='{"force": [1, 0, 0], "point": [0, 0, 0], "duration_s": 1}'))
    hear(window, feed, state(86.0, 86_000))
    window.history.change(Layout(time=(60.0, 70.0)), "part of the time")
    window.plots.set_interval((68.0, 69.0))
    window.events.mark_plots()
    assert [time for time, _ in window.plots.marks] == [68.2, 68.3]
    assert len(window.signals.pushes) == 1
    window.docks.update_tables()
    assert window.docks.events.table.rowCount() == 2
    assert window.docks.timing is not None
    assert window.docks.timing._lost == {"left": 7}


def rows(store: Store, topic: str, field: str) -> list[float]:
    found = store.column(topic, field)
    return [] if found is None else found[0].tolist()


@pytest.mark.parametrize("seq", [90_000, 1])
@pytest.mark.parametrize("start", [0.0, 100.0])
def test_the_next_launch_shows_nothing_of_the_one_before(start: float, seq: int, qtbot: Any) -> None:
    window, feed = live(qtbot)
    old_launch(window, feed)
    began = event(start + 0.001, "set", node="right", key="gain", old="1", new="3")
    hear(window, feed, reference(86.1), ("", LaunchBegan()), began, state(start, seq), state(start + 0.01, seq + 1))
    window.events.mark_plots()
    assert [time for time, _ in window.plots.marks] == [start + 0.001]
    assert [mark.detail for mark in window.sources[0].events] == ["right.gain = 3 (before: 1)"]
    assert window.docks.timing is not None
    window.docks.update_tables()
    assert window.docks.events.table.rowCount() == 1
    assert window.docks.timing._lost == {}
    assert window.signals.pushes == []
    assert rows(window.sources[0].store, STATE, "position.yaw") == [start, start + 0.01]
    assert "swing/reference" not in window.sources[0].store.topics
    assert window.plots.interval is None
    assert window.time_shown(window.history.layout)[1] < start + 30.0
    window.close()


def test_a_server_that_counts_its_states_from_the_start_is_another_launch(said_in_space: list[Any], qtbot: Any) -> None:
    window, feed = live(qtbot)
    hear(window, feed, said_in_space[0])
    old_launch(window, feed)
    hear(window, feed, said_in_space[0], state(0.0, 1))  # the description comes before the first state
    assert window.sources[0].events == []
    assert rows(window.sources[0].store, STATE, "position.yaw") == [0.0]
    assert window.signals.description is not None
    window.close()


@pytest.mark.parametrize("in_one_frame", [True, False])
@pytest.mark.parametrize("told", [True, False])
def test_after_a_reset_earlier_events_are_listed_as_such_and_not_drawn(
    told: bool, in_one_frame: bool, qtbot: Any
) -> None:
    window, feed = live(qtbot)
    old_launch(window, feed)
    late = event(86.0, "safe", node="left", detail="silent")
    messages = [*([event(0.0, "reset")] if told else []), state(0.0, 86_001), late, event(0.001, "resume")]
    messages += [state(0.001, 86_002)]
    for batch in [messages] if in_one_frame else [[message] for message in messages]:
        hear(window, feed, *batch)
    window.events.mark_plots()
    drawn = [0.0, 0.001] if told else [0.001]
    assert [time for time, _ in window.plots.marks] == drawn
    table = window.docks.events
    table.show_events(window.sources[0].events)
    details = {
        table.table.item(row, 1).text(): table.table.item(row, 2).text() for row in range(table.table.rowCount())
    }
    assert details["set"] == "before the reset: left.gain = 2 (before: 1)"
    assert details["safe"] == "before the reset: silent"
    assert not details["resume"].startswith("before")
    window.events.previous()
    sought: list[float] = []
    table.chosen.connect(sought.append)
    for row in range(table.table.rowCount()):
        table._on_double_click(table.table.item(row, 0))
    assert sought == drawn
    window.close()


def test_after_a_reset_no_topic_keeps_rows_from_before_it() -> None:
    store = LiveStore()
    store.add([reference(68.2), state(86.0, 86_000), event(0.0, "reset"), state(0.0, 86_001), state(0.001, 86_002)])
    assert rows(store, STATE, "position.yaw") == [0.0, 0.001]
    assert rows(store, "swing/reference", "position.yaw") == []  # from a node that has been silent since
    measured = [RobotState(timestamp=time, clock="arm", name=["yaw"], position=[time]) for time in (5.0, 4.0)]
    store.add([("swing/measured_state", each) for each in measured])  # a clock that is set back is no reset
    assert rows(store, STATE, "position.yaw") == [0.0, 0.001]
    assert [mark.before for mark in store.events] == [""]


def test_an_emergency_stop_is_in_the_header_and_on_the_button_that_releases_it(qtbot: Any, monkeypatch: Any) -> None:
    window, feed = live(qtbot)
    monkeypatch.setattr(window.docks.calls, "run", lambda *_, **__: None)  # there is no launch to call
    steering = window.docks.steering
    assert steering is not None

    def shown() -> tuple[bool, str, str, str]:
        window.docks.update()
        names = steering.stop.objectName(), steering.release.objectName()
        return "EMERGENCY STOP" in window.page.subtitle.text(), steering.release.text(), *names

    hear(window, feed, state(0.0, 1), ("status", Status(node="sim", state="running")))
    assert shown() == (False, "Release", "stop", "")
    hear(window, feed, event(0.0, "estop"), state(0.001, 2), ("status", Status(node="sim", state="safe")))
    assert shown() == (True, "Release the stop", "", "released")
    hear(window, feed, event(0.0, "reset"), state(0.0, 3))  # a reset releases nothing
    assert shown() == (True, "Release the stop", "", "released")
    hear(window, feed, event(0.0, "estop_released"), state(0.001, 4))
    assert shown() == (False, "Release", "stop", "")
    window.close()


def test_commands_of_a_launch_are_disabled_before_it_and_after_its_end(qtbot: Any, monkeypatch: Any) -> None:
    window, feed = live(qtbot)
    monkeypatch.setattr(window.docks.calls, "run", lambda *_, **__: None)
    actions, steering = window.menus.actions, window.docks.steering
    assert steering is not None

    def enabled() -> set[bool]:
        window.docks.update()
        return {*(actions[name].isEnabled() for name in STEERING), steering.reset_button.isEnabled()}

    assert enabled() == {False}
    dim = steering.reset_button.grab().toImage().pixelColor(8, 8).name()
    hear(window, feed, state(0.0, 1), ("status", Status(node="sim", state="running")))
    assert enabled() == {True}
    assert steering.reset_button.grab().toImage().pixelColor(8, 8).name() != dim
    assert actions["docks.steering.emergency_stop"].isEnabled()
    monkeypatch.setattr("viewer.data.follower.SILENT_S", -1.0)
    assert enabled() == {False}
    assert actions["docks.steering.emergency_stop"].isEnabled()
    window.close()


def test_a_topic_that_is_rare_or_came_once_is_not_silent(qtbot: Any, monkeypatch: Any) -> None:
    window, feed = live(qtbot)
    clock = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr(window.docks, "calls", None)
    for _ in range(5):
        hear(window, feed, ("swing/rare", state(0.0, 0)[1]))
        clock[0] += 4.0
    hear(window, feed, ("swing/latched", state(0.0, 0)[1]))

    def texts(later: float) -> dict[str, str]:
        clock[0] += later
        window.docks.update()
        return {item.text(0).rpartition("/")[2]: item.text(1) for item in window.docks.topics._topic_items()}

    texts(0.0)
    assert texts(5.0) == {"rare": "0.25 Hz", "latched": "once"}
    assert texts(10.0) == {"rare": "silent for 19 s", "latched": "once"}
    monkeypatch.undo()
    window.close()


def test_the_value_axis_of_a_live_plot_that_began_flat_fits_a_small_signal(qtbot: Any) -> None:
    window, feed = live(qtbot)
    window.resize(1200, 800)
    window.show()
    for tick in range(20):
        hear(window, feed, *[said_effort(0.0, tick)])
    (plot,) = [plot for plot in window.plots.plots if plot.spec.curves[0].field.startswith("effort")]
    assert plot.span[1] > 0.5
    for tick in range(20, 60):
        hear(window, feed, *[said_effort(0.05, tick)])
    assert 0.05 <= plot.span[1] < 0.2
    window.close()


def said_effort(size: float, tick: int) -> tuple[str, RobotState]:
    now = 0.01 * tick
    names, effort = ["yaw"], [size * math.sin(5.0 * now)]
    return STATE, RobotState(timestamp=now, seq=tick + 1, name=names, position=[now], velocity=[0.0], effort=effort)


@pytest.mark.parametrize("width", [120.0, 200.0, 400.0])
def test_a_title_is_no_wider_than_its_plot(width: float, qapp: Any) -> None:
    for curves in (0, 3, 30):
        keys = [(f"joint_{place}", "#000000", "-") for place in range(curves)]
        text, lines, _ = compose("Violation |dPhi/dt|", "constraints' units/s", keys, False, "", width)
        rows = [re.sub(r"<[^>]*>", "", row).replace("&nbsp;", " ") for row in text.split("<br>")]
        assert len(rows) == lines
        assert max(len(html.unescape(row)) for row in rows) * LETTER_WIDTH <= max(width, 22 * LETTER_WIDTH)


def test_a_live_reference_lies_below_the_curve_that_follows_it_and_its_mark_is_solid(qtbot: Any) -> None:
    window, feed = live(qtbot)
    hear(window, feed, reference(0.0), state(0.0, 1), reference(0.01), state(0.01, 2))
    (plot,) = [plot for plot in window.plots.plots if len(plot.spec.curves) == 2]
    drawn = plot.drawn(window.sources, False)
    assert [each.is_reference for each in drawn] == [True, False]
    layers: list[list[str]] = []
    plot.curves.redraw = lambda _frame, lines, **_: layers.append([line.color for line in lines])  # type: ignore[method-assign]
    plot.curves.append = lambda lines: layers.append([line.color for line in lines])  # type: ignore[method-assign]
    plot.invalidate()
    window.refresh()
    hear(window, feed, reference(0.02), state(0.02, 3))
    assert len(layers) >= 2
    assert all(colors == [each.color for each in drawn] for colors in layers)
    plot.show_title(window.sources, False)
    assert DOTS not in plot.title.text
    window.close()


def test_a_window_that_opens_during_an_emergency_stop_shows_it_at_once(qtbot: Any, monkeypatch: Any) -> None:
    window, feed = live(qtbot)
    monkeypatch.setattr(window.docks.calls, "run", lambda *_, **__: None)
    steering = window.docks.steering
    assert steering is not None

    def shown() -> tuple[bool, str]:
        window.docks.update()
        return "EMERGENCY STOP" in window.page.subtitle.text(), steering.release.text()

    def status(node: str, emergency: str, state: str = "safe") -> tuple[str, Status]:
        return "status", Status(node=node, state=state, emergency=emergency)

    hear(window, feed, status("sim", "<door> open"), state(3.0, 3000))  # the latched status; no event
    assert shown() == (True, "Release the stop")
    assert "sim: &lt;door&gt; open" in window.page.subtitle.text()
    hear(window, feed, status("driver", "<door> open", "running"), status("sim", "", "running"))
    assert shown() == (True, "Release the stop")  # one of the robots is still stopped
    assert "driver: &lt;door&gt; open" in window.page.subtitle.text()
    hear(window, feed, status("driver", "", "running"))
    assert shown() == (False, "Release")
    hear(window, feed, status("sim", "again"))
    hear(window, feed, ("", LaunchBegan()), status("sim", "", "running"), state(0.0, 1))
    assert shown() == (False, "Release")
    window.close()


def test_a_stop_of_a_launch_without_states_is_shown_too(qtbot: Any) -> None:
    window, feed = live(qtbot)
    hear(window, feed, ("status", Status(node="sim", state="paused", emergency="a test")))
    assert "EMERGENCY STOP" in window.page.subtitle.text()
    window.close()
