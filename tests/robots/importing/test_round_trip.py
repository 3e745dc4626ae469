"""An MJCF file that is read, written and read again gives the same mechanism, to the last bit of every number."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import mujoco
import numpy as np
import pytest

from robots import build
from robots.export import export
from sim_core.errors import DescriptionWarning
from sim_core.mechanism import Mechanism
from tests.robots.importing.suite_files import choices_for, suite_files

Write = Callable[..., str]

pytestmark = [
    pytest.mark.filterwarnings("ignore::sim_core.errors.DescriptionWarning"),
    pytest.mark.usefixtures("elsewhere"),
]


def is_read_again(mechanism: Mechanism, folder: Path) -> None:
    """Fails unless hash and start are the same after an export to MJCF and an import."""
    file = folder / "again.xml"
    file.write_text(export(mechanism, "mjcf").text)
    again = build(str(file))
    assert (again.joints, again.constraints) == (mechanism.joints, mechanism.constraints)
    assert [body.inertia for body in again.bodies] == [body.inertia for body in mechanism.bodies]
    assert again.canonical_hash == mechanism.canonical_hash
    assert (again.initial_q, again.initial_v) == (mechanism.initial_q, mechanism.initial_v)
    assert again.orientations == mechanism.orientations


# ---- files of random content


class Content:
    """Text of an MJCF file with a random tree of bodies and joints, and with constraints."""

    def __init__(self, seed: int) -> None:
        self._random, self._count = np.random.default_rng(seed), 0
        self._joints: list[str] = []
        trees = "".join(self._body(depth, top=True) for depth in (3, 2))
        angle = self._choice("degree", "radian")
        sequence = "".join(self._random.permutation([*"xyz"]).tolist())
        self.text = (
            f'<compiler angle="{angle}" eulerseq="{sequence}"/><worldbody>{trees}</worldbody>'
            f"{self._tendon()}<equality>{''.join(map(self._constraint, range(5)))}</equality>"
        )

    def _choice(self, *options: str) -> str:
        return options[self._random.integers(len(options))]

    def _numbers(self, count: int, digits: int = 0) -> str:
        """Random numbers, with few digits as in files that people write, or with all."""
        digits = digits or (3 if self._random.integers(2) else 17)
        return " ".join(f"{number:.{digits}g}" for number in self._random.normal(size=count))

    def _turn(self) -> str:
        kind = self._choice("quat", "euler", "axisangle", "xyaxes", "zaxis", "right", "none")
        counts = {"quat": 4, "euler": 3, "axisangle": 4, "xyaxes": 6, "zaxis": 3}
        if kind == "right":
            return f' quat="{self._choice("1 1 0 0", "0.5 0.5 -0.5 0.5", "0.70710678 0 0.70710678 0", "0 0 0 -1")}"'
        return f' {kind}="{self._numbers(counts[kind])}"' if kind in counts else ""

    def _joint(self, kind: str) -> str:
        name = f"j{len(self._joints)}"
        self._joints.append(name if kind in ("hinge", "slide") else "")
        if kind == "free":
            return f'<joint name="{name}" type="free" stiffness="{self._random.integers(2)}"/>'
        place = f'pos="{self._numbers(3)}" damping="0.3" stiffness="{self._random.integers(2)}"'
        if kind == "ball":
            return f'<joint name="{name}" type="ball" {place} armature="0.01"/>'
        ref = self._numbers(1) if self._random.integers(2) else "0"
        return f'<joint name="{name}" type="{kind}" axis="{self._numbers(3)}" ref="{ref}" {place} springref="0.2"/>'

    def _inertia(self) -> str:
        kind, at = self._choice("diagonal", "full", "geoms"), self._numbers(3)
        a, b, c = np.sort(self._random.uniform(0.02, 0.03, 3)).tolist()
        if kind == "diagonal":
            return f'<inertial pos="{at}" mass="{a}" diaginertia="{a} {b} {c}"{self._turn()}/>'
        if kind == "full":
            return f'<inertial pos="{at}" mass="{b}" fullinertia="{a} {b} {c} 0.001 -0.002 0.0005"/>'
        return (
            f'<geom type="capsule" size="0.05" fromto="{self._numbers(6)}" contype="0"/>'
            f'<geom type="box" size="0.1 0.2 0.05" pos="{at}"{self._turn()} conaffinity="0" contype="0"/>'
        )

    def _body(self, depth: int, top: bool = False) -> str:
        self._count += 1
        name = f"body{self._count}"
        inner = ("", "hinge", "slide", "hinge slide hinge", "slide slide", "ball")
        kinds = self._choice(*(("hinge", "slide hinge", "free") if top else inner)).split()
        joints = "".join(self._joint(kind) for kind in kinds)
        site = f'<site name="s{self._count}" pos="{self._numbers(3)}"{self._turn()}/>'
        inside = "".join(self._body(depth - 1) for _ in range(self._random.integers(1, 3) if depth else 0))
        place = f'name="{name}" pos="{self._numbers(3)}"{self._turn()}'
        return f"\n<body {place}>{joints}{self._inertia()}{site}{inside}</body>"

    def _axial(self) -> list[str]:
        return [name for name in self._joints if name]

    def _tendon(self) -> str:
        joints = "".join(f'<joint joint="{name}" coef="{self._numbers(1)}"/>' for name in self._axial()[:3])
        return f'<tendon><fixed name="sum">{joints}</fixed></tendon>' if len(self._axial()) > 1 else ""

    def _constraint(self, number: int) -> str:
        one, other = (f"{place}" for place in self._random.choice(self._count, 2, replace=False) + 1)
        kind = self._choice("connect", "weld", "sites", "weldsites", "joint", "tendon")
        if kind == "connect":
            return f'<connect name="e{number}" body1="body{one}" body2="body{other}" anchor="{self._numbers(3)}"/>'
        if kind == "weld":
            return f'<weld name="e{number}" body1="body{one}" body2="body{other}"/>'
        if kind in ("sites", "weldsites"):
            tag = "connect" if kind == "sites" else "weld"
            return f'<{tag} name="e{number}" site1="s{one}" site2="s{other}"/>'
        if len(self._axial()) < 2:
            return ""
        factors = f'polycoef="{self._numbers(2)} 0 0 0"'
        if kind == "tendon":
            return f'<tendon name="e{number}" tendon1="sum" {factors}/>'
        first, second = self._axial()[:2]
        return f'<joint name="e{number}" joint1="{first}" joint2="{second}" {factors}/>'


def random_file_is_read_again(seed: int, write_mjcf: Write, folder: Path) -> None:
    file = write_mjcf(Content(seed).text)
    mujoco.MjModel.from_xml_path(file)  # MuJoCo accepts the file
    mechanism = build(file)
    is_read_again(mechanism, folder)
    mujoco.MjModel.from_xml_string(export(mechanism, "mjcf").text)


# with 127, rounding keeps an offset from being exact; with 141, two constraints keep the same points together
@pytest.mark.parametrize("seed", [*range(10), 127, 141])
def test_a_random_file_is_the_same_mechanism_after_its_export(seed: int, write_mjcf: Write, tmp_path: Path) -> None:
    random_file_is_read_again(seed, write_mjcf, tmp_path)


@pytest.mark.soak
def test_many_random_files_are_the_same_mechanisms_after_their_exports(write_mjcf: Write, tmp_path: Path) -> None:
    for seed in range(300):
        random_file_is_read_again(seed, write_mjcf, tmp_path)


# ---- files of others


def suite_file_is_read_again(name: str, folder: Path) -> None:
    choices = choices_for(suite_files()[name])
    if isinstance(choices, str):
        pytest.skip("this file is refused")
    is_read_again(build(str(suite_files()[name]), **choices), folder)


needs_suite = pytest.mark.skipif(
    not suite_files(), reason="dm-control is not installed: pip install --no-deps dm-control"
)


@pytest.mark.soak
@needs_suite
@pytest.mark.parametrize("name", suite_files())
def test_every_file_of_the_suite_is_the_same_mechanism_after_its_export(name: str, tmp_path: Path) -> None:
    suite_file_is_read_again(name, tmp_path)


# ---- an edited export


EDITED = """
<worldbody>
  <body name="trunk" pos="0 0 1" euler="10 20 30">
    <joint name="hip" axis="0.3 1 0.2" pos="0.1 0 0" ref="25"/>
    <inertial pos="0 0 0" mass="2" diaginertia="0.02 0.03 0.025" euler="40 50 60"/>
    <site name="a" euler="20 30 50"/>
    <body name="plate" pos="0.3 0 0" euler="50 20 10">
      <inertial pos="0 0 0" mass="1" diaginertia="0.02 0.03 0.025"/>
    </body>
  </body>
  <body name="other"><joint name="knee"/><inertial pos="0 0 0" mass="2" diaginertia="0.02 0.03 0.025"/>
    <site name="b"/></body>
</worldbody>
<equality><weld name="glue" site1="a" site2="b"/></equality>
"""


def test_the_exact_numbers_are_those_that_mjcf_cannot_express(write_mjcf: Write) -> None:
    root = ElementTree.fromstring(export(build(write_mjcf(EDITED)), "mjcf").text)
    names = {each.attrib["name"] for each in root.iter("numeric")}
    assert names >= {"armswing.inertia.trunk", "armswing.joint.hip", "armswing.joint.plate.fixed", "armswing.weld.glue"}
    assert not names & {"armswing.inertia.plate", "armswing.inertia.other", "armswing.joint.knee"}


@pytest.mark.parametrize(
    ("element", "attribute", "numeric"),
    [
        ("body[@name='trunk']/inertial", "diaginertia", "inertia.trunk"),
        ("body[@name='trunk']/inertial", "quat", "inertia.trunk"),
        ("body[@name='trunk']", "pos", "joint.hip"),
        ("body[@name='trunk']", "quat", "joint.hip"),
        ("body[@name='trunk']/joint", "axis", "joint.hip"),
        ("body[@name='trunk']/joint", "pos", "joint.hip"),
        ("body[@name='trunk']/body", "quat", "joint.plate.fixed"),
        ("body[@name='trunk']/site", "quat", "weld.glue"),
    ],
)
@pytest.mark.parametrize("change", [1e-3, 1e-8])
def test_an_edited_export_is_read_as_edited(
    element: str, attribute: str, numeric: str, change: float, write_mjcf: Write, tmp_path: Path
) -> None:
    first = build(write_mjcf(EDITED))
    root = ElementTree.fromstring(export(first, "mjcf").text)
    edited = root.find(f"worldbody/{element}")
    assert edited is not None
    numbers = (
        np.array(list(map(float, edited.attrib[attribute].split())))
        + change * np.array([1.0, 0.9, -1.2, 0.5])[: len(edited.attrib[attribute].split())]
    )
    edited.set(attribute, " ".join(map(repr, numbers.tolist())))
    read = []
    for name in ("with.xml", "without.xml"):
        (tmp_path / name).write_text(ElementTree.tostring(root, encoding="unicode"))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", DescriptionWarning)
            read.append(build(str(tmp_path / name)))
        said = [str(each.message) for each in caught if "numeric" in str(each.message)]
        line = (
            rf"line \d+ \(numeric 'armswing\.{re.escape(numeric)}'\): the numbers are not read, because the file gives"
        )
        assert len(said) == (name == "with.xml")
        assert all(re.search(line, each) for each in said), said
        for custom in root.iter("custom"):
            for each in [each for each in custom if each.attrib["name"] == f"armswing.{numeric}"]:
                custom.remove(each)
    assert read[0] == read[1]
    assert read[0].canonical_hash != first.canonical_hash


def test_numbers_of_parts_that_the_file_does_not_have_are_named(write_mjcf: Write) -> None:
    names = ("inertia.none", "joint.none", "weld.none", "offset.none")
    numerics = "".join(f'<numeric name="armswing.{name}" data="1"/>' for name in names)
    with pytest.warns(DescriptionWarning) as caught:
        build(write_mjcf(f"{EDITED}<custom>{numerics}</custom>"))
    said = "\n".join(str(each.message) for each in caught)
    for name, kind in zip(names, ("body", "joint", "weld", "constraint"), strict=True):
        assert f"(numeric 'armswing.{name}'): the numbers are not read, because no {kind} has this name" in said


# ---- parts that an export keeps


def test_a_body_without_mass_that_carries_a_fixed_one_is_kept(write_mjcf: Write, tmp_path: Path) -> None:
    inner = '<body name="inner"><geom size="0.1"/></body>'
    mechanism = build(write_mjcf(f'<worldbody><body name="outer"><freejoint name="base"/>{inner}</body></worldbody>'))
    is_read_again(mechanism, tmp_path)
    assert mujoco.MjModel.from_xml_string(export(mechanism, "mjcf").text).nbody == 3
