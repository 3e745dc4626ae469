"""The wheel, installed in an environment outside of the checkout: its content, its names, and what it runs."""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

import pytest

import armswing
from tests.test_footprint import base_requirements

pytest.importorskip("hatchling", reason="hatchling builds the wheel; make test installs it")

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("armswing", "nodes", "robots", "sim_core", "viewer")
LIGHT_MB = 67.0
DIGEST = """
from armswing import read_recording
print(len(read_recording("my_damper.mcap")["rotary_pendulum/command"]["timestamp"]))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(wheel, sdist) of the checkout."""
    return build(ROOT, tmp_path_factory.mktemp("dist"))


def build(source: Path, folder: Path) -> tuple[Path, Path]:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=source, check=True, capture_output=True
    )
    return next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))


def content(wheel: Path) -> set[str]:
    return {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}


def test_the_wheel_holds_the_files_of_its_packages_and_the_launch_files_and_nothing_else(
    built: tuple[Path, Path],
) -> None:
    listed = subprocess.run(
        ["git", "ls-files", *PACKAGES, "launch"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    there = {name for name in listed if (ROOT / name).is_file()}  # the link to launch/ is none
    expected = {f"armswing/share/{name}" if name.startswith("launch/") else name for name in there}
    new = {name for name in content(built[0]) - expected if name.endswith((".py", ".toml"))}  # not committed yet
    assert content(built[0]) - new == expected
    assert {"armswing/share/launch/gibbon_cable.toml", "nodes/framework/c_client/armswing_client.h"} <= expected


def test_the_source_distribution_has_no_tests_and_builds_the_same_wheel(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    with tarfile.open(built[1]) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    folders = {path.name for path in source.iterdir() if path.is_dir()}
    assert folders == set(PACKAGES)
    assert content(build(source, tmp_path / "dist")[0]) == content(built[0])


@dataclass
class Installed:
    """An environment with the wheel, and an empty folder in which its commands run."""

    environment: Path
    folder: Path
    runtime: str

    def __post_init__(self) -> None:
        venv.create(self.environment, with_pip=False, symlinks=True)
        (self.packages,) = self.environment.glob("lib/python*/site-packages")
        self.variables = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
            "XDG_RUNTIME_DIR": self.runtime,
            "MPLBACKEND": "agg",
        }

    def install(self, wheel: Path) -> None:
        python = str(self.environment / "bin/python")
        command = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index"]
        subprocess.run([*command, str(wheel)], check=True, capture_output=True)

    def start(self, *words: str) -> subprocess.Popen[str]:
        program, *rest = words
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [str(self.environment / "bin" / program), *rest],
            cwd=self.folder,
            env=self.variables,
            stdout=pipe,
            stderr=pipe,
            text=True,
        )

    def run(self, *words: str, code: int = 0) -> str:
        """Output of a command, with its errors after it; the test fails on another exit code."""
        process = self.start(*words)
        out, err = process.communicate(timeout=400)
        assert process.returncode == code, out + err
        return out + err


@pytest.fixture(scope="module")
def runtime() -> Iterator[str]:
    folder = tempfile.mkdtemp(prefix="as")  # short: ipc paths have a limit
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def installed(built: tuple[Path, Path], runtime: str, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel in an environment that shares the libraries of this one, but not its armswing."""
    made = Installed(tmp_path_factory.mktemp("environment"), tmp_path_factory.mktemp("outside"), runtime)
    libraries = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    (made.packages / "libraries.pth").write_text("\n".join(libraries))
    made.install(built[0])
    return made


@pytest.fixture(scope="module")
def light(built: tuple[Path, Path], runtime: str, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel with the libraries that `pip install` adds without an extra, and no others."""
    made = Installed(tmp_path_factory.mktemp("light"), tmp_path_factory.mktemp("robot"), runtime)
    for name in base_requirements():
        found = distribution(name)
        for file in found.files or ():
            if not file.parts[0].startswith(".."):
                target = made.packages / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(str(found.locate_file(file)), target)
    made.install(built[0])
    return made


def test_all_of_armswing_comes_from_the_wheel(installed: Installed) -> None:
    program = f"import {', '.join(PACKAGES)}; print(*(each.__path__[0] for each in ({', '.join(PACKAGES)})))"
    places = installed.run("python", "-c", program).split()
    assert {Path(place).parent for place in places} == {installed.packages}
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert installed.run("armswing", "--version") == f"armswing {version}\n"


def test_a_launch_is_found_by_name(installed: Installed) -> None:
    shown = installed.run("armswing", "launch", "gibbon_cable", "--duration", "0.2", "--set", "sim.mode=lockstep")
    assert "gibbon, lockstep, 0.200 s in 200 steps" in shown
    assert (installed.folder / "gibbon_cable.mcap").is_file()
    assert not list((installed.packages / "armswing").rglob("*.mcap"))


def test_a_controller_of_ones_own_is_written_launched_and_read(installed: Installed) -> None:
    installed.run("armswing", "new", "controller", "my_damper")
    installed.run("armswing", "launch", "my_damper", "--duration", "0.5", "--set", "sim.mode=lockstep")
    assert installed.run("python", "-c", DIGEST) == "500\n"
    installed.run("armswing", "launch", "my_controller", "--copy")
    installed.run("armswing", "launch", "my_controller", "--duration", "0.2", "--set", "sim.mode=lockstep")


def test_the_client_library_in_c_is_written(installed: Installed) -> None:
    installed.run("armswing", "export", "client", "--lang", "c", "--output", "client")
    assert (installed.folder / "client/armswing_client.h").is_file()


@pytest.mark.soak  # a minute, and tests/nodes/research/studies reproduce the papers
def test_a_paper_is_reproduced(installed: Installed) -> None:
    installed.run("armswing", "reproduce", "schiehlen", "--quick")
    assert (installed.folder / "schiehlen/index.html").stat().st_size > 10_000


def test_a_script_that_uses_every_public_name_passes_strict_type_checks(installed: Installed) -> None:
    lines = [f"from armswing import {', '.join(armswing.__all__)}", *(f"print({name})" for name in armswing.__all__)]
    for module in ("armswing.mechanism", "armswing.messages", "armswing.client", "armswing.charmie"):
        names = names_of(module)
        assert len(names) >= 9
        lines += [f"import {module}", *(f"print({module}.{name})" for name in names)]
    lines += ["sim: Simulation = Simulation(assemble(build('rotary_pendulum')))", "reveal_type(sim.energy())"]
    (installed.folder / "script.py").write_text("\n".join(lines))
    python = str(installed.environment / "bin/python")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "script.py"],
        cwd=installed.folder,
        env=installed.variables,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert 'Revealed type is "float"' in done.stdout


def names_of(module: str) -> list[str]:
    """Names of the classes and functions of a module for users."""
    found = importlib.import_module(module)
    homes = {name: getattr(getattr(found, name), "__module__", "") or "" for name in dir(found)}
    return [name for name, home in homes.items() if home.partition(".")[0] in PACKAGES]


def test_a_light_install_is_small(light: Installed) -> None:
    size = sum(file.stat().st_size for file in light.packages.rglob("*") if file.is_file())
    assert size <= LIGHT_MB * 1e6


def test_a_node_file_and_a_client_load_nothing_heavy(installed: Installed) -> None:
    program = (
        "import sys; from armswing import Node, client, messages; from armswing.client import Client;"
        "print(sorted({'numpy', 'numba', 'casadi', 'mcap'} & set(sys.modules)))"
    )
    assert installed.run("python", "-c", program) == "[]\n"


def test_a_light_install_names_the_extra_that_a_simulation_needs(light: Installed) -> None:
    assert light.run("armswing", "launch", "my_controller", code=1).endswith(
        "pip install 'armswing[sim]' installs it\n"
    )


def test_a_controller_of_a_light_install_joins_a_launch(light: Installed, installed: Installed) -> None:
    (installed.folder / "plan.toml").write_text('[sim]\nrobot = "rotary_pendulum"\nstep_ms = 5.0\n')
    started = [installed.start("armswing", "launch", "plan.toml")]
    try:
        until(light, "armswing", "topic", "echo", "rotary_pendulum/state", "-n", "1")
        started.append(light.start("armswing", "run", "launch/examples/my_controller.py:HoldArm"))
        until(light, "armswing", "topic", "echo", "rotary_pendulum/command", "-n", "3")
        started[1].send_signal(signal.SIGINT)
        assert started[1].wait(30.0) == 0, started[1].communicate()
    finally:
        for process in started:
            process.terminate()
            process.communicate(timeout=30.0)


def until(place: Installed, *words: str) -> None:
    """Repeat a command until its exit code is 0."""
    deadline = time.monotonic() + 60.0
    while (process := place.start(*words)).wait() != 0:
        assert time.monotonic() < deadline, process.communicate()
