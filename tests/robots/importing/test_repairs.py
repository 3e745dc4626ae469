"""Links that move without mass and inertias that no body has are repaired on request, and named with their values."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from armswing import build
from sim_core import Simulation, assemble
from sim_core.errors import InvalidRequest, StepTooLargeWarning
from sim_core.mechanism.inertias import inertia_matrix, nearest_inertia
from tests.robots.importing.parts import joint, link
from tests.robots.importing.test_urdf_refusals import refusal, told

Write = Callable[..., str]
HINGE = joint("hinge", "a", "b")
EMPTY = '<link name="{}"/>'
INDEFINITE = 'ixx="0.02" iyy="0.03" izz="0.025" ixy="0.05" ixz="0" iyz="0"'
GIVEN = 'ixx="0.02" iyy="0.03" izz="0.025" ixy="0.001" ixz="0" iyz="0"'


def indefinite(name: str, mass: float = 1.0) -> str:
    """A link with a negative principal moment of inertia."""
    return link(name, mass).replace(GIVEN, INDEFINITE)


def moments(inertia: np.ndarray) -> list[float]:
    """Principal moments in ascending order."""
    return np.linalg.eigvalsh(inertia).tolist()


@given(st.lists(st.floats(-10.0, 10.0), min_size=6, max_size=6), st.sampled_from([0.0, 0.1]))
def test_the_nearest_inertia_is_consistent_and_no_other_is_nearer(entries: list[float], least: float) -> None:
    xx, yy, zz, xy, xz, yz = entries
    given_one = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    nearest = nearest_inertia(given_one, least)
    low, middle, high = moments(nearest)
    assert low + middle - high >= 2.0 * least - 1e-9
    # optimality on a convex cone: no consistent matrix lies further in the direction of the correction
    correction = given_one - nearest
    random = np.random.default_rng(0)
    for _ in range(20):
        axes = np.linalg.qr(random.normal(size=(3, 3)))[0]
        s = random.exponential(5.0, 3) + least
        other = axes @ np.diag(s.sum() - s) @ axes.T
        assert np.sum(correction * (other - nearest)) <= 1e-8


def test_a_consistent_inertia_stays_to_the_last_bit() -> None:
    own = np.diag([1.0, 2.0, 2.5])
    assert nearest_inertia(own) is own


def test_an_indefinite_inertia_of_a_moving_link_is_refused_and_repaired_on_request(write: Write) -> None:
    file = write(link("a"), indefinite("b"), HINGE)
    assert re.search(r"link 'b': inertia has .*; none may be negative; .*pass repair=inertia$", refusal(file))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        repaired = build(file, repair="inertia")
    note = next(str(each.message) for each in caught if "repair=inertia" in str(each.message))
    assert "(-0.02525, 0.025, 0.07525) kg m2, which no body has; the nearest consistent ones, " in note
    low, middle, high = moments(inertia_matrix(repaired.body("b")))
    assert min(low, low + middle - high) >= -1e-15


def test_an_indefinite_inertia_counts_with_the_links_on_fixed_joints(write: Write) -> None:
    heavy = write(link("a"), link("b", 50.0), indefinite("c", 1e-6), HINGE, joint("fix", "b", "c", "fixed"))
    heavy_text = heavy.replace("robot.urdf", "heavy.urdf")
    with open(heavy) as source, open(heavy_text, "w") as target:
        target.write(source.read().replace(GIVEN, GIVEN.replace("0.0", "0.9")))
    assert "with the links on fixed joints, which move with it" in " ".join(told(heavy_text))
    assemble(build(heavy_text))
    assert "none may be negative" in refusal(heavy)
    grounded = write(EMPTY.format("a"), link("b"), indefinite("c"), HINGE, joint("fix", "a", "c", "fixed"))
    assert "which have no effect: the link is fixed to the ground" in " ".join(told(grounded))
    assert "none may be negative" in refusal(grounded, base="free")


def test_missing_products_of_inertia_are_0_on_request(write: Write) -> None:
    file = write(link("a"), link("b").replace('ixy="0.001" ixz="0" iyz="0"', ""), HINGE)
    assert "pass repair=inertia for products of 0" in refusal(file)
    assert "has no ixy, ixz, iyz, read as 0, as repair=inertia asks" in " ".join(told(file, repair="inertia"))
    assert build(file, repair="inertia").body("b").inertia[3:] == (0.0, 0.0, 0.0)


def test_links_that_move_without_mass_are_named_together_and_get_a_small_one_on_request(write: Write) -> None:
    stiff = joint("two", "b", "c", axis="0 1 0", more='<dynamics damping="0.5" friction="0.2"/>')
    file = write(link("a"), EMPTY.format("b"), EMPTY.format("c"), HINGE, stiff)
    assert "the same holds for link 'c'; give the link a mass" in refusal(file)
    notes = " ".join(told(file, repair="massless"))
    assert "joint 'hinge' would move no mass of its own; the link gets 0.001 kg and 1e-06 kg m2" in notes
    assert "joint 'two' would move no mass of its own; the link gets 0.001 kg and 0.0005 kg m2" in notes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", StepTooLargeWarning)
        sim = Simulation(assemble(build(file, repair="massless")), step_s=1e-3)
        sim.advance(1.0)
    assert np.isfinite(sim.state.q).all()


def test_links_whose_inertia_does_not_suffice_are_repaired_until_the_mass_matrix_is_regular(write: Write) -> None:
    """Two hinges on one axis, and a free root link without mass that turns about the axis of its only joint."""
    point = link("c").replace(GIVEN, GIVEN.translate(str.maketrans("123456789", "0" * 9)))
    point = point.replace('<origin xyz="0.1 0 0.05"/>', "")
    same = joint("two", "b", "c").replace('<origin xyz="0.1 0.2 0.3" rpy="0.3 -0.2 0.1"/>', "")
    file = write(link("a"), EMPTY.format("b"), point, HINGE, same)
    assert "no inertia about the axis" in refusal(file)
    assemble(build(file, repair="massless"))
    rootless = write(EMPTY.format("a"), link("b"), HINGE)
    repaired = build(rootless, base="free", repair="massless")
    assemble(repaired)
    assert repaired.body("b") == build(rootless).body("b")


def test_an_unknown_repair_is_refused(write: Write) -> None:
    with pytest.raises(InvalidRequest, match="repair contains 'mass'; it may contain massless, inertia"):
        build(write(link("a"), link("b"), HINGE), repair="mass")


def test_all_errors_of_an_mjcf_file_are_named_at_once_and_repaired_in_the_same_way(
    write_mjcf: Callable[..., str],
) -> None:
    body = '<body name="{}" pos="0 0 {}"><joint name="j{}" axis="0 1 0"{}/>{}</body>'
    negative = '<inertial pos="0.1 0 0" mass="1" fullinertia="0.02 0.03 0.025 0.05 0 0"/>'
    bodies = body.format("a", 1, "a", "", negative) + body.format("b", 2, "b", "", "")
    file = write_mjcf(f"<worldbody>{bodies}</worldbody>")
    assert "none may be negative; pass repair=inertia" in refusal(file)
    assert "have no mass; give the body a mass, or the joint an armature, or pass repair=massless" in refusal(
        file, repair="inertia"
    )
    notes = " ".join(told(file, repair="massless, inertia"))
    assert "the nearest consistent ones, " in notes
    assert "the link gets 0.001 kg and 1e-06 kg m2, as repair=massless asks" in notes
    assemble(build(file, repair="massless, inertia"))
    line = refusal(write_mjcf(f"<worldbody>{bodies}{body.format('c', 3, 'c', '', negative)}</worldbody>"))
    assert line.count("none may be negative; pass repair=inertia") == 2


def test_a_link_with_inertia_and_no_mass_gets_the_smallest_mass_on_request(write: Write) -> None:
    path = write(EMPTY.format("a"), link("b", 0.0), HINGE)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert build(path, repair="massless").body("b").mass == 1e-3
    assert any("the link has inertia and no mass; it gets 0.001 kg" in str(each.message) for each in caught)
