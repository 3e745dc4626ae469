"""Reports on recordings that have measured states alone: the model is simulated from the measured states."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path

import numpy as np
import pytest

from armswing import Simulation, assemble, build
from nodes.cli.application import run
from nodes.framework.plan.launch_plan import SimPlan
from nodes.framework.simulation.description import describe
from nodes.hil.alignment.streams import Stream, StreamError
from nodes.hil.identification.hypotheses import explain
from nodes.hil.identification.model import Efforts, model_of
from nodes.hil.logs.columns import read_columns
from nodes.hil.logs.importing import import_log, write_recording
from nodes.hil.logs.tables import Table
from nodes.hil.prediction.short_predictions import predicted
from nodes.hil.report.limits import Limits
from nodes.hil.report.reading import read_case
from nodes.hil.report.verdict import Compared

NAMES = ("arm_1", "tail", "arm_2")
PLAN = SimPlan(robot="ricmonk")


def swing(seconds: float = 2.0, **parameters: float) -> Stream:
    """A swing of the simulated RicMonk with both motors, sampled at 200 Hz."""
    simulation = Simulation(assemble(build("ricmonk", tail_deg=30.0, **parameters)), step_s=1e-3)
    rows = []

    def efforts(t: float) -> list[float]:
        return [1.0 * np.sin(7.0 * t), 0.4 * np.cos(9.0 * t)]

    for step in range(round(seconds * 1e3)):
        t = step * 1e-3
        if step % 5 == 0:
            q, v, _ = simulation.joints()
            rows.append([t, *q, *v, 0.0, *efforts(t)])
        simulation.set_effort(efforts(t + 5e-4))
        simulation.step()
    table = np.array(rows)
    return Stream(table[:, 0], NAMES, table[:, 1:4], table[:, 4:7], table[:, 7:10])


def test_short_predictions_of_the_models_own_motion_return_to_it() -> None:
    measured = swing()
    found = predicted(measured, PLAN)
    # efforts are linear between the samples, so that the error is of second order in their distance
    assert np.abs(found.position - measured.position).max() < 5e-4


@pytest.mark.filterwarnings("error")
def test_a_time_step_that_is_too_large_for_friction_is_named_once(tmp_path: Path) -> None:
    stiff = tmp_path / "stiff.toml"
    stiff.write_text("[joints.tail]\ncoulomb = 1.0\nsmoothing_velocity = 1e-3\n")
    plan = SimPlan(robot="ricmonk", parameters={"corrections": str(stiff)})
    assert not any("too large" in note for note in predicted(swing(1.0), PLAN).notes)
    (line,) = (note for note in predicted(swing(1.0), plan).notes if "too large" in note)
    assert "by the friction of joint 'tail'" in line


def test_a_model_that_diverges_is_simulated_with_smaller_steps(tmp_path: Path) -> None:
    strong = tmp_path / "strong.toml"
    strong.write_text("[joints.tail]\ndamping = 60.0\n")
    plan = SimPlan(robot="ricmonk", parameters={"corrections": str(strong)})
    assert "in steps of 1 ms" in predicted(swing(1.0), PLAN).notes[0]
    found = predicted(swing(1.0), plan)
    assert "in steps of 0.25 ms" in found.notes[0]
    assert np.isfinite(found.position).all()


def test_each_prediction_starts_at_the_measured_state() -> None:
    measured = swing()
    off = Stream(measured.time, NAMES, measured.position, measured.velocity, 0.0 * measured.position)
    error = np.abs(predicted(off, PLAN, horizon_s=0.1).position - measured.position).max(axis=1)
    starts = error[::20]
    np.testing.assert_array_equal(starts[1:] > 0.0, True)  # the end of the prediction before
    np.testing.assert_array_less(error[1::20], 0.1 * error.max())


def test_a_prediction_needs_every_joint_of_the_model() -> None:
    with pytest.raises(StreamError, match="'arm_2' of the model is not measured"):
        predicted(swing().only(["arm_1", "tail"]), PLAN)
    with pytest.raises(StreamError, match="loops"):
        predicted(swing(), SimPlan(robot="charmie", parameters={"loops": "closed"}))


def test_a_report_on_an_imported_log_names_the_mass_and_friction_that_the_model_lacks(tmp_path: Path) -> None:
    measured = swing(4.0, arm_2_damping=0.05)
    assert measured.velocity is not None
    assert measured.effort is not None
    columns = {"t": measured.time}
    lines = ['robot = "ricmonk"', "[time]", 'column = "t"']
    for k, name in enumerate(NAMES):
        columns |= {f"q{k}": measured.position[:, k], f"v{k}": measured.velocity[:, k], f"e{k}": measured.effort[:, k]}
        lines += [f"[joints.{name}]", f'position = "q{k}"', f'velocity = "v{k}"']
        lines += [f'effort = "e{k}"'] if k else []
    columns["q1"] = np.where(np.arange(len(measured.time)) == 50, np.nan, columns["q1"])
    (tmp_path / "columns.toml").write_text("\n".join(lines))
    log = import_log([Table("log", columns)], read_columns(tmp_path / "columns.toml"))
    write_recording(log, describe(log.mechanism, 1e-3, (), ""), tmp_path / "log.mcap")
    case = read_case(tmp_path / "log.mcap", None)
    verdict = Compared(case, Limits()).verdict
    assert verdict.delay_s == 0.0
    assert "1 samples without a position, velocity or effort are left out" in verdict.measured.notes
    found = {(hint.kind, hint.of): hint.value for hint in verdict.hints.causes}
    assert found["friction", "arm_2"] == pytest.approx(0.05, rel=0.05)


def test_shares_of_a_joint_without_motor_refer_to_the_terms_that_cancel_there() -> None:
    hints = explain(Efforts(model_of("ricmonk", {})), swing(4.0, arm_1_damping=0.05)).hints
    assert hints.residual is not None
    assert 0.01 < hints.residual < 0.3
    (friction,) = (each for each in hints.causes if (each.kind, each.of) == ("friction", "arm_1"))
    assert friction.value == pytest.approx(0.05, rel=0.05)
    assert friction.share < 0.3
    least = {(each.kind, each.of): each.size for each in hints.least}
    assert all(size is None or size < 1.0 for (kind, _), size in least.items() if kind == "friction")


def test_commanded_efforts_stand_in_for_those_that_were_not_measured(tmp_path: Path) -> None:
    measured = swing()
    assert measured.effort is not None
    lines = ['robot = "ricmonk"', "[time]", 'column = "t"']
    columns = {"t": measured.time}
    for k, name in enumerate(NAMES):
        columns |= {f"q{k}": measured.position[:, k], f"e{k}": measured.effort[:, k]}
        lines += [f"[joints.{name}]", f'position = "q{k}"', *([f'command = "e{k}"'] if k else [])]
    (tmp_path / "columns.toml").write_text("\n".join(lines))
    log = import_log([Table("log", columns)], read_columns(tmp_path / "columns.toml"))
    write_recording(log, describe(log.mechanism, 1e-3, (), ""), tmp_path / "log.mcap")
    case = read_case(tmp_path / "log.mcap", None)
    np.testing.assert_array_equal(case.measured.stream.effort, measured.effort)
    notes = " ".join(case.measured.stream.notes)
    assert "the efforts of tail are those that were commanded" in notes
    assert "velocities are derivatives of the positions" in notes
    off = case.predicted.stream.position - case.measured.stream.position
    assert np.abs(off).max() < 0.05


def test_a_report_names_first_what_the_checks_of_the_log_refuse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = swing(6.0)
    assert measured.effort is not None
    lines, columns = ['robot = "ricmonk"', "[time]", 'column = "t"'], {"t": measured.time}
    for k, name in enumerate(NAMES):
        columns |= {f"q{k}": measured.position[:, k], f"v{k}": measured.velocity[:, k], f"e{k}": measured.effort[:, k]}
        sign = ', sign = -1, unit = "N m"' if name == "arm_2" else ""
        lines += [f"[joints.{name}]", f'position = "q{k}"', f'velocity = "v{k}"']
        lines += [f'effort = {{ column = "e{k}"{sign} }}'] if k else []
    (tmp_path / "columns.toml").write_text("\n".join(lines))
    log = import_log([Table("log", columns)], read_columns(tmp_path / "columns.toml"))
    write_recording(log, describe(log.mechanism, 1e-3, (), ""), tmp_path / "log.mcap")
    assert run(["hil", "report", str(tmp_path / "log.mcap"), "-o", str(tmp_path / "report")]) == 1
    assert capsys.readouterr().out.startswith("wrong in the log: arm_2: the efforts have the opposite sign")
    (line,) = json.loads((tmp_path / "report/verdict.json").read_text())["wrong_in_log"]
    assert line.startswith("arm_2: the efforts have the opposite sign")
    assert escape(line) in (tmp_path / "report/index.html").read_text().replace("&#39;", "&#x27;")
