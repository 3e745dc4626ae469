"""Streams are aligned, resampled and compared by rules whose results are known; causes are found from exact efforts."""

from __future__ import annotations

import dataclasses
import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.hil.alignment.comparison import compare, dead_stretches
from nodes.hil.alignment.noise import white_noise
from nodes.hil.alignment.streams import Gap, Pairing, Pairs, Resampled, Stream, StreamError, gaps, segments, stream_of
from nodes.hil.identification.causes import Hint, ModelErrorHypotheses
from nodes.hil.identification.diagnosis import diagnose
from nodes.hil.identification.hypotheses import explain
from nodes.hil.identification.model import Efforts, NoModelError, model_of
from nodes.hil.identification.motion import Applied
from nodes.hil.report.limits import Limits
from sim_core.mechanism import GROUND, Body, Joint, Mechanism, Z


def wave(t: np.ndarray, late: float = 0.0) -> np.ndarray:
    """Two joints that move at three frequencies, rad."""
    t = t - late
    first = 0.6 * np.sin(2.1 * t) + 0.2 * np.sin(6.7 * t + 1.0)
    return np.stack([first, 0.4 * np.cos(3.3 * t) - 0.1 * np.sin(9.1 * t)], axis=1)


def stream(t: np.ndarray, position: np.ndarray) -> Stream:
    return Stream(t, ("a", "b"), position)


def test_a_gap_is_named_and_nothing_is_known_inside() -> None:
    t = np.r_[np.arange(0.0, 1.0, 0.01), np.arange(1.5, 2.0, 0.01)]
    assert gaps(t) == [Gap(pytest.approx(0.99), pytest.approx(1.5))]
    assert [part.stop - part.start for part in segments(t)] == [100, 50]
    at = np.array([-0.1, 0.5, 1.2, 1.7, 2.5])
    found = Resampled(t, wave(t))(at)
    assert np.isnan(found).all(axis=1).tolist() == [True, False, True, False, True]
    assert found[[1, 3]] == pytest.approx(wave(at)[[1, 3]], abs=1e-6)


def test_two_lost_samples_in_a_row_are_no_gap() -> None:
    t = np.delete(np.arange(0.0, 1.0, 0.01), [40, 41])
    assert gaps(t) == []


@settings(max_examples=25, deadline=None)
@given(st.floats(-0.15, 0.15), st.sampled_from([0.002, 0.01, 0.05]), st.sampled_from([0.002, 0.01, 0.05]))
def test_a_delay_is_found_to_a_fraction_of_a_sample(delay: float, period: float, other: float) -> None:
    t, s = np.arange(0.0, 8.0, period), np.arange(0.003, 8.0, other)
    found = compare(stream(t, wave(t, delay)), stream(s, wave(s)))
    for joint in found.joints:
        assert joint.delay_s == pytest.approx(delay, abs=0.01 * max(period, other) + 2e-4)


def test_a_negative_delay_is_a_measurement_that_is_early_whichever_stream_is_slower() -> None:
    fast, slow = np.arange(0.0, 5.0, 0.002), np.arange(0.0, 5.0, 0.02)
    for t, s in ((fast, slow), (slow, fast)):
        found = compare(stream(t, wave(t, -0.03)), stream(s, wave(s)))
        assert found.delay_s == pytest.approx(-0.03, abs=1e-4)
        assert max(joint.max for joint in found.joints) < 1e-3


def test_figures_are_those_of_their_definitions() -> None:
    t = np.arange(0.0, 10.0, 0.01)
    noise = np.random.default_rng(0).normal(0.0, 1e-3, (len(t), 2))
    found = compare(stream(t, wave(t) + noise + [0.01, 0.0]), stream(t, wave(t)))
    first = found.joints[0]
    assert found.delay_s == 0.0
    assert first.bias == pytest.approx(0.01, abs=1e-4)
    assert first.rms == pytest.approx(math.hypot(0.01, 1e-3), rel=0.02)
    assert first.max == pytest.approx(np.abs(noise[:, 0] + 0.01).max())
    assert first.relative == pytest.approx(first.rms / np.ptp(wave(t)[:, 0]))
    assert first.coherence is not None
    assert first.coherence > 0.99
    unrelated = compare(stream(t, np.cumsum(noise, axis=0)), stream(t, wave(t))).joints[0]
    assert unrelated.coherence is not None
    assert unrelated.coherence < 0.9


def test_a_joint_at_rest_has_neither_delay_nor_coherence_and_is_not_dead() -> None:
    t = np.arange(0.0, 2.0, 0.01)
    (joint, _) = compare(stream(t, 0.0 * wave(t)), stream(t, 0.0 * wave(t) + 1e-5)).joints
    assert (joint.delay_s, joint.coherence, joint.relative, joint.dead) == (None, None, None, [])


def test_a_coarse_encoder_of_a_slow_joint_is_not_dead() -> None:
    t = np.arange(0.0, 20.0, 0.01)
    slow = np.stack([0.002 * t, 0.01 * np.sin(0.3 * t)], axis=1)
    found = compare(stream(t, np.round(slow / 2e-3) * 2e-3), stream(t, slow))
    assert [joint.dead for joint in found.joints] == [[], []]


def test_one_late_joint_is_named_and_the_others_are_not() -> None:
    t = np.arange(0.0, 8.0, 0.002)
    position = np.stack([wave(t)[:, 0], wave(t, 0.02)[:, 1], wave(t)[:, 0]], axis=1)
    names = ("a", "b", "c")
    three = np.stack([wave(t)[:, 0], wave(t)[:, 1], wave(t)[:, 0]], axis=1)
    found = diagnose(
        compare(Stream(t, names, position), Stream(t, names, three)),
        ModelErrorHypotheses(),
        Limits(max_deg=90, rms_deg=9),
    )
    assert [(finding.kind, finding.of) for finding in found.findings] == [("delay", "b")]
    assert found.findings[0].value == pytest.approx(0.02, abs=1e-4)


def test_an_error_without_a_cause_is_called_that() -> None:
    t = np.arange(0.0, 8.0, 0.01)
    off = wave(t) + np.stack([0.0 * t, 0.05 * np.sin(17.0 * t)], axis=1)
    found = diagnose(compare(stream(t, off), stream(t, wave(t))), ModelErrorHypotheses(), Limits())
    assert not found.passed
    assert [(finding.kind, finding.of) for finding in found.findings] == [("position_error", "b")]


def test_streams_that_cannot_be_compared_are_refused() -> None:
    t = np.arange(0.0, 1.0, 0.01)
    with pytest.raises(StreamError, match=r"do not overlap in time: the measured one has stamps 5 \.\. 5\.99 s"):
        Pairing(stream(t + 5.0, wave(t)), stream(t, wave(t)))
    with pytest.raises(StreamError, match="no joint in common"):
        compare(Stream(t, ("x", "y"), wave(t)), stream(t, wave(t)))
    with pytest.raises(StreamError, match="has 1 samples"):
        stream_of({"timestamp": t[:1], "name": np.array([["a"]]), "position": np.zeros((1, 1))}, "it")


def test_what_came_before_time_fell_back_is_left_out_and_said() -> None:
    t = np.r_[np.arange(0.0, 1.0, 0.1), np.arange(0.0, 0.5, 0.1), 0.4]
    names = np.broadcast_to(np.array(["a", "b"]), (len(t), 2))
    found = stream_of({"timestamp": t, "name": names, "position": np.zeros((len(t), 2))}, "it")
    assert found.time.tolist() == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4])
    assert found.notes == (
        "it: simulation time was reset at 0.9 s; the 10 samples before the reset are left out",
        "it: 1 samples repeat the stamp of another sample and are left out",
    )


# -- causes


@cache
def arm() -> Efforts:
    return Efforts(model_of("arm_2dof", {}))


def moving(kind: str) -> Stream:
    """The arm on a smooth motion of 6 s, with the efforts of one that differs from the model by one cause."""
    t = np.arange(0.0, 6.0, 0.002)
    w = np.array([2.1, 3.4])
    q = 0.7 * np.sin(w * t[:, None]) + np.array([0.2, -0.3])
    v = 0.7 * w * np.cos(w * t[:, None])
    effort = arm().along(q, v, -0.7 * w * w * np.sin(w * t[:, None]))
    if kind == "gain":
        effort[:, 1] /= 1.08
    elif kind == "friction":
        effort[:, 0] += 0.4 * v[:, 0]
    elif kind == "dry_friction":
        effort[:, 1] += 0.3 * np.tanh(v[:, 1] / (0.02 * np.abs(v[:, 1]).max()))
    elif kind == "mass":
        effort += 0.05 * arm().per_mass("link_10", q, v, -0.7 * w * w * np.sin(w * t[:, None]))
    return Stream(t, arm().names, q, v, effort)


@pytest.mark.parametrize(
    ("kind", "value", "unit"), [("friction", 2.0, "N s/m"), ("dry_friction", 1.5, "N"), ("armature", 0.8, "kg")]
)
def test_causes_of_a_sliding_joint_are_in_newtons_and_kilograms(kind: str, value: float, unit: str) -> None:
    body = Body(name="block", mass=2.0, inertia=(0.1, 0.1, 0.1, 0.0, 0.0, 0.0))
    slide = Joint(name="slide", kind="prismatic", parent=GROUND, child="block", axis=Z)
    lift = Mechanism(
        name="lift", coordinates="joint", bodies=(body,), joints=(slide,), initial_q=(0.0,), initial_v=(0.0,)
    )
    efforts = Efforts(lift)
    t = np.arange(0.0, 6.0, 0.002)[:, None]
    q, v, a = (np.sin(3.0 * t), 3.0 * np.cos(3.0 * t), -9.0 * np.sin(3.0 * t))
    column = {"friction": v, "dry_friction": np.tanh(v / (0.02 * np.abs(v).max())), "armature": a}[kind]
    said = Stream(t[:, 0], efforts.names, q, v, efforts.along(q, v, a) + value * column)
    (cause,) = explain(efforts, said, Applied(hold_s=0.0)).hints.causes
    assert (cause.kind, cause.unit) == (kind, unit)
    assert cause.value == pytest.approx(value, rel=0.02)


@pytest.mark.parametrize(
    ("kind", "of", "value"),
    [
        ("gain", "joint_4", 0.08),
        ("friction", "joint_2", 0.4),
        ("dry_friction", "joint_4", 0.3),
        ("mass", "link_10", 0.05),
    ],
)
def test_each_cause_is_named_with_its_size(kind: str, of: str, value: float) -> None:
    found = explain(arm(), moving(kind), Applied(hold_s=0.0)).hints
    assert [(cause.kind, cause.of) for cause in found.causes] == [(kind, of)]
    assert found.causes[0].value == pytest.approx(value, rel=0.02)
    assert found.explained == pytest.approx(1.0, abs=0.02)


def test_no_cause_is_named_where_the_model_is_right() -> None:
    found = explain(arm(), moving("none"), Applied(hold_s=0.0)).hints
    assert found.causes == []
    assert found.residual is not None
    assert found.residual < 1e-3


def unevenly_stamped(kind: str, off_s: float) -> Stream:
    """The same motion, its stamps up to `off_s` early or late: 1.1 times a second, back and forth."""
    said = moving(kind)
    return dataclasses.replace(said, time=said.time + off_s * np.sin(math.tau * 1.1 * said.time))


def test_what_uneven_stamps_make_of_the_efforts_is_no_cause() -> None:
    said = unevenly_stamped("none", 0.02)
    assert explain(arm(), said, Applied(hold_s=0.0)).hints.causes  # what they look like where stamps are believed
    found = explain(arm(), said, Applied(hold_s=0.0), is_timed=True).hints
    assert found.causes == []
    assert found.residual is not None
    assert found.residual < 1e-3


@pytest.mark.parametrize("joints", [[0, 1], [1]])
def test_efforts_of_the_wrong_sign_fail_also_if_no_cause_explains_them(joints: list[int]) -> None:
    said = moving("none")
    assert said.effort is not None
    said.effort[:, joints] *= -1.0
    hints = explain(arm(), said, Applied(hold_s=0.0)).hints
    (finding,) = diagnose(compare(said, said), hints, Limits()).findings
    assert (finding.kind, finding.judged) == ("efforts", "beyond")
    assert finding.value == pytest.approx(2.0, rel=0.02)


@pytest.mark.parametrize("seed", range(5))
def test_white_noise_of_the_efforts_is_no_failure_of_the_robot(seed: int) -> None:
    said = moving("none")
    assert said.effort is not None
    said.effort[:] += np.random.default_rng(seed).normal(0.0, 5.0, said.effort.shape)
    hints = explain(arm(), said, Applied(hold_s=0.0)).hints
    assert hints.residual is not None
    assert hints.residual > 0.1
    assert (hints.following, hints.causes) == (0.0, [])
    assert diagnose(compare(said, said), hints, Limits()).findings == []


@pytest.mark.parametrize(("timing", "judged"), [(0.8, "not judged"), (0.01, "beyond")])
def test_efforts_that_the_time_of_the_stamps_may_explain_are_not_judged(timing: float, judged: str) -> None:
    t = np.arange(0.0, 8.0, 0.01)
    same = compare(stream(t, wave(t)), stream(t, wave(t)))
    cause = Hint(kind="mass", of="x", value=0.1, sigma=0.01, unit="relative", share=0.1, explains=0.2)
    hints = ModelErrorHypotheses(causes=[cause], following=0.1, unexplained=0.09, timing=timing)
    (finding,) = diagnose(same, hints, Limits()).findings
    assert (finding.kind, finding.judged) == ("efforts", judged)


@pytest.mark.parametrize(("off_s", "certain"), [(0.0, True), (0.0002, True), (0.03, False)])
def test_a_mass_is_certain_as_far_as_the_time_of_the_stamps_is(off_s: float, certain: bool) -> None:
    said = unevenly_stamped("mass", off_s)
    (cause,) = explain(arm(), said, Applied(hold_s=0.0), is_timed=True).hints.causes
    assert (cause.kind, cause.of, cause.certain) == ("mass", "link_10", certain)
    assert abs(cause.value - 0.05) < max(cause.sigma, 1e-3)
    same = compare(said, said)
    (finding,) = diagnose(
        same, ModelErrorHypotheses(causes=[cause], following=0.05, unexplained=0.01), Limits()
    ).findings
    assert (finding.failed, finding.certain) == (certain, certain)
    assert ("not certain: ± " in finding.text) != certain


@pytest.mark.parametrize("zero", [0.05, 0.5, -0.8])
def test_a_large_zero_of_an_encoder_is_no_mass(zero: float) -> None:
    said = moving("none")
    turned = dataclasses.replace(said, position=said.position + np.array([0.0, zero]))
    found = explain(arm(), turned, Applied(hold_s=0.0)).hints
    assert [(cause.kind, cause.of) for cause in found.causes] == [("encoder_zero", "joint_4")]
    assert found.causes[0].value == pytest.approx(zero, rel=1e-3)


def test_a_position_error_that_the_clock_may_explain_says_so() -> None:
    t = np.arange(0.0, 8.0, 0.01)
    off = wave(t) + np.stack([0.0 * t, 0.05 * np.sin(17.0 * t)], axis=1)
    compared = compare(stream(t, off), stream(t, wave(t)))
    (found,) = diagnose(compared, ModelErrorHypotheses(), Limits(), clock_sigma_s=0.02).findings
    assert (found.failed, found.certain) == (False, False)
    assert found.text.endswith("; the uncertainty of its clock, 20 ms, may explain it")
    (found,) = diagnose(compared, ModelErrorHypotheses(), Limits(), clock_sigma_s=0.001).findings
    assert (found.failed, found.certain) == (True, True)
    assert found.text.endswith("; no single cause explains it")


def test_positions_that_a_delay_explains_are_as_uncertain_as_the_delay() -> None:
    t = np.arange(0.0, 8.0, 0.01)
    irregular = np.full(len(t), 3e-3)  # no instant is regular, and pauses make a delay of 12 ms uncertain
    irregular[:40] = 0.3
    late = stream(t, wave(t - 0.012))
    compared = compare(late, stream(t, wave(t)), irregular_s=lambda time: np.interp(time, t, irregular))
    assert compared.delay_s == 0.0
    assert compared.pairs_if_delayed is not None
    pairs = np.interp(compared.pairs.time, t, irregular)
    limits = Limits(rms_deg=0.01, max_deg=0.05)
    found = diagnose(compared, ModelErrorHypotheses(), limits, irregular_s=(0.0 * pairs, pairs))
    assert found.exceeded
    assert not found.is_certain
    alone = dataclasses.replace(compared, pairs_if_delayed=None)
    assert diagnose(alone, ModelErrorHypotheses(), limits, irregular_s=(0.0 * pairs, pairs)).is_certain


def test_a_model_without_efforts_of_its_own_says_why() -> None:
    with pytest.raises(
        NoModelError, match=r"'charmie' has closed loops, .* armswing hil fit RECORDING --params inertia,fr"
    ):
        model_of("charmie", {"loops": "closed"})
    with pytest.raises(NoModelError, match="armm_2dof"):
        model_of("armm_2dof", {})
    quiet = moving("none")
    silent = Stream(quiet.time, quiet.names, quiet.position, quiet.velocity)
    assert explain(arm(), silent).hints.why_not == (
        "the measurement has no efforts to compare with the model's; record a topic with efforts"
    )


def test_a_coarse_measurement_that_pauses_is_not_dead() -> None:
    t = np.concatenate([np.arange(0.0, 1.0, 0.05), np.arange(1.3, 2.0, 0.05)])  # 20 Hz, 0.3 s of it missing
    moved = np.where(t < 0.9, 0.0, 0.1 * (t - 0.9))
    coarse = 1e-3 * np.floor(moved / 1e-3)
    late = np.interp(t - 0.07, t, coarse)
    pairs = Pairs(t, late[:, None], moved[:, None])
    assert dead_stretches(pairs, 0) == []
    stuck = np.where(t < 1.3, late, 0.02)
    (stretch,) = dead_stretches(Pairs(t, stuck[:, None], moved[:, None]), 0)
    assert (stretch.start_s, stretch.end_s) == pytest.approx((1.3, 1.95))


def test_what_settles_first_is_left_out() -> None:
    stream = Stream(np.arange(5.0), ("a",), np.arange(5.0)[:, None])
    assert stream.since(0.0) is stream
    later = stream.since(2.5)
    assert later.time.tolist() == [3.0, 4.0]
    assert later.position[:, 0].tolist() == [3.0, 4.0]
    assert later.notes == ("the first 2.5 s are left out (settle_s)",)
    with pytest.raises(StreamError, match="nothing is left after settle_s = 4 s"):
        stream.since(4.0)


def test_a_joint_that_hardly_moves_has_no_delay() -> None:
    t = np.arange(0.0, 6.0, 5e-3)
    measured, predicted = (wave(t, late) * [1.0, 1e-3] for late in (0.012, 0.0))
    first, second = compare(stream(t, measured), stream(t, predicted)).joints
    assert first.delay_s == pytest.approx(0.012, abs=1e-4)
    assert second.delay_s is None


def test_a_zero_of_an_encoder_that_the_efforts_show_is_a_finding() -> None:
    t = np.arange(0.0, 8.0, 0.01)
    same = compare(stream(t, wave(t)), stream(t, wave(t)))
    zero = Hint(kind="encoder_zero", of="a", value=0.002, sigma=1e-4, unit="rad", share=0.1, explains=0.9)
    hints = ModelErrorHypotheses(causes=[zero], following=0.05, unexplained=0.01)
    (finding,) = diagnose(same, hints, Limits()).findings
    assert (finding.kind, finding.of, finding.judged) == ("encoder_zero", "a", "within")
    assert finding.text == "zero of the encoder of a is 0.115 deg off, by the efforts"


@pytest.mark.parametrize("sigma", [1e-4, 0.1])
def test_white_noise_is_measured_on_a_smooth_motion_and_a_vibration_is_none(sigma: float) -> None:
    t = np.arange(0.0, 10.0, 0.005)
    noise = np.random.default_rng(0).normal(0.0, sigma, len(t))
    assert white_noise(np.sin(3.0 * t) + noise) == pytest.approx(sigma, rel=0.1)
    assert white_noise(sigma * np.sin(math.tau * 30.0 * t)) < 0.4 * sigma


def test_errors_that_a_motion_does_not_show_have_no_least_size() -> None:
    moved = moving("none")
    still, rest = np.full_like(moved.position, 0.5), np.zeros_like(moved.position)
    effort = arm().along(still, rest, rest)
    held = dataclasses.replace(moved, position=still, velocity=rest, effort=effort)
    shown = {(each.kind, each.of): each.size for each in explain(arm(), moved, Applied(hold_s=0.0)).hints.least}
    hidden = {(each.kind, each.of): each.size for each in explain(arm(), held, Applied(hold_s=0.0)).hints.least}
    assert shown.keys() == hidden.keys()
    assert all(size is not None for (kind, _), size in shown.items() if kind == "friction")
    assert all(size is None for (kind, _), size in hidden.items() if kind == "friction")
