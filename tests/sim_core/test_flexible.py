"""Beams beside closed forms: frequencies, deflections, shapes along them, damping; what no beam can be."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from robots.registry import build
from sim_core.errors import InvalidMechanism, UnknownName
from sim_core.flexible.elements import beam_model
from sim_core.mechanism import ConstraintMode, Mechanism
from sim_core.mechanism.beams import Beam, DeflectionOutput
from sim_core.mechanism.constraints import BeamContact
from sim_core.mechanism.validation import validate
from sim_core.system import assemble

L, EI, MASS = 5.0, 590.1, 1.179
# roots of cos x cosh x = 1
CLAMPED = np.array([4.730040744862704, 7.853204624095838, 10.995607838001671])


def beam(**changes: object) -> Beam:
    plain = Beam(name="beam", length=L, elements=10, mass_per_length=MASS, bending_stiffness=EI, modes=3)
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]


def exact_frequencies(supports: str) -> np.ndarray:
    roots = CLAMPED if supports == "clamped" else np.pi * np.arange(1, 4)
    return np.asarray((roots / L) ** 2 * np.sqrt(EI / MASS))


@pytest.mark.parametrize("supports", ["clamped", "simple"])
def test_frequencies_converge_to_the_closed_form_with_the_fourth_power_of_the_element(supports: str) -> None:
    exact = exact_frequencies(supports)
    errors = [beam_model(beam(supports=supports, elements=n)).frequencies / exact - 1 for n in (8, 16)]
    assert (errors[1] > 0).all()
    np.testing.assert_allclose(np.log2(errors[0] / errors[1]), 4.0, atol=0.15)
    fine = beam_model(beam(supports=supports, elements=50)).frequencies
    np.testing.assert_allclose(fine, exact, rtol=2e-6)


def test_tension_raises_the_frequencies_as_a_string_with_stiffness_has_them() -> None:
    k = np.pi * np.arange(1, 4) / L
    for tension in (2e3, 2e4):
        model = beam_model(beam(supports="simple", elements=40, tension=tension))
        np.testing.assert_allclose(model.frequencies, np.sqrt((EI * k**4 + tension * k**2) / MASS), rtol=1e-5)


@pytest.mark.parametrize(("supports", "force", "weight"), [("clamped", 1 / 192, 1 / 384), ("simple", 1 / 48, 5 / 384)])
def test_deflections_at_the_nodes_are_those_of_beam_theory(supports: str, force: float, weight: float) -> None:
    model = beam_model(beam(supports=supports, modes=0, elements=6))
    q = model.equilibrium(11.79, [(L / 2, 400.0)])
    assert model.shape(L / 2) @ q == pytest.approx(400 * L**3 * force / EI + 11.79 * L**4 * weight / EI, rel=1e-10)
    assert model.shape(L / 2, 1) @ q == pytest.approx(0.0, abs=1e-12)
    for end in (0.0, L):
        assert model.shape(end) @ q == 0.0
        assert (abs(model.shape(end, 1) @ q) < 1e-12) == (supports == "clamped")


def test_modes_give_the_deflection_up_to_what_the_higher_ones_hold() -> None:
    full, few = beam_model(beam(modes=0, elements=50)), beam_model(beam(modes=20, elements=50))
    there = [model.shape(L / 2) @ model.equilibrium(11.79, [(L / 2, 400.0)]) for model in (full, few)]
    assert 0.0 < there[0] - there[1] < 1e-4
    everything = beam_model(beam(modes=98, elements=50))
    assert everything.shape(L / 2) @ everything.equilibrium(11.79, [(L / 2, 400.0)]) == pytest.approx(
        there[0], rel=1e-9
    )


@pytest.mark.parametrize("modes", [0, 4])
@pytest.mark.parametrize("x", [0.0, 0.31, 1.7, 2.4999, 4.9, 5.0])
def test_derivatives_of_the_shapes_are_those_of_finite_differences(x: float, modes: int) -> None:
    model = beam_model(beam(modes=modes, elements=8))
    middle, step = min(max(x, 1e-4), L - 1e-4), 1e-5
    ahead, here, behind = (model.shape(middle + k * step) for k in (1, 0, -1))
    scale = np.abs(model.coefficients).max()
    np.testing.assert_allclose(model.shape(middle, 1), (ahead - behind) / (2 * step), atol=1e-8 * scale)
    np.testing.assert_allclose(model.shape(middle, 2), (ahead - 2 * here + behind) / step**2, atol=1e-4 * scale)


def test_shapes_and_slopes_pass_from_element_to_element_without_a_jump() -> None:
    model = beam_model(beam(modes=4, elements=8))
    for node in range(1, 8):
        x = node * model.element_length
        for derivative in (0, 1):
            left, right = (model.shape(x + side * 1e-12, derivative) for side in (-1, 1))
            np.testing.assert_allclose(left, right, atol=1e-9)


def test_damping_is_the_ratio_asked_for_in_every_mode_in_both_kinds_of_coordinates() -> None:
    damped = beam(elements=6, damping_ratio=0.01, mass_damping=0.3, stiffness_damping=1e-5)
    few, full = beam_model(damped), beam_model(dataclasses.replace(damped, modes=0))
    w = few.frequencies
    np.testing.assert_allclose(np.diag(few.C), 0.02 * w + 0.3 + 1e-5 * w**2, rtol=1e-12)
    shapes = np.linalg.lstsq(full.basis, few.basis, rcond=None)[0]
    np.testing.assert_allclose(shapes.T @ full.C @ shapes, few.C, atol=1e-7)


def test_all_modes_move_the_pendulum_as_the_nodes_do() -> None:
    nodal, modal = (assemble(build("lipinski_pendulum", elements=4, modes=modes)) for modes in (0, 6))
    basis = beam_model(modal.mechanism.beams[0]).basis
    free = np.abs(basis).max(axis=1) > 0
    random = np.random.default_rng(8)
    for _ in range(5):
        q = np.array(modal.mechanism.initial_q) + 0.3 * random.normal(size=9)
        v = random.normal(size=9)
        turned = np.eye(9)
        turned[3:, 3:] = basis[free]
        a = modal.acceleration(0.0, q, v)[0]
        np.testing.assert_allclose(nodal.acceleration(0.0, turned @ q, turned @ v)[0], turned @ a, rtol=1e-7, atol=1e-7)
        ours, theirs = modal.outputs(0.0, q, v), nodal.outputs(0.0, turned @ q, turned @ v)
        assert ours == pytest.approx(theirs, rel=1e-8)


def changed(**beam_changes: object) -> Mechanism:
    plain = build("lipinski_pendulum")
    return dataclasses.replace(plain, beams=(dataclasses.replace(plain.beams[0], **beam_changes),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"length": 0.0}, "length is 0; it must be above 0"),
        ({"tension": -1.0}, "tension is -1; it must not be negative"),
        ({"elements": 5, "modes": 9}, "modes is 9; a beam of 5 elements can have at most 8 modes"),
        ({"elements": 2.5}, "elements is 2.5; it must be a whole number"),
        ({"axis": (1.0, 1.0, 0.0)}, "axis is .*; it must have length 1"),
        ({"direction": (1.0, 0.0, 0.0)}, "axis .* and direction .* are not at right angles"),
    ],
)
def test_a_beam_that_cannot_be_is_named_in_one_line(changes: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidMechanism, match=f"beam 'beam': {says}") as caught:
        validate(changed(**changes))
    assert "\n" not in str(caught.value)


def test_names_that_no_beam_or_contact_has_are_refused_with_those_there_are() -> None:
    plain = build("lipinski_pendulum")
    contact = BeamContact(name="contact", beam="rope", body="hook", dependent="drop")
    with pytest.raises(UnknownName, match="contact 'contact' has no beam 'rope'; its beams are beam"):
        validate(dataclasses.replace(plain, constraints=(contact,)))
    lost = dataclasses.replace(contact, beam="beam", dependent="fall")
    with pytest.raises(UnknownName, match="no dependent joint 'fall'; its dependent joints are slide, drop, upper"):
        validate(dataclasses.replace(plain, constraints=(lost,)))
    with pytest.raises(InvalidMechanism, match=r"x is 7.0 m; it must lie on the beam, in 0 .. 5.0 m"):
        validate(dataclasses.replace(plain, outputs=(DeflectionOutput(name="far", beam="beam", x=7.0),)))


def test_a_coordinate_along_the_beam_cannot_be_eliminated() -> None:
    plain = build("lipinski_pendulum", elements=5, modes=2)
    contact = BeamContact(name="contact", beam="beam", body="hook", dependent="slide")
    with pytest.raises(InvalidMechanism, match="'contact' cannot be solved for its dependent coordinate 'slide'"):
        assemble(dataclasses.replace(plain, constraints=(contact,)))


def test_a_partition_takes_one_contact_that_holds_in_the_one_configuration() -> None:
    plain = build("lipinski_pendulum", elements=5, modes=2)
    says = (
        "this mechanism has joint coordinates, the constraint modes on, off, 1 beam contacts and 0 other constraints; "
        "choose formulation 'schur' or"
    )
    both = (ConstraintMode(name="on"), ConstraintMode(name="off", constraints=()))
    with pytest.raises(InvalidMechanism, match=says):
        validate(dataclasses.replace(plain, constraint_modes=both))
    with pytest.raises(InvalidMechanism, match="contact 'contact', which does not hold in constraint mode 'off'"):
        validate(dataclasses.replace(plain, constraint_modes=both[1:]))
    second = BeamContact(name="second", beam="beam", body="lower_arm", dependent="lower")
    with pytest.raises(InvalidMechanism, match="constraint modes default, 2 beam contacts"):
        validate(dataclasses.replace(plain, constraints=(*plain.constraints, second)))
    validate(dataclasses.replace(plain, constraint_modes=(ConstraintMode(constraints=("contact",)),)))
