"""A system under every stabilizer with one call."""

from __future__ import annotations

import dataclasses
import io
import math

import pytest
import rich

from robots.registry import build
from sim_core.analysis.comparison import (
    AT_REST,
    Comparison,
    compare,
    every_stabilizer,
    first_violation,
    label_of,
    limit_text,
    table,
)
from sim_core.errors import InvalidRequest
from sim_core.simulation import Simulation
from sim_core.stabilization.registry import STABILIZERS, stabilizer_named
from sim_core.stabilization.stabilizers import Baumgarte, DirectCorrection, SampledFuzzy
from sim_core.system import System, assemble


@pytest.fixture(scope="module")
def pendulum() -> System:
    return assemble(build("triple_pendulum"))


def timeless(rows: list[Comparison]) -> list[Comparison]:
    return [dataclasses.replace(row, seconds_per_step=0.0) for row in rows]


def test_every_kind_of_stabilizer_is_in_one_call_and_two_calls_agree(pendulum: System) -> None:
    chosen = every_stabilizer(pendulum, 1e-3)
    assert {stabilizer.name for stabilizer in chosen.values()} == set(STABILIZERS)
    rows = compare(pendulum, 1.0, 1e-3)
    assert [row.stabilizer for row in rows] == [*chosen, "man_case_2"]
    assert repr(timeless(rows)) == repr(timeless(compare(pendulum, 1.0, 1e-3)))
    assert all(row.seconds_per_step > 0.0 for row in rows if row.stabilizer in chosen)


def test_a_method_that_is_not_for_this_start_has_a_row_that_says_so(pendulum: System) -> None:
    (row,) = [row for row in compare(pendulum, 0.1, 1e-2) if row.stabilizer == "man_case_2"]
    assert (row.reason, row.evaluations, row.diverged_at) == (AT_REST, 0, None)
    assert all(math.isnan(figure) for figure in (row.peak_phi, row.energy_drift, row.stability_limit))
    stream = io.StringIO()
    rich.print(table([row]), file=stream)
    (line,) = [line for line in stream.getvalue().splitlines() if line.startswith("man_case_2  ")]
    assert line.split() == ["man_case_2", "-", "-", "-", "-", "-", "-"]


def test_a_row_holds_what_a_simulation_of_its_own_gives(pendulum: System) -> None:
    (row,) = compare(pendulum, 2.0, 2e-3, ["sampled_fuzzy"])
    sim = Simulation(pendulum, step_s=2e-3)
    start, drift = sim.energy(), 0.0
    for _ in range(200):
        sim.advance(0.01)
        drift = max(drift, abs(sim.energy() - start))
    assert (row.peak_phi, row.peak_phidot) == sim.peak_violation()
    assert row.energy_drift == drift
    assert row.evaluations == sim.evaluations == 4 * 1000
    assert row.diverged_at is None


def test_choices_are_tables_too_and_what_is_none_is_refused(pendulum: System) -> None:
    table, made = (
        compare(pendulum, 0.1, 1e-3, [{"name": "baumgarte", "alpha": 3.0, "beta": 4.0}]),
        compare(pendulum, 0.1, 1e-3, {"own": Baumgarte(3.0, 4.0)}),
    )
    assert table[0].peak_phi == made[0].peak_phi
    assert "alpha=3.0" in table[0].stabilizer
    with pytest.raises(InvalidRequest, match="has no name"):
        compare(pendulum, 0.1, 1e-3, [{"alpha": 3.0}])
    with pytest.raises(InvalidRequest, match="it must be a sequence of stabilizers"):
        compare(pendulum, 0.1, 1e-3, "none")


def test_a_divergence_is_a_row_with_its_time(pendulum: System) -> None:
    rows = compare(pendulum, 20.0, 1e-2, {"stiff": Baumgarte(500.0, 1000.0), "none": "none", "held": SampledFuzzy()})
    stiff, none, held = rows
    assert [row.stabilizer for row in rows] == ["stiff", "none", "held"]
    assert stiff.diverged_at is not None
    assert stiff.diverged_at < 1.0
    assert stiff.stability_limit < 1e-2
    # unstabilized it drifts apart: no state is infinite, but a joint is open by half a bar
    assert none.diverged_at is not None
    assert none.diverged_at > 1.0
    assert none.peak_phi > 0.15
    assert held.diverged_at is None


def test_mans_second_case_is_there_for_starts_in_motion(pendulum: System) -> None:
    assert "man_case_2" not in every_stabilizer(pendulum, 1e-2)
    system = assemble(build("crank_slider", start="printed"))
    phi, phidot, speed = first_violation(system, 1e-2)
    assert phidot == pytest.approx(0.2094, rel=1e-2)
    assert speed == pytest.approx(1.0472, rel=1e-4)
    made = every_stabilizer(system, 1e-2)["man_case_2"]
    assert made.gains(1e-2, Simulation(system).stepper, 1.0)[:3] == pytest.approx(
        [1 / phi, 1 / phidot, 2 * speed / phi]
    )


def test_the_table_shows_every_row(pendulum: System) -> None:
    rows = compare(pendulum, 0.5, 1e-2, ["none", Baumgarte(500.0, 1000.0), DirectCorrection("mass", inside_rhs=True)])
    stream = io.StringIO()
    rich.print(table(rows, "pendulum"), file=stream)
    printed = stream.getvalue()
    assert "pendulum" in printed
    for row in rows:
        assert row.stabilizer.split("(")[0] in printed


def test_the_table_fits_a_terminal_and_says_what_its_words_mean() -> None:
    system = assemble(build("crank_slider", start="printed"))
    rows = {row.stabilizer: row for row in compare(system, 0.1, 1e-2, stepper="dopri5")}
    first = rows["man_case_2"]
    assert (first.diverged_at, first.reason) == (pytest.approx(1e-2), "violation")
    stream = io.StringIO()
    rich.print(table(list(rows.values())), file=stream)
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in stream.getvalue()
    (lost,) = [line for line in lines if line.startswith("man_case_2")]
    assert lost.split()[-6:] == ["-", "-", "-", "-", limit_text(first.stability_limit), "0.01"]
    (inside,) = [line for line in lines if "inside rhs " in line and "e-" in line]
    assert inside.split()[-1] == "none"
    assert "none: no step is (inside rhs:" in " ".join(stream.getvalue().split())


def test_a_loss_has_the_time_of_its_step(pendulum: System) -> None:
    law = Baumgarte(1200.0, 50.0)
    (row,) = compare(pendulum, 1.0, 1.25e-3, {"wild": law})
    sim = Simulation(pendulum, step_s=1.25e-3, stabilizer=law)
    while sim.peak_violation()[0] <= pendulum.mechanism.characteristic_length:
        sim.step()
    assert row.diverged_at == sim.time
    assert row.reason == "violation"
    assert row.peak_phi == sim.peak_violation()[0]


def test_labels_say_what_differs_from_the_defaults() -> None:
    assert label_of("projection") == "projection"
    assert label_of(stabilizer_named("nada_set_1")) == "nada_set_1"
    assert label_of(stabilizer_named("nada_set_1", permitted=[0.5, 0.5])).startswith(
        "nada_set_1(Kp=2.0, Kd=2.0, Ku=200.0"
    )
    assert label_of(stabilizer_named("man_case_2", phi=1.0, phidot=1.0, speed=1.0)).startswith("man_case_2(Kp=1.0,")
    assert label_of(DirectCorrection()) == "direct_correction"
    assert label_of(DirectCorrection("mass", inside_rhs=True)) == "direct_correction(weight='mass', inside_rhs=True)"


@pytest.mark.parametrize(("seconds", "step"), [(1.0, 0.3), (1.0, 0.0), (0.0, 1e-3), (float("nan"), 1e-3)])
def test_what_is_no_whole_number_of_steps_is_refused(pendulum: System, seconds: float, step: float) -> None:
    with pytest.raises(InvalidRequest, match="it must be a whole number of time steps"):
        compare(pendulum, seconds, step)
