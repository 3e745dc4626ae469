"""The base's node: how it drives by cmd_vel and after a reference, and what it counts, around the real simulation."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest

from nodes.controllers.omni_base import JOINTS, OmniBase
from nodes.framework.messages import Encoders, JointCommand, JointReference, RobotState, Twist
from nodes.framework.messages.codec import WireError, decode, encode
from nodes.framework.plan.launch_plan import Plan, SimPlan
from nodes.framework.simulation.server import SimServer
from nodes.node import Context
from robots.charmie import base
from robots.charmie.parameters import read_parameters
from robots.registry import build

WAY = [
    (0.0, 0.3, 0.0),
    (0.1, 0.3, 0.5),
    (0.2, 0.0, 0.5),
    (0.2, -0.1, 0.5),
    (-0.3, 0.2, -0.2),
    (0.0, 0.3, 0.0),
]  # twists
WHEELS = read_parameters().base.wheels


class Drive:
    """CHARMIE's server and the base's node, stepped together; `twist` is said at every tenth step."""

    def __init__(self, robot: dict[str, float | str] | None = None, **params: Any) -> None:
        # without stops, on which the joints that nothing holds would bounce and shake the base
        sim = SimPlan(robot="charmie", mode="lockstep", parameters={"limits": "none"} | (robot or {}))
        plan = Plan(name="p", sim=sim)
        self.server = SimServer(plan)
        self.node = OmniBase()
        filled = msgspec.convert(params, OmniBase.Params)
        self.node.on_start(Context("base", "charmie", 1e-3, filled, np.random.default_rng(0), plan=plan))
        self.commands: list[JointCommand] = []
        self.encoders: list[Encoders] = []
        self.states: list[RobotState] = []
        self.server.out = self._hear
        self.server.start()

    def _hear(self, topic: str, payload: bytes) -> None:
        if not topic.endswith("/state"):
            return
        state = decode(topic, payload, RobotState)
        assert isinstance(state, RobotState)
        self.states.append(state)
        for name, message in self.node.on_message("state", state) or ():
            if isinstance(message, JointCommand):
                self.commands.append(message)
                self.server.robots[0].commands.receive("base", message)
            elif isinstance(message, Encoders):
                assert name == "encoders"
                self.encoders.append(message)

    def run(self, seconds: float, twist: tuple[float, float, float] | None = None) -> np.ndarray:
        """Where the base is after it."""
        for k in range(round(seconds * 1e3)):
            if twist is not None and k % 10 == 0:
                vx, vy, wz = twist
                self.node.on_message("cmd_vel", Twist(linear=[vx, vy, 0.0], angular=[0.0, 0.0, wz]))
            self.server.step()
        return np.array(self.states[-1].position[:3])


@pytest.fixture(scope="module")
def driven() -> Drive:
    drive = Drive()
    drive.run(2.0, (0.1, 0.3, 0.5))
    return drive


def test_it_drives_at_the_twist_that_is_asked_for(driven: Drive) -> None:
    state = driven.states[-1]
    twist = base.to_base(state.position[2], state.velocity[:3])
    assert twist == pytest.approx([0.1, 0.3, 0.5], abs=0.01)


def test_its_wheels_speed_up_no_faster_than_they_may(driven: Drive) -> None:
    rows = np.array([command.value for command in driven.commands])
    yaw = np.array([driven.states[(command.state_seq or 1) - 1].position[2] for command in driven.commands])
    rates = np.array([base.wheel_rates(WHEELS, base.to_base(y, row)) for y, row in zip(yaw, rows, strict=True)])
    limit = read_parameters().base.acceleration_limit / WHEELS.radius
    assert np.abs(np.diff(rates, axis=0)).max() <= limit * 5e-3 * (1 + 1e-6)
    assert len(driven.commands) == pytest.approx(200.0 * driven.states[-1].timestamp, abs=1.5)


def test_the_encoders_count_what_the_motion_rolls_off(driven: Drive) -> None:
    shown = driven.encoders[-1]
    assert (shown.name, shown.pulses_per_turn) == (["wheel_1", "wheel_2", "wheel_3", "wheel_4"], 2250)
    assert len(driven.encoders) == 201  # 100 Hz over 2 s, the start included
    rolled = np.zeros(4)
    for state in driven.states[1:]:
        twist = base.to_base(state.position[2], state.velocity[:3])
        rolled += 1e-3 * base.wheel_rates(WHEELS, twist)
    assert shown.count == pytest.approx(rolled * 2250 / (2 * math.pi), abs=3)
    assert min(map(abs, shown.count)) > 50


def test_it_drives_the_same_way_on_its_omni_wheels() -> None:
    """Commands of wheel rates in place of those of the joints: the way differs by less than 1 %."""
    held = ", ".join(joint.name for joint in build("charmie").moving_joints if joint.name not in JOINTS)
    drives = {kind: Drive({"base": kind, "locked": held}) for kind in ("planar", "wheels")}
    places = [np.array([drive.run(0.5, twist) for twist in WAY]) for drive in drives.values()]
    length = np.linalg.norm(np.diff(places[0][:, :2], axis=0), axis=1).sum()
    assert length > 0.5
    assert np.abs(places[1][:, :2] - places[0][:, :2]).max() < 0.01 * length
    assert np.abs(places[1][:, 2] - places[0][:, 2]).max() < 0.01 * np.ptp(places[0][:, 2])
    wheels = drives["wheels"]
    assert wheels.commands[-1].name == wheels.encoders[-1].name == ["wheel_1", "wheel_2", "wheel_3", "wheel_4"]
    assert wheels.encoders[-1].count == pytest.approx(drives["planar"].encoders[-1].count, abs=0.01 * 2250)


def test_it_stops_when_nobody_asks_any_more() -> None:
    drive = Drive(timeout_s=0.1)
    drive.run(0.8, (0.0, 0.3, 0.0))
    assert drive.states[-1].velocity[1] > 0.25
    there = drive.run(1.0)
    assert drive.states[-1].velocity[:3] == pytest.approx([0.0, 0.0, 0.0], abs=1e-3)
    assert drive.run(0.2) == pytest.approx(there, abs=1e-4)


def test_it_follows_its_reference_where_nobody_asks_for_a_twist() -> None:
    drive = Drive()
    for k in range(200):
        t = 0.01 * k
        said = JointReference(timestamp=t, name=[*JOINTS, "lift"], position=[0.05 * t * t, 0.0, 0.1 * t * t, 0.0])
        said.velocity = [0.1 * t, 0.0, 0.2 * t, 0.0]
        drive.node.on_message("reference", said)
        place = drive.run(0.01)
    assert place == pytest.approx([0.2, 0.0, 0.4], abs=0.01)
    assert set(drive.node.figures) == {"peak_error_m", "rms_error_m", "peak_error_rad", "rms_error_rad"}
    assert drive.node.figures["peak_error_m"] < 0.01


def test_a_twist_that_no_wheel_can_keep_is_cut(driven: Drive) -> None:
    drive = Drive()
    drive.run(1.5, (9.0, 0.0, 0.0))
    rates = base.wheel_rates(WHEELS, base.to_base(drive.states[-1].position[2], drive.commands[-1].value))
    assert np.abs(rates).max() == pytest.approx(WHEELS.speed_limit)
    ((level, line),) = drive.node._context.log
    assert (level, line.partition(";")[0]) == ("warning", "cmd_vel asks for x 9 m/s, y 0 m/s, yaw 0 rad/s")
    assert f"at {WHEELS.speed_limit:g} rad/s at most, so the base drives at x " in line


def test_a_reset_forgets_what_was_asked_and_counted() -> None:
    drive = Drive()
    drive.run(0.3, (0.3, 0.0, 0.0))
    drive.node.on_reset(0.0)
    state = RobotState(name=list(JOINTS), position=[1.0, 2.0, 3.0], velocity=[0.0] * 3)
    command, encoders = (message for _, message in drive.node.on_message("state", state) or ())
    assert (command.value, encoders.count) == ([0.0] * 3, [0] * 4)


@pytest.mark.parametrize(
    "broken",
    [Twist(linear=[1.0]), Twist(angular=[]), Twist(linear=[math.nan, 0.0, 0.0]), Encoders(name=["a"], count=[])],
)
def test_a_broken_twist_or_count_is_no_message(broken: Any) -> None:
    topic = f"charmie/{'cmd_vel' if isinstance(broken, Twist) else 'encoders'}"
    with pytest.raises(WireError):
        decode(topic, encode(broken, topic))


def test_parameters_that_cannot_be_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"timeout_s is 0.0; it must be a number above 0"):
        msgspec.convert({"timeout_s": 0.0}, OmniBase.Params)
    with pytest.raises(ValueError, match=r"nowhere.toml cannot be read"):
        OmniBase.check(OmniBase.Params(file="nowhere.toml"), Plan(name="drive", sim=SimPlan(robot="charmie")))
