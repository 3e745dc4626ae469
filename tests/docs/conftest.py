"""Fenced blocks of the documentation's pages, and running them as a reader would."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\{[a-z-]+\} ?)?([\w./-]*)\n((?::[a-z-]+:[^\n]*\n)*)\n?(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the file of its caption ("" without one), and its text."""

    language: str
    file: str
    text: str


def blocks_of(page: Path) -> list[Block]:
    """The blocks of code on a page, in their order."""
    found = []
    for directive, language, options, text in BLOCK.findall(page.read_text()):
        if directive.strip() == "{literalinclude}":
            found.append(Block("include", language.strip(), ""))
        elif directive.strip() in ("", "{code-block}"):
            caption = re.search(r"^:caption: (.*)$", options, re.MULTILINE)
            found.append(Block(language, caption[1].replace("\\_", "_") if caption else "", text))
    return found


def changed(text: str, change: str) -> str:
    """`text` after a change: lines with "+" are new, those with "-" go, the others must be there, once."""
    lines = [line or " " for line in change.splitlines()]
    old = "".join(line[1:] + "\n" for line in lines if line[0] != "+")
    new = "".join(line[1:] + "\n" for line in lines if line[0] != "-")
    assert text.count(old) == 1, f"these lines are there {text.count(old)} times:\n{old}"
    return text.replace(old, new)


class Reader:
    """Somebody who follows a page in an empty folder: writes its files, runs its commands.

    overlay  packages of armswing that the page changes: copies in the folder, found before the installed ones
    """

    def __init__(self, folder: Path, runtime: str) -> None:
        self.folder = folder
        self.overlay: list[str] = []
        self.env = os.environ | {"XDG_RUNTIME_DIR": runtime, "PYTHONPATH": str(folder), "MPLBACKEND": "agg"}

    def write(self, block: Block) -> None:
        """The file of a block's caption."""
        file = self.folder / block.file
        file.parent.mkdir(parents=True, exist_ok=True)
        if len(Path(block.file).parts) > 1:
            (file.parent / "__init__.py").touch()
        file.write_text(block.text)

    def change(self, block: Block) -> None:
        """The change that a block makes to a file of armswing, in a copy of its package."""
        package = Path(block.file).parts[0]
        if package not in self.overlay:
            copy = ["cp", "-r", str(ROOT / package), str(self.folder / package)]
            subprocess.run(copy, check=True)
            self.overlay.append(package)
        file = self.folder / block.file
        file.write_text(changed(file.read_text(), block.text))

    def run(self, line: str, timeout: float = 110.0, codes: tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[str]:
        """A command of the page; the test fails where it does."""
        words = shlex.split(line, comments=True)
        if words[0] == "armswing":
            words = [sys.executable, "-P", "-m", "nodes.cli", *words[1:]]
        elif words[0] == ".venv/bin/python":
            words = [sys.executable, *words[1:]]
        elif words[:2] == [".venv/bin/pip", "install"]:
            self.install()
            return subprocess.CompletedProcess(words, 0, "", "")
        done = subprocess.run(words, cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=timeout)
        assert done.returncode in codes, f"{line}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr, f"{line}\n{done.stderr}"
        return done

    @contextlib.contextmanager
    def terminal(self, line: str) -> Iterator[subprocess.Popen[bytes]]:
        """A command of armswing that goes on until it is interrupted; killed at the end of the test."""
        words = shlex.split(line, comments=True)
        command = [sys.executable, "-P", "-m", "nodes.cli", *words[1:]]
        with subprocess.Popen(command, cwd=self.folder, env=self.env, stdout=subprocess.DEVNULL) as process:
            try:
                yield process
            finally:
                process.kill()

    def install(self) -> None:
        """What `pip install -e .` does without the network: metadata with the entry points of pyproject.toml."""
        project = tomllib.loads((self.folder / "pyproject.toml").read_text())["project"]
        metadata = self.folder / f"{project['name']}-{project['version']}.dist-info"
        metadata.mkdir()
        head = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
        (metadata / "METADATA").write_text(head)
        groups = project.get("entry-points", {}).items()
        text = "".join(f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()) for group, points in groups)
        (metadata / "entry_points.txt").write_text(text)


@pytest.fixture(name="blocks_of")
def _blocks_of() -> Callable[[Path], list[Block]]:
    return blocks_of


@pytest.fixture
def follow(reader: Reader) -> Callable[[Path], dict[str, str]]:
    """Follow a page, block by block: {command: what it printed}."""

    def followed(page: Path) -> dict[str, str]:
        printed = {}
        for block in blocks_of(page):
            if block.language == "diff":
                reader.change(block)
            elif block.file:
                reader.write(block)
            else:
                assert block.language == "sh", f"{page.name}: a block that is neither a file nor commands: {block.text}"
                for line in block.text.splitlines():
                    printed[line] = reader.run(line).stdout
        return printed

    return followed


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    with tempfile.TemporaryDirectory(prefix="doc-", dir="/tmp") as runtime:  # short: ipc paths have a limit
        yield Reader(tmp_path, runtime)
