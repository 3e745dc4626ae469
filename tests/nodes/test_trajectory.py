"""The trajectory node: what it says, when it says it, and what it refuses."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest

from nodes.runtime.node import Context
from nodes.trajectory import Trajectory, TrajectoryParams, minimum_jerk, sine
from nodes.wire.messages import Reference, RobotState

STEP_S = 1e-3


def references(duration_s: float, **params: Any) -> list[tuple[float, Reference]]:
    node = Trajectory()
    filled = msgspec.convert({"joints": ["arm"]} | params, TrajectoryParams)
    node.on_start(Context("trajectory", "robot", STEP_S, filled, np.random.default_rng(0)))
    said = []
    for tick in range(round(duration_s / STEP_S) + 1):
        for name, message in node.on_message("state", RobotState(timestamp=tick * STEP_S)) or ():
            assert name == "reference"
            assert isinstance(message, Reference)
            said.append((tick * STEP_S, message))
    return said


def test_reference_is_published_at_its_rate_in_simulation_time() -> None:
    times = [t for t, _ in references(1.0, rate_hz=50.0)]
    assert times == pytest.approx(np.arange(51) / 50.0, abs=1e-9)


def test_rate_above_the_states_rate_gives_one_reference_per_state() -> None:
    assert len(references(0.1, rate_hz=1e5)) == 101


def test_pausing_publishes_nothing_and_reset_starts_over() -> None:
    node = Trajectory()
    params = TrajectoryParams(joints=["arm"])
    node.on_start(Context("trajectory", "robot", STEP_S, params, np.random.default_rng(0)))
    assert node.on_message("state", RobotState(timestamp=0.0))
    assert not node.on_message("state", RobotState(timestamp=0.0))
    node.on_reset(0.0)
    assert node.on_message("state", RobotState(timestamp=0.0))


def test_sine_starts_at_its_time_and_reaches_its_amplitude() -> None:
    said = references(3.0, kind="sine", amplitude_deg=30.0, period_s=4.0, start_s=1.0)
    before = [m.position[0] for t, m in said if t < 1.0]
    at_top = [m.position[0] for t, m in said if t == pytest.approx(2.0)]
    assert before == [0.0] * len(before)
    assert at_top == [pytest.approx(math.radians(30.0))]


def test_steps_hold_the_last_waypoint_passed() -> None:
    said = references(3.0, kind="steps", waypoints=[[1.0, 10.0], [2.0, -20.0]])
    degrees = {round(t, 3): math.degrees(m.position[0]) for t, m in said}
    assert [degrees[t] for t in (0.0, 1.0, 1.99, 2.0, 3.0)] == pytest.approx([10.0, 10.0, 10.0, -20.0, -20.0])


def test_each_joint_can_have_its_own_waypoints() -> None:
    said = references(2.0, joints=["arm", "elbow"], kind="minimum_jerk", waypoints=[[0.0, 0.0, 5.0], [1.0, 90.0, -5.0]])
    assert said[-1][1].name == ["arm", "elbow"]
    assert np.degrees(said[-1][1].position) == pytest.approx([90.0, -5.0])


@pytest.mark.parametrize("t", [0.1, 0.77, 1.2, 1.93])
@pytest.mark.parametrize("curve", ["sine", "minimum_jerk"])
def test_rate_and_acceleration_are_the_derivatives_of_the_value(curve: str, t: float) -> None:
    def point(t: float) -> np.ndarray:
        if curve == "sine":
            return np.array(sine(0.5, 3.0, t))
        return np.array(minimum_jerk([0.0, 1.0, 2.0], [0.2, 1.4, -0.3], t))

    h = 1e-5
    slope = (point(t + h) - point(t - h)) / (2.0 * h)
    assert slope[:2] == pytest.approx(point(t)[1:], rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"joints": []}, "joints is []"),
        ({"joints": ["arm", "arm"]}, "each once"),
        ({"rate_hz": 0.0}, "rate_hz is 0.0; it must be a number above 0"),
        ({"period_s": -1.0}, "period_s is -1.0"),
        ({"amplitude_deg": math.nan}, "amplitude_deg is nan"),
        ({"kind": "circle"}, "circle"),
        ({"kind": "steps"}, "needs waypoints"),
        ({"kind": "sine", "waypoints": [[0.0, 1.0]]}, "takes no waypoints"),
        ({"kind": "steps", "waypoints": [[0.0, 1.0, 2.0]]}, "waypoint 0 is [0.0, 1.0, 2.0]"),
        ({"kind": "steps", "waypoints": [[0.0, math.inf]]}, "must be finite"),
        ({"kind": "steps", "waypoints": [[1.0, 0.0], [1.0, 2.0]]}, "waypoint 1 is at 1.0 s, not after 1.0 s"),
        ({"amplitude": 3.0}, "amplitude"),
    ],
)
def test_bad_parameters_are_refused_in_one_line(params: dict[str, Any], words: str) -> None:
    with pytest.raises(msgspec.ValidationError) as refusal:
        msgspec.convert({"joints": ["arm"]} | params, TrajectoryParams)
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)
