"""`armswing hil fit`: a recording in, the corrected robot, verdict and page out."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import msgspec
import numpy as np
import pytest

from nodes.cli.application import run
from nodes.framework.messages import RobotState
from nodes.framework.recording.writer import RecordingWriter
from nodes.hil.alignment.streams import StreamError
from nodes.hil.fitting import folder as fit_folder
from nodes.hil.fitting import reading
from nodes.hil.fitting.correcting import HALF_LOADED, creep_notes
from nodes.hil.fitting.verdict import verdict_of
from nodes.hil.report import folder as report_folder
from robots.corrections import read_corrections
from robots.registry import build
from sim_core.errors import InvalidRequest, UnknownName
from sim_core.identification import fitting
from sim_core.identification.fitting import fit
from sim_core.identification.inertial_parameters import about_origin, is_consistent
from sim_core.identification.loops import LoopRegressor
from sim_core.identification.regressor import Regressor
from sim_core.identification.rigid_tree import rigid_tree
from sim_core.inverse import inverse_dynamics
from sim_core.mechanism import JointSpring
from sim_core.mechanism.inertias import inertia_matrix
from sim_core.mechanism.quantities import value_of
from sim_core.system import assemble
from tests.sim_core.crank_rocker import four_bar, rotation

ROBOT, RATE_HZ, SECONDS = "arm_4dof", 100.0, 16.0
PLANTED = """
robot = "arm_4dof"

[bodies.link_9]
mass = 3.0
center_of_mass = [0.0, 0.05, 0.02]
inertia = [0.02, 0.01, 0.02, 0.0, 0.0, 0.0]
"""
VISCOUS, COULOMB, SMOOTH, LOAD = 0.4, 0.6, 0.05, 1.5


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("ARMSWING_DOMAIN", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes most of the time of a fit; the plots of `fitted` are drawn."""
    monkeypatch.setattr(fit_folder, "draw_all", lambda *_: [])
    for name in ("draw_all", "draw_efforts"):
        monkeypatch.setattr(report_folder, name, lambda *_: [])


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a recording, the corrected robot, and the results of its fit."""
    folder = tmp_path_factory.mktemp("fitted")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("XDG_RUNTIME_DIR", str(folder))
        patch.delenv("ARMSWING_DOMAIN", raising=False)
        write_recording(Path("measured.mcap"))
        assert run(["hil", "fit", "measured.mcap", "--write", "out.toml", "--write", "out.urdf"]) == 0
    return folder


def write_recording(
    path: Path,
    robot: str = ROBOT,
    moving: bool = True,
    effort: bool = True,
    metadata: dict[str, str] | None = None,
    fault: Callable[[np.ndarray, np.ndarray], None] = lambda q, tau: None,
    leaf: str = "measured_state",
) -> None:
    """A recording of a robot with other inertias and friction than the model's.

    fault  changes the recorded positions and efforts (n, 4)
    """
    Path("planted.toml").write_text(PLANTED)
    names, time, q, v, tau = planted_motion(moving)
    q, tau = q.copy(), tau.copy()
    fault(q, tau)
    plan = {"sim": {"robot": robot, "parameters": {}}, "nodes": []}
    about = {"robot": robot, "plan": msgspec.json.encode(plan).decode(), **(metadata or {})}
    with RecordingWriter(path, about) as writer:
        for seq, (t, positions, rates, efforts) in enumerate(
            zip(time.tolist(), q.tolist(), v.tolist(), tau.tolist(), strict=True), 1
        ):
            state = RobotState(timestamp=t, seq=seq, name=names, position=positions, velocity=rates)
            state.effort = efforts if effort else []
            writer.write(f"{robot}/{leaf}", state, t)


@cache
def planted_motion(moving: bool) -> tuple[list[str], np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Names of the joints, times, positions, velocities and efforts of the planted robot."""
    mechanism = build(ROBOT, corrections="planted.toml")
    names = [joint.name for joint in mechanism.moving_joints]
    regressor = Regressor(rigid_tree(mechanism, names))
    random, time = np.random.default_rng(1), np.arange(0.0, SECONDS, 1.0 / RATE_HZ)
    q, v, a = np.zeros((3, len(time), len(names)))
    for j in range(len(names) if moving else 0):
        for w in random.uniform(0.8, 5.0, 5):
            phase = random.uniform(0.0, 6.0)
            q[:, j] += 0.8 / w * np.sin(w * time + phase)
            v[:, j] += 0.8 * np.cos(w * time + phase)
            a[:, j] -= 0.8 * w * np.sin(w * time + phase)
    tau = regressor(q, v, a) @ regressor.pi + VISCOUS * v + COULOMB * np.tanh(v / SMOOTH)
    return names, time, q, v, tau + 0.1 * random.normal(size=tau.shape)


def test_a_fit_writes_verdict_page_and_the_corrected_robot(fitted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(fitted)
    verdict = json.loads(Path("measured_fit/verdict.json").read_text())
    assert verdict["outcome"] == "better"
    assert {joint["how"] for joint in verdict["joints"]} == {"fitted"}
    for joint in verdict["joints"]:
        assert joint["after"] < 0.3
        assert joint["after"] < joint["before"]
        assert abs(joint["friction_after"]["viscous"] - VISCOUS) < 0.15
        assert abs(joint["friction_after"]["coulomb"] - COULOMB) < 0.15
    assert verdict["parameters"]
    assert all(each["low"] <= each["value"] <= each["high"] for each in verdict["parameters"])
    page = Path("measured_fit/index.html").read_text()
    for joint in verdict["joints"]:
        assert joint["name"] in page
    changed = sum(each["has_changed"] for each in verdict["parameters"])
    assert page.count("<td>changed</td>") == changed > 0
    assert len(list(Path("measured_fit/plots").glob("*.png"))) == 4
    assert build("out.urdf").joints
    assert "# masses that moved: " in Path("out.toml").read_text()


def test_joints_that_get_smooth_friction_are_said_to_creep(fitted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(fitted)
    notes = json.loads(Path("measured_fit/verdict.json").read_text())["notes"]
    (line,) = (note for note in notes if "creeps" in note)
    assert line.startswith("joint_1, joint_2, joint_3, joint_4: the corrected dry friction is smooth near rest")
    assert line in Path("measured_fit/index.html").read_text()
    corrections = read_corrections(Path("measured_fit/corrections.toml"))
    system = assemble(build(ROBOT, corrections=str(fitted / "out.toml")))
    speed = HALF_LOADED * corrections.joints["joint_2"].smoothing_velocity
    still = np.zeros(system.n_q)
    v = np.array([0.0, speed, 0.0, 0.0])
    damping = value_of(build(ROBOT, corrections=str(fitted / "out.toml")).joint("joint_2").damping)
    friction = (inverse_dynamics(system, still, v, still) - inverse_dynamics(system, still, still, still))[1]
    assert friction - damping * speed == pytest.approx(0.5 * (corrections.joints["joint_2"].coulomb or 0.0), rel=0.02)
    assert not list(creep_notes(corrections, corrections.joints))


def test_a_model_that_is_not_better_is_not_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_recording(Path("measured.mcap"))
    monkeypatch.setattr(fitting, "fit", lambda *_, **__: dataclasses.replace(fit(*_, **__), outcome="not better"))
    assert run(["hil", "fit", "measured.mcap", "--write", "out.toml"]) == 1
    assert "not written: out.toml; the corrected model is not better" in capsys.readouterr().out
    assert not Path("out.toml").exists()
    assert not Path("measured_fit/corrections.toml").exists()


def test_a_simulation_is_not_fitted_to_the_model_that_made_it(capsys: pytest.CaptureFixture[str]) -> None:
    write_recording(Path("simulated.mcap"), leaf="state")
    for command in (["fit"], ["report"], ["fit", "--check"]):
        assert run(["hil", *command, "simulated.mcap"]) == 2
        assert "nothing was measured" in capsys.readouterr().err
    assert reading.read_fit_case([Path("simulated.mcap")], ROBOT).names


def test_the_corrected_robot_is_consistent_and_agrees_with_the_planted_one(
    fitted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(fitted)
    found, planted, model = (
        build(ROBOT, **given) for given in ({"corrections": "out.toml"}, {"corrections": "planted.toml"}, {})
    )
    for body in found.bodies:
        pi = about_origin(value_of(body.mass), body.center_of_mass, inertia_matrix(body))
        if value_of(body.mass):
            assert is_consistent(pi), body.name
    names = [joint.name for joint in model.moving_joints]
    regressors = [Regressor(rigid_tree(each, names)) for each in (found, planted, model)]
    q, v, a = np.random.default_rng(7).normal(size=(3, 50, 4))
    ours, theirs, before = (each(q, v, a) @ each.pi for each in regressors)
    assert np.abs(ours - theirs).max() < 0.2 * np.abs(before - theirs).max()
    damping = [value_of(joint.damping) for joint in found.moving_joints]
    np.testing.assert_allclose(damping, VISCOUS, atol=0.15)


def test_with_write_a_report_of_the_corrected_model_on_the_held_out_part_is_made(
    fitted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(fitted, ".", dirs_exist_ok=True)
    line = json.loads(Path("measured_fit/verdict.json").read_text())["second_report"]
    assert line.startswith("report of the corrected model from ")
    assert f'<a href="report/index.html">{line}</a>' in Path("measured_fit/index.html").read_text()
    run(["hil", "report", "measured.mcap"])
    reports = [Path(each) / "verdict.json" for each in ("measured_fit/report", "measured_report")]
    after, before = (json.loads(each.read_text()) for each in reports)
    held_out_s = 0.3 * SECONDS
    assert after["measured"]["start_s"] == pytest.approx(SECONDS - held_out_s, abs=0.1 * SECONDS)
    assert after["hints"]["residual"] < 0.5 * before["hints"]["residual"]
    capsys.readouterr()
    assert run(["hil", "fit", "measured.mcap"]) == 0
    assert "better: error on the held-out part" in capsys.readouterr().out
    assert not Path("measured_fit/report").exists()


def pulled_down(q: np.ndarray, tau: np.ndarray) -> None:
    tau[:, 2] -= LOAD  # a load along the joint, for which the motor gives less


def test_a_load_has_one_sign_in_verdict_corrections_and_robot() -> None:
    write_recording(Path("measured.mcap"), fault=pulled_down)
    run(["hil", "fit", "measured.mcap", "--write", "out.toml"])
    verdict = json.loads(Path("measured_fit/verdict.json").read_text())
    joint = verdict["joints"][2]
    correction = read_corrections(Path("out.toml")).joints[joint["name"]]
    assert joint["friction_after"]["load"] == pytest.approx(LOAD, abs=0.2)
    assert correction.load == pytest.approx(joint["friction_after"]["load"])
    (moving,) = (each for each in build(ROBOT, corrections="out.toml").joints if each.name == joint["name"])
    assert moving.load == correction.load
    (estimate,) = (each for each in verdict["parameters"] if each["name"] == f"{joint['name']}/load")
    assert estimate["low"] <= LOAD <= estimate["high"]
    assert estimate["has_changed"]


def reversed_sign(q: np.ndarray, tau: np.ndarray) -> None:
    tau[:, 1] *= -1.0


def other_unit(q: np.ndarray, tau: np.ndarray) -> None:
    tau[:, 1] *= 0.01


def no_torque_at_the_end(q: np.ndarray, tau: np.ndarray) -> None:
    tau[-int(0.4 * len(tau)) :] = 0.0


def dead_encoder(q: np.ndarray, tau: np.ndarray) -> None:
    q[400:800, 1] = q[400, 1]


def test_a_joint_with_refused_efforts_is_left_out_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    write_recording(Path("measured.mcap"), fault=reversed_sign)
    run(["hil", "fit", "measured.mcap"])
    assert "refused: joint_2: the efforts have the opposite sign of the model's" in capsys.readouterr().out
    verdict = json.loads(Path("measured_fit/verdict.json").read_text())
    assert {joint["name"]: joint["how"] for joint in verdict["joints"]}["joint_2"] == "refused"
    assert "joint_2" not in read_corrections(Path("measured_fit/corrections.toml")).joints


def test_findings_that_refuse_nothing_are_printed_and_kept(capsys: pytest.CaptureFixture[str]) -> None:
    write_recording(Path("measured.mcap"), fault=no_torque_at_the_end)
    run(["hil", "fit", "measured.mcap"])
    line = "there is no torque in the last 40% of the log"
    assert f"hint: {line}" in capsys.readouterr().out
    verdict = json.loads(Path("measured_fit/verdict.json").read_text())
    assert any(line in each["text"] for each in verdict["findings"]["measured.mcap"])
    assert line in Path("measured_fit/index.html").read_text()


def test_nothing_is_fitted_if_the_positions_of_a_joint_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    write_recording(Path("measured.mcap"), fault=dead_encoder)
    assert run(["hil", "fit", "measured.mcap"]) == 2
    error = capsys.readouterr().err
    assert "measured.mcap: joint_2: the position does not change from 4.00 to" in error
    assert len(error.strip().splitlines()) == 1
    assert not Path("measured_fit").exists()


def test_a_model_that_is_right_is_called_so() -> None:
    write_recording(Path("r.mcap"))
    case = reading.read_fit_case([Path("r.mcap")])
    result = fit(case.mechanism, case.names, case.recordings)
    exact = dataclasses.replace(
        result,
        outcome="not better",
        estimates=tuple(dataclasses.replace(each, before=each.value) for each in result.estimates),
    )
    assert "inertias and friction are already right" in verdict_of(case, exact, {}).reason
    assert "already right" not in verdict_of(case, dataclasses.replace(result, outcome="not better"), {}).reason
    far = [dataclasses.replace(each, after=2.0 * each.high + 1.0) for each in result.estimates]
    outside = dataclasses.replace(result, estimates=tuple(far))
    assert any(f"{len(far)} combinations" in note for note in verdict_of(case, outside, {}).notes)


def test_friction_alone_leaves_the_inertias(capsys: pytest.CaptureFixture[str]) -> None:
    write_recording(Path("measured.mcap"))
    assert run(["hil", "fit", "measured.mcap", "--params", "friction", "--write", "out.toml", "--json"]) == 0
    verdict = json.loads(capsys.readouterr().out)
    assert verdict["inertias_fitted"] is False
    assert not read_corrections(Path("out.toml")).bodies
    assert set(read_corrections(Path("out.toml")).joints) == {joint["name"] for joint in verdict["joints"]}


def test_an_imported_unit_that_is_unknown_is_fitted_apart(capsys: pytest.CaptureFixture[str]) -> None:
    note = msgspec.json.encode({"unknown_effort": ["joint_2"], "gain_sigma": {"joint_3": 0.1}}).decode()
    write_recording(Path("measured.mcap"), metadata={"import": note}, fault=other_unit)
    run(["hil", "fit", "measured.mcap", "--json"])
    verdict = json.loads(capsys.readouterr().out)
    assert {joint["name"]: joint["how"] for joint in verdict["joints"]}["joint_2"] == "apart"
    assert "joint_2" not in read_corrections(Path("measured_fit/corrections.toml")).joints


def without_efforts(q: np.ndarray, tau: np.ndarray) -> None:
    tau[:] = np.nan


@pytest.mark.parametrize(
    ("fault", "unknown", "message"),
    [
        (without_efforts, [], "no efforts of joint_1, joint_2, joint_3, joint_4 were recorded"),
        (other_unit, [f"joint_{k}" for k in range(1, 5)], "the efforts of all joints have an unknown unit"),
    ],
)
def test_a_log_whose_efforts_fit_nothing_is_refused_in_one_line(
    fault: Callable[[np.ndarray, np.ndarray], None],
    unknown: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    note = msgspec.json.encode({"unknown_effort": unknown}).decode()
    write_recording(Path("measured.mcap"), metadata={"import": note}, fault=fault)
    assert run(["hil", "fit", "measured.mcap", "--check"]) == 2
    (refused,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("refused"))
    assert message in refused
    assert run(["hil", "fit", "measured.mcap"]) == 2
    assert f"measured.mcap: {message}" in capsys.readouterr().err


def test_one_known_unit_is_not_compared_with_unknown_ones(capsys: pytest.CaptureFixture[str]) -> None:
    def drive(q: np.ndarray, tau: np.ndarray) -> None:
        tau[:, 1:] *= 100.0

    note = msgspec.json.encode({"unknown_effort": ["joint_2", "joint_3", "joint_4"]}).decode()
    write_recording(Path("measured.mcap"), metadata={"import": note}, fault=drive)
    assert run(["hil", "fit", "measured.mcap", "--check"]) == 0, capsys.readouterr().out


def test_errors_of_the_measurement_are_reported_beside_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    write_recording(Path("measured.mcap"))
    params = "inertia,friction,zero,gain,delay"
    assert run(["hil", "fit", "measured.mcap", "--params", params, "--json"]) == 0
    verdict = json.loads(capsys.readouterr().out)
    assert {error["kind"] for error in verdict["errors"]} == {"zero", "gain", "delay"}
    assert not any(
        error["kind"] in joint["friction_after"] for error in verdict["errors"] for joint in verdict["joints"]
    )
    assert "Errors of the measurement" in Path("measured_fit/index.html").read_text()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nothing.mcap", "no recording 'nothing.mcap'"),
        ("measured.mcap --holdout 1.5", "--holdout 1.5: expected a share"),
        ("measured.mcap --params mass", "--params mass: no such parameters; choose of inertia, friction"),
        ("measured.mcap --write out.sdf", "the ending must be .toml or .urdf"),
        ("measured.mcap --robot arm_6dof --output planted.toml", "is a file; expected a folder"),
        ("measured.mcap --robot rotary_pendulum", "rotary_pendulum' has"),
        ("still.mcap", "the joints move for 0 s; a fit needs at least 2 s of motion"),
        ("silent.mcap", "has no efforts; a fit needs positions and efforts"),
    ],
)
def test_bad_input_is_one_line(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_recording(Path("measured.mcap"))
    if "still" in line:
        write_recording(Path("still.mcap"), moving=False)
    if "silent" in line:
        write_recording(Path("silent.mcap"), effort=False)
    assert run(["hil", "fit", *line.split()]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1


def test_a_folder_of_others_is_not_written_to(capsys: pytest.CaptureFixture[str]) -> None:
    write_recording(Path("measured.mcap"))
    Path("measured_fit").mkdir()
    Path("measured_fit/diary.txt").write_text("mine")
    assert run(["hil", "fit", "measured.mcap"]) == 2
    assert "diary.txt" in capsys.readouterr().err


def test_corrections_name_a_body_that_the_robot_does_not_have_and_a_wrong_key() -> None:
    Path("wrong.toml").write_text(PLANTED.replace("link_9", "link_99"))
    with pytest.raises(UnknownName, match="link_99"):
        build(ROBOT, corrections="wrong.toml")
    Path("wrong.toml").write_text(PLANTED.replace("mass", "weight", 1))
    with pytest.raises(InvalidRequest, match="weight"):
        build(ROBOT, corrections="wrong.toml")
    with pytest.raises(InvalidRequest, match="No such file"):
        build(ROBOT, corrections="nothing.toml")


def test_corrections_beside_a_recording_are_found_from_another_folder() -> None:
    folder = Path("elsewhere")
    folder.mkdir()
    plan = {"sim": {"robot": ROBOT, "parameters": {"corrections": "planted.toml"}}, "nodes": []}
    write_recording(folder / "r.mcap", metadata={"plan": msgspec.json.encode(plan).decode()})
    Path("planted.toml").rename(folder / "planted.toml")
    case = reading.read_fit_case([folder / "r.mcap"])
    assert case.parameters["corrections"] == str((folder / "planted.toml").resolve())
    link = next(body for body in case.mechanism.bodies if body.name == "link_9")
    assert value_of(link.mass) == 3.0


def test_a_robot_with_springs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    write_recording(Path("measured.mcap"))
    mechanism = build(ROBOT)
    joints = [
        dataclasses.replace(joint, spring=None if joint.is_fixed else JointSpring(stiffness=1.0))
        for joint in mechanism.joints
    ]
    monkeypatch.setattr(reading, "build", lambda *_, **__: dataclasses.replace(mechanism, joints=tuple(joints)))
    with pytest.raises(StreamError, match="has springs"):
        reading.read_fit_case([Path("measured.mcap")])


def test_measured_efforts_count_also_where_the_model_has_no_actuator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_recording(Path("measured.mcap"))
    mechanism = build(ROBOT)
    monkeypatch.setattr(reading, "build", lambda *_, **__: dataclasses.replace(mechanism, actuators=()))
    case = reading.read_fit_case([Path("measured.mcap")])
    assert np.std(case.recordings[0].effort, axis=0).min() > 0.1


def write_linkage(path: Path, unrecorded: str = "") -> None:
    """A recording of the crank-rocker of `four_bar`, whose coupler is heavier than that of the model."""
    regressor = LoopRegressor(four_bar(coupler=2.6), ["crank"])
    t, *motion = rotation()
    tau = regressor(*motion) @ regressor.pi + VISCOUS * motion[1]
    tau += 0.02 * tau.std() * np.random.default_rng(2).normal(size=tau.shape)
    whole, _ = regressor.motion(*motion)
    names = [name for name in ("crank", "pin", "rocker") if name != unrecorded]
    kept = [("crank", "pin", "rocker").index(name) for name in names]
    efforts = np.full((len(t), 3), np.nan)
    efforts[:, 0] = tau[:, 0]
    about = {"robot": "four_bar", "plan": msgspec.json.encode({"sim": {"robot": "four_bar"}}).decode()}
    with RecordingWriter(path, about) as writer:
        for k, time in enumerate(t.tolist()):
            position, velocity, effort = (each[k, kept].tolist() for each in (whole[0], whole[1], efforts))
            state = RobotState(timestamp=time, seq=k + 1, name=names, position=position, velocity=velocity)
            state.effort = effort
            writer.write("four_bar/measured_state", state, time)


@pytest.mark.parametrize("unrecorded", ["", "rocker"])
def test_a_robot_with_closed_loops_is_fitted_in_the_joints_with_motors(
    unrecorded: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reading, "build", lambda *_, **__: four_bar())
    monkeypatch.setattr(reading, "with_joint_coordinates", lambda robot, chosen: chosen)
    write_linkage(Path("measured.mcap"), unrecorded)
    assert run(["hil", "fit", "measured.mcap", "--json"]) == 0
    verdict = json.loads(capsys.readouterr().out)
    (joint,) = verdict["joints"]
    assert (joint["name"], joint["how"]) == ("crank", "fitted")
    assert joint["after"] < 0.03
    assert joint["friction_after"]["viscous"] == pytest.approx(VISCOUS, rel=0.05)
    assert "pin, rocker: follow the other joints through closed loops" in verdict["notes"][0]
    assert any(each["what"].startswith("m, ") and each["what"].endswith("of rocker") for each in verdict["refusals"])


def test_a_loop_whose_motor_was_not_recorded_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reading, "build", lambda *_, **__: four_bar())
    monkeypatch.setattr(reading, "with_joint_coordinates", lambda robot, chosen: chosen)
    write_linkage(Path("measured.mcap"), "crank")
    assert run(["hil", "fit", "measured.mcap"]) == 2
    assert "the joint 'crank' of robot 'four_bar' is not recorded" in capsys.readouterr().err
