"""Outcome of a fit: no joint hides another one, and a prediction that is worse than the mean is never better."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from sim_core.identification.design import HELD_OUT, Rows
from sim_core.identification.result import BETTER, BLOCKS, NO_CHANGE, WORSE, opposed_joints, outcome_of
from sim_core.identification.selection import mistaken_size

NAMES = ("shoulder", "elbow", "wrist")


def judged(
    before: tuple[float, ...], after: tuple[float, ...], uneven: tuple[float, ...] = (0.0, 0.0, 0.0)
) -> tuple[str, str, dict[int, str]]:
    """The outcome for joints whose errors have these sizes, in standard deviations of their efforts.

    uneven  share by which the errors after are larger in every other block than in the rest
    """
    random, n, k = np.random.default_rng(0), 800, len(before)
    motion, error = random.normal(size=(2, n, k))
    raw = np.stack([motion, error, error * (np.arange(n) * BLOCKS // n % 2)[:, None]], axis=2)
    rows = cast(Rows, SimpleNamespace(block=np.full(n, HELD_OUT), y=motion, raw=raw))
    z = {
        name: np.stack([np.ones(k), np.array(sizes), np.array(sizes) * more], axis=1)
        for name, sizes, more in (("before", before, 0.0), ("after", after, np.array(uneven[:k])))
    }
    return outcome_of(rows, z, list(range(k)), cast(Any, SimpleNamespace(beta=np.ones(1))), NAMES)


@pytest.mark.parametrize(
    ("before", "after", "outcome", "text"),
    [
        ((0.5, 0.6, 0.4), (0.2, 0.3, 0.4), "better", ""),
        ((0.5, 0.6, 0.4), (0.5, 0.6, 0.4), "not better", ""),
        ((0.2, 1000.0, 0.5), (1.2, 70.0, 1.4), "not better", "shoulder is predicted worse than before, 1.2"),
        ((0.2, 1000.0, 0.5), (0.2, 70.0, 0.5), "not better", "elbow is predicted worse than by its mean, 7"),
        ((0.2, 0.9, 0.5), (0.3, 0.1, 0.5), "not better", "shoulder is predicted worse than before"),
        ((0.2, 200.0, 0.5), (0.2, 0.3, 0.5), "better", "a joint counts at most 1"),
    ],
)
def test_no_joint_hides_another_one(
    before: tuple[float, ...], after: tuple[float, ...], outcome: str, text: str
) -> None:
    found, reason, changes = judged(before, after)
    assert found == outcome
    assert text in reason
    assert (WORSE in changes.values()) == ("worse than before" in text)


def test_a_gain_that_may_be_chance_is_not_certain_and_then_no_joint_is_called_better() -> None:
    assert judged((0.5, 0.2), (0.3, 0.1))[0::2] == ("better", {0: BETTER, 1: BETTER})
    assert judged((0.5, 0.2), (0.3, 0.1), (0.4, 0.0))[0::2] == ("better", {0: BETTER, 1: BETTER})
    assert judged((0.5, 0.2), (0.3, 0.1), (1.0, 0.0))[0::2] == ("not certain", {0: NO_CHANGE, 1: NO_CHANGE})
    assert judged((0.5, 0.2), (0.3, 0.1), (2.0, 0.0))[0] == "not better"


@pytest.mark.parametrize(
    ("factor", "is_opposed"), [(-0.08, True), (-0.2, True), (-1.0, False), (0.0, False), (0.05, False), (1.0, False)]
)
def test_a_small_part_of_the_models_efforts_with_opposite_sign_is_no_unit_and_no_reversed_sensor(
    factor: float, is_opposed: bool
) -> None:
    random, n = np.random.default_rng(0), 800
    raw = random.normal(size=(n, 1, 1))
    y = factor * raw[:, :, 0] + 0.05 * random.normal(size=(n, 1))
    rows = cast(Rows, SimpleNamespace(block=np.full(n, HELD_OUT), y=y, raw=raw))
    assert opposed_joints(rows, np.ones((1, 1)), [0]) == ([0] if is_opposed else [])


@pytest.mark.parametrize(
    ("factor", "is_mistaken"),
    [(0.001, True), (0.11, True), (0.7, False), (1.4, False), (5.0, False), (9.8, True), (-1000.0, True)],
)
def test_efforts_of_another_unit_are_told_from_a_model_that_is_only_wrong(factor: float, is_mistaken: bool) -> None:
    time = np.arange(0.0, 20.0, 0.02)
    q, v, a = np.sin(time), np.cos(time), -np.sin(time)
    model = 3.0 * np.sin(q + 0.5) + 0.2 * a
    friction = np.stack([v, np.tanh(v / 0.05), a], axis=1)
    noise = 0.05 * np.random.default_rng(0).normal(size=len(time))
    effort = factor * (model + friction @ [0.1, 0.2, 0.1] + noise)
    assert (mistaken_size(model, friction, effort, largest=model.std()) is not None) == is_mistaken


def test_a_rotor_and_the_gravity_about_a_nearly_vertical_axis_are_no_mistaken_unit() -> None:
    time = np.arange(0.0, 20.0, 0.02)
    q, v, a = np.sin(time), np.cos(time), -np.sin(time)
    rest = np.stack([v, np.tanh(v / 0.05), a], axis=1)
    light = 0.01 * a + 0.02 * np.sin(q + 0.5)
    noise = 0.02 * np.random.default_rng(0).normal(size=len(time))
    geared = light + 0.5 * a + 0.3 * v + noise
    assert mistaken_size(light, rest, geared, largest=light.std()) is None
    assert mistaken_size(light, rest, 50.0 * light + noise, largest=1000.0 * light.std()) is None
