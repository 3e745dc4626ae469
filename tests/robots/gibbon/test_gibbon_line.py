"""The gibbon on its line: at rest, on a cable that vibrates as a string that bends, with numbers that can be tuned."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from robots.gibbon.lines import cable
from robots.gibbon.parameters import CABLE_BENDING, CABLE_LENGTH, CABLE_MASS, CABLE_ROBOT
from robots.registry import build
from sim_core.errors import InvalidMechanism, InvalidRequest
from sim_core.flexible.elements import beam_model, contact_model
from sim_core.simulation import Simulation
from sim_core.system import assemble

Hang = Callable[..., Simulation]


@pytest.mark.parametrize("start", ["both", "a", "b"])
@pytest.mark.parametrize(
    "parameters",
    [
        {"line": "bars"},
        {"line": "bars", "links": 3},
        {"line": "cable", "tension": 2e3, "mass_scale": 1.2},
        {"line": "cable", "tension": 20e3, "start_x": 11.0, "clamp_width": 0.3},
        {"line": "cable", "links": 3, "trunk": "actuated"},
    ],
    ids=str,
)
def test_it_hangs_at_rest(start: str, parameters: dict[str, Any]) -> None:
    system = assemble(build("gibbon", start=start, **parameters))
    q, v = system.mechanism.initial_q, system.mechanism.initial_v
    assert np.abs(system.acceleration(0.0, q, v)[0]).max() <= 1e-9
    assert max(system.residual(0.0, q, v)[0], key=abs) <= 1e-12
    out = system.outputs(0.0, q, v)
    weight = sum(body.mass if isinstance(body.mass, float) else body.mass.value for body in system.mechanism.bodies)
    assert out["hand_a_force_z"] + out["hand_b_force_z"] == pytest.approx(9.81 * weight, rel=1e-9)
    assert out["hand_a_force_x"] + out["hand_b_force_x"] == pytest.approx(0.0, abs=1e-8)


def test_the_cable_sags_as_a_string_under_its_weight_and_a_load() -> None:
    """Closed form: parabola, and triangle whose tip bending rounds by F / (2 T) sqrt(EI / T)."""
    mechanism = build("gibbon", start="a", start_x=8.0, modes=49)
    T, L, x, F = 5e3, CABLE_LENGTH, 8.0, 10.2 * 9.81
    expected = CABLE_MASS * 9.81 * x * (L - x) / (2 * T) + F * x * (L - x) / (L * T)
    expected -= F / (2 * T) * np.sqrt(CABLE_BENDING / T)
    assert mechanism.initial_q[1] == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize("tension", [2e3, 5e3, 20e3])
def test_the_cable_has_the_frequencies_of_a_pinned_beam_under_tension(tension: float) -> None:
    k = np.arange(1, 31) * np.pi / CABLE_LENGTH
    expected = np.sqrt((CABLE_BENDING * k**4 + tension * k**2) / CABLE_MASS)
    model = beam_model(cable(tension, 30, 0.01))
    np.testing.assert_allclose(model.frequencies, expected, rtol=1e-2)
    np.testing.assert_allclose(model.frequencies[:10], expected[:10], rtol=1e-4)
    np.testing.assert_allclose(model.K, np.diag(model.frequencies**2), rtol=1e-9)


def test_a_tension_set_while_it_runs_is_the_tension_it_is_built_with() -> None:
    """f and M at the same state, and one set of kernels for both; so with masses, damping and the place."""
    built = assemble(build("gibbon", tension=4.5e3, mass_scale=1.05, damping_ratio=0.02, start="a", start_x=7.3))
    plain = assemble(build("gibbon"))
    assert built.code_hash == plain.code_hash
    tuned = Simulation(plain, parameters=Simulation(built).parameters)
    random = np.random.default_rng(4)
    q, v = np.array(built.mechanism.initial_q), random.normal(size=built.n_q)
    p = tuned.state.p
    p[-6:] = built.default_parameters()[-6:]
    for ours, theirs in zip(built.terms(0.0, q, v), plain.terms(0.0, q, v, p=p), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)
    assert np.abs(built.terms(0.0, q, v)[1] - plain.terms(0.0, q, v)[1]).max() > 1.0


def part_of_cable(modes: int, width: float) -> float:
    """The mass that a clamp in the middle of the cable meets in an impact, kg: 1 / sum of N_k^2, as M is 1."""
    beam = dataclasses.replace(cable(5e3, 30, 0.0), elements=120, modes=modes)
    shape = contact_model(beam, width).shape(10.0)
    return float(1.0 / (shape @ shape))


def test_an_impulse_on_a_clamp_with_a_width_converges_with_the_modes() -> None:
    """Closed form: sum of N_k^2 = 2 / (mu L) sum of sinc^2(k w / 2) over the odd k -> 1 / (mu w).

    The clamp of mass m that meets the cable at 1 m/s takes the impulse m m_c / (m + m_c). A point meets less and less.
    """
    width, modes, m = 0.8, (13, 25, 50, 100), CABLE_ROBOT.hand_a.mass
    wide, point = (np.array([part_of_cable(n, w) for n in modes]) for w in (width, 0.0))
    impulses, limit = m * wide / (m + wide), m * CABLE_MASS * width / (m + CABLE_MASS * width)
    steps = np.abs(np.diff(impulses))
    assert (steps[1:] < 0.6 * steps[:-1]).all()
    assert impulses[-1] == pytest.approx(limit, rel=0.01)
    np.testing.assert_allclose(point[1:] / point[:-1], 0.5, atol=0.05)


def test_a_width_averages_the_shapes() -> None:
    """Sines of the cable's modes, averaged in closed form: times sin(k w / 2) / (k w / 2); slopes too."""
    beam, width, x = cable(5e3, 30, 0.0), 0.8, 7.13
    k = np.arange(1, 31) * np.pi / CABLE_LENGTH
    factor = np.sin(k * width / 2) / (k * width / 2)
    for derivative, tolerance in ((0, 1e-2), (1, 3e-2)):
        point, wide = (contact_model(beam, w).shape(x, derivative) for w in (0.0, width))
        scale = np.abs(point).max()
        np.testing.assert_allclose(wide[:10], (factor * point)[:10], atol=0.1 * tolerance * scale)
        np.testing.assert_allclose(wide, factor * point, atol=tolerance * scale)


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        (
            {"spacing": 1.3},
            r"spacing is 1.3 m; with arms of 0.6 and 0.6 m it must be at least 0.12 and less than 1.2 m",
        ),
        ({"line": "bars", "spacing": 0.01}, r"spacing is 0.01 m; .* at least 0.0628 and less than 0.62802 m"),
        ({"torque_limit": 5.0}, r"torque_limit is 5 N m; the elbow needs at least 15.4 N m to hold an arm of 5 kg"),
        ({"line": "bars", "torque_limit": 0.1}, r"torque_limit is 0.1 N m; the elbow needs at least 0.725 N m"),
        ({"mass_scale": 100.0}, r"torque_limit is 30 N m; the elbow needs at least 1480 N m .* 500 kg horizontal"),
        (
            {"spacing": 1.1999},
            r"spacing is 1.1999 m; one hand hangs 0.017 m below the other at the start, .* less than 1.2 m",
        ),
        (
            {"mass_scale": 3.0, "torque_limit": 50.0, "tension": 2e3},
            r"a robot of 30.2 kg needs at least 2060 N, .* 1 m",
        ),
        ({"damping_ratio": 5.0}, r"damping_ratio is 5; it must be less than 1"),
        ({"clamp_width": 1.0}, r"clamp_width is 1 m; it must be less than the spacing of the hands, 0.9 m"),
        ({"trunk": "actuated"}, r"trunk is 'actuated', but links is 2; set links to 3 for a trunk"),
        ({"tension": 500.0}, r"tension is 500 N; it must be from 2000 N to 20000 N"),
        ({"tension": 1e6}, r"tension is 1e\+06 N; .* to 20000 N"),
        ({"modes": 80}, r"modes is 80; the cable can have 1 to 49 modes"),
        ({"modes": 2.5}, r"modes is 2.5; it must be a whole number of at least 1"),
        (
            {"line": "bars", "tension": 4000.0},
            r"tension is 4000.0, but line is .bars.; leave this parameter out, or set line to .cable.",
        ),
        ({"bars": 3}, r"bars is 3, but line is .cable.; leave this parameter out, or set line to .bars."),
        ({"start_x": 19.5}, r"start_x is 19.5 m; with start 'both' it must be above 0 and less than 19.1 m"),
        (
            {"line": "bars", "start_x": 0.5},
            r"start_x is 0.5 m; .* a multiple of 0.34 m from 0 to 7.48 m",
        ),
        ({"line": "bars", "bars": 2}, r"start_x is 0.34 m; .* 2 bars .* of 0.34 m from 0 to 0 m"),
        ({"line": "rope"}, r"line is 'rope'; it must be one of cable, segments, bars"),
        ({"links": 4}, r"links is 4; it must be one of 2, 3"),
        ({"clamp_width": -0.1}, r"clamp_width is -0.1; it must be a number of at least 0"),
        ({"mass_scale": 0.0}, r"mass_scale is 0.0; it must be a positive number"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_in_one_line_with_what_could(parameters: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidRequest, match=says) as caught:
        build("gibbon", **parameters)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("robot 'gibbon': ")


@pytest.mark.parametrize(
    ("name", "feasible", "rest"),
    [("torque_limit", 15.4, {}), ("tension", 2060.0, {"mass_scale": 3.0, "torque_limit": 50.0})],
)
def test_the_number_that_a_refusal_names_is_the_least_that_is_built(
    name: str, feasible: float, rest: dict[str, Any]
) -> None:
    build("gibbon", **{name: feasible}, **rest)
    with pytest.raises(InvalidRequest, match=f"{feasible:g} N"):
        build("gibbon", **{name: 0.98 * feasible}, **rest)


@pytest.mark.parametrize("name", ["reach", "closing_speed"])
def test_a_gripper_that_could_catch_nothing_is_refused_while_it_runs(hang: Hang, name: str) -> None:
    sim = hang(line="bars")
    for value in (0.0, -1.0):
        with pytest.raises(InvalidMechanism, match=rf"\({name}\) is {value:g} m\S*; it must be above 0"):
            sim.set_parameters({name: value})


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("tension", 100.0, r"tension is 100 N; the permitted range is from 2000 to 20000 N"),
        ("tension", 1e9, r"from 2000 to 20000 N"),
        ("cable_damping", 3.0, r"cable_damping is 3; the permitted range is from 0 to 0\.999"),
        ("arm_a_mass", 0.0, r"arm_a_mass is 0 kg; the permitted range is from 0\.05 kg on"),
        ("trunk_inertia", 0.0, r"the permitted range is from 0\.00104\d+ kg m2 on"),
    ],
)
def test_what_cannot_be_is_refused_while_it_runs_as_well(hang: Hang, name: str, value: float, says: str) -> None:
    sim = hang(links=3)
    before = sim.parameters
    with pytest.raises(InvalidRequest, match=says):
        sim.set_parameters({name: value})
    assert sim.parameters == before
    sim.set_parameters({"tension": 2000.0, "cable_damping": 0.0, "arm_a_mass": 0.05})


def test_a_heavy_robots_cable_is_slackened_no_further_than_one_it_is_built_with(hang: Hang) -> None:
    sim = hang(mass_scale=5.0, torque_limit=100.0)
    with pytest.raises(InvalidRequest, match=r"from [\d.]+ to 20000 N") as caught:
        sim.set_parameters({"tension": 2500.0})
    least = float(str(caught.value).split("from ")[1].split()[0])
    assert least > 2600.0
    with pytest.raises(InvalidRequest, match="tension"):
        build("gibbon", mass_scale=5.0, torque_limit=100.0, tension=0.999 * least)


@pytest.mark.parametrize("stepper", ["rk4", "implicit_midpoint"])
def test_steppers_agree_on_a_swing_along_the_cable(hang: Hang, stepper: str) -> None:
    """Half a second at 1 ms beside RK4 at 0.1 ms."""
    ends = []
    for name, step_s in ((stepper, 1e-3), ("rk4", 1e-4)):
        sim = Simulation(hang(modes=8).system, step_s=step_s, stepper=name)
        sim.set_effort({"grip_a": 0.0, "elbow": 4.0})
        sim.advance(0.5)
        ends.append(np.array([sim.outputs()[f"hand_{hand}_{axis}"] for hand in "ab" for axis in "xz"]))
    # the hand that lets go does so a step later
    np.testing.assert_allclose(ends[0], ends[1], atol=2e-2)


def test_energy_is_kept_on_a_cable_without_damping(hang: Hang) -> None:
    sim = hang(damping_ratio=0.0)
    sim.set_effort({"grip_a": 0.0})
    sim.step(2)
    start = sim.energy()
    sim.advance(2.0)
    kinetic = sim.system.energy(sim.time, sim.state.q, sim.state.v)[0]
    assert kinetic > 1.0
    assert sim.energy() == pytest.approx(start, abs=2e-3)
