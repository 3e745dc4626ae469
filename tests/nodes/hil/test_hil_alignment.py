"""Stamps of another clock become simulation time by synthetic round trips whose truth is known."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np
import pytest

from nodes.framework.messages import Event, Message, PeerClock, Residual, RobotState
from nodes.framework.messages.codec import decode, encode
from nodes.framework.recording.columns import Columns, columns
from nodes.hil.alignment.stamps import LiveAlignment
from nodes.hil.alignment.streams import StreamError
from nodes.hil.clocks.recorded import simulation_time
from nodes.hil.clocks.track import ClockTrack
from nodes.hil_compare import HilCompare
from nodes.node import Context

EPOCH_NS = 1_790_000_000 * 10**9
Clock = Callable[[float], float]  # theirs at a time of ours; s since EPOCH_NS, both


def shifted(offset: float = 0.0, drift: float = 0.0, at: float = 1e9, size: float = 0.0) -> Clock:
    return lambda t: t + offset + drift * t + (size if t >= at else 0.0)


def reading(peer: str, clock: Clock, t: float, there: float = 1e-4, back: float = 1e-4) -> PeerClock:
    """A round trip that leaves at t of our clock."""
    times = (t, clock(t + there), clock(t + there + 2e-5), t + there + 2e-5 + back)
    asked, received, answered, heard = (EPOCH_NS + round(1e9 * each) for each in times)
    way = 1e-9 * ((heard - asked) - (answered - received))
    return PeerClock(
        peer=peer,
        asked_ns=asked,
        received_ns=received,
        answered_ns=answered,
        heard_ns=heard,
        round_trip_s=way,
    )


def stamp(clock: Clock, t: float) -> float:
    return 1e-9 * EPOCH_NS + clock(t)


def measured(clock: Clock, t: float, position: float = 0.0) -> RobotState:
    return RobotState(timestamp=stamp(clock, t), clock="robot", name=["a"], position=[position], velocity=[0.0])


def predicted(t: float, late: float = 0.0) -> RobotState:
    """The state of simulation time t - 10: the server's clock is ours."""
    sent_ns = EPOCH_NS + round(1e9 * (t + late))
    return RobotState(timestamp=t - 10.0, sent_ns=sent_ns, name=["a"], position=[2.0 * t], velocity=[2.0])


def aligned(clock: Clock, times: Iterable[float]) -> LiveAlignment:
    """An alignment that knows both clocks by exact round trips at these times."""
    alignment = LiveAlignment(gap_s=0.1)
    for t in times:
        for peer, theirs in (("robot", clock), ("sim", shifted())):
            list(alignment.tracks.add(reading(peer, theirs, t)))
    return alignment


def test_a_track_knows_more_with_every_round_trip() -> None:
    clock, track = shifted(-7.5, 120e-6), ClockTrack()
    random = np.random.default_rng(1)
    sigmas = []
    for k in range(200):
        t = 10.0 + 0.05 * min(k, 24) + 0.5 * max(0, k - 24)
        ways = 1e-4 + random.exponential(2e-4, 2)
        said = reading("robot", clock, t, *ways)
        assert track.add(said) is None
        assert (said.offset_s is None) == (k < 2)
        if said.offset_s is not None and said.uncertainty_s is not None:
            assert abs(said.offset_s - (-7.5 + 120e-6 * t)) < 5.0 * said.uncertainty_s
            sigmas.append(said.uncertainty_s)
    assert (said.exchanges, said.steps) == (128, 0)
    assert said.drift == pytest.approx(120e-6, abs=10e-6)
    assert sigmas[-1] < sigmas[0]
    assert decode("clock", encode(said, "clock")) == said


def test_ways_that_differ_put_the_offset_off_within_the_uncertainty_that_is_said() -> None:
    track = ClockTrack()
    for k in range(60):
        said = reading("robot", shifted(), 0.5 * k, there=5e-3, back=1e-3)
        track.add(said)
    assert said.offset_s is not None
    assert said.offset_s == pytest.approx(2e-3, abs=1e-5)  # half of what the ways differ by, and nothing tells
    assert said.uncertainty_s == pytest.approx(3e-3 / np.sqrt(3.0), rel=0.05)


def test_our_time_and_theirs_are_each_others_inverse_in_a_track() -> None:
    track = ClockTrack()
    assert track.to_local(5.0) is track.to_peer(5.0) is None
    for k in range(30):
        track.add(reading("robot", shifted(1e6, -80e-6), 0.5 * k))
    ours = 1e-9 * EPOCH_NS + 12.0
    theirs = track.to_peer(ours)
    assert theirs == pytest.approx(ours + 1e6 - 80e-6 * 12.0, abs=2e-4)
    assert theirs is not None
    assert track.to_local(theirs) == pytest.approx(ours, abs=1e-6)


@pytest.mark.parametrize("size", [1.0, -1.0, 0.01])
def test_a_step_is_told_once_with_its_size_and_what_was_known_before_is_forgotten(size: float) -> None:
    track, clock = ClockTrack(), shifted(3.0, 50e-6, at=20.0, size=size)
    steps = [step for k in range(80) if (step := track.add(said := reading("robot", clock, 0.5 * k))) is not None]
    (step,) = steps
    assert step.size_s == pytest.approx(size, abs=1e-3)
    assert (said.steps, said.exchanges) == (1, 40)
    assert said.offset_s == pytest.approx(3.0 + size + 50e-6 * 39.5, abs=2e-4)


def test_stamps_of_another_clock_become_simulation_time() -> None:
    clock = shifted(4.2, 200e-6)
    alignment = aligned(clock, np.arange(0.0, 10.0, 0.25))
    found = []
    for t in np.arange(10.0, 11.0, 0.01):
        found += alignment.predict(predicted(t))
        found += alignment.measure(measured(clock, t - 0.004))
    assert [state.clock for state in found] == [""] * len(found)
    times = np.array([state.timestamp for state in found])
    assert times == pytest.approx(np.arange(10.0, 11.0, 0.01)[1:] - 10.004, abs=2e-4)  # the first is before all states
    assert alignment.lost == 1
    sigma = alignment.uncertainty("robot")
    assert sigma is not None
    assert 5e-5 < sigma < 2e-4


def test_nothing_is_placed_before_both_clocks_are_known() -> None:
    clock = shifted(1.0)
    alignment = LiveAlignment(gap_s=0.1)
    for t in np.arange(10.0, 10.5, 0.01):
        assert list(alignment.predict(predicted(t))) == []
        assert list(alignment.measure(measured(clock, t))) == []
    assert (alignment.waiting, alignment.uncertainty("robot")) == (50, None)
    for k in range(3):
        for peer, theirs in (("robot", clock), ("sim", shifted())):
            list(alignment.tracks.add(reading(peer, theirs, 10.5 + 0.05 * k)))
    found = list(alignment.predict(predicted(10.5)))
    assert [state.timestamp for state in found] == pytest.approx(np.arange(0.0, 0.5, 0.01), abs=5e-4)


@pytest.mark.parametrize("size", [1.0, -1.0])
def test_stamps_after_a_step_wait_for_the_round_trip_that_explains_it(size: float) -> None:
    clock = shifted(2.0, at=10.5, size=size)
    alignment = aligned(clock, np.arange(0.0, 10.5, 0.25))
    found = []
    for t in np.arange(10.0, 11.0, 0.01):
        found += alignment.predict(predicted(t))
        found += alignment.measure(measured(clock, t))
    assert max(state.timestamp for state in found) < 0.51
    assert alignment.waiting >= 49
    for k in range(3):
        for peer, theirs in (("robot", clock), ("sim", shifted())):
            said = reading(peer, theirs, 11.0 + 0.05 * k)
            list(alignment.tracks.add(said))
            alignment.add_round_trip(said)
    found += alignment.predict(predicted(11.2))
    times = [state.timestamp for state in found]
    assert times == pytest.approx(np.delete(np.arange(0.0, 1.0, 0.01), alignment.lost * [49]), abs=2e-3)
    assert alignment.lost <= 1  # the last before the step, where the next state has not come


def test_what_falls_into_a_gap_of_the_states_has_no_time() -> None:
    alignment = aligned(shifted(), np.arange(0.0, 10.0, 0.25))
    list(alignment.predict(predicted(10.0)))
    list(alignment.predict(predicted(10.3)))
    assert list(alignment.measure(measured(shifted(), 10.15))) == []
    assert alignment.lost == 1


def test_hil_compare_says_how_well_the_clock_is_known_and_when_it_stepped() -> None:
    node = HilCompare()
    context = Context("hil", "arm", 1e-3, HilCompare.Params(), np.random.default_rng(0))
    node.on_start(context)
    clock = shifted(2.0, at=12.0, size=-0.5)
    said: list[tuple[str, Message]] = []
    for k in range(1, 1500):
        t = 10.0 + 0.002 * k
        if k % 50 == 0:
            said += node.on_clock(reading("robot", clock, t))
            said += node.on_clock(reading("sim", shifted(), t))
        said += node.on_message("state", predicted(t))
        said += node.on_message("measured_state", measured(clock, t - 1e-3, 2.0 * (t - 1e-3)))
    residuals = [message for _, message in said if isinstance(message, Residual)]
    assert len(residuals) > 1400
    assert max(abs(each.position[0]) for each in residuals) < 2e-3  # at 2 rad/s: less than a millisecond
    (event,) = [message for _, message in said if isinstance(message, Event)]
    assert (event.kind, event.node) == ("clock_step", "robot")
    assert float(event.new) == pytest.approx(-0.5, abs=1e-3)
    assert context.log == [("warning", event.detail)]
    assert len([name for name, _ in said if name == "/clock"]) == 58
    assert node.counters["clock_steps"] == 1
    assert node.figures["robot_clock_offset_s"] == pytest.approx(1.5, abs=1e-3)
    assert "; clock of robot: known to 0.0" in node.verdict.detail


def table(messages: Sequence[Message], heard: Sequence[float]) -> Columns:
    return columns(np.asarray(heard), [msgspec.to_builtins(message) for message in messages])


def recorded(clock: Clock, asked: Iterable[float], late: float = 0.0) -> dict[str, Columns]:
    """A recording of 10 s at 100 Hz whose measured states come `late`."""
    times: list[float] = np.arange(10.0, 20.0, 0.01).tolist()
    trips = [reading(peer, theirs, t) for t in asked for peer, theirs in (("robot", clock), ("sim", shifted()))]
    return {
        "arm/state": table([predicted(t) for t in times], [t - 10.0 for t in times]),
        "arm/measured_state": table([measured(clock, t) for t in times], [t - 10.0 + late for t in times]),
        "clock": table(trips, [0.0] * len(trips)),
    }


def test_recorded_stamps_of_another_clock_become_simulation_time() -> None:
    recording = recorded(shifted(-5.0, 300e-6), np.arange(10.0, 20.0, 0.5))
    found = simulation_time(recording, "arm/measured_state", "x")
    assert found is not None
    time, note = found
    known = np.isfinite(time)
    assert np.arange(0.0, 10.0, 0.01)[known] == pytest.approx(time[known], abs=2e-4)
    assert (note.of, note.steps, note.unplaced) == ("robot", [], int((~known).sum()))
    assert note.unplaced <= 2  # at the ends, where no state stands on both sides
    assert note.drift == pytest.approx(300e-6, abs=5e-6)
    assert 5e-5 < note.uncertainty_s < 2e-4
    assert note.text.startswith("stamps are of the clock of robot: 4.99")
    assert re.search(
        r"s behind, drift \+(299|30[01]) ± [\d.]+ ppm; simulation time known to 0\.0\d+ ms from 20", note.text
    )
    assert simulation_time(recording, "arm/state", "x") is None


@pytest.mark.parametrize("size", [0.7, -0.7])
def test_recorded_stamps_on_both_sides_of_a_step_are_placed_by_their_own_side(size: float) -> None:
    recording = recorded(shifted(1.0, at=14.2, size=size), np.arange(10.0, 20.0, 0.5), late=0.1)
    found = simulation_time(recording, "arm/measured_state", "x")
    assert found is not None
    time, note = found
    known = np.isfinite(time)
    assert note.unplaced <= 3
    assert np.arange(0.0, 10.0, 0.01)[known] == pytest.approx(time[known], abs=2e-3)
    assert [step.size_s for step in note.steps] == pytest.approx([size], abs=1e-3)
    assert "jumped once" in note.text


def test_what_a_recording_must_hold_is_said() -> None:
    clock, asked = shifted(1.0), np.arange(10.0, 20.0, 0.5)
    without = {topic: rows for topic, rows in recorded(clock, asked).items() if topic != "clock"}
    with pytest.raises(StreamError, match="no round trips to this clock are recorded; run nodes/hil_compare"):
        simulation_time(without, "arm/measured_state", "x")
    with pytest.raises(StreamError, match="2 round trips to the clock of 'robot' are too few"):
        simulation_time(recorded(clock, asked[:2]), "arm/measured_state", "x")
    lockstep = recorded(clock, asked)
    lockstep["arm/state"]["sent_ns"][:] = 0
    with pytest.raises(StreamError, match="record a realtime run"):
        simulation_time(lockstep, "arm/measured_state", "x")
    mixed = recorded(clock, asked)
    mixed["arm/measured_state"]["clock"] = np.where(np.arange(1000) < 5, "", mixed["arm/measured_state"]["clock"])
    with pytest.raises(StreamError, match="stamped by more than one clock: '', 'robot'"):
        simulation_time(mixed, "arm/measured_state", "x")
    elsewhere = recorded(shifted(1.0), asked)
    elsewhere["arm/measured_state"]["timestamp"] += 1e4
    with pytest.raises(StreamError, match="lie outside the time span of the recorded states"):
        simulation_time(elsewhere, "arm/measured_state", "x")
