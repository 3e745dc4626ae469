"""Checks on a log: each planted fault is named, and nothing is refused in a log as it should be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from armswing import build
from nodes.hil.logs.checks import check_log
from nodes.hil.logs.columns import read_columns
from nodes.hil.logs.files import read_tables
from nodes.hil.logs.findings import Floats, LogSamples
from nodes.hil.logs.importing import import_log
from sim_core.identification.regressor import Regressor
from sim_core.identification.rigid_tree import rigid_tree

RICMONK = Path(__file__).parents[4] / "nodes/hil/logs/example"
NAMES = ("joint_1", "joint_2", "joint_3", "joint_4")


@cache
def clean() -> LogSamples:
    """Half a minute of the model of arm_4dof with friction, at 100 Hz, with encoders and noise of a good robot."""
    rng = np.random.default_rng(3)
    time = np.arange(0.0, 30.0, 0.01) + rng.uniform(0.0, 5e-4, 3000)
    q, v, a = (np.zeros((len(time), 4)) for _ in range(3))
    for joint in range(4):
        for harmonic in range(1, 5):
            w, size, phase = 2.0 * np.pi * 0.1 * harmonic, 0.6 * rng.normal() / harmonic, rng.uniform(0.0, 6.0)
            q[:, joint] += size * np.sin(w * time + phase)
            v[:, joint] += size * w * np.cos(w * time + phase)
            a[:, joint] -= size * w * w * np.sin(w * time + phase)
    regressor = Regressor(rigid_tree(build("arm_4dof"), NAMES))
    effort = regressor(q, v, a) @ regressor.pi
    size = effort.std(axis=0)
    effort += 0.1 * size * np.tanh(v / 0.02) + 0.02 * size * rng.normal(size=effort.shape)
    measured = 1e-4 * np.round(1e4 * q)
    limits = np.full(4, np.pi)
    return LogSamples(NAMES, time, measured, v, effort, -limits, limits, np.zeros(4, dtype=bool))


def kinds(samples: LogSamples) -> dict[str, str]:
    """{kind: joints} of the findings."""
    return {finding.kind: finding.joint for finding in check_log(samples, build("arm_4dof"))}


def column(values: Floats, joint: int, change: Callable[[Floats], Floats]) -> Floats:
    changed = values.copy()
    changed[:, joint] = change(values[:, joint])
    return changed


def test_a_joint_that_stands_still_is_checked() -> None:
    samples = clean()
    found = kinds(replace(samples, position=np.full_like(samples.position, 0.1)))
    assert "dead position" in found
    assert "no derivative" not in found


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_an_offset_of_the_velocity_at_rest_is_no_dead_encoder(noise: float) -> None:
    samples = clean()
    resting = (samples.time > 12.0) & (samples.time < 21.0)
    wrong = 0.03 + noise * np.random.default_rng(2).normal(size=len(samples.time))
    position = column(samples.position, 1, lambda q: np.where(resting, q[np.argmax(resting)], q))
    velocity = column(samples.velocity, 1, lambda v: np.where(resting, 0.0, v) + wrong)
    assert "dead position" not in kinds(replace(samples, position=position, velocity=velocity))


def exchanged(values: Floats, i: int, j: int) -> Floats:
    order = list(range(4))
    order[i], order[j] = j, i
    return values[:, order]


def frozen(values: Floats) -> Floats:
    return np.where((np.arange(len(values)) > 1000) & (np.arange(len(values)) < 2000), values[1000], values)


def filtered(time: Floats, values: Floats, lag_s: float) -> Floats:
    found = values.copy()
    for index in range(1, len(values)):
        step = time[index] - time[index - 1]
        found[index] = found[index - 1] + (values[index] - found[index - 1]) * step / (lag_s + step)
    return found


def cut(samples: LogSamples, renumbered: bool) -> LogSamples:
    kept = (samples.time < 10.0) | (samples.time > 12.0)
    time = 0.01 * np.arange(kept.sum()) if renumbered else samples.time[kept]
    rows = (each[kept] for each in (samples.position, samples.velocity, samples.effort))
    return replace(samples, time=time, **dict(zip(("position", "velocity", "effort"), rows, strict=True)))


def late(samples: LogSamples, delay_s: float) -> LogSamples:
    moved = [np.interp(samples.time - delay_s, samples.time, each) for each in samples.effort.T]
    return replace(samples, effort=np.stack(moved, axis=1))


def repeated(samples: LogSamples) -> LogSamples:
    time = samples.time.copy()
    time[500:800:3] = time[499:799:3]
    return replace(samples, time=time)


S = LogSamples
FAULTS: dict[str, tuple[Callable[[S], S], str, str]] = {
    "efforts exchanged": (
        lambda s: replace(s, effort=exchanged(s.effort, 1, 2)),
        "exchanged efforts",
        "joint_2, joint_3",
    ),
    "positions exchanged": (
        lambda s: replace(s, position=exchanged(s.position, 1, 2)),
        "exchanged positions or velocities",
        "joint_2, joint_3",
    ),
    "velocities exchanged": (
        lambda s: replace(s, velocity=exchanged(s.velocity, 0, 3)),
        "exchanged positions or velocities",
        "joint_1, joint_4",
    ),
    "joints exchanged": (
        lambda s: replace(
            s,
            position=exchanged(s.position, 1, 2),
            velocity=exchanged(s.velocity, 1, 2),
            effort=exchanged(s.effort, 1, 2),
        ),
        "exchanged joints",
        "joint_2, joint_3",
    ),
    "degrees": (lambda s: replace(s, position=np.degrees(s.position)), "unit of velocity", "joint_4"),
    "gap": (lambda s: cut(s, False), "gap", ""),
    "cut with renumbered times": (lambda s: cut(s, True), "cut", ""),
    "repeated times": (repeated, "repeated times", ""),
    "constant times 2": (
        lambda s: replace(s, effort=column(s.effort, 2, lambda e: 2.0 * e)),
        "size of effort",
        "joint_3",
    ),
    "sign": (lambda s: replace(s, effort=column(s.effort, 1, lambda e: -e)), "sign of effort", "joint_2"),
    "frozen effort": (lambda s: replace(s, effort=column(s.effort, 1, frozen)), "frozen effort", "joint_2"),
    "noise": (
        lambda s: replace(
            s, effort=column(s.effort, 1, lambda e: e + e.std() * np.random.default_rng(1).normal(size=3000))
        ),
        "noisy effort",
        "joint_2",
    ),
    "dead encoder": (lambda s: replace(s, position=column(s.position, 2, frozen)), "dead position", "joint_3"),
    "zero": (lambda s: replace(s, position=column(s.position, 1, lambda q: q + 0.2)), "zero", "joint_2"),
    "effort 100 ms late": (lambda s: late(s, 0.1), "late effort", "joint_4"),
    "effort 20 ms late": (lambda s: late(s, 0.02), "late effort", "joint_4"),
    "velocity filter": (
        lambda s: replace(s, velocity=column(s.velocity, 3, lambda v: filtered(s.time, v, 0.2))),
        "filtered velocity",
        "joint_4",
    ),
    "another signal as velocity": (
        lambda s: replace(s, velocity=column(s.velocity, 3, lambda v: np.sin(7.0 * s.time))),
        "no derivative",
        "joint_4",
    ),
    "few values": (
        lambda s: replace(s, effort=column(s.effort, 3, lambda e: e.std() * np.round(e / e.std() / 1.5))),
        "few values",
        "joint_4",
    ),
    "saturated": (
        lambda s: replace(s, effort=column(s.effort, 1, lambda e: e.clip(*np.percentile(e, [10.0, 90.0])))),
        "saturated effort",
        "joint_2",
    ),
    "no torque": (lambda s: replace(s, effort=np.where(s.time[:, None] > 15.0, 0.0, s.effort)), "no torque", ""),
}


def test_a_log_as_it_should_be_has_no_finding() -> None:
    assert kinds(clean()) == {}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_named(fault: str) -> None:
    change, kind, joint = FAULTS[fault]
    found = kinds(change(clean()))
    assert found.get(kind) == joint, found


def test_positions_that_are_taken_for_degrees_have_no_other_finding() -> None:
    found = check_log(replace(clean(), position=np.radians(clean().position)), build("arm_4dof"))
    assert {finding.kind for finding in found if finding.refuses} == {"unit of velocity"}
    assert all("or the positions in rad taken for deg" in finding.text for finding in found if finding.refuses)
    assert not [finding for finding in found if "effort" in finding.kind]


@pytest.mark.parametrize("change", [np.radians, np.degrees])
@pytest.mark.parametrize("has_velocity", [False, True])
def test_another_unit_of_the_positions_is_told_by_the_efforts(
    change: Callable[[Floats], Floats], has_velocity: bool
) -> None:
    samples, endless = clean(), np.full(4, np.inf)
    velocity = change(samples.velocity) if has_velocity else np.full_like(samples.velocity, np.nan)
    wrong = replace(samples, position=change(samples.position), velocity=velocity, lower=-endless, upper=endless)
    (refused,) = (finding for finding in check_log(wrong, build("arm_4dof")) if finding.refuses)
    assert refused.kind == "unit of position"
    assert refused.joint == "joint_1, joint_2, joint_3, joint_4"
    assert refused.value < 0.1


def test_a_motion_as_small_as_that_of_a_wrong_unit_is_a_hint() -> None:
    assert kinds(replace(clean(), position=np.radians(clean().position))).get("small motion") == ""


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_a_wrong_unit_of_the_times_is_one_finding(factor: float) -> None:
    found = check_log(replace(clean(), time=factor * clean().time), build("arm_4dof"))
    (wrong,) = (finding for finding in found if finding.kind in ("unit of time", "unit of velocity"))
    assert wrong.kind == "unit of time"
    assert "little motion" not in {finding.kind for finding in found}
    assert wrong.refuses == (factor < 1.0)  # positions that hardly change in a step are not compared with velocities
    assert "`[time] unit`" in wrong.text


def test_a_log_with_too_little_motion_is_refused() -> None:
    short = replace(
        clean(), **{name: getattr(clean(), name)[:90] for name in ("time", "position", "velocity", "effort")}
    )
    refused = [finding for finding in check_log(short, build("arm_4dof")) if finding.refuses]
    assert [finding.kind for finding in refused] == ["little motion"]
    assert "needs at least 2 s" in refused[0].text


def test_a_motion_that_the_filter_loses_is_named_and_its_efforts_are_not_judged() -> None:
    fast, slow = 20.0, clean()
    there_and_back = {
        "position": np.concatenate([slow.position, slow.position[::-1]]),
        "velocity": fast * np.concatenate([slow.velocity, -slow.velocity[::-1]]),
        "effort": exchanged(np.concatenate([slow.effort, slow.effort[::-1]]), 1, 2),
    }
    time = np.arange(2 * len(slow.time)) * 0.01 / fast
    findings = check_log(replace(slow, time=time, **there_and_back), build("arm_4dof"))
    assert "fast motion" in {finding.kind for finding in findings}
    assert not [finding for finding in findings if finding.refuses]


PENDULUM = """<robot name="pendulum"><link name="base"/><link name="rod"><inertial><origin xyz="0 0 -0.3"/>
<mass value="0.6"/><inertia ixx="{0}" iyy="{0}" izz="1e-3" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="pivot" type="continuous"><parent link="base"/><child link="rod"/><axis xyz="0 1 0"/></joint></robot>"""


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_swing_near_resonance_has_the_right_sign_though_the_models_inertia_is_twice_as_large(
    sign: float, tmp_path: Path
) -> None:
    time = np.arange(0.0, 20.0, 0.01)
    q = 1.2 * np.sin(3.8 * time + 0.4 * np.sin(0.7 * time)) + 0.2 * np.sin(1.3 * time)
    v = np.gradient(q, time)
    moment, inertia = 0.6 * 0.3, 0.6 * 0.3**2 + 0.012
    effort = inertia * np.gradient(v, time) + 9.81 * moment * np.sin(q) + 0.02 * v
    (tmp_path / "pendulum.urdf").write_text(PENDULUM.format(0.012 + inertia))
    columns = {"position": q, "velocity": v, "effort": sign * effort}
    endless = np.full(1, np.inf)
    channels = (each[:, None] for each in columns.values())
    samples = LogSamples(("pivot",), time, *channels, -endless, endless, np.zeros(1, dtype=bool))
    found = check_log(samples, build(str(tmp_path / "pendulum.urdf")))
    assert [finding.kind for finding in found if finding.refuses] == ([] if sign > 0.0 else ["sign of effort"])


def test_exchanged_joints_are_named_where_the_model_explains_most_of_the_efforts_as_recorded() -> None:
    samples = clean()
    friction = 3.0 * samples.effort.std(axis=0) * np.tanh(samples.velocity / 0.02)
    channels = {"position": samples.position, "velocity": samples.velocity, "effort": samples.effort + friction}
    whole = {name: exchanged(values, 1, 2) for name, values in channels.items()}
    found = check_log(replace(samples, **whole), build("arm_4dof"))
    assert [finding.kind for finding in found if finding.joint == "joint_2, joint_3"] == ["exchanged joints"]
    assert "exchanged joints" not in kinds(replace(samples, **channels))


def test_nothing_is_refused_in_a_log_of_a_real_robot() -> None:
    log = import_log(read_tables(RICMONK / "swing.csv"), read_columns(RICMONK / "swing.toml"))
    endless = np.full(3, np.inf)
    position, velocity, effort = (log.channels[channel] for channel in ("position", "velocity", "effort"))
    samples = LogSamples(log.names, log.time, position, velocity, effort, -endless, endless, np.zeros(3, dtype=bool))
    assert [finding.text for finding in check_log(samples, log.mechanism) if finding.refuses] == []
