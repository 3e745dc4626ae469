"""A clock that is put forward or back between two round trips is set right between two stamps, live and recorded."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from nodes.framework.messages import JointCommand, PeerClock, RobotState
from nodes.framework.recording.columns import Columns, columns
from nodes.hil.alignment.stamps import LiveAlignment
from nodes.hil.clocks.estimation import Exchange, detect_steps
from nodes.hil.clocks.recorded import simulation_time
from nodes.hil.clocks.step_location import place_step

EPOCH_NS = 1_790_000_000 * 10**9
SIZES = (0.03, -0.03, 0.05, -0.05, 0.5, -0.5)
STEP_AT_S = 13.137
END_S = 16.0


class Run:
    """What a robot says whose clock is stepped at STEP_AT_S: (our time, message) in the order in which they come.

    busy  scales the ways of round trips and messages, and the pauses of the robot; messages come `late` s later
    """

    def __init__(self, size: float, busy: float, seed: int = 0, late: float = 0.0) -> None:
        self._size, self._random = size, np.random.default_rng(seed)
        random = self._random
        said: list[tuple[float, float, object]] = []  # (heard, true, message)
        heard = 10.0
        pauses = {int(k): busy * random.exponential(0.02) for k in random.choice(1200, int(40 * min(busy, 1.0)), False)}
        t = 10.0
        for k in range(1200):
            t += 5e-3 + pauses.get(k, 0.0)
            if t > END_S:
                break
            heard = max(heard, t + 1e-4 + late + busy * random.exponential(2e-3))
            said.append((heard, t, self._state(t)))
            if k % 2 == 0:
                command = JointCommand(timestamp=self._stamp(t), clock="robot", mode="position", name=["a"], value=[t])
                said.append((heard, t, command))
        asked, count = 9.0, 0
        while asked < END_S - 0.2:
            for peer in ("robot", "sim"):
                trip = self._trip(peer, asked, *(1e-4 + random.exponential(5e-5 + 5e-3 * busy, 2)))
                said.append((1e-9 * (trip.heard_ns - EPOCH_NS), asked, trip))
            count += 1
            asked += 0.05 if count < 24 or STEP_AT_S + 0.5 < asked < STEP_AT_S + 1.7 else 0.5
        for t in np.arange(9.9, END_S + 0.5, 2e-3).tolist():
            state = RobotState(timestamp=t - 10.0, sent_ns=EPOCH_NS + round(1e9 * t), name=["a"], position=[t])
            said.append((t + 5e-5, t, state))
        self.said = sorted(said, key=lambda each: each[0])

    def _shown(self, t: float) -> float:
        return t + 3.0 + 1e-4 * (t - 9.0) + (self._size if t >= STEP_AT_S else 0.0)

    def _stamp(self, t: float) -> float:
        return 1e-9 * EPOCH_NS + self._shown(t)

    def _state(self, t: float) -> RobotState:
        return RobotState(timestamp=self._stamp(t), clock="robot", name=["a"], position=[t])

    def _trip(self, peer: str, t: float, there: float, back: float) -> PeerClock:
        def shown(at: float) -> float:
            return self._shown(at) if peer == "robot" else at

        times = (t, shown(t + there), shown(t + there + 2e-5), t + there + 2e-5 + back)
        asked, received, answered, heard = (EPOCH_NS + round(1e9 * each) for each in times)
        way = 1e-9 * ((heard - asked) - (answered - received))
        return PeerClock(
            asker="compare", peer=peer, asked_ns=asked, received_ns=received, answered_ns=answered, heard_ns=heard,
            round_trip_s=way,
        )  # fmt: skip

    def live(self) -> tuple[list[tuple[float, float]], LiveAlignment]:
        """(true, given) simulation times of the states and commands that the alignment placed, and that."""
        alignment, found = LiveAlignment(gap_s=0.1), []
        for _, _, message in self.said:
            placed: list[RobotState | JointCommand] = []
            if isinstance(message, PeerClock):
                list(alignment.tracks.add(msgspec.structs.replace(message)))
                alignment.add_round_trip(message)
            elif isinstance(message, RobotState) and not message.clock:
                placed = list(alignment.predict(message))
            elif isinstance(message, RobotState | JointCommand):
                placed = list(alignment.measure(message))
            for each in placed:
                true = each.position[0] if isinstance(each, RobotState) else each.value[0]
                found.append((true - 10.0, each.timestamp))
        return found, alignment

    def recorded(self) -> dict[str, Columns]:
        """The same as a recording."""
        topics: dict[str, list[tuple[float, object]]] = {}
        for heard, _, message in self.said:
            name = "clock"
            if isinstance(message, RobotState):
                name = "arm/measured_state" if message.clock else "arm/state"
            elif isinstance(message, JointCommand):
                name = "arm/applied_command"
            topics.setdefault(name, []).append((heard - 10.0, message))
        return {
            name: columns(np.array([heard for heard, _ in rows]), [msgspec.to_builtins(each) for _, each in rows])
            for name, rows in topics.items()
        }


@pytest.mark.parametrize("size", SIZES)
def test_a_step_between_two_round_trips_is_placed_between_two_stamps_while_they_come(size: float) -> None:
    found, alignment = Run(size, busy=0.0).live()
    assert alignment.tracks.steps == 1
    assert (alignment.unsure, alignment.lost) == (0, 0)
    true, given = np.array(found).T
    assert len(true) > 1700
    assert given == pytest.approx(true, abs=1e-3)


@pytest.mark.parametrize("size", SIZES)
def test_a_step_between_two_round_trips_is_placed_between_two_stamps_of_a_recording(size: float) -> None:
    recording = Run(size, busy=0.0).recorded()
    for topic, values in (("arm/measured_state", "position"), ("arm/applied_command", "value")):
        found = simulation_time(recording, topic, topic)
        assert found is not None
        time, note = found
        assert [step.size_s for step in note.steps] == pytest.approx([size], abs=1e-3)
        assert (note.unsure, note.unplaced) == (0, 0)
        true = np.array([each[0] for each in recording[topic][values]]) - 10.0
        assert time == pytest.approx(true, abs=1e-3)


def test_commands_that_come_unevenly_after_the_last_round_trip_are_placed_by_the_even_samples_beside_them() -> None:
    run = Run(0.0, busy=0.0)
    asked = [1e-9 * (trip.asked_ns - EPOCH_NS) for _, _, trip in run.said if isinstance(trip, PeerClock)]
    pause = (max(asked) + 0.1, max(asked) + 0.14)  # nobody commanded the robot in it
    run.said = [each for each in run.said if not (isinstance(each[2], JointCommand) and pause[0] < each[1] < pause[1])]
    recording = run.recorded()
    found = simulation_time(recording, "arm/applied_command", "commands")
    assert found is not None
    time, note = found
    assert note.unplaced == 0
    true = np.array([each[0] for each in recording["arm/applied_command"]["value"]]) - 10.0
    assert true[-1] > pause[1] - 10.0
    assert time == pytest.approx(true, abs=1e-3)


def check_busy(seed: int) -> None:
    """On a busy computer times are right within what is known of the clocks, or the alignment says it is not sure."""
    random = np.random.default_rng(seed)
    run = Run(float(random.choice([*SIZES, 0.0])), float(random.uniform(0.2, 2.0)), seed)
    found, alignment = run.live()
    true, given = np.array(found).T
    sigma = alignment.uncertainty("robot")
    assert sigma is not None
    assert alignment.unsure or np.abs(given - true).max() < 0.012
    recording = run.recorded()
    for topic, values in (("arm/measured_state", "position"), ("arm/applied_command", "value")):
        placed = simulation_time(recording, topic, topic)
        assert placed is not None
        time, note = placed
        known = np.isfinite(time)
        true = np.array([each[0] for each in recording[topic][values]])[known] - 10.0
        assert note.unsure or np.abs(time[known] - true).max() < 0.012


@pytest.mark.parametrize("seed", range(12))
def test_on_a_busy_computer_a_step_is_set_right_or_said_to_be_unsure(seed: int) -> None:
    check_busy(seed)


@pytest.mark.parametrize("size", SIZES)
def test_states_that_come_long_after_the_round_trip_that_shows_a_step_are_not_taken_for_later_ones(size: float) -> None:
    for seed in range(4):
        found, alignment = Run(size, busy=0.4, seed=seed, late=0.4).live()
        true, given = np.array(found).T
        assert alignment.unsure or np.abs(given - true).max() < 0.012


@pytest.mark.soak
def test_on_a_busy_computer_each_of_300_steps_is_set_right_or_said_to_be_unsure() -> None:
    for seed in range(300):
        check_busy(seed)


def test_a_step_is_seen_across_a_round_trip_that_was_slow() -> None:
    quick, slow = 2e-4, 0.2
    ways = [quick, quick, slow, quick, quick]
    exchanges = []
    for k, way in enumerate(ways):
        t, offset = 0.5 * k, 0.03 * (k >= 2)
        exchanges.append(Exchange(t, t + way / 2 + offset, t + way / 2 + offset, t + way))
    (step,) = detect_steps(exchanges)
    assert step.size_s == pytest.approx(0.03, abs=1e-9)
    assert (step.after_s, step.before_s) == pytest.approx((exchanges[1].time, exchanges[3].time))


def test_a_pause_as_long_as_the_step_leaves_two_places() -> None:
    times = np.concatenate([np.arange(0.0, 0.2, 5e-3), np.arange(0.25, 0.5, 5e-3)])
    stamps = times + 0.05 * (times >= 0.3)
    place = place_step(stamps, stamps, stamps - 0.05, (0.0, 0.5), 0.05, 2e-3)
    assert (place.first, place.last) == (40, int(np.searchsorted(times, 0.3)))
    assert not place.is_certain
