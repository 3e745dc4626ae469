"""Robots by name, and one clear line for what cannot be built."""

from __future__ import annotations

import dataclasses
import inspect
import warnings
from typing import Any

import numpy as np
import pytest

from robots import registry
from sim_core.errors import DescriptionWarning, InvalidRequest, UnknownName
from sim_core.mechanism import Mechanism
from sim_core.mechanism.quantities import value_of
from sim_core.simulation import Simulation
from sim_core.system import assemble


@pytest.mark.parametrize("name", registry.names())
def test_every_robot_tells_what_it_is_and_starts_where_its_constraints_hold(name: str) -> None:
    mechanism = registry.build(name)
    assert mechanism.name == name
    assert inspect.getdoc(registry.builder(name))
    assert all(body.shapes for body in mechanism.bodies if value_of(body.mass) > 0.0)
    assert mechanism.parameters
    phi, phidot = Simulation(assemble(mechanism)).violation()
    assert phi <= 1e-12
    assert phidot <= 1e-12


def test_the_printed_start_of_the_crank_slider_is_inconsistent_as_the_errata_say() -> None:
    sim = Simulation(assemble(registry.build("crank_slider", start="printed")))
    assert sim.violation()[1] == pytest.approx(0.2094, abs=1e-4)


def test_unknown_names_and_parameters_are_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownName, match=r"no robot 'tripel_pendulum'; its robots are .*triple_pendulum"):
        registry.build("tripel_pendulum")
    with pytest.raises(
        UnknownName, match=r"robot 'triple_pendulum' has no parameter 'lenght'; its parameters are variant"
    ):
        registry.build("triple_pendulum", lenght=1.0)
    for bad in ({"variant": "nado"}, {"coordinates": "polar"}):
        with pytest.raises(InvalidRequest, match="it must be one of"):
            registry.build("triple_pendulum", **bad)
    with pytest.raises(InvalidRequest, match="pendulum_mass is -1; it must be a positive number"):
        registry.build("rotary_pendulum", pendulum_mass=-1)
    for bad, line in (
        ({"arm_damping": -1e-3}, r"arm_damping is -0\.001; it must be a number of at least 0"),
        ({"torque_limit": 0.0}, r"torque_limit is 0\.0; it must be a positive number"),
    ):
        with pytest.raises(InvalidRequest, match=line):
            registry.build("rotary_pendulum", **bad)
    with pytest.raises(InvalidRequest, match="use coordinates='absolute'"):
        registry.build("triple_pendulum", coordinates="joint", shift=0.1)


class Point:
    """An entry point of another package."""

    value = "theirs.robots:cart"

    def __init__(self, found: Any) -> None:
        self.found = found

    def load(self) -> Any:
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (AttributeError("no cart"), r"robot 'cart': the entry point 'theirs.robots:cart' cannot be loaded: .*no cart"),
        (3.0, "is no function; refer to one that returns a Mechanism"),
        (lambda: None, "the builder function returned a NoneType; it must return a Mechanism"),
        (
            lambda: dataclasses.replace(registry.build("triple_pendulum"), initial_q=(0.0,)),
            "the mechanism has 9 coordinates",
        ),
    ],
)
def test_a_robot_of_another_package_that_is_none_is_named_in_one_line(
    found: Any, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_entry_points", lambda: {"cart": Point(found)})
    with pytest.raises(InvalidRequest, match=says):
        registry.build("cart")


def test_the_rotary_pendulum_keeps_both_nutation_angles_at_ninety_degrees() -> None:
    system = assemble(registry.build("rotary_pendulum"))
    sim = Simulation(system)
    nutations = [system.coordinate_names.index(f"{body}.theta") for body in ("arm", "pendulum")]
    for _ in range(20):
        sim.advance(0.1)
        np.testing.assert_allclose(sim.state.q[nutations], np.pi / 2, atol=1e-9)


def test_angles_are_unwrapped_over_many_turns() -> None:
    sim = Simulation(assemble(registry.build("rotary_pendulum", arm_damping=1e-4)))
    sim.set_effort({"arm": 2e-3})
    angles = []
    for _ in range(200):
        sim.advance(0.02)
        angles.append(sim.joints()[0][0])
    assert angles[-1] > 4 * np.pi
    assert np.abs(np.diff(angles)).max() < np.pi


def test_tunables_change_while_running_and_others_are_named() -> None:
    sim = Simulation(assemble(registry.build("rotary_pendulum")), parameters={"pendulum_damping": 1e-4})
    start = sim.energy()
    sim.advance(1.0)
    damped = sim.energy()
    assert damped < start
    sim.set_parameters({"pendulum_damping": 0.0})
    sim.advance(1.0)
    assert sim.energy() == pytest.approx(damped, abs=1e-8)
    assert sim.parameters["pendulum_damping"] == 0.0
    with pytest.raises(
        UnknownName, match="no tunable parameter 'mass'; its tunable parameters are arm_damping, pendulum"
    ):
        sim.set_parameters({"mass": 1.0})


def test_bad_inputs_to_a_simulation_are_one_line_and_change_nothing() -> None:
    sim = Simulation(assemble(registry.build("rotary_pendulum", torque_limit=0.05)))
    kept = sim.snapshot().to_plain()
    for call in (
        lambda: sim.set_effort([float("nan")]),
        lambda: sim.set_effort([1.0, 2.0]),
        lambda: sim.set_effort({"wheel": 1.0}),
        lambda: sim.advance(0.00035),
        lambda: sim.advance(-1.0),
        lambda: sim.reset(q=[1.0]),
        lambda: sim.reset(v=[float("inf")] * 12),
        lambda: Simulation(sim.system, step_s=0.0),
    ):
        with pytest.raises(InvalidRequest) as caught:
            call()
        assert "\n" not in str(caught.value)
        assert sim.snapshot().to_plain() == kept
    sim.set_effort([1.0])
    assert sim.state.u.tolist() == [0.05]


@pytest.mark.parametrize("name", sorted(registry.BUILTIN))
def test_every_parameter_of_a_robot_says_what_it_is_and_what_an_open_default_stands_for(name: str) -> None:
    for parameter in registry.parameters(name):
        assert parameter.meaning, parameter
        assert parameter.default not in (None, "") or parameter.none, parameter


def test_a_robot_is_built_once_where_that_is_asked_for() -> None:
    with registry.built_once():
        first = registry.build("gibbon", links=3)
        assert registry.build("gibbon", links=3) is first
        assert registry.build("gibbon", links=2) is not first
        assert registry.build("gibbon", links=3.0).canonical_hash == first.canonical_hash
        with pytest.raises(InvalidRequest, match="links"):
            registry.build("gibbon", links=[3])
        assert registry.build("gibbon", links=3, pushable="*").pushable != first.pushable == ()
    assert registry.build("gibbon", links=3) is not first


def test_a_robot_that_is_built_once_gives_its_warnings_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def doubtful(links: int = 2) -> Mechanism:
        warnings.warn("doubtful", DescriptionWarning, stacklevel=2)
        if links != 2:
            raise InvalidRequest("wrong as well")
        return registry.build("arm_2dof")

    monkeypatch.setitem(registry.BUILTIN, "doubtful", doubtful)
    with registry.built_once():
        for _ in range(2):
            with pytest.warns(DescriptionWarning, match="doubtful"):
                registry.build("doubtful")
        with pytest.warns(DescriptionWarning, match="doubtful"), pytest.raises(InvalidRequest, match="wrong as well"):
            registry.build("doubtful", links=3)


def test_a_builder_without_a_word_about_its_parameters_has_them_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    def cart(mass: "NoSuchType" = 2.0) -> None:  # type: ignore[name-defined]  # noqa: F821, UP037
        """One of another package."""

    monkeypatch.setitem(registry.BUILTIN, "cart", cart)
    assert [(each.name, each.default, each.meaning) for each in registry.parameters("cart")] == [("mass", 2.0, "")]


@pytest.mark.parametrize("name", registry.BUILTIN)
def test_a_mechanism_shows_itself_in_one_short_line(name: str) -> None:
    mechanism = registry.build(name)
    shown = repr(mechanism)
    assert len(shown) < 150
    assert shown.startswith(
        f"<Mechanism {name!r} in {mechanism.coordinates} coordinates: bodies {len(mechanism.bodies)}"
    )


def test_the_counts_of_a_mechanism_leave_out_what_it_has_none_of() -> None:
    shown = repr(registry.build("arm_2dof"))
    assert shown == "<Mechanism 'arm_2dof' in joint coordinates: bodies 2, joints 2, actuators 2>"
