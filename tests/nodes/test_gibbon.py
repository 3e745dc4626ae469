"""The gibbon's launch files in one process, where no plan is ever late, and its controller by messages."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodes.controllers.brachiation import Brachiation, BrachiationParams, path_at, torque_at
from nodes.framework.messages import JointCommand, RobotState, SwingPlan, SwingProgress
from nodes.framework.messages.codec import decode
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.key_checks import PlanError
from nodes.framework.plan.launch_plan import Plan, SimPlan
from nodes.framework.simulation.compose import compose
from nodes.node import Context
from nodes.planning.brachiation.limits import least_torque
from robots.registry import build

ROOT = Path(__file__).resolve().parents[2]


def plan_of(name: str, *sets: str) -> Plan:
    """The plan of a launch file, in lockstep and without its recorder."""
    mode = [] if any(each.startswith("sim.mode=") for each in sets) else ["sim.mode=lockstep"]
    plan = load_plan(ROOT / "launch" / f"{name}.toml", [*mode, *sets])
    plan.nodes = [node for node in plan.nodes if node.name != "recorder"]
    return plan


def run(name: str, seconds: float, *sets: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, float]]:
    """Figures of controller and planner, and the outputs, after eight hand-overs or that time."""
    with compose(plan_of(name, *sets)) as composed:
        controller = composed.nodes["controller"].node
        while composed.server.time < seconds and controller.counters["hand_overs"] < 8:
            composed.step(50)
        figures = [dict(composed.nodes[node].node.figures) for node in ("controller", "planner")]
        return figures[0], figures[1], composed.server.simulation.outputs()


def test_eight_hand_overs_in_a_row_along_bars() -> None:
    controller, _, outputs = run("gibbon_bars", 10.0)
    assert controller["hand_overs"] == 8
    assert (controller["regrips"], controller["falls"], controller["late_plans"]) == (0, 0, 0)
    assert max(outputs["hand_a_x"], outputs["hand_b_x"]) > 9 * 0.34
    assert controller["peak_torque_n_m"] < 2.0


def test_eight_hand_overs_in_a_row_along_a_cable_that_is_not_as_believed() -> None:
    believed = plan_of("gibbon_cable").nodes[0].params["parameters"]
    there = plan_of("gibbon_cable").sim.parameters
    assert there["tension"] == pytest.approx(0.9 * believed["tension"])
    assert there["mass_scale"] == pytest.approx(1.05 * believed["mass_scale"])
    assert there["modes"] == 2 * believed["modes"]
    controller, planner, outputs = run("gibbon_cable", 18.0)
    assert controller["hand_overs"] == 8
    assert (controller["regrips"], controller["falls"], controller["late_plans"]) == (0, 0, 0)
    assert max(outputs["hand_a_x"], outputs["hand_b_x"]) > 5.9 + 8 * 0.8
    assert controller["peak_torque_n_m"] <= 30.0
    assert 0.8 < planner["tension_over_believed"] < 0.95  # tension over weight is 0.857 of the believed


@pytest.mark.soak
def test_eight_hand_overs_along_a_cable_of_segments() -> None:
    """One swing may miss, after which the hand grips again where it let go."""
    controller, _, outputs = run("gibbon_segments", 24.0)
    assert controller["hand_overs"] == 8
    assert controller["regrips"] <= 1
    assert (controller["falls"], controller["late_plans"]) == (0, 0)
    assert max(outputs["hand_a_x"], outputs["hand_b_x"]) > 5.9 + 8 * 0.8


def test_the_cable_of_segments_gives_the_same_bytes_again_and_its_energy_balances() -> None:
    """In lockstep; the step resolves the fastest vibration, so that nothing is warned of."""
    ends = []
    for _ in range(2):
        with compose(plan_of("gibbon_segments")) as composed:
            composed.step(200)
            simulation = composed.server.simulation
            ends.append(simulation.snapshot().to_plain())
            assert simulation.step_too_large is None
            assert simulation.energy_ledger.largest < 1e-3
    assert ends[0] == ends[1]


@pytest.mark.parametrize("trunk", [pytest.param("passive", marks=pytest.mark.soak), "actuated"])
def test_eight_hand_overs_in_a_row_of_three_links_along_bars(trunk: str) -> None:
    sets = "sim.parameters.links=3", f"sim.parameters.trunk={trunk}"
    controller, _, outputs = run("gibbon_bars", 10.0, *sets)
    assert controller["hand_overs"] == 8
    assert (controller["regrips"], controller["falls"], controller["late_plans"]) == (0, 0, 0)
    assert max(outputs["hand_a_x"], outputs["hand_b_x"]) > 9 * 0.34
    assert controller["peak_torque_n_m"] < 4.0
    assert controller["peak_elbow_error_rad"] < 0.02


@pytest.mark.soak
def test_eight_hand_overs_in_a_row_of_three_links_along_a_cable_that_is_not_as_believed() -> None:
    trunk, arms = plan_of("gibbon_trunk"), plan_of("gibbon_cable")
    assert {**arms.sim.parameters, "links": 3, "trunk": "actuated"} == trunk.sim.parameters
    assert trunk.nodes[0].params["parameters"] == arms.nodes[0].params["parameters"]
    controller, _, outputs = run("gibbon_trunk", 18.0)
    assert controller["hand_overs"] == 8
    assert (controller["regrips"], controller["falls"], controller["late_plans"]) == (0, 0, 0)
    assert max(outputs["hand_a_x"], outputs["hand_b_x"]) > 5.9 + 8 * 0.8


@pytest.mark.soak
def test_eight_hand_overs_in_a_row_along_a_cable_that_is_damped_a_fifth_as_much_as_well() -> None:
    controller, _, _ = run("gibbon_cable", 18.0, "sim.parameters.damping_ratio=0.002")
    assert controller["hand_overs"] == 8
    assert (controller["regrips"], controller["falls"]) == (0, 0)


@pytest.mark.parametrize("spacing", [pytest.param(0.3, marks=pytest.mark.soak), 0.45])
def test_on_bars_the_step_is_their_spacing(spacing: float) -> None:
    controller, _, outputs = run("gibbon_bars", 10.0, f"sim.parameters.spacing={spacing}")
    assert controller["hand_overs"] == 8
    assert (controller["regrips"], controller["falls"]) == (0, 0)
    assert max(outputs["hand_a_x"], outputs["hand_b_x"]) > 9 * spacing


def test_a_step_over_two_bars_is_said() -> None:
    plan_of("gibbon_bars", "sim.parameters.spacing=0.2", "planner.step=0.4")
    with pytest.raises(PlanError, match=r"the bars are 0\.2 m apart, so that step must be one of 0\.2, 0\.4, 0\.6 m"):
        plan_of("gibbon_bars", "sim.parameters.spacing=0.2", "planner.step=0.3")


def test_a_plan_in_flight_carries_on_from_the_plan_that_is_followed_when_it_starts() -> None:
    plans: list[SwingPlan] = []

    def carry(topic: str, payload: bytes) -> None:
        message = decode(topic, payload)
        if isinstance(message, SwingPlan):
            plans.append(message)

    with compose(plan_of("gibbon_cable"), carry) as composed:
        while len([plan for plan in plans if not plan.release]) < 8:
            composed.step(50)
    assert plans[0].release
    for before, after in pairwise(plans[:8]):
        assert path_at(after, 0.0) == pytest.approx(path_at(before, after.start - before.start), abs=1e-6)


def test_two_runs_are_the_same_to_the_last_bit() -> None:
    states = []
    for _ in range(2):
        with compose(plan_of("gibbon_bars", "duration_s=1.2")) as composed:
            composed.run()
            states.append(composed.server.simulation.state.q.tobytes())
    assert states[0] == states[1]


@pytest.mark.parametrize(
    ("name", "sets", "says"),
    [
        (
            "trunk",
            "sim.mode=fast",
            r"node 'planner': .*mode 'fast' does not wait for swing plans; use mode \"lockstep\" or \"realtime\"$",
        ),
        ("cable", "planner.step=1.3", r"step is 1\.3 m; it must be in 0\.12 \.\. 1\.18 m, within the reach"),
        ("cable", "planner.step=0.01", r"step is 0\.01 m; it must be in 0\.12 \.\. 1\.18 m, within the reach"),
        ("bars", "planner.step=0.5", r"is 0\.5 m; the bars are 0\.34 m apart, so that step must be one of 0\.34 m"),
        (
            "bars",
            "planner.parameters.spacing=0.45",
            r"spacing is 0\.45 in the planner's model, but 0\.34 in the robot; set sim\.parameters\.spacing for both",
        ),
        ("bars", "planner.parameters.bars=10", r"bars is 10 in the planner's model, but 24 in the robot; set sim"),
        (
            "bars",
            "planner.parameters.line=cable",
            "'planner'.* the planner's model swings along a cable, and the robot along ba",
        ),
        ("bars", "planner.closing=5", r"closing is 5 m/s; it must be at most 1\.5 m/s, because"),
        (
            "bars",
            "sim.parameters.bars=3",
            r"starts at 0\.68 m and hands grip up to 0\.85 m, so that a swing over step = 0\.34 m",
        ),
        (
            "cable",
            "sim.parameters.start_x=18",
            r"starts at 18\.9 m and hands grip up to 19\.5 m, so that a swing over step = 0\.9 m does not fit",
        ),
        ("cable", "planner.torque_limit=9", r"'planner'.* torque_limit is 9 N m; it must be at least 15\.4 N m"),
        (
            "cable",
            "controller.torque_limit=9",
            r"'controller'.* torque_limit is 9 N m; it must be at least 16\.1 N m",
        ),
        ("cable", "planner.torque_limit=40", r"torque_limit is 40 N m; it must be in 15\.4 .. 30 N m"),
        ("cable", "planner.parameters.modes=49", r"rollout_step_ms is 6; it must be at most 1\.92, .* with 49 modes"),
        (
            "bars",
            "planner.parameters.links=3",
            "the planner's model has a trunk, but the robot has only the joints slide, drop, pitch, elb",
        ),
        (
            "trunk",
            "planner.trunk_stiffness=1e6",
            r"'planner'.* trunk_stiffness is 1e\+06; it must be below .*, because control with a time step of 6 ms",
        ),
        (
            "trunk",
            "controller.trunk_damping=400",
            r"trunk_damping is 400; it must be below 219, because control with a time step of 2 ms is",
        ),
    ],
)
def test_what_cannot_be_planned_or_driven_is_refused_with_what_could(name: str, sets: str, says: str) -> None:
    with pytest.raises(PlanError, match=says) as caught:
        plan_of(f"gibbon_{name}", sets)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("share", "hand_overs"), [(1.05, 3), (0.8, 0)])
def test_the_torque_that_a_refusal_names_is_about_what_hand_overs_need(share: float, hand_overs: int) -> None:
    """Eight seconds with an elbow a little above it, and with one well below it, which no launch file can ask for."""
    plan, torque = plan_of("gibbon_bars"), share * least_torque(build("gibbon", line="bars"))
    for node in plan.nodes:
        node.params = {**node.params, "torque_limit": torque}
    with compose(plan) as composed:
        composed.step(8000)
        controller = composed.nodes["controller"].node
        assert controller.figures["peak_torque_n_m"] <= torque
        assert controller.counters["falls"] == 0
        assert controller.counters["hand_overs"] >= hand_overs
        assert hand_overs > 0 or controller.counters["hand_overs"] == 0


@pytest.mark.parametrize(
    ("node", "key", "value", "says"),
    [
        ("planner", "step", 3.0, "step is 3 m; it must be in 0.12 .. 1.18 m, within the reach of the arms"),
        ("planner", "torque_limit", 99.0, "torque_limit is 99 N m; it must be in .* 30 N m"),
        ("planner", "parameters", {"tension": 5.0}, "tension is 5 N; it must be from 2000 N to"),
        ("controller", "torque_limit", 1.0, "torque_limit is 1 N m; it must be"),
    ],
)
def test_what_a_launch_file_may_not_ask_for_is_refused_with_the_same_line_while_it_runs(
    node: str, key: str, value: Any, says: str
) -> None:
    with compose(plan_of("gibbon_cable")) as composed:
        hosted = composed.nodes[node]
        with pytest.raises(ValueError, match=says) as live:
            hosted.parameters.require_fitting({key: value}, type(hosted.node), hosted.context)
        assert str(live.value).startswith(f"node {node!r}: params: ")
        hosted.parameters.require_fitting({key: hosted.parameters.plain()[key]}, type(hosted.node), hosted.context)
    if not isinstance(value, dict):
        with pytest.raises(PlanError) as launched:
            plan_of("gibbon_cable", f"{node}.{key}={value}")
        assert str(launched.value).endswith(str(live.value))


def test_a_planner_whose_parameters_change_numbers_and_counts_its_plans_on() -> None:
    numbers: list[int] = []

    def hear(topic: str, payload: bytes) -> None:
        message = decode(topic, payload)
        if isinstance(message, SwingPlan):
            numbers.append(message.number)

    with compose(plan_of("gibbon_bars"), hear) as composed:
        composed.step(1000)
        planner = composed.nodes["planner"]
        before = dict(planner.node.figures)
        assert before["plans"] == len(numbers) > 3
        planner.set_parameters({"torque_limit": 13.0})
        assert dict(planner.node.figures) == before
        composed.step(1000)
        assert planner.node.figures["plans"] == len(numbers) > before["plans"]
        composed.request("reset")
        composed.step(1)
        assert planner.node.figures["plans"] == 1.0
    assert numbers == [*range(1, len(numbers)), 1]


def test_another_robot_is_refused_by_the_planner() -> None:
    with pytest.raises(PlanError, match="the model 'rotary_pendulum' is no gibbon: it has no body 'trolley'"):
        plan_of("gibbon_cable", "planner.robot='rotary_pendulum'", "planner.parameters={}")


def controller() -> Brachiation:
    """A controller that was started."""
    node = Brachiation()
    node.on_start(Context("controller", "gibbon", 1e-3, BrachiationParams(), np.random.default_rng(0)))
    return node


def state(time: float, grips: str, elbow: float = 0.0) -> RobotState:
    """A state of a gibbon on bars, hand b ahead of hand a."""
    outputs = {"hand_a_x": 0.0, "hand_b_x": 0.34} | {f"hand_{hand}_grips": float(hand in grips) for hand in "ab"}
    return RobotState(
        timestamp=time, name=["pitch", "elbow"], position=[0.0, elbow], velocity=[0.0, 0.0], outputs=outputs
    )


def swing(number: int, start: float, **changed: Any) -> SwingPlan:
    """A plan of hand b gripping, a second long."""
    fields = {"hand": "b", "duration": 1.0, "release": True, "elbow": [1.0, 0.0, -1.0], "torque": [2.0, 4.0]}
    return SwingPlan(number=number, start=start, **{**fields, **changed})


def said(node: Brachiation, name: str, message: Any) -> dict[str, Any]:
    """What the node says to a message, by name."""
    return dict(node.on_message(name, message) or [])


def test_a_late_plan_is_counted_and_said_and_the_last_one_carries_on() -> None:
    node = controller()
    said(node, "state", state(0.0, "ab"))
    said(node, "swing_plan", swing(1, start=0.1))
    assert said(node, "state", state(0.1, "ab"))["swing_status"].plan == 1
    said(node, "state", state(0.5, "b"))
    refusal = said(node, "swing_plan", swing(2, start=0.4, torque=[9.0, 9.0]))["swing_status"]
    assert isinstance(refusal, SwingProgress)
    assert (refusal.refused, refusal.late, refusal.plan) == (2, 1, 1)
    assert node.counters["late_plans"] == 1
    elbow, rate = path_at(swing(1, 0.1), 0.5)
    command = said(node, "state", state(0.6, "b", elbow=elbow))["command"]
    assert command.value[0] == pytest.approx(3.0 + 1.0 * rate)  # the first plan's torque, and damping 1 N m s/rad


def test_the_hand_behind_lets_go_at_the_start_of_a_swing_and_closes_before_its_end() -> None:
    node = controller()

    def hands(time: float, grips: str) -> list[float]:
        command = said(node, "state", state(time, grips))["command"]
        assert isinstance(command, JointCommand)
        return command.value[1:]

    said(node, "swing_plan", swing(1, start=0.1))
    assert hands(0.05, "ab") == [1.0, 1.0]
    assert hands(0.1, "ab") == [0.0, 1.0]
    assert hands(0.5, "b") == [0.0, 1.0]
    assert hands(1.05, "b") == [1.0, 1.0]
    assert node.counters["hand_overs"] == 0


def test_a_hand_over_counts_when_the_hand_that_swung_is_in_front() -> None:
    for x, counted in ((0.68, "hand_overs"), (0.0, "regrips")):
        node = controller()
        said(node, "swing_plan", swing(1, start=0.0))
        for time, grips in ((0.0, "ab"), (0.5, "b")):
            said(node, "state", state(time, grips))
        gripped = state(1.0, "ab")
        gripped.outputs["hand_a_x"] = x
        said(node, "state", gripped)
        assert node.counters[counted] == 1
        assert node.counters["hand_overs"] + node.counters["regrips"] == 1


def test_a_trunk_with_a_motor_is_pushed_towards_hanging() -> None:
    node = Brachiation()
    plan = Plan(name="trunk", sim=SimPlan(robot="gibbon", parameters={"links": 3, "trunk": "actuated"}))
    passive = Plan(name="trunk", sim=SimPlan(robot="gibbon", parameters={"links": 3}))
    params = BrachiationParams(trunk_stiffness=20.0, trunk_damping=2.0, torque_limit=9.0)
    assert node.commands(params, plan) == ["elbow", "grip_a", "grip_b", "trunk"]
    assert node.commands(params, passive) == ["elbow", "grip_a", "grip_b"]
    node.on_start(Context("controller", "gibbon", 1e-3, params, np.random.default_rng(0), plan=plan))
    grips = state(0.0, "ab").outputs
    for trunk, torque in ((0.1, -20.0 * 0.3 - 2.0 * 0.5), (-0.2, -2.0 * 0.5), (1.0, -9.0), (0.1 - 2 * np.pi, -7.0)):
        position, velocity = [0.2, 0.0, trunk], [0.4, 0.0, 0.1]
        leaning = RobotState(name=["pitch", "elbow", "trunk"], position=position, velocity=velocity, outputs=grips)
        command = said(node, "state", leaning)["command"]
        assert command.name == ["elbow", "grip_a", "grip_b", "trunk"]
        assert command.value[3] == pytest.approx(torque)


def test_a_plans_path_and_torque_end_at_rest_and_at_the_last_torque() -> None:
    plan = swing(1, start=0.0)
    assert path_at(plan, 0.5) == (pytest.approx(0.75), pytest.approx(-1.0))
    assert path_at(plan, 2.0) == (pytest.approx(0.0), 0.0)
    assert [torque_at(plan, elapsed) for elapsed in (-1.0, 0.0, 0.25, 1.0, 2.0)] == [2.0, 2.0, 2.5, 4.0, 4.0]


def test_a_swing_that_is_long_over_without_a_grip_is_a_miss_once() -> None:
    node = controller()
    said(node, "swing_plan", swing(1, start=0.0))
    misses = []
    for time in (0.0, 0.5, 1.2, 1.4, 2.0):
        said(node, "state", state(time, "ab" if time == 0.0 else "b"))
        misses.append(node.counters["misses"])
    assert misses == [0, 0, 0, 1, 1]
    assert node.figures["hands_that_grip"] == 1.0
    said(node, "swing_plan", swing(2, start=2.1, release=False))
    for time in (2.1, 3.5):
        said(node, "state", state(time, "b"))
    assert node.counters["misses"] == 2


def test_a_planner_counts_how_often_no_plan_was_good_and_a_controller_the_misses_of_an_elbow_too_weak() -> None:
    plan = plan_of("gibbon_bars")
    planner = plan.nodes[0]
    planner.params = {**planner.params, "torque_limit": 0.05}  # no launch file can ask for it
    with compose(plan) as composed:
        composed.step(3000)
        figures = composed.nodes["planner"].node.figures
        counters = composed.nodes["controller"].node.counters
    assert counters["hand_overs"] == 0
    assert figures["times_without_a_plan"] > 0
    assert figures["nearest_miss_mm"] > 10.0
