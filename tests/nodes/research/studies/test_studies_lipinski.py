"""The study of the double pendulum on its beam: what can be said of figures without numbers."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from nodes.research.studies.framework.claims import Verdict
from nodes.research.studies.framework.executors import in_this_process, run_all, warm
from nodes.research.studies.framework.study import Results
from nodes.research.studies.lipinski import lipinski_study as lipinski
from nodes.research.studies.lipinski.lipinski_runs import SPANS, Runs
from nodes.research.studies.lipinski.shapes import deep_claim, deflected, model_of, steep_claim, turning_points, turns

RUNS = Runs(SPANS["full"])


def quiet(*_: object) -> None:
    """No progress."""


@pytest.fixture(scope="module")
def results() -> Results:
    supported = tuple(RUNS.supported.values())
    warm(supported, in_this_process, quiet)
    return Results(run_all(supported, in_this_process, quiet))


def test_turning_points_are_the_extremes_between_the_ends() -> None:
    t = np.linspace(0.0, 2.0, 401)
    found = turning_points(t, np.sin(2.0 * np.pi * t))
    assert [(round(time, 6), largest) for time, _, largest in found] == [
        (0.25, True),
        (0.75, False),
        (1.25, True),
        (1.75, False),
    ]
    assert turning_points(t, t**2) == []


def test_the_deflection_of_a_run_is_that_of_its_output_and_its_slope_the_derivative(results: Results) -> None:
    run = RUNS.supported["clamped"]
    w, slope = deflected(results[run], run)
    nodes = w.shape[1]
    np.testing.assert_allclose(w[:, nodes // 2], results[run].watched["outputs"][:, 0], atol=1e-9)
    x = np.linspace(0.0, model_of(run).beam.length, nodes)
    assert np.abs(np.gradient(w[0], x) - slope[0])[1:-1].max() < 0.01


def test_both_kinds_of_supports_sag_and_only_clamped_ends_keep_to_small_slopes(results: Results) -> None:
    deep, steep = deep_claim(RUNS).findings(results), steep_claim(RUNS).findings(results)
    assert [(finding.reading, finding.verdict) for finding in deep] == [
        ("clamped", Verdict.REPRODUCED),
        ("simple supports", Verdict.REPRODUCED),
    ]
    assert [(finding.reading, finding.verdict) for finding in steep] == [
        ("clamped", Verdict.HOLDS),
        ("simple supports", Verdict.FAILS),
    ]
    flat = SimpleNamespace(t=np.zeros(1), watched={"outputs": np.full((1, 3), 0.01)})
    stiff = dict.fromkeys(RUNS.supported.values(), flat)
    assert {finding.verdict for finding in deep_claim(RUNS).findings(stiff)} == {Verdict.NOT_REPRODUCED}


def test_the_middle_of_the_beam_turns_as_in_the_run_with_all_modes(results: Results) -> None:
    rows = [row for row in turns(RUNS).rows(results) if row["supports"] == "clamped"]
    assert rows[0]["mid-span, down (m)"] == pytest.approx(0.4738284, abs=1e-4)  # case A at rest
    assert [row["mid-span turns"] for row in rows[1:5]] == ["highest", "lowest", "highest", "lowest"]
    assert [row["time (s)"] for row in rows[1:5]] == pytest.approx([0.285, 0.435, 0.515, 0.71], abs=0.011)


def test_every_run_of_the_shapes_is_a_run_of_the_study() -> None:
    assert set(RUNS.supported.values()) <= set(lipinski.study().runs)
