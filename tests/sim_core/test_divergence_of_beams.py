"""A beam's modes may be too fast for an explicit stepper: warning and error say so, with the step that would do."""

from __future__ import annotations

import math
import re
import warnings

import pytest

import robots
from sim_core import Simulation, assemble
from sim_core.analysis.comparison import compare
from sim_core.errors import SimulationDiverged, StabilityWarning
from sim_core.integrators.steppers import stepper_named
from sim_core.monitoring.divergence import too_fast


def test_a_run_that_its_fastest_mode_ends_says_the_step_that_would_do() -> None:
    system = assemble(robots.build("lipinski_pendulum"))
    with pytest.warns(StabilityWarning), pytest.raises(SimulationDiverged) as caught:
        Simulation(system, stepper="rk4", step_s=1e-3).advance(0.1)
    said = re.search(
        r"the fastest mode of beam 'beam', 3718 rad/s, needs steps below (\S+) ms with rk4", str(caught.value)
    )
    assert said
    limit = float(said[1]) * 1e-3
    assert limit == pytest.approx(2.83 / 3718, rel=2e-3)  # where rk4 leaves the imaginary axis
    for step, growing in ((0.99 * limit, False), (1.02 * limit, True)):
        assert bool(too_fast(system.mechanism.beams, stepper_named("rk4"), step)) is growing


def test_a_step_too_long_for_the_fastest_mode_is_said_before_it_is_taken() -> None:
    system = assemble(robots.build("lipinski_pendulum"))
    with pytest.warns(StabilityWarning, match=r"fastest mode .* below 0\.761 ms with rk4.* step_s is 1 ms"):
        Simulation(system, stepper="rk4", step_s=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Simulation(system, stepper="rk4", step_s=5e-4)
        Simulation(system, stepper="implicit_midpoint", step_s=1e-3)
        Simulation(assemble(robots.build("gibbon", tension=2e4)), stepper="rk4", step_s=1e-3)


def test_a_comparison_names_the_limit_of_the_fastest_mode_where_runs_are_lost() -> None:
    system = assemble(robots.build("lipinski_pendulum"))
    with pytest.warns(StabilityWarning, match="fastest mode"):
        (fast,) = compare(system, 0.1, 1e-3, ["none"])
    assert fast.diverged_at is not None
    assert fast.stability_limit == pytest.approx(2.83 / 3718, rel=2e-3)
    (slow,) = compare(system, 0.01, 1e-3, ["none"], stepper="implicit_midpoint")
    assert slow.diverged_at is None
    assert slow.stability_limit == math.inf


@pytest.mark.parametrize("name", ["implicit_midpoint", "generalized_alpha"])
def test_implicit_steppers_are_not_too_slow_for_any_mode(name: str) -> None:
    assert too_fast(robots.build("lipinski_pendulum").beams, stepper_named(name), 1.0) == ""


def test_without_beams_there_is_nothing_to_say() -> None:
    assert too_fast((), stepper_named("rk4"), 1.0) == ""
