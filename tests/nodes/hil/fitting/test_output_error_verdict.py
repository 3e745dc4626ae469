"""Estimates by efforts and by output error: one per quantity, and contradictions."""

from __future__ import annotations

import pytest

from nodes.hil.fitting.output_error import reconcile
from nodes.hil.fitting.verdict import JointVerdict
from tests.nodes.hil.fitting.output_error_results import estimate, result, verdict


def test_an_estimate_by_output_error_replaces_that_by_efforts() -> None:
    given = verdict(("a/zero", 0.0, 0.03), ("b/zero", 0.0, 0.01))
    reconcile(given, result(estimate("a/zero", 0.02)))
    assert [each.name for each in given.errors] == ["b/zero"]
    assert given.outcome == "better"


def test_gains_of_measured_and_commanded_efforts_are_inverse_to_each_other() -> None:
    given = verdict(("a/gain", 0.10, 0.12))
    reconcile(given, result(estimate("a/gain", -0.1)))
    assert given.outcome == "better"
    assert not given.notes


@pytest.mark.parametrize("name", ["a/zero", "a/gain"])
def test_a_contradiction_is_said_and_nothing_is_certain(name: str) -> None:
    given = verdict((name, 0.150, 0.162))
    given.joints = [JointVerdict(name="a", how="fitted", cutoff_hz=5.0, change="better")]
    reconcile(given, result(estimate(name, 0.0)))
    assert given.outcome == "not certain"
    assert given.joints[0].change == "no certain change"
    assert f"contradiction: {name}" in given.notes[0]


def test_a_fit_that_is_not_better_replaces_nothing() -> None:
    given = verdict(("a/zero", 0.150, 0.162))
    reconcile(given, result(estimate("a/zero", 0.0), outcome="not better"))
    assert [each.name for each in given.errors] == ["a/zero"]
    assert given.outcome == "better"
