"""A robot is not accused of what a process makes of it that did not run: neither live nor by the report."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from nodes.framework.messages import JointCommand
from nodes.framework.plan.launch_plan import SimPlan
from nodes.hil.alignment.irregularities import SETTLING_S, RecentLargest, old_samples, paused, standstill
from nodes.hil.prediction.predicting import LivePrediction
from tests.nodes.hil.virtual_time import Stops, Verdicts, run

PROCESSES = ("hardware", "controller", "trajectory", "sim", "compare", "recorder")
FAULTS = {
    "mass": (("hardware.mass.link_10=0.05",), {("mass", "link_10")}),
    "mass and delay": (
        ("hardware.mass.link_10=0.05", "hardware.command_delay_ms=10"),
        {("mass", "link_10"), ("delay", "")},
    ),
    "delay": (("hardware.command_delay_ms=12",), {("delay", "")}),
    "bias": (("hardware.encoder_zero.joint_2=0.0087266",), {("bias", "joint_2")}),
    "clock": (("hardware.clock_step_s=0.05", "hardware.clock_step_at_s=1.5", "hardware.clock_drift_ppm=100"), set()),
}


def stops_of(processes: str, seed: int) -> Stops:
    """Stops of 5 to 300 ms at random times, on average four in a second, of the processes in turn."""
    dice = random.Random(f"{processes} {seed}")
    found: dict[str, list[tuple[float, float]]] = {}
    time = -0.3
    while time < 3.3:
        time += dice.expovariate(4.0)
        length = 5e-3 * 60.0 ** dice.random()
        found.setdefault(dice.choice(processes.split("+")), []).append((time, time + length))
        time += length
    return found


def named(verdicts: Verdicts) -> set[tuple[str, str]]:
    return {(each.kind, each.of) for each in verdicts.report.findings if each.failed and each.certain}


def check_no_accusation(folder: Path, processes: str, seed: int, has_driver: bool) -> None:
    verdicts = run(folder, stopped=stops_of(processes, seed), seed=seed, has_driver=has_driver)
    assert verdicts.live.outcome != "failed", (verdicts.live, seed)
    assert verdicts.report.outcome != "failed", (verdicts.report.findings, seed)
    assert named(verdicts) == set()


def check_no_wrong_cause(folder: Path, fault: str, processes: str, seed: int) -> None:
    settings, expected = FAULTS[fault]
    verdicts = run(folder, *settings, stopped=stops_of(processes, seed), seed=seed)
    assert named(verdicts) <= expected, (verdicts.report.findings, seed)
    if verdicts.report.outcome == "failed":
        assert named(verdicts) != set(), (verdicts.report.findings, seed)
    if fault == "clock":
        assert verdicts.live.outcome != "failed", (verdicts.live, seed)


@pytest.mark.parametrize("processes", [*PROCESSES, "sim+hardware+compare"])
def test_a_process_that_is_stopped_makes_no_fault_of_the_robot(processes: str, tmp_path: Path) -> None:
    check_no_accusation(tmp_path, processes, 0, has_driver=False)


@pytest.mark.parametrize("processes", ["hardware", "board", "sim"])
def test_a_robot_in_real_time_is_not_accused_of_stops_of_its_driver_its_board_or_the_simulation(
    processes: str, tmp_path: Path
) -> None:
    check_no_accusation(tmp_path, processes, 0, has_driver=True)


def test_a_simulation_that_is_slow_all_the_time_makes_no_fault_of_the_robot(tmp_path: Path) -> None:
    slow = [(0.02 * k, 0.02 * k + 0.014) for k in range(500)]  # it runs for 6 ms of 20
    verdicts = run(tmp_path, stopped={"sim": slow}, has_driver=True)
    assert verdicts.live.outcome == "not certain"
    assert "fell behind the clock" in verdicts.live.reason
    assert verdicts.report.outcome == "not certain"
    assert "fell behind the clock" in verdicts.report.reason
    assert named(verdicts) == set()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 11))
def test_no_process_that_is_stopped_makes_a_fault_of_the_robot_in_ten_runs(seed: int, tmp_path: Path) -> None:
    for processes in (*PROCESSES, "sim+hardware+compare"):
        check_no_accusation(tmp_path, processes, seed, has_driver=False)
    for processes in ("hardware", "board", "sim", "compare", "board+hardware+sim"):
        check_no_accusation(tmp_path, processes, seed, has_driver=True)


@pytest.mark.parametrize(("fault", "processes"), [("mass", "hardware"), ("mass and delay", "controller")])
def test_a_fault_beside_a_process_that_is_stopped_gets_no_other_name(
    fault: str, processes: str, tmp_path: Path
) -> None:
    check_no_wrong_cause(tmp_path, fault, processes, 0)


@pytest.mark.soak
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("processes", [*PROCESSES, "sim+hardware+compare"])
def test_faults_beside_stops_get_no_other_name_in_ten_runs(fault: str, processes: str, tmp_path: Path) -> None:
    for seed in range(10):
        check_no_wrong_cause(tmp_path, fault, processes, seed)


@pytest.mark.parametrize("fault", ["mass and delay", "bias"])
def test_beside_processes_that_run_faults_are_named_with_certainty(fault: str, tmp_path: Path) -> None:
    settings, expected = FAULTS[fault]
    verdicts = run(tmp_path, *settings)
    assert (verdicts.live.outcome, verdicts.report.outcome) == ("failed", "failed")
    assert named(verdicts) == expected


def test_efforts_that_change_between_the_samples_are_known_from_the_model(tmp_path: Path) -> None:
    stopped = {"hardware": [(0.35 * k, 0.35 * k + 0.1) for k in range(1, 9)]}
    report = run(tmp_path, stopped=stopped).report
    assert (report.outcome, report.findings) == ("passed", [])
    assert report.hints.residual is not None
    assert report.hints.sampling is not None
    missed = report.hints.residual * report.hints.sampling**0.5
    assert 100.0 * missed > report.limits.parameter_percent  # commands in bursts: the efforts seemed to differ by it


def test_samples_after_a_pause_may_be_as_old_as_the_pause() -> None:
    time = np.r_[np.arange(0.0, 0.5, 0.005), 0.6, 0.6, 0.6, np.arange(0.605, 1.0, 0.005)]
    old = old_samples(time)
    assert np.flatnonzero(old).tolist() == [100, 101, 102]
    assert not old_samples(np.arange(0.0, 1.0, 0.005)).any()


def test_a_burst_does_not_change_what_is_usual() -> None:
    time = np.r_[np.arange(0.0, 0.5, 0.005), np.full(60, 0.8), np.arange(0.805, 1.0, 0.005), 1.1]
    assert old_samples(time)[-1]


def test_the_standstill_of_a_simulation_counts_until_a_robot_has_settled() -> None:
    time = np.arange(0.0, 3.0, 0.004)
    sent = time + 0.1 * (time > 1.0) + 5.0
    sent[0] -= 1.0  # it waited for its start
    found = standstill(np.array([0.002, 0.9, 1.002, 1.2, 1.0 + SETTLING_S + 0.01]), sent, time, 1.0)
    assert found == pytest.approx([0.0, 0.0, 0.1, 0.1, 0.0], abs=1e-9)


def test_pauses_of_the_samples_count_until_a_robot_has_settled() -> None:
    time = np.r_[np.arange(0.0, 1.0, 0.005), np.arange(1.1, 2.0, 0.005)]
    found = paused(time)
    after = (time > 1.05) & (time < 1.1 + SETTLING_S - 0.01)
    assert found[after] == pytest.approx(0.1, abs=2e-3)
    assert not found[time < 1.05].any()
    assert not found[time > 1.1 + SETTLING_S + 0.01].any()


def test_the_largest_recent_value_is_forgotten_after_its_window() -> None:
    recent = RecentLargest(1.0)
    values = [recent.add(time, value) for time, value in ((0.0, 1.0), (0.5, 3.0), (1.0, 2.0), (1.6, 0.5), (0.0, 0.1))]
    assert values == [1.0, 3.0, 3.0, 2.0, 0.1]


def test_commands_that_were_lost_before_the_first_one_are_counted() -> None:
    made = LivePrediction(SimPlan(robot="arm_2dof"), gap_s=0.1, delay_s=0.0)
    list(made.add_message(JointCommand(timestamp=0.001, seq=4, name=["joint_2"], value=[1.0])))
    assert made.commands_lost == 3
