"""URDF files of many robots: pinocchio computes the same from them, and what is read and written again is the same."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from armswing import build
from robots.export import export
from sim_core import assemble
from sim_core.errors import InvalidMechanism, InvalidRequest
from sim_core.mechanism import Mechanism
from tests.robots.importing.parts import worst_miss
from tests.robots.importing.robot_files import CHOICES, needs_files, robot_files, sample

pytest.importorskip("pinocchio", exc_type=ImportError)  # its wheel needs the system's libgomp.so.1
from tests.robots.importing.urdf_list import PAGE, is_singular, page

SMALL = 9  # joints of a robot whose kernels are compiled in a few seconds
RELATIVE = 1e-9
STATES = 100

pytestmark = [needs_files, pytest.mark.filterwarnings("ignore::sim_core.errors.DescriptionWarning")]


def read(name: str, **parameters: str) -> Mechanism | None:
    """The mechanism of a file; None for one that is refused."""
    try:
        return build(str(robot_files()[name]), **{"meshes": "boxes", **parameters})
    except InvalidRequest:
        return None


def moves_as_in_pinocchio(name: str, base: str = "fixed") -> bool:
    """Whether the file is read; fails if it moves otherwise than in pinocchio."""
    mechanism = read(name, base=base, **CHOICES)
    if mechanism is not None and is_singular(robot_files()[name]):
        with pytest.raises(InvalidMechanism, match="mass matrix is singular"):
            assemble(mechanism)
    elif mechanism is not None:
        assert worst_miss(str(robot_files()[name]), STATES, base=base, **CHOICES) < RELATIVE
    return mechanism is not None


def test_robots_of_a_sample_move_as_in_pinocchio() -> None:
    small = [name for name in sample(7, 25) if (made := read(name, **CHOICES)) and len(made.moving_joints) <= SMALL]
    assert len(small) >= 3
    for name, base in zip(small[:3], ("fixed", "free", "fixed"), strict=True):
        assert moves_as_in_pinocchio(name, base)


def test_the_page_of_the_documentation_lists_what_is_read_and_what_is_refused() -> None:
    assert PAGE.read_text() == page(), "tests/robots/importing/urdf_list.py writes it"


@pytest.mark.soak
@pytest.mark.parametrize("base", ["fixed", "free"])
@pytest.mark.parametrize("name", robot_files())
def test_every_robot_moves_as_in_pinocchio(name: str, base: str) -> None:
    if not moves_as_in_pinocchio(name, base):
        pytest.skip("this file is refused")


def round_trip(name: str, folder: Path) -> None:
    """Read, write, read: fails if names, numbers, limits, actuators or shapes differ in any bit."""
    first = read(name)
    if first is None:
        return
    file = folder / "again.urdf"
    file.write_text(export(first, "urdf").text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = build(str(file))
    assert again.canonical_hash == first.canonical_hash
    for part in ("name", "joints", "constraints", "actuators", "initial_q"):
        assert getattr(again, part) == getattr(first, part)


@pytest.mark.parametrize("name", sample(3, 8))
def test_a_robot_that_is_read_written_and_read_again_is_the_same(name: str, tmp_path: Path) -> None:
    round_trip(name, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("name", robot_files())
def test_every_robot_that_is_read_written_and_read_again_is_the_same(name: str, tmp_path: Path) -> None:
    round_trip(name, tmp_path)
