"""An arm of two links, whose log has an encoder of the wrong sign, or several differences from the model at once."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from nodes.cli.application import run
from nodes.framework.simulation.description import describe
from nodes.hil.alignment.comparison import compare
from nodes.hil.alignment.streams import Floats, Stream
from nodes.hil.identification.diagnosis import diagnose
from nodes.hil.identification.hypotheses import explain
from nodes.hil.identification.model import Efforts, model_of
from nodes.hil.identification.motion import Applied
from nodes.hil.logs.columns import read_columns
from nodes.hil.logs.importing import import_log, write_recording
from nodes.hil.logs.tables import Table
from nodes.hil.report.limits import Limits
from robots.registry import build
from sim_core.identification.regressor import Regressor
from sim_core.identification.rigid_tree import rigid_tree

NAMES = ("shoulder", "elbow")
LINK = """<link name="{0}"><inertial><origin xyz="0.01 0 -0.13"/><mass value="{1}"/>
<inertia ixx="{2}" iyy="{2}" izz="4e-4" ixy="0" ixz="0" iyz="0"/></inertial></link>"""
JOINT = """<joint name="{0}" type="revolute"><parent link="{1}"/><child link="{2}"/><origin xyz="0 0 -0.3"/>
<axis xyz="0 1 0"/><limit lower="-2.5" upper="2.5" effort="20" velocity="10"/></joint>"""
MASS, VISCOUS, COULOMB, ARMATURE = 0.25, (0.1, 0.05), (0.15, 0.12), (0.01, 0.004)
STEP = 5e-5  # rad, of the encoders


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "arm.urdf").write_text(urdf())


def urdf(more: float = 0.0) -> str:
    """The arm; `more` is the relative excess of the forearm's mass and inertia."""
    links = LINK.format("upper", 1.2, 9e-3) + LINK.format("fore", 0.7 * (1.0 + more), 4e-3 * (1.0 + more))
    joints = JOINT.format("shoulder", "base", "upper") + JOINT.format("elbow", "upper", "fore")
    return f'<robot name="arm"><link name="base"/>{links}{joints}</robot>'


@cache
def motion() -> tuple[Floats, Floats, Floats, Floats]:
    """(time, q, v, a) of ten seconds at 250 Hz."""
    t = np.arange(0.0, 10.0, 4e-3)
    waves = (
        ((0.6, 0.31, 0.0), (0.35, 0.83, 1.0), (0.15, 1.7, 0.4)),
        ((0.7, 0.43, 0.5), (0.4, 1.1, 2.0), (0.15, 2.1, 1.0)),
    )
    q, v, a = (np.zeros((len(t), 2)) for _ in range(3))
    for joint, harmonics in enumerate(waves):
        for size, hertz, phase in harmonics:
            w = 2.0 * np.pi * hertz
            q[:, joint] += size * np.sin(w * t + phase)
            v[:, joint] += size * w * np.cos(w * t + phase)
            a[:, joint] -= size * w * w * np.sin(w * t + phase)
    return t, q, v, a


def measured(more: float = 0.0, friction: float = 0.0) -> Stream:
    """States of the arm whose forearm is heavier, with friction and rotors, and with the noise of its currents.

    friction  factor of the viscous friction; 0 for neither friction nor rotors
    """
    t, q, v, a = motion()
    Path("real.urdf").write_text(urdf(more))
    regressor = Regressor(rigid_tree(build("real.urdf"), NAMES))
    effort = regressor(q, v, a) @ regressor.pi
    if friction:
        effort += friction * v * VISCOUS + np.tanh(v / 5e-3) * COULOMB + a * ARMATURE
    effort += np.random.default_rng(1).normal(size=effort.shape) * (0.05, 0.02)
    rounded = STEP * np.round(q / STEP)
    return Stream(t, NAMES, rounded, np.gradient(rounded, t, axis=0), effort)


def written(stream: Stream, position: float = 1.0, effort: float = 1.0) -> None:
    """Write log.mcap, with these signs of the elbow."""
    signs, assumed = np.array([1.0, position]), np.array([1.0, effort])
    assert stream.effort is not None
    columns = {"t": stream.time}
    lines = ['robot = "arm.urdf"', "[time]", 'column = "t"']
    for k, name in enumerate(NAMES):
        columns |= {f"q{k}": signs[k] * stream.position[:, k], f"e{k}": assumed[k] * stream.effort[:, k]}
        lines += [f"[joints.{name}]", f'position = "q{k}"', f'effort = "e{k}"']
    Path("columns.toml").write_text("\n".join(lines))
    log = import_log([Table("log", columns)], read_columns(Path("columns.toml")))
    write_recording(log, describe(log.mechanism, 1e-3, (), ""), Path("log.mcap"))


@pytest.mark.parametrize(
    "friction", [1.0, 40.0]
)  # with the larger one, the model leaves less than a tenth along any motion
@pytest.mark.parametrize(("effort", "what"), [(1.0, "its positions have"), (-1.0, "its positions and efforts have")])
def test_a_reversed_encoder_is_named_and_nothing_is_written(
    effort: float, what: str, friction: float, capsys: pytest.CaptureFixture[str]
) -> None:
    written(measured(MASS, friction), position=-1.0, effort=effort)
    assert run(["hil", "fit", "log.mcap", "--write", "fitted.toml"]) == 2
    assert f"log.mcap: elbow: {what} the opposite sign" in capsys.readouterr().err
    assert not Path("fitted.toml").exists()


def test_the_same_log_with_the_right_signs_is_not_refused(capsys: pytest.CaptureFixture[str]) -> None:
    written(measured(MASS, friction=1.0))
    assert run(["hil", "fit", "log.mcap", "--check"]) == 0
    assert "nothing was found" in capsys.readouterr().out


def test_mass_friction_and_rotors_that_differ_at_once_are_each_named_with_their_size() -> None:
    hints = explain(Efforts(model_of("arm.urdf", {})), measured(MASS, friction=1.0), Applied(hold_s=0.0)).hints
    sizes = {"friction": VISCOUS, "dry_friction": COULOMB, "armature": ARMATURE}
    planted = {(kind, name): value for kind, values in sizes.items() for name, value in zip(NAMES, values, strict=True)}
    found = {(each.kind, each.of): each.value for each in hints.causes}
    assert found == pytest.approx(planted | {("mass", "fore"): MASS}, rel=0.15)


def test_efforts_along_a_reversed_motion_have_no_cause_that_is_named() -> None:
    stream = measured()
    assert stream.velocity is not None
    stream.position[:, 1] *= -1.0
    stream.velocity[:, 1] *= -1.0
    hints = explain(Efforts(model_of("arm.urdf", {})), stream, Applied(hold_s=0.0)).hints
    (finding,) = diagnose(compare(stream, stream), hints, Limits()).findings
    assert (finding.kind, finding.judged) == ("efforts", "beyond")
    assert "no combination of known causes explains it" in finding.text
