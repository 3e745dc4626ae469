"""libsodium for aarch64, for the C client with keys: `python -m tests.aarch64.sodium` fetches it into build/, once.

Debian's packages are unpacked into a folder; nothing is installed in the system.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "aarch64" / "sodium"
PREFIX = FOLDER / "root" / "usr"
CROSS, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
PACKAGES = "libsodium23", "libsodium-dev"
MISSING = "apt-get install make qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross, and make aarch64"


def fetch() -> None:
    """Fetch and unpack the packages for arm64, with lists and state of their own, unless they are there."""
    if (PREFIX / "include" / "sodium.h").exists():
        return
    shutil.rmtree(FOLDER, ignore_errors=True)
    (FOLDER / "state" / "lists" / "partial").mkdir(parents=True)
    (FOLDER / "state" / "status").touch()
    options = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "APT::Sandbox::User": "",
        "Dir::State": str(FOLDER / "state"),
        "Dir::State::status": str(FOLDER / "state" / "status"),
        "Dir::Cache": str(FOLDER / "cache"),
        "Debug::NoLocking": "true",
    }
    apt = ["apt-get", "--quiet=2", *(f"-o{key}={value}" for key, value in options.items())]
    subprocess.run([*apt, "update"], check=True, cwd=FOLDER)
    subprocess.run([*apt, "download", *PACKAGES], check=True, cwd=FOLDER)
    for package in sorted(FOLDER.glob("*.deb")):
        subprocess.run(["dpkg-deb", "--extract", str(package), str(FOLDER / "root")], check=True)


def build(folder: Path, name: str) -> Path | None:
    """Build the exported client in `folder` with keys for aarch64, and return a script that runs it under an emulator.

    name  name of the program
    Returns None where a compiler, the emulator or libsodium is missing.
    """
    library = PREFIX / "lib" / "aarch64-linux-gnu"
    if not (all(map(shutil.which, ("make", CROSS, EMULATOR))) and (library / "libsodium.a").exists()):
        return None
    flags = [f"CFLAGS=-O2 -Wall -Wextra -Werror -I{PREFIX / 'include'}", f"LDFLAGS=-static -L{library}"]
    make = ["make", "-C", str(folder), "CURVE=1", f"CC={CROSS}", *flags]
    done = subprocess.run(make, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    script = folder / "on_aarch64"
    script.write_text(f'#!/bin/sh\nexec {EMULATOR} {folder / name} "$@"\n')
    script.chmod(0o755)
    return script


if __name__ == "__main__":
    fetch()
