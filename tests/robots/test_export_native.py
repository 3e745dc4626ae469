"""A robot's kernels as C and as object files: what they compute is what `sim_core.inverse` computes."""

from __future__ import annotations

import dataclasses
import platform
import shutil
import struct
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import sim_core
from robots.export.native import TARGETS, export_files, header, interface_of
from robots.registry import build
from sim_core.errors import InvalidRequest, UnknownName
from sim_core.mechanism import Anchored, Body, Joint, JointSpring, JointStops, Mechanism, Tunable, X
from sim_core.mechanism.quantities import CapturedParameter
from sim_core.spatial import quaternion_of_step, quaternion_product
from sim_core.system import assemble
from tests.sim_core.test_free_joints import floating

MACHINES = {"x86_64": 62, "aarch64": 183}  # e_machine of ELF
ROBOTS = ["charmie", "rotary_pendulum", "arm_2dof"]


def compiler() -> str:
    found = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if found is None:
        pytest.skip("no C compiler: apt-get install -y gcc libc6-dev")
    return found


@cache
def exported(robot: str, form: str, target: str = "x86_64") -> dict[str, bytes]:
    return export_files(build(robot), form, target)


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def tools_for(target: str) -> tuple[str, list[str]]:
    """A compiler for a target, and what its programs run under here; .ci/run installs both for aarch64."""
    if target == platform.machine():
        return compiler(), []
    cross, emulator = shutil.which(f"{target}-linux-gnu-gcc"), shutil.which(f"qemu-{target}")
    if cross is None or emulator is None:
        pytest.skip(f"no cross compiler or emulator; apt-get install gcc-{target}-linux-gnu qemu-user")
    return cross, [emulator]


def said_by_the_example(folder: Path, name: str, part: str, target: str) -> list[np.ndarray]:
    cc, emulator = tools_for(target)
    words = [cc, "-O1", f"{name}_example.c", f"{name}.{part}", "-lm", "-o", "example"]
    if part == "c":
        words[1:1] = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror"]
    if emulator:
        words.append("-static")  # the emulator then needs no library of the other computer
    subprocess.run(words, cwd=folder, check=True, capture_output=True, timeout=100)
    run = [*emulator, str(folder / "example")]
    said = subprocess.run(run, check=True, capture_output=True, text=True, timeout=20).stdout
    return [np.array(line.split(), dtype=float) for line in said.splitlines()]


def expected(mechanism: Mechanism) -> list[np.ndarray]:
    """What the example prints: efforts, accelerations, positions, rotations."""
    system = assemble(mechanism)
    numbers = np.arange(system.n_q)
    q, v, a = np.array(mechanism.initial_q) + 0.01 * (numbers + 1), 0.25 - 0.05 * numbers, 0.5 - 0.1 * numbers
    tau = sim_core.inverse_dynamics(system, q, v, a)
    places = sim_core.forward_kinematics(system, q).values()
    accelerations = sim_core.forward_dynamics(system, q, v, tau)
    return [tau, accelerations, *(np.concatenate([np.ravel(place[part]) for place in places]) for part in (0, 1))]


def assert_equal(ours: list[np.ndarray], theirs: list[np.ndarray]) -> None:
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        assert np.abs(a - b).max() <= 1e-12 * max(1.0, np.abs(b).max())


@pytest.mark.parametrize("name", ROBOTS)
def test_the_c_sources_compute_what_the_kernels_compute(name: str, tmp_path: Path) -> None:
    """Joint coordinates with and without twins; constraints and tunables. C99, no warning, libm alone."""
    said = said_by_the_example(write(tmp_path, exported(name, "c")), name, "c", platform.machine())
    assert_equal(said, expected(build(name)))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ROBOTS)
def test_an_object_computes_on_its_computer_what_the_kernels_compute_here(
    name: str, target: str, tmp_path: Path
) -> None:
    """Linked by a compiler for that computer and run there, or under an emulator of it."""
    tools_for(target)
    said = said_by_the_example(write(tmp_path, exported(name, "object", target)), name, "o", target)
    assert_equal(said, expected(build(name)))


DIFFERENTIATING = """
#include <stdio.h>
#include "{name}_derivatives.h"

int main(void)
{{
    const double q[] = {{{q}}}, v[] = {{{v}}}, tau[] = {{{tau}}}{p};
    double a[{n}], derivatives[{size}]{lam};
    {name}_forward_dynamics_derivatives(q, v, tau{with_p}, a{with_lam}, derivatives);
    for (int i = 0; i < {n}; ++i) printf("%.17g\\n", a[i]);
    for (int i = 0; i < {size}; ++i) printf("%.17g\\n", derivatives[i]);
    return 0;
}}
"""


@pytest.mark.parametrize("form", ["c", *TARGETS])
@pytest.mark.parametrize("name", [*ROBOTS, "four_bar_chain"])
def test_exported_derivatives_are_those_of_the_kernels(name: str, form: str, tmp_path: Path) -> None:
    target = platform.machine() if form == "c" else form
    cc, emulator = tools_for(target)
    system, random = assemble(build(name)), np.random.default_rng(4)
    q = np.array(system.mechanism.initial_q) + 0.1 * random.normal(size=system.n_q)
    v, u = random.normal(size=system.n_q), random.normal(size=system.n_u)
    if not system.mechanism.has_joint_coordinates:
        u *= 0.0  # their direction depends on q
    found, n = system.derivatives(0.0, q, v, u), system.n_q
    values = {"q": q, "v": v, "tau": found.f_u @ u, "p": system.default_parameters()}
    text = {key: ", ".join(map(repr, value.tolist())) for key, value in values.items()}
    text["p"], with_p = (f", p[] = {{{text['p']}}}", ", p") if text["p"] else ("", "")
    lam, with_lam = (f", lam[{system.max_rows}]", ", lam") if system.max_rows else ("", "")
    size = 3 * n * (n + system.max_rows)
    main = DIFFERENTIATING.format(name=name, n=n, size=size, lam=lam, with_lam=with_lam, with_p=with_p, **text)
    write(tmp_path, exported(name, "c") if form == "c" else exported(name, "object", target))
    (tmp_path / "main.c").write_text(main)
    words = [cc, f"{name}_derivatives.{'c' if form == 'c' else 'o'}", "main.c", "-lm", "-o", "main"]
    words += ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror"] if form == "c" else []
    subprocess.run([*words, *(["-static"] if emulator else [])], cwd=tmp_path, check=True, timeout=100)
    run = subprocess.run([*emulator, str(tmp_path / "main")], check=True, capture_output=True, text=True, timeout=20)
    said = np.array(run.stdout.split())
    expected = np.block([[found.a_q, found.a_v, found.a_tau], [found.lam_q, found.lam_v, found.lam_tau]])
    for ours, theirs in ((said[:n].astype(float), found.a), (said[n:].astype(float), expected.ravel())):
        assert np.abs(ours - theirs).max() <= 1e-10 * max(1.0, np.abs(theirs).max())


@pytest.mark.parametrize("target", TARGETS)
def test_an_object_is_for_the_computer_asked_for_and_has_the_headers_functions(target: str) -> None:
    files = exported("arm_2dof", "object", target)
    kinds = [".h", ".o", "_derivatives.h", "_derivatives.o", "_example.c"]
    assert sorted(files) == [f"arm_2dof{kind}" for kind in kinds]
    assert b"\0arm_2dof_forward_dynamics_derivatives\0" in files["arm_2dof_derivatives.o"]
    data = files["arm_2dof.o"]
    kind, machine = struct.unpack_from("<HH", data, 16)
    assert data[:6] == b"\x7fELF\x02\x01"
    assert (kind, machine) == (1, MACHINES[target])
    for name in ("inverse_dynamics", "forward_dynamics", "forward_kinematics"):
        assert f"void arm_2dof_{name}(".encode() in files["arm_2dof.h"]
        assert f"\0arm_2dof_{name}\0".encode() in data


def test_two_exports_have_the_same_bytes() -> None:
    for form in ("c", "object"):
        assert export_files(build("arm_4dof"), form) == export_files(build("arm_4dof"), form)


def test_the_header_says_order_and_units() -> None:
    text = exported("charmie", "c")["charmie.h"].decode()
    mechanism = build("charmie")
    places = [text.index(f" {joint.name} (") for joint in mechanism.moving_joints]
    assert places == sorted(places)
    for said in ("0 base_x (m)", "2 base_yaw (rad)", "#define CHARMIE_N_Q 21", "CHARMIE_LIFT = 3", "(hash "):
        assert said in text
    assert text.count("const double *") == 7


def test_what_cannot_be_exported_is_said_in_one_line() -> None:
    with pytest.raises(UnknownName, match="no target 'mips'; its targets are x86_64, aarch64"):
        export_files(build("arm_2dof"), "object", "mips")
    assert issubclass(UnknownName, InvalidRequest)


def test_beams_are_refused_by_name() -> None:
    with pytest.raises(InvalidRequest, match="'lipinski_pendulum' has beams 'beam'; C and object files support rigid"):
        export_files(build("lipinski_pendulum"), "c")


def test_a_captured_number_is_a_parameter_of_the_functions_too() -> None:
    block = Body(name="block", mass=2.0, inertia=(0.1, 0.1, 0.1, 0.0, 0.0, 0.0))
    latch = Anchored(name="latch", body="block", point=(0.0, 0.0, 0.0), axis=X, at=CapturedParameter("place", 0.25))
    mechanism = Mechanism(
        name="rail",
        coordinates="joint",
        bodies=(block,),
        joints=(Joint(name="slide", kind="prismatic", child="block", axis=X, damping=Tunable("oil", 0.5)),),
        constraints=(latch,),
        initial_q=(0.25,),
        initial_v=(0.0,),
    )
    files = export_files(mechanism, "c")
    text = files["rail.h"].decode()
    assert "#define RAIL_N_P 2" in text
    assert "0 oil = 0.5" in text
    assert "1 place = 0.25" in text
    assert "p[RAIL_N_P] = {0.5, 0.25}" in files["rail_example.c"].decode()


@pytest.mark.parametrize("loops", ["open", "closed"])
def test_the_header_says_of_loops_that_inverse_dynamics_is_without_them(loops: str) -> None:
    mechanism = build("charmie", loops=loops)
    said = header(interface_of(mechanism))
    assert ("What the actuators give is tau + J' lam" in said) == (loops == "closed")


@pytest.mark.parametrize("form", ["c", "object"])
def test_orientations_are_parameters_and_rebase_moves_rotations_into_them(form: str, tmp_path: Path) -> None:
    mechanism = floating()
    root, shoulder, elbow = mechanism.joints
    sprung = dataclasses.replace(
        shoulder, spring=JointSpring(stiffness=2.0), upper=1.0, stops=JointStops(stiffness=3.0)
    )
    mechanism = dataclasses.replace(mechanism, joints=(root, sprung, elbow))
    part = "c" if form == "c" else "o"
    said = said_by_the_example(write(tmp_path, export_files(mechanism, form)), "floating", part, platform.machine())
    assert_equal(said[:4], expected(mechanism))
    q = np.array(mechanism.initial_q) + 0.01 * np.arange(1, 11)
    for place, turning in ((0, slice(3, 6)), (4, slice(6, 9))):
        before = np.array(mechanism.orientations[place : place + 4])
        turned = quaternion_product(before, quaternion_of_step(q[turning]))
        np.testing.assert_allclose(said[4][place : place + 4], turned, atol=1e-15)
    text = (tmp_path / "floating.h").read_text()
    for line in ("0 root.x (m)", "2 root.z (m)", "0 root.qw = ", "void floating_rebase("):
        assert line in text
