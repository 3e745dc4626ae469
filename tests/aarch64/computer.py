"""A robot's computer with an aarch64 processor, under an emulator: Debian's Python for it, and armswing's wheels.

It is a folder: a root with the packages unpacked, and what `pip install armswing[sim]` brings. Nothing of it is
installed in the system; qemu-user runs its Python as a process like any other.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "aarch64"
EMULATOR = "qemu-aarch64"
DEBIAN = ("python3", "libpython3-stdlib", "libstdc++6", "libgomp1", "zlib1g")
GLIBC = (17, 24, 26, 27, 28, 31, 34)  # that its wheels may ask for; Debian 12 has 36


@dataclass(frozen=True)
class Computer:
    """The unpacked packages, its Python's version, e.g. "3.11", and the folder of the installed wheels."""

    root: Path
    version: str
    site: Path

    @property
    def python(self) -> list[str]:
        """The command that runs its Python."""
        return [EMULATOR, "-L", str(self.root), str(self.root / "usr/bin" / f"python{self.version}")]

    def environment(self, **extra: str) -> dict[str, str]:
        """For its processes: its own standard library and packages, and a cache of kernels of its own."""
        own = {"PYTHONHOME": str(self.root / "usr"), "PYTHONPATH": str(self.site), "PYTHONDONTWRITEBYTECODE": "1"}
        return {**os.environ, **own, "XDG_CACHE_HOME": str(self.root.parent / "cache"), **extra}

    def run(self, *arguments: str, timeout_s: float = 300.0) -> str:
        """What its Python prints; RuntimeError with what it said when it failed."""
        done = subprocess.run(
            [*self.python, *arguments],
            env=self.environment(),
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        if done.returncode != 0:
            raise RuntimeError(f"exit code {done.returncode} on aarch64:\n{done.stdout}{done.stderr}")
        return done.stdout


def made() -> Computer:
    """The computer, made where it is not there yet; armswing is installed from this tree each time."""
    root, site = FOLDER / "root", FOLDER / "site"
    if not (FOLDER / "unpacked").exists():
        shutil.rmtree(FOLDER, ignore_errors=True)
        unpack_debian(root)
        (FOLDER / "unpacked").touch()
    version = max(path.name for path in (root / "usr/lib").glob("python3.*")).removeprefix("python")
    install(version, site)
    return Computer(root, version, site)


def unpack_debian(root: Path) -> None:
    """Fetch Debian's packages for arm64 with lists and state of our own, and unpack them."""
    state, cache = FOLDER / "state", FOLDER / "packages"
    (state / "lists/partial").mkdir(parents=True)
    (cache / "archives/partial").mkdir(parents=True)
    (state / "status").touch()
    options = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "APT::Sandbox::User": "",
        "Dir::State": str(state),
        "Dir::State::status": str(state / "status"),
        "Dir::Cache": str(cache),
        "Debug::NoLocking": "true",
    }
    apt = ["apt-get", "--quiet=2", *(f"-o{key}={value}" for key, value in options.items())]
    subprocess.run([*apt, "update"], check=True)
    subprocess.run([*apt, "install", "--download-only", "--yes", "--no-install-recommends", *DEBIAN], check=True)
    for package in sorted((cache / "archives").glob("*.deb")):
        subprocess.run(["dpkg-deb", "--extract", str(package), str(root)], check=True)


def install(version: str, site: Path) -> None:
    """What `pip install armswing[sim]` brings there, wheels only, and armswing as it is in this tree."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    there = [f"--platform=manylinux_2_{glibc}_aarch64" for glibc in GLIBC] + ["--platform=manylinux2014_aarch64"]
    target = ["--upgrade", "--target", str(site), "--python-version", version, "--implementation=cp", *there]
    wheels = FOLDER / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(wheels), str(ROOT)], check=True)
    (wheel,) = wheels.glob("armswing-*.whl")
    if site.exists():  # its dependencies are there
        target.append("--no-deps")
    subprocess.run([*pip, "install", *target, "--only-binary=:all:", f"{wheel}[sim]"], check=True)
