"""Stabilizers and steppers by name, from plain values as launch files hold them; starts that contradict constraints."""

from __future__ import annotations

import math
import warnings
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from nodes.research.studies.framework.scalings import man, nada
from robots.registry import build
from sim_core.analysis.comparison import compare
from sim_core.derivation.start import violated_at_start
from sim_core.errors import InvalidRequest, StartWarning
from sim_core.integrators.steppers import ADJUSTABLE, STEPPERS, dopri5_adaptive, stepper_named
from sim_core.simulation import Simulation
from sim_core.stabilization import registry
from sim_core.stabilization.membership import FuzzySets
from sim_core.stabilization.registry import STABILIZERS, stabilizer_named, stabilizers_by_name
from sim_core.stabilization.stabilizers import PID, Baumgarte, FuzzyPaper, SampledFuzzy, instability
from sim_core.system import System, assemble

GIVEN = {"man_case_2": {"phi": 1e-3, "phidot": 1e-2, "speed": 1.0}}


@pytest.fixture(scope="module")
def pendulum() -> System:
    return assemble(build("triple_pendulum"))


def test_a_warning_calls_a_stabilizer_as_the_user_did() -> None:
    stepper = stepper_named("rk4")
    for name in ("nada_set_1", "man_case_1", "fuzzy_paper"):
        made = stabilizer_named(name)
        assert made.called == name
        assert instability(made, stepper, 1.0).startswith(f"stabilizer {name!r} is stable under 'rk4' up to a step of ")
    assert stabilizer_named("nada_set_3") == nada("III")  # the name is no part of what it is
    assert nada("III").called == "fuzzy_paper"


@pytest.mark.parametrize("name", sorted(set(stabilizers_by_name()) - set(STABILIZERS)))
def test_the_papers_controllers_have_names(name: str, pendulum: System) -> None:
    paper, _, which = name.partition("_")
    number = int(which[-1])
    expected = nada(("I", "II", "III")[number - 1]) if paper == "nada" else man(number, **GIVEN.get(name, {}))  # type: ignore[arg-type]
    made = stabilizer_named(name, **GIVEN.get(name, {}))
    assert made == expected
    if name not in GIVEN:
        (row,) = compare(pendulum, 0.1, 1e-3, stabilizers=[name])
        (same,) = compare(pendulum, 0.1, 1e-3, stabilizers={name: expected})
        assert (row.stabilizer, row.peak_phi) == (name, same.peak_phi)


def test_an_installed_package_registers_a_stabilizer(monkeypatch: pytest.MonkeyPatch, pendulum: System) -> None:
    group = "armswing.stabilizers"
    points = [
        EntryPoint("firm", "sim_core.stabilization.stabilizers:Baumgarte", group),
        EntryPoint("absent", "no_such_package:absent", group),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    registry._registered.cache_clear()
    try:
        assert stabilizer_named("firm", alpha=3, beta=3) == Baumgarte(3.0, 3.0)
        with pytest.raises(InvalidRequest, match=r"stabilizer 'absent'.*no_such_package:absent.*No module named"):
            Simulation(pendulum, stabilizer="absent")
    finally:
        registry._registered.cache_clear()


def test_a_controller_of_a_paper_is_told_what_it_lacks() -> None:
    with pytest.raises(InvalidRequest, match="stabilizer 'man_case_2': phi, phidot, speed must be given"):
        stabilizer_named("man_case_2")


def test_plain_values_become_what_a_stabilizer_wants() -> None:
    assert stabilizer_named("baumgarte", alpha=5, beta=12) == Baumgarte(5.0, 12.0)
    sets = {"kind": "trapezoid", "width": 0.3}
    assert stabilizer_named("sampled_fuzzy", sets=sets) == SampledFuzzy(sets=FuzzySets("trapezoid", width=0.3))
    assert stabilizer_named("nada_set_3", permitted=[1e-6, 1e-4]) == nada("III", permitted=(1e-6, 1e-4))
    assert stepper_named("dopri5_adaptive", rtol=1e-8, atol=1e-10) == dopri5_adaptive(1e-8, 1e-10)
    assert set(ADJUSTABLE) <= set(STEPPERS)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (("baumgarte", {"alpha": "5"}), "stabilizer 'baumgarte': alpha is '5'; it must be a number"),
        (("baumgarte", {"alpha": math.nan}), "alpha is nan; it must be a finite number"),
        (("baumgarte", {"alpha": True}), "alpha is true; it must be a number"),
        (("baumgarte", {"alpha": -5.0}), "baumgarte: alpha is -5.0; it must be finite and zero or positive"),
        (("baumgarte", {"gamma": 5.0}), "stabilizer 'baumgarte' has no parameter 'gamma'; its .* are alpha, beta"),
        (("pid", {"Kp": -1.0}), "pid: Kp is -1.0; it must be finite and zero or positive"),
        (("pid", {"Kd": 1.0}), "Kp is not given"),
        (("fuzzy_paper", {"Ku": 0.0}), "fuzzy_paper: Ku is 0.0; it must be finite and positive"),
        (("fuzzy_paper", {"sets": "III"}), "sets is 'III'; it must be a table of kind, conjunction, width"),
        (("fuzzy_paper", {"sets": {"kind": "square"}}), "sets: kind is 'square'; choose one of gaussian, trapezoid"),
        (("sampled_fuzzy", {"pole": 1.5}), r"sampled_fuzzy: pole is 1.5; it must lie in \[0, 1\)"),
        (("sampled_fuzzy", {"saturation": -1.0}), "sampled_fuzzy: saturation is -1.0; it must be finite and positive"),
        (("direct_correction", {"inside_rhs": 1}), "inside_rhs is 1; it must be true or false"),
        (("nada_set_1", {"permitted": 1e-6}), "permitted is 1e-06; it must be a list of 2 numbers"),
        (("dopri5_adaptive", {"rtol": 0.0}), "dopri5_adaptive: rtol is 0.0; it must be finite and positive"),
        (("implicit_midpoint", {"tolerance": 0.0}), "implicit_midpoint: tolerance is 0.0; it must be finite"),
        (("generalized_alpha", {"rho": 1.5}), r"generalized_alpha: rho is 1.5; it must lie in \[0, 1\]"),
        (("rk4", {"rtol": 1e-3}), "stepper 'rk4' has no parameter 'rtol'"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(asked: tuple[str, dict[str, Any]], says: str) -> None:
    name, values = asked
    with pytest.raises(InvalidRequest, match=says) as refused:
        (stepper_named if name in STEPPERS else stabilizer_named)(name, **values)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("make", [Baumgarte, PID])
@pytest.mark.parametrize("gain", [-1.0, math.nan, math.inf])
def test_gains_are_finite_and_not_negative(make: Any, gain: float) -> None:
    with pytest.raises(InvalidRequest, match="it must be finite and zero or positive"):
        make(gain)
    with pytest.raises(InvalidRequest, match="it must be finite and positive"):
        FuzzyPaper(Kp=gain)


def test_one_gain_alone_is_damped_critically() -> None:
    rk4 = stepper_named("rk4")
    assert PID(Kp=100.0).gains(1e-3, rk4, 1.0).tolist() == [100.0, 0.0, 20.0]
    assert Baumgarte(alpha=5.0).gains(1e-3, rk4, 1.0).tolist() == [5.0, 5.0]
    assert Baumgarte(beta=7.0).gains(1e-3, rk4, 1.0).tolist() == [7.0, 7.0]


# -- starts -----------------------------------------------------------------------------------------------------------


def test_a_start_that_contradicts_its_constraints_is_named_once(pendulum: System) -> None:
    system = assemble(build("crank_slider", start="printed"))
    says = "the start of 'crank_slider' violates 'crank_pin' by 0.209 m/s"
    with pytest.warns(StartWarning, match=says) as warned:
        Simulation(system).step(3)
    assert len(warned) == 1
    with pytest.warns(StartWarning, match=says) as warned:
        rows = compare(system, 0.01, 1e-3)
    assert len(warned) == 1
    assert len(rows) > 10
    assert violated_at_start(system.mechanism) == "'crank_pin' by 0.209 m/s"
    sim = Simulation(pendulum)
    q = sim.state.q
    q[1] += 0.02
    with pytest.warns(StartWarning, match="violates 'joint_[12]' by 0.02 m, 'joint_[12]' by 0.02 m;"):
        sim.reset(q=q)


def test_a_start_that_is_merely_rounded_is_none_to_speak_of(pendulum: System) -> None:
    sim = Simulation(pendulum)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sim.reset(q=sim.state.q + 1e-11, v=sim.state.v + 1e-11)
    assert violated_at_start(pendulum.mechanism) == ""
